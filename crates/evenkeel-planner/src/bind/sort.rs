//! ORDER BY, DISTINCT and the items of GROUP BY, as places in the select list; LIMIT.

use evenkeel_types::{SqlState, SqlType};

use super::scope::Place;
use super::targets::junk;
use super::walk::{self, Enter};
use super::{Binder, equal, operators, place, types};
use crate::ast::{self, ExprKind as K, FieldPart, Literal, Pos, SortDirection};
use crate::bound::{Distinct, Expr, ExprKind, SortKey, Target};
use crate::error::{PlanError, PlanResult};

fn error(state: SqlState, message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(state, message).at(at)
}

/// Refuses a value that `=` cannot compare.
pub(super) fn check_groupable(expr: &Expr) -> PlanResult<()> {
    if can_compare("=", expr.ty) {
        return Ok(());
    }
    let message = format!(
        "could not identify an equality operator for type {}",
        types::name(expr.ty)
    );
    Err(error(
        SqlState::UNDEFINED_FUNCTION,
        message,
        place::of(expr),
    ))
}

pub(super) fn can_compare(symbol: &str, ty: SqlType) -> bool {
    match ty {
        SqlType::Void => false,
        SqlType::Record => true,
        SqlType::Array(element, _) => can_compare(symbol, *element),
        other => operators::for_type(symbol, other).is_some(),
    }
}

/// The constant that an item of a list is, a minus before it included.
fn constant(expr: &ast::Expr) -> Option<Result<i64, Pos>> {
    match &expr.kind {
        K::Literal(Literal::Integer(value)) => Some(Ok(i64::from(*value))),
        K::Literal(_) => Some(Err(expr.at)),
        K::Op {
            op,
            left: None,
            right,
        } if op.symbol == "-" && op.schema.is_none() => match &right.kind {
            K::Literal(Literal::Integer(value)) => Some(Ok(-i64::from(*value))),
            K::Literal(Literal::Number(_)) => Some(Err(expr.at)),
            _ => None,
        },
        _ => None,
    }
}

fn plain_name(expr: &ast::Expr) -> Option<&str> {
    match &expr.kind {
        K::Column(parts) => match parts.as_slice() {
            [FieldPart::Name(name)] => Some(&name.text),
            _ => None,
        },
        _ => None,
    }
}

fn contains(expr: &Expr, wanted: fn(&ExprKind) -> bool) -> Option<Pos> {
    let mut found = None;
    walk::walk(expr, 0, &mut |node, level| {
        if level == 0 && found.is_none() && wanted(&node.kind) {
            found = Some(node.at);
        }
        if level == 0 && found.is_none() {
            Enter::Yes
        } else {
            Enter::No
        }
    });
    found
}

