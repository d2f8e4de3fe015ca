//! A join problem: items that may be joined in many orders, and the conditions between them.
//!
//! Inner joins of one level are one problem. The right side of a left, semi or anti join is a
//! problem of its own, joined as one item at any time after the relations that its condition
//! mentions; so rows that an outer join adds are never joined early.

use std::rc::Rc;

use crate::bound::{Expr, ExprKind};

use super::ops;
use super::path::{ExprRef, same};
use super::rels::Rels;
use super::statement::{Statement, rels_of};
use super::tree::{
    ALTERNATIVES_MOST, OuterKind, Special, Tree, conjunction, conjuncts_of, has_sublink,
};
use super::volatility;

/// A condition with the relations that it looks at.
#[derive(Debug, Clone)]
pub(super) struct Clause {
    /// A conjunct.
    pub(super) expr: ExprRef,
    /// Its relations, those of outer queries included.
    pub(super) rels: Rels,
    /// Follows from others, so that it says nothing new about the number of rows.
    pub(super) implied: bool,
}

impl Clause {
    pub(super) fn new(expr: Expr) -> Clause {
        let rels = rels_of(&expr);
        Clause {
            expr: Rc::new(expr),
            rels,
            implied: false,
        }
    }
}

/// Items of a part of a large join problem.
const PART: usize = 32;

/// Items joined by inner joins.
#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    /// The items.
    pub(super) items: Vec<Item>,
    /// Conditions on the result.
    pub(super) clauses: Vec<Clause>,
    /// All relations of its items.
    pub(super) rels: Rels,
}

/// An operand of a join.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Kind.
    pub(super) kind: ItemKind,
    /// Its relations.
    pub(super) rels: Rels,
    /// Relations that must be there before it.
    pub(super) needs: Rels,
}

/// Kinds of item.
#[derive(Debug, Clone)]
pub(super) enum ItemKind {
    /// A relation.
    Leaf(usize),
    /// A full join.
    Full {
        left: Box<Unit>,
        right: Box<Unit>,
        on: Vec<Clause>,
    },
    /// The first items of a problem with too many, joined by themselves.
    Part(Box<Unit>),
    /// The right side of a join that is not inner.
    Special {
        kind: SpecialKind,
        unit: Box<Unit>,
        on: Vec<Clause>,
    },
}

/// Joins that are not inner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecialKind {
    /// Left outer join.
    Left,
    /// Semijoin.
    Semi,
    /// Antijoin.
    Anti,
}

impl Unit {
    /// Relations that it looks at and does not have.
    pub(super) fn outside(&self) -> Rels {
        let mut all = Rels::default();
        for item in &self.items {
            all.extend(&item.needs);
        }
        for clause in &self.clauses {
            all.extend(&clause.rels);
        }
        let outside = all.iter().filter(|rel| !self.rels.has(*rel));
        outside.collect()
    }

    /// The same problem with few items: the first of them, as they are written, are an item of
    /// their own, and so are those together with the next, as by PostgreSQL's
    /// `join_collapse_limit`. A condition is one of the smallest part that has all its relations.
    pub(super) fn in_parts(self) -> Unit {
        let all = self.rels.clone();
        let mut clauses = self.clauses;
        let mut left = self.items;
        let mut part = Unit::default();
        loop {
            // No item comes before those that it needs.
            let ready = |item: &Item| item.needs.common(&all).within(&part.rels);
            let Some(next) = left.iter().position(ready) else {
                break;
            };
            if part.items.len() >= PART {
                let inside = |clause: &mut Clause| {
                    let own = clause.rels.common(&all);
                    !own.is_empty() && own.within(&part.rels)
                };
                part.clauses = clauses.extract_if(.., inside).collect();
                let (rels, needs) = (part.rels.clone(), part.outside());
                let inner = std::mem::take(&mut part);
                push(&mut part, ItemKind::Part(Box::new(inner)), rels, needs);
                continue;
            }
            let item = left.remove(next);
            part.rels.extend(&item.rels);
            part.items.push(item);
        }
        for item in left {
            part.rels.extend(&item.rels);
            part.items.push(item);
        }
        part.clauses = clauses;
        part
    }
}

