//! Conversions: which are possible in a context, and the expressions that do them.

use evenkeel_expr::proc::{CastContext, Proc};
use evenkeel_types::{Datum, SqlState, SqlType};

use super::pathway::{Pathway, can_coerce, pathway};
use super::{Binder, place, types, walk};
use crate::ast::Pos;
use crate::bound::{Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

/// Whether a modifier of the type is applied by a function.
fn has_length_cast(ty: SqlType) -> bool {
    ty.typmod() >= 0
}

/// The place of a parameter that is converted at another.
pub(super) fn earlier(expr: Pos, at: Pos) -> Pos {
    if at == Pos::NONE {
        return expr;
    }
    expr.min(at)
}

/// Whether a value of one type is one of the other as it is.
fn has_one_form(a: SqlType, b: SqlType) -> bool {
    let padded = |ty| matches!(ty, SqlType::Char(_));
    a.is_oid() == b.is_oid() && padded(a) == padded(b)
}

impl Binder<'_> {
    /// The expression as a value of `target` (whatever its modifier), which the caller knows to be
    /// possible.
    pub(super) fn coerce(
        &mut self,
        expr: Expr,
        target: SqlType,
        context: CastContext,
        at: Pos,
    ) -> PlanResult<Expr> {
        let target = target.without_modifier();
        if types::same(expr.ty, target) {
            return Ok(expr);
        }
        if let Some(domain) = target.domain() {
            return self.coerce_to_domain(expr, (domain, target), context, at);
        }
        if expr.ty == SqlType::Unknown {
            match expr.kind {
                ExprKind::Const(value) => return self.read_literal(value, target, expr.at),
                ExprKind::Param(index) => {
                    self.params.decide(index, target, expr.at)?;
                    return Ok(Expr {
                        kind: ExprKind::Param(index),
                        ty: target,
                        at: earlier(expr.at, at),
                    });
                }
                _ => {}
            }
        }
        let explicit = context == CastContext::Explicit;
        let from = if expr.ty == SqlType::Unknown {
            SqlType::Text
        } else {
            expr.ty
        };
        let kind = match pathway(
            target,
            from,
            context.max(if expr.ty == SqlType::Unknown {
                CastContext::Explicit
            } else {
                context
            }),
        ) {
            Pathway::None => {
                let message = format!(
                    "failed to find conversion function from {} to {}",
                    types::name(expr.ty),
                    types::name(target)
                );
                return Err(PlanError::new(SqlState::INTERNAL_ERROR, message));
            }
            // PostgreSQL has the same bits for both; values here tell oids from integers, and a
            // `character(n)` from other strings.
            Pathway::Relabel if !has_one_form(from.storage(), target) => ExprKind::Cast {
                arg: Box::new(expr),
                explicit,
            },
            Pathway::Relabel => ExprKind::Relabel(Box::new(expr)),
            Pathway::Convert | Pathway::InOut => ExprKind::Cast {
                arg: Box::new(expr),
                explicit,
            },
        };
        Ok(Expr {
            kind,
            ty: target,
            at,
        })
    }

    /// The value of a literal as `target`, by its input function; errors point at the literal.
    fn read_literal(&mut self, value: Datum, target: SqlType, at: Pos) -> PlanResult<Expr> {
        let value = match value {
            Datum::Text(text) => match Datum::parse_text(target, &text, self.session.types()) {
                Ok(value) => value,
                // A name, which the catalog reads when the statement runs.
                Err(_) if target.has_names() => {
                    let arg = Box::new(Expr {
                        kind: ExprKind::Const(Datum::Text(text)),
                        ty: SqlType::Text,
                        at,
                    });
                    let kind = ExprKind::Cast {
                        arg,
                        explicit: true,
                    };
                    return Ok(Expr {
                        kind,
                        ty: target,
                        at,
                    });
                }
                Err(error) => return Err(PlanError::from(error).at(at)),
            },
            other => other,
        };
        self.note_value(&value, target, at);
        Ok(Expr {
            kind: ExprKind::Const(value),
            ty: target,
            at,
        })
    }

    /// As [`Binder::coerce`], with the modifier of `target`; `None` if there is no such conversion.
    pub(super) fn coerce_to_target(
        &mut self,
        expr: Expr,
        target: SqlType,
        context: CastContext,
        at: Pos,
    ) -> PlanResult<Option<Expr>> {
        if !can_coerce(expr.ty, target, context) {
            return Ok(None);
        }
        // The fields of an interval say how its literal is read.
        if let (SqlType::Interval(Some(_)), SqlType::Unknown) = (target, expr.ty)
            && let ExprKind::Const(value) = expr.kind
        {
            return self.read_literal(value, target, expr.at).map(Some);
        }
        let expr = self.coerce(expr, target, context, at)?;
        Ok(Some(apply_modifier(expr, target, context, at)))
    }

    /// A condition.
    pub(super) fn coerce_to_boolean(&mut self, expr: Expr, clause: &str) -> PlanResult<Expr> {
        self.coerce_to_specific(expr, SqlType::Bool, clause)
    }

    /// The argument of a clause that wants one type.
    pub(super) fn coerce_to_specific(
        &mut self,
        expr: Expr,
        target: SqlType,
        clause: &str,
    ) -> PlanResult<Expr> {
        let at = place::of(&expr);
        let expr = if types::same(expr.ty, target) {
            expr
        } else {
            let from = expr.ty;
            match self.coerce_to_target(expr, target, CastContext::Assignment, Pos::NONE)? {
                Some(expr) => expr,
                None => {
                    let message = format!(
                        "argument of {clause} must be type {}, not type {}",
                        types::name(target),
                        types::name(from)
                    );
                    return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
                }
            }
        };
        if walk::returns_set(&expr) {
            let message = format!("argument of {clause} must not return a set");
            return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        Ok(expr)
    }

    /// One argument of a construct whose common type is `target`.
    pub(super) fn coerce_to_common(
        &mut self,
        expr: Expr,
        target: SqlType,
        construct: &str,
    ) -> PlanResult<Expr> {
        if types::same(expr.ty, target) {
            return Ok(expr);
        }
        if can_coerce(expr.ty, target, CastContext::Implicit) {
            return self.coerce(expr, target, CastContext::Implicit, Pos::NONE);
        }
        let message = format!(
            "{construct} could not convert type {} to {}",
            types::name(expr.ty),
            types::name(target)
        );
        Err(PlanError::new(SqlState::CANNOT_COERCE, message).at(place::of(&expr)))
    }

    /// The arguments of a function that makes a text of values of any type: those that read as
    /// names, which the catalog knows, come as texts.
    pub(super) fn shown_as_names(&mut self, proc: &Proc, args: Vec<Expr>) -> PlanResult<Vec<Expr>> {
        /// `concat`, `||` and the functions of JSON and arrays with an argument of any type.
        const MADE_TEXTS: [&str; 21] = [
            "anytextcat",
            "array_to_json",
            "array_to_string",
            "concat",
            "concat_ws",
            "format",
            "json_agg",
            "json_agg_strict",
            "json_build_array",
            "json_build_object",
            "json_object_agg",
            "jsonb_agg",
            "jsonb_agg_strict",
            "jsonb_build_array",
            "jsonb_build_object",
            "jsonb_object_agg",
            "quote_literal",
            "quote_nullable",
            "textanycat",
            "to_json",
            "to_jsonb",
        ];
        let made = MADE_TEXTS.contains(&proc.name);
        if !made || !args.iter().any(|arg| arg.ty.has_names()) {
            return Ok(args);
        }
        let as_text = |arg: Expr| {
            let at = arg.at;
            match arg.ty {
                ty if ty.is_named_oid() => {
                    self.coerce(arg, SqlType::Text, CastContext::Explicit, at)
                }
                ty if ty.has_names() => {
                    self.coerce(arg, SqlType::TEXT_ARRAY, CastContext::Explicit, at)
                }
                _ => Ok(arg),
            }
        };
        args.into_iter().map(as_text).collect()
    }

    /// Gives an output column whose type nothing decided the type text.
    pub(super) fn resolve_unknown(&mut self, expr: Expr) -> PlanResult<Expr> {
        if expr.ty == SqlType::Unknown {
            self.coerce(expr, SqlType::Text, CastContext::Implicit, Pos::NONE)
        } else {
            Ok(expr)
        }
    }
}

/// Applies the modifier of `target` to a value of its type.
pub(super) fn apply_modifier(expr: Expr, target: SqlType, context: CastContext, at: Pos) -> Expr {
    if target == expr.ty {
        return expr;
    }
    let arg = Box::new(expr);
    let kind = if has_length_cast(target) {
        ExprKind::Cast {
            arg,
            explicit: context == CastContext::Explicit,
        }
    } else {
        // The value keeps its form; only its modifier is forgotten.
        ExprKind::Relabel(arg)
    };
    Expr {
        kind,
        ty: target,
        at,
    }
}
