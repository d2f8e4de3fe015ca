//! Counters by who, what and why, fed by the disk's observer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{IoObserver, Observed};

use super::backend::{BackendType, IoContext};
use super::flights::{Flights, IoUnderWay};
use super::latency::{Histogram, LatencySnapshot, TimedOperation};
use super::object::IoObject;

/// The counters of one row of `pg_stat_io`.
#[derive(Default)]
pub(crate) struct Counts {
    /// By operation: how many, bytes, nanoseconds.
    operations: [[AtomicU64; 3]; TimedOperation::ALL.len()],
    hits: AtomicU64,
    evictions: AtomicU64,
    reuses: AtomicU64,
}

impl Counts {
    pub(crate) fn hit(&self, pages: u64) {
        self.hits.fetch_add(pages, Ordering::Relaxed);
    }

    pub(crate) fn evicted(&self, pages: u64) {
        self.evictions.fetch_add(pages, Ordering::Relaxed);
    }

    pub(crate) fn reused(&self, pages: u64) {
        self.reuses.fetch_add(pages, Ordering::Relaxed);
    }

    fn operation(&self, operation: TimedOperation, bytes: u64, nanos: u64) {
        let [count, total, time] = &self.operations[operation as usize];
        count.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes, Ordering::Relaxed);
        time.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// One row of `pg_stat_io`, since the start. Times are sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoStatsRow {
    /// Type of the backend that did the I/O.
    pub backend_type: BackendType,
    /// Object of the I/O.
    pub object: IoObject,
    /// Context of the I/O.
    pub context: IoContext,
    /// Read operations; one may bring several pages.
    pub reads: u64,
    /// Bytes asked for by them.
    pub read_bytes: u64,
    /// Time spent in them.
    pub read_time: Duration,
    /// Write operations.
    pub writes: u64,
    /// Bytes written by them.
    pub write_bytes: u64,
    /// Time spent in them.
    pub write_time: Duration,
    /// Requests for write-back.
    pub writebacks: u64,
    /// Time spent in them.
    pub writeback_time: Duration,
    /// Operations that allocated space at a file's end.
    pub extends: u64,
    /// Bytes allocated by them.
    pub extend_bytes: u64,
    /// Time spent in them.
    pub extend_time: Duration,
    /// Pages found in the pool.
    pub hits: u64,
    /// Pages replaced to make room in the pool.
    pub evictions: u64,
    /// Pages replaced by their ring's next page.
    pub reuses: u64,
    /// Syncs.
    pub fsyncs: u64,
    /// Time spent in them.
    pub fsync_time: Duration,
}

/// All counters of one store.
pub struct IoStats {
    counts: Box<[Counts]>,
    latencies: Box<[Histogram]>,
    pub(super) flights: Flights,
    slow: AtomicU64,
    epoch: Instant,
}

fn row_index(backend: BackendType, object: IoObject, context: IoContext) -> usize {
    let objects = IoObject::ALL.len();
    (backend as usize * objects + object as usize) * IoContext::ALL.len() + context as usize
}

impl IoStats {
    /// All zero. Operations that take longer than `slow` are reported; zero reports none.
    #[must_use]
    pub fn new(slow: Duration) -> Arc<IoStats> {
        let rows = BackendType::COUNT * IoObject::ALL.len() * IoContext::ALL.len();
        let kinds = IoObject::ALL.len() * TimedOperation::ALL.len();
        Arc::new(IoStats {
            counts: (0..rows).map(|_| Counts::default()).collect(),
            latencies: (0..kinds).map(|_| Histogram::new()).collect(),
            flights: Flights::new(slow),
            slow: AtomicU64::new(0),
            epoch: Instant::now(),
        })
    }

    /// The counters of the calling thread for an object and a context.
    pub(crate) fn counts(&self, object: IoObject, context: IoContext) -> &Counts {
        self.counts_of(BackendType::current(), object, context)
    }

    pub(crate) fn counts_of(
        &self,
        backend: BackendType,
        object: IoObject,
        context: IoContext,
    ) -> &Counts {
        &self.counts[row_index(backend, object, context)]
    }

