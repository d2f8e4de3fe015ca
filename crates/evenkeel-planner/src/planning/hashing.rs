//! The keys of hash joins.

use crate::bound::Expr;

use super::ops;
use super::path::ExprRef;
use super::rels::Rels;
use super::statement::rels_of;
use std::rc::Rc;

/// The operands of an equality that can be hashed, that of the inner relations last.
pub(super) fn hash_key<'e>(expr: &'e Expr, inner: &Rels) -> Option<(&'e Expr, &'e Expr)> {
    let compared = ops::comparison(expr)?;
    if !ops::is_hashable(&compared) {
        return None;
    }
    let (left, right) = (rels_of(compared.left), rels_of(compared.right));
    if !right.is_empty() && right.within(inner) && !left.meets(inner) && !left.is_empty() {
        Some((compared.left, compared.right))
    } else if !left.is_empty() && left.within(inner) && !right.meets(inner) && !right.is_empty() {
        Some((compared.right, compared.left))
    } else {
        None
    }
}

/// The same, where the outer operand's relations must be in `outer`.
pub(super) fn key_between(expr: &Expr, outer: &Rels, inner: &Rels) -> Option<(ExprRef, ExprRef)> {
    let (left, right) = hash_key(expr, inner)?;
    rels_of(left)
        .meets(outer)
        .then(|| (Rc::new(left.clone()), Rc::new(right.clone())))
}
