//! The second pass: applying the log's parts to their pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::prefetch::{Forks, LookAhead};
use crate::buffer::WriteGuard;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::{Fork, Lsn};
use crate::page::{CHECKSUM_OFFSET, PageBuf, PageRead};
use crate::recovery::{LogScan, RecoveryStats};
use crate::store::ops::{decode_file, decode_files, decode_truncate};
use crate::store::{ApplyContext, Core, apply_part};
use crate::wal::reader::LogReader;
use crate::wal::record::{PartFlags, PartView, RecordKind, RecordView};
use crate::wal::{SegmentLayout, image};

/// How often redo says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

struct Redo<'a> {
    core: &'a Core,
    scan: &'a LogScan,
    forks: Forks<'a>,
    stats: &'a mut RecoveryStats,
    rewrite: bool,
    /// The log goes on behind its damage, so pages may well be newer than its end.
    gave_up: bool,
    created: Option<Lsn>,
}

/// Replays the log from the redo point to its end. Returns the LSN of the first record that
/// creates a file which no later one drops.
pub(crate) fn redo(
    core: &Core,
    layout: &SegmentLayout,
    scan: &LogScan,
    gave_up: bool,
    stats: &mut RecoveryStats,
) -> StorageResult<Option<Lsn>> {
    let start = Instant::now();
    let rewrite = !stats.clean;
    let announced = rewrite && scan.records > 0;
    if announced {
        tracing::info!("redo starts at {}", scan.redo);
    }
    let incarnation = scan
        .incarnations
        .first()
        .map_or(0, |(_, incarnation)| *incarnation);
    let disk = Arc::clone(&core.disk);
    let mut reader = LogReader::new(disk, layout.clone(), scan.redo, incarnation);
    let mut redo = Redo {
        core,
        scan,
        forks: Forks::new(&core.pool),
        stats,
        rewrite,
        gave_up,
        created: None,
    };
    let mut ahead = core.recovery_prefetcher().map(LookAhead::new);
    let mut last_progress = start;
    while reader.position() < scan.end {
        if let Some(ahead) = &mut ahead {
            ahead.before(&mut reader, &mut redo.forks, scan)?;
        }
        let Some(record) = reader.next_record()? else {
            return Err(StorageError::Redo {
                lsn: reader.position(),
                page: None,
                reason: "the record was valid a moment ago".into(),
            });
        };
        redo.record(&record)?;
        if last_progress.elapsed() >= PROGRESS {
            last_progress = Instant::now();
            tracing::info!(
                "redo in progress, elapsed time: {:.2} s, current LSN: {}",
                start.elapsed().as_secs_f64(),
                reader.position()
            );
        }
    }
    let created = redo.created;
    stats.prefetch = ahead.map(|ahead| ahead.stats).unwrap_or_default();
    stats.redo_time = start.elapsed();
    if announced {
        tracing::info!(
            "redo done at {}: {} records, {} parts applied, {} already there, {:.3} s",
            scan.end,
            stats.records,
            stats.applied,
            stats.skipped,
            stats.redo_time.as_secs_f64()
        );
    }
    Ok(created)
}

/// Whether a part needs nothing of what the page holds.
fn is_whole(flags: PartFlags) -> bool {
    flags.contains(PartFlags::INIT) || flags.contains(PartFlags::BEFORE)
}

