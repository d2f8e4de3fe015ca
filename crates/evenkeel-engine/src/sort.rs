//! Sorting index entries: in memory up to a limit, beyond it in runs on disk that are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, File, OpenOptions};
use evenkeel_storage::{BlockNumber, StorageError};

use crate::error::{EngineError, EngineResult};
use crate::types::Tid;

/// Bytes read from a run, or written to it, at once.
const CHUNK: usize = 256 << 10;
/// Bytes of an entry in a run besides its key.
const ENTRY_HEADER: usize = 9;

/// An index entry to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SortedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// The row.
    pub tid: Tid,
    /// A bit pattern of the caller's.
    pub tag: u8,
}

/// One entry in memory; its key is in the arena. The key's first bytes decide most comparisons
/// without a look there.
struct Item {
    prefix: u64,
    start: u32,
    length: u16,
    tag: u8,
    tid: Tid,
}

/// Sorts entries by key, then by place.
pub(crate) struct KeySorter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limit: usize,
    arena: Vec<u8>,
    items: Vec<Item>,
    runs: Vec<Run>,
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let n = key.len().min(8);
    bytes[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(bytes)
}

fn io(error: evenkeel_io::IoError) -> EngineError {
    StorageError::from(error).into()
}

impl KeySorter {
    /// A sorter that uses up to `limit` bytes of memory; runs go to temporary files in `dir`.
    pub fn new(disk: &Arc<dyn Disk>, dir: &Path, limit: usize) -> KeySorter {
        KeySorter {
            disk: Arc::clone(disk),
            dir: dir.to_path_buf(),
            // Offsets into the arena are 32 bits.
            limit: limit.min(1 << 31),
            arena: Vec::new(),
            items: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds an entry. The key is at most `u16::MAX` bytes.
    pub fn add(&mut self, key: &[u8], tid: Tid, tag: u8) -> EngineResult<()> {
        let Ok(length) = u16::try_from(key.len()) else {
            return Err(EngineError::KeyTooLarge {
                index: String::new(),
                size: key.len(),
                max: crate::btree::MAX_KEY_LEN,
            });
        };
        let used = self.arena.len() + self.items.len() * size_of::<Item>();
        if used + key.len() > self.limit && !self.items.is_empty() {
            self.spill()?;
        }
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(key);
        self.items.push(Item {
            prefix: prefix_of(key),
            start,
            length,
            tag,
            tid,
        });
        Ok(())
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        let key = |item: &Item| {
            let start = item.start as usize;
            &arena[start..start + usize::from(item.length)]
        };
        self.items.sort_unstable_by(|a, b| {
            let by_key = || key(a).cmp(key(b)).then(a.tid.cmp(&b.tid));
            a.prefix.cmp(&b.prefix).then_with(by_key)
        });
    }

    /// Writes what is in memory to disk as one sorted run.
    fn spill(&mut self) -> EngineResult<()> {
        self.sort();
        let mut writer = RunWriter::create(&self.disk, &self.dir)?;
        for item in &self.items {
            let start = item.start as usize;
            let key = &self.arena[start..start + usize::from(item.length)];
            writer.put(key, item.tid, item.tag)?;
        }
        self.runs.push(writer.finish()?);
        self.items.clear();
        self.arena.clear();
        Ok(())
    }

    /// Hands all entries over in order.
    pub fn finish(
        mut self,
        each: &mut dyn FnMut(&[u8], Tid, u8) -> EngineResult<()>,
    ) -> EngineResult<()> {
        if self.runs.is_empty() {
            self.sort();
            for item in &self.items {
                let start = item.start as usize;
                let key = &self.arena[start..start + usize::from(item.length)];
                each(key, item.tid, item.tag)?;
            }
            return Ok(());
        }
        if !self.items.is_empty() {
            self.spill()?;
        }
        self.merge(each)
    }

    fn merge(
        &mut self,
        each: &mut dyn FnMut(&[u8], Tid, u8) -> EngineResult<()>,
    ) -> EngineResult<()> {
        let mut heads = BinaryHeap::with_capacity(self.runs.len());
        for (number, run) in self.runs.iter_mut().enumerate() {
            if let Some(entry) = run.next()? {
                heads.push(Reverse((entry, number)));
            }
        }
        while let Some(Reverse((entry, number))) = heads.pop() {
            each(&entry.key, entry.tid, entry.tag)?;
            if let Some(next) = self.runs[number].next()? {
                heads.push(Reverse((next, number)));
            }
        }
        Ok(())
    }
}

/// Removes the runs that a process which ended in the middle of a sort has left in `dir`.
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path) -> EngineResult<()> {
    for name in disk.list(dir).map_err(io)? {
        if name.starts_with(TEMPORARY_PREFIX) {
            disk.remove(&dir.join(name)).map_err(io)?;
        }
    }
    Ok(())
}

struct RunWriter {
    run: Run,
    buffer: Vec<u8>,
}

impl RunWriter {
    fn create(disk: &Arc<dyn Disk>, dir: &Path) -> EngineResult<RunWriter> {
        let path = dir.join(format!("{TEMPORARY_PREFIX}{:016x}", disk.random_u64()));
        let options = OpenOptions {
            read: true,
            write: true,
            create_new: true,
            ..OpenOptions::default()
        };
        let file = disk.open(&path, options).map_err(io)?;
        let run = Run {
            disk: Arc::clone(disk),
            path,
            file,
            length: 0,
            offset: 0,
            buffer: Vec::new(),
            at: 0,
        };
        Ok(RunWriter {
            run,
            buffer: Vec::with_capacity(CHUNK + (8 << 10)),
        })
    }

