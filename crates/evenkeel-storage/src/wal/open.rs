//! Opening the log: making its tail durable, announcing the incarnation, starting the flusher.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use evenkeel_io::Disk;
use parking_lot::{Condvar, Mutex};

use crate::config::{StorageConfig, TornPageProtection};
use crate::error::{StorageError, StorageResult};
use crate::gaps::{Gap, Gaps};
use crate::ids::Lsn;
use crate::mutant::Mutant;
use crate::poison::Poison;
use crate::record::{Incarnation, RecordBuilder, RecordKind, aligned, completion_mark};
use crate::wal::backpressure::Backpressure;
use crate::wal::buffers::WalBuffers;
use crate::wal::flusher::Flusher;
use crate::wal::latency::FlushLatency;
use crate::wal::layout::SegmentLayout;
use crate::wal::log::{ImageOptions, Log, LogStats, micros};
use crate::wal::reader;
use crate::wal::segments::{Place, SegmentOptions, Segments};
use crate::wal::writer::LogWriter;

/// Log written without anyone asking once this much has piled up.
const PILE: u64 = 1 << 20;

/// Where and as what the log goes on.
pub(crate) struct LogStart {
    /// The log is proven durable up to here; what follows up to `end` is written again.
    pub proven: Lsn,
    /// End of the valid log.
    pub end: Lsn,
    /// New log goes to a fresh segment: log behind `end` may have been lost, and pages may have
    /// LSNs from there (GAP-1).
    pub fresh: bool,
    /// The redo point: log before it is not needed.
    pub redo: Lsn,
    /// Where there is no log before `end`.
    pub gaps: Gaps,
    /// Incarnation of the records before `end`, whose salt the announcement gets; `None` when
    /// there is nothing before `end` to go on from.
    pub previous: Option<u64>,
    /// The announcement of the records to come.
    pub announced: Incarnation,
    /// The redo point from which on the log has an image of every page it changes;
    /// [`Lsn::ZERO`] when the last cycle had none.
    pub images_from: Lsn,
}

/// Makes a gap durable, in the control file, before there is log behind it.
pub(crate) type RecordGap<'a> = &'a mut dyn FnMut(&Gaps, Lsn) -> StorageResult<()>;

impl Log {
    /// Goes on writing at `start`: makes what was read but is not proven durable so, has the gap
    /// before a fresh segment recorded, announces the new incarnation, and starts the flusher.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        layout: &SegmentLayout,
        config: &StorageConfig,
        start: &LogStart,
        poison: &Arc<Poison>,
        record_gap: RecordGap<'_>,
    ) -> StorageResult<Arc<Log>> {
        let segments = open_segments(disk, layout, config, start, poison)?;
        let begun = GoOn {
            disk,
            layout,
            segments: &segments,
            start,
            fsync: config.fsync,
        };
        let (writer, gaps) = begun.run(record_gap).inspect_err(|_| segments.stop())?;
        let begin = writer.position();
        let before = config.torn_page_protection == TornPageProtection::FullPageWrites;
        let ring_size = usize::try_from(config.wal_buffers).unwrap_or(usize::MAX);
        let log = Arc::new(Log {
            ring: WalBuffers::new(ring_size, begin),
            incarnation: start.announced.incarnation,
            gaps,
            max_record: config.max_record(),
            images: ImageOptions {
                before,
                hints: before && !config.has(Mutant::SkipHintImage),
                compress: config.wal_compression,
                results: config.wal_consistency_checking,
            },
            cycle: AtomicU64::new(start.images_from.0),
            pile: PILE.min(config.wal_buffers / 4),
            delay: AtomicU64::new(micros(config.wal_writer_delay)),
            durable: AtomicU64::new(begin.0),
            requested: AtomicU64::new(0),
            segments,
            poison: Arc::clone(poison),
            manager: OnceLock::new(),
            asleep: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            wake_lock: Mutex::new(false),
            wake: Condvar::new(),
            waiters: AtomicUsize::new(0),
            durable_lock: Mutex::new(()),
            durable_moved: Condvar::new(),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            thread: Mutex::new(None),
            stats: LogStats::default(),
            latency: FlushLatency::default(),
            backpressure: Backpressure::default(),
        });
        let weak = Arc::downgrade(&log);
        poison.on_set(move || {
            if let Some(log) = weak.upgrade() {
                log.give_up();
            }
        });
        let flusher = Flusher::new(Arc::clone(&log), writer);
        let thread = std::thread::Builder::new()
            .name("wal-flusher".into())
            .spawn(move || flusher.run())
            .map_err(|error| StorageError::Config(format!("cannot start a thread: {error}")))?;
        *log.thread.lock() = Some(thread);
        Ok(log)
    }
}

