//! Expressions as EXPLAIN shows them, in PostgreSQL's words.

use evenkeel_types::{Datum, SqlType, TypeContext};

use crate::bound::{CallExpr, Expr, ExprKind, PartAssignment, SublinkKind, ToDomain, Var};

use super::number::NUMBERED;
use super::ops;
use super::statement::Statement;
use crate::relation::{Relation, SystemColumn};

/// The relations whose columns have names.
enum Named<'s, 'a> {
    /// Those of a statement, by number.
    Statement(&'s Statement<'a>),
    /// One, of which all variables are.
    Relation(&'s Relation),
    /// None: there are no variables.
    Nothing,
}

/// An expression over a table's columns, as `pg_get_expr` and its kin show it.
pub(crate) fn over(relation: &Relation, expr: &Expr, pretty: bool) -> String {
    let deparser = Deparser {
        named: Named::Relation(relation),
        pretty,
        prefix: false,
        scanned: None,
    };
    deparser.expr(expr)
}

/// An expression that looks at no relation, the same way.
pub(crate) fn alone(expr: &Expr, pretty: bool) -> String {
    let deparser = Deparser {
        named: Named::Nothing,
        pretty,
        prefix: false,
        scanned: None,
    };
    deparser.expr(expr)
}

/// Names for the columns of relations.
pub(super) struct Deparser<'s, 'a> {
    named: Named<'s, 'a>,
    /// Whether parentheses that are not needed are left out.
    pretty: bool,
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
            named: Named::Statement(statement),
            pretty: false,
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
            ExprKind::Call(call) | ExprKind::SetCall(call) => self.call(call, expr),
            ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) => {
                format!("{}::{}", self.cast_operand(arg, expr), expr.ty.name())
            }
            ExprKind::And(items) => self.joined(items, " AND ", expr),
            ExprKind::Or(items) => self.joined(items, " OR ", expr),
            ExprKind::Not(arg) => self.whole(format!("NOT {}", self.part(arg, expr, false))),
            ExprKind::IsNull { arg, negated, .. } => {
                let not = if *negated { "NOT " } else { "" };
                self.whole(format!("{} IS {not}NULL", self.part(arg, expr, true)))
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
                self.whole(format!("{} IS {not}{value}", self.part(arg, expr, false)))
            }
            ExprKind::IsDistinct {
                left,
                right,
                negated,
                ..
            } => {
                let not = if *negated { "NOT " } else { "" };
                let (left, right) = (self.part(left, expr, true), self.part(right, expr, true));
                self.whole(format!("{left} IS {not}DISTINCT FROM {right}"))
            }
            ExprKind::AnyAll {
                op,
                all,
                left,
                array,
            } => {
                let name = evenkeel_expr::operator_by_oid(op.oid).map_or("=", |op| op.name);
                let quantifier = if *all { "ALL" } else { "ANY" };
                let (left, array) = (self.part(left, expr, true), self.part(array, expr, false));
                self.whole(format!("{left} {name} {quantifier} ({array})"))
            }
            _ => self.composed(expr),
        }
    }

    fn assigned(&self, part: &PartAssignment) -> String {
        let end = |end: &Option<Expr>| end.as_ref().map_or(String::new(), |e| self.expr(e));
        let ranges = part.ranges.iter();
        let ranges = ranges.map(|(low, high)| match part.slice {
            true => format!("[{}:{}]", end(low), end(high)),
            false => format!("[{}]", end(high)),
        });
        let (array, value) = (self.expr(&part.array), self.expr(&part.value));
        format!("{array}{} := {value}", ranges.collect::<String>())
    }

    fn composed(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Case {
                operand,
                branches,
                otherwise,
            } => self.case(operand.as_deref(), branches, otherwise),
            ExprKind::CaseOperand => "CASE_TEST".to_owned(),
            ExprKind::DomainValue => "VALUE".to_owned(),
            ExprKind::ToDomain(domain) => self.to_domain(domain, expr),
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
            ExprKind::AssignPart(part) => self.assigned(part),
            ExprKind::Row(fields) | ExprKind::NamedRow(_, fields) => {
                format!("ROW({})", self.list(fields))
            }
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

    /// As PostgreSQL has it, which shows no conversion that was not written below one that was.
    fn to_domain(&self, domain: &ToDomain, expr: &Expr) -> String {
        let mut arg = &domain.arg;
        for _ in 0..domain.added {
            if let ExprKind::Cast { arg: inner, .. } | ExprKind::Relabel(inner) = &arg.kind {
                arg = inner;
            }
        }
        match domain.explicit {
            true => {
                let (name, array) = (domain.domain.name(), if domain.each { "[]" } else { "" });
                format!("{}::{name}{array}", self.cast_operand(arg, expr))
            }
            false => self.expr(arg),
        }
    }

    fn case(&self, operand: Option<&Expr>, branches: &[(Expr, Expr)], otherwise: &Expr) -> String {
        // As in PostgreSQL, definitions have it in lines.
        let (begin, line, end) = match self.named {
            Named::Statement(_) => ("CASE", " ", " END"),
            Named::Relation(_) | Named::Nothing => ("\nCASE", "\n    ", "\nEND"),
        };
        let mut text = begin.to_owned();
        if let Some(operand) = operand {
            text = format!("{text} {}", self.expr(operand));
        }
        for (condition, value) in branches {
            let condition = match operand.and_then(|_| compared_operand(condition)) {
                Some(compared) => self.expr(compared),
                None => self.expr(condition),
            };
            let value = self.expr(value);
            text = format!("{text}{line}WHEN {condition} THEN {value}");
        }
        format!("{text}{line}ELSE {}{end}", self.expr(otherwise))
    }

    fn joined(&self, items: &[Expr], with: &str, parent: &Expr) -> String {
        let items = items.iter().map(|item| self.part(item, parent, false));
        let text = items.collect::<Vec<_>>().join(with);
        // A line ends without a blank.
        self.whole(text.replace(&format!("{with}\n"), &format!("{}\n", with.trim_end())))
    }

    /// An operator with its operands, in parentheses unless none but needed ones are shown.
    fn whole(&self, text: String) -> String {
        match self.pretty {
            true => text,
            false => format!("({text})"),
        }
    }

    /// An operand; `operator` if its parent is written as an operator of values.
    fn part(&self, part: &Expr, parent: &Expr, operator: bool) -> String {
        let text = self.expr(part);
        match self.pretty && !is_simple(part, parent, operator) {
            true => format!("({text})"),
            false => text,
        }
    }

    fn list(&self, items: &[Expr]) -> String {
        let items: Vec<String> = items.iter().map(|item| self.expr(item)).collect();
        items.join(", ")
    }

    fn cast_operand(&self, arg: &Expr, cast: &Expr) -> String {
        if self.pretty {
            return self.part(arg, cast, false);
        }
        let text = self.expr(arg);
        let statement = matches!(self.named, Named::Statement(_));
        match statement && text.starts_with('(') {
            true => text,
            false => format!("({text})"),
        }
    }

    fn call(&self, call: &CallExpr, whole: &Expr) -> String {
        if let Some(operator) = ops::operator(call) {
            match call.args.as_slice() {
                [left, right] => {
                    let (left, right) =
                        (self.part(left, whole, true), self.part(right, whole, true));
                    return self.whole(format!("{left} {} {right}", operator.name));
                }
                [right] => {
                    let right = self.part(right, whole, true);
                    return self.whole(format!("{} {right}", operator.name));
                }
                _ => {}
            }
        }
        format!("{}({})", call.proc.name, self.list(&call.args))
    }

    fn var(&self, var: Var) -> String {
        let statement = match self.named {
            Named::Statement(statement) => statement,
            Named::Nothing => return "?".to_owned(),
            Named::Relation(relation) => {
                let column = relation.columns.get(var.column);
                return column.map_or("?".to_owned(), |c| crate::quote::identifier(&c.name));
            }
        };
        if var.depth != NUMBERED {
            return "?".to_owned();
        }
        let Some(rel) = statement.rels.get(var.rel) else {
            return "?".to_owned();
        };
        let column = match (rel.columns.get(var.column), SystemColumn::at(var.column)) {
            (Some(name), _) => name,
            (None, Some(system)) => system.name(),
            (None, None) => "?",
        };
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

/// The name of the operator that an expression is.
/// The other side of a condition of CASE that compares its operand: WHEN has that alone.
fn compared_operand(condition: &Expr) -> Option<&Expr> {
    let ExprKind::Call(call) = &condition.kind else {
        return None;
    };
    ops::operator(call)?;
    let [left, right] = call.args.as_slice() else {
        return None;
    };
    let mut left = left;
    while let ExprKind::Cast {
        arg,
        explicit: false,
    }
    | ExprKind::Relabel(arg) = &left.kind
    {
        left = arg;
    }
    matches!(left.kind, ExprKind::CaseOperand).then_some(right)
}

fn operator_name(expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Call(call) => ops::operator(call).map(|operator| operator.name),
        _ => None,
    }
}

/// Whether an operand is the left one of two.
fn is_left(part: &Expr, parent: &Expr) -> bool {
    match &parent.kind {
        ExprKind::Call(call) => match call.args.as_slice() {
            [left, _] => std::ptr::eq(left, part),
            _ => false,
        },
        _ => false,
    }
}

/// Whether an operand needs no parentheses, by the rules of PostgreSQL's `isSimpleNode`.
fn is_simple(part: &Expr, parent: &Expr, operator: bool) -> bool {
    let joined = |kind: &ExprKind| matches!(kind, ExprKind::And(_) | ExprKind::Or(_));
    match &part.kind {
        ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) => is_simple(arg, part, false),
        ExprKind::ToDomain(domain) => is_simple(&domain.arg, part, false),
        ExprKind::Not(_) | ExprKind::And(_) => joined(&parent.kind),
        ExprKind::Or(_) => matches!(parent.kind, ExprKind::Or(_)),
        ExprKind::Call(call) if ops::operator(call).is_some() => {
            let name = operator_name(part).unwrap_or_default();
            match operator_name(parent) {
                Some(of) if operator => {
                    let first = matches!(name, "*" | "/" | "%");
                    let sums = ["+", "-"];
                    let left = is_left(part, parent);
                    match (first, sums.contains(&name)) {
                        (true, _) if sums.contains(&of) => true,
                        (true, _) => matches!(of, "*" | "/" | "%") && left,
                        (_, true) => sums.contains(&of) && left,
                        _ => false,
                    }
                }
                _ => joined(&parent.kind) || matches!(parent.kind, ExprKind::Not(_)),
            }
        }
        ExprKind::IsNull { .. }
        | ExprKind::IsBool { .. }
        | ExprKind::IsDistinct { .. }
        | ExprKind::RowCompare { .. }
        | ExprKind::Sublink(_) => joined(&parent.kind) || matches!(parent.kind, ExprKind::Not(_)),
        ExprKind::AnyAll { .. } => false,
        _ => true,
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
