//! Disks: files, queues of reads and writes, direct I/O, and the simulated disk.
//!
//! Everything above this crate reaches storage through [`Disk`] and [`File`]. [`FileDisk`] is
//! the operating system's; [`SimDisk`] lives in memory, can crash at any operation, and obeys
//! only the promises that the README's rules list.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod blocking;
mod buffer;
mod disk;
mod error;
mod file;
mod file_disk;
mod gate;
mod metered;
pub mod mutate;
mod native;
mod process;
mod queue;
mod shared_queue;
mod sim;
mod syscalls;
mod transfer;
mod uring;
mod whole;
mod worker;

pub use blocking::{BlockingHook, HookAlreadySet, blocking, set_blocking_hook};
pub use buffer::{AlignedBuf, IO_ALIGN, IoBuf};
pub use disk::{BootId, Disk, LockGuard};
pub use error::{IoError, IoErrorKind, IoResult, OpKind};
pub use file::{File, OpenOptions};
pub use file_disk::FileDisk;
pub use metered::{IoObserver, MeteredDisk, Observed};
pub use native::NativeFile;
pub use queue::{Finish, IoCompletion, IoMethod, IoOp, IoQueue, IoWork};
pub use sim::{
    CrashImage, Fault, FaultKind, ImageSeries, JournalOp, LatencyMode, LatencyModel, Outcome,
    SimDisk, sample, skip, takes_all,
};
pub use whole::write_whole;
