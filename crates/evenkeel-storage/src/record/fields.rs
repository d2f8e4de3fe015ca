//! Little-endian fields of records.

use crate::error::ApplyError;

/// Reads fixed-size little-endian fields from a payload or a part's data.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        FieldReader { rest: bytes }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ApplyError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| ApplyError(format!("{len} bytes wanted, {} left", self.rest.len())))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// When none is left; likewise for the wider fields.
    pub fn u8(&mut self) -> Result<u8, ApplyError> {
        Ok(self.take(1)?[0])
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u16(&mut self) -> Result<u16, ApplyError> {
        Ok(u16_at(self.take(2)?, 0))
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u32(&mut self) -> Result<u32, ApplyError> {
        Ok(u32_at(self.take(4)?, 0))
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u64(&mut self) -> Result<u64, ApplyError> {
        Ok(u64_at(self.take(8)?, 0))
    }

    /// The bytes that have not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut raw = [0; 2];
    raw.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(raw)
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}
