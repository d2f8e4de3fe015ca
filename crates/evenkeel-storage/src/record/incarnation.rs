//! Payload of the record behind which a new incarnation's records lie.

use super::fields::FieldReader;
use crate::error::ApplyError;
use crate::ids::Lsn;

/// Version of the records' format. It travels with the incarnation, without which no segment can
/// be read; a directory's version is in its control file.
pub const LOG_VERSION: u32 = 1;

/// Payload of an `INCARNATION` record.
///
/// ```text
/// incarnation u64 | version u32 | timeline u32 | term u64 | old_end u64 | floor u64
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Salt of the records behind this one.
    pub incarnation: u64,
    /// Their format: [`LOG_VERSION`].
    pub version: u32,
    /// Their timeline.
    pub timeline: u32,
    /// Term of the node that writes them.
    pub term: u64,
    /// Where the log of the incarnation before ended.
    pub old_end: Lsn,
    /// No transaction with an id below runs on: those that no record before `old_end` decides
    /// have aborted.
    pub floor: u64,
}

impl Incarnation {
    /// The payload's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.incarnation.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.timeline.to_le_bytes());
        for word in [self.term, self.old_end.0, self.floor] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a payload of [`LOG_VERSION`].
    ///
    /// # Errors
    /// When it is of another version, or cut short.
    pub fn decode(payload: &[u8]) -> Result<Incarnation, ApplyError> {
        let mut fields = FieldReader::new(payload);
        let (incarnation, version) = (fields.u64()?, fields.u32()?);
        if version != LOG_VERSION {
            let text = format!("format version {version}, and this program knows {LOG_VERSION}");
            return Err(ApplyError(text));
        }
        let announced = Incarnation {
            incarnation,
            version,
            timeline: fields.u32()?,
            term: fields.u64()?,
            old_end: Lsn(fields.u64()?),
            floor: fields.u64()?,
        };
        match fields.rest() {
            [] => Ok(announced),
            rest => Err(ApplyError(format!("{} bytes too many", rest.len()))),
        }
    }
}
