//! `c_expr` of the grammar: constants, names, parentheses, CASE, rows, arrays and subqueries.

use super::cursor::{Indirection, Parser};
use super::expr::{Grammar, Level, node, system_name};
use super::keywords::Kw;
use super::token::Tok;
use super::xml::unsupported;
use crate::ast::{
    Argument, Call, Expr, ExprKind, FieldPart, Literal, Pos, QualifiedName, Query, Sublink,
    SublinkKind, Subscript,
};
use crate::error::{PlanError, PlanResult};
use evenkeel_types::SqlState;

/// A row of OVERLAPS has two fields.
const PERIOD: usize = 2;

impl Parser<'_> {
    /// An operand without operators.
    pub(super) fn primary(&mut self, grammar: Grammar) -> PlanResult<Expr> {
        let at = self.pos();
        let kind = match self.peek() {
            Tok::Integer => {
                let value = self.number() as i32;
                ExprKind::Literal(Literal::Integer(value))
            }
            Tok::Number => ExprKind::Literal(Literal::Number(self.value())),
            Tok::Str => ExprKind::Literal(Literal::String(self.value())),
            Tok::Bits => ExprKind::Literal(Literal::Bits(self.value())),
            Tok::HexBits => ExprKind::Literal(Literal::HexBits(self.value())),
            Tok::Param => {
                let kind = ExprKind::Param(self.number());
                self.bump();
                return self.with_indirection(node(kind, at));
            }
            Tok::Char(b'(') => return self.parenthesis(grammar),
            Tok::Ident => return self.named(),
            Tok::Key(keyword) => return self.keyword(keyword, grammar),
            _ => return Err(self.unexpected()),
        };
        self.bump();
        Ok(node(kind, at))
    }

    /// An operand that begins with a keyword.
    fn keyword(&mut self, keyword: Kw, grammar: Grammar) -> PlanResult<Expr> {
        let at = self.pos();
        let literal = match keyword {
            Kw::Null => Literal::Null,
            Kw::True => Literal::Bool(true),
            Kw::False => Literal::Bool(false),
            Kw::Default if grammar == Grammar::Full => {
                self.bump();
                return Ok(node(ExprKind::Default, at));
            }
            Kw::Unique if grammar == Grammar::Full => {
                self.bump();
                if self.accept_key(Kw::Nulls) {
                    self.accept_key(Kw::Not);
                    self.expect_key(Kw::Distinct)?;
                }
                self.query_in_parentheses()?;
                let message = "UNIQUE predicate is not yet implemented";
                return Err(PlanError::unsupported(message).at(at));
            }
            Kw::Case => return self.case(),
            Kw::Array => {
                self.bump();
                return self.array(at);
            }
            _ => return self.word_operand(keyword, grammar),
        };
        self.bump();
        Ok(node(ExprKind::Literal(literal), at))
    }

    fn word_operand(&mut self, keyword: Kw, grammar: Grammar) -> PlanResult<Expr> {
        let at = self.pos();
        let parenthesis = self.peek_at(1) == Tok::Char(b'(');
        match keyword {
            Kw::Exists if parenthesis => {
                self.bump();
                let query = self.query_in_parentheses()?;
                let kind = SublinkKind::Exists;
                let sublink = Box::new(Sublink { kind, query });
                return Ok(node(ExprKind::Sublink(sublink), at));
            }
            Kw::Row if parenthesis => {
                let fields = self.explicit_row()?;
                return self.row(fields, true, at, grammar);
            }
            Kw::Grouping if parenthesis => {
                self.bump();
                let list = self.exprs_in_parentheses()?;
                return Ok(node(ExprKind::Grouping(list), at));
            }
            _ => {}
        }
        if self.is_typed_constant(keyword) {
            return self.typed_constant();
        }
        match self.special_call(keyword)? {
            Some(_) if matches!(keyword, Kw::JsonObjectagg | Kw::JsonArrayagg) => {
                let name = system_name(keyword.text(), at);
                self.filter_and_over(&mut plain_call(name, Vec::new()))?;
                Ok(unsupported(&keyword.text().to_ascii_uppercase(), at))
            }
            Some(call) => Ok(call),
            None => self.named(),
        }
    }

    /// `ROW (…)`: its fields.
    fn explicit_row(&mut self) -> PlanResult<Vec<Expr>> {
        self.expect_key(Kw::Row)?;
        self.expect_char(b'(')?;
        if self.accept_char(b')') {
            return Ok(Vec::new());
        }
        let fields = self.exprs()?;
        self.expect_char(b')')?;
        Ok(fields)
    }

    /// A row, or the period at the left of OVERLAPS.
    fn row(
        &mut self,
        fields: Vec<Expr>,
        explicit: bool,
        at: Pos,
        grammar: Grammar,
    ) -> PlanResult<Expr> {
        if grammar == Grammar::Basic || !self.accept_key(Kw::Overlaps) {
            return Ok(node(ExprKind::Row { fields, explicit }, at));
        }
        let right_at = self.pos();
        let right = if self.is_key(Kw::Row) {
            self.explicit_row()?
        } else {
            self.expect_char(b'(')?;
            let mut right = vec![self.expr()?];
            self.expect_char(b',')?;
            right.extend(self.exprs()?);
            self.expect_char(b')')?;
            right
        };
        for (side, list, place) in [("left", &fields, at), ("right", &right, right_at)] {
            if list.len() != PERIOD {
                let message =
                    format!("wrong number of parameters on {side} side of OVERLAPS expression");
                return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(place));
            }
        }
        let args = fields.into_iter().chain(right).collect();
        Ok(special(system_name("overlaps", at), args, at))
    }

    /// `(…)`: an expression, a row or a subquery.
    fn parenthesis(&mut self, grammar: Grammar) -> PlanResult<Expr> {
        let at = self.expect_char(b'(')?;
        let inner = self.query_or_exprs()?;
        self.expect_char(b')')?;
        self.parenthesised(inner, at, grammar)
    }

    /// Makes an operand of what stood in the parentheses that began at `at`.
    fn parenthesised(
        &mut self,
        inner: Result<Query, Vec<Expr>>,
        at: Pos,
        grammar: Grammar,
    ) -> PlanResult<Expr> {
        let base = match inner {
            Ok(query) => {
                let kind = SublinkKind::Scalar;
                node(ExprKind::Sublink(Box::new(Sublink { kind, query })), at)
            }
            Err(mut list) => match list.pop() {
                Some(only) if list.is_empty() => only,
                last => {
                    list.extend(last);
                    return self.row(list, false, at, grammar);
                }
            },
        };
        self.with_indirection(base)
    }

    /// A query or a list of expressions, behind a parenthesis. Parentheses around a query alone
    /// belong to the query.
    pub(super) fn query_or_exprs(&mut self) -> PlanResult<Result<Query, Vec<Expr>>> {
        let first = match self.query_or_first()? {
            Ok(query) => return Ok(Ok(query)),
            Err(first) => first,
        };
        let mut list = vec![first];
        while self.accept_char(b',') {
            list.push(self.expr()?);
        }
        Ok(Err(list))
    }

    /// A query or an expression, behind a parenthesis.
    pub(super) fn query_or_first(&mut self) -> PlanResult<Result<Query, Expr>> {
        if self.is_query_start() {
            return Ok(Ok(self.query()?));
        }
        if !self.is_char(b'(') {
            return Ok(Err(self.expr()?));
        }
        let at = self.bump();
        let inner = self.deeper(Self::query_or_exprs)?;
        self.expect_char(b')')?;
        let inner = match inner {
            Ok(query) if self.is_char(b')') => return Ok(Ok(query)),
            Ok(query) if self.is_query_continuation() => {
                return Ok(Ok(self.query_after(query)?));
            }
            inner => inner,
        };
        let operand = self.parenthesised(inner, at, Grammar::Full)?;
        Ok(Err(self.infix(operand, Level::Any, Grammar::Full)?))
    }

    fn case(&mut self) -> PlanResult<Expr> {
        let at = self.bump();
        let operand = if self.is_key(Kw::When) {
            None
        } else {
            Some(Box::new(self.expr()?))
        };
        let mut branches = Vec::new();
        while branches.is_empty() || self.is_key(Kw::When) {
            self.expect_key(Kw::When)?;
            let when = self.expr()?;
            self.expect_key(Kw::Then)?;
            branches.push((when, self.expr()?));
        }
        let otherwise = if self.accept_key(Kw::Else) {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_key(Kw::End)?;
        let kind = ExprKind::Case {
            operand,
            branches,
            otherwise,
        };
        Ok(node(kind, at))
    }

    /// Behind ARRAY: a subquery, or elements in brackets.
    fn array(&mut self, at: Pos) -> PlanResult<Expr> {
        if self.is_char(b'(') {
            let query = self.query_in_parentheses()?;
            let kind = SublinkKind::Array;
            let sublink = Box::new(Sublink { kind, query });
            return Ok(node(ExprKind::Sublink(sublink), at));
        }
        self.elements(at)
    }

    /// `[…]`: expressions, or more brackets, but not both.
    fn elements(&mut self, at: Pos) -> PlanResult<Expr> {
        self.expect_char(b'[')?;
        if self.accept_char(b']') {
            return Ok(node(ExprKind::Array(Vec::new()), at));
        }
        let list = if self.is_char(b'[') {
            self.list(|parser| {
                let at = parser.pos();
                parser.deeper(|parser| parser.elements(at))
            })?
        } else {
            self.exprs()?
        };
        self.expect_char(b']')?;
        Ok(node(ExprKind::Array(list), at))
    }

    /// [`Self::indirection`] in which a star is the last.
    pub(super) fn checked_indirection(&mut self) -> PlanResult<Vec<Indirection>> {
        let parts = self.indirection()?;
        let is_star = |part: &Indirection| matches!(part, Indirection::Field(FieldPart::Star(_)));
        let star = parts.iter().position(is_star);
        if star.is_some_and(|star| star + 1 < parts.len()) {
            return Err(self.near("improper use of \"*\""));
        }
        Ok(parts)
    }

    /// Reads the indirections after a name: `.field`, `.*`, `[i]`.
    pub(super) fn indirection(&mut self) -> PlanResult<Vec<Indirection>> {
        let mut parts = Vec::new();
        loop {
            if self.accept_char(b'.') {
                if self.is_char(b'*') {
                    let at = self.bump();
                    parts.push(Indirection::Field(FieldPart::Star(at)));
                } else {
                    let name = self.col_label()?;
                    parts.push(Indirection::Field(FieldPart::Name(name)));
                }
            } else if self.accept_char(b'[') {
                parts.push(Indirection::Subscript(self.subscript()?));
            } else {
                break;
            }
        }
        Ok(parts)
    }

    /// Behind `[`.
    fn subscript(&mut self) -> PlanResult<Subscript> {
        let mut bound = |end: u8| {
            if self.is_char(end) || self.is_char(b':') {
                Ok(None)
            } else {
                self.expr().map(Some)
            }
        };
        let lower = bound(b':')?;
        if self.accept_char(b':') {
            let upper = if self.is_char(b']') {
                None
            } else {
                Some(self.expr()?)
            };
            self.expect_char(b']')?;
            let slice = true;
            return Ok(Subscript {
                slice,
                lower,
                upper,
            });
        }
        if lower.is_none() {
            return Err(self.unexpected());
        }
        self.expect_char(b']')?;
        Ok(Subscript {
            slice: false,
            lower: None,
            upper: lower,
        })
    }

    fn with_indirection(&mut self, base: Expr) -> PlanResult<Expr> {
        if !matches!(self.peek(), Tok::Char(b'.' | b'[')) {
            return Ok(base);
        }
        let parts = self.checked_indirection()?;
        Ok(indirect(base, parts))
    }

    /// A column, a call, or a constant whose type is named before it.
    fn named(&mut self) -> PlanResult<Expr> {
        let first = self.peek();
        let next = self.peek_at(1);
        let direct = matches!(next, Tok::Char(b'(') | Tok::Str);
        if Self::is_function_name(first) && (direct || !Self::is_col_id(first)) {
            let name = self.take_name();
            let name = QualifiedName { parts: vec![name] };
            return self.call_or_constant(name);
        }
        let name = self.col_id()?;
        let at = name.at;
        let parts = self.checked_indirection()?;
        let is_name = |part: &Indirection| matches!(part, Indirection::Field(FieldPart::Name(_)));
        let may_call = !parts.is_empty() && parts.iter().all(is_name);
        if may_call && matches!(self.peek(), Tok::Char(b'(') | Tok::Str) {
            let mut names = vec![name];
            for part in parts {
                if let Indirection::Field(FieldPart::Name(name)) = part {
                    names.push(name);
                }
            }
            return self.call_or_constant(QualifiedName { parts: names });
        }
        let mut fields = vec![FieldPart::Name(name)];
        let mut parts = parts.into_iter().peekable();
        while let Some(Indirection::Field(field)) =
            parts.next_if(|part| matches!(part, Indirection::Field(_)))
        {
            fields.push(field);
        }
        let column = node(ExprKind::Column(fields), at);
        Ok(indirect(column, parts))
    }
}

