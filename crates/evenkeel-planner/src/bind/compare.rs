//! Comparisons that are more than an operator: of rows, BETWEEN, IN, IS DISTINCT FROM.

use evenkeel_expr::program::RowCompareOp;
use evenkeel_types::{SqlState, SqlType};

use super::expr::{boolean, negate};
use super::operators::{self, plain};
use super::{Binder, common_type, types, walk};
use crate::ast::{self, ExprKind as K, Literal, Operator, Pos};
use crate::bound::{Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

fn is_null_literal(expr: &ast::Expr) -> bool {
    matches!(expr.kind, K::Literal(Literal::Null))
}

impl Binder<'_> {
    /// `(a, b) op (c, d)`, the fields bound.
    pub(super) fn compare_rows(
        &mut self,
        op: &Operator,
        left: Vec<Expr>,
        right: Vec<Expr>,
        at: Pos,
    ) -> PlanResult<Expr> {
        if left.len() != right.len() {
            let message = "unequal number of entries in row expressions";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        if left.is_empty() {
            let message = "cannot compare rows of zero length";
            return Err(PlanError::unsupported(message).at(at));
        }
        let mut tests = Vec::with_capacity(left.len());
        for (a, b) in left.into_iter().zip(right) {
            let test = self.make_op(op, Some(a), b, at)?;
            if test.ty != SqlType::Bool {
                let message = format!(
                    "row comparison operator must yield type boolean, not type {}",
                    types::name(test.ty)
                );
                return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
            }
            if walk::returns_set(&test) {
                let message = "row comparison operator must not return a set";
                return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
            }
            tests.push(test);
        }
        if tests.len() == 1 {
            return tests.pop().ok_or_else(no_operator);
        }
        let order = match op.symbol.as_str() {
            "=" => return Ok(boolean(ExprKind::And(tests), at)),
            "<>" => return Ok(boolean(ExprKind::Or(tests), at)),
            "<" => RowCompareOp::Less,
            "<=" => RowCompareOp::LessEqual,
            ">" => RowCompareOp::Greater,
            ">=" => RowCompareOp::GreaterEqual,
            symbol => {
                let message = format!(
                    "could not determine interpretation of row comparison operator {symbol}"
                );
                let hint =
                    "Row comparison operators must be associated with btree operator families.";
                return Err(PlanError::unsupported(message).hint(hint).at(at));
            }
        };
        let mut pairs = Vec::with_capacity(tests.len());
        for test in tests {
            pairs.push(self.ordered_pair(test, at)?);
        }
        Ok(boolean(ExprKind::RowCompare { op: order, pairs }, at))
    }

    /// The two sides of a comparison with the operators `=` and `<` of their types.
    #[allow(clippy::type_complexity)]
    fn ordered_pair(
        &mut self,
        test: Expr,
        at: Pos,
    ) -> PlanResult<(
        Expr,
        Expr,
        &'static evenkeel_expr::proc::Proc,
        &'static evenkeel_expr::proc::Proc,
    )> {
        let ExprKind::Call(mut call) = test.kind else {
            return Err(no_operator());
        };
        let (Some(right), Some(left)) = (call.args.pop(), call.args.pop()) else {
            return Err(no_operator());
        };
        let equal = operators::find(&plain("="), Some(left.ty), right.ty, at)?;
        let less = operators::find(&plain("<"), Some(left.ty), right.ty, at)?;
        Ok((left, right, equal.proc, less.proc))
    }

    pub(super) fn bind_is_distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        at: Pos,
    ) -> PlanResult<Expr> {
        let null = if is_null_literal(right) {
            Some(left)
        } else if is_null_literal(left) {
            Some(right)
        } else {
            None
        };
        if let Some(arg) = null {
            let arg = Box::new(self.bind_expr(arg)?);
            // `IS DISTINCT FROM NULL` asks of a row too whether it is NULL as a whole.
            let kind = ExprKind::IsNull {
                arg,
                negated: !negated,
                row: false,
            };
            return Ok(boolean(kind, at));
        }
        if let (K::Row { fields: a, .. }, K::Row { fields: b, .. }) = (&left.kind, &right.kind) {
            let a = self.bind_list(a)?;
            let b = self.bind_list(b)?;
            let distinct = self.distinct_rows(a, b, at)?;
            return Ok(negate(distinct, negated, at));
        }
        let left = self.bind_expr(left)?;
        let right = self.bind_expr(right)?;
        self.distinct(left, right, negated, at)
    }

    fn distinct(&mut self, left: Expr, right: Expr, negated: bool, at: Pos) -> PlanResult<Expr> {
        let (equal, left, right) = self.equality(left, right, "IS DISTINCT FROM", at)?;
        let kind = ExprKind::IsDistinct {
            equal,
            left: Box::new(left),
            right: Box::new(right),
            negated,
        };
        Ok(boolean(kind, at))
    }

    fn distinct_rows(&mut self, a: Vec<Expr>, b: Vec<Expr>, at: Pos) -> PlanResult<Expr> {
        if a.len() != b.len() {
            let message = "unequal number of entries in row expressions";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        let mut tests = Vec::with_capacity(a.len());
        for (a, b) in a.into_iter().zip(b) {
            tests.push(self.distinct(a, b, false, at)?);
        }
        Ok(match tests.len() {
            1 => tests.remove(0),
            _ => boolean(ExprKind::Or(tests), at),
        })
    }

    /// `x [NOT] BETWEEN [SYMMETRIC] low AND high`: comparisons, each with an argument of its own.
    pub(super) fn bind_between(&mut self, kind: &K, at: Pos) -> PlanResult<Expr> {
        let K::Between {
            arg,
            low,
            high,
            symmetric,
            negated,
        } = kind
        else {
            return Err(no_operator());
        };
        let first = self.between(arg, low, high, *negated, at)?;
        if !*symmetric {
            return Ok(first);
        }
        let second = self.between(arg, high, low, *negated, at)?;
        let both = vec![first, second];
        Ok(if *negated {
            boolean(ExprKind::And(both), at)
        } else {
            boolean(ExprKind::Or(both), at)
        })
    }

    fn between(
        &mut self,
        arg: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
        at: Pos,
    ) -> PlanResult<Expr> {
        let (above, below) = if negated { ("<", ">") } else { (">=", "<=") };
        let lower = self.bind_op(&plain(above), Some(arg), low, at)?;
        let upper = self.bind_op(&plain(below), Some(arg), high, at)?;
        let clause = if negated { "OR" } else { "AND" };
        let both = vec![
            self.coerce_to_boolean(lower, clause)?,
            self.coerce_to_boolean(upper, clause)?,
        ];
        Ok(if negated {
            boolean(ExprKind::Or(both), at)
        } else {
            boolean(ExprKind::And(both), at)
        })
    }

    /// `x [NOT] IN (a, b, …)`: values without variables are an array, if they have a common type;
    /// the others are compared one by one.
    pub(super) fn bind_in_list(
        &mut self,
        arg: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        at: Pos,
    ) -> PlanResult<Expr> {
        let op = plain(if negated { "<>" } else { "=" });
        let arg_fields = matches!(arg.kind, K::Row { .. });
        let all_rows = arg_fields && list.iter().all(|value| matches!(value.kind, K::Row { .. }));
        let left = self.bind_in_item(arg, all_rows)?;
        let mut plain_values = Vec::new();
        let mut others = Vec::new();
        for value in list {
            let is_row = matches!(value.kind, K::Row { .. });
            let bound = self.bind_in_item(value, all_rows)?;
            if walk::has_own_variable(&bound) {
                others.push((bound, is_row));
            } else {
                plain_values.push((bound, is_row));
            }
        }
        let mut tests = Vec::new();
        if plain_values.len() > 1 {
            match self.in_array(&op, &left, &plain_values, negated, at)? {
                Some(test) => tests.push(test),
                None => {
                    plain_values.append(&mut others);
                    others = plain_values;
                }
            }
        } else {
            plain_values.append(&mut others);
            others = plain_values;
        }
        for (value, is_row) in others {
            let test = match (left.kind.clone(), value.kind) {
                (ExprKind::Row(a), ExprKind::Row(b)) if arg_fields && is_row => {
                    self.compare_rows(&op, a, b, at)?
                }
                (_, kind) => {
                    let value = Expr { kind, ..value };
                    self.make_op(&op, Some(left.clone()), value, at)?
                }
            };
            tests.push(self.coerce_to_boolean(test, "IN")?);
        }
        Ok(match tests.len() {
            1 => tests.remove(0),
            _ if negated => boolean(ExprKind::And(tests), at),
            _ => boolean(ExprKind::Or(tests), at),
        })
    }

    /// A side of `IN`. Rows that are compared by their fields keep literals without a type.
    fn bind_in_item(&mut self, item: &ast::Expr, fields_compared: bool) -> PlanResult<Expr> {
        match &item.kind {
            K::Row { fields, .. } if fields_compared => Ok(Expr {
                kind: ExprKind::Row(self.bind_list(fields)?),
                ty: SqlType::Record,
                at: item.at,
            }),
            _ => self.bind_expr(item),
        }
    }

    fn in_array(
        &mut self,
        op: &Operator,
        left: &Expr,
        values: &[(Expr, bool)],
        negated: bool,
        at: Pos,
    ) -> PlanResult<Option<Expr>> {
        let all: Vec<SqlType> = std::iter::once(left.ty)
            .chain(values.iter().map(|value| value.0.ty))
            .collect();
        let Ok(common) = common_type::select_types(&all) else {
            return Ok(None);
        };
        let context = evenkeel_expr::proc::CastContext::Implicit;
        let reaches = |ty: &SqlType| super::pathway::can_coerce(*ty, common, context);
        let (Some(array), true) = (common.array_of(), all.iter().all(reaches)) else {
            return Ok(None);
        };
        if common == SqlType::Record {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(values.len());
        for (value, _) in values {
            items.push(self.coerce_to_common(value.clone(), common, "IN")?);
        }
        let array = Expr {
            kind: ExprKind::Array {
                nested: false,
                items,
            },
            ty: array,
            at: Pos::NONE,
        };
        self.make_any_all(op, negated, left.clone(), array, at)
            .map(Some)
    }
}

fn no_operator() -> PlanError {
    PlanError::new(SqlState::INTERNAL_ERROR, "a comparison is no operator")
}
