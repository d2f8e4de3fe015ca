//! Whether the large values that rows name and the chunks that are kept have each other.
//!
//! The names are sorted, on disk if they are many, and compared with the chunks in the order of
//! their tree.

use std::cmp::Ordering;
use std::ops::Bound;

use evenkeel_storage::page::PageRead;

use super::CheckReport;
use super::indexes::sorter;
use crate::btree::{Direction, LeafBatch, TreeReader, TreeScan};
use crate::error::EngineResult;
use crate::heap::layout::{HeapRead, TupleHeader};
use crate::heap::prune::{xmax_hint, xmin_hint};
use crate::sort::KeySorter;
use crate::table::Table;
use crate::table::large::{CHUNK_KEY, Large, chunk_of};
use crate::txn::Horizon;
use crate::txn::XidAtHorizon;
use crate::types::Tid;

/// Memory for sorting the names, in bytes.
const SORT_MEMORY: usize = 16 << 20;
/// Tag of a name whose value must be whole; others only excuse chunks.
const REQUIRED: u8 = 1;

/// The large values that rows name.
pub(super) struct LargeNames {
    sorter: KeySorter,
}

/// The state of a version, or of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Live,
    /// A running transaction makes it or takes it away.
    Open,
    Gone,
}

fn standing(table: &Table, header: &TupleHeader, horizon: &Horizon) -> EngineResult<Standing> {
    let mut fate = table.fates(horizon);
    let inserted = match header.frozen() {
        true => XidAtHorizon::CommittedForAll,
        false => fate(header.xmin, xmin_hint(header))?,
    };
    let deleted = match header.xmax.is_some() {
        true => fate(header.xmax, xmax_hint(header))?,
        false => XidAtHorizon::Aborted,
    };
    Ok(match (inserted, deleted) {
        (XidAtHorizon::Aborted, _)
        | (_, XidAtHorizon::CommittedForAll | XidAtHorizon::CommittedLately) => Standing::Gone,
        (XidAtHorizon::InProgress, _) | (_, XidAtHorizon::InProgress) => Standing::Open,
        _ => Standing::Live,
    })
}

impl LargeNames {
    pub(super) fn new(table: &Table) -> LargeNames {
        LargeNames {
            sorter: sorter(table, SORT_MEMORY),
        }
    }

    /// Notes the values that the version at `tid` names.
    pub(super) fn note(
        &mut self,
        table: &Table,
        page: &impl PageRead,
        tid: Tid,
        horizon: &Horizon,
    ) -> EngineResult<()> {
        let (Some(large), Some((offset, length))) = (&table.large, page.tuple_at(tid.slot)) else {
            return Ok(());
        };
        let tag = match standing(table, &page.header(offset), horizon)? {
            Standing::Live => REQUIRED,
            Standing::Open => 0,
            Standing::Gone => return Ok(()),
        };
        let mut failed = Ok(());
        large.names.each(page.row(offset, length), &mut |named| {
            let mut key = [0; CHUNK_KEY];
            key[..8].copy_from_slice(&named.id.to_be_bytes());
            key[8..].copy_from_slice(&named.bytes.to_be_bytes());
            if failed.is_ok() {
                failed = self.sorter.add(&key, tid, tag);
            }
        });
        failed
    }

    /// Compares them with the chunks, which the check has looked at as a table before.
    pub(super) fn compare(
        self,
        table: &Table,
        horizon: &Horizon,
        report: &mut CheckReport,
    ) -> EngineResult<()> {
        let Some(large) = &table.large else {
            return Ok(());
        };
        let mut values = Values::new(large, horizon);
        let mut at = values.next()?;
        let heap = table.def.heap;
        self.sorter.finish(&mut |key, tid, tag| {
            let Some((id, bytes)) = named(key) else {
                return Ok(());
            };
            while let Some(value) = at.as_ref().filter(|value| value.id < id) {
                value.unnamed(large, report);
                at = values.next()?;
            }
            let order = at
                .as_ref()
                .map_or(Ordering::Greater, |value| value.id.cmp(&id));
            let found = at.take_if(|_| order == Ordering::Equal);
            let whole = found
                .as_ref()
                .is_some_and(|value| value.live && value.contiguous && value.bytes == bytes);
            if tag == REQUIRED && !whole {
                let have = found.as_ref().map_or(0, |value| value.bytes);
                report.add(format!(
                    "file {heap} block {} slot {}: large value {id} of {bytes} bytes has {have} \
                     bytes in file {}",
                    tid.block, tid.slot, large.chunks.def.heap
                ));
            }
            // Versions that keep a value name it again.
            if let Some(value) = found {
                at = Some(Value {
                    seen: true,
                    ..value
                });
            }
            Ok(())
        })?;
        while let Some(value) = at {
            value.unnamed(large, report);
            at = values.next()?;
        }
        Ok(())
    }
}

