//! Digests and checksums of bytes.

use crc_fast::CrcAlgorithm;
use evenkeel_types::Datum;
use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::call::Call;
use crate::encodings::hex_encoded;
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

fn digest<D: Digest>(call: &Call<'_>, bytes: &[u8]) -> ExprResult<Vec<u8>> {
    let mut digest = D::new();
    call.pace()
        .each_bytes(bytes, |piece| digest.update(piece))?;
    Ok(digest.finalize().to_vec())
}

/// `md5(text)`, `md5(bytea)`
pub fn md5(call: &Call<'_>) -> Answer {
    let bytes = match call.arg(0) {
        Datum::Text(text) => text.as_bytes(),
        _ => call.bytes(0),
    };
    let mut text = String::with_capacity(32);
    hex_encoded(&digest::<Md5>(call, bytes)?, &mut text);
    Ok(text.into())
}

macro_rules! digests {
    ($($(#[$doc:meta])* $name:ident = $digest:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            digest::<$digest>(call, call.bytes(0)).map(Datum::Bytea)
        })*
    };
}

digests! {
    /// `sha224`
    sha224 = Sha224;
    /// `sha256`
    sha256 = Sha256;
    /// `sha384`
    sha384 = Sha384;
    /// `sha512`
    sha512 = Sha512;
}

fn crc(call: &Call<'_>, algorithm: CrcAlgorithm) -> Answer {
    let mut sum = crc_fast::Digest::new(algorithm);
    call.pace()
        .each_bytes(call.bytes(0), |piece| sum.update(piece))?;
    Ok(Datum::Int8(i64::try_from(sum.finalize()).unwrap_or(0)))
}

/// `crc32`
pub fn crc32(call: &Call<'_>) -> Answer {
    crc(call, CrcAlgorithm::Crc32IsoHdlc)
}

/// `crc32c`
pub fn crc32c(call: &Call<'_>) -> Answer {
    crc(call, CrcAlgorithm::Crc32Iscsi)
}