    /// One row.
    #[must_use]
    pub fn row(&self, who: BackendType, object: IoObject, context: IoContext) -> IoStatsRow {
        let counts = self.counts_of(who, object, context);
        let get = |op: TimedOperation, what: usize| {
            counts.operations[op as usize][what].load(Ordering::Relaxed)
        };
        let time = |op| Duration::from_nanos(get(op, 2));
        use TimedOperation::{Extend, Fsync, Read, Write, Writeback};
        IoStatsRow {
            backend_type: who,
            object,
            context,
            reads: get(Read, 0),
            read_bytes: get(Read, 1),
            read_time: time(Read),
            writes: get(Write, 0),
            write_bytes: get(Write, 1),
            write_time: time(Write),
            writebacks: get(Writeback, 0),
            writeback_time: time(Writeback),
            extends: get(Extend, 0),
            extend_bytes: get(Extend, 1),
            extend_time: time(Extend),
            hits: counts.hits.load(Ordering::Relaxed),
            evictions: counts.evictions.load(Ordering::Relaxed),
            reuses: counts.reuses.load(Ordering::Relaxed),
            fsyncs: get(Fsync, 0),
            fsync_time: time(Fsync),
        }
    }

    /// Every row, by who, what and why. Hits on pages of open forks outside rings are not in
    /// them: see [`BufferPool::io_rows`](crate::buffer::BufferPool::io_rows).
    pub fn rows(&self) -> impl Iterator<Item = IoStatsRow> + '_ {
        BackendType::ALL.into_iter().flat_map(move |who| {
            IoObject::ALL.into_iter().flat_map(move |object| {
                let contexts = IoContext::ALL.into_iter();
                contexts.map(move |context| self.row(who, object, context))
            })
        })
    }

    /// How long each kind of operation on each kind of file has taken.
    pub fn latencies(&self) -> impl Iterator<Item = LatencySnapshot> + '_ {
        IoObject::ALL.into_iter().flat_map(move |object| {
            TimedOperation::ALL.into_iter().map(move |operation| {
                let index = object as usize * TimedOperation::ALL.len() + operation as usize;
                self.latencies[index].snapshot(object, operation)
            })
        })
    }

    /// The reads and writes of files that are under way now.
    #[must_use]
    pub fn transfers(&self) -> Vec<IoUnderWay> {
        self.flights.transfers()
    }

    /// Operations that took longer than `io_slow_threshold`, those still under way included.
    #[must_use]
    pub fn slow_operations(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    pub(super) fn count_slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        // Centuries fit.
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Nanoseconds since some moment.
    pub(super) fn age(&self, started: u64) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(started))
    }
}

/// Packs who and why into an account.
fn account_of(backend: BackendType, context: IoContext) -> u64 {
    backend as u64 | (context as u64) << 8
}

fn owner_of(account: u64) -> (BackendType, IoContext) {
    let backend = BackendType::ALL.get((account & 0xFF) as usize);
    let context = IoContext::ALL.get((account >> 8) as usize);
    (
        backend.copied().unwrap_or(BackendType::BackgroundWorker),
        context.copied().unwrap_or(IoContext::Normal),
    )
}

impl IoObserver for IoStats {
    fn classify(&self, path: &Path) -> u8 {
        IoObject::of(path) as u8
    }

    fn account(&self) -> u64 {
        account_of(BackendType::current(), IoContext::current())
    }

    fn begin(&self, op: &Observed<'_>) -> u64 {
        let started = self.now();
        self.flights.begin(op, started);
        started
    }

