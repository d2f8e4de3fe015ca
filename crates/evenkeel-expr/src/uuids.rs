//! Identifiers of the type `uuid`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_types::Datum;

use crate::call::Call;
use crate::datetime::instant_plus;
use crate::error::ExprResult;
use crate::generator::fill;

type Answer = ExprResult<Datum>;

/// Nanoseconds of a millisecond.
const MILLI: i64 = 1_000_000;
/// Bits of a version 7 that hold the part of the millisecond.
const PART_BITS: u32 = 12;
/// The least difference of two times that the part of the millisecond shows.
const STEP: i64 = (MILLI >> PART_BITS) + 1;
/// Days from 1582-10-15, from which version 1 counts, to 1970-01-01.
const GREGORIAN_DAYS: i64 = 141_427;
const DAY_MICROS: i64 = 86_400_000_000;

/// Sets version and variant.
fn marked(mut bytes: [u8; 16], version: u8) -> Datum {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Datum::Uuid(bytes)
}

/// `gen_random_uuid`, `uuidv4`
pub fn version4(_: &Call<'_>) -> Answer {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    Ok(marked(bytes, 4))
}

/// `uuid_generate_v1()` and `uuid_generate_v1mc()`: the node is random and marked as such by the
/// multicast bit, so that no hardware address leaves the server.
pub fn version1(_: &Call<'_>) -> Answer {
    /// Intervals of 100 ns between 1582-10-15 and 1970-01-01.
    const GREGORIAN: u64 = GREGORIAN_DAYS as u64 * 86_400 * 10_000_000;
    let ticks = GREGORIAN.wrapping_add(ascending_now().unsigned_abs() / 100);
    let mut bytes = [0; 16];
    fill(&mut bytes[8..]);
    bytes[10] |= 1;
    let [h0, h1, m0, m1, l0, l1, l2, l3] = ticks.to_be_bytes();
    bytes[..8].copy_from_slice(&[l0, l1, l2, l3, m0, m1, h0, h1]);
    Ok(marked(bytes, 1))
}

/// `uuid_nil()`
pub fn nil(_: &Call<'_>) -> Answer {
    Ok(Datum::Uuid([0; 16]))
}

/// The namespaces of RFC 9562, which differ in their first four bytes' last.
fn namespace(number: u8) -> Answer {
    let mut bytes = [
        0x6b, 0xa7, 0xb8, 0, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
    ];
    bytes[3] = number;
    Ok(Datum::Uuid(bytes))
}

/// `uuid_ns_dns()`
pub fn namespace_dns(_: &Call<'_>) -> Answer {
    namespace(0x10)
}

/// `uuid_ns_url()`
pub fn namespace_url(_: &Call<'_>) -> Answer {
    namespace(0x11)
}

/// `uuid_ns_oid()`
pub fn namespace_oid(_: &Call<'_>) -> Answer {
    namespace(0x12)
}

/// `uuid_ns_x500()`
pub fn namespace_x500(_: &Call<'_>) -> Answer {
    namespace(0x14)
}

/// Nanoseconds since 1970, more at each call.
fn ascending_now() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    let next = |last: i64| Some(now.max(last.saturating_add(STEP)));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    now.max(last.unwrap_or_default().saturating_add(STEP))
}

fn at_time(millis: i64, part: i64) -> Datum {
    let mut bytes = [0; 16];
    fill(&mut bytes[8..]);
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    let scaled = (part << PART_BITS) / MILLI;
    bytes[6..8].copy_from_slice(&u16::try_from(scaled).unwrap_or(0).to_be_bytes());
    marked(bytes, 7)
}

/// `uuidv7()`
pub fn version7(_: &Call<'_>) -> Answer {
    let now = ascending_now();
    Ok(at_time(now / MILLI, now % MILLI))
}

/// `uuidv7(interval)`
pub fn version7_shifted(call: &Call<'_>) -> Answer {
    let now = ascending_now();
    let micros = instant_plus(now / 1000, call.interval(0), call.zone())?;
    Ok(at_time(
        micros.div_euclid(1000),
        micros.rem_euclid(1000) * 1000 + now % 1000,
    ))
}

/// The bytes, and the version if the variant is that of RFC 9562.
fn parts(call: &Call<'_>) -> Option<([u8; 16], u8)> {
    match call.arg(0) {
        Datum::Uuid(bytes) if bytes[8] & 0xc0 == 0x80 => Some((*bytes, bytes[6] >> 4)),
        _ => None,
    }
}

/// `uuid_extract_version`
pub fn extract_version(call: &Call<'_>) -> Answer {
    Ok(parts(call).map(|(_, version)| i16::from(version)).into())
}

/// `uuid_extract_timestamp`
pub fn extract_timestamp(call: &Call<'_>) -> Answer {
    let number = |bytes: &[u8]| bytes.iter().fold(0i64, |n, byte| n << 8 | i64::from(*byte));
    let micros = match parts(call) {
        Some((bytes, 1)) => {
            let ticks = number(&bytes[6..8]) & 0x0fff;
            let ticks = ticks << 48 | number(&bytes[4..6]) << 32 | number(&bytes[..4]);
            ticks / 10 - GREGORIAN_DAYS * DAY_MICROS
        }
        Some((bytes, 7)) => number(&bytes[..6]) * 1000,
        _ => return Ok(Datum::Null),
    };
    Ok(Datum::Timestamptz(micros))
}
