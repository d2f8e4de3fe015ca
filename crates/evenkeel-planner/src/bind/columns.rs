//! Names of columns and tables: what they mean where they stand.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::Binder;
use super::scope::{NsColumn, NsItem, Place, Scope};
use crate::ast::{self, FieldPart, Pos};
use crate::bound::{Expr, ExprKind, RangeKind, Var, WHOLE_ROW};
use crate::error::{PlanError, PlanResult};
use crate::relation::{RelationKind, SystemColumn};

/// A table name that was found: how many queries further out, and which item there.
#[derive(Debug, Clone)]
pub(super) struct FoundTable {
    pub(super) depth: usize,
    pub(super) item: NsItem,
}

/// The parts of a column reference before its last.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableRef<'a> {
    pub(super) schema: Option<&'a str>,
    pub(super) table: &'a str,
}

pub(super) fn variable(column: &NsColumn, depth: usize, at: Pos) -> Expr {
    let var = Var {
        depth,
        rel: column.rel,
        column: column.column,
    };
    Expr {
        kind: ExprKind::Var(var),
        ty: column.ty,
        at,
    }
}

pub(super) fn whole_row(found: &FoundTable, at: Pos) -> Expr {
    let var = Var {
        depth: found.depth,
        rel: found.item.rel,
        column: WHOLE_ROW,
    };
    // A function's single column is a value, not a row of one field.
    if let [only] = found.item.columns.as_slice()
        && found.item.scalar_function
    {
        return variable(only, found.depth, at);
    }
    Expr {
        kind: ExprKind::Var(var),
        ty: SqlType::Record,
        at,
    }
}

/// `column "c" does not exist` for a name with its table.
pub(super) fn name_parts(parts: &[FieldPart]) -> Vec<&str> {
    parts
        .iter()
        .map(|part| match part {
            FieldPart::Name(name) => name.text.as_str(),
            FieldPart::Star(_) => "*",
        })
        .collect()
}

