//! Entry points of the fuzzers: the bytes of a client, without a server. No input may make it
//! panic.

use bytes::Bytes;

use crate::{message, options, startup};

/// Takes some bytes as a start-up packet, as its options, and as messages one behind the other.
pub fn protocol(input: &[u8]) {
    if let Ok(parameters) = startup::parameters(input) {
        for (_, value) in &parameters {
            let _ = options::settings(value);
        }
    }
    let mut left = input;
    while let [kind, a, b, c, d, rest @ ..] = left {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if message::check_length(*kind, length).is_err() || rest.len() < length - 4 {
            // A body on its own is worth a look, whatever its header says.
            let _ = message::decode(*kind, Bytes::copy_from_slice(rest));
            return;
        }
        let (body, behind) = rest.split_at(length - 4);
        let _ = message::decode(*kind, Bytes::copy_from_slice(body));
        left = behind;
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_io::mutate::on_damaged;

    use super::*;

    const SEED: u64 = 0x0DD_BA11;

    /// Some of what stock clients send, for the fuzzer to begin with.
    const SEEDS: &[&[u8]] = &[
        b"user\0postgres\0database\0postgres\0options\0-c work_mem=1MB\0\0",
        b"Q\0\0\0\x0dSELECT 1\0",
        b"P\0\0\0\x10\0SELECT $1\0\0\x01",
        b"B\0\0\0\x15\0\0\0\x01\0\0\0\x01\0\0\0\x03abc\0\0S\0\0\0\x04",
        b"D\0\0\0\x06S\0E\0\0\0\x09\0\0\0\0\0C\0\0\0\x06P\0H\0\0\0\x04X\0\0\0\x04",
    ];

    #[test]
    fn no_bytes_of_a_client_make_the_protocol_panic() {
        let inputs: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.to_vec()).collect();
        on_damaged(SEED, 50_000, &inputs, protocol);
    }
}