    fn put(&mut self, key: &[u8], tid: Tid, tag: u8) -> EngineResult<()> {
        self.buffer
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(&tid.block.0.to_le_bytes());
        self.buffer.extend_from_slice(&tid.slot.to_le_bytes());
        self.buffer.push(tag);

        self.buffer.extend_from_slice(key);
        if self.buffer.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> EngineResult<()> {
        self.run
            .file
            .write_all_at(&self.buffer, self.run.length)
            .map_err(io)?;
        self.run.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> EngineResult<Run> {
        self.flush()?;
        Ok(self.run)
    }
}

/// Names of temporary files start like this.
const TEMPORARY_PREFIX: &str = "sort.tmp.";

/// A sorted run in a temporary file, removed when this is dropped.
struct Run {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn File>,
    length: u64,
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Run {
    fn next(&mut self) -> EngineResult<Option<SortedEntry>> {
        if !self.want(ENTRY_HEADER)? {
            return Ok(None);
        }
        let head = &self.buffer[self.at..self.at + ENTRY_HEADER];
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let block = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let slot = u16::from_le_bytes([head[6], head[7]]);
        let tag = head[8];
        if !self.want(ENTRY_HEADER + length)? {
            let what = format!("{} ends within an entry", self.path.display());
            return Err(EngineError::corrupted(what));
        }
        let start = self.at + ENTRY_HEADER;
        let key = self.buffer[start..start + length].to_vec();
        self.at = start + length;
        Ok(Some(SortedEntry {
            key,
            tid: Tid::new(BlockNumber(block), slot),
            tag,
        }))
    }

    /// Makes sure of `n` bytes in the buffer; false when the run ends before.
    fn want(&mut self, n: usize) -> EngineResult<bool> {
        if self.buffer.len() - self.at >= n {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = self.length - self.offset;
        let more = (CHUNK.max(n) as u64).min(left) as usize;
        let start = self.buffer.len();
        self.buffer.resize(start + more, 0);
        self.file
            .read_exact_at(&mut self.buffer[start..], self.offset)
            .map_err(io)?;
        self.offset += more as u64;
        Ok(self.buffer.len() >= n)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Err(error) = self.disk.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "temporary file stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::{FileDisk, IoMethod};

    #[test]
    fn runs_on_disk_give_the_order_of_a_sort_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
        for limit in [1 << 20, 3000] {
            let mut sorter = KeySorter::new(&disk, dir.path(), limit);
            let mut expected = Vec::new();
            for n in 0..2000u32 {
                let hash = n.wrapping_mul(2_654_435_761);
                let key = hash.to_be_bytes()[..1 + (n % 4) as usize].repeat(1 + n as usize % 5);
                let tid = Tid::new(BlockNumber(n), 1);
                sorter.add(&key, tid, (n % 3) as u8).unwrap();
                expected.push(SortedEntry {
                    key,
                    tid,
                    tag: (n % 3) as u8,
                });
            }
            expected.sort();
            let mut found = Vec::new();
            sorter
                .finish(&mut |key, tid, tag| {
                    found.push(SortedEntry {
                        key: key.to_vec(),
                        tid,
                        tag,
                    });
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, expected);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        for name in ["sort.tmp.0001", "control"] {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        remove_leftovers(disk.as_ref(), dir.path()).unwrap();
        assert_eq!(disk.list(dir.path()).unwrap(), ["control"]);
    }
}
