//! A handle on a simulated file.

use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::blocks::{BLOCK, MAX_LEN, block_number, block_of, bytes_of, within};
use super::fault::FaultKind;
use super::shared::{Inner, Shared};
use super::state::{Change, Ino};
use crate::buffer::IO_ALIGN;
use crate::error::{IoError, IoResult, OpKind};
use crate::file::{File, OpenOptions};
use crate::transfer::{Broken, read_full, write_full};

pub(crate) struct SimFile {
    pub(crate) disk: Arc<Shared>,
    pub(crate) ino: Ino,
    pub(crate) path: Arc<Path>,
    /// As the caller spelled it.
    pub(crate) given: PathBuf,
    pub(crate) opts: OpenOptions,
    /// How many of the file's write-back errors this handle has reported or was opened after.
    pub(crate) errors_seen: AtomicU64,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SimFile {
    fn error(&self, op: OpKind, offset: Option<u64>, errno: Errno) -> IoError {
        IoError::from_errno(op, &self.given, offset, errno)
    }

    fn broken(&self, op: OpKind, offset: u64, broken: Broken) -> IoError {
        self.error(
            op,
            Some(offset.saturating_add(broken.done as u64)),
            broken.errno,
        )
    }

    fn aligned(&self, offset: u64, len: usize, starts: impl Iterator<Item = usize>) -> bool {
        let mut starts = starts;
        let whole = |n: usize| n.is_multiple_of(IO_ALIGN);
        !self.opts.direct || (within(offset) == 0 && whole(len) && starts.all(whole))
    }

    fn read_once(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
        let want: usize = bufs.iter().map(|buf| buf.len()).sum();
        let starts = bufs.iter().flat_map(|buf| [buf.as_ptr().addr(), buf.len()]);
        if !self.opts.read || !self.aligned(offset, want, starts) {
            return Err(if self.opts.read {
                Errno::INVAL
            } else {
                Errno::BADF
            });
        }
        self.disk.call(OpKind::Read, &self.path, |inner, fault| {
            let want = match fault {
                Some(FaultKind::Short) => inner.shorten(want, self.opts.direct),
                Some(fault) => return Err(fault.errno(OpKind::Read)),
                None => want,
            };
            let file = inner.state.file(self.ino).ok_or(Errno::IO)?;
            let left = usize::try_from(file.len.saturating_sub(offset)).unwrap_or(usize::MAX);
            let want = want.min(left);
            if inner.is_unreadable(self.ino, offset, want) {
                return Err(Errno::IO);
            }
            let mut done = 0;
            for buf in bufs {
                let mut filled = 0;
                while filled < buf.len() && done < want {
                    let at = offset + done as u64;
                    let number = block_number(at);
                    let block = match self.opts.direct {
                        true => file.direct(number),
                        false => file.blocks.get(number),
                    };
                    let start = within(at);
                    let take = (BLOCK - start).min(buf.len() - filled).min(want - done);
                    buf[filled..filled + take]
                        .copy_from_slice(&bytes_of(block)[start..start + take]);
                    filled += take;
                    done += take;
                }
            }
            inner.charge(|device| device.access(self.ino, offset, done as u64));
            Ok(done)
        })
    }

    fn write_once(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        let want: usize = bufs.iter().map(|buf| buf.len()).sum();
        let starts = bufs.iter().flat_map(|buf| [buf.as_ptr().addr(), buf.len()]);
        if !self.opts.write || !self.aligned(offset, want, starts) {
            return Err(if self.opts.write {
                Errno::INVAL
            } else {
                Errno::BADF
            });
        }
        if offset
            .checked_add(want as u64)
            .is_none_or(|end| end > MAX_LEN)
        {
            return Err(Errno::FBIG);
        }
        self.disk
            .call(OpKind::Write, &self.path, |inner, fault| match fault {
                None => self.put(inner, bufs, offset, want, false).map(|()| want),
                Some(FaultKind::Short) => {
                    let some = inner.shorten(want, self.opts.direct);
                    self.put(inner, bufs, offset, some, false).map(|()| some)
                }
                Some(fault) => {
                    if inner.rng.chance(4) {
                        let some = inner.shorten(want, self.opts.direct);
                        self.put(inner, bufs, offset, some, true)?;
                    }
                    Err(fault.errno(OpKind::Write))
                }
            })
    }

    /// Writes the first `len` bytes of the slices.
    fn put(
        &self,
        inner: &mut Inner,
        bufs: &[IoSlice<'_>],
        offset: u64,
        len: usize,
        failed: bool,
    ) -> Result<(), Errno> {
        let end = offset + len as u64;
        inner.check_room(self.ino, end)?;
        let file = inner.state.file(self.ino).ok_or(Errno::IO)?;
        let mut source = bufs.iter().flat_map(|buf| buf.chunks(BLOCK)).peekable();
        let mut used = 0;
        let mut blocks = Vec::with_capacity(len / BLOCK + 2);
        let mut at = offset;
        while at < end {
            let number = block_number(at);
            let mut bytes = *bytes_of(file.blocks.get(number));
            let block_end = (number + 1) * BLOCK as u64;
            while at < end.min(block_end) {
                let Some(piece) = source.peek() else {
                    return Err(Errno::IO);
                };
                let room = usize::try_from(end.min(block_end) - at).unwrap_or(BLOCK);
                let take = room.min(piece.len() - used);
                let start = within(at);
                bytes[start..start + take].copy_from_slice(&piece[used..used + take]);
                at += take as u64;
                used += take;
                if used == piece.len() {
                    source.next();
                    used = 0;
                }
            }
            blocks.push((number, block_of(&bytes)));
        }
        // A block that is written in part is read first, by the page cache or the device.
        let whole = offset.div_ceil(BLOCK as u64)..end / BLOCK as u64;
        whole.for_each(|number| inner.heal(self.ino, number));
        let change = Change::Write {
            ino: self.ino,
            blocks,
            end,
        };
        inner.record(
            OpKind::Write,
            &self.path,
            offset,
            len as u64,
            failed,
            change,
        );
        match self.opts.direct {
            true => inner.charge(|device| device.access(self.ino, offset, len as u64)),
            false => inner.on_device(|device| device.dirty(self.ino, offset, len as u64)),
        }
        Ok(())
    }

    fn sync(&self, op: OpKind) -> IoResult<()> {
        let result = self.disk.call(op, &self.path, |inner, fault| {
            inner.charge(|device| device.sync(Some(self.ino)));
            let change = match fault {
                None => Change::Sync { ino: self.ino },
                Some(_) => Change::FailSync { ino: self.ino },
            };
            inner.record(op, &self.path, 0, 0, fault.is_some(), change);
            if let Some(fault) = fault {
                inner.add_write_back_error(self.ino);
                self.errors_seen
                    .store(inner.write_back_errors(self.ino), Ordering::Relaxed);
                return Err(fault.errno(op));
            }
            let errors = inner.write_back_errors(self.ino);
            match self.errors_seen.swap(errors, Ordering::Relaxed) < errors {
                true => Err(Errno::IO),
                false => Ok(()),
            }
        });
        result.map_err(|errno| self.error(op, None, errno))
    }

    /// An operation that changes the length.
    fn resize(&self, op: OpKind, at: u64, len: u64, change: Change) -> IoResult<()> {
        let refused = match (self.opts.write, at.checked_add(len)) {
            (false, _) => Some(Errno::BADF),
            (true, Some(end)) if end <= MAX_LEN => None,
            (true, _) => Some(Errno::FBIG),
        };
        let result = match refused {
            Some(errno) => Err(errno),
            None => self.disk.call(op, &self.path, |inner, fault| {
                if let Some(fault) = fault {
                    return Err(fault.errno(op));
                }
                if let Change::Allocate { ino, end } = change {
                    inner.check_room(ino, end)?;
                }
                inner.record(op, &self.path, at, len, false, change);
                Ok(())
            }),
        };
        result.map_err(|errno| self.error(op, Some(at), errno))
    }
}

impl File for SimFile {
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        read_full(bufs, offset, self.opts.direct, |bufs, at| {
            self.read_once(bufs, at)
        })
        .map_err(|broken| self.broken(OpKind::Read, offset, broken))
    }

    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()> {
        write_full(bufs, offset, |bufs, at| self.write_once(bufs, at))
            .map_err(|broken| self.broken(OpKind::Write, offset, broken))
    }

    fn sync_data(&self) -> IoResult<()> {
        self.sync(OpKind::SyncData)
    }

    fn sync_all(&self) -> IoResult<()> {
        self.sync(OpKind::SyncAll)
    }

    fn len(&self) -> IoResult<u64> {
        let result = self
            .disk
            .call(OpKind::Len, &self.path, |inner, fault| match fault {
                Some(fault) => Err(fault.errno(OpKind::Len)),
                None => inner
                    .state
                    .file(self.ino)
                    .map(|file| file.len)
                    .ok_or(Errno::IO),
            });
        result.map_err(|errno| self.error(OpKind::Len, None, errno))
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.resize(
            OpKind::SetLen,
            len,
            0,
            Change::SetLen { ino: self.ino, len },
        )
    }

    fn allocate(&self, offset: u64, len: u64) -> IoResult<()> {
        let end = offset.saturating_add(len);
        match len {
            0 => Ok(()),
            _ => self.resize(
                OpKind::Allocate,
                offset,
                len,
                Change::Allocate { ino: self.ino, end },
            ),
        }
    }

    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        let op = OpKind::StartWriteback;
        let result = self.disk.call(op, &self.path, |inner, fault| match fault {
            Some(fault) => Err(fault.errno(op)),
            None => {
                inner.on_device(|device| device.written_back(self.ino, offset, len));
                Ok(())
            }
        });
        result.map_err(|errno| self.error(op, Some(offset), errno))
    }

    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        let op = OpKind::AwaitWriteback;
        let result = self.disk.call(op, &self.path, |inner, fault| {
            inner.charge(|device| device.await_writeback(self.ino, offset, len));
            if let Some(fault) = fault {
                let change = Change::FailSync { ino: self.ino };
                inner.record(op, &self.path, offset, len, true, change);
                inner.add_write_back_error(self.ino);
                self.errors_seen
                    .store(inner.write_back_errors(self.ino), Ordering::Relaxed);
                return Err(fault.errno(op));
            }
            let errors = inner.write_back_errors(self.ino);
            match self.errors_seen.swap(errors, Ordering::Relaxed) < errors {
                true => Err(Errno::IO),
                false => Ok(()),
            }
        });
        result.map_err(|errno| self.error(op, Some(offset), errno))
    }

    fn path(&self) -> &Path {
        &self.given
    }
}
