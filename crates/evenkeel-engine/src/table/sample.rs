//! Random samples of rows, for the statistics that plans rest on.

use std::sync::Arc;

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::Strategy;
use evenkeel_storage::page::PageRead;

use super::Table;
use crate::cost::{CostAccount, CostBalance};
use crate::error::EngineResult;
use crate::heap::horizon_xids::HorizonXids;
use crate::heap::layout::{HeapRead, LpState, TupleHeader};
use crate::heap::prune::{RowState, row_state};
use crate::memory::{Reservation, SessionMemory};
use crate::stats::{AnalyzePhase, AnalyzeProgress, AnalyzeTask};
use crate::ticket::CancelFlag;
use crate::transaction::Transaction;
use crate::types::Tid;

/// Blocks between two looks at cancel flag and progress, and read ahead of use.
const STEP: usize = 32;
/// Bytes of a sampled row beside its own, with those of its values while a column is worked on.
const ROW_BYTES: usize = size_of::<(Tid, Box<[u8]>)>() + 128;
/// A sample that would have to be smaller for want of memory is refused.
const FEWEST: usize = 300;

/// Bytes that a sampled row is charged with: its own, and those of its values decoded.
fn charged(row: &[u8]) -> usize {
    ROW_BYTES + 2 * row.len()
}

/// How a sample is taken.
#[derive(Clone, Debug, Default)]
pub struct SampleOptions {
    /// The most rows, and the most blocks, that are taken.
    pub rows: usize,
    /// Decides what is chosen.
    pub seed: u64,
    /// Bytes of the pool that it may use; 0: all of it; none: `vacuum_buffer_usage_limit`.
    pub buffer_usage_limit: Option<u64>,
    /// Paces it.
    pub cost: Option<Arc<CostBalance>>,
    /// Ends it early.
    pub cancel: Option<CancelFlag>,
    /// The budget that its rows are charged to; none for work of no session.
    pub memory: Option<Arc<SessionMemory>>,
}

/// A random sample of a table's rows.
#[derive(Debug, Default)]
pub struct Sample {
    /// The rows, in the order in which they lie in the table.
    pub rows: Vec<(Tid, Box<[u8]>)>,
    /// Blocks of the table.
    pub blocks: u32,
    /// Blocks that were looked at.
    pub blocks_sampled: u32,
    /// Rows that are live on the blocks looked at.
    pub live_sampled: u64,
    /// Rows that are dead on the blocks looked at.
    pub dead_sampled: u64,
    /// The charge of the rows.
    pub charge: Option<Reservation>,
}

impl Sample {
    fn scaled(&self, rows: u64) -> u64 {
        let density = rows as f64 / f64::from(self.blocks_sampled.max(1));
        (density * f64::from(self.blocks)).round() as u64
    }

    /// Live rows of the whole table, estimated.
    pub fn live(&self) -> u64 {
        self.scaled(self.live_sampled)
    }

    /// Dead rows of the whole table, estimated.
    pub fn dead(&self) -> u64 {
        self.scaled(self.dead_sampled)
    }
}

/// Pseudo-random numbers: SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// `most` blocks of `blocks`, in order, each set of them as likely as any other (Knuth's
/// algorithm S).
fn choose_blocks(blocks: u32, most: usize, random: &mut Random) -> Vec<u32> {
    let mut wanted = most.min(blocks as usize) as u64;
    let mut chosen = Vec::with_capacity(wanted as usize);
    for block in 0..blocks {
        if random.below(u64::from(blocks - block)) < wanted {
            chosen.push(block);
            wanted -= 1;
        }
    }
    chosen
}

/// The sample so far (a reservoir: Waterman's algorithm R).
struct Reservoir<'a> {
    sample: Sample,
    most: usize,
    random: &'a mut Random,
}