impl Binder<'_> {
    /// A column reference.
    pub(super) fn bind_column(&mut self, parts: &[FieldPart], at: Pos) -> PlanResult<Expr> {
        if self.scope().place == Place::Default {
            let message = "cannot use column reference in DEFAULT expression";
            return Err(PlanError::unsupported(message).at(at));
        }
        let names = name_parts(parts);
        if let (["value"], Some(ty)) = (names.as_slice(), self.domain_value) {
            let kind = ExprKind::DomainValue;
            return Ok(Expr { kind, ty, at });
        }
        match names.as_slice() {
            [column] => self.bind_plain_column(column, at),
            [table, column] => self.bind_qualified(
                TableRef {
                    schema: None,
                    table,
                },
                column,
                at,
            ),
            [schema, table, column] => self.bind_qualified(
                TableRef {
                    schema: Some(schema),
                    table,
                },
                column,
                at,
            ),
            [database, schema, table, column] => {
                self.check_database(database, &names, at)?;
                let schema = Some(*schema);
                self.bind_qualified(TableRef { schema, table }, column, at)
            }
            _ => {
                let dotted = names.join(".");
                let message = format!("improper qualified name (too many dotted names): {dotted}");
                Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at))
            }
        }
    }

    /// Refuses a name of parts of which the first is another database.
    pub(super) fn check_database(&self, name: &str, parts: &[&str], at: Pos) -> PlanResult<()> {
        if self.catalog.is_database(name) {
            return Ok(());
        }
        let dotted = parts.join(".");
        let message = format!("cross-database references are not implemented: {dotted}");
        Err(PlanError::unsupported(message).at(at))
    }

    fn bind_plain_column(&mut self, column: &str, at: Pos) -> PlanResult<Expr> {
        if let Some(found) = self.find_column(column, at)? {
            return Ok(found);
        }
        let table = TableRef {
            schema: None,
            table: column,
        };
        if let Some(found) = self.find_table(table, at)? {
            return Ok(whole_row(&found, at));
        }
        Err(self.missing_column(None, column, at))
    }

    fn bind_qualified(&mut self, table: TableRef<'_>, column: &str, at: Pos) -> PlanResult<Expr> {
        let Some(found) = self.find_table(table, at)? else {
            return Err(self.missing_table(table, at));
        };
        if let Some(column) = column_of(&found.item, column, at)? {
            return Ok(variable(column, found.depth, at));
        }
        if let Some(system) = self.system_column(column, found.depth, found.item.rel) {
            return self.bind_system_column(system, found.depth, found.item.rel, at);
        }
        let row = whole_row(&found, at);
        if let Some(call) = self.row_function(column, row, at)? {
            return Ok(call);
        }
        Err(self.missing_column(Some(table.table), column, at))
    }

    fn system_column(&self, name: &str, depth: usize, rel: usize) -> Option<SystemColumn> {
        system_column(self.outer(depth)?, name, rel)
    }

    fn bind_system_column(
        &mut self,
        column: SystemColumn,
        depth: usize,
        rel: usize,
        at: Pos,
    ) -> PlanResult<Expr> {
        let name = column.name();
        let place = self.scope().place;
        let table_oid = column == SystemColumn::TableOid;
        let refused = |message| {
            let code = SqlState::INVALID_COLUMN_REFERENCE;
            Err(PlanError::new(code, message).at(at))
        };
        match place {
            Place::Check if !table_oid => {
                return refused(format!(
                    "system column \"{name}\" reference in check constraint is invalid"
                ));
            }
            Place::Generated if !table_oid => {
                return refused(format!(
                    "cannot use system column \"{name}\" in column generation expression"
                ));
            }
            Place::MergeWhen if !table_oid => {
                return refused(format!(
                    "cannot use system column \"{name}\" in MERGE WHEN condition"
                ));
            }
            Place::IndexExpression | Place::IndexPredicate => {
                let message = "index creation on system columns is not supported";
                return Err(PlanError::unsupported(message));
            }
            _ => {}
        }
        let entry = self
            .outer(depth)
            .and_then(|scope| scope.range_table.get(rel));
        if let Some(RangeKind::Relation(of) | RangeKind::Version(of)) = entry.map(|of| &of.kind)
            && of.kind != RelationKind::Table
            && !table_oid
        {
            let message = format!(
                "system column \"{name}\" of \"{}\" is not supported",
                of.name
            );
            return Err(PlanError::unsupported(message).at(at));
        }
        let var = Var {
            depth,
            rel,
            column: column.position(),
        };
        Ok(Expr {
            kind: ExprKind::Var(var),
            ty: column.ty(),
            at,
        })
    }

    /// A column by its name alone: in the innermost query that has one.
    fn find_column(&mut self, column: &str, at: Pos) -> PlanResult<Option<Expr>> {
        for depth in 0..self.scopes.len() {
            let Some(scope) = self.outer(depth) else {
                break;
            };
            let mut found: Option<Expr> = None;
            let mut system = None;
            for item in &scope.namespace {
                if !item.columns_visible || (item.lateral_only && !scope.lateral_active) {
                    continue;
                }
                let Some(hit) = column_of(item, column, at)? else {
                    if let Some(of) = self.system_column(column, depth, item.rel)
                        && system.replace((of, item.rel)).is_some()
                    {
                        return Err(ambiguous_column(column, at));
                    }
                    continue;
                };
                if found.is_some() {
                    return Err(ambiguous_column(column, at));
                }
                check_lateral(item, scope.target, at)?;
                found = Some(variable(hit, depth, at));
            }
            if found.is_some() {
                return Ok(found);
            }
            if let Some((system, rel)) = system {
                return self.bind_system_column(system, depth, rel, at).map(Some);
            }
        }
        Ok(None)
    }

    /// A table by the name that columns use for it.
    pub(super) fn find_table(
        &mut self,
        table: TableRef<'_>,
        at: Pos,
    ) -> PlanResult<Option<FoundTable>> {
        let relation = match table.schema {
            Some(schema) => {
                if !self.catalog.schema_exists(schema) {
                    return Ok(None);
                }
                match self.catalog.relation(Some(schema), table.table)? {
                    Some(relation) => Some(relation.oid),
                    None => return Ok(None),
                }
            }
            None => None,
        };
        for depth in 0..self.scopes.len() {
            let Some(scope) = self.outer(depth) else {
                break;
            };
            let mut found: Option<&NsItem> = None;
            for item in &scope.namespace {
                if !item.table_visible || (item.lateral_only && !scope.lateral_active) {
                    continue;
                }
                let fits = match relation {
                    Some(oid) => item.relation == Some(oid),
                    None => *item.name == *table.table,
                };
                if !fits {
                    continue;
                }
                if found.is_some() {
                    let message = format!("table reference \"{}\" is ambiguous", table.table);
                    return Err(PlanError::new(SqlState::AMBIGUOUS_ALIAS, message).at(at));
                }
                check_lateral(item, scope.target, at)?;
                found = Some(item);
            }
            if let Some(item) = found {
                return Ok(Some(FoundTable {
                    depth,
                    item: item.clone(),
                }));
            }
        }
        Ok(None)
    }

    /// Names and types of the fields of a row, as far as the expression shows them.
    pub(super) fn row_fields(&self, expr: &Expr) -> Option<Vec<(Arc<str>, SqlType)>> {
        match &expr.kind {
            ExprKind::Row(fields) => {
                let named = fields.iter().enumerate();
                Some(
                    named
                        .map(|(i, field)| (format!("f{}", i + 1).into(), field.ty))
                        .collect(),
                )
            }
            ExprKind::Var(var) if var.column == WHOLE_ROW => {
                let entry = self.outer(var.depth)?.range_table.get(var.rel)?;
                let names = entry.columns.iter().cloned();
                Some(names.zip(entry.types.iter().copied()).collect())
            }
            ExprKind::Var(var) => {
                let scope = self.scopes.len().checked_sub(var.depth + 1)?;
                super::names::fields_of_column(&self.scopes, scope, var.rel, var.column)
            }
            ExprKind::Sublink(sublink) => {
                let target = sublink.query.targets.first()?;
                super::names::fields_of_target(&target.expr)
            }
            ExprKind::SetCall(call) | ExprKind::Call(call) => {
                let columns = super::tables::row_columns(call.proc);
                (!columns.is_empty()).then(|| {
                    let named = columns.iter();
                    named.map(|(name, ty)| ((*name).into(), *ty)).collect()
                })
            }
            _ => None,
        }
    }

    /// `(row).field`, `row.field`
    pub(super) fn bind_field(&mut self, row: Expr, field: &ast::Name, at: Pos) -> PlanResult<Expr> {
        if row.ty == SqlType::Record {
            let fields = self.row_fields(&row);
            let known = fields.is_some();
            let hit = fields
                .into_iter()
                .flatten()
                .enumerate()
                .find(|(_, (name, _))| **name == *field.text);
            if let Some((index, (_, ty))) = hit {
                return Ok(field_of(row, index, ty, at));
            }
            if let ExprKind::Var(var) = row.kind
                && var.column == WHOLE_ROW
                && let Some(system) = self.system_column(&field.text, var.depth, var.rel)
            {
                return self.bind_system_column(system, var.depth, var.rel, at);
            }
            if let Some(call) = self.row_function(&field.text, row.clone(), at)? {
                return Ok(call);
            }
            let message = if known {
                match &row.kind {
                    ExprKind::Var(_) => self.no_field_of_table(&row, &field.text),
                    _ => no_field_of_record(&field.text),
                }
            } else {
                no_field_of_record(&field.text)
            };
            return Err(PlanError::new(SqlState::UNDEFINED_COLUMN, message).at(at));
        }
        if row.ty == SqlType::Unknown {
            let message = format!(
                "column notation .{} applied to type unknown, which is not a composite type",
                field.text
            );
            return Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message).at(at));
        }
        let ty = super::types::name(row.ty);
        if let Some(call) = self.row_function(&field.text, row, at)? {
            return Ok(call);
        }
        let message = format!(
            "column notation .{} applied to type {ty}, which is not a composite type",
            field.text
        );
        Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message).at(at))
    }

    fn no_field_of_table(&self, row: &Expr, field: &str) -> String {
        let entry = match &row.kind {
            ExprKind::Var(var) => self
                .outer(var.depth)
                .and_then(|scope| scope.range_table.get(var.rel)),
            _ => None,
        };
        match entry {
            Some(entry) => format!("column {}.{field} does not exist", entry.alias),
            None => no_field_of_record(field),
        }
    }
}

