//! Types of parameters, which their uses decide unless the client declared them.

use evenkeel_types::{SqlState, SqlType};

use super::types;
use super::walk::{self, Enter};
use crate::ast::Pos;
use crate::bound::{Expr, ExprKind, Query, Target};
use crate::error::{PlanError, PlanResult};

/// Most parameters of a statement: the protocol counts them in 16 bits.
const MAX_PARAMS: u32 = 65_535;

/// The types of a statement's parameters as far as they are known.
#[derive(Debug)]
pub(super) struct Params {
    /// `None`: not mentioned; `Unknown`: mentioned, not decided.
    types: Vec<Option<SqlType>>,
}

impl Params {
    pub(super) fn new(given: &[Option<SqlType>]) -> Params {
        Params {
            types: given.to_vec(),
        }
    }

    /// A use of parameter `$number`: its place and the type it has by now.
    pub(super) fn mention(&mut self, number: u32, at: Pos) -> PlanResult<(usize, SqlType)> {
        if number == 0 || number > MAX_PARAMS {
            let message = format!("there is no parameter ${number}");
            return Err(PlanError::new(SqlState::UNDEFINED_PARAMETER, message).at(at));
        }
        let index = number as usize - 1;
        if self.types.len() <= index {
            self.types.resize(index + 1, None);
        }
        let ty = *self.types[index].get_or_insert(SqlType::Unknown);
        Ok((index, ty))
    }

    /// Decides the type of a parameter whose use wants `ty`.
    pub(super) fn decide(&mut self, index: usize, ty: SqlType, at: Pos) -> PlanResult<()> {
        let ty = ty.without_modifier();
        match self.types.get_mut(index) {
            Some(slot @ (None | Some(SqlType::Unknown))) => *slot = Some(ty),
            Some(Some(known)) if types::same(*known, ty) => {}
            Some(Some(known)) => {
                let message = format!("inconsistent types deduced for parameter ${}", index + 1);
                let detail = format!("{} versus {}", types::name(*known), types::name(ty));
                let error = PlanError::new(SqlState::AMBIGUOUS_PARAMETER, message);
                return Err(error.detail(detail).at(at));
            }
            None => {}
        }
        Ok(())
    }

    /// The type of a parameter as far as it is decided.
    pub(super) fn decided(&self, index: usize) -> SqlType {
        let known = self.types.get(index).copied().flatten();
        known.unwrap_or(SqlType::Unknown)
    }

    /// Refuses a query that mentions a parameter by another type than the one decided later.
    pub(super) fn check(&self, query: &Query) -> PlanResult<()> {
        let mut wrong = None;
        walk::walk_query(query, 0, &mut |node, _| self.look(node, &mut wrong));
        refuse(wrong)
    }

    /// As [`Params::check`], for a list.
    pub(super) fn check_targets(&self, targets: &[Target]) -> PlanResult<()> {
        self.check_exprs(targets.iter().map(|target| &target.expr))
    }

    /// As [`Params::check`], for some expressions.
    pub(super) fn check_exprs<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Expr>,
    ) -> PlanResult<()> {
        let mut wrong = None;
        for expr in exprs {
            walk::walk(expr, 0, &mut |node, _| self.look(node, &mut wrong));
        }
        refuse(wrong)
    }

    fn look(&self, node: &Expr, wrong: &mut Option<(usize, Pos)>) -> Enter {
        if let ExprKind::Param(index) = node.kind {
            let decided = self.decided(index);
            if wrong.is_none() && !types::same(decided, node.ty) {
                *wrong = Some((index, node.at));
            }
        }
        if wrong.is_some() {
            Enter::No
        } else {
            Enter::Yes
        }
    }

    /// Whether none was mentioned.
    pub(super) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The types, all of which must be decided.
    pub(super) fn finish(self) -> PlanResult<Vec<SqlType>> {
        let decided = |(index, ty): (usize, Option<SqlType>)| match ty {
            Some(ty) if ty != SqlType::Unknown => Ok(ty),
            _ => Err(PlanError::new(
                SqlState::INDETERMINATE_DATATYPE,
                undetermined(index),
            )),
        };
        self.types.into_iter().enumerate().map(decided).collect()
    }
}

fn refuse(wrong: Option<(usize, Pos)>) -> PlanResult<()> {
    match wrong {
        Some((index, at)) => {
            let message = undetermined(index);
            Err(PlanError::new(SqlState::AMBIGUOUS_PARAMETER, message).at(at))
        }
        None => Ok(()),
    }
}

fn undetermined(index: usize) -> String {
    format!("could not determine data type of parameter ${}", index + 1)
}
