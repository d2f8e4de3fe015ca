//! Verification of everything on disk, whatever it means: every page's checksum.

use evenkeel_storage::{BlockNumber, Fork, PageId};

use crate::database::Database;
use crate::error::EngineResult;
use crate::table::CheckReport;

/// How far a check of all pages has come.
#[derive(Clone, Copy, Debug)]
pub struct PageStep {
    /// The page that is read next.
    pub page: PageId,
    /// Pages read.
    pub pages_done: u64,
    /// Pages there are.
    pub pages: u64,
}

impl Database {
    /// Reads every page of every file, which verifies its checksum and that it is not older than
    /// it was, those of files included that are missing; `progress` is told of each before it is
    /// read.
    ///
    /// # Errors
    /// When the files cannot be listed. A page that cannot be read is a problem in the report.
    pub fn check_pages(&self, progress: &mut dyn FnMut(PageStep)) -> EngineResult<CheckReport> {
        let mut forks = Vec::new();
        for file in self.pool().files().list()? {
            for fork in [Fork::Main, Fork::Fsm, Fork::Vm] {
                if self.pool().files().exists(file, fork)? {
                    forks.push((file, fork, self.pool().fork(file, fork)?.len()));
                }
            }
        }
        let pages = forks.iter().map(|(_, _, blocks)| u64::from(*blocks)).sum();
        let mut report = CheckReport::default();
        if let Some(fault) = self.pool().files().manifest_fault() {
            report.add(fault);
        }
        let mut pages_done = 0;
        for (file, fork, blocks) in forks {
            let handle = self.pool().fork(file, fork)?;
            for block in (0..blocks).map(BlockNumber) {
                progress(PageStep {
                    page: PageId { file, fork, block },
                    pages_done,
                    pages,
                });
                pages_done += 1;
                report.blocks = report.blocks.saturating_add(1);
                if let Err(error) = handle.read(block) {
                    report.damaged.extend(error.damaged_page());
                    report.add(error.to_string());
                }
            }
        }
        Ok(report)
    }
}
