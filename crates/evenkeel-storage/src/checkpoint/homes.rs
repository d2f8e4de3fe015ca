//! Recovery is told of pages that are home between the ends of checkpoints.

use std::time::{Duration, Instant};

use super::sync;
use crate::control::Control;
use crate::core::Core;
use crate::error::StorageResult;

/// Least time between two.
const APART: Duration = Duration::from_secs(1);

/// Pages that were written home since recovery could last be told of it.
pub(super) struct Homes {
    /// Pages written by then.
    known: u64,
    last: Option<Instant>,
}

impl Homes {
    pub(super) fn new() -> Homes {
        Homes {
            known: 0,
            last: None,
        }
    }

    /// Makes what is home known to recovery if there is much of it: a crash then neither reads nor
    /// writes it again, though the redo point has not passed it (CKPT-8).
    pub(super) fn tell(&mut self, core: &Core) {
        let written = core.writer.pages_written();
        let much = written.saturating_sub(self.known) >= core.config.homes_after;
        let lately = self.last.is_some_and(|last| last.elapsed() < APART);
        if !much || lately || !core.config.fsync || core.log.has_images() {
            return;
        }
        match record(core) {
            Ok(()) => self.told(written),
            Err(error) => {
                tracing::error!("pages that are home could not be recorded: {error}");
                self.last = Some(Instant::now());
            }
        }
    }

    /// A checkpoint has told recovery of so many pages.
    pub(super) fn told(&mut self, written: u64) {
        self.known = self.known.max(written);
        self.last = Some(Instant::now());
    }
}

/// Syncs the data files and the manifest of them, and has it count.
fn record(core: &Core) -> StorageResult<()> {
    core.poison.check()?;
    let (_, manifest) = sync(core)?;
    let mut control = core.control.lock();
    let next = Control {
        manifest,
        written_at: core.disk.now_micros(),
        ..control.current().clone()
    };
    control.write(next).inspect_err(|error| {
        core.poison
            .set(format!("writing the control file failed: {error}"));
    })
}
