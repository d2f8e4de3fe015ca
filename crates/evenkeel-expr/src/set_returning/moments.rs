//! `generate_series` of timestamps.

use std::cmp::Ordering;

use evenkeel_types::{Datum, Interval, TimeZone, TypeResult};

use super::put;
use super::series::parameter;
use crate::call::{Call, Session};
use crate::datetime::{instant_plus, local_plus};
use crate::proc::Rows;

/// How a timestamp is moved by the step.
enum Clock {
    /// `timestamp`
    Local,
    /// `timestamptz`, in the session's zone.
    Session,
    /// `timestamptz`, in a zone that was named.
    Zone(Box<TimeZone>),
}

/// A series of timestamps.
struct Moments {
    next: i64,
    end: i64,
    step: Interval,
    down: bool,
    clock: Clock,
}

impl Rows for Moments {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let beyond = match self.down {
            true => self.next < self.end,
            false => self.next > self.end,
        };
        if beyond {
            return Ok(false);
        }
        let value = self.next;
        self.next = match &self.clock {
            Clock::Local => local_plus(value, self.step)?,
            Clock::Session => instant_plus(value, self.step, &session.types().time_zone)?,
            Clock::Zone(zone) => instant_plus(value, self.step, zone)?,
        };
        put(
            row,
            match self.clock {
                Clock::Local => Datum::Timestamp(value),
                Clock::Session | Clock::Zone(_) => Datum::Timestamptz(value),
            },
        );
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

fn series(call: &Call<'_>, clock: Clock) -> TypeResult<Box<dyn Rows>> {
    let step = call.interval(2);
    if !step.is_finite() {
        return Err(parameter("step size cannot be infinite"));
    }
    if step.signum() == Ordering::Equal {
        return Err(parameter("step size cannot equal zero"));
    }
    Ok(Box::new(Moments {
        next: call.int(0),
        end: call.int(1),
        step,
        down: step.signum() == Ordering::Less,
        clock,
    }))
}

/// `generate_series(timestamp, timestamp, interval)`
pub(super) fn local(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    series(call, Clock::Local)
}

/// `generate_series(timestamptz, timestamptz, interval [, text])`
pub(super) fn instants(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let clock = match call.args.len() {
        0..=3 => Clock::Session,
        _ => Clock::Zone(Box::new(TimeZone::of_expression(call.text(3))?)),
    };
    series(call, clock)
}
