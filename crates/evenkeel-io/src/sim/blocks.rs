//! File content as copy-on-write blocks.

use std::sync::Arc;

/// Bytes in a block: the page of the simulated page cache, and the larger of the two tear sizes.
pub(crate) const BLOCK: usize = 4096;

/// Blocks that share one reference count when content is cloned.
const CHUNK: usize = 16;

/// Longest file a simulated disk holds, in bytes.
pub(crate) const MAX_LEN: u64 = 1 << 36;

/// One block; `None` is all zero.
pub(crate) type Block = Option<Arc<[u8; BLOCK]>>;

/// A block of these bytes.
pub(crate) fn block_of(bytes: &[u8; BLOCK]) -> Block {
    if bytes.iter().all(|&byte| byte == 0) {
        None
    } else {
        Some(Arc::new(*bytes))
    }
}

/// The bytes of a block.
pub(crate) fn bytes_of(block: &Block) -> &[u8; BLOCK] {
    static ZERO: [u8; BLOCK] = [0; BLOCK];
    block.as_deref().unwrap_or(&ZERO)
}

/// Whether two blocks are the same object, so surely equal.
pub(crate) fn same(a: &Block, b: &Block) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Block number of a byte offset.
pub(crate) fn block_number(offset: u64) -> u64 {
    offset / BLOCK as u64
}

/// Position of a byte offset within its block.
pub(crate) fn within(offset: u64) -> usize {
    usize::try_from(offset % BLOCK as u64).unwrap_or(0)
}

type Chunk = [Block; CHUNK];

/// Blocks by number. A clone shares everything; a change copies one chunk's pointers.
#[derive(Clone, Default)]
pub(crate) struct Blocks {
    chunks: Vec<Option<Arc<Chunk>>>,
}

fn place(number: u64) -> (usize, usize) {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    (number / CHUNK, number % CHUNK)
}

impl Blocks {
    pub(crate) fn get(&self, number: u64) -> &Block {
        let (chunk, slot) = place(number);
        match self.chunks.get(chunk) {
            Some(Some(chunk)) => &chunk[slot],
            _ => &None,
        }
    }

    pub(crate) fn set(&mut self, number: u64, block: Block) {
        let (chunk, slot) = place(number);
        if chunk >= self.chunks.len() {
            if block.is_none() {
                return;
            }
            self.chunks.resize(chunk + 1, None);
        }
        match &mut self.chunks[chunk] {
            Some(chunk) => Arc::make_mut(chunk)[slot] = block,
            None if block.is_none() => {}
            empty => {
                let mut chunk = [const { None }; CHUNK];
                chunk[slot] = block;
                *empty = Some(Arc::new(chunk));
            }
        }
    }

    /// Numbers of the blocks from the one `from` lies in on that are not all zero.
    pub(crate) fn non_zero_from(&self, from: u64) -> Vec<u64> {
        let first = block_number(from);
        let (skip, _) = place(first);
        let chunks = self.chunks.iter().enumerate().skip(skip);
        chunks
            .filter_map(|(at, chunk)| chunk.as_ref().map(|chunk| (at, chunk)))
            .flat_map(|(at, chunk)| {
                let set = chunk
                    .iter()
                    .enumerate()
                    .filter(|(_, block)| block.is_some());
                set.map(move |(slot, _)| (at * CHUNK + slot) as u64)
            })
            .filter(|&number| number >= first)
            .collect()
    }

    /// Makes everything from byte `len` on zero.
    pub(crate) fn cut(&mut self, len: u64) {
        for number in self.non_zero_from(len) {
            let block = cut_block(self.get(number), number, len);
            self.set(number, block);
        }
    }
}

/// Block `number` as it is after its file was cut to `len` bytes.
pub(crate) fn cut_block(block: &Block, number: u64, len: u64) -> Block {
    match number.cmp(&block_number(len)) {
        std::cmp::Ordering::Less => block.clone(),
        std::cmp::Ordering::Greater => None,
        std::cmp::Ordering::Equal => {
            let mut bytes = *bytes_of(block);
            bytes[within(len)..].fill(0);
            block_of(&bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(byte: u8) -> Block {
        block_of(&[byte; BLOCK])
    }

    #[test]
    fn clones_share_and_changes_stay_apart() {
        let mut a = Blocks::default();
        for number in [0, 1, 63, 64, 1000] {
            a.set(number, filled(number as u8 | 1));
        }
        let b = a.clone();
        a.set(1, filled(9));
        assert_eq!(bytes_of(a.get(1))[0], 9);
        assert_eq!(bytes_of(b.get(1))[0], 1);
        assert!(same(a.get(1000), b.get(1000)));
        assert!(a.get(999).is_none() && a.get(1 << 20).is_none());
    }

    #[test]
    fn zeroes_take_no_space() {
        let mut blocks = Blocks::default();
        blocks.set(1 << 20, block_of(&[0; BLOCK]));
        assert!(blocks.chunks.is_empty());
    }

    #[test]
    fn a_cut_zeroes_the_rest() {
        let mut blocks = Blocks::default();
        for number in 0..200 {
            blocks.set(number, filled(7));
        }
        blocks.cut(70 * BLOCK as u64 + 10);
        assert_eq!(
            bytes_of(blocks.get(70))[..11],
            [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]
        );
        assert_eq!(blocks.non_zero_from(0).len(), 71);
        assert_eq!(blocks.non_zero_from(70 * BLOCK as u64), [70]);
    }
}