impl Reservoir<'_> {
    fn offer(&mut self, tid: Tid, row: &[u8]) -> EngineResult<()> {
        let sample = &mut self.sample;
        sample.live_sampled += 1;
        if sample.rows.len() < self.most {
            self.charge(row)?;
            self.sample.rows.push((tid, row.into()));
            return Ok(());
        }
        let at = self.random.below(sample.live_sampled) as usize;
        if let Some(place) = sample.rows.get_mut(at) {
            let old = std::mem::replace(place, (tid, row.into()));
            if let Some(charge) = &mut sample.charge {
                charge.shrink(charged(&old.1));
            }
            self.charge(row)?;
        }
        Ok(())
    }

    /// Charges a row. Without memory for it the sample becomes half as large: a random half of the
    /// rows it has, and each to come as likely as before.
    fn charge(&mut self, row: &[u8]) -> EngineResult<()> {
        let Some(charge) = &mut self.sample.charge else {
            return Ok(());
        };
        while let Err(refused) = charge.grow(charged(row)) {
            let rows = &mut self.sample.rows;
            self.most = rows.len() / 2;
            if self.most < FEWEST {
                return Err(refused.into());
            }
            while rows.len() > self.most {
                let at = self.random.below(rows.len() as u64) as usize;
                charge.shrink(charged(&rows.swap_remove(at).1));
            }
        }
        Ok(())
    }
}

impl Table {
    /// Takes a random sample of the rows that are live now, to the transaction.
    ///
    /// # Errors
    /// `Cancelled`; `OutOfMemory`; damage; storage failures.
    pub fn sample(
        &self,
        txn: &Transaction,
        options: &SampleOptions,
        task: &AnalyzeTask,
    ) -> EngineResult<Sample> {
        let mut random = Random(options.seed);
        let blocks = self.blocks();
        let chosen = choose_blocks(blocks, options.rows, &mut random);
        let horizon = self.db.horizon();
        let mut fates = HorizonXids::new(self.db.system(), &horizon);
        let ring = self.db.vacuum_ring(options.buffer_usage_limit);
        let ring = ring.as_ref();
        let mut cost = CostAccount::open(options.cost.as_deref());
        let mut reservoir = Reservoir {
            sample: Sample {
                blocks,
                blocks_sampled: chosen.len() as u32,
                charge: options.memory.as_ref().map(Reservation::new),
                ..Sample::default()
            },
            most: options.rows,
            random: &mut random,
        };
        let mut progress = AnalyzeProgress {
            phase: AnalyzePhase::AcquiringSampleRows,
            sample_blks_total: chosen.len() as u32,
            ..AnalyzeProgress::default()
        };
        for batch in chosen.chunks(STEP) {
            if let Some(flag) = &options.cancel {
                flag.check()?;
            }
            task.at(&progress);
            for near in batch.chunk_by(|a, b| b - a == 1) {
                let near = near[0]..near[near.len() - 1] + 1;
                self.heap().prefetch_with(near, ring);
            }
            for &block in batch {
                cost.page(self.heap().pin_resident(BlockNumber(block)).is_some());
                cost.settle();
                self.sample_block(txn, (BlockNumber(block), ring), &mut fates, &mut reservoir)?;
            }
            progress.sample_blks_scanned += batch.len() as u32;
            progress.delay_time = cost.slept();
        }
        task.at(&progress);
        let mut sample = reservoir.sample;
        sample
            .rows
            .sort_unstable_by_key(|(tid, _)| (tid.block, tid.slot));
        Ok(sample)
    }