impl Statement<'_> {
    /// The problem of a tree.
    pub(super) fn unit(&self, tree: Tree) -> Unit {
        let mut unit = Unit::default();
        self.add(tree, &mut unit);
        imply_constants(&mut unit);
        imply_alternatives(&mut unit);
        unit
    }

    fn add(&self, tree: Tree, unit: &mut Unit) {
        match tree {
            Tree::Leaf(rel) => {
                let needs = &self.rels[rel].needs;
                let mut direct = Rels::default();
                for need in needs.iter() {
                    match self.pulled.get(&need) {
                        Some(columns) => columns.iter().for_each(|c| direct.extend(&rels_of(c))),
                        None => direct.insert(need),
                    }
                }
                push(unit, ItemKind::Leaf(rel), Rels::one(rel), direct);
            }
            Tree::Inner {
                children,
                quals,
                special,
            } => {
                children.into_iter().for_each(|child| self.add(child, unit));
                unit.clauses.extend(quals.into_iter().map(Clause::new));
                special
                    .into_iter()
                    .for_each(|special| self.add_special(special, unit));
            }
            Tree::Outer {
                kind: OuterKind::Full,
                left,
                right,
                on,
            } => {
                let (left, right) = (self.unit(*left), self.unit(*right));
                let rels = left.rels.union(&right.rels);
                let needs = left.outside().union(&right.outside());
                let kind = ItemKind::Full {
                    left: Box::new(left),
                    right: Box::new(right),
                    on: on.into_iter().map(Clause::new).collect(),
                };
                push(unit, kind, rels, needs);
            }
            Tree::Outer {
                kind: OuterKind::Left,
                left,
                right,
                on,
            } => {
                self.add(*left, unit);
                let right = self.unit(*right);
                self.push_special(SpecialKind::Left, right, on, unit);
            }
        }
    }

    fn add_special(&self, special: Special, unit: &mut Unit) {
        let mut right = self.unit(special.right);
        let mut on = special.on;
        // Conditions of the subquery that mention the query around it are the join's.
        let inside = right.rels.clone();
        let (own, joining): (Vec<_>, Vec<_>) = std::mem::take(&mut right.clauses)
            .into_iter()
            .partition(|clause| clause.rels.within(&inside));
        right.clauses = own;
        on.extend(joining.into_iter().map(|clause| Expr::clone(&clause.expr)));
        let kind = match special.anti {
            true => SpecialKind::Anti,
            false => SpecialKind::Semi,
        };
        self.push_special(kind, right, on, unit);
    }

    fn push_special(&self, kind: SpecialKind, mut right: Unit, on: Vec<Expr>, unit: &mut Unit) {
        let mut joining = Vec::new();
        for clause in on.into_iter().map(Clause::new) {
            // A condition on the right side alone filters that side's rows before the join.
            if clause.rels.within(&right.rels) && !volatility::differs_by_row(&clause.expr) {
                right.clauses.push(clause);
            } else {
                joining.push(clause);
            }
        }
        let mut needs = right.outside();
        for clause in &joining {
            let outside = clause.rels.iter().filter(|rel| !right.rels.has(*rel));
            outside.for_each(|rel| needs.insert(rel));
        }
        let rels = right.rels.clone();
        let kind = ItemKind::Special {
            kind,
            unit: Box::new(right),
            on: joining,
        };
        push(unit, kind, rels, needs);
    }
}

fn push(unit: &mut Unit, kind: ItemKind, rels: Rels, needs: Rels) {
    unit.rels.extend(&rels);
    unit.items.push(Item { kind, rels, needs });
}

