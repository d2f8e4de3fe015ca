//! ALTER TABLE … ALTER COLUMN … TYPE.

use std::sync::Arc;

use evenkeel_planner::ast::{ExprKind, Literal, TypeName, WrittenExpr};
use evenkeel_planner::parser::parse_expr;

use super::Session;
use super::alter::Alteration;
use super::alter_rows::NewValue;
use super::sequence_options::serial_type;
use crate::catalog::{ColumnInfo, NewText, Retyped, TableInfo, TextOf};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::planner::rows;
use crate::types::SqlType;

/// Whether every value of a type is one of another, in the same bytes of rows and keys.
fn same_form(from: SqlType, to: SqlType) -> bool {
    use SqlType::{Interval, Numeric, Text, Time, Timestamp, Timestamptz, Timetz, Varchar};
    /// Whether a value within one limit is within the other.
    fn within<T: PartialOrd>(from: Option<T>, to: Option<T>) -> bool {
        match (from, to) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(from), Some(to)) => from <= to,
        }
    }
    match (from, to) {
        (Varchar(_), Text)
        | (Text, Varchar(None))
        | (Numeric(_), Numeric(None))
        | (Interval(_), Interval(None)) => true,
        (Varchar(from), Varchar(to)) => within(from, to),
        (Numeric(Some(from)), Numeric(Some(to))) => {
            from.scale == to.scale && from.precision <= to.precision
        }
        (Time(from), Time(to))
        | (Timetz(from), Timetz(to))
        | (Timestamp(from), Timestamp(to))
        | (Timestamptz(from), Timestamptz(to)) => within(from, to),
        (from, to) => from == to,
    }
}

/// 0A000 for a column that a generated one is computed from.
fn refuse_used_by_generated(table: &TableInfo, at: usize) -> SqlResult<()> {
    let mentions = |column: &&ColumnInfo| {
        let generated = column.generated.as_ref();
        generated.is_some_and(|generated| generated.columns.contains(&at))
    };
    let Some(user) = table.columns.iter().find(mentions) else {
        return Ok(());
    };
    let message = "cannot alter type of a column used by a generated column";
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    Err(error.detail(format!(
        "Column \"{}\" is used by generated column \"{}\".",
        table.columns[at].name, user.name
    )))
}

impl Session {
    pub(super) async fn retype_column(
        &mut self,
        table: &TableInfo,
        at: usize,
        (ty, using): (&TypeName, Option<&WrittenExpr>),
        work: &mut Alteration<'_>,
    ) -> SqlResult<()> {
        if serial_type(ty).is_some() {
            let name = ty.name.last();
            let message = format!("type \"{name}\" does not exist");
            let error = SqlError::new(SqlState::UNDEFINED_OBJECT, message);
            return Err(self.placed(error, ty.at));
        }
        let to = self.column_type(ty)?;
        work.retyped.push(table.columns[at].attnum);
        if !to.is_storable() {
            let name = &table.columns[at].name;
            let message = format!("column \"{name}\" has pseudo-type {}", to.base_name());
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let column = &table.columns[at];
        let before = Arc::clone(&work.before);
        let old = before.columns.iter();
        let old = old.into_iter().position(|old| old.attnum == column.attnum);
        let old =
            old.ok_or_else(|| SqlError::internal("a column that was not there is retyped"))?;
        if work
            .rows
            .values
            .iter()
            .any(|(attnum, _)| *attnum == column.attnum)
        {
            let message = format!("cannot alter type of column \"{}\" twice", column.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.refuse_used_by_view(table, at)?;
        refuse_used_by_generated(table, at)?;
        if column.generated.is_some() && using.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let error = SqlError::new(SqlState::INVALID_COLUMN_DEFINITION, message);
            return Err(error.detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        let cx = Arc::new(self.statement_cx(self.view()));
        let using = using.map(|using| &using.expr);
        let text = self.current_text.clone();
        let program = rows::transform(&text, using, (&before, old), to, &cx)?;
        if using.is_some() || !same_form(column.ty, to.storage()) || to.is_constrained() {
            work.rows.rewrite = true;
            let value = NewValue::OfOld(program);
            work.rows.values.push((column.attnum, value));
            let checks = table.checks.iter();
            let checks = checks.filter(|check| check.validated && check.columns.contains(&at));
            work.rows.checks.extend(checks.map(|check| check.oid));
            if column.not_null.is_some() {
                work.rows.not_nulls.push(column.attnum);
            }
        }
        self.refuse_identity_type(column, to)?;
        let new = Retyped {
            ty: to,
            default: self.retyped_default(column, to)?,
            texts: self.retyped_texts(table, at, to)?,
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .retype_column(txn, ddl, (table.oid, at), new)
            .await?;
        Ok(())
    }

    fn refuse_identity_type(&self, column: &ColumnInfo, to: SqlType) -> SqlResult<()> {
        let number = matches!(to, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        if column.identity.is_none() || number {
            return Ok(());
        }
        let message = "identity column type must be smallint, integer, or bigint";
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    /// The default as it is for the new type.
    fn retyped_default(&self, column: &ColumnInfo, to: SqlType) -> SqlResult<Option<Arc<str>>> {
        let Some(default) = &column.default else {
            return Ok(None);
        };
        let cx = Arc::new(self.statement_cx(self.view()));
        let typed = format!("CAST({default} AS {})", column.declared().name());
        if rows::default_of(&typed, &column.name, to, &cx).is_err() {
            let message = format!(
                "default for column \"{}\" cannot be cast automatically to type {}",
                column.name,
                to.name()
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        // A bare string takes the type of its column.
        let bare = parse_expr(default)
            .is_ok_and(|value| matches!(value.kind, ExprKind::Literal(Literal::String(_))));
        Ok(Some(match bare {
            true => format!("{default}::{}", column.declared().base_name()).into(),
            false => Arc::clone(default),
        }))
    }

    /// The expressions over a column as they read with its new type.
    fn retyped_texts(&self, table: &TableInfo, at: usize, to: SqlType) -> SqlResult<Vec<NewText>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        let checks = table.checks.iter();
        let checks = checks.filter(|check| check.columns.contains(&at));
        let texts = checks.map(|check| {
            let text = rows::checks::retyped(&check.text, table, at, to, &cx)?;
            Ok((TextOf::Check(check.oid), text.text, text.pretty))
        });
        texts.collect()
    }
}
