//! A table's statistics from vacuum and analyze: `pg_class`' figures and `pg_statistic`.

use std::sync::{Arc, OnceLock};

use evenkeel_engine::{Tid, Xid};
use evenkeel_planner::relation::ColumnStatistics;

use super::fields::{Fields, damaged};
use super::type_info::{of_definition, with_elements};
use super::{NOWHERE, Oid};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType, TypeContext};

/// Statistics of a table. The names are those of `pg_class`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RelationStats {
    /// Blocks of the heap.
    pub relpages: i32,
    /// Live rows; -1 when never counted.
    pub reltuples: f32,
    /// All-visible blocks.
    pub relallvisible: i32,
    /// All-frozen blocks.
    pub relallfrozen: i32,
    /// Every id left unfrozen in the table is at or above this.
    pub relfrozenxid: u64,
    /// By column; `None` for one that was never analyzed.
    pub columns: Vec<Option<Arc<ColumnStats>>>,
}

impl RelationStats {
    /// Those of an empty table, into which nothing older than `frozen` can come.
    pub fn new(frozen: Xid) -> RelationStats {
        RelationStats {
            reltuples: -1.0,
            relfrozenxid: frozen.get(),
            ..RelationStats::default()
        }
    }

    /// The statistics of a column.
    pub fn column(&self, at: usize) -> Option<&ColumnStats> {
        self.columns.get(at)?.as_deref()
    }
}

/// Statistics of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStats {
    /// Share of NULLs.
    pub null_frac: f32,
    /// Mean width of the values in bytes.
    pub avg_width: i32,
    /// How many different values: a number, or, negated, a share of the rows.
    pub n_distinct: f32,
    /// How far the order of the rows is that of the values, from -1 to 1.
    pub correlation: f32,
    /// The most common values, most common first, and their shares of the rows.
    pub most_common: Vec<(Datum, f32)>,
    /// Bounds of equally frequent ranges of the values that are not most common.
    pub histogram: Vec<Datum>,
    /// The same as the planner reads it; made when it is first asked for.
    pub(crate) planned: OnceLock<Arc<ColumnStatistics>>,
    /// Its row in `pg_statistic`.
    pub(crate) place: Tid,
}

impl ColumnStats {
    /// Statistics that are not in the catalog yet.
    pub(crate) fn unplaced() -> ColumnStats {
        ColumnStats {
            null_frac: 0.0,
            avg_width: 0,
            n_distinct: 0.0,
            correlation: 0.0,
            most_common: Vec::new(),
            histogram: Vec::new(),
            planned: OnceLock::new(),
            place: NOWHERE,
        }
    }

    /// The least and the greatest value seen.
    pub fn bounds(&self) -> Option<(&Datum, &Datum)> {
        let common = self.most_common.iter().map(|(value, _)| value);
        let mut all = common.chain(&self.histogram);
        let first = all.next()?;
        Some(all.fold((first, first), |(low, high), value| {
            (
                if value.compare(low).is_lt() {
                    value
                } else {
                    low
                },
                if value.compare(high).is_gt() {
                    value
                } else {
                    high
                },
            )
        }))
    }

    /// The most common values as the text of an array, or `None` if there are none.
    pub fn most_common_text(&self, ty: SqlType) -> Option<String> {
        let values = self.most_common.iter().map(|(value, _)| value.clone());
        shown(ty, values)
    }

    /// Their frequencies as the text of an array.
    pub fn frequencies_text(&self) -> Option<String> {
        let shares = self.most_common.iter().map(|(_, share)| share.to_string());
        (!self.most_common.is_empty()).then(|| array_text(shares))
    }

    /// The histogram's bounds as the text of an array.
    pub fn histogram_text(&self, ty: SqlType) -> Option<String> {
        shown(ty, self.histogram.iter().cloned())
    }

    pub(super) fn row(&self, table: Oid, attnum: i16, ty: SqlType) -> Vec<Datum> {
        let stored = |text: String| Datum::Text(text);
        let values = |values: &mut dyn Iterator<Item = &Datum>| {
            let values: Vec<Datum> = values.map(as_stored).collect();
            values_text(stored_as(ty), &values.iter().collect::<Vec<_>>())
        };
        let shares = self.frequencies_text();
        vec![
            Datum::Oid(table),
            Datum::Int4(i32::from(attnum)),
            Datum::Float4(self.null_frac),
            Datum::Int4(self.avg_width),
            Datum::Float4(self.n_distinct),
            Datum::Float4(self.correlation),
            stored(values(&mut self.most_common.iter().map(|(value, _)| value))),
            stored(shares.unwrap_or_else(|| "{}".into())),
            stored(values(&mut self.histogram.iter())),
        ]
    }

