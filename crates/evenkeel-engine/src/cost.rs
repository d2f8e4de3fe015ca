//! The cost limit: a vacuum that has done enough sleeps, so that others get on.
//!
//! The accounting is PostgreSQL's: every page costs by how it was had, a page made dirty costs
//! more, and at `vacuum_cost_limit` the vacuum sleeps for `vacuum_cost_delay` times by how much
//! it is over. All automatic vacuums share one limit: each gets its part of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Settings of the cost limit, with PostgreSQL's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostLimits {
    /// `vacuum_cost_delay`: the sleep when the limit is reached; zero turns the limit off.
    pub delay: Duration,
    /// `vacuum_cost_limit`: the cost at which to sleep.
    pub limit: u32,
    /// `vacuum_cost_page_hit`: the cost of a page found in memory.
    pub page_hit: u32,
    /// `vacuum_cost_page_miss`: the cost of a page that had to be read.
    pub page_miss: u32,
    /// `vacuum_cost_page_dirty`: the cost of changing a page.
    pub page_dirty: u32,
}

impl Default for CostLimits {
    fn default() -> CostLimits {
        CostLimits {
            delay: Duration::ZERO,
            limit: 200,
            page_hit: 1,
            page_miss: 2,
            page_dirty: 20,
        }
    }
}

/// The most a sleep is stretched for being over the limit.
const STRETCH: u32 = 4;

/// A cost limit that several vacuums share.
#[derive(Debug, Default)]
pub struct CostBalance {
    limits: Mutex<CostLimits>,
    sharers: AtomicU32,
    slept: AtomicU64,
}

impl CostBalance {
    /// A limit of its own.
    pub fn new(limits: CostLimits) -> CostBalance {
        CostBalance {
            limits: Mutex::new(limits),
            ..CostBalance::default()
        }
    }

    /// Changes the limits of the vacuums that share this one, from their next page on.
    pub fn set(&self, limits: CostLimits) {
        *self.limits.lock() = limits;
    }

    /// Time slept by all that shared it.
    pub fn slept(&self) -> Duration {
        Duration::from_micros(self.slept.load(Ordering::Relaxed))
    }
}

/// One vacuum's or analyze's account with a balance.
#[derive(Debug, Default)]
pub(crate) struct CostAccount<'a> {
    balance: Option<&'a CostBalance>,
    limits: CostLimits,
    spent: u32,
    slept: Duration,
    /// Pages found in memory, pages read, changes of pages.
    pub(crate) buffers: (u64, u64, u64),
}

impl<'a> CostAccount<'a> {
    pub(crate) fn open(balance: Option<&'a CostBalance>) -> CostAccount<'a> {
        if let Some(balance) = balance {
            balance.sharers.fetch_add(1, Ordering::Relaxed);
        }
        CostAccount {
            limits: balance.map_or_else(CostLimits::default, |b| *b.limits.lock()),
            balance,
            spent: 0,
            slept: Duration::ZERO,
            buffers: (0, 0, 0),
        }
    }

    /// A page was looked at.
    pub(crate) fn page(&mut self, resident: bool) {
        if resident {
            self.buffers.0 += 1;
            self.spend(self.limits.page_hit);
        } else {
            self.buffers.1 += 1;
            self.spend(self.limits.page_miss);
        }
    }

    /// A page was changed.
    pub(crate) fn dirtied(&mut self) {
        self.buffers.2 += 1;
        self.spend(self.limits.page_dirty);
    }

    fn spend(&mut self, cost: u32) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// Time slept so far.
    pub(crate) fn slept(&self) -> Duration {
        self.slept
    }

    /// Sleeps if enough was spent, and says whether it did. Nothing may be locked or pinned.
    pub(crate) fn settle(&mut self) -> bool {
        let Some(balance) = self.balance else {
            return false;
        };
        let Some(nap) = self.due(balance.sharers.load(Ordering::Relaxed)) else {
            return false;
        };
        std::thread::sleep(nap);
        self.spent = 0;
        self.slept += nap;
        let micros = u64::try_from(nap.as_micros()).unwrap_or(u64::MAX);
        balance.slept.fetch_add(micros, Ordering::Relaxed);
        self.limits = *balance.limits.lock();
        true
    }

    /// How long to sleep now, as one of so many who share the limit.
    fn due(&self, sharers: u32) -> Option<Duration> {
        let limit = (self.limits.limit / sharers.max(1)).max(1);
        if self.limits.delay.is_zero() || self.spent < limit {
            return None;
        }
        let nap = self.limits.delay * self.spent / limit;
        Some(nap.min(self.limits.delay * STRETCH))
    }
}

impl Drop for CostAccount<'_> {
    fn drop(&mut self) {
        if let Some(balance) = self.balance {
            balance.sharers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_due_at_the_limit_and_stretches_with_what_was_spent() {
        let balance = CostBalance::new(CostLimits {
            delay: Duration::from_millis(2),
            ..CostLimits::default()
        });
        let mut account = CostAccount::open(Some(&balance));
        for _ in 0..9 {
            account.dirtied();
            account.page(true);
        }
        assert_eq!(account.due(1), None);
        account.dirtied();
        assert_eq!(account.due(1), Some(Duration::from_micros(2090)));
        // Two who share the limit have half of it each.
        assert_eq!(account.due(2), Some(Duration::from_micros(4180)));
        account.spent = 100_000;
        assert_eq!(account.due(1), Some(Duration::from_millis(8)));
        account.limits.delay = Duration::ZERO;
        assert_eq!(account.due(1), None);
    }
}
