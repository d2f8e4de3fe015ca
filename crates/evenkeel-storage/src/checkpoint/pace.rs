//! How fast a spread checkpoint writes.

use std::time::{Duration, Instant};

use crate::ids::Lsn;
use crate::store::Core;

/// Spreads writing over a share of the time, or of the log, until the next checkpoint: whichever
/// is used up sooner sets the pace.
pub(super) struct Pace {
    begun: Instant,
    target: Lsn,
    time: Duration,
    log: f64,
}

impl Pace {
    pub(super) fn new(core: &Core, target: Lsn, volume: u64) -> Pace {
        let share = core.config.checkpoint_completion_target;
        Pace {
            begun: Instant::now(),
            target,
            time: core.config.checkpoint_timeout.mul_f64(share),
            log: volume as f64 * share,
        }
    }

    /// Whether more is done than need be by now.
    pub(super) fn is_ahead(&self, core: &Core, done: u64, due: u64) -> bool {
        if core.poison.is_set() || done >= due {
            return false;
        }
        let log = core.log.insert_lsn().distance_from(self.target) as f64;
        done as f64 / due as f64 > self.progress(log)
    }

    fn progress(&self, log: f64) -> f64 {
        let time = self.begun.elapsed().as_secs_f64() / self.time.as_secs_f64().max(1e-3);
        time.max(log / self.log.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_or_log_whichever_is_used_up_sooner_sets_the_pace() {
        let hour = Duration::from_secs(3600);
        let pace = Pace {
            begun: Instant::now(),
            target: Lsn::ZERO,
            time: hour,
            log: 1000.0,
        };
        assert!(pace.progress(0.0) < 0.1);
        assert!((pace.progress(500.0) - 0.5).abs() < 0.01);
        let late = Pace {
            time: Duration::ZERO,
            ..pace
        };
        assert!(late.progress(0.0) > 0.0);
    }
}