/// `a = b` and `b = 1` imply `a = 1`: the constant goes to every column of its class, so that each
/// relation is searched by it. Columns of items that an outer join may make NULL take no part.
fn imply_constants(unit: &mut Unit) {
    let Unit {
        items,
        clauses,
        rels: all,
    } = unit;
    let mut certain = Rels::default();
    for item in items.iter() {
        if matches!(item.kind, ItemKind::Leaf(_)) {
            certain.extend(&item.rels);
        }
    }
    let mut pairs: Vec<(usize, ExprRef, ExprRef)> = Vec::new();
    let mut constants: Vec<(ExprRef, usize)> = Vec::new();
    for (number, clause) in clauses.iter().enumerate() {
        let Some((left, right)) = ops::same_type_equality(&clause.expr) else {
            continue;
        };
        let (in_left, in_right) = (rels_of(left), rels_of(right));
        let outer = |rels: &Rels| !rels.meets(all);
        if !outer(&in_left) && !outer(&in_right) {
            if clause.rels.within(&certain) {
                pairs.push((number, Rc::new(left.clone()), Rc::new(right.clone())));
            }
        } else if outer(&in_right) && in_left.within(&certain) && !in_left.is_empty() {
            constants.push((Rc::new(left.clone()), number));
        } else if outer(&in_left) && in_right.within(&certain) && !in_right.is_empty() {
            constants.push((Rc::new(right.clone()), number));
        }
    }
    // Classes are followed from the constants on; each step reaches a column for the first time.
    let mut reached = 0;
    while reached < constants.len() {
        let (known, source) = (Rc::clone(&constants[reached].0), constants[reached].1);
        reached += 1;
        for (number, left, right) in &pairs {
            let other = if same(left, &known) {
                right
            } else if same(right, &known) {
                left
            } else {
                continue;
            };
            if constants.iter().any(|(expr, _)| same(expr, other)) {
                continue;
            }
            let Some(implied) = ops::with_operand(&clauses[source].expr, &known, other) else {
                continue;
            };
            let clause = Clause::new(implied);
            clauses[*number].implied = true;
            constants.push((Rc::clone(other), clauses.len()));
            clauses.push(clause);
        }
    }
}

/// `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.z = 4)` implies `a.x = 1 OR a.x = 3`, which leaves out
/// rows of `a` before they are joined, as PostgreSQL's `extract_restriction_or_clauses` does.
fn imply_alternatives(unit: &mut Unit) {
    let mut implied = Vec::new();
    for clause in unit.clauses.iter().filter(|clause| !clause.implied) {
        let ExprKind::Or(alternatives) = &clause.expr.kind else {
            continue;
        };
        let is_join = clause.rels.iter().nth(1).is_some();
        if !is_join || alternatives.len() > ALTERNATIVES_MOST {
            continue;
        }
        for item in &unit.items {
            if let ItemKind::Leaf(rel) = item.kind
                && clause.rels.has(rel)
                && let Some(own) = alternatives_of(rel, &clause.expr, alternatives)
            {
                let implied_one = Clause {
                    implied: true,
                    ..Clause::new(own)
                };
                implied.push(implied_one);
            }
        }
    }
    unit.clauses.extend(implied);
}

/// The condition that alternatives put on one relation alone, if each of them does.
fn alternatives_of(rel: usize, or: &Expr, alternatives: &[Expr]) -> Option<Expr> {
    let inside = Rels::one(rel);
    let mut all = Vec::with_capacity(alternatives.len());
    for alternative in alternatives {
        let own = conjuncts_of(alternative).iter().filter(|part| {
            let rels = rels_of(part);
            let own = !rels.is_empty() && rels.within(&inside);
            own && !volatility::differs_by_row(part) && !has_sublink(part)
        });
        let own: Vec<Expr> = own.cloned().collect();
        if own.is_empty() {
            return None;
        }
        all.push(conjunction(or, own));
    }
    Some(Expr {
        kind: ExprKind::Or(all),
        ty: or.ty,
        at: or.at,
    })
}
