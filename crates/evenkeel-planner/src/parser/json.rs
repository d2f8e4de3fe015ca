//! The SQL standard's syntax for JSON. Paths, `JSON_TABLE` and the aggregates only parse, so that
//! errors stand where PostgreSQL has them; nothing is built of them.

use super::cursor::Parser;
use super::expr::{Grammar, Level, node};
use super::keywords::Kw;
use super::primary::{argument, plain_call};
use super::token::Tok;
use super::xml::unsupported;
use crate::ast::{
    Argument, Expr, ExprKind, JsonConstructor, JsonFormat, JsonInput, JsonItem, JsonOutput, Name,
    Pos, QualifiedName,
};
use crate::error::{PlanError, PlanResult};
use evenkeel_types::SqlState;

/// `name : value`
type Member = (Expr, JsonInput);

fn constructor(kind: JsonConstructor, at: Pos) -> Expr {
    node(ExprKind::Json(Box::new(kind)), at)
}

impl Parser<'_> {
    /// A function of JSON with a parenthesis behind it, if `keyword` is one.
    pub(super) fn json_call(&mut self, keyword: Kw) -> PlanResult<Option<Expr>> {
        let at = self.pos();
        let inner: fn(&mut Self, Pos) -> PlanResult<Expr> = match keyword {
            Kw::Json => Self::json_parse,
            Kw::JsonScalar => |parser, at| {
                let value = parser.expr()?;
                Ok(constructor(JsonConstructor::Scalar(value), at))
            },
            Kw::JsonSerialize => |parser, at| {
                let value = parser.json_value()?;
                let returning = parser.json_returning()?;
                let kind = JsonConstructor::Serialize { value, returning };
                Ok(constructor(kind, at))
            },
            Kw::JsonArray => Self::json_array,
            Kw::JsonObject => Self::json_object,
            Kw::JsonQuery => Self::json_query,
            Kw::JsonValue => Self::json_value_of,
            Kw::JsonExists => Self::json_exists,
            Kw::JsonObjectagg => Self::json_object_aggregate,
            Kw::JsonArrayagg => Self::json_array_aggregate,
            _ => return Ok(None),
        };
        self.bump();
        self.expect_char(b'(')?;
        let expr = inner(self, at)?;
        self.expect_char(b')')?;
        Ok(Some(expr))
    }

    fn json_query(&mut self, at: Pos) -> PlanResult<Expr> {
        self.json_path()?;
        self.json_returning()?;
        self.json_wrapper()?;
        self.json_quotes()?;
        self.json_behaviors()?;
        Ok(unsupported("JSON_QUERY", at))
    }

    fn json_value_of(&mut self, at: Pos) -> PlanResult<Expr> {
        self.json_path()?;
        self.json_returning()?;
        self.json_behaviors()?;
        Ok(unsupported("JSON_VALUE", at))
    }

    fn json_exists(&mut self, at: Pos) -> PlanResult<Expr> {
        self.json_path()?;
        self.json_on_error()?;
        Ok(unsupported("JSON_EXISTS", at))
    }

    fn json_object_aggregate(&mut self, at: Pos) -> PlanResult<Expr> {
        self.json_member()?;
        self.json_absent(false)?;
        self.json_unique()?;
        self.json_returning()?;
        Ok(unsupported("JSON_OBJECTAGG", at))
    }

    fn json_array_aggregate(&mut self, at: Pos) -> PlanResult<Expr> {
        self.json_value()?;
        self.order_by()?;
        self.json_absent(true)?;
        self.json_returning()?;
        Ok(unsupported("JSON_ARRAYAGG", at))
    }

    /// `IS JSON …`, with JSON next.
    pub(super) fn is_json(&mut self, arg: Expr, negated: bool, at: Pos) -> PlanResult<Expr> {
        self.expect_key(Kw::Json)?;
        let item = match self.peek() {
            Tok::Key(Kw::Value) => Some(JsonItem::Value),
            Tok::Key(Kw::Array) => Some(JsonItem::Array),
            Tok::Key(Kw::Object) => Some(JsonItem::Object),
            Tok::Key(Kw::Scalar) => Some(JsonItem::Scalar),
            _ => None,
        };
        if item.is_some() {
            self.bump();
        }
        let kind = ExprKind::IsJson {
            arg: Box::new(arg),
            item: item.unwrap_or(JsonItem::Value),
            unique: self.json_unique()?,
            negated,
        };
        Ok(node(kind, at))
    }

    fn json_parse(&mut self, at: Pos) -> PlanResult<Expr> {
        let value = self.json_value()?;
        let unique = self.json_unique()?;
        Ok(constructor(JsonConstructor::Parse { value, unique }, at))
    }

    /// `json_object`: the function of that name, or the constructor.
    fn json_object(&mut self, at: Pos) -> PlanResult<Expr> {
        let mut members = Vec::new();
        let (mut absent, mut unique) = (false, false);
        if !matches!(self.peek(), Tok::Char(b')') | Tok::Key(Kw::Returning)) {
            let named = matches!(self.peek_at(1), Tok::ColonEquals | Tok::EqualsGreater);
            if named {
                let first = self.argument()?;
                return self.json_object_function(first, at);
            }
            match self.json_name()? {
                Ok(member) => members.push(member),
                Err(value) => return self.json_object_function(argument(value), at),
            }
            while self.accept_char(b',') {
                members.push(self.json_member()?);
            }
            absent = self.json_absent(false)?;
            unique = self.json_unique()?;
        }
        let kind = JsonConstructor::Object {
            members,
            absent,
            unique,
            returning: self.json_returning()?,
        };
        Ok(constructor(kind, at))
    }

    fn json_object_function(&mut self, first: Argument, at: Pos) -> PlanResult<Expr> {
        let mut args = vec![first];
        while self.accept_char(b',') {
            args.push(self.argument()?);
        }
        let text = "json_object".to_owned();
        let name = QualifiedName {
            parts: vec![Name { text, at }],
        };
        Ok(node(ExprKind::Call(Box::new(plain_call(name, args))), at))
    }

    /// A name and its value, or only an expression.
    fn json_name(&mut self) -> PlanResult<Result<Member, Expr>> {
        let prefixed = matches!(
            self.peek(),
            Tok::Char(b'+' | b'-') | Tok::Op | Tok::Key(Kw::Operator | Kw::Not)
        );
        let name = if prefixed {
            self.expr()?
        } else {
            let name = self.primary(Grammar::Full)?;
            if self.accept_key(Kw::Value) {
                return Ok(Ok((name, self.json_value()?)));
            }
            self.infix(name, Level::Any, Grammar::Full)?
        };
        if self.accept_char(b':') {
            return Ok(Ok((name, self.json_value()?)));
        }
        Ok(Err(name))
    }

    /// `json_name_and_value`
    fn json_member(&mut self) -> PlanResult<Member> {
        match self.json_name()? {
            Ok(member) => Ok(member),
            Err(_) => Err(self.unexpected()),
        }
    }

    /// `json_value_expr`
    fn json_value(&mut self) -> PlanResult<JsonInput> {
        let value = self.expr()?;
        let format = self.json_format()?;
        Ok(JsonInput { value, format })
    }

    fn json_format(&mut self) -> PlanResult<Option<JsonFormat>> {
        let at = self.pos();
        if !self.accept(Tok::Joined(Kw::Format)) {
            return Ok(None);
        }
        self.expect_key(Kw::Json)?;
        let mut encoding = None;
        if self.accept_key(Kw::Encoding) {
            let name = self.col_id()?;
            let lower = name.text.to_ascii_lowercase();
            if !["utf8", "utf16", "utf32"].contains(&lower.as_str()) {
                let message = format!("unrecognized JSON encoding: {}", name.text);
                return Err(PlanError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(name.at));
            }
            encoding = Some(lower);
        }
        Ok(Some(JsonFormat { encoding, at }))
    }

    fn json_returning(&mut self) -> PlanResult<Option<JsonOutput>> {
        if !self.accept_key(Kw::Returning) {
            return Ok(None);
        }
        let ty = self.type_name()?;
        let format = self.json_format()?;
        Ok(Some(JsonOutput { ty, format }))
    }

    /// `WITH UNIQUE KEYS`
    fn json_unique(&mut self) -> PlanResult<bool> {
        let with = self.accept_key(Kw::With);
        if with || self.accept_key(Kw::Without) {
            self.expect_key(Kw::Unique)?;
            self.accept_key(Kw::Keys);
        }
        Ok(with)
    }

    /// `ABSENT ON NULL`, or what there is without a word about it.
    fn json_absent(&mut self, otherwise: bool) -> PlanResult<bool> {
        let null = self.accept_key(Kw::Null);
        if null || self.accept_key(Kw::Absent) {
            self.expect_keys(&[Kw::On, Kw::Null])?;
            return Ok(!null);
        }
        Ok(otherwise)
    }

    fn json_array(&mut self, at: Pos) -> PlanResult<Expr> {
        let mut items = Vec::new();
        let mut absent = true;
        if !self.is_char(b')') && !self.is_key(Kw::Returning) {
            let first = if self.is_query_start() || self.is_char(b'(') {
                self.query_or_first()?
            } else {
                Err(self.expr()?)
            };
            let format = self.json_format()?;
            let value = match first {
                Ok(query) => {
                    let kind = JsonConstructor::ArrayOf {
                        query: Box::new(query),
                        format,
                        returning: self.json_returning()?,
                    };
                    return Ok(constructor(kind, at));
                }
                Err(value) => value,
            };
            items.push(JsonInput { value, format });
            while self.accept_char(b',') {
                items.push(self.json_value()?);
            }
            absent = self.json_absent(true)?;
        }
        let kind = JsonConstructor::Array {
            items,
            absent,
            returning: self.json_returning()?,
        };
        Ok(constructor(kind, at))
    }

    /// `json_value_expr ',' a_expr json_passing_clause_opt`
    fn json_path(&mut self) -> PlanResult<()> {
        self.json_value()?;
        self.expect_char(b',')?;
        self.expr()?;
        self.json_passing()
    }

    fn json_passing(&mut self) -> PlanResult<()> {
        if !self.accept_key(Kw::Passing) {
            return Ok(());
        }
        self.list(|parser| {
            parser.json_value()?;
            parser.expect_key(Kw::As)?;
            parser.col_label().map(drop)
        })
        .map(drop)
    }

    fn json_wrapper(&mut self) -> PlanResult<()> {
        if self.accept_key(Kw::Without) {
            self.accept_key(Kw::Array);
            self.expect_key(Kw::Wrapper)?;
        } else if self.accept_key(Kw::With) {
            if !self.accept_key(Kw::Unconditional) {
                self.accept_key(Kw::Conditional);
            }
            self.accept_key(Kw::Array);
            self.expect_key(Kw::Wrapper)?;
        }
        Ok(())
    }

    fn json_quotes(&mut self) -> PlanResult<()> {
        if self.accept_key(Kw::Keep) || self.accept_key(Kw::Omit) {
            self.expect_key(Kw::Quotes)?;
            if self.accept_key(Kw::On) {
                self.expect_keys(&[Kw::Scalar, Kw::String])?;
            }
        }
        Ok(())
    }

    fn json_behavior(&mut self) -> PlanResult<bool> {
        match self.peek() {
            Tok::Key(Kw::Default) => {
                self.bump();
                self.expr()?;
            }
            Tok::Key(Kw::Error | Kw::Null | Kw::True | Kw::False | Kw::Unknown) => {
                self.bump();
            }
            Tok::Key(Kw::Empty) => {
                self.bump();
                if !self.accept_key(Kw::Array) {
                    self.accept_key(Kw::Object);
                }
            }
            _ => return Ok(false),
        }
        self.expect_key(Kw::On)?;
        Ok(true)
    }

    /// `json_behavior_clause_opt`
    fn json_behaviors(&mut self) -> PlanResult<()> {
        if !self.json_behavior()? {
            return Ok(());
        }
        if self.accept_key(Kw::Error) {
            return Ok(());
        }
        self.expect_key(Kw::Empty)?;
        self.json_on_error()
    }

    fn json_on_error(&mut self) -> PlanResult<()> {
        if self.json_behavior()? {
            self.expect_key(Kw::Error)?;
        }
        Ok(())
    }

    /// `JSON_TABLE (…)`
    pub(super) fn json_table(&mut self) -> PlanResult<Expr> {
        let at = self.bump();
        self.expect_char(b'(')?;
        self.json_value()?;
        self.expect_char(b',')?;
        self.expr()?;
        if self.accept_key(Kw::As) {
            self.col_id()?;
        }
        self.json_passing()?;
        self.json_columns()?;
        self.json_on_error()?;
        self.expect_char(b')')?;
        Ok(unsupported("JSON_TABLE", at))
    }

    fn json_columns(&mut self) -> PlanResult<()> {
        self.expect_key(Kw::Columns)?;
        self.expect_char(b'(')?;
        self.list(Self::json_column)?;
        self.expect_char(b')')?;
        Ok(())
    }

    fn json_column(&mut self) -> PlanResult<()> {
        let nested =
            self.is_key(Kw::Nested) && matches!(self.peek_at(1), Tok::Key(Kw::Path) | Tok::Str);
        if nested {
            self.bump();
            self.accept_key(Kw::Path);
            self.expect(Tok::Str)?;
            if self.accept_key(Kw::As) {
                self.col_id()?;
            }
            return self.deeper(Self::json_columns);
        }
        self.col_id()?;
        if self.accept_key(Kw::For) {
            self.expect_key(Kw::Ordinality)?;
            return Ok(());
        }
        self.type_name()?;
        let exists = self.accept_key(Kw::Exists);
        if !exists {
            self.json_format()?;
        }
        if self.accept_key(Kw::Path) {
            self.expect(Tok::Str)?;
        }
        if exists {
            return self.json_on_error();
        }
        self.json_wrapper()?;
        self.json_quotes()?;
        self.json_behaviors()
    }
}
