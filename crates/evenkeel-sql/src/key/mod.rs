//! The keys of one index, as the engine asks for them. Their bytes are those of
//! [`evenkeel_types::key`].

mod session;

use std::sync::Arc;

use evenkeel_engine::table::{KeyExtractor, KeyKind, LONGEST_KEY};
use evenkeel_engine::{EngineError, EngineResult};
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::Program;
pub use evenkeel_types::key::{KeyColumn, is_indexable, successor};
use evenkeel_types::row::{External, RowLayout, Stored, decompressed};
use evenkeel_types::{SqlState, TypeError, TypeResult};

pub(crate) use self::session::{INDEX_SESSION, allocated};
use crate::error::SqlResult;
use crate::types::Datum;

/// Bytes that stand for a key that is too long for an index.
const TOO_LONG: usize = u16::MAX as usize;

/// Parts of an index that are computed from a row's columns.
#[derive(Debug, Clone, Default)]
pub struct ComputedKey {
    /// Programs of the columns that are none of the table's, in order.
    pub expressions: Vec<Arc<Program>>,
    /// The condition of the rows that the index has.
    pub predicate: Option<Arc<Program>>,
    /// The table's columns that they look at, each once.
    pub mentions: Vec<usize>,
}

/// The keys of one index: takes them out of rows, and makes search keys from values.
#[derive(Debug, Clone)]
pub struct IndexKey {
    layout: Arc<RowLayout>,
    columns: Vec<KeyColumn>,
    computed: ComputedKey,
    nulls_not_distinct: bool,
}

impl IndexKey {
    /// Keys of `columns` of rows of `layout`.
    pub fn new(layout: Arc<RowLayout>, columns: Vec<KeyColumn>) -> IndexKey {
        IndexKey {
            layout,
            columns,
            computed: ComputedKey::default(),
            nulls_not_distinct: false,
        }
    }

    /// Computes some of the columns, or which rows have keys.
    #[must_use]
    pub fn computed(mut self, computed: ComputedKey) -> IndexKey {
        self.computed = computed;
        self
    }

    /// Lets NULLs conflict with one another (`NULLS NOT DISTINCT`).
    #[must_use]
    pub fn nulls_not_distinct(mut self) -> IndexKey {
        self.nulls_not_distinct = true;
        self
    }

    /// The table's columns that expressions and the predicate look at.
    pub fn mentions(&self) -> &[usize] {
        &self.computed.mentions
    }

    /// The table's columns that keys are made of, by the predicate too.
    pub fn looks_at(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter().filter_map(|column| column.column);
        columns.chain(self.computed.mentions.iter().copied())
    }

    /// The columns.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Appends the key of values for the first columns, each of its column's type; returns
    /// whether one of them is NULL (which equals nothing).
    pub fn encode_prefix(&self, values: &[Datum], out: &mut Vec<u8>) -> SqlResult<bool> {
        let mut has_null = false;
        for (column, value) in self.columns.iter().zip(values) {
            has_null |= value.is_null();
            column.encode(value, out)?;
        }
        Ok(has_null)
    }

    /// The columns that are computed from, where they are in a row of the table; NULL for others.
    fn mentioned(&self, row: &[u8]) -> TypeResult<Vec<Datum>> {
        let mut values = vec![Datum::Null; self.layout.len()];
        for column in &self.computed.mentions {
            let value = self.layout.read(row, *column)?.map_err(|external| {
                too_long(&external, "an expression or the predicate of an index")
            })?;
            if let Some(slot) = values.get_mut(*column) {
                *slot = value;
            }
        }
        Ok(values)
    }

    /// Hands out the values of a row's key, in order; whether the index has the row. Or the value
    /// that is kept outside of the row.
    fn each_value(
        &self,
        row: &[u8],
        found: &mut dyn FnMut(&KeyColumn, Datum) -> TypeResult<()>,
    ) -> TypeResult<Result<bool, External>> {
        let computed = &self.computed;
        let mentioned = match computed.mentions.is_empty() {
            true => Vec::new(),
            false => self.mentioned(row)?,
        };
        let env = Env::new(&[], &*INDEX_SESSION, &NoSubplans);
        if let Some(predicate) = &computed.predicate
            && env.truth(predicate, &mentioned)? != Some(true)
        {
            return Ok(Ok(false));
        }
        let mut expressions = computed.expressions.iter();
        for column in &self.columns {
            let value = match column.column {
                Some(at) => match self.layout.read(row, at)? {
                    Ok(value) => value,
                    Err(external) => return Ok(Err(external)),
                },
                None => match expressions.next() {
                    Some(program) => env.eval(program, &mentioned)?,
                    None => return Err(TypeError::internal("an index without its expression")),
                },
            };
            found(column, value)?;
        }
        Ok(Ok(true))
    }

