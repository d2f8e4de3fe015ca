//! How much log a thread has made: what a command on it shows as its own.

use std::cell::Cell;
use std::ops::Sub;

/// Log that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Records.
    pub records: u64,
    /// Images of pages in them, for torn pages.
    pub images: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Sub for LogUsage {
    type Output = LogUsage;

    fn sub(self, before: LogUsage) -> LogUsage {
        LogUsage {
            records: self.records - before.records,
            images: self.images - before.images,
            bytes: self.bytes - before.bytes,
        }
    }
}

thread_local! {
    static MADE: Cell<LogUsage> = const { Cell::new(LogUsage { records: 0, images: 0, bytes: 0 }) };
}

impl LogUsage {
    /// All that this thread has made so far, in whichever log.
    #[must_use]
    pub fn of_this_thread() -> LogUsage {
        MADE.get()
    }
}

pub(super) fn made_record(bytes: u64) {
    let made = MADE.get();
    MADE.set(LogUsage {
        records: made.records + 1,
        bytes: made.bytes + bytes,
        ..made
    });
}

pub(crate) fn made_images(count: usize) {
    let made = MADE.get();
    MADE.set(LogUsage {
        images: made.images + count as u64,
        ..made
    });
}
