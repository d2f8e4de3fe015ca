//! A checker of isolation: list-append histories, recorded by concurrent clients, searched for
//! the anomalies of Adya's thesis (as Elle does; Kingsbury and Alvaro, VLDB 2020).
//!
//! Every appended value is unique for its key and a read returns the whole list, so the order of
//! a key's versions can be read off the lists themselves. Three kinds of dependency follow: `ww`
//! (appended right after), `wr` (read what the other appended), `rw` (read the version that the
//! other then appended to). A cycle of them is an anomaly; its kinds of edges say which.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

/// A list's name.
pub type Key = i32;
/// An appended value, unique for its key.
pub type Value = i64;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appends the value to the key's list.
    Append(Key, Value),
    /// Read the list as it then was.
    Read(Key, Vec<Value>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Committed,
    /// It was refused or rolled back.
    Aborted,
    /// Nobody knows: the answer to COMMIT was lost.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its steps in order.
    pub ops: Vec<Op>,
    /// Its end.
    pub outcome: Outcome,
}

/// A violation that a history shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A value appears twice, or two reads of a key disagree about the order.
    IncompatibleOrder,
    /// A transaction does not see its own appends, or its reads of one key contradict them.
    Internal,
    /// An acknowledged append is not there in the end.
    LostAppend,
    /// G1a: read a value of an aborted transaction.
    AbortedRead,
    /// G1b: read a value that its transaction had not finished appending to.
    IntermediateRead,
    /// G0: a cycle of `ww`.
    DirtyWrite,
    /// G1c: a cycle of `ww` and `wr`.
    CircularInformationFlow,
    /// G-single: a cycle with exactly one `rw` (read skew, lost update).
    ReadSkew,
    /// A cycle in which no two `rw` are adjacent: impossible under snapshot isolation.
    NonAdjacentAntiDependency,
    /// G2-item: a cycle with two adjacent `rw` (write skew).
    WriteSkew,
}

/// One finding: the anomaly and the transactions (by index) that show it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The kind.
    pub anomaly: Anomaly,
    /// Indexes into the history.
    pub transactions: Vec<usize>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} in transactions {:?}",
            self.anomaly, self.transactions
        )
    }
}

/// Isolation levels by what they allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Read skew, lost updates and write skew may be seen.
    ReadCommitted,
    /// Snapshot isolation: only write skew may be seen.
    RepeatableRead,
    /// Nothing may be seen.
    Serializable,
}

