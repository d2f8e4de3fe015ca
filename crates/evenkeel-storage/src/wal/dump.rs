//! Looking at the log of a directory that nobody needs to have open (`waldump`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use evenkeel_io::Disk;

use crate::control::{Control, ControlFile};
use crate::error::{StorageError, StorageResult};
use crate::record::files::{decode_file, decode_files, decode_open_files, decode_truncate};
use crate::record::image;
use crate::record::{FLAG_NOTIFY, Incarnation, PartFlags, RecordKind, RecordView};
use crate::wal::layout::SegmentLayout;
use crate::wal::reader::LogReader;

/// Opens the log of the database in `dir` for reading from its redo point on. Records before it
/// cannot be verified, since their incarnation is no longer known. Nothing is changed.
///
/// # Errors
/// When `dir` holds no readable control file.
pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> StorageResult<(Control, LogReader)> {
    let control = ControlFile::read(disk.as_ref(), dir)?;
    let layout = SegmentLayout {
        dir: dir.join("wal"),
        size: control.segment_size,
        timeline: control.timeline,
    };
    let start = (control.redo, control.incarnation);
    let reader = LogReader::new(disk, layout, start, &control.gaps);
    Ok((control, reader))
}

/// Why the log is damaged where `reader` came to its end; `None` when it just ends there, or goes
/// on by now, since a server is writing it.
///
/// # Errors
/// When a segment that exists cannot be read.
pub fn damage(control: &Control, reader: &mut LogReader) -> StorageResult<Option<StorageError>> {
    let mut again = reader.clone_at_position();
    let damage = reader.damage(control.durable)?;
    match damage {
        Some(_) if again.next_record()?.is_some() => Ok(None),
        damage => Ok(damage),
    }
}

/// The manager's names of its kinds of records and its operations, and what its payloads say.
#[derive(Clone, Copy)]
pub struct Names {
    /// Name of a record's kind.
    pub record: fn(RecordKind) -> String,
    /// Name of a part's operation.
    pub operation: fn(u16) -> String,
    /// The content of the payload of a record of the manager's kinds.
    pub payload: fn(&RecordView<'_>) -> Option<String>,
}

/// The content of the payload of a record of storage's own kinds.
fn payload(record: &RecordView<'_>) -> Option<String> {
    let payload = record.payload();
    match record.kind() {
        RecordKind::REDO_POINT => (payload == [1]).then(|| "with page images".to_owned()),
        RecordKind::INCARNATION => {
            let next = Incarnation::decode(payload).ok()?;
            Some(format!(
                "incarnation: {:016x}, format version: {}, timeline: {}, term: {}, old end: {}, \
                 floor: {}",
                next.incarnation, next.version, next.timeline, next.term, next.old_end, next.floor
            ))
        }
        RecordKind::FILE_CREATE => Some(decode_file(payload).ok()?.to_string()),
        RecordKind::FILE_DROP => Some(list(decode_files(payload))),
        RecordKind::TRUNCATE => {
            let (file, fork, blocks) = decode_truncate(payload).ok()?;
            Some(format!("{file} {fork} to {blocks} blocks"))
        }
        RecordKind::OPEN_FILES => {
            let files = decode_open_files(payload);
            let files = files.map(|open| format!("{} of {}", open.file, open.xid));
            Some(list(files))
        }
        _ => None,
    }
}

/// The items, with commas between them.
pub fn list(items: impl Iterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(", ")
}

/// One line about a record, and one about each of its parts.
pub struct Describe<'a>(pub &'a RecordView<'a>, pub Names);

impl fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Describe(record, names) = self;
        write!(
            f,
            "lsn: {}, len: {}, xid: {}, durable: {}, {}",
            record.lsn(),
            record.total_len(),
            record.xid(),
            record.durable(),
            (names.record)(record.kind())
        )?;
        if record.flags() & FLAG_NOTIFY != 0 {
            write!(f, " NOTIFY")?;
        }
        if let Some(removal) = record.removal() {
            write!(f, ", removes up to: {removal}")?;
        }
        let content = match record.kind().is_storage() {
            true => payload(record),
            false => (names.payload)(record),
        };
        match content {
            Some(content) => write!(f, ", {content}")?,
            None if record.payload().is_empty() => {}
            None => write!(f, ", payload: {} bytes", record.payload().len())?,
        }
        for part in record.parts() {
            let (page, prev) = (part.page, part.prev_lsn);
            let op = (names.operation)(part.op);
            write!(
                f,
                "\n\t{op} on {page}, prev {prev}, {} bytes",
                part.data.len()
            )?;
            for (flag, name) in [
                (PartFlags::INIT, " INIT"),
                (PartFlags::IMAGE, " IMAGE"),
                (PartFlags::BEFORE, " BEFORE"),
                (PartFlags::COMPARE, " COMPARE"),
            ] {
                if part.flags.contains(flag) {
                    f.write_str(name)?;
                }
            }
        }
        Ok(())
    }
}

/// How much one kind of thing takes of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many there were.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }
}

/// Counts and bytes of the records, parts and images in the log.
#[derive(Clone, Debug, Default)]
pub struct DumpStats {
    /// All records.
    pub records: Share,
    /// Records by kind.
    pub kinds: BTreeMap<u8, Share>,
    /// Parts by operation; their bytes are those of their data, without page images.
    pub ops: BTreeMap<u16, Share>,
    /// Page images, as logged.
    pub images: Share,
}

impl DumpStats {
    /// Counts a record.
    pub fn add(&mut self, record: &RecordView<'_>) {
        self.records.add(record.total_len());
        self.kinds
            .entry(record.kind().0)
            .or_default()
            .add(record.total_len());
        for part in record.parts() {
            let whole = PartFlags::IMAGE.0 | PartFlags::BEFORE.0 | PartFlags::COMPARE.0;
            let image = match part.flags.0 & whole {
                0 => 0,
                _ => image::len(part.data).min(part.data.len()),
            };
            if image != 0 {
                self.images.add(image);
            }
            if image < part.data.len() || image == 0 {
                let op = self.ops.entry(part.op).or_default();
                op.add(part.data.len() - image);
            }
        }
    }
}

impl DumpStats {
    /// The counts as two tables, one by kind of record and one by operation.
    #[must_use]
    pub fn report(&self, names: Names) -> String {
        let line = |name: &str, share: &Share| {
            format!("{name:<24} {:>12} {:>16}\n", share.count, share.bytes)
        };
        let mut text = format!("{:<24} {:>12} {:>16}\n", "kind", "records", "bytes");
        for (kind, share) in &self.kinds {
            text += &line(&(names.record)(RecordKind(*kind)), share);
        }
        text += &line("total", &self.records);
        text += &format!(
            "\n{:<24} {:>12} {:>16}\n",
            "operation", "parts", "data bytes"
        );
        for (op, share) in &self.ops {
            text += &line(&(names.operation)(*op), share);
        }
        text += &line("page images", &self.images);
        text
    }
}
