//! From FROM and WHERE to a tree of joins: subqueries that are nothing but joins become part of the
//! query around them, EXISTS and IN become joins, outer joins whose NULL rows a condition refuses
//! become inner ones.

use std::collections::HashSet;
use std::sync::Arc;

use evenkeel_expr::proc::ProcKind;

use crate::ast::JoinKind;
use crate::bound::{Distinct, Expr, ExprKind, FromNode, Query, Sublink, SublinkKind, WHOLE_ROW};
use crate::error::PlanResult;
use crate::relation::SystemColumn;

use super::number::NUMBERED;
use super::rels::Rels;
use super::statement::{Source, Statement, rels_of};
use super::volatility::{is_correlated, is_volatile, query_is_volatile};
use super::walk;

/// A tree of joins.
#[derive(Debug)]
pub(super) enum Tree {
    /// A relation.
    Leaf(usize),
    /// Inner joins of all children under all conditions, then special joins with it.
    Inner {
        children: Vec<Tree>,
        quals: Vec<Expr>,
        special: Vec<Special>,
    },
    /// A join that is none of many.
    Outer {
        kind: OuterKind,
        left: Box<Tree>,
        right: Box<Tree>,
        on: Vec<Expr>,
    },
}

/// Outer joins, after right ones have changed sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OuterKind {
    /// Rows of the left side stay.
    Left,
    /// Rows of both sides stay.
    Full,
}

/// EXISTS or IN as a join.
#[derive(Debug)]
pub(super) struct Special {
    /// Rows without a partner are wanted.
    pub(super) anti: bool,
    /// The subquery's relations.
    pub(super) right: Tree,
    /// Its join conditions.
    pub(super) on: Vec<Expr>,
}

/// Conjuncts of a condition.
pub(super) fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr.kind {
        ExprKind::And(items) => items.into_iter().for_each(|item| conjuncts(item, out)),
        _ => out.push(expr),
    }
}

/// Alternatives of a condition, and conjuncts of each, up to which they are looked through.
pub(super) const ALTERNATIVES_MOST: usize = 64;

/// The conjuncts of an expression without those within them.
pub(super) fn conjuncts_of(expr: &Expr) -> &[Expr] {
    match &expr.kind {
        ExprKind::And(parts) => parts,
        _ => std::slice::from_ref(expr),
    }
}

/// The conjunction of one or more parts, in the place of `expr`.
pub(super) fn conjunction(expr: &Expr, mut parts: Vec<Expr>) -> Expr {
    if parts.len() == 1
        && let Some(one) = parts.pop()
    {
        return one;
    }
    Expr {
        kind: ExprKind::And(parts),
        ty: expr.ty,
        at: expr.at,
    }
}

/// Whether an expression has a set-returning function.
pub(super) fn has_set(expr: &Expr) -> bool {
    walk::any(expr, &mut |part| matches!(part.kind, ExprKind::SetCall(_)))
}

pub(super) fn has_sublink(expr: &Expr) -> bool {
    walk::any(expr, &mut |part| matches!(part.kind, ExprKind::Sublink(_)))
}

/// Whether a query is nothing but joins and conditions.
fn is_plain(query: &Query) -> bool {
    query.set_operation.is_none()
        && query.ctes.is_empty()
        && !query.grouped
        && query.group_by.is_empty()
        && query.having.is_none()
        && query.windows.is_empty()
        && query.distinct == Distinct::All
        && query.limit.is_none()
        && query.offset.is_none()
        && query.row_marks.is_empty()
        && !query.from.is_empty()
        && !query.targets.iter().any(|target| has_set(&target.expr))
}

