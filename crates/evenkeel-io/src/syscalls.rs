//! The system calls that no safe wrapper covers.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Takes an exclusive open-file-description lock on the whole file, without waiting.
/// `AGAIN` or `ACCESS` if another description holds one.
pub(crate) fn try_lock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    set_lock(fd, libc::F_WRLCK)
}

/// Gives up the lock of the file description, whoever else still has a descriptor of it.
pub(crate) fn unlock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    set_lock(fd, libc::F_UNLCK)
}

fn set_lock(fd: BorrowedFd<'_>, kind: libc::c_int) -> Result<(), Errno> {
    // SAFETY: `flock` is plain data, for which all zeroes is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open for the call and `lock` is a valid `flock`.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Begins writing a range back, and with `wait` also waits for the device to have taken it.
/// `len` zero means to the end of the file.
pub(crate) fn sync_file_range(
    fd: BorrowedFd<'_>,
    offset: i64,
    len: i64,
    wait: bool,
) -> Result<(), Errno> {
    let around = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let flags = libc::SYNC_FILE_RANGE_WRITE | if wait { around } else { 0 };
    // SAFETY: the descriptor is open for the call; no memory is passed.
    let result = unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Has a write beyond the limit of file sizes (`RLIMIT_FSIZE`) fail, instead of a signal ending the
/// process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal runs no handler; the call has no other precondition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
