//! Short transfers and interruptions, handled in this one place.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use crate::buffer::IO_ALIGN;

/// The system takes at most this many slices in one call.
const MAX_SLICES: usize = 1024;

/// A transfer that failed, and how many bytes had been moved before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) errno: Errno,
    pub(crate) done: usize,
}

/// Reads until the slices are full or the file ends. `step` reads once, at an offset.
///
/// With direct I/O a count that is not aligned means the end of the file: going on from there
/// would be refused for its alignment.
pub(crate) fn read_full(
    mut bufs: &mut [IoSliceMut<'_>],
    offset: u64,
    direct: bool,
    mut step: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Result<usize, Errno>,
) -> Result<usize, Broken> {
    let mut done = 0;
    IoSliceMut::advance_slices(&mut bufs, 0);
    while !bufs.is_empty() {
        let count = bufs.len().min(MAX_SLICES);
        match step(&mut bufs[..count], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(moved) => {
                done += moved;
                IoSliceMut::advance_slices(&mut bufs, moved);
                if direct && moved % IO_ALIGN != 0 {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken { errno, done }),
        }
    }
    Ok(done)
}

/// Writes all slices. `step` writes once, at an offset; a count of zero is an error, as nothing
/// would ever make progress.
pub(crate) fn write_full(
    mut bufs: &mut [IoSlice<'_>],
    offset: u64,
    mut step: impl FnMut(&[IoSlice<'_>], u64) -> Result<usize, Errno>,
) -> Result<(), Broken> {
    let mut done = 0;
    IoSlice::advance_slices(&mut bufs, 0);
    while !bufs.is_empty() {
        let count = bufs.len().min(MAX_SLICES);
        match step(&bufs[..count], offset.saturating_add(done as u64)) {
            Ok(0) => {
                return Err(Broken {
                    errno: Errno::IO,
                    done,
                });
            }
            Ok(moved) => {
                done += moved;
                IoSlice::advance_slices(&mut bufs, moved);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken { errno, done }),
        }
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
