//! Values made of one row of a table: the new values of a column whose type changes, those of a
//! generated column, and whether COPY FROM takes the row.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::{CastContext, Volatility};
use evenkeel_types::{SqlState, SqlType};

use super::check::{Origin, columns_of, row_binder};
use super::from::item_of;
use super::scope::{NsItem, Place};
use super::walk::{self, Enter};
use super::{Binder, types};
use crate::ast::{self, Pos};
use crate::bound::{
    Bound, BoundStatement, Expr, ExprKind, FromNode, Query, RangeEntry, RangeKind, Target,
};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::parser;
use crate::planning::deparse;
use crate::relation::{Column, Relation};

/// Purpose of a value.
#[derive(Debug, Clone, Copy)]
pub enum RowValue<'a> {
    /// The column of this name gets another type; whether USING says how.
    Transform { column: &'a str, using: bool },
    /// The column of this name is generated.
    Generated(&'a str, Kept),
    /// WHERE of COPY FROM.
    CopyWhere,
}

/// Where the value of a generated column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In the row.
    Stored,
    /// Nowhere: it is computed where it is read.
    Virtual,
}

impl RowValue<'_> {
    fn place(self) -> Place {
        match self {
            RowValue::Transform { .. } => Place::Transform,
            RowValue::Generated(..) => Place::Generated,
            RowValue::CopyWhere => Place::CopyWhere,
        }
    }

    fn mismatch(self, from: SqlType, to: SqlType) -> PlanError {
        let to = types::name(to);
        let (message, hint) = match self {
            RowValue::CopyWhere => {
                let from = types::name(from);
                let message = format!("argument of WHERE must be type {to}, not type {from}");
                return PlanError::new(SqlState::DATATYPE_MISMATCH, message);
            }
            RowValue::Transform {
                column,
                using: false,
            } => (
                format!("column \"{column}\" cannot be cast automatically to type {to}"),
                format!(
                    "You might need to specify \"USING {}::{to}\".",
                    crate::quote::identifier(column)
                ),
            ),
            RowValue::Transform { column, .. } => (
                format!(
                    "result of USING clause for column \"{column}\" cannot be cast automatically \
                     to type {to}"
                ),
                "You might need to add an explicit cast.".to_owned(),
            ),
            RowValue::Generated(column, _) => (
                format!(
                    "column \"{column}\" is of type {to} but default expression is of type {}",
                    types::name(from)
                ),
                "You will need to rewrite or cast the expression.".to_owned(),
            ),
        };
        PlanError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint)
    }
}

/// A value over a table's row.
#[derive(Debug, Clone)]
pub struct BoundRowValue {
    /// The value as a query's, for [`crate::planning::row_programs`].
    pub bound: Bound,
    /// The expression in PostgreSQL's words, with every cast.
    pub text: String,
    /// The same with the parentheses that are needed.
    pub pretty: String,
    /// The columns that a generated column or WHERE mentions, from 0, as they come.
    pub columns: Vec<usize>,
}

/// Binds a value of type `ty` over a row of a table.
///
/// # Errors
/// PostgreSQL's of the binder; 42804 for a value of another type; of a generated column 42P17 for
/// an expression that is not immutable.
pub fn bind_row_value(
    written: &ast::Expr,
    ty: SqlType,
    value: RowValue<'_>,
    relation: &Arc<Relation>,
    (catalog, session): (&dyn Catalog, &dyn Session),
) -> PlanResult<BoundRowValue> {
    let expr = |written: &ast::Expr, origin: Origin| -> PlanResult<_> {
        let (mut binder, rel) = row_binder(relation, origin, (catalog, session));
        let expr = binder.bind_over_row(written, relation, rel, value.place())?;
        binder.refuse_parameters()?;
        Ok((expr, binder, rel))
    };
    let (bound, mut binder, rel) = expr(written, Origin::Written)?;
    let columns = match value {
        RowValue::Generated(..) => {
            let columns = columns_of(&bound, relation, "a generated column over")?;
            refuse_generated(&columns, relation)?;
            columns
        }
        RowValue::CopyWhere => columns_of(&bound, relation, "COPY FROM with WHERE over")?,
        RowValue::Transform { .. } => Vec::new(),
    };
    let text = deparse::over(relation, &bound, false);
    let pretty = deparse::over(relation, &bound, true);
    if let RowValue::Generated(..) = value {
        // The text is stored: it must mean what was written.
        let again = parser::parse_expr(&text);
        let again = again.and_then(|written| Ok(expr(&written, Origin::Kept)?.0));
        if !again.is_ok_and(|again| deparse::over(relation, &again, false) == text) {
            let message = "a generated column with this expression is not supported";
            return Err(PlanError::unsupported(message).at(written.at));
        }
    }
    let from = bound.ty;
    let coerced = binder.coerce_to_target(bound, ty, CastContext::Assignment, Pos::NONE)?;
    let expr = coerced.ok_or_else(|| value.mismatch(from, ty))?;
    if let RowValue::Generated(_, kept) = value {
        refuse_changing(&expr)?;
        if kept == Kept::Virtual {
            refuse_created_types(&expr)?;
        }
    }
    let scope = binder.scopes.pop().unwrap_or_default();
    let query = Query {
        range_table: scope.range_table,
        from: vec![FromNode::Entry(rel)],
        targets: vec![Target {
            expr,
            name: Arc::from("value"),
            junk: false,
        }],
        ..Query::default()
    };
    Ok(BoundRowValue {
        bound: Bound {
            params: Vec::new(),
            statement: BoundStatement::Query(Arc::new(query)),
        },
        text,
        pretty,
        columns,
    })
}

