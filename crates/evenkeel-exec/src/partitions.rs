//! Rows divided by the hash of a key over files, so that those of one file fit into memory, or
//! are divided again.

use crate::context::Cx;
use crate::error::ExecResult;
use crate::spill::RowStore;

/// Bits of the hash that choose a partition.
const BITS: u32 = 4;
/// Partitions.
pub(crate) const PARTITIONS: usize = 1 << BITS;
/// How often rows may be divided: beyond it, hashes are the same.
pub(crate) const MOST_LEVELS: u32 = 12;

/// The partition of a hash; buckets of hash tables use the other end of it.
pub(crate) fn partition_of(hash: u64, level: u32) -> usize {
    (hash >> (u64::BITS - BITS * (level + 1))) as usize & (PARTITIONS - 1)
}

/// Empty partitions.
pub(crate) fn partitions(width: usize, cx: &Cx) -> ExecResult<Vec<RowStore>> {
    let store = |_| RowStore::new(width, cx.reservation(), &cx.env.temp, 0);
    Ok((0..PARTITIONS).map(store).collect())
}
