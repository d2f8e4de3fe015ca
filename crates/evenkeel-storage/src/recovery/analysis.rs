//! The pass over the log: where it ends, whether it is damaged, what becomes of files, and which
//! changes each page is owed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_io::Disk;

use super::list_builder::ListBuilder;
use super::lists::{LONGEST, PageLists, Share};
use crate::config::StorageConfig;
use crate::control::Control;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::files::Removed;
use crate::gaps::Gaps;
use crate::ids::{FileId, Fork, Lsn, PageId};
use crate::record::files::{decode_file, decode_files, decode_open_files, decode_truncate};
use crate::record::{FieldReader, RecordKind, RecordView};
use crate::resource_manager::ResourceManager;
use crate::wal::SegmentLayout;
use crate::wal::reader::{LogReader, open_segment};

/// Facts about the log itself and about files, collected by the analysis.
#[derive(Debug, Default)]
pub(crate) struct LogScan {
    /// Where redo starts.
    pub redo: Lsn,
    /// End of the valid log.
    pub end: Lsn,
    /// The log is proven durable up to here.
    pub proven: Lsn,
    /// Where the log was passed over.
    pub gaps: Gaps,
    /// LSN of the last record that does more than announce an incarnation.
    pub last_use: Lsn,
    /// Position from which each incarnation's records lie, oldest first.
    pub incarnations: Vec<(Lsn, u64)>,
    /// No file named by the log has this number or a higher one.
    pub next_file: u64,
    /// No record has the id of a transaction from here on.
    pub next_xid: u64,
    /// Records up to the end.
    pub records: u64,
    /// Why the log is damaged at its end rather than ended.
    pub damage: Option<StorageError>,
    dropped: HashSet<FileId>,
    cuts: HashMap<(FileId, Fork), Vec<(Lsn, u32)>>,
}

impl LogScan {
    /// Whether records remove any page, so that what the log says of it before does not matter.
    pub(super) fn removes_pages(&self) -> bool {
        !self.dropped.is_empty() || !self.cuts.is_empty()
    }

    /// LSN from which on what the log says of a page matters: that of the last record that cuts it
    /// off. `None`: its file is dropped.
    pub(super) fn matters_from(&self, page: PageId) -> Option<Lsn> {
        if self.dropped.contains(&page.file) {
            return None;
        }
        let cuts = self.cuts.get(&(page.file, page.fork));
        let covering = cuts
            .into_iter()
            .flatten()
            .filter(|(_, to)| page.block.0 >= *to);
        Some(covering.map(|(lsn, _)| *lsn).max().unwrap_or(Lsn::ZERO))
    }

