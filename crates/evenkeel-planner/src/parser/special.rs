//! `func_expr_common_subexpr` of the grammar: what looks like a function and has syntax of its
//! own. It becomes the call that PostgreSQL's grammar makes of it.

use super::cursor::Parser;
use super::expr::{Stop, node, system_name};
use super::keywords::Kw;
use super::primary::{argument, plain_call, special};
use super::token::Tok;
use super::types::integer;
use crate::ast::{Argument, Expr, ExprKind, Literal, Name, Pos, QualifiedName, SqlValue, TypeName};
use crate::error::PlanResult;

impl Parser<'_> {
    /// The expression that a keyword begins, if it begins one with syntax of its own.
    pub(super) fn special_call(&mut self, keyword: Kw) -> PlanResult<Option<Expr>> {
        let at = self.pos();
        if let Some((value, precision)) = sql_value(keyword) {
            // `current_schema()` is a function.
            if keyword == Kw::CurrentSchema && self.peek_at(1) == Tok::Char(b'(') {
                return Ok(None);
            }
            self.bump();
            let digits = if precision && self.accept_char(b'(') {
                let digits = self.integer()?;
                self.expect_char(b')')?;
                Some(digits)
            } else {
                None
            };
            return Ok(Some(node(ExprKind::SqlValue(value, digits), at)));
        }
        match keyword {
            Kw::SystemUser => {
                self.bump();
                return Ok(Some(special(
                    system_name("system_user", at),
                    Vec::new(),
                    at,
                )));
            }
            Kw::Cast => {
                self.bump();
                let (arg, ty) = self.arg_as_type()?;
                let arg = Box::new(arg);
                return Ok(Some(node(ExprKind::Cast { arg, ty }, at)));
            }
            Kw::Collation if self.peek_at(1) == Tok::Key(Kw::For) => {
                self.bump();
                self.bump();
                self.expect_char(b'(')?;
                let arg = self.expr()?;
                self.expect_char(b')')?;
                return Ok(Some(special(
                    system_name("pg_collation_for", at),
                    vec![arg],
                    at,
                )));
            }
            _ if self.peek_at(1) != Tok::Char(b'(') => return Ok(None),
            _ => {}
        }
        self.with_parentheses(keyword)
    }

    /// Keywords that are a column's name unless a parenthesis follows.
    fn with_parentheses(&mut self, keyword: Kw) -> PlanResult<Option<Expr>> {
        let at = self.pos();
        let parse: fn(&mut Self, Pos) -> PlanResult<Expr> = match keyword {
            Kw::Extract => Self::extract,
            Kw::Normalize => Self::normalize,
            Kw::Overlay => Self::overlay,
            Kw::Position => Self::position,
            Kw::Substring => Self::substring,
            Kw::Treat => Self::treat,
            Kw::Trim => Self::trim,
            Kw::Nullif => Self::nullif,
            Kw::MergeAction => Self::merge_action,
            Kw::Coalesce | Kw::Greatest | Kw::Least => {
                self.bump();
                let list = self.exprs_in_parentheses()?;
                let kind = match keyword {
                    Kw::Coalesce => ExprKind::Coalesce(list),
                    Kw::Greatest => ExprKind::Greatest(list),
                    _ => ExprKind::Least(list),
                };
                return Ok(Some(node(kind, at)));
            }
            _ => {
                if let Some(xml) = self.xml_call(keyword)? {
                    return Ok(Some(xml));
                }
                return self.json_call(keyword);
            }
        };
        self.bump();
        self.expect_char(b'(')?;
        let expr = parse(self, at)?;
        self.expect_char(b')')?;
        Ok(Some(expr))
    }

    /// `'(' a_expr AS Typename ')'`
    fn arg_as_type(&mut self) -> PlanResult<(Expr, TypeName)> {
        self.expect_char(b'(')?;
        let arg = self.expr()?;
        self.expect_key(Kw::As)?;
        let ty = self.type_name()?;
        self.expect_char(b')')?;
        Ok((arg, ty))
    }

    fn extract(&mut self, at: Pos) -> PlanResult<Expr> {
        let field_at = self.pos();
        let field = match self.peek() {
            Tok::Ident | Tok::Str => self.value(),
            Tok::Key(
                word @ (Kw::Year | Kw::Month | Kw::Day | Kw::Hour | Kw::Minute | Kw::Second),
            ) => word.text().to_owned(),
            _ => return Err(self.unexpected()),
        };
        self.bump();
        self.expect_key(Kw::From)?;
        let from = self.expr()?;
        let field = node(ExprKind::Literal(Literal::String(field)), field_at);
        Ok(special(system_name("extract", at), vec![field, from], at))
    }

    fn normalize(&mut self, at: Pos) -> PlanResult<Expr> {
        let mut args = vec![self.expr()?];
        if self.accept_char(b',') {
            let form_at = self.pos();
            let form = match self.peek() {
                Tok::Key(form @ (Kw::Nfc | Kw::Nfd | Kw::Nfkc | Kw::Nfkd)) => form.text(),
                _ => return Err(self.unexpected()),
            };
            self.bump();
            let form = Literal::String(form.to_ascii_uppercase());
            args.push(node(ExprKind::Literal(form), form_at));
        }
        Ok(special(system_name("normalize", at), args, at))
    }

    /// Ordinary arguments from `first` on, up to the parenthesis, of a function of that name.
    fn ordinary(&mut self, name: &str, first: Option<Argument>, at: Pos) -> PlanResult<Expr> {
        let mut args = Vec::new();
        if let Some(first) = first {
            args.push(first);
            while self.accept_char(b',') {
                args.push(self.argument()?);
            }
        }
        let name = QualifiedName {
            parts: vec![Name {
                text: name.to_owned(),
                at,
            }],
        };
        Ok(node(ExprKind::Call(Box::new(plain_call(name, args))), at))
    }

    fn first_argument(&mut self) -> PlanResult<Option<Argument>> {
        if self.is_char(b')') {
            Ok(None)
        } else {
            self.argument_until(Stop::Similar).map(Some)
        }
    }

    fn overlay(&mut self, at: Pos) -> PlanResult<Expr> {
        let string = match self.first_argument()? {
            Some(Argument { name: None, value }) if self.is_key(Kw::Placing) => value,
            first => return self.ordinary("overlay", first, at),
        };
        self.bump();
        let mut args = vec![string, self.expr()?];
        self.expect_key(Kw::From)?;
        args.push(self.expr()?);
        if self.accept_key(Kw::For) {
            args.push(self.expr()?);
        }
        Ok(special(system_name("overlay", at), args, at))
    }

    fn position(&mut self, at: Pos) -> PlanResult<Expr> {
        let needle = self.basic_expr()?;
        self.expect_key(Kw::In)?;
        let haystack = self.basic_expr()?;
        Ok(special(
            system_name("position", at),
            vec![haystack, needle],
            at,
        ))
    }

    fn substring(&mut self, at: Pos) -> PlanResult<Expr> {
        let first = match self.first_argument()? {
            Some(Argument { name: None, value }) => value,
            first => return self.ordinary("substring", first, at),
        };
        let mut args = vec![first];
        match self.peek() {
            Tok::Key(Kw::From) => {
                self.bump();
                args.push(self.expr()?);
                if self.accept_key(Kw::For) {
                    args.push(self.expr()?);
                }
            }
            Tok::Key(Kw::For) => {
                self.bump();
                let length = self.expr()?;
                if self.accept_key(Kw::From) {
                    args.push(self.expr()?);
                    args.push(length);
                } else {
                    // The type chooses among the functions, so that the length is an integer.
                    args.push(integer(1, Pos::NONE));
                    args.push(cast_to_int4(length));
                }
            }
            Tok::Key(Kw::Similar) => {
                self.bump();
                args.push(self.expr()?);
                self.expect_key(Kw::Escape)?;
                args.push(self.expr()?);
            }
            _ => {
                let first = args.pop().map(argument);
                return self.ordinary("substring", first, at);
            }
        }
        Ok(special(system_name("substring", at), args, at))
    }

    fn treat(&mut self, at: Pos) -> PlanResult<Expr> {
        let arg = self.expr()?;
        self.expect_key(Kw::As)?;
        let ty = self.type_name()?;
        let name = system_name(ty.name.last(), at);
        let call = plain_call(name, vec![argument(arg)]);
        Ok(node(ExprKind::Call(Box::new(call)), at))
    }

    fn trim(&mut self, at: Pos) -> PlanResult<Expr> {
        let name = match self.peek() {
            Tok::Key(Kw::Leading) => "ltrim",
            Tok::Key(Kw::Trailing) => "rtrim",
            _ => "btrim",
        };
        if matches!(self.peek(), Tok::Key(Kw::Both | Kw::Leading | Kw::Trailing)) {
            self.bump();
        }
        let mut args = Vec::new();
        if self.accept_key(Kw::From) {
            args = self.exprs()?;
        } else {
            let first = self.expr()?;
            if self.accept_key(Kw::From) {
                args = self.exprs()?;
                args.push(first);
            } else {
                args.push(first);
                while self.accept_char(b',') {
                    args.push(self.expr()?);
                }
            }
        }
        Ok(special(system_name(name, at), args, at))
    }

    fn nullif(&mut self, at: Pos) -> PlanResult<Expr> {
        let left = self.expr()?;
        self.expect_char(b',')?;
        let right = self.expr()?;
        Ok(node(ExprKind::NullIf(Box::new(left), Box::new(right)), at))
    }

    fn merge_action(&mut self, at: Pos) -> PlanResult<Expr> {
        Ok(node(ExprKind::MergeAction, at))
    }
}

