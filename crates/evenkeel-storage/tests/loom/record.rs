//! The constants of the record format that the ring needs; `record` itself needs the crate.

pub const ALIGN: usize = 8;
pub const FLAG_NOTIFY: u8 = 1;
pub const HEADER_LEN: usize = 32;

pub const fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}
