//! Hashes, encodings, random numbers and identifiers.

use super::procs;
use super::types::{
    BOOL, BYTEA, FLOAT8, INT2, INT4, INT8, INTERVAL, NAME, TEXT, TIMESTAMPTZ, UUID, VOID,
};
use crate::proc::Default;
use crate::{digests, encodings, random, uuids};

procs! {
    1714 stable convert_from(BYTEA, NAME) -> TEXT = encodings::convert_from;
    1717 stable convert_to(TEXT, NAME) -> BYTEA = encodings::convert_to;
    6364 pure crc32(BYTEA) -> INT8 = digests::crc32;
    6365 pure crc32c(BYTEA) -> INT8 = digests::crc32c;
    1947 pure decode(TEXT, TEXT) -> BYTEA = encodings::decode;
    1946 pure encode(BYTEA, TEXT) -> TEXT = encodings::encode;
    3432 volatile gen_random_uuid() -> UUID = uuids::version4;
    4351 pure is_normalized(TEXT, TEXT) -> BOOL =
        encodings::is_normalized => defaults(&[Default::Text("NFC")]);
    1713 stable length(BYTEA, NAME) -> INT4 = encodings::length;
    2311 pure md5(TEXT) -> TEXT = digests::md5;
    2321 pure md5(BYTEA) -> TEXT = digests::md5;
    4350 pure normalize(TEXT, TEXT) -> TEXT =
        encodings::normalize => defaults(&[Default::Text("NFC")]);
    1598 volatile random() -> FLOAT8 = random::random;
    6339 volatile random(INT4, INT4) -> INT4 = random::random4;
    6340 volatile random(INT8, INT8) -> INT8 = random::random8;
    6212 volatile random_normal(FLOAT8, FLOAT8) -> FLOAT8 =
        random::random_normal => defaults(&[Default::Float8(0.0), Default::Float8(1.0)]);
    1599 volatile setseed(FLOAT8) -> VOID = random::setseed;
    3419 pure sha224(BYTEA) -> BYTEA = digests::sha224;
    3420 pure sha256(BYTEA) -> BYTEA = digests::sha256;
    3421 pure sha384(BYTEA) -> BYTEA = digests::sha384;
    3422 pure sha512(BYTEA) -> BYTEA = digests::sha512;
    6198 pure unistr(TEXT) -> TEXT = encodings::unistr;
    6342 pure uuid_extract_timestamp(UUID) -> TIMESTAMPTZ = uuids::extract_timestamp;
    6343 pure uuid_extract_version(UUID) -> INT2 = uuids::extract_version;
    6428 volatile uuidv4() -> UUID = uuids::version4;
    6429 volatile uuidv7() -> UUID = uuids::version7;
    6430 volatile uuidv7(INTERVAL) -> UUID = uuids::version7_shifted;
}