    /// As [`IndexKey::each_value`], of an index that has all rows, by their columns alone: the keys
    /// of most indexes, taken for each row that is stored.
    fn each_column(
        &self,
        row: &[u8],
        mut found: impl FnMut(&KeyColumn, Datum) -> TypeResult<()>,
    ) -> TypeResult<Result<bool, External>> {
        for column in &self.columns {
            let at = column.column;
            let at = at.ok_or_else(|| TypeError::internal("an index without its expression"))?;
            match self.layout.read(row, at)? {
                Ok(value) => found(column, value)?,
                Err(external) => return Ok(Err(external)),
            }
        }
        Ok(Ok(true))
    }

    /// The values of a row's key, in order; none if the index does not have the row.
    ///
    /// # Errors
    /// As [`IndexKey::encode_row`].
    pub fn values(&self, row: &[u8]) -> TypeResult<Option<Vec<Datum>>> {
        let mut values = Vec::new();
        let outcome = self.each_value(row, &mut |_, value| {
            values.push(value);
            Ok(())
        })?;
        let is_in = outcome.map_err(|external| too_long(&external, "a key"))?;
        Ok(is_in.then_some(values))
    }

    /// Appends the key of a row.
    ///
    /// # Errors
    /// Those of its expressions; 54000 for a value that is kept outside of the row; a damaged row.
    pub fn encode_row(&self, row: &[u8], out: &mut Vec<u8>) -> TypeResult<KeyKind> {
        self.try_row(row, out)?
            .map_err(|external| too_long(&external, "a key"))
    }

    /// As [`IndexKey::encode_row`]; the key's value that is kept outside of the row, if there is
    /// one.
    fn try_row(&self, row: &[u8], out: &mut Vec<u8>) -> TypeResult<Result<KeyKind, External>> {
        let mut has_null = false;
        let mut put = |column: &KeyColumn, value: Datum| {
            has_null |= value.is_null();
            column.encode(&value, out)
        };
        let is_in = match self.is_computed() {
            true => self.each_value(row, &mut put)?,
            false => self.each_column(row, put)?,
        };
        Ok(is_in.map(|is_in| match is_in {
            false => KeyKind::Absent,
            true if has_null && !self.nulls_not_distinct => KeyKind::HasNull,
            true => KeyKind::Unique,
        }))
    }

    /// Whether a column has the same bytes in two rows, whatever form they are stored in: the row
    /// around a value decides whether it is compressed.
    fn same_value(&self, old: &[u8], new: &[u8], column: usize) -> TypeResult<bool> {
        let old = self.layout.stored(old, column)?;
        let new = self.layout.stored(new, column)?;
        let (Some(a), Some(b)) = (old, new) else {
            return Ok(old.is_none() && new.is_none());
        };
        if a == b || a.raw_len() != b.raw_len() {
            return Ok(a == b);
        }
        match (a, b) {
            (Stored::Plain(plain), Stored::Compressed { raw, block })
            | (Stored::Compressed { raw, block }, Stored::Plain(plain)) => {
                Ok(decompressed(block, raw)? == plain)
            }
            _ => Ok(false),
        }
    }
}

fn too_long(external: &External, place: &str) -> TypeError {
    let message = format!("a value of {} bytes is too long for {place}", external.raw);
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

impl KeyExtractor for IndexKey {
    /// Compares the bytes of all columns that the key or its presence depends on.
    fn same_key(&self, old: &[u8], new: &[u8]) -> bool {
        let mut columns = self.looks_at();
        columns.all(|column| self.same_value(old, new, column).unwrap_or(false))
    }

    fn is_computed(&self) -> bool {
        self.computed.predicate.is_some() || !self.computed.expressions.is_empty()
    }

    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        match self.try_row(row, out) {
            Ok(Ok(kind)) => Ok(kind),
            // A key that no index takes: the engine refuses it, as it does any that long.
            Ok(Err(external)) => {
                let length = LONGEST_KEY.saturating_add(external.raw as usize);
                out.resize(length.min(TOO_LONG), 0);
                Ok(KeyKind::Unique)
            }
            Err(error) if error.sqlstate == SqlState::DATA_CORRUPTED => {
                // A damaged row gets no index entry: whatever reads the row reports the damage, and
                // a check of the table reports the missing entry.
                out.clear();
                Ok(KeyKind::Absent)
            }
            Err(error) => Err(EngineError::Key {
                sqlstate: error.sqlstate.as_str(),
                error: Arc::new(error),
            }),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
