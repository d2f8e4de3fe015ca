//! Expressions and predicates of indexes, bound over the columns of their table.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::Volatility;
use evenkeel_expr::program::Program;
use evenkeel_types::{SqlState, SqlType};

use super::Binder;
use super::check::{Origin, columns_of, row_binder};
use super::scope::Place;
use super::targets::given_name;
use super::walk::{self, Enter};
use crate::ast;
use crate::bound::{Expr, ExprKind, IndexExprs, RangeKind};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::parser;
use crate::planning::{deparse, program_over};
use crate::relation::{Index, Relation};

/// An expression or the predicate of an index as it is stored, shown and computed.
#[derive(Debug, Clone)]
pub struct BoundIndexExpr {
    /// PostgreSQL's words for it, with every cast. They mean the same whatever the session's
    /// settings.
    pub text: String,
    /// The same with the parentheses that are needed, as psql shows it.
    pub pretty: String,
    /// Its type.
    pub ty: SqlType,
    /// Whether it is written as a call of a function, so that it needs no parentheses.
    pub call: bool,
    /// The column that it is, if it is no more than that.
    pub column: Option<usize>,
    /// The columns that it mentions, from 0.
    pub columns: Vec<usize>,
    /// Part of the name of an index that was given none.
    pub name: String,
    /// Its program over a row with all columns of the table.
    pub program: Program,
}

