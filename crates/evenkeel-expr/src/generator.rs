//! PostgreSQL's generator of random numbers, xoroshiro128**, so that a seed gives the same
//! numbers.

/// The state of a session's generator.
#[derive(Debug, Clone, Copy)]
pub struct RandomState {
    low: u64,
    high: u64,
}

impl Default for RandomState {
    /// Seeded by the operating system.
    fn default() -> RandomState {
        let mut bytes = [0u8; 8];
        fill(&mut bytes);
        RandomState::seeded(u64::from_le_bytes(bytes))
    }
}

/// Random bytes of the operating system.
pub(crate) fn fill(bytes: &mut [u8]) {
    // The call fails only where the system has no source of randomness at all; a process that has
    // got this far has used it before.
    if getrandom::fill(bytes).is_err() {
        let address = std::ptr::from_ref(bytes).cast::<u8>().addr();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (address >> (at % 8 * 8)) as u8;
        }
    }
}

impl RandomState {
    /// The state that a seed gives.
    fn seeded(mut seed: u64) -> RandomState {
        let mut split = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut value = seed;
            value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ value >> 31
        };
        RandomState {
            low: split(),
            high: split(),
        }
    }

    /// The state that `setseed` gives.
    pub(crate) fn of_float(seed: f64) -> RandomState {
        let scaled = ((1u64 << 52) - 1) as f64 * seed;
        RandomState::seeded((scaled as i64).cast_unsigned())
    }

    pub(crate) fn next(&mut self) -> u64 {
        let (low, mixed) = (self.low, self.high ^ self.low);
        let value = low.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.low = low.rotate_left(24) ^ mixed ^ mixed << 16;
        self.high = mixed.rotate_left(37);
        value
    }

    /// From 0 to below 1.
    pub(crate) fn float(&mut self) -> f64 {
        (self.next() >> 12) as f64 / (1u64 << 52) as f64
    }

    /// Of the standard normal distribution, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let (first, second) = (1.0 - self.float(), 1.0 - self.float());
        (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).sin()
    }

    /// From `least` to `most`, both included: bits until they lie in the range.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        let range = most.wrapping_sub(least).cast_unsigned();
        if range == 0 {
            return least;
        }
        let shift = range.leading_zeros();
        loop {
            let value = self.next() >> shift;
            if value <= range {
                return least.wrapping_add(value.cast_signed());
            }
        }
    }
}