/// `base` with fields and subscripts after it; subscripts in a row are one node.
fn indirect(base: Expr, parts: impl IntoIterator<Item = Indirection>) -> Expr {
    let mut expr = base;
    for part in parts {
        let at = expr.at;
        let kind = match (part, expr.kind) {
            (Indirection::Field(field), kind) => ExprKind::Field {
                base: Box::new(node(kind, at)),
                field,
            },
            (
                Indirection::Subscript(subscript),
                ExprKind::Subscript {
                    base,
                    mut subscripts,
                },
            ) => {
                subscripts.push(subscript);
                ExprKind::Subscript { base, subscripts }
            }
            (Indirection::Subscript(subscript), kind) => ExprKind::Subscript {
                base: Box::new(node(kind, at)),
                subscripts: vec![subscript],
            },
        };
        expr = node(kind, at);
    }
    expr
}

/// A call that syntax of its own stands for.
pub(super) fn special(name: QualifiedName, args: Vec<Expr>, at: Pos) -> Expr {
    let args = args.into_iter().map(argument).collect();
    let mut call = plain_call(name, args);
    call.special = true;
    node(ExprKind::Call(Box::new(call)), at)
}

pub(super) fn argument(value: Expr) -> Argument {
    Argument { name: None, value }
}

pub(super) fn plain_call(name: QualifiedName, args: Vec<Argument>) -> Call {
    Call {
        name,
        args,
        star: false,
        distinct: false,
        variadic: false,
        order_by: Vec::new(),
        within_group: false,
        filter: None,
        over: None,
        special: false,
    }
}
