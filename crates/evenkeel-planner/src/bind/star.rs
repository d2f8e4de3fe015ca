//! `*`, `t.*` and `(row).*`, which stand for several columns.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::columns::{self, TableRef, field_of, variable};
use super::{Binder, types};
use crate::ast::{self, ExprKind as K, FieldPart, Pos};
use crate::bound::{Expr, ExprKind, Var, WHOLE_ROW};
use crate::error::{PlanError, PlanResult};

/// Columns with their names.
pub(super) type Named = Vec<(Arc<str>, Expr)>;

impl Binder<'_> {
    /// The columns that an item of a list stands for, if it ends in `*`.
    pub(super) fn expand(&mut self, expr: &ast::Expr) -> PlanResult<Option<Named>> {
        match &expr.kind {
            K::Column(parts) => match parts.split_last() {
                Some((FieldPart::Star(star), [])) => self.all_columns(*star, expr.at).map(Some),
                Some((FieldPart::Star(_), before)) => self.table_columns(before, expr.at).map(Some),
                _ => Ok(None),
            },
            K::Field {
                base,
                field: FieldPart::Star(_),
            } => {
                let row = self.bind_expr(base)?;
                self.fields(&row, expr.at).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `*`
    fn all_columns(&mut self, star: Pos, at: Pos) -> PlanResult<Named> {
        let mut named = Vec::new();
        let scope = self.scope();
        let mut any = false;
        for item in &scope.namespace {
            if !item.columns_visible {
                continue;
            }
            any = true;
            for column in item.columns.iter().filter(|column| !column.hidden) {
                named.push((Arc::clone(&column.name), variable(column, 0, at)));
            }
        }
        if !any {
            let message = "SELECT * with no tables specified is not valid";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(star.min(at)));
        }
        Ok(named)
    }

    fn table_of(&mut self, before: &[FieldPart], at: Pos) -> PlanResult<columns::FoundTable> {
        let names = columns::name_parts(before);
        let table = match names.as_slice() {
            [table] => TableRef {
                schema: None,
                table,
            },
            [schema, table] => TableRef {
                schema: Some(schema),
                table,
            },
            [database, schema, table] => {
                let shown = [names.as_slice(), &["*"]].concat();
                self.check_database(database, &shown, at)?;
                let schema = Some(*schema);
                TableRef { schema, table }
            }
            _ => {
                let message = format!(
                    "improper qualified name (too many dotted names): {}.*",
                    names.join(".")
                );
                return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
            }
        };
        match self.find_table(table, at)? {
            Some(found) => Ok(found),
            None => Err(self.missing_table(table, at)),
        }
    }

    /// `t.*` where one value is wanted: the row.
    pub(super) fn bind_table_row(&mut self, before: &[FieldPart], at: Pos) -> PlanResult<Expr> {
        let found = self.table_of(before, at)?;
        Ok(columns::whole_row(&found, at))
    }

    /// `t.*` in a list.
    fn table_columns(&mut self, before: &[FieldPart], at: Pos) -> PlanResult<Named> {
        let found = self.table_of(before, at)?;
        let shown = found.item.columns.iter().filter(|column| !column.hidden);
        Ok(shown
            .map(|column| (Arc::clone(&column.name), variable(column, found.depth, at)))
            .collect())
    }

    /// `(row).*`
    fn fields(&mut self, row: &Expr, at: Pos) -> PlanResult<Named> {
        if row.ty != SqlType::Record {
            let message = format!("type {} is not composite", types::name(row.ty));
            return Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let Some(fields) = self.row_fields(row) else {
            let message = "record type has not been registered";
            return Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let whole = match &row.kind {
            ExprKind::Var(var) if var.column == WHOLE_ROW => Some(*var),
            _ => None,
        };
        let mut named = Vec::with_capacity(fields.len());
        for (index, (name, ty)) in fields.into_iter().enumerate() {
            let field = match whole {
                Some(var) => Expr {
                    kind: ExprKind::Var(Var {
                        column: index,
                        ..var
                    }),
                    ty,
                    at,
                },
                None => field_of(row.clone(), index, ty, at),
            };
            named.push((name, field));
        }
        Ok(named)
    }
}
