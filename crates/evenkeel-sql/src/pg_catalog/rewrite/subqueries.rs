//! Subqueries in expressions. DataFusion takes apart those of predicates, and scalar ones that
//! aggregate under equalities; PostgreSQL's clients write others, which become joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, OrderByKind, Query, Select,
    SelectItem, TableFactor, TableWithJoins, Value,
};

use super::ast;
use super::scope::{self, Scope};
use super::visit::{Hooks, HooksMut, walk, walk_mut};
use crate::planner::utility::ident_text;

/// The aggregates that catalog queries use.
const AGGREGATES: [&str; 11] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "every",
    "json_agg",
];

/// Numbers the joins, for names that nothing else has.
#[derive(Debug, Default)]
pub struct Counter(usize);

impl Counter {
    fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

/// Whether a join keeps every row of its left side once, if its right side has one row.
pub fn is_unconditional(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => match constraint {
            JoinConstraint::None => true,
            JoinConstraint::On(Expr::Value(value)) => value.value == Value::Boolean(true),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a SELECT's list has an aggregate, outside of subqueries.
pub fn has_aggregate(select: &Select) -> bool {
    let exprs = select.projection.iter().filter_map(ast::item_expr);
    exprs
        .chain(&select.having)
        .any(|expr| walk(expr, &mut Aggregates(0)))
}

struct Aggregates(usize);

impl Hooks for Aggregates {
    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (0, Expr::Function(Function { name, .. })) = (self.0, expr)
            && ast::system_name(name).is_some_and(|name| AGGREGATES.contains(&name.as_str()))
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Simpler forms of the subqueries in a SELECT list: before the subqueries themselves are
/// looked at.
pub fn simplify(select: &mut Select) {
    for expr in select.projection.iter_mut().filter_map(ast::item_expr_mut) {
        walk_mut(expr, &mut Simplify(0));
    }
    if let Some(selection) = &mut select.selection {
        walk_mut(selection, &mut SimplifyFilter(0));
    }
}

struct Simplify(usize);

impl HooksMut for Simplify {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.0 == 0 {
            simplify_array(expr);
            simplify_scalar(expr);
            simplify_exists(expr);
        }
        ControlFlow::Continue(())
    }
}

/// In a predicate EXISTS is DataFusion's.
struct SimplifyFilter(usize);

impl HooksMut for SimplifyFilter {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.0 == 0 {
            simplify_array(expr);
            simplify_scalar(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a subquery never has a row.
fn never_has_rows(query: &Query) -> bool {
    ast::plain_select(query).is_some_and(|select| {
        scope::is_empty(select) && (ast::is_grouped(select) || !has_aggregate(select))
    })
}

fn simplify_scalar(expr: &mut Expr) {
    if let Expr::Subquery(query) = expr
        && never_has_rows(query)
    {
        *expr = ast::null();
    }
}

/// EXISTS outside of a predicate is a count.
fn simplify_exists(expr: &mut Expr) {
    let Expr::Exists { subquery, negated } = expr else {
        return;
    };
    let negated = *negated;
    if never_has_rows(subquery) {
        *expr = ast::boolean(negated);
        return;
    }
    let Some(select) = ast::plain_select_mut(subquery) else {
        return;
    };
    if ast::is_grouped(select) || select.distinct.is_some() {
        return;
    }
    let one = ast::call("count", vec![ast::number(1)]);
    select.projection = vec![SelectItem::UnnamedExpr(one)];
    subquery.order_by = None;
    let count = Expr::Subquery(subquery.clone());
    let op = if negated {
        BinaryOperator::Eq
    } else {
        BinaryOperator::Gt
    };
    let comparison = Expr::BinaryOp {
        left: Box::new(count),
        op,
        right: Box::new(ast::number(0)),
    };
    *expr = Expr::Nested(Box::new(comparison));
}

/// `ARRAY(SELECT …)` is an aggregate.
fn simplify_array(expr: &mut Expr) {
    let Some(query) = ast::array_subquery(expr) else {
        return;
    };
    if never_has_rows(query) {
        *expr = ast::string("{}");
        return;
    }
    if let Some(unnested) = unnested(query) {
        *expr = unnested;
        return;
    }
    if let Some(aggregate) = aggregated(query) {
        *expr = ast::call("ek_array", vec![Expr::Subquery(Box::new(aggregate))]);
    }
}

/// `ARRAY(SELECT prefix || x FROM unnest(array) x)`, with or without a prefix.
fn unnested(query: &Query) -> Option<Expr> {
    let select = ast::plain_select(query)?;
    let ([from], [item]) = (select.from.as_slice(), select.projection.as_slice()) else {
        return None;
    };
    if !from.joins.is_empty() || select.selection.is_some() {
        return None;
    }
    let (array, alias) = match &from.relation {
        TableFactor::Table {
            name,
            args: Some(args),
            alias: Some(alias),
            ..
        } if ast::system_name(name)? == "unnest" => {
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] = args.args.as_slice() else {
                return None;
            };
            (array, alias)
        }
        TableFactor::UNNEST {
            array_exprs,
            alias: Some(alias),
            ..
        } => {
            let [array] = array_exprs.as_slice() else {
                return None;
            };
            (array, alias)
        }
        _ => return None,
    };
    let column = alias
        .columns
        .first()
        .map_or(&alias.name, |column| &column.name);
    let is_column =
        |expr: &Expr| matches!(expr, Expr::Identifier(i) if ident_text(i) == ident_text(column));
    match ast::item_expr(item)? {
        expr if is_column(expr) => Some(ast::call("ek_array", vec![array.clone()])),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::StringConcat,
            right,
        } if is_column(right) => {
            let args = vec![(**left).clone(), array.clone()];
            Some(ast::call("ek_array_prefixed", args))
        }
        _ => None,
    }
}

/// `SELECT array_agg(x ORDER BY …) FROM …` for `SELECT x FROM … ORDER BY …`.
fn aggregated(query: &Query) -> Option<Query> {
    let mut query = query.clone();
    let order_by = query.order_by.take();
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return None;
    }
    let select = ast::plain_select_mut(&mut query)?;
    if ast::is_grouped(select) || select.distinct.is_some() || has_aggregate(select) {
        return None;
    }
    let [item] = select.projection.as_mut_slice() else {
        return None;
    };
    let item_value = ast::item_expr(item)?.clone();
    let mut aggregate = ast::call("array_agg", vec![item_value.clone()]);
    if let Some(order_by) = order_by
        && let OrderByKind::Expressions(mut keys) = order_by.kind
        && let Expr::Function(Function {
            args: FunctionArguments::List(list),
            ..
        }) = &mut aggregate
    {
        for key in &mut keys {
            if matches!(&key.expr, Expr::Value(v) if v.value == Value::Number("1".into(), false)) {
                key.expr = item_value.clone();
            }
        }
        list.clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    *item = SelectItem::UnnamedExpr(aggregate);
    Some(query)
}

/// Correlated scalar subqueries on catalogs become left joins: at most one row fits, or the
/// subquery would be an error.
pub fn to_joins(select: &mut Select, counter: &mut Counter) {
    let wildcard = |item: &SelectItem| ast::item_expr(item).is_none();
    if ast::is_grouped(select)
        || has_aggregate(select)
        || select.from.is_empty()
        || select.projection.iter().any(wildcard)
    {
        return;
    }
    let mut joins = ToJoins {
        depth: 0,
        counter,
        joins: Vec::new(),
    };
    for expr in select.projection.iter_mut().filter_map(ast::item_expr_mut) {
        walk_mut(expr, &mut joins);
    }
    if let Some(selection) = &mut select.selection {
        walk_mut(selection, &mut joins);
    }
    let joins = joins.joins;
    if joins.is_empty() {
        return;
    }
    // The names that the joins bring must not make others ambiguous.
    let scope = Scope::of(select);
    let from = joined(std::mem::take(&mut select.from));
    if let Some(mut from) = from {
        from.joins.extend(joins);
        select.from = vec![from];
    }
    let mut qualify = Qualify {
        depth: 0,
        scope: &scope,
        renamed: None,
    };
    walk_mut(select, &mut qualify);
}

/// A FROM list as one chain of joins.
fn joined(items: Vec<TableWithJoins>) -> Option<TableWithJoins> {
    let mut items = items.into_iter();
    let mut first = items.next()?;
    for item in items {
        first.joins.push(Join {
            relation: parenthesised(item),
            global: false,
            join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
        });
    }
    Some(first)
}

fn parenthesised(item: TableWithJoins) -> TableFactor {
    if item.joins.is_empty() {
        return item.relation;
    }
    TableFactor::NestedJoin {
        table_with_joins: Box::new(item),
        alias: None,
    }
}

struct ToJoins<'a> {
    depth: usize,
    counter: &'a mut Counter,
    joins: Vec<Join>,
}

impl HooksMut for ToJoins<'_> {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if let Expr::Subquery(query) = expr
            && let Some((join, value)) = to_join(query, self.counter)
        {
            self.joins.push(join);
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

/// The join that a correlated scalar subquery is, and its value after the join.
fn to_join(query: &Query, counter: &mut Counter) -> Option<(Join, Expr)> {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return None;
    }
    let mut select = ast::plain_select(query)?.clone();
    let scope = Scope::of(&select);
    if ast::is_grouped(&select)
        || has_aggregate(&select)
        || scope.others
        || select.distinct.is_some()
        || !is_correlated(&select, &scope)
    {
        return None;
    }
    let first = scope.sources.first()?;
    let never_null = first.def.columns.iter().find(|column| column.not_null);
    let is_column = |item| matches!(item, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let value = ast::item_expr(select.projection.first()?)?.clone();
    if never_null.is_none() && !is_column(value) {
        return None;
    }
    let prefix = format!("ek{}_", counter.next());
    let present =
        never_null.map(|column| ast::column(&format!("{prefix}{}", first.name), column.name));
    let mut qualify = Qualify {
        depth: 0,
        scope: &scope,
        renamed: Some(&prefix),
    };
    walk_mut(&mut select, &mut qualify);
    let [item] = select.projection.as_slice() else {
        return None;
    };
    let value = ast::item_expr(item)?.clone();
    for item in &mut select.from {
        rename(item, &prefix);
    }
    let condition = select
        .selection
        .take()
        .unwrap_or_else(|| ast::boolean(true));
    let join = Join {
        relation: parenthesised(joined(select.from)?),
        global: false,
        join_operator: JoinOperator::Left(JoinConstraint::On(condition)),
    };
    Some((join, if_present(present, value)))
}

/// The value where the join found a row, else NULL. A column is NULL there by itself.
fn if_present(present: Option<Expr>, value: Expr) -> Expr {
    let Some(present) = present.filter(|_| !matches!(value, Expr::CompoundIdentifier(_))) else {
        return value;
    };
    let condition = Expr::IsNotNull(Box::new(present));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition,
            result: value,
        }],
        else_result: None,
    }
}

/// Gives the catalogs of a FROM item their new names.
fn rename(item: &mut TableWithJoins, prefix: &str) {
    let factors = std::iter::once(&mut item.relation)
        .chain(item.joins.iter_mut().map(|join| &mut join.relation));
    for factor in factors {
        if let Some(source) = scope::source(factor)
            && let TableFactor::Table { alias, .. } = factor
        {
            *alias = Some(ast::alias(&format!("{prefix}{}", source.name)));
        } else if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            rename(table_with_joins, prefix);
        }
    }
}