impl Level {
    /// Whether `anomaly` may be seen at this level.
    #[must_use]
    pub fn allows(self, anomaly: Anomaly) -> bool {
        use Anomaly::{NonAdjacentAntiDependency, ReadSkew, WriteSkew};
        match self {
            Level::ReadCommitted => {
                matches!(anomaly, ReadSkew | NonAdjacentAntiDependency | WriteSkew)
            }
            Level::RepeatableRead => anomaly == WriteSkew,
            Level::Serializable => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Edge {
    Ww,
    Wr,
    Rw,
}

/// Checks `history`; `last` are the lists as read after everything had ended.
#[must_use]
pub fn check(history: &[Transaction], last: &BTreeMap<Key, Vec<Value>>) -> Vec<Finding> {
    let mut checker = Checker::new(history, last);
    checker.lists();
    checker.reads();
    checker.cycles();
    checker.findings
}

struct Checker<'a> {
    history: &'a [Transaction],
    last: &'a BTreeMap<Key, Vec<Value>>,
    /// The transaction that appended a value.
    writer: HashMap<(Key, Value), usize>,
    /// Where a value stands in the last version of its list.
    position: HashMap<(Key, Value), usize>,
    edges: BTreeSet<(usize, usize, Edge)>,
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn new(history: &'a [Transaction], last: &'a BTreeMap<Key, Vec<Value>>) -> Checker<'a> {
        let mut writer = HashMap::new();
        for (index, transaction) in history.iter().enumerate() {
            for op in &transaction.ops {
                if let Op::Append(key, value) = *op {
                    writer.insert((key, value), index);
                }
            }
        }
        let mut position = HashMap::new();
        for (&key, list) in last {
            for (i, &value) in list.iter().enumerate() {
                position.insert((key, value), i);
            }
        }
        Checker {
            history,
            last,
            writer,
            position,
            edges: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    fn found(&mut self, anomaly: Anomaly, transactions: Vec<usize>) {
        self.findings.push(Finding {
            anomaly,
            transactions,
        });
    }

    /// The final lists: duplicates, lost appends, `ww` edges.
    fn lists(&mut self) {
        for (&key, list) in self.last {
            let distinct: BTreeSet<_> = list.iter().collect();
            if distinct.len() != list.len() {
                self.found(Anomaly::IncompatibleOrder, Vec::new());
            }
            for pair in list.windows(2) {
                let ends = [pair[0], pair[1]].map(|value| self.writer.get(&(key, value)).copied());
                if let [Some(a), Some(b)] = ends {
                    self.edge(a, b, Edge::Ww);
                }
            }
        }
        for (&(key, value), &index) in &self.writer.clone() {
            let there = self.position.contains_key(&(key, value));
            match self.history[index].outcome {
                Outcome::Committed if !there => self.found(Anomaly::LostAppend, vec![index]),
                Outcome::Aborted if there => self.found(Anomaly::AbortedRead, vec![index]),
                _ => {}
            }
        }
    }

    fn edge(&mut self, from: usize, to: usize, kind: Edge) {
        if from != to {
            self.edges.insert((from, to, kind));
        }
    }

    fn reads(&mut self) {
        for index in 0..self.history.len() {
            let mut appended: HashMap<Key, Vec<Value>> = HashMap::new();
            for op in &self.history[index].ops {
                match op {
                    Op::Append(key, value) => appended.entry(*key).or_default().push(*value),
                    Op::Read(key, list) => {
                        let own = appended.get(key).cloned().unwrap_or_default();
                        self.read(index, *key, list, &own);
                    }
                }
            }
        }
    }

    /// One read: `own` is what the transaction itself had appended to the key before.
    fn read(&mut self, reader: usize, key: Key, list: &[Value], own: &[Value]) {
        let Some(others) = list.strip_suffix(own) else {
            self.found(Anomaly::Internal, vec![reader]);
            return;
        };
        for &value in others {
            match self.writer.get(&(key, value)).copied() {
                Some(writer) if writer == reader => {
                    self.found(Anomaly::Internal, vec![reader]);
                }
                Some(writer) if self.history[writer].outcome == Outcome::Aborted => {
                    self.found(Anomaly::AbortedRead, vec![reader, writer]);
                }
                _ => {}
            }
        }
        // Reads of transactions that did not commit bind nobody further.
        if self.history[reader].outcome == Outcome::Aborted {
            return;
        }
        let version = self.last.get(&key).map(Vec::as_slice).unwrap_or_default();
        if !version.starts_with(others) {
            self.found(Anomaly::IncompatibleOrder, vec![reader]);
            return;
        }
        let next = version.get(others.len()).copied();
        if let Some(last) = others.last().copied()
            && let Some(writer) = self.writer.get(&(key, last)).copied()
        {
            let next_writer = next.and_then(|v| self.writer.get(&(key, v)).copied());
            if next_writer == Some(writer) {
                self.found(Anomaly::IntermediateRead, vec![reader, writer]);
            }
            self.edge(writer, reader, Edge::Wr);
        }
        if let Some(next) = next
            && let Some(writer) = self.writer.get(&(key, next)).copied()
        {
            self.edge(reader, writer, Edge::Rw);
        }
    }

    /// The cycles, the worst kind first; a kind that implies another reports only itself.
    fn cycles(&mut self) {
        let ww = self.graph(|edge| edge == Edge::Ww);
        let informed = self.graph(|edge| edge != Edge::Rw);
        let all = self.graph(|_| true);
        let dirty = components(&ww);
        let circular = components(&informed);
        for cycle in cyclic(&dirty) {
            self.found(Anomaly::DirtyWrite, cycle);
        }
        for cycle in cyclic(&circular) {
            if !cyclic(&dirty)
                .iter()
                .any(|inner| inner.iter().all(|n| cycle.contains(n)))
            {
                self.found(Anomaly::CircularInformationFlow, cycle);
            }
        }
        let component = component_of(&components(&all), self.history.len());
        let anti: Vec<(usize, usize)> = self
            .edges
            .iter()
            .filter(|(from, to, kind)| *kind == Edge::Rw && component[*from] == component[*to])
            .map(|(from, to, _)| (*from, *to))
            .collect();
        for (from, to) in anti {
            let within = |node: usize| component[node] == component[from];
            if let Some(path) = path(&informed, to, from, within) {
                self.found(Anomaly::ReadSkew, path);
            } else if let Some(path) = self.path_without_adjacent(to, from, within) {
                self.found(Anomaly::NonAdjacentAntiDependency, path);
            } else {
                self.found(Anomaly::WriteSkew, vec![from, to]);
            }
        }
    }

    fn graph(&self, wanted: impl Fn(Edge) -> bool) -> Vec<Vec<usize>> {
        let mut graph = vec![Vec::new(); self.history.len()];
        for &(from, to, kind) in &self.edges {
            if wanted(kind) {
                graph[from].push(to);
            }
        }
        graph
    }

    /// A path from `start` (reached over `rw`) to `goal` (left over `rw`) on which no two `rw`
    /// are adjacent.
    fn path_without_adjacent(
        &self,
        start: usize,
        goal: usize,
        within: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        // Node 2n: reached over ww or wr; 2n + 1: reached over rw.
        let mut graph = vec![Vec::new(); self.history.len() * 2];
        for &(from, to, kind) in &self.edges {
            if kind == Edge::Rw {
                graph[2 * from].push(2 * to + 1);
            } else {
                graph[2 * from].push(2 * to);
                graph[2 * from + 1].push(2 * to);
            }
        }
        let found = path(&graph, 2 * start + 1, 2 * goal, |node| within(node / 2))?;
        Some(found.into_iter().map(|node| node / 2).collect())
    }
}

/// A shortest path from `start` to `goal` over nodes `within`.
fn path(
    graph: &[Vec<usize>],
    start: usize,
    goal: usize,
    within: impl Fn(usize) -> bool,
) -> Option<Vec<usize>> {
    let mut from: HashMap<usize, usize> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        if node == goal {
            let mut path = vec![goal];
            let mut at = goal;
            while at != start {
                at = from[&at];
                path.push(at);
            }
            path.reverse();
            return Some(path);
        }
        for &next in &graph[node] {
            if within(next) && next != start && !from.contains_key(&next) {
                from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

fn cyclic(components: &[Vec<usize>]) -> Vec<Vec<usize>> {
    components
        .iter()
        .filter(|component| component.len() > 1)
        .cloned()
        .collect()
}

fn component_of(components: &[Vec<usize>], nodes: usize) -> Vec<usize> {
    let mut of = vec![usize::MAX; nodes];
    for (number, component) in components.iter().enumerate() {
        for &node in component {
            of[node] = number;
        }
    }
    of
}

/// Strongly connected components (Kosaraju: reverse finishing order, then the reverse graph).
fn components(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut reverse = vec![Vec::new(); graph.len()];
    for (from, targets) in graph.iter().enumerate() {
        for &to in targets {
            reverse[to].push(from);
        }
    }
    let mut order = Vec::with_capacity(graph.len());
    let mut seen = vec![false; graph.len()];
    for start in 0..graph.len() {
        finish(graph, start, &mut seen, &mut order);
    }
    let mut seen = vec![false; graph.len()];
    let mut components = Vec::new();
    for &start in order.iter().rev() {
        let mut component = Vec::new();
        finish(&reverse, start, &mut seen, &mut component);
        if !component.is_empty() {
            components.push(component);
        }
    }
    components
}

/// Depth-first search without recursion; nodes are put into `order` as they are finished.
fn finish(graph: &[Vec<usize>], start: usize, seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut stack = vec![(start, 0)];
    while let Some((node, next)) = stack.pop() {
        match graph[node].get(next) {
            Some(&target) => {
                stack.push((node, next + 1));
                if !std::mem::replace(&mut seen[target], true) {
                    stack.push((target, 0));
                }
            }
            None => order.push(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(ops: &[Op]) -> Transaction {
        Transaction {
            ops: ops.to_vec(),
            outcome: Outcome::Committed,
        }
    }

    fn kinds(history: &[Transaction], last: &[(Key, &[Value])]) -> BTreeSet<Anomaly> {
        let last = last
            .iter()
            .map(|(key, list)| (*key, list.to_vec()))
            .collect();
        check(history, &last)
            .into_iter()
            .map(|finding| finding.anomaly)
            .collect()
    }

    use Op::{Append, Read};

    #[test]
    fn a_serial_history_is_clean() {
        let history = [
            ok(&[Append(1, 1), Read(1, vec![1])]),
            ok(&[Read(1, vec![1]), Append(1, 2), Append(2, 3)]),
            ok(&[Read(1, vec![1, 2]), Read(2, vec![3])]),
        ];
        assert!(kinds(&history, &[(1, &[1, 2]), (2, &[3])]).is_empty());
    }

    #[test]
    fn a_dirty_write_is_found() {
        let history = [
            ok(&[Append(1, 1), Append(2, 2)]),
            ok(&[Append(1, 3), Append(2, 4)]),
        ];
        let found = kinds(&history, &[(1, &[1, 3]), (2, &[4, 2])]);
        assert_eq!(found, BTreeSet::from([Anomaly::DirtyWrite]));
    }

    #[test]
    fn an_aborted_read_is_found() {
        let mut aborted = ok(&[Append(1, 1)]);
        aborted.outcome = Outcome::Aborted;
        let history = [aborted, ok(&[Read(1, vec![1])])];
        assert!(kinds(&history, &[(1, &[])]).contains(&Anomaly::AbortedRead));
    }

    #[test]
    fn an_intermediate_read_is_found() {
        let history = [ok(&[Append(1, 1), Append(1, 2)]), ok(&[Read(1, vec![1])])];
        assert!(kinds(&history, &[(1, &[1, 2])]).contains(&Anomaly::IntermediateRead));
    }

    #[test]
    fn circular_information_flow_is_found() {
        let history = [
            ok(&[Append(1, 1), Read(2, vec![2])]),
            ok(&[Append(2, 2), Read(1, vec![1])]),
        ];
        let found = kinds(&history, &[(1, &[1]), (2, &[2])]);
        assert_eq!(found, BTreeSet::from([Anomaly::CircularInformationFlow]));
    }

    #[test]
    fn read_skew_is_found_and_only_read_committed_allows_it() {
        let history = [
            ok(&[Append(1, 1), Append(2, 2)]),
            ok(&[Read(1, vec![]), Read(2, vec![2])]),
        ];
        let found = kinds(&history, &[(1, &[1]), (2, &[2])]);
        assert_eq!(found, BTreeSet::from([Anomaly::ReadSkew]));
        assert!(Level::ReadCommitted.allows(Anomaly::ReadSkew));
        assert!(!Level::RepeatableRead.allows(Anomaly::ReadSkew));
    }

    #[test]
    fn a_lost_update_is_read_skew() {
        let history = [
            ok(&[Read(1, vec![]), Append(1, 1)]),
            ok(&[Read(1, vec![]), Append(1, 2)]),
        ];
        assert!(kinds(&history, &[(1, &[1, 2])]).contains(&Anomaly::ReadSkew));
    }

    #[test]
    fn write_skew_is_found_and_repeatable_read_allows_it() {
        let history = [
            ok(&[Read(1, vec![]), Append(2, 1)]),
            ok(&[Read(2, vec![]), Append(1, 2)]),
        ];
        let found = kinds(&history, &[(1, &[2]), (2, &[1])]);
        assert_eq!(found, BTreeSet::from([Anomaly::WriteSkew]));
        assert!(Level::RepeatableRead.allows(Anomaly::WriteSkew));
        assert!(!Level::Serializable.allows(Anomaly::WriteSkew));
    }

    #[test]
    fn a_long_fork_is_found_and_repeatable_read_forbids_it() {
        // Two readers see two independent appends in opposite orders.
        let history = [
            ok(&[Append(1, 1)]),
            ok(&[Append(2, 2)]),
            ok(&[Read(1, vec![1]), Read(2, vec![])]),
            ok(&[Read(1, vec![]), Read(2, vec![2])]),
        ];
        let found = kinds(&history, &[(1, &[1]), (2, &[2])]);
        assert_eq!(found, BTreeSet::from([Anomaly::NonAdjacentAntiDependency]));
        assert!(!Level::RepeatableRead.allows(Anomaly::NonAdjacentAntiDependency));
    }

    #[test]
    fn lost_appends_duplicates_and_missing_own_writes_are_found() {
        let history = [ok(&[Append(1, 1), Read(1, vec![])])];
        let found = kinds(&history, &[(1, &[])]);
        assert_eq!(
            found,
            BTreeSet::from([Anomaly::Internal, Anomaly::LostAppend])
        );
        let history = [ok(&[Append(1, 1)])];
        assert!(kinds(&history, &[(1, &[1, 1])]).contains(&Anomaly::IncompatibleOrder));
        let history = [
            ok(&[Append(1, 1)]),
            ok(&[Append(1, 2)]),
            ok(&[Read(1, vec![2])]),
        ];
        assert!(kinds(&history, &[(1, &[1, 2])]).contains(&Anomaly::IncompatibleOrder));
    }
}
