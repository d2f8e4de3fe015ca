//! The first pass over the log: where it ends, whether it is damaged, and which pages later
//! records remove.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use evenkeel_io::Disk;

use crate::control::Control;
use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn, PageId};
use crate::store::ops::{decode_file, decode_files, decode_truncate};
use crate::wal::SegmentLayout;
use crate::wal::reader::LogReader;
use crate::wal::record::{FieldReader, MAX_RECORD, RecordKind, RecordView};

/// Least reach of the search for records behind the end.
const LEAST_REACH: u64 = 16 << 20;

/// What the first pass over the log found.
#[derive(Debug, Default)]
pub(crate) struct LogScan {
    /// Where redo starts.
    pub redo: Lsn,
    /// End of the valid log.
    pub end: Lsn,
    /// The log is proven durable up to here.
    pub proven: Lsn,
    /// Position from which each incarnation's records lie, oldest first.
    pub incarnations: Vec<(Lsn, u64)>,
    /// No file named by the log has this number or a higher one.
    pub next_file: u64,
    /// Records up to the end.
    pub records: u64,
    /// Why the log is damaged at its end rather than ended.
    pub damage: Option<StorageError>,
    dropped: HashSet<FileId>,
    cuts: HashMap<(FileId, Fork), Vec<(Lsn, u32)>>,
}

impl LogScan {
    /// Whether a record behind `lsn` removes this page, so that what the log says of it up to
    /// there no longer matters.
    pub(crate) fn is_doomed(&self, page: PageId, lsn: Lsn) -> bool {
        if self.dropped.contains(&page.file) {
            return true;
        }
        if self.cuts.is_empty() {
            return false;
        }
        let cuts = self.cuts.get(&(page.file, page.fork));
        cuts.is_some_and(|cuts| cuts.iter().any(|(at, to)| *at > lsn && page.block.0 >= *to))
    }

    /// Whether the log says that this file was dropped.
    pub(crate) fn is_dropped(&self, file: FileId) -> bool {
        self.dropped.contains(&file)
    }

    /// Incarnation of the last record.
    pub(crate) fn last_incarnation(&self) -> u64 {
        self.incarnations
            .last()
            .map_or(0, |(_, incarnation)| *incarnation)
    }

    fn note(&mut self, record: &RecordView<'_>) -> StorageResult<()> {
        self.records += 1;
        self.proven = self.proven.max(record.durable());
        let lsn = record.lsn();
        let malformed = |error: crate::ApplyError| StorageError::Redo {
            lsn,
            page: None,
            reason: error.to_string(),
        };
        match record.kind() {
            RecordKind::INCARNATION => {
                let next = FieldReader::new(record.payload())
                    .u64()
                    .map_err(malformed)?;
                self.incarnations.push((record.end(), next));
            }
            RecordKind::FILE_CREATE => {
                self.note_file(decode_file(record.payload()).map_err(malformed)?);
            }
            RecordKind::FILE_DROP => {
                for file in decode_files(record.payload()) {
                    self.note_file(file);
                    self.dropped.insert(file);
                }
            }
            RecordKind::TRUNCATE => {
                let (file, fork, to) = decode_truncate(record.payload()).map_err(malformed)?;
                self.cuts.entry((file, fork)).or_default().push((lsn, to));
            }
            _ => {}
        }
        Ok(())
    }

    fn note_file(&mut self, file: FileId) {
        if !file.is_status() {
            self.next_file = self.next_file.max(file.number() + 1);
        }
    }
}

/// Reads the log from the redo point to its end. Changes nothing.
pub(crate) fn scan(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    control: &Control,
) -> StorageResult<LogScan> {
    let start = (control.redo, control.incarnation);
    let mut reader = LogReader::new(Arc::clone(disk), layout.clone(), start.0, start.1);
    let mut scan = LogScan {
        redo: control.redo,
        proven: control.redo,
        incarnations: vec![start],
        next_file: control.next_file,
        ..LogScan::default()
    };
    while let Some(record) = reader.next_record()? {
        scan.note(&record)?;
    }
    scan.end = reader.position();
    let reach = control.wal_buffers.max(LEAST_REACH) + 2 * MAX_RECORD as u64;
    let damage = if control.durable > scan.end {
        Some((control.durable, "the control file".to_owned()))
    } else {
        let proof = reader.find_proof_of_damage(reach)?;
        proof.map(|(at, durable)| (durable, format!("the record at {at}")))
    };
    scan.damage = damage.map(|(durable, proof)| StorageError::LogDamaged {
        lsn: scan.end,
        durable,
        proof,
    });
    Ok(scan)
}
