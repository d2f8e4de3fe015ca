//! Rows in programs: constructors, fields, comparison.

use std::sync::Arc;

use evenkeel_types::{Datum, RecordValue, SqlType};

use super::Env;
use crate::error::{self, ExprResult};
use crate::program::{Program, RowCompareOp, RowPair};

impl Env<'_> {
    pub(super) fn row(
        &self,
        names: &Arc<[Arc<str>]>,
        types: &[SqlType],
        fields: &[Program],
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let values = self.values(fields, row)?;
        let record = RecordValue::new(types.into(), values.into());
        Ok(Datum::Record(Arc::new(record.named(Arc::clone(names)))))
    }

    pub(super) fn field(&self, record: &Program, field: usize, row: &[Datum]) -> ExprResult<Datum> {
        let mut space = self.space();
        match self.arg(record, row, &mut space)? {
            Datum::Null => Ok(Datum::Null),
            Datum::Record(record) => match record.fields().get(field) {
                Some(value) => self.made(Ok(value.clone())),
                None => Err(error::internal(
                    "a row has fewer fields than a program reads",
                )),
            },
            _ => Err(error::internal("a field of a value that is no row")),
        }
    }

    pub(super) fn row_is_null(
        &self,
        arg: &Program,
        negated: bool,
        row: &[Datum],
    ) -> ExprResult<bool> {
        let mut space = self.space();
        Ok(match self.arg(arg, row, &mut space)? {
            Datum::Null => !negated,
            Datum::Record(record) => record.fields().iter().all(|f| f.is_null() != negated),
            _ => negated,
        })
    }

    pub(super) fn row_compare(
        &self,
        op: RowCompareOp,
        pairs: &[RowPair],
        row: &[Datum],
    ) -> ExprResult<Option<bool>> {
        for pair in pairs {
            let (mut left, mut right) = (self.space(), self.space());
            let left = self.arg(&pair.left, row, &mut left)?;
            let right = self.arg(&pair.right, row, &mut right)?;
            match self.boolean(pair.equal, left, right)? {
                Some(true) => {}
                None => return Ok(None),
                Some(false) => {
                    let less = self.boolean(pair.less, left, right)?;
                    let greater = matches!(op, RowCompareOp::Greater | RowCompareOp::GreaterEqual);
                    return Ok(less.map(|less| less != greater));
                }
            }
        }
        let or_equal = matches!(op, RowCompareOp::LessEqual | RowCompareOp::GreaterEqual);
        Ok(Some(or_equal))
    }
}
