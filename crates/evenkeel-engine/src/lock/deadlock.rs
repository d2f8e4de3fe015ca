//! The search for cycles of waiting transactions.
//!
//! Its cost is linear in the waits that it meets. A queue of `n` waiters has up to `n²` edges, as
//! each waits for all it conflicts with ahead; they are represented by helper nodes, two edges
//! each: "whoever conflicts with this mode at or before this place of the queue".

use std::collections::{HashMap, VecDeque};

use smallvec::SmallVec;

use super::table::{LockTable, QueueView};
use super::wait::WaitFor;
use super::xids::XidTable;
use super::{LockKey, Mode, TxnNumber};

/// A cycle: each transaction waits for the next, the last for the first.
#[derive(Debug)]
pub(super) struct Cycle(pub(super) Vec<(TxnNumber, WaitFor)>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Node {
    Txn(TxnNumber),
    /// The holders of the lock that conflict with the mode.
    Holders(LockKey, Mode),
    /// The waiters up to this place of the lock's queue that conflict with the mode.
    Ahead(LockKey, Mode, usize),
}

/// A lock's holders and queue, and where in it each transaction stands.
struct Queue {
    view: QueueView,
    places: HashMap<TxnNumber, usize>,
}

type Successors = SmallVec<[Node; 4]>;

/// The part of the graph that can be reached from some waits.
pub(super) struct Search<'a, F, P> {
    wait_of: F,
    partner_of: P,
    table: &'a LockTable,
    xids: &'a XidTable,
    queues: HashMap<LockKey, Queue>,
    numbers: HashMap<Node, usize>,
    nodes: Vec<Node>,
    forward: Vec<SmallVec<[usize; 2]>>,
    backward: Vec<SmallVec<[usize; 2]>>,
    /// Edges to and from nodes that can be in a cycle, or `None` for a node that cannot.
    degrees: Vec<Option<(usize, usize)>>,
}

