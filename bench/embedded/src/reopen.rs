//! Killing a process amid its commits, and what the next one finds (BENCH-3 and BENCH-4).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::data;
use crate::plan::Plan;
use crate::subject::{Result, Row, Session, Store, Subject};

/// Threads of the process that is killed.
const WRITERS: u32 = 2;
/// An acknowledgement: thread and number of the commit, little endian.
const ACK_BYTES: usize = 8;

/// The commits of one writing thread that the outside knows to be durable: 0 to this, exclusive.
pub type Acknowledged = [u32; WRITERS as usize];

/// Findings after the kill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged commits.
    pub acknowledged: u64,
    /// Those of them of which a row is missing or wrong.
    pub lost: u64,
    /// Unacknowledged commits of which some rows are there and some are not.
    pub torn: u64,
}

/// Rows of a commit of the process to be killed; no other commit has any of them.
fn commit_rows(plan: &Plan, thread: u32, commit: u32) -> Vec<Row> {
    // Above all rows that are loaded.
    let first = (u64::from(thread) + 1) << 48 | u64::from(commit) << 16;
    let row = |n| data::row(n, u64::from(commit));
    (first..first + plan.kill_rows).map(row).collect()
}

/// The process to be killed: commits for ever, and says so after each.
pub fn child(subject: &Subject, dir: &Path, plan: &Plan) -> Result<()> {
    let store = (subject.open)(dir, plan.cache)?;
    // Written to without a buffer: an acknowledgement is in the pipe or was not given.
    let pipe = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    std::thread::scope(|scope| {
        let (store, pipe) = (store.as_ref(), &pipe);
        let write = |thread| scope.spawn(move || write_on(store, pipe, plan, thread));
        let threads: Vec<_> = (0..WRITERS).map(write).collect();
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })
}

fn write_on(store: &dyn Store, mut pipe: &File, plan: &Plan, thread: u32) -> Result<()> {
    let mut session = store.session()?;
    for commit in 0.. {
        session.put(&commit_rows(plan, thread, commit))?;
        let mut ack = [0; ACK_BYTES];
        ack[..4].copy_from_slice(&thread.to_le_bytes());
        ack[4..].copy_from_slice(&commit.to_le_bytes());
        pipe.write_all(&ack)?;
    }
    Ok(())
}

/// Runs the process and kills it once it has acknowledged enough.
pub fn kill_amid_writing(subject: &Subject, dir: &Path, plan: &Plan) -> Result<Acknowledged> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("write-until-killed").arg(subject.name).arg(dir);
    command.args([plan.cache.to_string(), plan.kill_rows.to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let outcome = listen(&mut child, plan.kill_after);
    // The child does not outlive this call, whatever the outcome.
    child.kill()?;
    child.wait()?;
    outcome
}

fn listen(child: &mut Child, kill_after: u64) -> Result<Acknowledged> {
    let mut pipe = child.stdout.take().ok_or("the child has no pipe")?;
    let mut acknowledged = Acknowledged::default();
    let mut count = 0;
    let mut ack = [0; ACK_BYTES];
    while pipe.read_exact(&mut ack).is_ok() {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let (thread, commit) = (number(&ack[..4]), number(&ack[4..]));
        *acknowledged
            .get_mut(thread as usize)
            .ok_or("an acknowledgement of nobody")? = commit + 1;
        count += 1;
        if count == kill_after {
            child.kill()?;
        }
    }
    match count >= kill_after {
        true => Ok(acknowledged),
        false => Err(format!("the writing process ended by itself after {count} commits").into()),
    }
}

/// Opens what was killed: the time until a row of the load has been read, and the open store.
pub fn reopen(subject: &Subject, dir: &Path, plan: &Plan) -> Result<(Duration, Box<dyn Store>)> {
    let begun = Instant::now();
    let store = (subject.open)(dir, plan.cache)?;
    let mut right = false;
    store
        .session()?
        .get(&data::key(0), &mut |value| right = data::is_of(0, value))?;
    let took = begun.elapsed();
    match right {
        true => Ok((took, store)),
        false => Err("a row of the load is gone".into()),
    }
}

/// Looks for every row of every acknowledged commit, and of the ones under way.
pub fn verify(store: &dyn Store, plan: &Plan, acknowledged: &Acknowledged) -> Result<Verdict> {
    let mut session = store.session()?;
    let mut verdict = Verdict::default();
    for (thread, &until) in (0..).zip(acknowledged) {
        for commit in 0..until {
            verdict.acknowledged += 1;
            let there = rows_there(session.as_mut(), plan, thread, commit)?;
            verdict.lost += u64::from(there != plan.kill_rows);
        }
        // Committed and not acknowledged any more, or cut off: there or not, but whole.
        let there = rows_there(session.as_mut(), plan, thread, until)?;
        verdict.torn += u64::from(there != 0 && there != plan.kill_rows);
    }
    Ok(verdict)
}

fn rows_there(session: &mut dyn Session, plan: &Plan, thread: u32, commit: u32) -> Result<u64> {
    let mut there = 0;
    for row in commit_rows(plan, thread, commit) {
        let mut right = false;
        session.get(&row.key, &mut |value| right = value == row.value)?;
        there += u64::from(right);
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::{self, faulty};

    fn plan() -> Plan {
        Plan {
            kill_rows: 5,
            ..Plan::quick()
        }
    }

    /// Puts three commits of either thread and verifies the first two as acknowledged.
    fn verdict_of(subject: &Subject) -> Verdict {
        let dir = tempfile::tempdir().unwrap();
        let store = (subject.open)(&dir.path().join("db"), plan().cache).unwrap();
        let mut session = store.session().unwrap();
        for (thread, commit) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)] {
            session.put(&commit_rows(&plan(), thread, commit)).unwrap();
        }
        verify(store.as_ref(), &plan(), &[2, 2]).unwrap()
    }

    #[test]
    fn every_subject_keeps_what_it_was_given() {
        for subject in subjects::all() {
            let verdict = verdict_of(&subject);
            assert_eq!((verdict.lost, verdict.torn), (0, 0), "{}", subject.name);
            assert_eq!(verdict.acknowledged, 4);
        }
    }

    #[test]
    fn a_lost_commit_is_noticed() {
        assert_eq!(verdict_of(&faulty::LOSES_A_COMMIT).lost, 1);
    }

    #[test]
    fn a_row_of_an_older_commit_is_a_loss() {
        assert_eq!(verdict_of(&faulty::KEEPS_AN_OLD_VALUE).lost, 1);
    }

    #[test]
    fn half_a_commit_is_noticed() {
        let verdict = verdict_of(&faulty::TEARS_THE_LAST_COMMIT);
        assert_eq!((verdict.lost, verdict.torn), (0, 1));
    }
}
