//! Workloads on an open store.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::data::{self, Random};
use crate::measure::{self, Measured, Workers, latency};
use crate::plan::Plan;
use crate::report::Sample;
use crate::subject::{Result, Session, Store};

/// Share of the mixed load that is over when the checkpoint is forced.
const CHECKPOINT_AT: f64 = 0.4;

/// Loads all rows, `batch_rows` a commit.
pub fn load(store: &dyn Store, plan: &Plan) -> Result<Sample> {
    let mut session = store.session()?;
    let mut latency = latency()?;
    let (begun, cpu) = (Instant::now(), measure::cpu_time());
    let mut next = 0;
    while next < plan.rows {
        let end = plan.rows.min(next + plan.batch_rows);
        let rows: Vec<_> = (next..end).map(|n| data::row(n, 0)).collect();
        let at = Instant::now();
        session.put(&rows)?;
        latency.record(at.elapsed().as_nanos() as u64)?;
        next = end;
    }
    let measured = Measured {
        operations: plan.rows,
        elapsed: begun.elapsed(),
        cpu: measure::cpu_time().saturating_sub(cpu),
        latency,
    };
    Ok(Sample::rate("load", 1, "rows/s", measured))
}

/// Overwrites rows at random, one a commit.
pub fn commit(store: &dyn Store, plan: &Plan, threads: u32) -> Result<Sample> {
    let operation = put_one(plan);
    let workers = Workers {
        threads,
        timed: 1,
        operation: &operation,
    };
    let measured = measure::run_for(store, workers, plan.commit)?;
    Ok(Sample::rate("commit", threads, "commits/s", measured))
}

/// Overwrites rows at random, `batch_rows` a commit.
pub fn batch(store: &dyn Store, plan: &Plan) -> Result<Sample> {
    let operation = |session: &mut dyn Session, _: u32, turn: u64| {
        let mut random = Random::new(turn);
        let row = |_| data::row(random.below(plan.rows), turn);
        session.put(&(0..plan.batch_rows).map(row).collect::<Vec<_>>())
    };
    let workers = Workers {
        threads: 1,
        timed: 1,
        operation: &operation,
    };
    let mut measured = measure::run_for(store, workers, plan.commit)?;
    measured.operations *= plan.batch_rows;
    Ok(Sample::rate("batch", 1, "rows/s", measured))
}

/// Reads rows at random, each as committed by then.
pub fn read(store: &dyn Store, plan: &Plan, threads: u32) -> Result<Sample> {
    let operation = get_one(plan);
    let workers = Workers {
        threads,
        timed: 16,
        operation: &operation,
    };
    let measured = measure::run_for(store, workers, plan.read)?;
    Ok(Sample::rate("read", threads, "reads/s", measured))
}

/// Two threads that commit and one that reads, with a checkpoint forced amid them.
pub fn mixed(store: &dyn Store, plan: &Plan) -> Result<Vec<Sample>> {
    let (put, get) = (put_one(plan), get_one(plan));
    let writers = Workers {
        threads: 2,
        timed: 1,
        operation: &put,
    };
    let reader = Workers {
        threads: 1,
        timed: 16,
        operation: &get,
    };
    let (measured, checkpoint) = measure::run(store, &[writers, reader], || {
        std::thread::sleep(plan.mixed.mul_f64(CHECKPOINT_AT));
        let begun = Instant::now();
        let forced = store.checkpoint()?;
        let took = begun.elapsed();
        let rest = plan.mixed.mul_f64(1.0 - CHECKPOINT_AT);
        std::thread::sleep(rest.saturating_sub(took).max(rest / 4));
        Ok(forced.then_some(took))
    })?;
    let mut measured = measured.into_iter();
    let mut samples = Vec::new();
    for (name, threads, unit) in [("mixed", 2, "commits/s"), ("mixed-read", 1, "reads/s")] {
        let measured = measured.next().ok_or("a thread is missing")?;
        let mut sample = Sample::rate(name, threads, unit, measured);
        // Both kinds share one process.
        sample.cpu = None;
        samples.push(sample);
    }
    match checkpoint {
        Some(took) => samples.push(Sample::time("checkpoint", 2, took)),
        None => samples.push(Sample::hole(
            "checkpoint",
            2,
            "s",
            "nothing of the kind runs beside commits",
        )),
    }
    Ok(samples)
}

fn put_one(plan: &Plan) -> impl Fn(&mut dyn Session, u32, u64) -> Result<()> + Sync {
    let rows = plan.rows;
    move |session, thread, turn| {
        let n = Random::new(u64::from(thread) << 32 | turn).below(rows);
        session.put(&[data::row(n, turn)])
    }
}

fn get_one(plan: &Plan) -> impl Fn(&mut dyn Session, u32, u64) -> Result<()> + Sync {
    let rows = plan.rows;
    move |session, thread, turn| {
        let n = Random::new(u64::from(thread) << 32 | turn).below(rows);
        let mut right = false;
        session.get(&data::key(n), &mut |value| right = data::is_of(n, value))?;
        match right {
            true => Ok(()),
            false => Err(format!("row {n} is not what was put").into()),
        }
    }
}

/// Disk space of the directory.
pub fn size(dir: &Path) -> Result<Sample> {
    Ok(Sample::plain("size", "MB", allocated(dir)? as f64 / 1e6))
}

fn allocated(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // A file may go while this looks.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += match metadata.is_dir() {
            true => allocated(&entry.path())?,
            // In units of 512 bytes, whatever the file system's block.
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Time of a commit's floor on this disk: 4 KiB overwritten and fdatasync'ed, the median.
pub fn sync_time(dir: &Path) -> Result<Duration> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(dir.join("sync-time"))?;
    file.write_all_at(&[1; 1 << 16], 0)?;
    file.sync_all()?;
    let mut times = Vec::new();
    for turn in 0..51 {
        let at = Instant::now();
        file.write_all_at(&[turn as u8; 4096], (turn % 16) * 4096)?;
        file.sync_data()?;
        times.push(at.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}