impl Redo<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> StorageResult<()> {
        self.stats.records += 1;
        for part in record.parts() {
            if self.scan.is_doomed(part.page, record.lsn()) {
                self.stats.doomed += 1;
            } else {
                self.part(record.lsn(), &part)?;
            }
        }
        let failed = |error: ApplyError| StorageError::Redo {
            lsn: record.lsn(),
            page: None,
            reason: error.to_string(),
        };
        if !record.kind().is_storage() {
            return self.core.client.replayed(record).map_err(failed);
        }
        match record.kind() {
            RecordKind::FILE_CREATE => {
                let file = decode_file(record.payload()).map_err(failed)?;
                if !self.scan.is_dropped(file) {
                    self.core.pool.create_fork(file, Fork::Main)?;
                    self.created.get_or_insert(record.lsn());
                }
                self.core.client.file_created(file, record.xid());
            }
            RecordKind::FILE_DROP => {
                for file in decode_files(record.payload()) {
                    self.forks.forget(file);
                    self.core.pool.drop_file(file)?;
                    self.core.client.file_dropped(file);
                }
            }
            RecordKind::TRUNCATE => {
                let (file, fork, blocks) = decode_truncate(record.payload()).map_err(failed)?;
                if !self.scan.is_dropped(file) {
                    self.core.pool.truncate(file, fork, blocks)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn part(&mut self, lsn: Lsn, part: &PartView<'_>) -> StorageResult<()> {
        let fork = Arc::clone(self.forks.get(part.page.file, part.page.fork)?);
        let len = part
            .page
            .block
            .0
            .checked_add(1)
            .ok_or_else(|| StorageError::Redo {
                lsn,
                page: Some(part.page),
                reason: "block number out of range".into(),
            })?;
        fork.ensure_len(len)?;
        if part.flags.contains(PartFlags::COMPARE) {
            return self.compare(part, &fork.write(part.page.block)?);
        }
        // A part that initialises the page, or has its image, says all there is to know of it:
        // what is on disk, torn or older or newer, does not matter, since all later changes
        // follow in the log.
        let pin = if is_whole(part.flags) {
            fork.pin_new(part.page.block)?
        } else {
            fork.pin(part.page.block)?
        };
        self.apply(lsn, part, &mut pin.write())
    }

    /// Compares a page with what the change before had made of it. A page that came from the
    /// disk may be ahead.
    fn compare(&mut self, part: &PartView<'_>, page: &WriteGuard<'_>) -> StorageResult<()> {
        let (page_id, lsn) = (part.page, part.prev_lsn);
        if page.lsn() > lsn {
            return Ok(());
        }
        let mut found = PageBuf::zeroed();
        found.bytes_mut().copy_from_slice(page.bytes());
        let mut expected = PageBuf::zeroed();
        image::restore(part.data, expected.bytes_mut()).map_err(|error| StorageError::Redo {
            lsn,
            page: Some(page_id),
            reason: error.to_string(),
        })?;
        for page in [&mut found, &mut expected] {
            self.core.client.mask(&mut page.page_mut());
            page.page_mut().put_u32(CHECKSUM_OFFSET, 0);
        }
        let bytes = expected.bytes().iter().zip(found.bytes());
        match bytes.enumerate().find(|(_, (a, b))| a != b) {
            None => {
                self.stats.compared += 1;
                Ok(())
            }
            Some((offset, (expected, found))) => Err(StorageError::Inconsistent {
                page: page_id,
                lsn,
                offset,
                expected: *expected,
                found: *found,
            }),
        }
    }

    fn apply(
        &mut self,
        lsn: Lsn,
        part: &PartView<'_>,
        page: &mut WriteGuard<'_>,
    ) -> StorageResult<()> {
        let found = page.lsn();
        if found >= self.scan.end && !self.gave_up {
            return Err(StorageError::LogDamaged {
                lsn: self.scan.end,
                durable: found,
                proof: format!("the LSN of {}", part.page),
            });
        }
        if found >= lsn {
            self.stats.skipped += 1;
            if self.rewrite {
                // The page cache may know what the disk does not (recovery rule 5).
                page.mark_dirty(lsn);
            }
            return Ok(());
        }
        if !is_whole(part.flags) && found != part.prev_lsn {
            return Err(StorageError::LostWrite {
                page: part.page,
                record: lsn,
                expected: part.prev_lsn,
                found,
            });
        }
        page.mark_dirty(lsn);
        let cx = ApplyContext {
            lsn,
            page_id: part.page,
        };
        let client = self.core.client.as_ref();
        let mut page = page.page_mut();
        let before = if part.flags.contains(PartFlags::BEFORE) {
            image::restore(part.data, page.bytes_mut())
        } else {
            Ok(part.data)
        };
        before
            .and_then(|data| apply_part(client, part.op, part.flags, &mut page, data, &cx))
            .map_err(|error| StorageError::Redo {
                lsn,
                page: Some(part.page),
                reason: error.to_string(),
            })?;
        self.stats.applied += 1;
        Ok(())
    }
}
