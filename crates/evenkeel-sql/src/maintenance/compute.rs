//! The statistics of a column, worked out from a sample.
//!
//! The number of distinct values is estimated by Haas and Stokes' estimator Duj1 ("Sampling-based
//! estimation of the number of distinct values of an attribute", 1998), and the most common
//! values kept are those whose frequency in the sample cannot well be chance, as PostgreSQL does.

use evenkeel_engine::CancelFlag;

use crate::catalog::ColumnStats;
use crate::error::SqlResult;
use crate::types::{Datum, SqlType, TypeContext};
use evenkeel_types::row::{EXTERNAL_BYTES, External};

/// Wider values count as different from all others and are never kept, in bytes.
const TOO_WIDE: usize = 1024;
/// Bytes of a list as it is kept: both lists must fit into one row of the catalog.
const LIST_BYTES: usize = 3500;
/// Bytes of a frequency in the list beside the most common values.
const FREQUENCY_BYTES: usize = 12;
/// Values that are worked on between two looks at the flag that cancels.
pub const STEP: usize = 8192;
/// A number of distinct values above this share of the rows is kept as a share of them.
const DISTINCT_SHARE: f64 = 0.1;

/// Equal values of the sample.
struct Group {
    /// Where the first of them is in the sorted sample.
    first: usize,
    count: usize,
}

/// The statistics of a column whose sampled values are `values`, in the order of the rows.
/// Those that are kept outside of their rows are too wide. `total` is the number of rows of the
/// table; `target` bounds the lists.
///
/// # Errors
/// 57014
pub fn column(
    ty: SqlType,
    values: Vec<Result<Datum, External>>,
    total: f64,
    target: usize,
    cancel: &CancelFlag,
) -> SqlResult<ColumnStats> {
    let rows = values.len();
    let mut stats = ColumnStats::unplaced();
    if rows == 0 {
        return Ok(stats);
    }
    let cx = TypeContext::default();
    let Present {
        mut kept,
        width,
        too_wide,
        nulls,
    } = present(ty, values, cancel)?;
    let present = rows - nulls;
    stats.null_frac = share(nulls, rows);
    if present == 0 {
        return Ok(stats);
    }
    stats.avg_width = i32::try_from(width / present).unwrap_or(i32::MAX);
    sort(&mut kept, cancel)?;
    let groups = groups_of(&kept);
    stats.n_distinct = distinct(&groups, too_wide, (rows, nulls), total);
    let all_seen = too_wide == 0 && stats.n_distinct > 0.0;
    let kept_bytes = |value: &Datum| {
        let text = value.to_text(ty, &cx);
        let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
        text.len() + escaped.count() + 3
    };
    let mut common = most_common(&groups, (rows, total), &stats, all_seen, target);
    let sizes = common.iter().map(|&group| {
        let value = &kept[groups[group].first].1;
        kept_bytes(value) + FREQUENCY_BYTES
    });
    common.truncate(fitting(sizes));
    stats.most_common = common
        .iter()
        .map(|&group| {
            let group = &groups[group];
            (kept[group.first].1.clone(), share(group.count, rows))
        })
        .collect();
    stats.histogram = histogram(&kept, &groups, &common, target);
    let mut bounds = stats.histogram.len();
    while fitting(stats.histogram.iter().map(kept_bytes)) < stats.histogram.len() {
        bounds /= 2;
        stats.histogram = histogram(&kept, &groups, &common, bounds.saturating_sub(1));
    }
    stats.correlation = correlation(&kept);
    Ok(stats)
}

/// The values of a column that are not NULL.
#[derive(Default)]
struct Present {
    /// Those that are not too wide, with their places.
    kept: Vec<(usize, Datum)>,
    /// Bytes of all.
    width: usize,
    too_wide: usize,
    nulls: usize,
}

fn present(
    ty: SqlType,
    values: Vec<Result<Datum, External>>,
    cancel: &CancelFlag,
) -> SqlResult<Present> {
    let cx = TypeContext::default();
    let mut found = Present::default();
    for (at, value) in values.into_iter().enumerate() {
        if at % STEP == 0 {
            cancel.check()?;
        }
        let Ok(value) = value else {
            found.width += EXTERNAL_BYTES;
            found.too_wide += 1;
            continue;
        };
        if value.is_null() {
            found.nulls += 1;
            continue;
        }
        let bytes = value_width(&value, ty, &cx);
        found.width += bytes;
        if bytes > TOO_WIDE {
            found.too_wide += 1;
        } else {
            found.kept.push((at, value));
        }
    }
    Ok(found)
}

/// Sorts the values, equal ones in the order of the rows: runs first and then pairs of runs, which
/// the stable sort of the library recognises, so that a cancellation never waits for a sort of all.
fn sort(values: &mut [(usize, Datum)], cancel: &CancelFlag) -> SqlResult<()> {
    let mut width = STEP;
    loop {
        for run in values.chunks_mut(width) {
            cancel.check()?;
            run.sort_by(|a, b| a.1.compare(&b.1));
        }
        if width >= values.len() {
            return Ok(());
        }
        width *= 2;
    }
}