fn cast_to_int4(arg: Expr) -> Expr {
    let ty = TypeName {
        name: system_name("int4", Pos::NONE),
        modifiers: Vec::new(),
        interval_fields: None,
        dimensions: Vec::new(),
        setof: false,
        at: Pos::NONE,
    };
    let arg = Box::new(arg);
    node(ExprKind::Cast { arg, ty }, Pos::NONE)
}

/// The functions without parentheses, and whether one may have a precision.
fn sql_value(keyword: Kw) -> Option<(SqlValue, bool)> {
    let value = match keyword {
        Kw::CurrentDate => (SqlValue::CurrentDate, false),
        Kw::CurrentTime => (SqlValue::CurrentTime, true),
        Kw::CurrentTimestamp => (SqlValue::CurrentTimestamp, true),
        Kw::Localtime => (SqlValue::LocalTime, true),
        Kw::Localtimestamp => (SqlValue::LocalTimestamp, true),
        Kw::CurrentRole => (SqlValue::CurrentRole, false),
        Kw::CurrentUser => (SqlValue::CurrentUser, false),
        Kw::User => (SqlValue::User, false),
        Kw::SessionUser => (SqlValue::SessionUser, false),
        Kw::CurrentCatalog => (SqlValue::CurrentCatalog, false),
        Kw::CurrentSchema => (SqlValue::CurrentSchema, false),
        _ => return None,
    };
    Some(value)
}
