//! The side file of a page that is set aside: which page, why, and the log's changes of it.
//!
//! ```text
//! file    header | entry …
//! header  "evkl-dmg" | version u32 | crc u32 | file u64 | block u32 | fork u8 | zero u8
//!         | reason_len u16 | lsn u64 | upto u64 | reason
//! entry   len u32 | crc u32 | lsn u64 | prev_lsn u64 | op u16 | flags u8 | kind u8 | data
//! ```
//! Little endian. Checksums cover what follows them. The file ends before the first entry that
//! is not whole: a crash may tear the last append.

use std::path::Path;
use std::sync::Arc;

use evenkeel_io::{Disk, File, IoErrorKind, OpenOptions};

use crate::buffer::Damage;
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::record::{FieldReader, MAX_RECORD, PartFlags};

const MAGIC: [u8; 8] = *b"evkl-dmg";
const VERSION: u32 = 1;
const HEADER: usize = 48;
/// Bytes at the start that a header's checksum leaves out: themselves included.
const HEADER_SUMMED: usize = 16;
const LONGEST_REASON: usize = 1024;
const ENTRY: usize = 28;
const ENTRY_SUMMED: usize = 8;
const LONGEST_ENTRY: usize = ENTRY + MAX_RECORD;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// A part of a record: it applies to the page with the LSN before.
    Part = 0,
    /// A change by records that have no part for it; those from `prev_lsn` to `lsn`. It may be
    /// applied at any time, more than once.
    Late = 1,
}

/// A change that the page lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owed<'a> {
    pub(crate) kind: EntryKind,
    pub(crate) lsn: Lsn,
    pub(crate) prev_lsn: Lsn,
    pub(crate) op: u16,
    pub(crate) flags: PartFlags,
    pub(crate) data: &'a [u8],
}

/// The name of a page's side file.
pub(super) fn name(page: PageId) -> String {
    let directory = page.file.directory();
    let number = page.file.number();
    format!("{directory}-{number}-{}-{}", page.fork, page.block)
}

/// The page whose side file has this name.
pub(super) fn page_of(name: &str) -> Option<PageId> {
    let mut fields = name.split('-');
    let directory = fields.next()?;
    let number = fields.next()?.parse().ok()?;
    let file = match directory {
        "base" => FileId(number),
        "status" => FileId::status(number),
        _ => return None,
    };
    let fork = fields.next()?;
    let fork = Fork::ALL.into_iter().find(|one| one.to_string() == fork)?;
    let block = BlockNumber(fields.next()?.parse().ok()?);
    let page = PageId { file, fork, block };
    // No other spelling of it.
    (self::name(page) == name).then_some(page)
}

/// Appends the header to `out`.
pub(super) fn encode_header(damage: &Damage, out: &mut Vec<u8>) {
    let start = out.len();
    let mut cut = damage.reason.len().min(LONGEST_REASON);
    while !damage.reason.is_char_boundary(cut) {
        cut -= 1;
    }
    let reason = &damage.reason.as_bytes()[..cut];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&damage.page.file.0.to_le_bytes());
    out.extend_from_slice(&damage.page.block.0.to_le_bytes());
    out.extend_from_slice(&[damage.page.fork as u8, 0]);
    // At most LONGEST_REASON.
    out.extend_from_slice(&(reason.len() as u16).to_le_bytes());
    out.extend_from_slice(&damage.lsn.0.to_le_bytes());
    out.extend_from_slice(&damage.upto.0.to_le_bytes());
    out.extend_from_slice(reason);
    let crc = crc_fast::crc32_iscsi(&out[start + HEADER_SUMMED..]);
    out[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
}