/// How many of values of these sizes, from the first on, fit into a list.
fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut left = LIST_BYTES;
    let fit = |size: &usize| {
        let rest = left.checked_sub(*size);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    sizes.take_while(fit).count()
}

fn share(part: usize, of: usize) -> f32 {
    (part as f64 / of as f64) as f32
}

fn value_width(value: &Datum, ty: SqlType, cx: &TypeContext) -> usize {
    match (usize::try_from(ty.wire_len()), value) {
        (Ok(fixed), _) => fixed,
        (Err(_), Datum::Text(text) | Datum::Char(text)) => text.len() + 1,
        (Err(_), Datum::Bytea(bytes)) => bytes.len() + 1,
        (Err(_), other) => other.to_text(ty, cx).len() / 2 + 3,
    }
}

fn groups_of(sorted: &[(usize, Datum)]) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut first = 0;
    for run in sorted.chunk_by(|a, b| a.1.compare(&b.1).is_eq()) {
        groups.push(Group {
            first,
            count: run.len(),
        });
        first += run.len();
    }
    groups
}

/// The number of distinct values in the table, or, negated, their share of its rows.
fn distinct(groups: &[Group], too_wide: usize, (rows, nulls): (usize, usize), total: f64) -> f32 {
    let null_frac = nulls as f64 / rows as f64;
    let repeated = groups.iter().filter(|group| group.count > 1).count();
    if repeated == 0 {
        // All different: it must be a key of the table.
        return -(1.0 - null_frac) as f32;
    }
    let d = (groups.len() + too_wide) as f64;
    let estimate = if too_wide == 0 && repeated == groups.len() {
        // Every value was seen more than once: there are probably no others.
        d
    } else {
        let once = d - repeated as f64;
        let n = (rows - nulls) as f64;
        let all = total * (1.0 - null_frac);
        let guess = n * d / ((n - once) + once * n / all.max(1.0));
        guess.clamp(d, all.max(d)).round()
    };
    if estimate > DISTINCT_SHARE * total && total > 0.0 {
        -(estimate / total) as f32
    } else {
        estimate as f32
    }
}

/// Which groups are the most common values, most common first.
fn most_common(
    groups: &[Group],
    (rows, total): (usize, f64),
    stats: &ColumnStats,
    all_seen: bool,
    target: usize,
) -> Vec<usize> {
    let mut common: Vec<usize> = (0..groups.len())
        .filter(|&at| groups[at].count > 1)
        .collect();
    common.sort_by_key(|&at| std::cmp::Reverse(groups[at].count));
    let complete = all_seen && common.len() == groups.len() && common.len() <= target;
    common.truncate(target);
    let n = rows as f64;
    if complete || total <= 1.0 || n >= total {
        return common;
    }
    let distinct = f64::from(stats.n_distinct);
    let distinct = if distinct < 0.0 {
        -distinct * total
    } else {
        distinct
    };
    // From the least common on: is it more frequent than the others would be on the average, by
    // more than chance?
    while let Some((&last, others)) = common.split_last() {
        let covered: usize = others.iter().map(|&at| groups[at].count).sum();
        let rest = (1.0 - covered as f64 / n - f64::from(stats.null_frac)).clamp(0.0, 1.0);
        let average = rest / (distinct - others.len() as f64).max(1.0);
        let count = groups[last].count as f64;
        let expected = total * count / n;
        let variance =
            n * expected * (total - expected) * (total - n) / (total * total * (total - 1.0));
        if count > average * n + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        common.pop();
    }
    common
}

/// Bounds that part the values that are not most common into ranges of as many values each.
fn histogram(
    sorted: &[(usize, Datum)],
    groups: &[Group],
    common: &[usize],
    target: usize,
) -> Vec<Datum> {
    let bounds = (groups.len() - common.len()).min(target + 1);
    if bounds < 2 {
        return Vec::new();
    }
    let mut is_common = vec![false; groups.len()];
    common.iter().for_each(|&at| is_common[at] = true);
    let rest = (0..groups.len()).filter(|&at| !is_common[at]);
    let rest: Vec<usize> = rest
        .flat_map(|at| groups[at].first..groups[at].first + groups[at].count)
        .collect();
    (0..bounds)
        .map(|at| sorted[rest[at * (rest.len() - 1) / (bounds - 1)]].1.clone())
        .collect()
}