    fn end(&self, op: &Observed<'_>, started: u64) {
        let elapsed = self.age(started);
        if let Some(reported) = self.flights.end(op, started, elapsed)
            && !reported
        {
            self.count_slow();
        }
        let Some(operation) = TimedOperation::of(op.kind) else {
            return;
        };
        let (backend, context) = owner_of(op.account.unwrap_or_else(|| self.account()));
        let object = IoObject::of_class(op.class);
        let nanos = elapsed.as_nanos() as u64;
        self.counts_of(backend, object, context)
            .operation(operation, op.len, nanos);
        let index = object as usize * TimedOperation::ALL.len() + operation as usize;
        self.latencies[index].record(nanos);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_io::{AlignedBuf, Disk, IoOp, MeteredDisk, OpKind, OpenOptions, SimDisk};

    use super::*;

    #[test]
    fn files_are_told_apart_by_where_they_are() {
        for (path, object) in [
            ("/a/wal/b/base/16384.1", IoObject::Relation),
            ("/base/status/3", IoObject::Relation),
            ("/a/temp/16390_fsm", IoObject::TempRelation),
            ("d/wal/000000010000000000000001", IoObject::Wal),
            ("d/doublewrite.1", IoObject::DoubleWrite),
            ("d/control", IoObject::Other),
        ] {
            assert_eq!(IoObject::of(path.as_ref()), object, "{path}");
        }
    }

    #[test]
    fn transfers_are_listed_while_they_are_under_way() {
        let stats = IoStats::new(Duration::ZERO);
        let path: Arc<Path> = Arc::from(Path::new("/base/7"));
        let op = |kind, offset, account| Observed {
            path: &path,
            class: IoObject::Relation as u8,
            kind,
            offset,
            len: 8192,
            account,
            direct: offset == 0,
        };
        let ops = [
            op(OpKind::Read, 0, Some(1)),
            op(OpKind::Write, 8192, None),
            op(OpKind::SyncData, 0, None),
        ];
        let list = || {
            let all = stats.transfers().into_iter();
            all.map(|io| (io.generation, io.reads, io.offset, io.queued, io.direct))
                .collect::<Vec<_>>()
        };
        let tickets = ops.map(|op| stats.begin(&op));
        let (read, write) = ((1, true, 0, true, true), (1, false, 8192, false, false));
        assert_eq!(list(), [read, write]);
        stats.end(&ops[0], tickets[0]);
        assert_eq!(list(), [write]);
        // Its place is another one's.
        let again = stats.begin(&ops[0]);
        assert_eq!(list(), [(2, true, 0, true, true), write]);
        let ids: Vec<u64> = stats.transfers().iter().map(|io| io.id).collect();
        assert!(ids[0] != ids[1]);
        for (op, ticket) in ops.iter().zip([again, tickets[1], tickets[2]]) {
            stats.end(op, ticket);
        }
        assert_eq!(list(), []);
    }

    #[test]
    fn queued_operations_count_for_who_submitted_them() {
        let stats = IoStats::new(Duration::ZERO);
        let observer = Arc::clone(&stats) as Arc<dyn IoObserver>;
        let disk = MeteredDisk::new(Arc::new(SimDisk::new(1)), observer);
        disk.create_dir_all("/base".as_ref())
            .expect("no fault armed");
        let file = disk
            .open("/base/1".as_ref(), OpenOptions::create())
            .expect("no fault armed");
        file.write_all_at(&[0; 8192], 0).expect("no fault armed");
        let mut queue = disk.queue(4);
        {
            let _who = BackendType::Checkpointer.enter();
            let _why = IoContext::Vacuum.enter();
            let buf = AlignedBuf::zeroed(4096).into();
            queue.submit(vec![IoOp::read(file, 0, vec![buf], 0)]);
        }
        queue.wait(1, &mut Vec::new());
        let row = stats.row(
            BackendType::Checkpointer,
            IoObject::Relation,
            IoContext::Vacuum,
        );
        assert_eq!((row.reads, row.read_bytes, row.writes), (1, 4096, 0));
        let mine = stats.row(
            BackendType::ClientBackend,
            IoObject::Relation,
            IoContext::Normal,
        );
        assert_eq!((mine.reads, mine.writes, mine.write_bytes), (0, 1, 8192));
        let timed: u64 = stats.latencies().map(|seen| seen.count()).sum();
        assert_eq!(timed, 2);
    }
}
