//! Disks: files, queues of reads and writes, direct I/O, and the simulated disk.
//!
//! Everything above this crate reaches storage through [`Disk`] and [`File`]. [`FileDisk`] is
//! the operating system's; [`SimDisk`] lives in memory, can crash at any operation, and obeys
//! only the promises that the README's rules list.
#![deny(unsafe_code)]

mod blocking;
mod buffer;
mod disk;
mod error;
mod file_disk;
mod metered;
mod queue;
mod sim;
mod syscalls;
mod transfer;
mod worker;

pub use blocking::{BlockingHook, HookAlreadySet, blocking, set_blocking_hook};
pub use buffer::{AlignedBuf, IO_ALIGN, IoBuf};
pub use disk::{Disk, File, IoMethod, LockGuard, OpenOptions};
pub use error::{IoError, IoErrorKind, IoResult, OpKind};
pub use file_disk::FileDisk;
pub use metered::{IoObserver, MeteredDisk, Observed};
pub use queue::{IoCompletion, IoOp, IoQueue, IoWork};
pub use sim::{
    CrashImage, Fault, FaultKind, ImageSeries, JournalOp, LatencyMode, LatencyModel, Outcome,
    SimDisk,
};
