//! Expressions as EXPLAIN shows them, in PostgreSQL's words.

use evenkeel_types::{Datum, SqlType, TypeContext};

use crate::bound::{CallExpr, Expr, ExprKind, SublinkKind, Var};

use super::number::NUMBERED;
use super::ops;
use super::statement::Statement;

/// Names for the columns of a statement's relations.
pub(super) struct Deparser<'s, 'a> {
    statement: &'s Statement<'a>,
    /// Whether columns are shown with their relation's name: there is more than one.
    prefix: bool,
    /// The relation whose rows a scan gives: in its conditions its columns have no prefix, all
    /// others have.
    pub(super) scanned: Option<usize>,
}

impl<'s, 'a> Deparser<'s, 'a> {
    pub(super) fn new(statement: &'s Statement<'a>) -> Deparser<'s, 'a> {
        let named = statement.rels.iter().filter(|rel| !rel.columns.is_empty());
        Deparser {
            statement,
            prefix: named.count() > 1,
            scanned: None,
        }
    }

    /// An expression; operators stand in parentheses.
    pub(super) fn expr(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Const(value) => constant(value, expr.ty),
            ExprKind::Param(number) => format!("${}", number + 1),
            ExprKind::Var(var) => self.var(*var),
            ExprKind::Call(call) | ExprKind::SetCall(call) => self.call(call),
            ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) => {
                format!("{}::{}", self.cast_operand(arg), expr.ty.name())
            }
            ExprKind::And(items) => self.joined(items, " AND "),
            ExprKind::Or(items) => self.joined(items, " OR "),
            ExprKind::Not(arg) => format!("(NOT {})", self.expr(arg)),
            ExprKind::IsNull { arg, negated, .. } => {
                let not = if *negated { "NOT " } else { "" };
                format!("({} IS {not}NULL)", self.expr(arg))
            }
            ExprKind::IsBool {
                arg,
                value,
                negated,
            } => {
                let not = if *negated { "NOT " } else { "" };
                let value = match value {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                format!("({} IS {not}{value})", self.expr(arg))
            }
            ExprKind::IsDistinct {
                left,
                right,
                negated,
                ..
            } => {
                let not = if *negated { "NOT " } else { "" };
                let (left, right) = (self.expr(left), self.expr(right));
                format!("({left} IS {not}DISTINCT FROM {right})")
            }
            ExprKind::AnyAll {
                op,
                all,
                left,
                array,
            } => {
                let name = evenkeel_expr::operator_by_oid(op.oid).map_or("=", |op| op.name);
                let quantifier = if *all { "ALL" } else { "ANY" };
                let (left, array) = (self.expr(left), self.expr(array));
                format!("({left} {name} {quantifier} ({array}))")
            }
            _ => self.composed(expr),
        }
    }

    fn composed(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Case {
                operand,
                branches,
                otherwise,
            } => self.case(operand.as_deref(), branches, otherwise),
            ExprKind::CaseOperand => "CASE_TEST".to_owned(),
            ExprKind::Coalesce(items) => format!("COALESCE({})", self.list(items)),
            ExprKind::Extreme { greatest, args } => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", self.list(args))
            }
            ExprKind::NullIf { left, right, .. } => {
                format!("NULLIF({}, {})", self.expr(left), self.expr(right))
            }
            ExprKind::Array { items, .. } => format!("ARRAY[{}]", self.list(items)),
            ExprKind::Subscript { array, indexes } => {
                let indexes: Vec<String> = indexes.iter().map(|index| self.expr(index)).collect();
                format!("({})[{}]", self.expr(array), indexes.join("]["))
            }
            ExprKind::Slice { array, ranges } => {
                let end = |end: &Option<Expr>| end.as_ref().map_or(String::new(), |e| self.expr(e));
                let ranges = ranges.iter();
                let ranges = ranges.map(|(low, high)| format!("[{}:{}]", end(low), end(high)));
                format!("({}){}", self.expr(array), ranges.collect::<String>())
            }
            ExprKind::Row(fields) => format!("ROW({})", self.list(fields)),
            ExprKind::Field { row, field } => format!("({}).f{}", self.expr(row), field + 1),
            ExprKind::RowCompare { pairs, .. } => {
                let left: Vec<String> = pairs.iter().map(|pair| self.expr(&pair.0)).collect();
                let right: Vec<String> = pairs.iter().map(|pair| self.expr(&pair.1)).collect();
                format!("(ROW({}) < ROW({}))", left.join(", "), right.join(", "))
            }
            ExprKind::Sublink(sublink) => match sublink.kind {
                SublinkKind::Exists => "EXISTS(SubPlan)".to_owned(),
                SublinkKind::Any(_) => "(ANY (SubPlan))".to_owned(),
                SublinkKind::All(_) => "(ALL (SubPlan))".to_owned(),
                SublinkKind::Scalar | SublinkKind::Array => "(SubPlan)".to_owned(),
            },
            ExprKind::Aggregate(aggregate) => {
                let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
                let args = match aggregate.args.is_empty() {
                    true => "*".to_owned(),
                    false => self.list(&aggregate.args),
                };
                format!("{}({distinct}{args})", aggregate.proc.name)
            }
            ExprKind::Window(window) => {
                format!(
                    "{}({}) OVER w{}",
                    window.proc.name,
                    self.list(&window.args),
                    window.window
                )
            }
            ExprKind::Grouping(groups) => format!("GROUPING({})", groups.len()),
            _ => "?".to_owned(),
        }
    }

    fn case(&self, operand: Option<&Expr>, branches: &[(Expr, Expr)], otherwise: &Expr) -> String {
        let mut text = "CASE".to_owned();
        if let Some(operand) = operand {
            text = format!("{text} {}", self.expr(operand));
        }
        for (condition, value) in branches {
            let (condition, value) = (self.expr(condition), self.expr(value));
            text = format!("{text} WHEN {condition} THEN {value}");
        }
        format!("{text} ELSE {} END", self.expr(otherwise))
    }

    fn joined(&self, items: &[Expr], with: &str) -> String {
        let items: Vec<String> = items.iter().map(|item| self.expr(item)).collect();
        format!("({})", items.join(with))
    }

    fn list(&self, items: &[Expr]) -> String {
        let items: Vec<String> = items.iter().map(|item| self.expr(item)).collect();
        items.join(", ")
    }

    fn cast_operand(&self, arg: &Expr) -> String {
        let text = self.expr(arg);
        match text.starts_with('(') {
            true => text,
            false => format!("({text})"),
        }
    }

    fn call(&self, call: &CallExpr) -> String {
        if let Some(operator) = ops::operator(call) {
            match call.args.as_slice() {
                [left, right] => {
                    let (left, right) = (self.expr(left), self.expr(right));
                    return format!("({left} {} {right})", operator.name);
                }
                [right] => return format!("({} {})", operator.name, self.expr(right)),
                _ => {}
            }
        }
        format!("{}({})", call.proc.name, self.list(&call.args))
    }

    fn var(&self, var: Var) -> String {
        if var.depth != NUMBERED {
            return "?".to_owned();
        }
        let Some(rel) = self.statement.rels.get(var.rel) else {
            return "?".to_owned();
        };
        let column = rel.columns.get(var.column).map_or("?", |name| name);
        let column = crate::quote::identifier(column);
        let prefix = match self.scanned {
            Some(scanned) => scanned != var.rel,
            None => self.prefix,
        };
        match prefix && !rel.alias.is_empty() {
            true => format!("{}.{column}", crate::quote::identifier(&rel.alias)),
            false => column,
        }
    }
}

/// A constant with the type that it would not have by itself.
fn constant(value: &Datum, ty: SqlType) -> String {
    match value {
        Datum::Null => format!("NULL::{}", ty.name()),
        Datum::Bool(value) => value.to_string(),
        Datum::Int4(value) if *value >= 0 => value.to_string(),
        Datum::Numeric(value) if value.is_finite() && ty.typmod() == -1 => {
            let text = value.to_string();
            match text.contains('.') && !text.starts_with('-') {
                true => text,
                false => format!("'{text}'::numeric"),
            }
        }
        _ => {
            let text = value.to_text(ty, &TypeContext::default());
            format!("'{}'::{}", text.replace('\'', "''"), ty.name())
        }
    }
}
