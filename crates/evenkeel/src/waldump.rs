//! `evenkeel waldump`: the log's records, for people.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::describe::{operation_name, payload_text, record_name};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::control::Control;
use evenkeel_storage::wal::dump::{self, Describe, DumpStats, Names};
use evenkeel_storage::wal::reader::LogReader;

use crate::Failure;

/// Prints the records from the redo point on, or counts of them, and fails if the log is damaged
/// where they end. Nothing is changed, so that it may also be run beside a server.
pub fn waldump(data: &Path, stats: bool) -> Result<(), Failure> {
    let names = Names {
        record: record_name,
        operation: operation_name,
        payload: payload_text,
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let (control, mut reader) = dump::open(disk, data)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let printed = print(&mut out, &control, &mut reader, stats, names);
    match printed {
        Err(e) if is_broken_pipe(&*e) => Ok(()),
        other => other,
    }
}

fn print(
    out: &mut impl Write,
    control: &Control,
    reader: &mut LogReader,
    stats: bool,
    names: Names,
) -> Result<(), Failure> {
    let mut counts = DumpStats::default();
    writeln!(out, "redo starts at {}", control.redo)?;
    while let Some(record) = reader.next_record()? {
        counts.add(&record);
        if !stats {
            writeln!(out, "{}", Describe(&record, names))?;
        }
    }
    if stats {
        write!(out, "{}", counts.report(names))?;
    }
    writeln!(out, "the log ends at {}", reader.position())?;
    out.flush()?;
    match dump::damage(control, reader)? {
        Some(damage) => Err(damage.into()),
        None => Ok(()),
    }
}

/// The reader of the output has closed it.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}
