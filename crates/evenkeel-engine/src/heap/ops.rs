//! The data of heap log parts: written by the forward path, read by [`super::redo`].
//!
//! All numbers are little endian. A part's data is all its redo needs besides the page.

use smallvec::SmallVec;

use super::layout::mask_word;
use crate::types::{Tid, Xid};

/// One tuple put at a slot.
pub const OP_INSERT: u16 = 0x0101;
/// Several tuples put at their slots.
pub const OP_MULTI_INSERT: u16 = 0x0102;
/// A tuple marked deleted, or updated to a version on another page.
pub const OP_MODIFY: u16 = 0x0103;
/// A tuple updated to a version on the same page, by the difference of the rows.
pub const OP_UPDATE: u16 = 0x0104;
/// Line-pointer decisions of pruning and vacuum, freezing, the all-visible bit.
pub const OP_PRUNE: u16 = 0x0105;

/// The page is laid out first (it is all zero).
pub const INIT_PAGE: u16 = 1;
/// The page's all-visible bit is cleared.
pub const CLEAR_VISIBLE: u16 = 2;
/// The page's all-visible bit is set.
pub const SET_VISIBLE: u16 = 4;
/// The transaction's id is noted as the page's prune hint.
pub const NOTE_PRUNABLE: u16 = 8;
/// The new version is heap-only and the old one hot-updated.
pub const HOT: u16 = 16;
/// The old version's command id is a combo number.
pub const OLD_COMBO: u16 = 32;
/// Tuples are moved together after the line-pointer decisions.
pub const COMPACT: u16 = 64;

/// An effect of freezing on a tuple: its xmin becomes visible to all.
pub const FREEZE_XMIN: u16 = 1;
/// An effect of freezing on a tuple: an xmax that aborted is removed.
pub const CLEAR_XMAX: u16 = 2;

/// In front of a record's payload: the key of the old version of the row that the record updates
/// or deletes, in the index that is the table's replica identity.
pub const OLD_KEY: u8 = 1;
/// In front of a record's payload: the old version of the row that the record updates or deletes.
pub const OLD_ROW: u8 = 2;

/// A part's data; ordinary rows need no allocation.
pub type PartData = SmallVec<[u8; 512]>;

/// Reads the numbers of a part in order; every read is checked against its end.
pub struct Reader<'a> {
    data: &'a [u8],
}

/// The part's data ends too early.
#[derive(Clone, Copy, Debug)]
pub struct Short;

impl<'a> Reader<'a> {
    /// From the first byte.
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.data.split_at_checked(n).ok_or(Short)?;
        self.data = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        self.bytes(N)?.try_into().map_err(|_| Short)
    }

    /// The next u16.
    pub fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next u32.
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next u64.
    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.data
    }
}

