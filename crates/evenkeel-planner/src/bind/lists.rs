//! Lists of expressions, in which `t.*` stands for several.

use super::Binder;
use crate::ast;
use crate::bound::Expr;
use crate::error::PlanResult;

impl Binder<'_> {
    /// The expressions of `ROW(…)` or of a row of VALUES.
    pub(super) fn bind_list(&mut self, list: &[ast::Expr]) -> PlanResult<Vec<Expr>> {
        let mut bound = Vec::with_capacity(list.len());
        for expr in list {
            match self.expand(expr)? {
                Some(named) => bound.extend(named.into_iter().map(|(_, expr)| expr)),
                None => bound.push(self.bind_expr(expr)?),
            }
        }
        Ok(bound)
    }
}