    /// From the parts of its row; `None` if they make no sense.
    pub(super) fn from_stored(
        ty: SqlType,
        (null_frac, avg_width, n_distinct, correlation): (f32, i32, f32, f32),
        [values, shares, bounds]: [&str; 3],
        place: Tid,
    ) -> Option<ColumnStats> {
        let cx = TypeContext::default();
        let parsed = |text: &str| -> Option<Vec<Datum>> {
            let items = array_items(text)?.into_iter();
            items
                .map(|item| Datum::parse_text(stored_as(ty), &item, &cx).ok())
                .map(|value| Some(of_definition(value?, ty)))
                .collect()
        };
        let values = parsed(values)?;
        let shares = array_items(shares)?.into_iter();
        let shares: Vec<f32> = shares
            .map(|item| item.parse().ok())
            .collect::<Option<_>>()?;
        if values.len() != shares.len() {
            return None;
        }
        Some(ColumnStats {
            null_frac,
            avg_width,
            n_distinct,
            correlation,
            most_common: values.into_iter().zip(shares).collect(),
            histogram: parsed(bounds)?,
            planned: OnceLock::new(),
            place,
        })
    }
}

/// The type that values are stored as: the places of labels, which get other texts.
fn stored_as(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Enum(_) => SqlType::Int8,
        SqlType::Array(SqlType::Enum(_), _) => SqlType::array(&SqlType::Int8),
        _ => ty,
    }
}

/// The value as it is stored.
fn as_stored(value: &Datum) -> Datum {
    match value {
        Datum::Enum(value) => Datum::Int8(value.position),
        Datum::Array(array) => with_elements(array, as_stored).unwrap_or_else(|| value.clone()),
        _ => value.clone(),
    }
}

/// The text of an array of values, or `None` if there are none.
fn shown(ty: SqlType, values: impl Iterator<Item = Datum>) -> Option<String> {
    let values: Vec<Datum> = values.map(|value| of_definition(value, ty)).collect();
    (!values.is_empty()).then(|| values_text(ty, &values.iter().collect::<Vec<_>>()))
}

fn values_text(ty: SqlType, values: &[&Datum]) -> String {
    let cx = TypeContext::default();
    array_text(values.iter().map(|value| value.to_text(ty, &cx)))
}

/// The text of an array of these items.
fn array_text(items: impl Iterator<Item = String>) -> String {
    let mut text = String::from("{");
    for (at, item) in items.enumerate() {
        if at > 0 {
            text.push(',');
        }
        let special = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}' | '"' | '\\');
        if item.is_empty() || item.eq_ignore_ascii_case("null") || item.contains(special) {
            text.push('"');
            for c in item.chars() {
                if matches!(c, '"' | '\\') {
                    text.push('\\');
                }
                text.push(c);
            }
            text.push('"');
        } else {
            text.push_str(&item);
        }
    }
    text.push('}');
    text
}

/// The items of such a text.
fn array_items(text: &str) -> Option<Vec<String>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if inner.is_empty() {
        return Some(items);
    }
    let mut item = String::new();
    let mut quoted = false;
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => item.push(characters.next()?),
            '"' => quoted = !quoted,
            ',' if !quoted => items.push(std::mem::take(&mut item)),
            c => item.push(c),
        }
    }
    items.push(item);
    (!quoted).then_some(items)
}

/// A column's statistics from the rest of its row of `pg_statistic`.
pub(super) fn read_column_stats(
    place: Tid,
    ty: SqlType,
    mut fields: Fields,
) -> SqlResult<ColumnStats> {
    let (null_frac, avg_width) = (fields.float4()?, fields.int4()?);
    let (n_distinct, correlation) = (fields.float4()?, fields.float4()?);
    let lists = [fields.text()?, fields.text()?, fields.text()?];
    ColumnStats::from_stored(
        ty,
        (null_frac, avg_width, n_distinct, correlation),
        lists.each_ref().map(String::as_str),
        place,
    )
    .ok_or_else(|| damaged("pg_statistic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_statistics_survive_being_stored() {
        let text = |value: &str| Datum::Text(value.into());
        let stats = ColumnStats {
            null_frac: 0.25,
            avg_width: 9,
            n_distinct: -0.5,
            correlation: 0.75,
            most_common: vec![
                (text("a, \"b\""), 0.125),
                (text(""), 0.1),
                (text("NULL"), 0.05),
            ],
            histogram: vec![text("\\"), text("x y"), text("{}")],
            planned: OnceLock::new(),
            place: NOWHERE,
        };
        let row = stats.row(7, 2, SqlType::Text);
        let texts: Vec<&str> = row[6..].iter().filter_map(Datum::as_str).collect();
        let lists = [texts[0], texts[1], texts[2]];
        let back = ColumnStats::from_stored(SqlType::Text, (0.25, 9, -0.5, 0.75), lists, NOWHERE);
        assert_eq!(back.as_ref(), Some(&stats));
        assert_eq!(stats.bounds(), Some((&text(""), &text("{}"))));
        let wrong = ["{a}", "{}", "{}"];
        assert!(
            ColumnStats::from_stored(SqlType::Text, (0.0, 0, 0.0, 0.0), wrong, NOWHERE).is_none()
        );
    }
}
