//! Rows that the server makes, and the places at which a column has a value.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_types::Datum;
use evenkeel_types::key::KeyColumn;

use crate::error::ExecResult;

/// The places of rows, by the key of a column's value.
pub(crate) type Places = HashMap<Vec<u8>, Vec<usize>>;

/// Some rows of a virtual relation. Clones share them, and what has been found out about them.
#[derive(Debug, Clone)]
pub struct VirtualRows(Arc<Part>);

#[derive(Debug)]
struct Part {
    rows: Vec<Vec<Datum>>,
    /// Made when a column is searched first: a few columns of a relation ever are.
    places: Mutex<Vec<(KeyColumn, Arc<Places>)>>,
}

impl VirtualRows {
    /// The rows.
    pub fn rows(&self) -> &[Vec<Datum>] {
        &self.0.rows
    }

    /// Where the values of a column are.
    pub(crate) fn places(&self, column: &KeyColumn) -> ExecResult<Arc<Places>> {
        let lock = || self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |places: &[(KeyColumn, Arc<Places>)]| {
            let found = places.iter().find(|(of, _)| of == column);
            found.map(|(_, places)| Arc::clone(places))
        };
        if let Some(places) = known(&lock()) {
            return Ok(places);
        }
        let mut made = Places::new();
        for (place, row) in self.0.rows.iter().enumerate() {
            let mut key = Vec::new();
            let value = column.column.and_then(|at| row.get(at));
            column.encode(value.unwrap_or(&Datum::Null), &mut key)?;
            made.entry(key).or_default().push(place);
        }
        let made = Arc::new(made);
        let mut places = lock();
        if let Some(places) = known(&places) {
            return Ok(places);
        }
        places.push((*column, Arc::clone(&made)));
        Ok(made)
    }
}

impl From<Vec<Vec<Datum>>> for VirtualRows {
    fn from(rows: Vec<Vec<Datum>>) -> VirtualRows {
        let places = Mutex::default();
        VirtualRows(Arc::new(Part { rows, places }))
    }
}

impl FromIterator<Vec<Datum>> for VirtualRows {
    fn from_iter<I: IntoIterator<Item = Vec<Datum>>>(rows: I) -> VirtualRows {
        rows.into_iter().collect::<Vec<_>>().into()
    }
}