fn open_segments(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    config: &StorageConfig,
    start: &LogStart,
    poison: &Arc<Poison>,
) -> StorageResult<Arc<Segments>> {
    let options = SegmentOptions {
        fsync: config.fsync,
        direct: config.io_direct_wal,
        ahead: config.wal_segments_ahead,
        unwritten: config.wal_buffers,
    };
    let place = match start.fresh {
        true => Place::Fresh {
            end: start.end,
            redo: start.redo,
            gaps: &start.gaps,
        },
        false => Place::At(start.end),
    };
    Segments::open(Arc::clone(disk), layout.clone(), options, place, poison)
}

/// The steps before the flusher writes.
struct GoOn<'a> {
    disk: &'a Arc<dyn Disk>,
    layout: &'a SegmentLayout,
    segments: &'a Arc<Segments>,
    start: &'a LogStart,
    fsync: bool,
}

impl GoOn<'_> {
    /// A writer behind everything that is in the log, the new incarnation announced; and the gaps.
    fn run(&self, record_gap: RecordGap<'_>) -> StorageResult<(LogWriter, Gaps)> {
        let start = self.start;
        let mut writer = self.writer(start.proven.min(start.end))?;
        self.rewrite_tail(&mut writer)?;
        let mut gaps = start.gaps.clone();
        if start.fresh {
            let gap = Gap {
                start: start.end,
                end: self.layout.start_of(self.segments.first()),
            };
            // Unless the log ended with its last segment, and the next one was never made.
            if self.segments.has(gap.start)? {
                writer.seal()?;
            }
            gaps.add(gap);
            // Before it everything is durable by now, and behind it there is nothing (GAP-1).
            record_gap(&gaps, gap.start)?;
            if let Err(error) = self.segments.cut_behind(gap.start) {
                tracing::warn!("could not give up the rest of a log segment: {error}");
            }
            tracing::info!("{gap}: the database was not shut down in order");
            writer = self.writer(gap.end)?;
        }
        if let Some(previous) = start.previous {
            let old_end = gaps.before(writer.position());
            let announced = Incarnation {
                old_end: old_end.map_or(start.end, |gap| gap.start),
                ..start.announced
            };
            announce(&mut writer, previous, &announced)?;
        }
        Ok((writer, gaps))
    }

    fn writer(&self, at: Lsn) -> StorageResult<LogWriter> {
        LogWriter::new(Arc::clone(self.segments), at, self.fsync)
    }

    /// Writes the log from the writer's position to its end once more. It was read through the
    /// page cache, which may remember what a failed sync did not write.
    fn rewrite_tail(&self, writer: &mut LogWriter) -> StorageResult<()> {
        while writer.position() < self.start.end {
            let at = writer.position();
            let left = self.start.end.distance_from(at);
            let len = left.min(writer.room() as u64) as usize;
            reader::read_raw(self.disk.as_ref(), self.layout, at, writer.stage(len))?;
            writer.write_out()?;
        }
        Ok(())
    }
}

/// Writes the record behind which the new incarnation's records follow.
fn announce(writer: &mut LogWriter, previous: u64, announced: &Incarnation) -> StorageResult<()> {
    let lsn = writer.position();
    let mut record = RecordBuilder::new(Vec::new(), 0);
    record.payload(RecordKind::INCARNATION, &announced.encode());
    let crc = record.seal(lsn);
    let len = record.len();
    let mut bytes = record.into_buffer();
    let mark = completion_mark(lsn, previous, len as u32, crc);
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    bytes.resize(aligned(len), 0);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(writer.room()));
        writer.stage(now.len()).copy_from_slice(now);
        writer.write_out()?;
        rest = later;
    }
    Ok(())
}