impl Statement<'_> {
    /// The tree of a numbered query's FROM and WHERE, with what was pulled up put in.
    pub(super) fn tree(&mut self, query: &mut Query, first: usize) -> PlanResult<Tree> {
        let sets = !query.grouping_sets.is_empty();
        let mut tree = self.inner(&query.from, query.filter.take(), first, sets)?;
        self.substitute_in_tree(&mut tree);
        self.substitute_in(query);
        reduce(&mut tree, &Rels::default());
        Ok(tree)
    }

    fn inner(
        &mut self,
        from: &[FromNode],
        filter: Option<Expr>,
        first: usize,
        nullable: bool,
    ) -> PlanResult<Tree> {
        let mut children = Vec::with_capacity(from.len());
        for node in from {
            children.push(self.node(node, first, nullable)?);
        }
        let mut quals = Vec::new();
        if let Some(filter) = filter {
            conjuncts(filter, &mut quals);
        }
        let (quals, special) = self.sublinks_to_joins(quals)?;
        Ok(Tree::Inner {
            children,
            quals,
            special,
        })
    }

    fn node(&mut self, node: &FromNode, first: usize, nullable: bool) -> PlanResult<Tree> {
        let join = match node {
            FromNode::Entry(entry) => return self.leaf(first + entry, nullable),
            FromNode::Join(join) => join,
        };
        let (left_null, right_null) = match join.kind {
            JoinKind::Inner => (nullable, nullable),
            JoinKind::Left => (nullable, true),
            JoinKind::Right => (true, nullable),
            JoinKind::Full => (true, true),
        };
        let left = self.node(&join.left, first, left_null)?;
        let right = self.node(&join.right, first, right_null)?;
        let mut on = Vec::new();
        if let Some(condition) = &join.condition {
            conjuncts(condition.clone(), &mut on);
        }
        Ok(match join.kind {
            JoinKind::Inner => {
                let (quals, special) = self.sublinks_to_joins(on)?;
                Tree::Inner {
                    children: vec![left, right],
                    quals,
                    special,
                }
            }
            JoinKind::Left => outer(OuterKind::Left, left, right, on),
            JoinKind::Right => outer(OuterKind::Left, right, left, on),
            JoinKind::Full => outer(OuterKind::Full, left, right, on),
        })
    }

    /// A relation, or what takes its place. Below an outer join a column that is computed must
    /// become NULL with its row, and below grouping sets without regard to its equals, so only
    /// those queries are pulled up that compute nothing and give no column twice.
    fn leaf(&mut self, rel: usize, nullable: bool) -> PlanResult<Tree> {
        let Source::Query(query) = &self.rels[rel].source else {
            return Ok(Tree::Leaf(rel));
        };
        let targets = query.targets.iter().filter(|target| !target.junk);
        let mut targets = targets.map(|target| &target.expr);
        // A query with an order stays one: aggregates above it see its rows in that order.
        let movable = is_plain(query)
            && query.order_by.is_empty()
            && match nullable {
                true => {
                    let mut seen = HashSet::new();
                    targets.all(|expr| {
                        matches!(expr.kind, ExprKind::Var(var)
                            if var.depth == 0
                                && var.column != WHOLE_ROW
                                && var.column != SystemColumn::TableOid.position()
                                && seen.insert((var.rel, var.column)))
                    })
                }
                false => !targets.any(is_volatile),
            };
        if !movable {
            return Ok(Tree::Leaf(rel));
        }
        let mut query = Query::clone(query);
        let first = self.enter(&mut query)?;
        let tree = self.inner(&query.from, query.filter.take(), first, nullable)?;
        let targets = query.targets.into_iter().filter(|target| !target.junk);
        let columns = targets.map(|target| target.expr).collect();
        self.pulled.insert(rel, columns);
        self.rels[rel].source = Source::Nothing;
        Ok(tree)
    }

    fn substitute_in_tree(&self, tree: &mut Tree) {
        match tree {
            Tree::Leaf(_) => {}
            Tree::Inner {
                children,
                quals,
                special,
            } => {
                for child in children {
                    self.substitute_in_tree(child);
                }
                for qual in quals {
                    self.substitute(qual);
                }
                for special in special {
                    self.substitute_in_tree(&mut special.right);
                    for on in &mut special.on {
                        self.substitute(on);
                    }
                }
            }
            Tree::Outer {
                left, right, on, ..
            } => {
                self.substitute_in_tree(left);
                self.substitute_in_tree(right);
                for on in on {
                    self.substitute(on);
                }
            }
        }
    }

    fn sublinks_to_joins(&mut self, quals: Vec<Expr>) -> PlanResult<(Vec<Expr>, Vec<Special>)> {
        let mut kept = Vec::with_capacity(quals.len());
        let mut special = Vec::new();
        for qual in quals {
            match self.sublink_to_join(&qual)? {
                Some(join) => special.push(join),
                None => kept.push(qual),
            }
        }
        Ok((kept, special))
    }

    fn sublink_to_join(&mut self, qual: &Expr) -> PlanResult<Option<Special>> {
        let (sublink, anti) = match &qual.kind {
            ExprKind::Sublink(sublink) => (sublink, false),
            ExprKind::Not(arg) => match &arg.kind {
                ExprKind::Sublink(sublink) => (sublink, true),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        match &sublink.kind {
            SublinkKind::Exists => self.exists_to_join(sublink, anti),
            SublinkKind::Any(test) if !anti => self.in_to_join(sublink, test),
            _ => Ok(None),
        }
    }

    /// `EXISTS (…)`: a semijoin, where something joins it; a query of its own runs once.
    fn exists_to_join(&mut self, sublink: &Sublink, anti: bool) -> PlanResult<Option<Special>> {
        let query = &sublink.query;
        if !is_plain(query) || !is_correlated(query) || query_is_volatile(query) {
            return Ok(None);
        }
        let mut query = Query::clone(query);
        let first = self.enter(&mut query)?;
        let right = self.inner(&query.from, query.filter.take(), first, false)?;
        Ok(Some(Special {
            anti,
            right,
            on: Vec::new(),
        }))
    }

    /// `x IN (…)`: a semijoin under the test. Where it is unknown the row is left out as where it
    /// is false.
    fn in_to_join(&mut self, sublink: &Sublink, test: &Expr) -> PlanResult<Option<Special>> {
        let query = &sublink.query;
        if query_is_volatile(query) || is_volatile(test) || has_sublink(test) {
            return Ok(None);
        }
        if rels_of(test).is_empty() && !is_correlated(query) {
            return Ok(None);
        }
        let mut test = test.clone();
        let (right, columns) = if is_plain(query) {
            let mut query = Query::clone(query);
            let first = self.enter(&mut query)?;
            let right = self.inner(&query.from, query.filter.take(), first, false)?;
            let targets = query.targets.into_iter().filter(|target| !target.junk);
            (right, targets.map(|target| target.expr).collect::<Vec<_>>())
        } else if !is_correlated(query) {
            let kept = query.targets.iter().filter(|target| !target.junk);
            let types: Vec<_> = kept.map(|target| target.expr.ty).collect();
            let rel = self.new_rel(types.clone());
            self.rels[rel].source = Source::Query(Arc::clone(query));
            let columns = types.iter().enumerate().map(|(column, ty)| Expr {
                kind: ExprKind::Var(super::number::numbered(rel, column)),
                ty: *ty,
                at: test.at,
            });
            (Tree::Leaf(rel), columns.collect())
        } else {
            return Ok(None);
        };
        fill_sublink_columns(&mut test, &columns);
        let mut on = Vec::new();
        conjuncts(test, &mut on);
        Ok(Some(Special {
            anti: false,
            right,
            on,
        }))
    }
}

fn outer(kind: OuterKind, left: Tree, right: Tree, on: Vec<Expr>) -> Tree {
    Tree::Outer {
        kind,
        left: Box::new(left),
        right: Box::new(right),
        on,
    }
}

fn fill_sublink_columns(expr: &mut Expr, columns: &[Expr]) {
    if let ExprKind::SublinkColumn(column) = expr.kind {
        let at = expr.at;
        *expr = columns[column].clone();
        expr.at = at;
        return;
    }
    walk::parts_mut(expr, &mut |part| fill_sublink_columns(part, columns));
}

/// The relations whose columns cannot all be NULL where a condition is true.
fn refuses_null(expr: &Expr, rels: &mut Rels) {
    match &expr.kind {
        ExprKind::Call(_) | ExprKind::Var(_) | ExprKind::Cast { .. } | ExprKind::Relabel(_) => {
            strict_rels(expr, rels);
        }
        ExprKind::AnyAll { left, op, all, .. } if op.proc.strict && !all => strict_rels(left, rels),
        ExprKind::IsNull {
            arg,
            negated: true,
            row: false,
        }
        | ExprKind::IsBool {
            arg,
            value: Some(_),
            negated: false,
        }
        | ExprKind::Not(arg) => strict_rels(arg, rels),
        ExprKind::And(items) => items.iter().for_each(|item| refuses_null(item, rels)),
        ExprKind::Or(items) => {
            let mut each = items.iter().map(|item| {
                let mut rels = Rels::default();
                refuses_null(item, &mut rels);
                rels
            });
            if let Some(first) = each.next() {
                rels.extend(&each.fold(first, |all, one| all.common(&one)));
            }
        }
        _ => {}
    }
}

/// The relations whose columns make an expression NULL.
fn strict_rels(expr: &Expr, rels: &mut Rels) {
    match &expr.kind {
        ExprKind::Var(var) if var.depth == NUMBERED => rels.insert(var.rel),
        ExprKind::Call(call)
            if call.proc.strict && matches!(call.proc.kind, ProcKind::Scalar(_)) =>
        {
            call.args.iter().for_each(|arg| strict_rels(arg, rels));
        }
        ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) | ExprKind::Not(arg) => {
            strict_rels(arg, rels);
        }
        _ => {}
    }
}