    fn sample_block(
        &self,
        txn: &Transaction,
        (block, ring): (BlockNumber, Strategy<'_>),
        fates: &mut HorizonXids<'_>,
        reservoir: &mut Reservoir<'_>,
    ) -> EngineResult<()> {
        let mut states = Vec::new();
        let guard = fates.retry(|fates| {
            let guard = self.heap().read_with(block, ring)?;
            page_states(&guard, txn, fates, &mut states)?;
            Ok(guard)
        })?;
        for (slot, state) in (1..).zip(&states) {
            match state {
                Some(RowState::Live) => {
                    if let Some((offset, length)) = guard.tuple_at(slot) {
                        reservoir.offer(Tid::new(block, slot), guard.row(offset, length))?;
                    }
                }
                Some(RowState::Dead) => reservoir.sample.dead_sampled += 1,
                Some(RowState::Coming) | None => {}
            }
        }
        Ok(())
    }
}

/// The state of the row that each line pointer of a page leads to, if it leads to one.
fn page_states<P: PageRead>(
    page: &P,
    txn: &Transaction,
    fates: &mut HorizonXids<'_>,
    out: &mut Vec<Option<RowState>>,
) -> EngineResult<()> {
    out.clear();
    if !page.is_heap() {
        return Ok(());
    }
    for slot in 1..=page.slots() {
        let state = match page.tuple_at(slot) {
            Some((offset, _)) => Some(state_to(txn, &page.header(offset), fates)?),
            None if page.line_pointer(slot).state == LpState::Dead => Some(RowState::Dead),
            None => None,
        };
        out.push(state);
    }
    Ok(())
}

/// The state of a tuple to a transaction, whose own changes count as if it had committed.
fn state_to(
    txn: &Transaction,
    header: &TupleHeader,
    fates: &mut HorizonXids<'_>,
) -> EngineResult<RowState> {
    if header.xmax.is_some() && txn.owns(header.xmax) {
        return Ok(RowState::Dead);
    }
    if !header.frozen() && txn.owns(header.xmin) {
        return Ok(RowState::Live);
    }
    row_state(header, fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_chosen_in_order_and_evenly() {
        let mut random = Random(1);
        assert_eq!(choose_blocks(5, 9, &mut random), [0, 1, 2, 3, 4]);
        let mut counts = [0; 10];
        for _ in 0..3_000 {
            let chosen = choose_blocks(10, 3, &mut random);
            assert!(chosen.len() == 3 && chosen.is_sorted());
            chosen.iter().for_each(|block| counts[*block as usize] += 1);
        }
        assert!(
            counts.iter().all(|count| (750..1050).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_sample_without_memory_is_smaller_and_as_even() {
        let mut random = Random(11);
        let memory = crate::memory::ServerMemory::unlimited().session(1 << 20);
        let mut reservoir = Reservoir {
            sample: Sample {
                charge: Some(Reservation::new(&memory)),
                ..Sample::default()
            },
            most: 30_000,
            random: &mut random,
        };
        for number in 0..100_000 {
            let tid = Tid::new(BlockNumber(number), 1);
            reservoir.offer(tid, &[0; 100]).unwrap();
        }
        let rows = &reservoir.sample.rows;
        assert!((1200..3000).contains(&rows.len()), "{}", rows.len());
        let early = rows.iter().filter(|(tid, _)| tid.block.0 < 50_000).count();
        assert!((rows.len() / 2).abs_diff(early) < 150, "{early}");
        assert!(memory.used() <= memory.limit());
        // One that cannot even have a few rows is refused.
        let tight = crate::memory::ServerMemory::unlimited().session(64 << 10);
        reservoir.sample = Sample {
            charge: Some(Reservation::new(&tight)),
            ..Sample::default()
        };
        reservoir.most = 1000;
        let offer = |number| reservoir.offer(Tid::new(BlockNumber(number), 1), &[0; 200]);
        let refused = (0..1000).map(offer).find_map(Result::err).unwrap();
        assert_eq!(refused.sqlstate(), "53200");
    }

    #[test]
    fn every_row_is_as_likely_as_any_other() {
        let mut random = Random(7);
        let mut counts = [0; 20];
        for _ in 0..2_000 {
            let mut reservoir = Reservoir {
                sample: Sample::default(),
                most: 5,
                random: &mut random,
            };
            for slot in 0..20 {
                let offered = reservoir.offer(Tid::new(BlockNumber(0), slot), &[]);
                offered.unwrap();
            }
            let rows = reservoir.sample.rows;
            assert_eq!(rows.len(), 5);
            rows.iter()
                .for_each(|(tid, _)| counts[usize::from(tid.slot)] += 1);
        }
        assert!(
            counts.iter().all(|count| (400..600).contains(count)),
            "{counts:?}"
        );
    }
}