/// Pearson's correlation between the order of the rows and that of the values.
fn correlation(sorted: &[(usize, Datum)]) -> f32 {
    let n = sorted.len() as f64;
    if sorted.len() < 2 {
        return 0.0;
    }
    let mut order: Vec<usize> = (0..sorted.len()).collect();
    order.sort_by_key(|&at| sorted[at].0);
    // Ranks and places are both the numbers below n: the same mean and variance.
    let mean = (n - 1.0) / 2.0;
    let mut rank_of_place = vec![0.0; sorted.len()];
    for (place, &rank) in order.iter().enumerate() {
        rank_of_place[place] = rank as f64;
    }
    let covariance: f64 = rank_of_place
        .iter()
        .enumerate()
        .map(|(place, rank)| (place as f64 - mean) * (rank - mean))
        .sum();
    (covariance / (n * (n * n - 1.0) / 12.0)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: SqlType, values: Vec<Datum>, total: f64, target: usize) -> ColumnStats {
        let values = values.into_iter().map(Ok).collect();
        super::column(ty, values, total, target, &CancelFlag::new()).unwrap()
    }

    fn ints(values: impl IntoIterator<Item = i32>) -> Vec<Datum> {
        values.into_iter().map(Datum::Int4).collect()
    }

    #[test]
    fn values_are_sorted_by_runs_as_they_are_at_once() {
        let values = (0..3 * STEP + 17).map(|n| (n, Datum::Int4((n * 7919 % 5000) as i32)));
        let mut sorted: Vec<_> = values.collect();
        let mut at_once = sorted.clone();
        at_once.sort_by(|a, b| a.1.compare(&b.1));
        sort(&mut sorted, &CancelFlag::new()).unwrap();
        assert!(
            sorted
                .iter()
                .map(|it| it.0)
                .eq(at_once.iter().map(|it| it.0))
        );
    }

    #[test]
    fn work_that_is_cancelled_ends() {
        let cancel = CancelFlag::new();
        cancel.cancel();
        let values = (0..10).map(|n| Ok(Datum::Int4(n))).collect();
        let error = super::column(SqlType::Int4, values, 10.0, 10, &cancel).unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "57014");
    }

    #[test]
    fn a_key_has_no_common_values_and_an_even_histogram() {
        let stats = column(SqlType::Int4, ints(0..1000), 10_000.0, 10);
        assert_eq!(stats.n_distinct, -1.0);
        assert!(stats.most_common.is_empty());
        let bounds: Vec<_> = (0..=10).map(|n| Datum::Int4(n * 999 / 10)).collect();
        assert_eq!(stats.histogram, bounds);
        assert_eq!((stats.correlation, stats.avg_width), (1.0, 4));
        let back = column(SqlType::Int4, ints((0..1000).rev()), 10_000.0, 10);
        assert_eq!(back.correlation, -1.0);
    }

    #[test]
    fn few_values_are_all_common() {
        let stats = column(SqlType::Int4, ints((0..1000).map(|n| n % 5)), 50_000.0, 100);
        assert_eq!((stats.n_distinct, stats.most_common.len()), (5.0, 5));
        assert!(stats.histogram.is_empty());
        assert!(
            stats
                .most_common
                .iter()
                .all(|(_, share)| (share - 0.2).abs() < 1e-6)
        );
        let mut values = ints((0..900).map(|_| 7));
        values.extend((0..100).map(|_| Datum::Null));
        let stats = column(SqlType::Int4, values, 1000.0, 100);
        assert_eq!((stats.null_frac, stats.n_distinct), (0.1, 1.0));
        assert_eq!(stats.most_common, [(Datum::Int4(7), 0.9)]);
        let nothing = column(SqlType::Int4, vec![Datum::Null; 9], 9.0, 100);
        assert_eq!((nothing.null_frac, nothing.n_distinct), (1.0, 0.0));
    }

    #[test]
    fn lists_of_wide_values_are_shorter_and_still_even() {
        let text = |n: usize| Datum::from(format!("{n:04}{}", "\"".repeat(400)));
        let stats = column(SqlType::Text, (0..1000).map(text).collect(), 1000.0, 100);
        let bounds = stats.histogram.len();
        assert!((3..8).contains(&bounds), "{bounds}");
        assert_eq!(stats.histogram[0], text(0));
        assert_eq!(stats.histogram[bounds - 1], text(999));
        let twice = (0..1000).map(|n| text(n / 2)).collect();
        let stats = column(SqlType::Text, twice, 1000.0, 10_000);
        assert!((2..5).contains(&stats.most_common.len()));
        let stats = column(
            SqlType::Int4,
            ints((0..30_000).map(|n| n / 3)),
            30_000.0,
            10_000,
        );
        let common = stats.most_common.len();
        assert!((100..250).contains(&common), "{common}");
        assert!(stats.histogram.len() > 200);
    }

    #[test]
    fn only_values_that_stand_out_are_common() {
        // One value is a fifth of the rows, the others occur once or twice.
        let values = (0..3000).map(|n| if n % 5 == 0 { -1 } else { n / 2 });
        let stats = column(SqlType::Int4, ints(values), 300_000.0, 100);
        assert_eq!(stats.most_common.len(), 1, "{:?}", stats.most_common);
        assert_eq!(stats.most_common[0].0, Datum::Int4(-1));
        assert_eq!(stats.histogram.len(), 101);
        assert!(!stats.histogram.contains(&Datum::Int4(-1)));
        let distinct = f64::from(stats.n_distinct);
        assert!(distinct > 1_000.0 && distinct < 30_000.0, "{distinct}");
    }
}