/// A generated column's expression written with other names of the columns, in full and with the
/// parentheses that are needed: `written` is over those of the first relation, and the answer over
/// those of the second.
///
/// # Errors
/// The binder's, of an expression that is no longer understood.
pub fn rename_generated(
    written: &ast::Expr,
    (relation, renamed): (&Arc<Relation>, &Relation),
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<(String, String)> {
    let (mut binder, rel) = row_binder(relation, Origin::Kept, (catalog, session));
    let bound = binder.bind_over_row(written, relation, rel, Place::Generated)?;
    let text = deparse::over(renamed, &bound, false);
    Ok((text, deparse::over(renamed, &bound, true)))
}

/// 42P17 for an expression over another generated column.
fn refuse_generated(columns: &[usize], relation: &Relation) -> PlanResult<()> {
    let columns = columns.iter().filter_map(|at| relation.columns.get(*at));
    let Some(column) = columns
        .into_iter()
        .find(|column| column.generated.is_some())
    else {
        return Ok(());
    };
    let message = format!(
        "cannot use generated column \"{}\" in column generation expression",
        column.name
    );
    let error = PlanError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
    Err(error.detail("A generated column cannot reference another generated column."))
}

/// 0A000 for an expression with values of types that were created.
fn refuse_created_types(bound: &Expr) -> PlanResult<()> {
    let mut created = false;
    walk::walk(bound, 0, &mut |node, _| {
        let ty = node.ty.element().unwrap_or(node.ty);
        created |= ty.created().is_some();
        Enter::Yes
    });
    if !created {
        return Ok(());
    }
    let message = "generation expression uses user-defined type";
    let error = PlanError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    Err(error.detail(
        "Virtual generated columns that make use of user-defined types are not yet supported.",
    ))
}

/// 42P17 for an expression whose value may change though its row does not.
fn refuse_changing(bound: &Expr) -> PlanResult<()> {
    let mut changes = false;
    walk::walk(bound, 0, &mut |node, _| {
        let volatility = match &node.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) => Some(call.proc.volatility),
            ExprKind::AnyAll { op, .. } => Some(op.proc.volatility),
            _ => None,
        };
        changes |= volatility.is_some_and(|volatility| volatility != Volatility::Immutable);
        Enter::Yes
    });
    if !changes {
        return Ok(());
    }
    let message = "generation expression is not immutable";
    Err(PlanError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
}

impl Binder<'_> {
    /// The values of the generated columns of the table that is changed, which are stored.
    pub(super) fn bind_generated(
        &mut self,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Vec<(usize, Expr)>> {
        self.generated_values(relation, rel, false)
    }

    /// The values of the columns of an entry that are computed where they are read.
    pub(super) fn bind_virtuals(&mut self, rel: usize) -> PlanResult<()> {
        let (RangeKind::Relation(relation)
        | RangeKind::Version(relation)
        | RangeKind::Excluded(relation)) = &self.scope().range_table[rel].kind
        else {
            return Ok(());
        };
        if relation.columns.iter().any(Column::is_virtual) {
            let relation = Arc::clone(relation);
            let bound = self.generated_values(&relation, rel, true)?;
            self.scope().range_table[rel].virtuals = bound;
        }
        Ok(())
    }

    fn generated_values(
        &mut self,
        relation: &Relation,
        rel: usize,
        is_virtual: bool,
    ) -> PlanResult<Vec<(usize, Expr)>> {
        let mut bound = Vec::new();
        for (at, column) in relation.columns.iter().enumerate() {
            let generated = column.generated.as_ref();
            let Some(of) = generated.filter(|of| of.is_virtual == is_virtual) else {
                continue;
            };
            let written = parser::parse_expr(&of.text)?;
            let value = self.of_kept(relation, |binder| {
                binder.bind_over_row(&written, relation, rel, Place::Generated)
            })?;
            let from = value.ty;
            let context = CastContext::Assignment;
            let to = column.declared();
            let value = self.coerce_to_target(value, to, context, Pos::NONE)?;
            let mismatch = || RowValue::Generated(&column.name, Kept::Virtual).mismatch(from, to);
            bound.push((at, value.ok_or_else(mismatch)?));
        }
        Ok(bound)
    }

    /// The item of a relation's entry under the relation's own names, whatever aliases the query
    /// gives, and with all its columns.
    pub(super) fn kept_item(&mut self, relation: &Relation, rel: usize) -> NsItem {
        let own = RangeEntry {
            columns: relation.kept_names(),
            types: relation.columns.iter().map(Column::declared).collect(),
            alias: Arc::clone(&relation.name),
            kind: RangeKind::MergeAction,
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        let mut item = item_of(rel, &own);
        item.relation = Some(relation.oid);
        item
    }

    /// An expression in which only the columns of an entry of the range table have names.
    pub(super) fn bind_over_row(
        &mut self,
        written: &ast::Expr,
        relation: &Relation,
        rel: usize,
        place: Place,
    ) -> PlanResult<Expr> {
        let item = self.kept_item(relation, rel);
        let scope = self.scope();
        let namespace = std::mem::replace(&mut scope.namespace, vec![item]);
        let place = std::mem::replace(&mut scope.place, place);
        let bound = self.bind_expr(written);
        let scope = self.scope();
        scope.namespace = namespace;
        scope.place = place;
        bound
    }

    /// 42P02 if there are any.
    pub(super) fn refuse_parameters(&self) -> PlanResult<()> {
        if self.params.is_empty() {
            return Ok(());
        }
        let message = "there is no parameter $1";
        Err(PlanError::new(SqlState::UNDEFINED_PARAMETER, message))
    }
}
