//! Verification of everything on disk, whatever it means: every page's checksum.

use evenkeel_storage::{BlockNumber, Fork, PageId};

use crate::database::Database;
use crate::error::EngineResult;
use crate::table::CheckReport;

impl Database {
    /// Reads every page of every file, which verifies its checksum; `progress` is told of each
    /// before it is read.
    ///
    /// # Errors
    /// When the files cannot be listed. A page that cannot be read is a problem in the report.
    pub fn check_pages(&self, progress: &mut dyn FnMut(PageId)) -> EngineResult<CheckReport> {
        let mut report = CheckReport::default();
        for file in self.pool().files().list()? {
            for fork in [Fork::Main, Fork::Fsm, Fork::Vm] {
                if !self.pool().files().exists(file, fork)? {
                    continue;
                }
                let handle = self.pool().fork(file, fork)?;
                for block in (0..handle.len()).map(BlockNumber) {
                    progress(PageId { file, fork, block });
                    report.blocks += 1;
                    if let Err(error) = handle.read(block) {
                        report.add(error.to_string());
                    }
                }
            }
        }
        Ok(report)
    }
}
