//! Gaps of the log: positions that no record lies at, and none ever will.

use std::fmt;

use crate::ids::Lsn;

/// Positions that a start after an unclean end has passed over. Log was perhaps written there, and
/// has been lost: a page whose LSN lies here is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Where the log before it ended.
    pub start: Lsn,
    /// Where it goes on: the start of a segment.
    pub end: Lsn,
}

impl Gap {
    /// The reason why a page with an LSN in this gap is damaged.
    pub(crate) fn lost(self, lsn: Lsn) -> String {
        format!("its LSN is {lsn}, in {self}: log has been lost")
    }

    fn len(self) -> u64 {
        self.end.distance_from(self.start)
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log's gap from {} to {}", self.start, self.end)
    }
}

/// The gaps of a log, ascending. No two of them overlap or adjoin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gaps(Vec<Gap>);

impl Gaps {
    /// The gaps with these bounds; `None` unless they are ascending, and no two adjoin.
    #[must_use]
    pub fn from_ascending(gaps: Vec<Gap>) -> Option<Gaps> {
        let in_order = gaps.windows(2).all(|two| two[0].end < two[1].start);
        let sound = in_order && gaps.iter().all(|gap| gap.start < gap.end);
        sound.then_some(Gaps(gaps))
    }

    /// All of them, ascending.
    #[must_use]
    pub fn list(&self) -> &[Gap] {
        &self.0
    }

    /// The newest one.
    #[must_use]
    pub fn last(&self) -> Option<Gap> {
        self.0.last().copied()
    }

    /// Adds a gap, and joins it to those that it adjoins. One that overlaps another is not added.
    pub fn add(&mut self, gap: Gap) {
        let at = self.0.partition_point(|other| other.start < gap.start);
        let end_before = at.checked_sub(1).map(|at| self.0[at].end);
        let start_behind = self.0.get(at).map(|gap| gap.start);
        let overlaps = end_before.is_some_and(|end| end > gap.start)
            || start_behind.is_some_and(|start| start < gap.end);
        if overlaps || gap.start >= gap.end {
            return;
        }
        self.0.insert(at, gap);
        if start_behind == Some(gap.end) {
            self.0[at].end = self.0.remove(at + 1).end;
        }
        if end_before == Some(gap.start) {
            self.0[at - 1].end = self.0.remove(at).end;
        }
    }

    /// The gaps that begin at `lsn` or before.
    fn until(&self, lsn: Lsn) -> &[Gap] {
        &self.0[..self.0.partition_point(|gap| gap.start <= lsn)]
    }

    /// The gap that `lsn` lies in.
    #[must_use]
    pub fn at(&self, lsn: Lsn) -> Option<Gap> {
        self.until(lsn).last().copied().filter(|gap| lsn < gap.end)
    }

    /// The gap behind which the log goes on at `lsn`.
    #[must_use]
    pub fn before(&self, lsn: Lsn) -> Option<Gap> {
        self.until(lsn).last().copied().filter(|gap| lsn == gap.end)
    }

    /// Whether a gap begins behind `from` and before `to`.
    #[must_use]
    pub fn begins_within(&self, from: Lsn, to: Lsn) -> bool {
        let next = self.0.get(self.until(from).len());
        next.is_some_and(|gap| gap.start < to)
    }

    /// Bytes of log from `from` to `to`; zero when `to` is not behind `from`.
    #[must_use]
    pub fn log_between(&self, from: Lsn, to: Lsn) -> u64 {
        let clip = |gap: &Gap| Gap {
            start: gap.start.max(from),
            end: gap.end.min(to),
        };
        let passed = self.until(to).iter().rev();
        let passed = passed.take_while(|gap| gap.end > from);
        let gaps: u64 = passed.map(|gap| clip(gap).len()).sum();
        to.distance_from(from).saturating_sub(gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gaps and stretches of log, alternating, from the first gap's start on.
    fn gaps(start: u64, lengths: &[(u64, u64)]) -> Gaps {
        let (mut gaps, mut at) = (Gaps::default(), start);
        for (gap, log) in lengths {
            let end = Lsn(at + gap);
            gaps.add(Gap {
                start: Lsn(at),
                end,
            });
            at = end.0 + log;
        }
        gaps
    }

    fn some() -> impl Strategy<Value = Gaps> {
        let lengths = prop::collection::vec((1..20u64, 0..9u64), 0..8);
        (0..10u64, lengths).prop_map(|(start, lengths)| gaps(start, &lengths))
    }

    proptest! {
        /// Every answer is that of counting positions one by one.
        #[test]
        fn log_is_what_lies_in_no_gap(gaps in some(), from in 0..200u64, to in 0..200u64) {
            let has = |gap: &Gap, at: u64| gap.start.0 <= at && at < gap.end.0;
            let inside = |at: u64| gaps.list().iter().any(|gap| has(gap, at));
            let log = (from..to).filter(|at| !inside(*at)).count() as u64;
            prop_assert_eq!(gaps.log_between(Lsn(from), Lsn(to)), log);
            prop_assert_eq!(gaps.at(Lsn(from)).is_some(), inside(from));
            let begins = gaps.list().iter().any(|gap| from < gap.start.0 && gap.start.0 < to);
            prop_assert_eq!(gaps.begins_within(Lsn(from), Lsn(to)), begins);
            let before = gaps.list().iter().find(|gap| gap.end.0 == from).copied();
            prop_assert_eq!(gaps.before(Lsn(from)), before);
        }

        /// Distances add up, whatever lies between.
        #[test]
        fn distances_add_up(gaps in some(), mut at in prop::array::uniform3(0..200u64)) {
            at.sort_unstable();
            let [a, b, c] = at.map(Lsn);
            let sum = gaps.log_between(a, b) + gaps.log_between(b, c);
            prop_assert_eq!(gaps.log_between(a, c), sum);
        }

        /// However they came about, they are in order and apart.
        #[test]
        fn gaps_that_are_added_are_in_order_and_apart(
            gaps in some(),
            start in 0..200u64,
            len in 1..50u64,
        ) {
            let mut more = gaps.clone();
            let gap = Gap { start: Lsn(start), end: Lsn(start + len) };
            more.add(gap);
            prop_assert_eq!(Gaps::from_ascending(more.list().to_vec()), Some(more.clone()));
            let is_new = gaps.log_between(gap.start, gap.end) == len;
            let added = more.log_between(Lsn::ZERO, Lsn(999));
            let before = gaps.log_between(Lsn::ZERO, Lsn(999));
            prop_assert_eq!(before - added, if is_new { len } else { 0 });
        }
    }

    #[test]
    fn bounds_out_of_order_are_refused() {
        let gap = |start, end| Gap {
            start: Lsn(start),
            end: Lsn(end),
        };
        for refused in [
            vec![gap(5, 5)],
            vec![gap(7, 5)],
            vec![gap(10, 20), gap(20, 30)],
            vec![gap(10, 20), gap(15, 30)],
            vec![gap(30, 40), gap(10, 20)],
        ] {
            assert_eq!(Gaps::from_ascending(refused.clone()), None, "{refused:?}");
        }
        let taken = vec![gap(10, 20), gap(21, 30)];
        assert!(Gaps::from_ascending(taken).is_some());
    }
}
