//! Payloads of the records about files.

use super::fields::FieldReader;
use crate::error::ApplyError;
use crate::ids::{FileId, Fork};

/// A file, and the running transaction that created it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: FileId,
    pub(crate) xid: u64,
}

/// Payload of a `FILE_CREATE` record.
pub(crate) fn encode_file(file: FileId) -> [u8; 8] {
    file.0.to_le_bytes()
}

/// Reads the payload of a file record.
pub(crate) fn decode_file(payload: &[u8]) -> Result<FileId, ApplyError> {
    FieldReader::new(payload).u64().map(FileId)
}

/// The files that a `FILE_DROP` record names.
pub(crate) fn decode_files(payload: &[u8]) -> impl Iterator<Item = FileId> + '_ {
    payload
        .chunks_exact(8)
        .filter_map(|chunk| decode_file(chunk).ok())
}

/// Payload of a `OPEN_FILES` record.
pub(crate) fn encode_open_files(files: &[OpenFile]) -> Vec<u8> {
    let fields = files.iter().flat_map(|open| [open.file.0, open.xid]);
    fields.flat_map(u64::to_le_bytes).collect()
}

/// The files that an `OPEN_FILES` record names.
pub(crate) fn decode_open_files(payload: &[u8]) -> impl Iterator<Item = OpenFile> + '_ {
    let (entries, _) = payload.as_chunks::<16>();
    entries.iter().filter_map(|entry| {
        let mut fields = FieldReader::new(entry);
        let file = FileId(fields.u64().ok()?);
        let xid = fields.u64().ok()?;
        Some(OpenFile { file, xid })
    })
}

/// Reads the payload of a `TRUNCATE` record.
pub(crate) fn decode_truncate(payload: &[u8]) -> Result<(FileId, Fork, u32), ApplyError> {
    let mut fields = FieldReader::new(payload);
    let file = FileId(fields.u64()?);
    let blocks = fields.u32()?;
    let fork = Fork::from_u8(fields.u8()?).ok_or_else(|| ApplyError::new("no such fork"))?;
    Ok((file, fork, blocks))
}