fn no_field_of_record(field: &str) -> String {
    format!("could not identify column \"{field}\" in record data type")
}

/// A field of a row; of one that is written out the field itself.
pub(super) fn field_of(row: Expr, field: usize, ty: SqlType, at: Pos) -> Expr {
    if let ExprKind::Var(var) = row.kind
        && var.column == WHOLE_ROW
    {
        let kind = ExprKind::Var(Var {
            column: field,
            ..var
        });
        return Expr { kind, ty, at };
    }
    Expr {
        kind: ExprKind::Field {
            row: Box::new(row),
            field,
        },
        ty,
        at,
    }
}

fn column_of<'a>(item: &'a NsItem, column: &str, at: Pos) -> PlanResult<Option<&'a NsColumn>> {
    let mut found = None;
    for candidate in &item.columns {
        if !candidate.hidden && *candidate.name == *column {
            if found.is_some() {
                return Err(ambiguous_column(column, at));
            }
            found = Some(candidate);
        }
    }
    Ok(found)
}

pub(super) fn ambiguous_column(column: &str, at: Pos) -> PlanError {
    let message = format!("column reference \"{column}\" is ambiguous");
    PlanError::new(SqlState::AMBIGUOUS_COLUMN, message).at(at)
}

/// The system column that a name means for an entry: of a table, or of a row of one.
pub(super) fn system_column(scope: &Scope, name: &str, rel: usize) -> Option<SystemColumn> {
    match &scope.range_table.get(rel)?.kind {
        RangeKind::Relation(of) | RangeKind::Version(of) if of.kind != RelationKind::View => {
            SystemColumn::named(name)
        }
        _ => None,
    }
}

fn check_lateral(item: &NsItem, target: Option<usize>, at: Pos) -> PlanResult<()> {
    if !item.lateral_only || item.lateral_ok {
        return Ok(());
    }
    let message = format!(
        "invalid reference to FROM-clause entry for table \"{}\"",
        item.name
    );
    let error = PlanError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(at);
    Err(if target == Some(item.rel) {
        error.hint(format!(
            "There is an entry for table \"{}\", but it cannot be referenced from this part of \
             the query.",
            item.name
        ))
    } else {
        error.detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.")
    })
}
