//! Numbers and lists of them in payloads, each as short as its value allows (LEB128).

use evenkeel_storage::ApplyError;
use evenkeel_storage::record::FieldReader;

use crate::types::Xid;

pub(super) fn put_leb(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Small numbers of either sign are short.
pub(super) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_leb(bytes, (value << 1 ^ value >> 63) as u64);
}

/// Ids above `base`, ascending, each as the difference to the one before.
pub(super) fn put_ascending(bytes: &mut Vec<u8>, base: Xid, xids: &[Xid]) {
    put_leb(bytes, xids.len() as u64);
    let mut last = base;
    for xid in xids {
        put_leb(bytes, xid.get() - last.get());
        last = *xid;
    }
}

pub(super) fn put_list(bytes: &mut Vec<u8>, numbers: &[u64]) {
    put_leb(bytes, numbers.len() as u64);
    numbers.iter().for_each(|number| put_leb(bytes, *number));
}

pub(super) fn take_leb(fields: &mut FieldReader<'_>) -> Result<u64, ApplyError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = fields.u8()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ApplyError::new("number out of range"))
}

pub(super) fn take_signed(fields: &mut FieldReader<'_>) -> Result<i64, ApplyError> {
    let value = take_leb(fields)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// The length of a list that is there. It bounds nothing but a loop that ends where the bytes do.
pub(super) fn take_count(fields: &mut FieldReader<'_>) -> Result<u64, ApplyError> {
    match take_leb(fields)? {
        0 => Err(ApplyError::new("empty list")),
        count => Ok(count),
    }
}

pub(super) fn to_xid(number: u64) -> Result<Xid, ApplyError> {
    match number <= Xid::MAX.get() {
        true => Ok(Xid::new(number)),
        false => Err(ApplyError::new("transaction id out of range")),
    }
}

pub(super) fn take_ascending(
    fields: &mut FieldReader<'_>,
    base: Xid,
) -> Result<Vec<Xid>, ApplyError> {
    let mut xids = Vec::new();
    let mut last = base.get();
    for _ in 0..take_count(fields)? {
        let next = last.checked_add(take_leb(fields)?);
        let next = next.filter(|next| *next > last);
        last = next.ok_or_else(|| ApplyError::new("ids do not ascend"))?;
        xids.push(to_xid(last)?);
    }
    Ok(xids)
}

pub(super) fn take_list(fields: &mut FieldReader<'_>) -> Result<Vec<u64>, ApplyError> {
    let count = take_count(fields)?;
    (0..count).map(|_| take_leb(fields)).collect()
}

pub(super) fn finished(fields: &FieldReader<'_>) -> Result<(), ApplyError> {
    match fields.rest() {
        [] => Ok(()),
        rest => Err(ApplyError(format!("{} bytes too many", rest.len()))),
    }
}