    /// The files that records drop.
    pub(super) fn dropped(&self) -> impl Iterator<Item = FileId> + '_ {
        self.dropped.iter().copied()
    }

    /// The forks that records cut, of files that none drops, each with its least length.
    pub(super) fn least_cuts(&self) -> impl Iterator<Item = (FileId, Fork, u32)> + '_ {
        let cuts = self
            .cuts
            .iter()
            .filter(|((file, _), _)| !self.is_dropped(*file));
        cuts.filter_map(|((file, fork), cuts)| {
            let least = cuts.iter().map(|(_, to)| *to).min()?;
            Some((*file, *fork, least))
        })
    }

    /// Whether the log says that this file was dropped.
    pub(crate) fn is_dropped(&self, file: FileId) -> bool {
        self.dropped.contains(&file)
    }

    /// The files and blocks that records behind the redo point remove.
    pub(crate) fn removed(&self) -> Removed {
        let least = |cuts: &Vec<(Lsn, u32)>| cuts.iter().map(|(_, to)| *to).min();
        let cuts = self.cuts.iter();
        Removed {
            files: self.dropped.iter().copied().collect(),
            cuts: cuts
                .filter_map(|((file, fork), cuts)| Some((*file, *fork, least(cuts)?)))
                .collect(),
        }
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
        self.next_xid = self.next_xid.max(record.xid().saturating_add(1));
        let lsn = record.lsn();
        if record.kind() != RecordKind::INCARNATION {
            self.last_use = lsn;
        }
        let malformed = |error: ApplyError| StorageError::Redo {
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
            RecordKind::OPEN_FILES => {
                for open in decode_open_files(record.payload()) {
                    self.next_xid = self.next_xid.max(open.xid.saturating_add(1));
                    self.note_file(open.file);
                }
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

/// How often it is said how far the reading of the log is, looked at every so many records.
const REPORT: Duration = Duration::from_secs(5);
const OFTEN: u64 = 1 << 12;

/// Result of one pass over the log.
pub(crate) struct Analysis {
    pub(crate) scan: LogScan,
    pub(super) lists: PageLists,
    /// Where the log says of each creation of a file.
    created: Vec<(Lsn, FileId)>,
}

/// The facts that a pass over the log collects.
struct Collector {
    scan: LogScan,
    lists: ListBuilder,
    created: Vec<(Lsn, FileId)>,
}

impl Analysis {
    /// LSN of the first record that says of the creation of a file which no later one drops.
    pub(super) fn first_creation(&self) -> Option<Lsn> {
        let created = self.created.iter();
        let lasting = created.filter(|(_, file)| !self.scan.is_dropped(*file));
        lasting.map(|(lsn, _)| *lsn).min()
    }

    /// The files that the log says were made, and that no record drops.
    pub(super) fn files_made(&self) -> impl Iterator<Item = FileId> + '_ {
        let created = self.created.iter().map(|(_, file)| *file);
        created.filter(|file| !self.scan.is_dropped(*file))
    }
}

impl Collector {
    fn record(
        &mut self,
        manager: &dyn ResourceManager,
        record: &RecordView<'_>,
    ) -> StorageResult<()> {
        let lsn = record.lsn();
        if record.kind() == RecordKind::RESULT {
            self.lists.keep_all();
        }
        for (offset, part) in record.parts_with_offsets() {
            self.lists.add((lsn, offset), &part);
        }
        let failed = |error: ApplyError| StorageError::Redo {
            lsn,
            page: None,
            reason: error.to_string(),
        };
        match record.kind() {
            kind if !kind.is_storage() => manager.replayed(record).map_err(failed)?,
            RecordKind::FILE_CREATE => {
                let file = decode_file(record.payload()).map_err(failed)?;
                self.created.push((lsn, file));
                manager.file_created(file, record.xid());
            }
            // The file was on disk, and its directory entry synced, before the redo point passed
            // the record of its creation.
            RecordKind::OPEN_FILES => {
                for open in decode_open_files(record.payload()) {
                    self.created.push((lsn, open.file));
                    manager.file_created(open.file, open.xid);
                }
            }
            RecordKind::FILE_DROP => {
                for file in decode_files(record.payload()) {
                    manager.file_dropped(file);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn add_parts(lists: &mut PageLists, record: &RecordView<'_>) {
    let lsn = record.lsn();
    for (offset, part) in record.parts_with_offsets() {
        lists.add((lsn, offset), &part);
    }
}

/// Bytes of memory for what the log has: as the configuration has it, or as much as goes with the
/// pool's size. It is given back when redo is done.
pub(crate) fn memory_of(config: &StorageConfig) -> usize {
    const LEAST: u64 = 192 << 20;
    let memory = match config.recovery_memory {
        0 => (config.shared_buffers / 4 * 5).max(LEAST),
        memory => memory,
    };
    usize::try_from(memory).unwrap_or(usize::MAX)
}

/// Lists of all pages, which may leave the changes in the log if the page cache is expected to keep
/// it: the lists' memory is an eighth of the machine's, unless it was set.
fn empty_lists(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    start: Lsn,
    memory: usize,
) -> StorageResult<PageLists> {
    const CACHED: u64 = 6;
    let beyond = start
        .0
        .saturating_add((memory as u64).saturating_mul(CACHED));
    let segment = layout.segment_of(Lsn(beyond));
    let is_cached = open_segment(disk.as_ref(), layout, segment)?.is_none();
    Ok(PageLists::new(start, Share::default(), memory).may_fetch(is_cached))
}

/// Reads the log from the redo point to its end, and tells the manager of its records, and `pages`
/// now and then how many pages there are so far. Changes nothing on disk.
pub(crate) fn analyse(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    control: &Control,
    manager: &dyn ResourceManager,
    memory: usize,
    pages: &dyn Fn(usize),
) -> StorageResult<Analysis> {
    let start = (control.redo, control.incarnation);
    let mut reader = LogReader::new(Arc::clone(disk), layout.clone(), start, &control.gaps);
    reader.read_ahead();
    let lists = empty_lists(disk, layout, start.0, memory)?;
    let mut found = Collector {
        scan: LogScan {
            redo: control.redo,
            proven: control.redo,
            incarnations: vec![start],
            next_file: control.next_file,
            ..LogScan::default()
        },
        lists: ListBuilder::new(lists),
        created: Vec::new(),
    };
    let began = Instant::now();
    let mut told = began;
    while let Some(record) = reader.next_record()? {
        let lsn = record.lsn();
        if lsn.distance_from(start.0) >= LONGEST {
            return Err(StorageError::Config(format!(
                "the log from {} on is longer than {LONGEST} bytes",
                start.0
            )));
        }
        if !record.kind().is_storage() {
            let unknown = |what| StorageError::UnknownRecord { lsn, what };
            manager.knows(&record).map_err(unknown)?;
        }
        found.scan.note(&record)?;
        found.record(manager, &record)?;
        if !found.scan.records.is_multiple_of(OFTEN) {
            continue;
        }
        pages(found.lists.pages());
        if told.elapsed() >= REPORT {
            told = Instant::now();
            let (elapsed, position) = (began.elapsed().as_secs_f64(), reader.position());
            let rate = position.distance_from(start.0) as f64 / elapsed / f64::from(1 << 20);
            tracing::info!(
                "reading the log, elapsed time: {elapsed:.2} s, current LSN: {position}, {rate:.0} MB/s"
            );
        }
    }
    let mut scan = found.scan;
    scan.end = reader.position();
    scan.gaps = reader.gaps().clone();
    // A gap is recorded when the log before it is durable (GAP-1).
    let passed = scan.gaps.last().map(|gap| gap.end);
    let passed = passed.filter(|end| *end <= scan.end);
    scan.proven = scan.proven.max(passed.unwrap_or_default());
    scan.damage = reader.damage(control.durable)?;
    Ok(Analysis {
        scan,
        lists: found.lists.finish(),
        created: found.created,
    })
}

/// Reads the log once more, for the lists of another share of the pages.
pub(super) fn gather(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    scan: &LogScan,
    lists: &mut PageLists,
) -> StorageResult<()> {
    let first = scan.incarnations.first();
    let incarnation = first.map_or(0, |(_, incarnation)| *incarnation);
    let start = (scan.redo, incarnation);
    let mut reader = LogReader::new(Arc::clone(disk), layout.clone(), start, &scan.gaps);
    reader.read_ahead();
    while reader.is_before(scan.end) {
        let lsn = reader.position();
        let Some(record) = reader.next_record()? else {
            return Err(StorageError::Redo {
                lsn,
                page: None,
                reason: "the record was valid a moment ago".into(),
            });
        };
        add_parts(lists, &record);
    }
    Ok(())
}
