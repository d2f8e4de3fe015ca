//! `x IN (subquery)` by a hash table, for a subquery that depends on nothing.

use std::collections::HashSet;
use std::sync::LazyLock;

use evenkeel_engine::memory::Reservation;
use evenkeel_expr::OPERATORS;
use evenkeel_expr::proc::ArgType;
use evenkeel_expr::program::Program;
use evenkeel_types::{Datum, SqlType};

use crate::batch::bytes_of;
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same};

/// The functions of operators `=` that hold just where [`same`] does, by oid.
static EQUALITIES: LazyLock<HashSet<u32>> = LazyLock::new(|| {
    let equals = OPERATORS.iter().filter(|operator| operator.name == "=");
    let hashed = equals.filter(|operator| {
        let (Some(ArgType::Is(left)), ArgType::Is(right)) = (operator.left, operator.right) else {
            return false;
        };
        // Of rows the operator refuses those of other types.
        let one = left == right && left != SqlType::Record;
        one || (is_integer(left) && is_integer(right)) || (is_float(left) && is_float(right))
    });
    hashed.map(|operator| operator.proc).collect()
});

fn is_integer(ty: SqlType) -> bool {
    matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

fn is_float(ty: SqlType) -> bool {
    matches!(ty, SqlType::Float4 | SqlType::Float8)
}

/// The other operand of a test that a column is equal to something, where a hash table can
/// answer it; `column` is the executor parameter of the column.
pub(crate) fn hashed_operand(test: &Program, column: usize) -> Option<&Program> {
    let Program::Call(call) = test else {
        return None;
    };
    let [left, right] = &*call.args else {
        return None;
    };
    let is_column = |program: &Program| matches!(program, Program::Exec(at) if *at == column);
    let operand = match (is_column(left), is_column(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    // An operand that is no slot, constant or parameter may look at the column too.
    let plain = match operand {
        Program::Slot(_) | Program::Const(_) | Program::Param(_) | Program::CaseOperand => true,
        Program::Exec(at) => *at != column,
        Program::Cast(cast) => matches!(cast.arg, Program::Slot(_) | Program::Param(_)),
        _ => false,
    };
    (plain && EQUALITIES.contains(&call.proc.oid)).then_some(operand)
}

/// The values of a column.
pub(crate) struct AnySet {
    seed: HashSeed,
    index: HashIndex,
    values: Vec<Datum>,
    has_null: bool,
    reservation: Reservation,
    limit: usize,
}

impl AnySet {
    /// An empty set that keeps `limit` bytes.
    pub fn new(reservation: Reservation, limit: usize) -> AnySet {
        AnySet {
            seed: HashSeed::new(),
            index: HashIndex::default(),
            values: Vec::new(),
            has_null: false,
            reservation,
            limit,
        }
    }

    /// Adds a value; false when there is no room for it.
    pub fn insert(&mut self, value: Datum) -> bool {
        if value.is_null() {
            self.has_null = true;
            return true;
        }
        let hash = self.seed.hash(std::slice::from_ref(&value));
        if self.find(hash, &value) {
            return true;
        }
        let bytes = bytes_of(&value) + HashIndex::ROW_BYTES;
        let room = self.reservation.bytes() + bytes <= self.limit;
        if !room || self.reservation.grow(bytes).is_err() {
            return false;
        }
        self.index.insert(hash);
        self.values.push(value);
        true
    }

    fn find(&self, hash: u64, value: &Datum) -> bool {
        let found = self.index.find(hash, |at| same(&self.values[at], value));
        found.is_some()
    }

    /// Whether no value was added.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.has_null
    }

    /// Whether a value is among them; NULL where that is not known.
    pub fn contains(&self, value: &Datum) -> Datum {
        if self.is_empty() {
            return Datum::Bool(false);
        }
        if value.is_null() {
            return Datum::Null;
        }
        let hash = self.seed.hash(std::slice::from_ref(value));
        match (self.find(hash, value), self.has_null) {
            (true, _) => Datum::Bool(true),
            (false, true) => Datum::Null,
            (false, false) => Datum::Bool(false),
        }
    }
}