impl<'a, F, P> Search<'a, F, P>
where
    F: Fn(TxnNumber) -> Option<WaitFor>,
    P: Fn(TxnNumber) -> Option<TxnNumber>,
{
    pub(super) fn new(
        (wait_of, partner_of): (F, P),
        table: &'a LockTable,
        xids: &'a XidTable,
    ) -> Self {
        Search {
            wait_of,
            partner_of,
            table,
            xids,
            queues: HashMap::new(),
            numbers: HashMap::new(),
            nodes: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
            degrees: Vec::new(),
        }
    }

    /// Collects what `starts` wait for, directly and indirectly, and leaves out what no cycle can
    /// pass through.
    pub(super) fn explore(&mut self, starts: &[TxnNumber]) {
        for txn in starts {
            self.number(Node::Txn(*txn));
        }
        let mut at = 0;
        while let Some(node) = self.nodes.get(at).copied() {
            for next in self.successors(node) {
                let next = self.number(next);
                self.forward[at].push(next);
                self.backward[next].push(at);
            }
            at += 1;
        }
        let degree = |at: usize| Some((self.backward[at].len(), self.forward[at].len()));
        self.degrees = (0..self.nodes.len()).map(degree).collect();
        let ends = |at: &usize| self.forward[*at].is_empty() || self.backward[*at].is_empty();
        let ends: Vec<usize> = (0..self.nodes.len()).filter(ends).collect();
        self.strip(ends);
    }

    fn number(&mut self, node: Node) -> usize {
        *self.numbers.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.forward.push(SmallVec::new());
            self.backward.push(SmallVec::new());
            self.nodes.len() - 1
        })
    }

    /// Removes nodes, and then those that are left without an edge to or from another.
    fn strip(&mut self, mut ends: Vec<usize>) {
        while let Some(at) = ends.pop() {
            if self.degrees[at].take().is_none() {
                continue;
            }
            for next in &self.forward[at] {
                if let Some((incoming, _)) = &mut self.degrees[*next] {
                    *incoming -= 1;
                    if *incoming == 0 {
                        ends.push(*next);
                    }
                }
            }
            for previous in &self.backward[at] {
                if let Some((_, outgoing)) = &mut self.degrees[*previous] {
                    *outgoing -= 1;
                    if *outgoing == 0 {
                        ends.push(*previous);
                    }
                }
            }
        }
    }

    /// Takes a transaction out of the graph: its wait is to end.
    pub(super) fn remove(&mut self, txn: TxnNumber) {
        if let Some(at) = self.numbers.get(&Node::Txn(txn)) {
            self.strip(vec![*at]);
        }
    }

    /// A shortest cycle through `txn`, if there is one.
    pub(super) fn cycle_through(&self, txn: TxnNumber) -> Option<Cycle> {
        let start = *self.numbers.get(&Node::Txn(txn))?;
        self.degrees[start]?;
        let mut came_from: HashMap<usize, usize> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for next in &self.forward[at] {
                if self.degrees[*next].is_none() || came_from.contains_key(next) {
                    continue;
                }
                came_from.insert(*next, at);
                if *next == start {
                    return Some(self.path(start, &came_from));
                }
                queue.push_back(*next);
            }
        }
        None
    }

    fn path(&self, start: usize, came_from: &HashMap<usize, usize>) -> Cycle {
        let mut path = Vec::new();
        let mut at = start;
        while let Some(previous) = came_from.get(&at) {
            at = *previous;
            if let Node::Txn(txn) = self.nodes[at]
                && let Some(wait) = (self.wait_of)(txn)
            {
                path.push((txn, wait));
            }
            if at == start {
                break;
            }
        }
        path.reverse();
        Cycle(path)
    }

    fn successors(&mut self, node: Node) -> Successors {
        match node {
            Node::Txn(txn) => match (self.wait_of)(txn) {
                // The other owner of its session may wait.
                None => (self.partner_of)(txn)
                    .filter(|partner| (self.wait_of)(*partner).is_some())
                    .map(Node::Txn)
                    .into_iter()
                    .collect(),
                Some(WaitFor::Xid(xid)) => {
                    self.xids.owner(xid).map(Node::Txn).into_iter().collect()
                }
                Some(WaitFor::Lock(key, mode)) => self.blockers(txn, key, mode),
            },
            Node::Holders(key, mode) => {
                let against = mode.conflicts(&key);
                let holders = self.queue(key).view.holders.iter();
                holders
                    .filter(|(_, modes)| modes.intersects(against))
                    .map(|(holder, _)| Node::Txn(*holder))
                    .collect()
            }
            Node::Ahead(key, mode, place) => {
                let mut next = Successors::new();
                if let Some((waiter, theirs)) = self.queue(key).view.queue.get(place)
                    && mode.conflicts(&key).contains(*theirs)
                {
                    next.push(Node::Txn(*waiter));
                }
                if let Some(before) = place.checked_sub(1) {
                    next.push(Node::Ahead(key, mode, before));
                }
                next
            }
        }
    }

    /// The transactions between `txn` and the lock it queues for: holders, and those ahead in
    /// the queue. None if it does not queue any more.
    fn blockers(&mut self, txn: TxnNumber, key: LockKey, mode: Mode) -> Successors {
        let queue = self.queue(key);
        let Some(place) = queue.places.get(&txn).copied() else {
            return Successors::new();
        };
        let holders = &queue.view.holders;
        let mut next = if holders.iter().any(|(holder, _)| *holder == txn) {
            // It does not wait for itself, so it cannot share the node of the others.
            let against = mode.conflicts(&key);
            holders
                .iter()
                .filter(|(holder, modes)| *holder != txn && modes.intersects(against))
                .map(|(holder, _)| Node::Txn(*holder))
                .collect()
        } else {
            Successors::from_iter([Node::Holders(key, mode)])
        };
        if let Some(before) = place.checked_sub(1) {
            next.push(Node::Ahead(key, mode, before));
        }
        next
    }

    fn queue(&mut self, key: LockKey) -> &Queue {
        self.queues.entry(key).or_insert_with(|| {
            let view = self.table.queue(&key);
            let places = view.queue.iter().enumerate();
            let places = places.map(|(place, (txn, _))| (*txn, place)).collect();
            Queue { view, places }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use evenkeel_storage::{BlockNumber, FileId};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::lock::RowLockMode;
    use crate::lock::table::Requested;
    use crate::types::{Tid, Xid};

    fn row(number: u16) -> LockKey {
        LockKey::Row(FileId(1), Tid::new(BlockNumber(0), number), Xid::new(9))
    }

    /// Every edge of the graph, one by one.
    fn edges(
        waits: &HashMap<TxnNumber, WaitFor>,
        table: &LockTable,
        xids: &XidTable,
    ) -> HashSet<(TxnNumber, TxnNumber)> {
        let mut edges = HashSet::new();
        for (&txn, wait) in waits {
            let (key, mode) = match *wait {
                WaitFor::Xid(xid) => {
                    edges.extend(xids.owner(xid).map(|owner| (txn, owner)));
                    continue;
                }
                WaitFor::Lock(key, mode) => (key, mode),
            };
            let against = mode.conflicts(&key);
            let QueueView { holders, queue } = table.queue(&key);
            let holders = holders.into_iter();
            let holders = holders.filter(|(_, modes)| modes.intersects(against));
            let ahead = queue.iter().take_while(|(waiter, _)| *waiter != txn);
            let ahead = ahead.filter(|(_, mode)| against.contains(*mode));
            let blockers = holders.map(|(holder, _)| holder);
            let blockers = blockers.chain(ahead.map(|(waiter, _)| *waiter));
            edges.extend(
                blockers
                    .filter(|other| *other != txn)
                    .map(|other| (txn, other)),
            );
        }
        edges
    }

    fn reaches_itself(txn: TxnNumber, edges: &HashSet<(TxnNumber, TxnNumber)>) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![txn]);
        while let Some(at) = next.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
                if *to == txn {
                    return true;
                }
                if seen.insert(*to) {
                    next.push(*to);
                }
            }
        }
        false
    }

    #[test]
    fn the_cycles_found_are_those_of_the_whole_graph() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let modes = [
            RowLockMode::KeyShare,
            RowLockMode::Share,
            RowLockMode::NoKeyUpdate,
            RowLockMode::Update,
        ];
        let mut cyclic = 0;
        for _ in 0..300 {
            let (table, xids) = (LockTable::new(), XidTable::new());
            let mut waits = HashMap::new();
            let txns: Vec<_> = (1..=rng.random_range(2..12)).map(TxnNumber).collect();
            for txn in &txns {
                xids.start(Xid::new(txn.0 + 100), *txn);
            }
            for _ in 0..40 {
                let txn = txns[rng.random_range(0..txns.len())];
                if waits.contains_key(&txn) {
                    continue;
                }
                if rng.random_ratio(1, 12) {
                    let other = Xid::new(txns[rng.random_range(0..txns.len())].0 + 100);
                    if xids.owner(other) != Some(txn) {
                        waits.insert(txn, WaitFor::Xid(other));
                    }
                    continue;
                }
                let (key, mode) = (row(rng.random_range(1..6)), modes[rng.random_range(0..4)]);
                if let (_, Requested::Queued(_)) = table.request(txn, key, mode.into(), true) {
                    waits.insert(txn, WaitFor::Lock(key, mode.into()));
                }
            }
            let edges = edges(&waits, &table, &xids);
            let mut search = Search::new((|txn| waits.get(&txn).copied(), |_| None), &table, &xids);
            search.explore(&txns);
            for txn in &txns {
                let found = search.cycle_through(*txn);
                assert_eq!(
                    found.is_some(),
                    reaches_itself(*txn, &edges),
                    "{txn:?}: {edges:?}"
                );
                let Some(Cycle(cycle)) = found else { continue };
                cyclic += 1;
                for (at, (from, _)) in cycle.iter().enumerate() {
                    let (to, _) = cycle[(at + 1) % cycle.len()];
                    assert!(edges.contains(&(*from, to)), "{cycle:?}: {edges:?}");
                }
            }
        }
        assert!(cyclic > 100, "{cyclic} cycles");
    }

    #[test]
    fn the_search_is_linear_in_the_waiters_of_a_lock() {
        const WAITERS: u64 = 5_000;
        let (table, xids) = (LockTable::new(), XidTable::new());
        let mode = RowLockMode::Update.into();
        let mut waits = HashMap::new();
        table.request(TxnNumber(0), row(1), mode, true);
        for txn in (1..=WAITERS).map(TxnNumber) {
            table.request(txn, row(1), mode, true);
            waits.insert(txn, WaitFor::Lock(row(1), mode));
        }
        let mut search = Search::new((|txn| waits.get(&txn).copied(), |_| None), &table, &xids);
        let starts: Vec<_> = waits.keys().copied().collect();
        search.explore(&starts);
        let edges: usize = search.forward.iter().map(SmallVec::len).sum();
        assert!(edges < 5 * WAITERS as usize, "{edges} edges");
        assert!(search.degrees.iter().all(Option::is_none));
    }
}