fn put16(out: &mut PartData, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put32(out: &mut PartData, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put64(out: &mut PartData, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Data of [`OP_INSERT`].
#[derive(Clone, Copy, Debug)]
pub struct Insert<'a> {
    /// The inserting transaction, with its facts.
    pub xmin: Xid,
    /// `XMIN_*`.
    pub xmin_mask: u16,
    /// The inserting command.
    pub cid: u32,
    /// Where it goes.
    pub slot: u16,
    /// `INIT_PAGE`, `CLEAR_VISIBLE`, `NOTE_PRUNABLE`.
    pub bits: u16,
    /// The row.
    pub row: &'a [u8],
}

impl<'a> Insert<'a> {
    /// Its bytes.
    pub fn encode(&self) -> PartData {
        let mut out = PartData::new();
        put64(&mut out, self.xmin.get() | mask_word(self.xmin_mask));
        put32(&mut out, self.cid);
        put16(&mut out, self.slot);
        put16(&mut out, self.bits);
        out.extend_from_slice(self.row);
        out
    }

    /// From its bytes.
    pub fn decode(data: &'a [u8]) -> Result<Self, Short> {
        let mut r = Reader::new(data);
        let w0 = r.u64()?;
        let (cid, slot, bits) = (r.u32()?, r.u16()?, r.u16()?);
        Ok(Insert {
            xmin: Xid::new(w0),
            xmin_mask: (w0 >> 48) as u16,
            cid,
            slot,
            bits,
            row: r.rest(),
        })
    }
}

/// Starts the data of [`OP_MULTI_INSERT`]: `count` tuples of one transaction and command.
pub fn multi_insert_header(xmin: Xid, xmin_mask: u16, cid: u32, bits: u16, count: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(evenkeel_storage::page::PAGE_SIZE);
    out.extend_from_slice(&(xmin.get() | mask_word(xmin_mask)).to_le_bytes());
    out.extend_from_slice(&cid.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&bits.to_le_bytes());
    out
}

/// Adds one tuple to the data of [`OP_MULTI_INSERT`].
pub fn multi_insert_tuple(out: &mut Vec<u8>, slot: u16, row: &[u8]) {
    out.extend_from_slice(&slot.to_le_bytes());
    out.extend_from_slice(&(row.len() as u16).to_le_bytes());
    out.extend_from_slice(row);
}

/// Data of [`OP_MODIFY`].
#[derive(Clone, Copy, Debug)]
pub struct Modify {
    /// The deleting or updating transaction.
    pub xmax: Xid,
    /// `XMAX_*`.
    pub xmax_mask: u16,
    /// Its command, or a combo number when `bits` has `OLD_COMBO`.
    pub cid: u32,
    /// The tuple.
    pub slot: u16,
    /// `CLEAR_VISIBLE`, `NOTE_PRUNABLE`, `OLD_COMBO`.
    pub bits: u16,
    /// The next version, or the tuple itself.
    pub ctid: Tid,
}

impl Modify {
    /// Its bytes.
    pub fn encode(&self) -> PartData {
        let mut out = PartData::new();
        put64(&mut out, self.xmax.get() | mask_word(self.xmax_mask));
        put32(&mut out, self.cid);
        put16(&mut out, self.slot);
        put16(&mut out, self.bits);
        put32(&mut out, self.ctid.block.0);
        put16(&mut out, self.ctid.slot);
        out
    }

    /// From its bytes.
    pub fn decode(data: &[u8]) -> Result<Self, Short> {
        let mut r = Reader::new(data);
        let w1 = r.u64()?;
        Ok(Modify {
            xmax: Xid::new(w1),
            xmax_mask: (w1 >> 48) as u16,
            cid: r.u32()?,
            slot: r.u16()?,
            bits: r.u16()?,
            ctid: Tid::new(evenkeel_storage::BlockNumber(r.u32()?), r.u16()?),
        })
    }
}

/// Data of [`OP_UPDATE`]: the new row is `prefix` bytes of the old one, `middle`, and `suffix`
/// bytes of the old one's end.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The updating transaction: xmax of the old version and xmin of the new one.
    pub xid: Xid,
    /// `XMAX_*` of the old version.
    pub xmax_mask: u16,
    /// Command id of the old version.
    pub old_cid: u32,
    /// The old version.
    pub old_slot: u16,
    /// `CLEAR_VISIBLE`, `HOT`, `OLD_COMBO`.
    pub bits: u16,
    /// Command id of the new version.
    pub new_cid: u32,
    /// The new version.
    pub new_slot: u16,
    /// Bytes shared with the old row's start.
    pub prefix: u16,
    /// Bytes shared with the old row's end.
    pub suffix: u16,
    /// The bytes between.
    pub middle: &'a [u8],
}

impl<'a> Update<'a> {
    /// Its bytes.
    pub fn encode(&self) -> PartData {
        let mut out = PartData::new();
        put64(&mut out, self.xid.get() | mask_word(self.xmax_mask));
        put32(&mut out, self.old_cid);
        put16(&mut out, self.old_slot);
        put16(&mut out, self.bits);
        put32(&mut out, self.new_cid);
        put16(&mut out, self.new_slot);
        put16(&mut out, self.prefix);
        put16(&mut out, self.suffix);
        out.extend_from_slice(self.middle);
        out
    }

    /// From its bytes.
    pub fn decode(data: &'a [u8]) -> Result<Self, Short> {
        let mut r = Reader::new(data);
        let w1 = r.u64()?;
        let (old_cid, old_slot, bits) = (r.u32()?, r.u16()?, r.u16()?);
        let (new_cid, new_slot) = (r.u32()?, r.u16()?);
        let (prefix, suffix) = (r.u16()?, r.u16()?);
        Ok(Update {
            xid: Xid::new(w1),
            xmax_mask: (w1 >> 48) as u16,
            old_cid,
            old_slot,
            bits,
            new_cid,
            new_slot,
            prefix,
            suffix,
            middle: r.rest(),
        })
    }

    /// The lengths of the common start and end of two rows, not overlapping.
    pub fn common(old: &[u8], new: &[u8]) -> (usize, usize) {
        let most = old.len().min(new.len());
        let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let suffix = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(most - prefix)
            .take_while(|(a, b)| a == b)
            .count();
        (prefix, suffix)
    }
}

/// Data of [`OP_PRUNE`]: decisions about a page, made by the forward path alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// The page's prune hint afterwards.
    pub prune_xid: Xid,
    /// `COMPACT`, `SET_VISIBLE`.
    pub bits: u16,
    /// Slots that become redirects, and the slots they lead to.
    pub redirect: Vec<(u16, u16)>,
    /// Slots that become dead.
    pub dead: Vec<u16>,
    /// Slots that become unused.
    pub unused: Vec<u16>,
    /// Slots to freeze, ascending.
    pub freeze: Vec<FreezeRun>,
}

