//! Short transfers and interruptions, handled in this one place.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use crate::buffer::IO_ALIGN;

/// The system takes at most this many slices in one call.
pub(crate) const MAX_SLICES: usize = 1024;

/// A transfer that failed, and how many bytes had been moved before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) errno: Errno,
    pub(crate) done: usize,
}

/// The progress of one transfer, whoever carries its steps out.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Bytes that are to be moved, and have been.
    total: usize,
    done: usize,
    /// It reads, and so ends where the file does.
    reads: bool,
    direct: bool,
}

/// How a transfer goes on after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// By another step for the rest.
    Again,
    Ended(Result<usize, Broken>),
}

impl Transfer {
    /// A read of so many bytes.
    ///
    /// With direct I/O a count that is not aligned means the end of the file: going on from there
    /// would be refused for its alignment.
    pub(crate) fn reading(total: usize, direct: bool) -> Transfer {
        Transfer {
            total,
            done: 0,
            reads: true,
            direct,
        }
    }

    /// A write of so many bytes. A step that moves nothing is an error, as nothing would ever make
    /// progress.
    pub(crate) fn writing(total: usize) -> Transfer {
        Transfer {
            total,
            done: 0,
            reads: false,
            direct: false,
        }
    }

    /// Bytes moved so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Takes the result of a step.
    pub(crate) fn step(&mut self, moved: Result<usize, Errno>) -> Step {
        let done = self.done;
        match moved {
            Ok(0) if self.reads => Step::Ended(Ok(done)),
            Ok(0) => Step::Ended(Err(Broken {
                errno: Errno::IO,
                done,
            })),
            Ok(moved) => {
                self.done += moved;
                let is_end = self.direct && moved % IO_ALIGN != 0;
                if self.done >= self.total || is_end {
                    Step::Ended(Ok(self.done))
                } else {
                    Step::Again
                }
            }
            Err(Errno::INTR) => Step::Again,
            Err(errno) => Step::Ended(Err(Broken { errno, done })),
        }
    }

    /// As [`Transfer::step`], for one that a ring has carried out. The kernel answers `AGAIN`
    /// where it would have to wait and was not told that it may: the flag says that the next step
    /// must be told.
    pub(crate) fn ring_step(&mut self, moved: Result<usize, Errno>) -> (Step, bool) {
        match moved {
            Err(Errno::AGAIN) => (Step::Again, true),
            moved => (self.step(moved), false),
        }
    }
}