/// Appends an entry to `out`.
pub(super) fn encode_entry(owed: &Owed<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    // A part of a record, which is no longer than MAX_RECORD.
    out.extend_from_slice(&((ENTRY + owed.data.len()) as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&owed.lsn.0.to_le_bytes());
    out.extend_from_slice(&owed.prev_lsn.0.to_le_bytes());
    out.extend_from_slice(&owed.op.to_le_bytes());
    out.extend_from_slice(&[owed.flags.0, owed.kind as u8]);
    out.extend_from_slice(owed.data);
    let crc = crc_fast::crc32_iscsi(&out[start + ENTRY_SUMMED..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// A side file that is being read.
pub(super) struct SideFile {
    file: Arc<dyn File>,
    len: u64,
    /// Where the next entry starts.
    at: u64,
    buf: Vec<u8>,
    pub(super) damage: Damage,
}

impl SideFile {
    /// Opens a side file; `None` when there is none.
    ///
    /// # Errors
    /// [`StorageError::FileDamaged`] when it is not what was written there.
    pub(super) fn open(disk: &dyn Disk, path: &Path, page: PageId) -> StorageResult<Option<Self>> {
        let file = match disk.open(path, OpenOptions::read_only()) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let len = file.len()?;
        let mut header = [0; HEADER + LONGEST_REASON];
        let most = usize::try_from(len).map_or(header.len(), |len| len.min(header.len()));
        let header = &mut header[..most];
        file.read_exact_at(header, 0)?;
        let (damage, at) =
            decode_header(header, page).ok_or_else(|| StorageError::FileDamaged {
                path: path.to_owned(),
                offset: 0,
                reason: "it is not the side file of this page".into(),
            })?;
        let damage = Damage {
            side_file: path.to_owned(),
            ..damage
        };
        let buf = Vec::new();
        Ok(Some(SideFile {
            file,
            len,
            at,
            buf,
            damage,
        }))
    }

    /// The next entry; `None` at the end of what is whole.
    pub(super) fn next(&mut self) -> StorageResult<Option<Owed<'_>>> {
        let left = self.len - self.at;
        let mut head = [0; ENTRY];
        if left < ENTRY as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut head, self.at)?;
        let len = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        if !(ENTRY as u64..=LONGEST_ENTRY as u64).contains(&len) || len > left {
            return Ok(None);
        }
        // At most LONGEST_ENTRY.
        self.buf.resize(len as usize, 0);
        self.file.read_exact_at(&mut self.buf, self.at)?;
        let owed = decode_entry(&self.buf);
        if owed.is_some() {
            self.at += len;
        }
        Ok(owed)
    }

    /// Bytes of it that are whole, as far as it was read.
    pub(super) fn position(&self) -> u64 {
        self.at
    }
}

fn decode_header(bytes: &[u8], page: PageId) -> Option<(Damage, u64)> {
    let mut fields = FieldReader::new(bytes);
    let known = fields.take(8).ok()? == MAGIC && fields.u32().ok()? == VERSION;
    let crc = fields.u32().ok()?;
    let named = PageId {
        file: FileId(fields.u64().ok()?),
        block: BlockNumber(fields.u32().ok()?),
        fork: Fork::from_u8(fields.u8().ok()?)?,
    };
    fields.u8().ok()?;
    let reason_len = usize::from(fields.u16().ok()?);
    let lsn = Lsn(fields.u64().ok()?);
    let upto = Lsn(fields.u64().ok()?);
    let reason = fields.take(reason_len).ok()?;
    let summed = bytes.get(HEADER_SUMMED..HEADER + reason_len)?;
    if !known || named != page || crc_fast::crc32_iscsi(summed) != crc {
        return None;
    }
    let damage = Damage {
        page,
        lsn,
        reason: std::str::from_utf8(reason).ok()?.into(),
        side_file: Default::default(),
        upto,
    };
    Some((damage, (HEADER + reason_len) as u64))
}

fn decode_entry(bytes: &[u8]) -> Option<Owed<'_>> {
    let mut fields = FieldReader::new(bytes);
    fields.u32().ok()?;
    let crc = fields.u32().ok()?;
    if crc_fast::crc32_iscsi(bytes.get(ENTRY_SUMMED..)?) != crc {
        return None;
    }
    Some(Owed {
        lsn: Lsn(fields.u64().ok()?),
        prev_lsn: Lsn(fields.u64().ok()?),
        op: fields.u16().ok()?,
        flags: PartFlags(fields.u8().ok()?),
        kind: match fields.u8().ok()? {
            0 => EntryKind::Part,
            1 => EntryKind::Late,
            _ => return None,
        },
        data: fields.rest(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::SimDisk;

    fn page() -> PageId {
        PageId {
            file: FileId::status(7),
            fork: Fork::Vm,
            block: BlockNumber(12),
        }
    }

    fn sample() -> (Damage, Vec<u8>, Vec<Vec<u8>>) {
        let damage = Damage {
            page: page(),
            lsn: Lsn(64),
            reason: "ein Bär".into(),
            side_file: "/d/x".into(),
            upto: Lsn(4096),
        };
        let mut bytes = Vec::new();
        encode_header(&damage, &mut bytes);
        let data: Vec<Vec<u8>> = (0..4).map(|n| vec![n; usize::from(n) * 100]).collect();
        for (n, data) in data.iter().enumerate() {
            encode_entry(&owed(n as u64, data), &mut bytes);
        }
        (damage, bytes, data)
    }

    fn owed(n: u64, data: &[u8]) -> Owed<'_> {
        Owed {
            kind: if n.is_multiple_of(2) {
                EntryKind::Part
            } else {
                EntryKind::Late
            },
            lsn: Lsn(100 + n),
            prev_lsn: Lsn(50 + n),
            op: 9,
            flags: PartFlags::INIT,
            data,
        }
    }

    fn open(bytes: &[u8]) -> StorageResult<SideFile> {
        let disk = SimDisk::new(1);
        let path = Path::new("/x");
        let file = disk.open(path, OpenOptions::create()).expect("made");
        file.write_all_at(bytes, 0).expect("written");
        Ok(SideFile::open(&disk, path, page())?.expect("there"))
    }

    #[test]
    fn names_and_pages_belong_to_each_other() {
        assert_eq!(name(page()), "status-7-vm-12");
        assert_eq!(page_of("status-7-vm-12"), Some(page()));
        for other in [
            "status-7-vm-012",
            "status-7-vm-12.new",
            "base-7-vm",
            "base-7-x-1",
            "x",
            "",
        ] {
            assert_eq!(page_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_side_file_reads_back_up_to_where_it_is_torn() {
        let (damage, bytes, data) = sample();
        for cut in 0..=bytes.len() {
            let mut file = match open(&bytes[..cut]) {
                Ok(file) => file,
                Err(StorageError::FileDamaged { .. } | StorageError::Io(_)) => {
                    assert!(cut < HEADER + damage.reason.len(), "{cut}");
                    continue;
                }
                Err(error) => panic!("{cut}: {error}"),
            };
            assert_eq!(file.damage.reason, damage.reason);
            assert_eq!((file.damage.lsn, file.damage.upto), (Lsn(64), Lsn(4096)));
            let mut read = 0;
            while let Some(found) = file.next().expect("read") {
                assert_eq!(found, owed(read as u64, &data[read]));
                read += 1;
            }
            assert_eq!(read == data.len(), cut == bytes.len(), "{cut}");
        }
    }

    #[test]
    fn no_changed_byte_of_a_side_file_passes() {
        let (damage, bytes, data) = sample();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            let in_header = at < HEADER + damage.reason.len();
            let Ok(mut file) = open(&changed) else {
                assert!(in_header, "{at}");
                continue;
            };
            assert!(!in_header, "{at}");
            let mut read = 0;
            while let Some(found) = file.next().expect("read") {
                assert_eq!(found, owed(read as u64, &data[read]), "{at}");
                read += 1;
            }
            assert!(read < data.len(), "{at}");
        }
    }
}