/// Binds an element of CREATE INDEX.
///
/// # Errors
/// PostgreSQL's of the binder; 42P17 for a function that is not immutable.
pub fn bind_index_expression(
    written: &ast::Expr,
    relation: &Arc<Relation>,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<BoundIndexExpr> {
    bind_stored(
        written,
        Place::IndexExpression,
        relation,
        (catalog, session),
    )
}

/// Binds WHERE of CREATE INDEX.
///
/// # Errors
/// As [`bind_index_expression`]; 42804 for a condition that is not Boolean.
pub fn bind_index_predicate(
    written: &ast::Expr,
    relation: &Arc<Relation>,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<BoundIndexExpr> {
    bind_stored(written, Place::IndexPredicate, relation, (catalog, session))
}

/// An expression of an index, or its predicate, written with other names of the columns: `text` is
/// over those of `relation`, and the answer over those of `renamed`.
///
/// # Errors
/// The binder's, of an expression that is no longer understood.
pub fn rename_index_expr(
    (text, predicate): (&str, bool),
    relation: &Arc<Relation>,
    renamed: &Relation,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<String> {
    let place = match predicate {
        true => Place::IndexPredicate,
        false => Place::IndexExpression,
    };
    let written = parser::parse_expr(text)?;
    let bound = bind_over(
        &written,
        (place, Origin::Kept),
        relation,
        (catalog, session),
    )?;
    Ok(deparse::over(renamed, &bound, false))
}

fn bind_over(
    written: &ast::Expr,
    (place, origin): (Place, Origin),
    relation: &Arc<Relation>,
    (catalog, session): (&dyn Catalog, &dyn Session),
) -> PlanResult<Expr> {
    let (mut binder, rel) = row_binder(relation, origin, (catalog, session));
    let bound = binder.bind_of_index(written, place, relation, rel)?;
    binder.refuse_parameters()?;
    Ok(bound)
}

fn bind_stored(
    written: &ast::Expr,
    place: Place,
    relation: &Arc<Relation>,
    (catalog, session): (&dyn Catalog, &dyn Session),
) -> PlanResult<BoundIndexExpr> {
    let (words, marked) = match place {
        Place::IndexPredicate => ("an index predicate", "predicate"),
        _ => ("an index expression", "expression"),
    };
    let bind = |written: &ast::Expr, origin: Origin| {
        bind_over(written, (place, origin), relation, (catalog, session))
    };
    let bound = bind(written, Origin::Written)?;
    if changes(&bound) {
        let message = format!("functions in index {marked} must be marked IMMUTABLE");
        return Err(PlanError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    }
    let columns = columns_of(&bound, relation, &format!("{words} on"))?;
    let text = deparse::over(relation, &bound, false);
    // The text is stored: it must mean what was written.
    let again = parser::parse_expr(&text).and_then(|written| bind(&written, Origin::Kept));
    if !again.is_ok_and(|again| deparse::over(relation, &again, false) == text) {
        let message = format!("{words} of this form is not supported");
        return Err(PlanError::unsupported(message).at(written.at));
    }
    Ok(BoundIndexExpr {
        pretty: deparse::over(relation, &bound, true),
        program: program_over(relation, &bound, session)?,
        ty: bound.ty.storage(),
        call: is_call(&bound),
        column: match bound.kind {
            ExprKind::Var(var) => Some(var.column),
            _ => None,
        },
        name: given_name(written).unwrap_or_else(|| "expr".to_owned()),
        columns,
        text,
    })
}

/// PostgreSQL's `looks_like_function`.
fn is_call(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Call(call) => call.operator.is_none(),
        ExprKind::Coalesce(_) | ExprKind::Extreme { .. } | ExprKind::NullIf { .. } => true,
        _ => false,
    }
}

/// Whether a part may give other values for the same arguments.
fn changes(expr: &Expr) -> bool {
    let mut found = false;
    walk::walk(expr, 0, &mut |node, _| {
        let volatility = match &node.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) => call.proc.volatility,
            ExprKind::AnyAll { op, .. } => op.proc.volatility,
            ExprKind::Cast { arg, .. } if !is_steady_cast(arg.ty, node.ty) => Volatility::Stable,
            _ => Volatility::Immutable,
        };
        found |= volatility != Volatility::Immutable;
        Enter::Yes
    });
    found
}

/// Whether a cast gives the same under all settings: texts of dates and times do not, nor does
/// anything between an instant and a local time.
fn is_steady_cast(from: SqlType, to: SqlType) -> bool {
    let zoned = |ty: SqlType| matches!(ty, SqlType::Timestamptz(_) | SqlType::Timetz(_));
    let temporal = |ty: SqlType| {
        zoned(ty)
            || matches!(
                ty,
                SqlType::Date | SqlType::Timestamp(_) | SqlType::Time(_) | SqlType::Interval(_)
            )
    };
    if from.oid() == to.oid() {
        return true;
    }
    // A label may get another text.
    if from.enumerated().is_some() || to.enumerated().is_some() {
        return false;
    }
    match (temporal(from), temporal(to)) {
        (true, true) => !zoned(from) && !zoned(to),
        (true, false) | (false, true) => false,
        (false, false) => true,
    }
}

impl Binder<'_> {
    /// An expression or a predicate of an index, in which only the columns of an entry of the range
    /// table have names.
    fn bind_of_index(
        &mut self,
        written: &ast::Expr,
        place: Place,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Expr> {
        let item = self.kept_item(relation, rel);
        let scope = self.scope();
        let namespace = std::mem::replace(&mut scope.namespace, vec![item]);
        let bound = self.bind_in(place, written);
        let bound = match place {
            Place::IndexPredicate => bound.and_then(|bound| self.coerce_to_boolean(bound, "WHERE")),
            _ => bound,
        };
        self.scope().namespace = namespace;
        bound
    }

    /// The expressions and predicates of a table's indexes, for the planner.
    pub(super) fn bind_indexes(&mut self, rel: usize) -> PlanResult<()> {
        let RangeKind::Relation(relation) = &self.scope().range_table[rel].kind else {
            return Ok(());
        };
        let relation = Arc::clone(relation);
        let mut bound = Vec::new();
        for (number, index) in relation.indexes.iter().enumerate() {
            if !index.is_plain() {
                bound.push(self.bind_index(&relation, rel, (number, index))?);
            }
        }
        self.scope().range_table[rel].indexes = bound;
        Ok(())
    }

    fn bind_index(
        &mut self,
        relation: &Relation,
        rel: usize,
        (number, index): (usize, &Index),
    ) -> PlanResult<IndexExprs> {
        let mut kept = |text: &str, place| {
            let written = parser::parse_expr(text)?;
            self.of_kept(relation, |binder| {
                binder.bind_of_index(&written, place, relation, rel)
            })
        };
        let mut expressions = Vec::with_capacity(index.expressions.len());
        for expression in &index.expressions {
            expressions.push(kept(&expression.text, Place::IndexExpression)?);
        }
        let predicate = index.predicate.as_ref();
        let predicate = predicate.map(|text| kept(text, Place::IndexPredicate));
        let predicate = predicate.transpose()?;
        Ok(IndexExprs {
            index: number,
            expressions,
            predicate,
        })
    }
}
