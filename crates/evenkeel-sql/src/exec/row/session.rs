//! Session state that functions read, and the time slice of an evaluation.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use evenkeel_engine::memory::Reservation;
use evenkeel_expr::call::Session;
use evenkeel_expr::proc::ArgType;
use evenkeel_expr::{ExprResult, RandomState};
use evenkeel_types::{Datum, SqlType, TypeContext, TypeError};

use crate::error::SqlError;
use crate::exec::StatementCx;
use crate::functions;
use crate::key::allocated;
use crate::pg_catalog::{self, CatalogView};

use super::{advisory, channels, sequences, transaction_ids};

/// How long one evaluation may take on a thread that serves other sessions too.
const TURN: Duration = Duration::from_millis(5);
/// The longest wait for another thread to take over the sessions that wait for this one's.
const HAND_OVER_MAX: Duration = Duration::from_millis(8);

/// The part of a statement's work that runs on a thread of many sessions.
struct Turn {
    since: Instant,
    /// Microseconds from `since` to when it leaves the thread's other sessions to another thread.
    ends: AtomicU64,
    /// How often it has done so.
    left: AtomicU32,
}

impl Turn {
    fn micros(time: Duration) -> u64 {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        Turn::micros(self.since.elapsed())
    }

    /// Begins, on a thread of many sessions if it is `shared`.
    fn begin(&self, shared: bool) {
        let ends = match shared {
            true => self.now() + Turn::micros(TURN),
            false => u64::MAX,
        };
        self.ends.store(ends, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// Leaves the thread's other sessions to another thread if it has taken too long. They are
    /// given away when the closure begins and taken back when it ends, unless another thread has
    /// begun with them by then, which nothing tells: so it is done again, after longer times.
    fn check(&self) {
        let ends = self.ends.load(Ordering::Relaxed);
        if ends == u64::MAX || self.now() < ends {
            return;
        }
        let left = self.left.fetch_add(1, Ordering::Relaxed);
        let wait = Duration::from_millis(1 << left.min(3)).min(HAND_OVER_MAX);
        evenkeel_io::blocking(|| std::thread::sleep(wait));
        let next = Turn::micros(TURN) << left.min(6);
        self.ends.store(self.now() + next, Ordering::Relaxed);
    }
}

/// A session as the functions of one statement see it.
pub struct RowSession {
    cx: Arc<StatementCx>,
    turn: Turn,
    /// Made when a catalog function is first called.
    snapshot: OnceLock<CatalogView>,
}

impl RowSession {
    /// For a statement.
    pub fn new(cx: Arc<StatementCx>) -> RowSession {
        let turn = Turn {
            since: Instant::now(),
            ends: AtomicU64::new(u64::MAX),
            left: AtomicU32::new(0),
        };
        RowSession {
            cx,
            turn,
            snapshot: OnceLock::new(),
        }
    }

    /// The statement's work goes on, on a thread that serves other sessions too if it is `shared`.
    pub fn begin_turn(&self, shared: bool) {
        self.turn.begin(shared);
    }

    /// The statement's session values.
    pub fn cx(&self) -> &StatementCx {
        &self.cx
    }

    /// A value of a type whose values read as names, as a client sends it.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn oid_named(&self, name: &str, ty: SqlType) -> ExprResult<Datum> {
        evenkeel_expr::of_names(Datum::Text(name.to_owned()), ty, self)
    }

    /// The text of a value on its way to the client: oids of named kinds as their names.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn name_of(&self, value: &Datum, ty: SqlType) -> ExprResult<Option<Datum>> {
        if value.is_null() || !ty.has_names() {
            return Ok(None);
        }
        evenkeel_expr::as_names(value.clone(), ty, self).map(Some)
    }
}

impl RowSession {
    /// Puts the texts of values that read as names in their places.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn show_names(&self, row: &mut [Datum], types: &[SqlType]) -> ExprResult<()> {
        for (value, ty) in row.iter_mut().zip(types) {
            if let Some(name) = self.name_of(value, *ty)? {
                *value = name;
            }
        }
        Ok(())
    }
}

impl Session for RowSession {
    fn types(&self) -> &TypeContext {
        &self.cx.types
    }

    fn statement_start(&self) -> i64 {
        self.cx.statement_start
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        allocated(bytes)?;
        // The evaluation charges the value while it holds it; here only that there is room.
        let memory = &self.cx.seed.resources.memory;
        let room = Reservation::of(memory, bytes).map(drop);
        room.map_err(|error| SqlError::from(error).into())
    }

    fn hold(&self, bytes: usize) -> ExprResult<()> {
        let charged = self.cx.seed.resources.memory.reserve(bytes);
        charged.map_err(|error| SqlError::from(error).into())
    }

    fn release(&self, bytes: usize) {
        self.cx.seed.resources.memory.release(bytes);
    }

    fn random_state(&self) -> Option<&Mutex<RandomState>> {
        Some(&self.cx.seed.resources.random)
    }

    fn check_cancel(&self) -> ExprResult<()> {
        self.turn.check();
        let checked = self.cx.seed.cancel.check();
        checked.map_err(|error| SqlError::from(error).into())
    }

    fn system_call(&self, oid: u32, args: &[Datum]) -> ExprResult<Datum> {
        if let Some(answered) = sequences::call(oid, &self.cx, args) {
            return answered.map_err(TypeError::from);
        }
        if let Some(answered) = transaction_ids::call(oid, &self.cx, args) {
            return answered.map_err(TypeError::from);
        }
        if let Some(answered) = advisory::call(oid, &self.cx, args) {
            return answered.map_err(TypeError::from);
        }
        if let Some(answered) = channels::call(oid, &self.cx, args) {
            return answered.map_err(TypeError::from);
        }
        let answered = match functions::about(oid, args, self.cx.vars()) {
            Some(answered) => answered,
            None => {
                let make = || pg_catalog::snapshot_of(self.cx.vars());
                let snapshot = self.snapshot.get_or_init(make);
                pg_catalog::functions::call(oid, snapshot, args)
            }
        };
        let value = answered.map_err(TypeError::from)?;
        match (value, result_type(oid)) {
            // The catalog has arrays in their text form.
            (Datum::Text(text), Some(array @ SqlType::Array(..))) => {
                Datum::parse_text(array, &text, self.types())
            }
            (value, _) => Ok(value),
        }
    }
}

fn result_type(oid: u32) -> Option<SqlType> {
    match evenkeel_expr::proc_by_oid(oid)?.result {
        ArgType::Is(ty) => Some(ty),
        _ => None,
    }
}