/// Neighbouring slots that are frozen in the same way: most pages need one or two of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezeRun {
    /// The first slot.
    pub first: u16,
    /// How many slots.
    pub count: u16,
    /// `FREEZE_XMIN`, `CLEAR_XMAX`.
    pub what: u16,
}

impl FreezeRun {
    /// Bits of `what` in the encoded form; the count is above them.
    const WHAT_BITS: u16 = 2;

    /// The slots.
    pub fn slots(&self) -> std::ops::Range<u16> {
        self.first..self.first.saturating_add(self.count)
    }

    fn decode(first: u16, packed: u16) -> FreezeRun {
        FreezeRun {
            first,
            count: packed >> Self::WHAT_BITS,
            what: packed & ((1 << Self::WHAT_BITS) - 1),
        }
    }
}

impl Prune {
    /// Adds a slot, above those added before, to those that are frozen.
    pub fn add_frozen(&mut self, slot: u16, what: u16) {
        match self.freeze.last_mut() {
            Some(run) if run.what == what && run.slots().end == slot => run.count += 1,
            _ => self.freeze.push(FreezeRun {
                first: slot,
                count: 1,
                what,
            }),
        }
    }

    /// How many slots are frozen.
    pub fn frozen(&self) -> u64 {
        self.freeze.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Whether it changes no line pointer.
    pub fn keeps_all(&self) -> bool {
        self.redirect.is_empty() && self.dead.is_empty() && self.unused.is_empty()
    }

    /// Its bytes.
    pub fn encode(&self) -> PartData {
        let mut out = PartData::new();
        put64(&mut out, self.prune_xid.get());
        put16(&mut out, self.bits);
        put16(&mut out, self.redirect.len() as u16);
        put16(&mut out, self.dead.len() as u16);
        put16(&mut out, self.unused.len() as u16);
        put16(&mut out, self.freeze.len() as u16);
        for &(slot, target) in &self.redirect {
            put16(&mut out, slot);
            put16(&mut out, target);
        }
        for run in &self.freeze {
            put16(&mut out, run.first);
            put16(&mut out, run.count << FreezeRun::WHAT_BITS | run.what);
        }
        for &slot in self.dead.iter().chain(&self.unused) {
            put16(&mut out, slot);
        }
        out
    }

    /// From its bytes.
    pub fn decode(data: &[u8]) -> Result<Self, Short> {
        let mut r = Reader::new(data);
        let (prune_xid, bits) = (Xid::new(r.u64()?), r.u16()?);
        let (redirects, dead, unused) = (r.u16()?, r.u16()?, r.u16()?);
        let freezes = r.u16()?;
        let mut pairs = |n: u16| -> Result<Vec<(u16, u16)>, Short> {
            (0..n).map(|_| Ok((r.u16()?, r.u16()?))).collect()
        };
        let redirect = pairs(redirects)?;
        let runs = pairs(freezes)?.into_iter();
        let freeze = runs.map(|(a, b)| FreezeRun::decode(a, b)).collect();
        let mut slots = |n: u16| -> Result<Vec<u16>, Short> { (0..n).map(|_| r.u16()).collect() };
        let (dead, unused) = (slots(dead)?, slots(unused)?);
        Ok(Prune {
            prune_xid,
            bits,
            redirect,
            dead,
            unused,
            freeze,
        })
    }
}