fn named(key: &[u8]) -> Option<(u64, u64)> {
    let (id, bytes) = key.split_first_chunk::<8>()?;
    let bytes = u32::from_be_bytes(bytes.try_into().ok()?);
    Some((u64::from_be_bytes(*id), u64::from(bytes)))
}

/// The chunks of one value.
struct Value {
    id: u64,
    bytes: u64,
    contiguous: bool,
    live: bool,
    /// Whether a row names it.
    seen: bool,
}

impl Value {
    fn unnamed(&self, large: &Large, report: &mut CheckReport) {
        if self.live && !self.seen {
            let file = large.chunks.def.heap;
            report.add(format!("file {file}: no row names large value {}", self.id));
        }
    }
}

/// The values in the order of their ids.
struct Values<'a> {
    large: &'a Large,
    horizon: &'a Horizon,
    scan: TreeScan,
    batch: LeafBatch,
    at: usize,
    ended: bool,
}

impl<'a> Values<'a> {
    fn new(large: &'a Large, horizon: &'a Horizon) -> Values<'a> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let tree = &large.chunks.indexes[0];
        Values {
            large,
            horizon,
            scan: tree.scan(TreeReader::alone(), all, Direction::Forward),
            batch: LeafBatch::with_keys(),
            at: 0,
            ended: false,
        }
    }

    /// The chunk at hand: value, number, place.
    fn chunk(&mut self) -> EngineResult<Option<(u64, u32, Tid)>> {
        while self.at >= self.batch.len() {
            if self.ended {
                return Ok(None);
            }
            self.ended = !self.scan.next_page(&mut self.batch)?;
            self.at = 0;
        }
        let place = self.batch.tids()[self.at];
        let key = named(self.batch.key(self.at));
        // An entry of another form is an error of the tree, which its own check names.
        let (id, number) = key.unwrap_or((u64::MAX, 0));
        Ok(Some((id, number as u32, place)))
    }

    fn next(&mut self) -> EngineResult<Option<Value>> {
        let mut value: Option<Value> = None;
        let mut count = 0;
        while let Some((id, number, place)) = self.chunk()? {
            let value = value.get_or_insert(Value {
                id,
                bytes: 0,
                contiguous: true,
                live: true,
                seen: false,
            });
            if value.id != id {
                break;
            }
            self.at += 1;
            let (bytes, live) = self.look(id, number, place)?;
            value.bytes += bytes;
            value.live &= live;
            value.contiguous &= number == count;
            count += 1;
        }
        Ok(value)
    }

    /// The bytes of a chunk, and whether it is there for good.
    fn look(&self, id: u64, number: u32, place: Tid) -> EngineResult<(u64, bool)> {
        let chunks = &self.large.chunks;
        let _frames = chunks.reserve_for_reading();
        let page = chunks.heap().read(place.block)?;
        let tuple = page.is_heap().then(|| page.tuple_at(place.slot)).flatten();
        let Some((offset, length)) = tuple else {
            return Ok((0, false));
        };
        let live = standing(chunks, &page.header(offset), self.horizon)? == Standing::Live;
        let chunk = chunk_of(page.row(offset, length), id).filter(|(found, _)| *found == number);
        Ok(chunk.map_or((0, false), |(_, data)| (data.len() as u64, live)))
    }
}