impl Binder<'_> {
    /// The place in the select list of an item of ORDER BY, GROUP BY or DISTINCT ON; it is added at
    /// the end if it is not there.
    pub(super) fn find_target(
        &mut self,
        item: &ast::Expr,
        targets: &mut Vec<Target>,
        place: Place,
    ) -> PlanResult<usize> {
        if let Some(name) = plain_name(item)
            && !(place == Place::GroupBy && self.has_own_column(name, item.at)?)
            && let Some(found) = target_named(name, targets, place, item.at)?
        {
            check_target(&targets[found], place)?;
            return Ok(found);
        }
        if let Some(constant) = constant(item) {
            let position = constant.map_err(|at| {
                let message = format!("non-integer constant in {}", place.name());
                error(SqlState::SYNTAX_ERROR, message, at)
            })?;
            let shown = targets.iter().filter(|target| !target.junk).count();
            return match usize::try_from(position) {
                Ok(number @ 1..) if number <= shown => {
                    check_target(&targets[number - 1], place)?;
                    Ok(number - 1)
                }
                _ => {
                    let message =
                        format!("{} position {position} is not in select list", place.name());
                    Err(error(SqlState::INVALID_COLUMN_REFERENCE, message, item.at))
                }
            };
        }
        let bound = self.bind_in(place, item)?;
        Ok(place_of(bound, targets))
    }

    /// Whether a name is a column of the query's own FROM.
    fn has_own_column(&mut self, name: &str, at: Pos) -> PlanResult<bool> {
        let scope = self.scope();
        let mut hits = 0;
        for item in scope.namespace.iter().filter(|item| item.columns_visible) {
            let columns = item.columns.iter();
            let named = columns.filter(|c| !c.hidden && *c.name == *name).count();
            hits += match named {
                0 => usize::from(super::columns::system_column(scope, name, item.rel).is_some()),
                named => named,
            };
        }
        if hits > 1 {
            return Err(super::columns::ambiguous_column(name, at));
        }
        Ok(hits == 1)
    }

    /// ORDER BY of a query.
    pub(super) fn bind_order_by(
        &mut self,
        list: &[ast::SortBy],
        targets: &mut Vec<Target>,
    ) -> PlanResult<Vec<SortKey<usize>>> {
        let mut keys: Vec<SortKey<usize>> = Vec::with_capacity(list.len());
        for item in list {
            let index = self.find_target(&item.value, targets, Place::OrderBy)?;
            let expr = self.resolve_target(targets, index)?;
            let key = self.sort_key(item, expr)?;
            if keys.iter().all(|other| other.key != index) {
                keys.push(SortKey {
                    key: index,
                    desc: key.desc,
                    nulls_first: key.nulls_first,
                });
            }
        }
        Ok(keys)
    }

    /// Gives a target of unknown type the type text; returns a copy of it.
    pub(super) fn resolve_target(
        &mut self,
        targets: &mut [Target],
        index: usize,
    ) -> PlanResult<Expr> {
        if targets[index].expr.ty == SqlType::Unknown {
            let expr = targets[index].expr.clone();
            targets[index].expr = self.resolve_unknown(expr)?;
        }
        Ok(targets[index].expr.clone())
    }

    /// ORDER BY where names of the select list mean nothing: in aggregates and windows.
    pub(super) fn sort_keys(
        &mut self,
        list: &[ast::SortBy],
        args: &[Expr],
        place: Place,
    ) -> PlanResult<Vec<SortKey<Expr>>> {
        let mut keys: Vec<SortKey<Expr>> = Vec::with_capacity(list.len());
        for item in list {
            let expr = self.bind_in(place, &item.value)?;
            // The argument after its coercion is what is ordered.
            let expr = match argument(&expr, args) {
                Some(arg) => arg.clone(),
                None => self.resolve_unknown(expr)?,
            };
            let key = self.sort_key(item, expr)?;
            if !keys.iter().any(|other| equal::exprs(&other.key, &key.key)) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Refuses an ORDER BY of an aggregate with DISTINCT that is none of its arguments. A literal
    /// that has no type yet is no argument, which has one.
    pub(super) fn check_distinct_order(
        &mut self,
        list: &[ast::SortBy],
        args: &[Expr],
    ) -> PlanResult<()> {
        for item in list {
            let expr = self.bind_in(Place::OrderBy, &item.value)?;
            if argument(&expr, args).is_none() {
                let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in \
                               argument list";
                let at = place::of(&expr);
                return Err(error(SqlState::INVALID_COLUMN_REFERENCE, message, at));
            }
        }
        Ok(())
    }

    /// The direction of an item of ORDER BY.
    pub(super) fn sort_key(&mut self, item: &ast::SortBy, key: Expr) -> PlanResult<SortKey<Expr>> {
        let at = place::of(&key);
        let desc = match &item.direction {
            SortDirection::Default | SortDirection::Asc => false,
            SortDirection::Desc => true,
            SortDirection::Using(op, at) => {
                let chosen = operators::find(op, Some(key.ty), key.ty, *at)?;
                match chosen.def.name {
                    "<" => false,
                    ">" => true,
                    symbol => {
                        let message = format!("operator {symbol} is not a valid ordering operator");
                        let hint = "Ordering operators must be \"<\" or \">\" members of btree \
                                    operator families.";
                        let error = error(SqlState::WRONG_OBJECT_TYPE, message, *at);
                        return Err(error.hint(hint));
                    }
                }
            }
        };
        if !can_compare("<", key.ty) {
            let message = format!(
                "could not identify an ordering operator for type {}",
                types::name(key.ty)
            );
            let hint = "Use an explicit ordering operator or modify the query.";
            return Err(error(SqlState::UNDEFINED_FUNCTION, message, at).hint(hint));
        }
        Ok(SortKey {
            key,
            desc,
            nulls_first: item.nulls_first.unwrap_or(desc),
        })
    }

    /// DISTINCT, after ORDER BY.
    pub(super) fn bind_distinct(
        &mut self,
        distinct: &ast::Distinct,
        targets: &mut Vec<Target>,
        order_by: &[SortKey<usize>],
    ) -> PlanResult<Distinct> {
        match distinct {
            ast::Distinct::All => Ok(Distinct::All),
            ast::Distinct::Rows => {
                if let Some(key) = order_by.iter().find(|key| targets[key.key].junk) {
                    let message = "for SELECT DISTINCT, ORDER BY expressions must appear in \
                                   select list";
                    let at = place::of(&targets[key.key].expr);
                    return Err(error(SqlState::INVALID_COLUMN_REFERENCE, message, at));
                }
                for index in 0..targets.len() {
                    if !targets[index].junk {
                        check_groupable(&self.resolve_target(targets, index)?)?;
                    }
                }
                Ok(Distinct::Rows)
            }
            ast::Distinct::On(list) => self.bind_distinct_on(list, targets, order_by),
        }
    }

    fn bind_distinct_on(
        &mut self,
        list: &[ast::Expr],
        targets: &mut Vec<Target>,
        order_by: &[SortKey<usize>],
    ) -> PlanResult<Distinct> {
        let mut on: Vec<usize> = Vec::with_capacity(list.len());
        for item in list {
            let index = self.find_target(item, targets, Place::DistinctOn)?;
            check_groupable(&self.resolve_target(targets, index)?)?;
            if !on.contains(&index) {
                on.push(index);
            }
        }
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        let leading = order_by.iter().take_while(|key| on.contains(&key.key));
        let leading: Vec<usize> = leading.map(|key| key.key).collect();
        let skipped = leading.len() < order_by.len();
        let late = order_by[leading.len()..]
            .iter()
            .map(|key| key.key)
            .find(|key| on.contains(key));
        let missing = on.iter().copied().find(|index| !leading.contains(index));
        if let Some(index) = late.or(missing.filter(|_| skipped)) {
            let at = place::of(&targets[index].expr);
            return Err(error(SqlState::INVALID_COLUMN_REFERENCE, message, at));
        }
        let rest = on.iter().filter(|index| !leading.contains(index));
        let ordered: Vec<usize> = leading.iter().chain(rest).copied().collect();
        Ok(Distinct::On(ordered))
    }

    /// LIMIT or OFFSET.
    pub(super) fn bind_limit(
        &mut self,
        expr: Option<&ast::Expr>,
        place: Place,
    ) -> PlanResult<Option<Expr>> {
        let Some(expr) = expr else {
            return Ok(None);
        };
        let bound = self.bind_in(place, expr)?;
        let bound = self.coerce_to_specific(bound, SqlType::Int8, place.name())?;
        no_variables(&bound, place.name())?;
        Ok(Some(bound))
    }
}

/// Refuses variables of the query itself.
pub(super) fn no_variables(expr: &Expr, clause: &str) -> PlanResult<()> {
    let mut found = None;
    walk::walk(expr, 0, &mut |node, level| {
        if let ExprKind::Var(var) = &node.kind
            && var.depth == level
            && found.is_none()
        {
            found = Some(node.at);
        }
        if found.is_none() {
            Enter::Yes
        } else {
            Enter::No
        }
    });
    match found {
        Some(at) => {
            let message = format!("argument of {clause} must not contain variables");
            Err(error(SqlState::INVALID_COLUMN_REFERENCE, message, at))
        }
        None => Ok(()),
    }
}

/// The argument of an aggregate that an expression is, as it was written.
fn argument<'a>(expr: &Expr, args: &'a [Expr]) -> Option<&'a Expr> {
    args.iter().find(|arg| equal::exprs(strip(arg), expr))
}