/// Whether a subquery names columns that are not its own.
fn is_correlated(select: &Select, scope: &Scope) -> bool {
    walk(select, &mut Foreign(scope))
}

struct Foreign<'a>(&'a Scope);

impl Hooks for Foreign<'_> {
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let foreign = match expr {
            Expr::Identifier(ident) => !self.0.has(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => !self.0.has(parts),
            _ => false,
        };
        if foreign {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Puts its catalog before every column name, renamed or not.
struct Qualify<'a> {
    depth: usize,
    scope: &'a Scope,
    renamed: Option<&'a str>,
}

impl Qualify<'_> {
    fn qualified(&self, parts: &[Ident]) -> Option<Expr> {
        let (source, column) = match parts {
            [column] => (self.scope.with_column(&ident_text(column))?, column),
            [table, column] => (self.scope.named(&ident_text(table))?, column),
            _ => return None,
        };
        let table = format!("{}{}", self.renamed.unwrap_or(""), source.name);
        Some(ast::column(&table, &ident_text(column)))
    }
}

impl HooksMut for Qualify<'_> {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // In a nested subquery only full names are certain to mean these catalogs.
        let qualified = match expr {
            Expr::Identifier(ident) if self.depth == 0 => {
                self.qualified(std::slice::from_ref(ident))
            }
            Expr::CompoundIdentifier(parts) => self.qualified(parts),
            _ => None,
        };
        if let Some(qualified) = qualified {
            *expr = qualified;
        }
        ControlFlow::Continue(())
    }
}