/// Reads until the slices are full or the file ends. `step` reads once, at an offset.
pub(crate) fn read_full(
    mut bufs: &mut [IoSliceMut<'_>],
    offset: u64,
    direct: bool,
    mut step: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Result<usize, Errno>,
) -> Result<usize, Broken> {
    let total = bufs.iter().map(|buf| buf.len()).sum();
    let mut transfer = Transfer::reading(total, direct);
    IoSliceMut::advance_slices(&mut bufs, 0);
    while !bufs.is_empty() {
        let count = bufs.len().min(MAX_SLICES);
        let at = offset.saturating_add(transfer.done() as u64);
        let moved = step(&mut bufs[..count], at);
        if let Step::Ended(result) = transfer.step(moved) {
            return result;
        }
        IoSliceMut::advance_slices(&mut bufs, moved.unwrap_or_default());
    }
    Ok(transfer.done())
}

/// Writes all slices. `step` writes once, at an offset.
pub(crate) fn write_full(
    mut bufs: &mut [IoSlice<'_>],
    offset: u64,
    mut step: impl FnMut(&[IoSlice<'_>], u64) -> Result<usize, Errno>,
) -> Result<(), Broken> {
    let mut transfer = Transfer::writing(bufs.iter().map(|buf| buf.len()).sum());
    IoSlice::advance_slices(&mut bufs, 0);
    while !bufs.is_empty() {
        let count = bufs.len().min(MAX_SLICES);
        let at = offset.saturating_add(transfer.done() as u64);
        let moved = step(&bufs[..count], at);
        if let Step::Ended(result) = transfer.step(moved) {
            return result.map(drop);
        }
        IoSlice::advance_slices(&mut bufs, moved.unwrap_or_default());
    }
    Ok(())
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_interrupted_reads_go_on() {
        let source: Vec<u8> = (0..100).collect();
        let (mut a, mut b) = ([0u8; 30], [0u8; 50]);
        let mut calls = 0;
        let got = read_full(
            &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)],
            10,
            false,
            |bufs, offset| {
                calls += 1;
                if calls % 2 == 0 {
                    return Err(Errno::INTR);
                }
                let at = usize::try_from(offset).unwrap();
                let take = bufs[0].len().min(7);
                bufs[0][..take].copy_from_slice(&source[at..at + take]);
                Ok(take)
            },
        );
        assert_eq!(got, Ok(80));
        assert_eq!([&a[..], &b[..]].concat(), source[10..90]);
    }

    #[test]
    fn the_end_of_a_file_ends_a_read() {
        let mut buf = [0u8; 30];
        let mut left = 12;
        let got = read_full(&mut [IoSliceMut::new(&mut buf)], 0, false, |_, _| {
            let take = left.min(5);
            left -= take;
            Ok(take)
        });
        assert_eq!(got, Ok(12));
    }

    #[test]
    fn direct_reads_stop_at_an_unaligned_count() {
        let mut buf = [0u8; 8192];
        let mut calls = 0;
        let got = read_full(&mut [IoSliceMut::new(&mut buf)], 0, true, |_, _| {
            calls += 1;
            Ok(100)
        });
        assert_eq!((got, calls), (Ok(100), 1));
    }

    #[test]
    fn short_writes_go_on_and_errors_say_how_far() {
        let (a, b) = ([1u8; 10], [2u8; 10]);
        let mut written = Vec::new();
        let mut step = |bufs: &[IoSlice<'_>], offset: u64| {
            assert_eq!(offset, 5 + written.len() as u64);
            let take = bufs[0].len().min(3);
            written.extend_from_slice(&bufs[0][..take]);
            if written.len() > 15 {
                Err(Errno::NOSPC)
            } else {
                Ok(take)
            }
        };
        let all = &mut [IoSlice::new(&a)];
        assert_eq!(write_full(all, 5, &mut step), Ok(()));
        let more = &mut [IoSlice::new(&b)];
        let broken = write_full(more, 15, &mut step);
        assert_eq!(
            broken,
            Err(Broken {
                errno: Errno::NOSPC,
                done: 3
            })
        );
        let nothing = write_full(&mut [IoSlice::new(&a)], 0, |_, _| Ok(0));
        assert_eq!(
            nothing,
            Err(Broken {
                errno: Errno::IO,
                done: 0
            })
        );
    }

    #[test]
    fn a_ring_is_told_to_wait_where_the_kernel_would_not() {
        let mut transfer = Transfer::reading(100, false);
        let again = Err(Errno::AGAIN);
        assert_eq!(transfer.ring_step(Ok(40)), (Step::Again, false));
        assert_eq!(transfer.ring_step(again), (Step::Again, true));
        assert_eq!(transfer.ring_step(Err(Errno::INTR)), (Step::Again, false));
        assert_eq!(transfer.done(), 40);
        let ended = (Step::Ended(Ok(100)), false);
        assert_eq!(transfer.ring_step(Ok(60)), ended);
        let mut write = Transfer::writing(10);
        let broken = Broken {
            errno: Errno::IO,
            done: 4,
        };
        assert_eq!(write.ring_step(Ok(4)), (Step::Again, false));
        let ended = (Step::Ended(Err(broken)), false);
        assert_eq!(write.ring_step(Ok(0)), ended);
    }

    #[test]
    fn empty_transfers_make_no_call() {
        let got = read_full(&mut [IoSliceMut::new(&mut [])], 0, false, |_, _| {
            panic!("called")
        });
        assert_eq!(got, Ok(0));
        assert_eq!(
            write_full(&mut [IoSlice::new(&[])], 0, |_, _| panic!("called")),
            Ok(())
        );
    }
}