/// The expression below casts that nobody wrote.
fn strip(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Relabel(arg)
        | ExprKind::Cast {
            arg,
            explicit: false,
        } if expr.at == Pos::NONE => arg,
        _ => expr,
    }
}

/// The place of an expression in the list; it is added if it is not there.
fn place_of(bound: Expr, targets: &mut Vec<Target>) -> usize {
    let same = |target: &Target| equal::exprs(strip(&target.expr), &bound);
    match targets.iter().position(same) {
        Some(found) => found,
        None => {
            targets.push(junk(bound));
            targets.len() - 1
        }
    }
}

fn target_named(
    name: &str,
    targets: &[Target],
    place: Place,
    at: Pos,
) -> PlanResult<Option<usize>> {
    let mut found: Option<usize> = None;
    for (index, target) in targets.iter().enumerate() {
        if target.junk || *target.name != *name {
            continue;
        }
        match found {
            Some(first) if !equal::exprs(&targets[first].expr, &target.expr) => {
                let message = format!("{} \"{name}\" is ambiguous", place.name());
                return Err(error(SqlState::AMBIGUOUS_COLUMN, message, at));
            }
            Some(_) => {}
            None => found = Some(index),
        }
    }
    Ok(found)
}

/// A column of the select list that GROUP BY means may have no aggregates.
fn check_target(target: &Target, place: Place) -> PlanResult<()> {
    if place != Place::GroupBy {
        return Ok(());
    }
    let is_aggregate = |kind: &ExprKind| {
        matches!(kind, ExprKind::Aggregate(a) if a.depth == 0)
            || matches!(kind, ExprKind::Grouping(_))
    };
    if let Some(at) = contains(&target.expr, is_aggregate) {
        let message = "aggregate functions are not allowed in GROUP BY";
        return Err(error(SqlState::GROUPING_ERROR, message, at));
    }
    let is_window = |kind: &ExprKind| matches!(kind, ExprKind::Window(_));
    if let Some(at) = contains(&target.expr, is_window) {
        let message = "window functions are not allowed in GROUP BY";
        return Err(error(SqlState::WINDOWING_ERROR, message, at));
    }
    Ok(())
}
