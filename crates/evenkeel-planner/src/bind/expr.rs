//! Expressions: the dispatch over their kinds.

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{Datum, Numeric, SqlState, SqlType};

use super::operators::plain;
use super::scope::Place;
use super::{Binder, place, types};
use crate::ast::{self, ExprKind as K, FieldPart, LikeKind, Literal, Name, Operator, Pos};
use crate::bound::{Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

/// A constant.
pub(super) fn constant(value: Datum, ty: SqlType, at: Pos) -> Expr {
    Expr {
        kind: ExprKind::Const(value),
        ty,
        at,
    }
}

/// A boolean expression.
pub(super) fn boolean(kind: ExprKind, at: Pos) -> Expr {
    Expr {
        kind,
        ty: SqlType::Bool,
        at,
    }
}

fn literal(value: &Literal, at: Pos) -> PlanResult<Expr> {
    Ok(match value {
        Literal::Null => constant(Datum::Null, SqlType::Unknown, at),
        Literal::Bool(value) => constant(Datum::Bool(*value), SqlType::Bool, at),
        Literal::Integer(value) => constant(Datum::Int4(*value), SqlType::Int4, at),
        Literal::String(text) => constant(Datum::Text(text.clone()), SqlType::Unknown, at),
        Literal::Number(text) => match text.parse::<i64>() {
            Ok(value) => match i32::try_from(value) {
                Ok(value) => constant(Datum::Int4(value), SqlType::Int4, at),
                Err(_) => constant(Datum::Int8(value), SqlType::Int8, at),
            },
            Err(_) => {
                let value = Numeric::parse(text).map_err(|e| PlanError::from(e).at(at))?;
                constant(Datum::Numeric(value), SqlType::Numeric(None), at)
            }
        },
        Literal::Bits(_) | Literal::HexBits(_) => {
            return Err(PlanError::unsupported("bit strings are not supported").at(at));
        }
    })
}

impl Binder<'_> {
    /// An expression of a clause.
    pub(super) fn bind_in(&mut self, place: Place, expr: &ast::Expr) -> PlanResult<Expr> {
        let before = std::mem::replace(&mut self.scope().place, place);
        let bound = self.bind_expr(expr);
        self.scope().place = before;
        bound
    }

    /// A condition of a clause.
    pub(super) fn bind_condition(
        &mut self,
        place: Place,
        clause: &str,
        expr: &ast::Expr,
    ) -> PlanResult<Expr> {
        let bound = self.bind_in(place, expr)?;
        self.coerce_to_boolean(bound, clause)
    }

    /// An expression.
    pub(super) fn bind_expr(&mut self, expr: &ast::Expr) -> PlanResult<Expr> {
        self.deeper(|binder| binder.bind_kind(expr))
    }

    fn bind_kind(&mut self, expr: &ast::Expr) -> PlanResult<Expr> {
        let at = expr.at;
        match &expr.kind {
            K::Literal(value) => literal(value, at),
            K::Param(number) => {
                let (index, ty) = self.params.mention(*number, at)?;
                self.param(index, ty, at)
            }
            K::Column(parts) => self.bind_column_or_row(parts, at),
            K::Field { base, field } => match field {
                FieldPart::Name(name) => {
                    let row = self.bind_expr(base)?;
                    self.bind_field(row, name, at)
                }
                FieldPart::Star(_) => {
                    let message = "row expansion via \"*\" is not supported here";
                    Err(PlanError::unsupported(message).at(place::of_ast(base)))
                }
            },
            K::Subscript { base, subscripts } => self.bind_subscript(base, subscripts, at),
            K::Cast { arg, ty } => self.bind_cast(arg, ty, at),
            K::Collate { arg, collation } => self.bind_collate(arg, collation, at),
            K::AtTimeZone { arg, zone } => self.bind_at_time_zone(arg, zone.as_deref(), at),
            K::Op { op, left, right } => self.bind_op(op, left.as_deref(), right, at),
            K::AnyAll {
                op,
                all,
                left,
                array,
            } => {
                let left = self.bind_expr(left)?;
                let array = self.bind_expr(array)?;
                self.make_any_all(op, *all, left, array, at)
            }
            K::Not(arg) => {
                let arg = self.bind_expr(arg)?;
                let arg = self.coerce_to_boolean(arg, "NOT")?;
                Ok(boolean(ExprKind::Not(Box::new(arg)), at))
            }
            K::And(args) => Ok(boolean(ExprKind::And(self.conditions(args, "AND")?), at)),
            K::Or(args) => Ok(boolean(ExprKind::Or(self.conditions(args, "OR")?), at)),
            _ => self.bind_construct(expr),
        }
    }

    /// The kinds that are syntax of their own.
    fn bind_construct(&mut self, expr: &ast::Expr) -> PlanResult<Expr> {
        let at = expr.at;
        match &expr.kind {
            K::IsNull { arg, negated } => {
                let arg = self.bind_expr(arg)?;
                let row = arg.ty == SqlType::Record;
                Ok(boolean(
                    ExprKind::IsNull {
                        arg: Box::new(arg),
                        negated: *negated,
                        row,
                    },
                    at,
                ))
            }
            K::IsBool {
                arg,
                value,
                negated,
            } => self.bind_is_bool(arg, *value, *negated, at),
            K::IsDistinct {
                left,
                right,
                negated,
            } => self.bind_is_distinct(left, right, *negated, at),
            K::IsNormalized { arg, form, negated } => {
                let mut args = vec![self.bind_expr(arg)?];
                if let Some(form) = form {
                    let form = Datum::Text(form.clone());
                    args.push(constant(form, SqlType::Unknown, Pos::NONE));
                }
                let call = self.call_system("is_normalized", args, at)?;
                Ok(negate(call, *negated, at))
            }
            _ => self.bind_syntax(expr),
        }
    }

    /// The kinds that look like functions, and the rest.
    fn bind_syntax(&mut self, expr: &ast::Expr) -> PlanResult<Expr> {
        let at = expr.at;
        match &expr.kind {
            K::Like { .. } => self.bind_like(&expr.kind, at),
            K::Between { .. } => self.bind_between(&expr.kind, at),
            K::InList { arg, list, negated } => self.bind_in_list(arg, list, *negated, at),
            K::Call(call) => self.bind_call(call, at),
            K::Coalesce(args) => self.bind_coalesce(args, at),
            K::Greatest(args) => self.bind_extreme(true, args, at),
            K::Least(args) => self.bind_extreme(false, args, at),
            K::NullIf(left, right) => {
                let left = self.bind_expr(left)?;
                let right = self.bind_expr(right)?;
                let (equal, left, right) = self.equality(left, right, "NULLIF", at)?;
                let ty = left.ty;
                let kind = ExprKind::NullIf {
                    equal,
                    left: Box::new(left),
                    right: Box::new(right),
                };
                Ok(Expr { kind, ty, at })
            }
            K::Case {
                operand,
                branches,
                otherwise,
            } => self.bind_case(operand.as_deref(), branches, otherwise.as_deref(), at),
            K::Row { fields, .. } => {
                let fields = self.bind_list(fields)?;
                let mut resolved = Vec::with_capacity(fields.len());
                for field in fields {
                    // A parameter keeps waiting for what decides its type.
                    resolved.push(match field.kind {
                        ExprKind::Param(_) => field,
                        _ => self.resolve_unknown(field)?,
                    });
                }
                Ok(Expr {
                    kind: ExprKind::Row(resolved),
                    ty: SqlType::Record,
                    at,
                })
            }
            K::Array(items) => self.bind_array(items, None, at),
            K::Sublink(sublink) => self.bind_sublink(sublink, at),
            K::Grouping(args) => self.bind_grouping(args, at),
            K::SqlValue(value, precision) => self.bind_sql_value(*value, *precision, at),
            K::Default => {
                let message = "DEFAULT is not allowed in this context";
                Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at))
            }
            K::MergeAction => self.bind_merge_action(at),
            K::IsJson { .. } => self.bind_is_json(&expr.kind, at),
            K::Json(json) => self.bind_json(json, at),
            K::CurrentOf(_) => {
                Err(PlanError::unsupported("WHERE CURRENT OF is not supported").at(at))
            }
            K::Unsupported(what) => {
                Err(PlanError::unsupported(format!("{what} is not supported")).at(at))
            }
            _ => Err(PlanError::new(
                SqlState::INTERNAL_ERROR,
                "an expression of an unknown kind",
            )),
        }
    }

    fn bind_column_or_row(&mut self, parts: &[FieldPart], at: Pos) -> PlanResult<Expr> {
        let Some((FieldPart::Star(star), before)) = parts.split_last() else {
            return self.bind_column(parts, at);
        };
        if before.is_empty() {
            let message = "row expansion via \"*\" is not supported here";
            return Err(PlanError::unsupported(message).at(*star));
        }
        self.bind_table_row(before, at)
    }

    fn conditions(&mut self, args: &[ast::Expr], clause: &str) -> PlanResult<Vec<Expr>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let arg = self.bind_expr(arg)?;
            bound.push(self.coerce_to_boolean(arg, clause)?);
        }
        Ok(bound)
    }

    fn bind_cast(&mut self, arg: &ast::Expr, ty: &ast::TypeName, at: Pos) -> PlanResult<Expr> {
        let target = self.bind_type(ty)?;
        let at = if at == Pos::NONE { ty.at } else { at };
        let arg = match (&arg.kind, target.element()) {
            (K::Array(items), Some(_)) => self.bind_array(items, Some(target.base()), arg.at)?,
            _ => self.bind_expr(arg)?,
        };
        self.cast_explicitly(arg, target, at)
    }

    /// `CAST(arg AS target)`
    pub(super) fn cast_explicitly(
        &mut self,
        arg: Expr,
        target: SqlType,
        at: Pos,
    ) -> PlanResult<Expr> {
        let from = arg.ty;
        match self.coerce_to_target(arg, target, CastContext::Explicit, at)? {
            Some(expr) => Ok(expr),
            None => {
                let message = format!(
                    "cannot cast type {} to {}",
                    types::name(from),
                    types::name(target)
                );
                Err(PlanError::new(SqlState::CANNOT_COERCE, message).at(at))
            }
        }
    }

    fn bind_collate(
        &mut self,
        arg: &ast::Expr,
        collation: &ast::QualifiedName,
        at: Pos,
    ) -> PlanResult<Expr> {
        let arg = self.bind_expr(arg)?;
        let element = arg.ty.element().unwrap_or(arg.ty);
        let collatable = matches!(
            element,
            SqlType::Text
                | SqlType::Varchar(_)
                | SqlType::Char(_)
                | SqlType::Name
                | SqlType::Unknown
        );
        if !collatable {
            let message = format!(
                "collations are not supported by type {}",
                types::name(arg.ty)
            );
            return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        match (collation.schema(), collation.last()) {
            (None | Some("pg_catalog"), "C" | "POSIX" | "default") => Ok(arg),
            (None | Some("pg_catalog"), "ucs_basic" | "unicode" | "pg_c_utf8") => {
                let message = format!("collation \"{}\" is not supported", collation.last());
                Err(PlanError::unsupported(message).at(at))
            }
            (Some(schema), _) if !self.catalog.schema_exists(schema) => {
                Err(self.no_schema(schema, at))
            }
            _ => {
                let message = format!(
                    "collation \"{}\" for encoding \"UTF8\" does not exist",
                    collation.display()
                );
                Err(PlanError::new(SqlState::UNDEFINED_OBJECT, message).at(at))
            }
        }
    }

    fn bind_at_time_zone(
        &mut self,
        arg: &ast::Expr,
        zone: Option<&ast::Expr>,
        at: Pos,
    ) -> PlanResult<Expr> {
        let mut args = Vec::with_capacity(2);
        if let Some(zone) = zone {
            args.push(self.bind_expr(zone)?);
        }
        args.push(self.bind_expr(arg)?);
        self.call_system("timezone", args, at)
    }

    pub(super) fn bind_op(
        &mut self,
        op: &Operator,
        left: Option<&ast::Expr>,
        right: &ast::Expr,
        at: Pos,
    ) -> PlanResult<Expr> {
        if let Some(left) = left
            && let K::Row { fields: a, .. } = &left.kind
        {
            match &right.kind {
                K::Row { fields: b, .. } => {
                    let a = self.bind_list(a)?;
                    let b = self.bind_list(b)?;
                    return self.compare_rows(op, a, b, at);
                }
                K::Sublink(sublink) if sublink.kind == ast::SublinkKind::Scalar => {
                    return self.bind_row_sublink(op, left, &sublink.query, at);
                }
                _ => {}
            }
        }
        let left = left.map(|left| self.bind_expr(left)).transpose()?;
        let right = self.bind_expr(right)?;
        self.make_op(op, left, right, at)
    }

    fn bind_like(&mut self, kind: &K, at: Pos) -> PlanResult<Expr> {
        let K::Like {
            kind,
            negated,
            arg,
            pattern,
            escape,
        } = kind
        else {
            return Err(PlanError::new(SqlState::INTERNAL_ERROR, "no LIKE"));
        };
        let symbol = match (kind, negated) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::ILike, false) => "~~*",
            (LikeKind::ILike, true) => "!~~*",
            (LikeKind::Similar, false) => "~",
            (LikeKind::Similar, true) => "!~",
        };
        if escape.is_none() && *kind != LikeKind::Similar {
            return self.bind_op(&plain(symbol), Some(arg), pattern, at);
        }
        let arg = self.bind_expr(arg)?;
        let mut args = vec![self.bind_expr(pattern)?];
        if let Some(escape) = escape {
            args.push(self.bind_expr(escape)?);
        }
        let function = match kind {
            LikeKind::Similar => "similar_to_escape",
            LikeKind::Like | LikeKind::ILike => "like_escape",
        };
        let pattern = self.call_system(function, args, at)?;
        self.make_op(&plain(symbol), Some(arg), pattern, at)
    }

    /// 3F000
    pub(super) fn no_schema(&self, schema: &str, at: Pos) -> PlanError {
        super::names::no_schema(schema, at)
    }

    /// A call of a function of `pg_catalog` that syntax stands for.
    pub(super) fn call_system(&mut self, name: &str, args: Vec<Expr>, at: Pos) -> PlanResult<Expr> {
        let part = |text: &str| Name {
            text: text.to_owned(),
            at,
        };
        let call = ast::Call {
            name: ast::QualifiedName {
                parts: vec![part("pg_catalog"), part(name)],
            },
            args: Vec::new(),
            star: false,
            distinct: false,
            variadic: false,
            order_by: Vec::new(),
            within_group: false,
            filter: None,
            over: None,
            special: true,
        };
        let seen = self.scope().set_calls_seen;
        self.bind_call_of(&call, args, seen, at)
    }
}

/// `NOT expr`, if asked for.
pub(super) fn negate(expr: Expr, negated: bool, at: Pos) -> Expr {
    if negated {
        boolean(ExprKind::Not(Box::new(expr)), at)
    } else {
        expr
    }
}