/// The relations of a tree.
pub(super) fn rels_in(tree: &Tree, rels: &mut Rels) {
    match tree {
        Tree::Leaf(rel) => rels.insert(*rel),
        Tree::Inner { children, .. } => children.iter().for_each(|child| rels_in(child, rels)),
        Tree::Outer { left, right, .. } => {
            rels_in(left, rels);
            rels_in(right, rels);
        }
    }
}

/// Turns outer joins into inner ones where the rows that they add are left out above: `refused`
/// are the relations that must have a row.
fn reduce(tree: &mut Tree, refused: &Rels) {
    match tree {
        Tree::Leaf(_) => {}
        Tree::Inner {
            children,
            quals,
            special,
        } => {
            let mut refused = refused.clone();
            for qual in quals.iter() {
                refuses_null(qual, &mut refused);
            }
            for special in special.iter_mut() {
                if !special.anti {
                    for on in &special.on {
                        refuses_null(on, &mut refused);
                    }
                }
                reduce(&mut special.right, &Rels::default());
            }
            for child in children {
                reduce(child, &refused);
            }
        }
        Tree::Outer {
            kind,
            left,
            right,
            on,
        } => {
            let (mut in_left, mut in_right) = (Rels::default(), Rels::default());
            rels_in(left, &mut in_left);
            rels_in(right, &mut in_right);
            if *kind == OuterKind::Full && in_right.meets(refused) {
                // Rows of the left side alone are left out: the right side's stay.
                std::mem::swap(left, right);
                std::mem::swap(&mut in_left, &mut in_right);
                *kind = OuterKind::Left;
            } else if *kind == OuterKind::Full && in_left.meets(refused) {
                *kind = OuterKind::Left;
            }
            if *kind == OuterKind::Left && in_right.meets(refused) {
                let empty = || Box::new(Tree::Leaf(usize::MAX));
                let children = vec![
                    *std::mem::replace(left, empty()),
                    *std::mem::replace(right, empty()),
                ];
                *tree = Tree::Inner {
                    children,
                    quals: std::mem::take(on),
                    special: Vec::new(),
                };
                return reduce(tree, refused);
            }
            let mut below = Rels::default();
            if *kind == OuterKind::Left {
                for on in on.iter() {
                    refuses_null(on, &mut below);
                }
                reduce(left, refused);
            } else {
                reduce(left, &Rels::default());
            }
            reduce(right, &below);
        }
    }
}
