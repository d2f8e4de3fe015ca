//! Names of types, and constants with the name of their type before them.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::expr::{node, system_name};
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Expr, ExprKind, Literal, Pos, QualifiedName, TypeName};
use crate::error::{PlanError, PlanResult};

/// Bits of an interval's fields, as PostgreSQL's `INTERVAL_MASK` numbers them.
const YEAR: i32 = 1 << 2;
const MONTH: i32 = 1 << 1;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;

/// Digits of a `float4` and of a `float8`, in bits.
const FLOAT4_BITS: i32 = 24;
const FLOAT8_BITS: i32 = 53;

pub(super) fn integer(value: i32, at: Pos) -> Expr {
    node(ExprKind::Literal(Literal::Integer(value)), at)
}

fn simple(name: QualifiedName, modifiers: Vec<Expr>, at: Pos) -> TypeName {
    TypeName {
        name,
        modifiers,
        interval_fields: None,
        dimensions: Vec::new(),
        setof: false,
        at,
    }
}

fn system(name: &str, modifiers: Vec<Expr>, at: Pos) -> TypeName {
    simple(system_name(name, at), modifiers, at)
}

impl Parser<'_> {
    /// `Typename`
    pub(super) fn type_name(&mut self) -> PlanResult<TypeName> {
        let setof = self.accept_key(Kw::Setof);
        let mut ty = self.simple_type()?;
        ty.setof = setof;
        if self.accept_key(Kw::Array) {
            let bound = if self.is_char(b'[') {
                Some(self.array_bound(false)?)
            } else {
                None
            };
            ty.dimensions.push(bound.flatten());
            return Ok(ty);
        }
        while self.is_char(b'[') {
            let bound = self.array_bound(true)?;
            ty.dimensions.push(bound);
        }
        Ok(ty)
    }

    fn array_bound(&mut self, may_be_empty: bool) -> PlanResult<Option<i32>> {
        self.expect_char(b'[')?;
        if may_be_empty && self.accept_char(b']') {
            return Ok(None);
        }
        let bound = self.integer()?;
        self.expect_char(b']')?;
        Ok(Some(bound))
    }

    /// `Iconst`
    pub(super) fn integer(&mut self) -> PlanResult<i32> {
        let value = self.number() as i32;
        self.expect(Tok::Integer)?;
        Ok(value)
    }

    /// `SimpleTypename`
    pub(super) fn simple_type(&mut self) -> PlanResult<TypeName> {
        if let Tok::Key(keyword) = self.peek()
            && let Some(ty) = self.sql_type(keyword, false)?
        {
            return Ok(ty);
        }
        let at = self.pos();
        if !Self::is_function_name(self.peek()) {
            return Err(self.unexpected());
        }
        let mut parts = vec![self.take_name()];
        while self.accept_char(b'.') {
            parts.push(self.col_label()?);
        }
        let modifiers = self.modifiers()?;
        Ok(simple(QualifiedName { parts }, modifiers, at))
    }

    /// `opt_type_modifiers`
    fn modifiers(&mut self) -> PlanResult<Vec<Expr>> {
        if self.is_char(b'(') {
            self.exprs_in_parentheses()
        } else {
            Ok(Vec::new())
        }
    }

    /// `'(' Iconst ')'`, if it is next.
    fn precision(&mut self) -> PlanResult<Vec<Expr>> {
        if !self.accept_char(b'(') {
            return Ok(Vec::new());
        }
        let at = self.pos();
        let value = self.integer()?;
        self.expect_char(b')')?;
        Ok(vec![integer(value, at)])
    }

    /// A type that SQL spells with keywords, if one is next; `constant` if a string follows it.
    fn sql_type(&mut self, keyword: Kw, constant: bool) -> PlanResult<Option<TypeName>> {
        let at = self.pos();
        let plain = match keyword {
            Kw::Int | Kw::Integer => "int4",
            Kw::Smallint => "int2",
            Kw::Bigint => "int8",
            Kw::Real => "float4",
            Kw::Boolean => "bool",
            Kw::Json => "json",
            Kw::Double if self.peek_at(1) == Tok::Key(Kw::Precision) => {
                self.bump();
                "float8"
            }
            _ => return self.sql_type_with_modifiers(keyword, constant),
        };
        self.bump();
        Ok(Some(system(plain, Vec::new(), at)))
    }

    fn sql_type_with_modifiers(
        &mut self,
        keyword: Kw,
        constant: bool,
    ) -> PlanResult<Option<TypeName>> {
        let at = self.pos();
        let ty = match keyword {
            Kw::Float => {
                self.bump();
                system(self.float()?, Vec::new(), at)
            }
            Kw::Decimal | Kw::Dec | Kw::Numeric => {
                self.bump();
                let modifiers = self.modifiers()?;
                system("numeric", modifiers, at)
            }
            Kw::Bit => self.bit(constant)?,
            Kw::Character | Kw::Char | Kw::Varchar | Kw::National | Kw::Nchar => {
                self.character(keyword, constant)?
            }
            Kw::Timestamp => {
                self.bump();
                self.datetime("timestamp", "timestamptz", at)?
            }
            Kw::Time => {
                self.bump();
                self.datetime("time", "timetz", at)?
            }
            Kw::Interval => {
                self.bump();
                let modifiers = self.precision()?;
                let mut ty = system("interval", modifiers, at);
                if ty.modifiers.is_empty() && !constant {
                    self.interval_fields(&mut ty)?;
                }
                ty
            }
            _ => return Ok(None),
        };
        Ok(Some(ty))
    }

    /// Behind FLOAT: the type that its precision chooses.
    fn float(&mut self) -> PlanResult<&'static str> {
        if !self.accept_char(b'(') {
            return Ok("float8");
        }
        let at = self.pos();
        let bits = self.integer()?;
        self.expect_char(b')')?;
        let message = match bits {
            ..1 => "precision for type float must be at least 1 bit",
            1..=FLOAT4_BITS => return Ok("float4"),
            25..=FLOAT8_BITS => return Ok("float8"),
            _ => "precision for type float must be less than 54 bits",
        };
        Err(PlanError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(at))
    }

    fn bit(&mut self, constant: bool) -> PlanResult<TypeName> {
        let at = self.bump();
        let varying = self.accept_key(Kw::Varying);
        let name = if varying { "varbit" } else { "bit" };
        let mut modifiers = self.modifiers()?;
        if modifiers.is_empty() && !varying && !constant {
            modifiers.push(integer(1, Pos::NONE));
        }
        Ok(system(name, modifiers, at))
    }

    fn character(&mut self, keyword: Kw, constant: bool) -> PlanResult<TypeName> {
        let at = self.bump();
        if keyword == Kw::National && !self.accept_key(Kw::Character) {
            self.expect_key(Kw::Char)?;
        }
        let varying = keyword == Kw::Varchar || self.accept_key(Kw::Varying);
        let name = if varying { "varchar" } else { "bpchar" };
        let mut modifiers = self.precision()?;
        if modifiers.is_empty() && !varying && !constant {
            modifiers.push(integer(1, Pos::NONE));
        }
        Ok(system(name, modifiers, at))
    }

    fn datetime(&mut self, without: &str, with: &str, at: Pos) -> PlanResult<TypeName> {
        let modifiers = self.precision()?;
        let name = if self.accept(Tok::Joined(Kw::With)) {
            with
        } else if self.accept(Tok::Joined(Kw::Without)) {
            without
        } else {
            return Ok(system(without, modifiers, at));
        };
        self.expect_keys(&[Kw::Time, Kw::Zone])?;
        Ok(system(name, modifiers, at))
    }

    /// `opt_interval`
    fn interval_fields(&mut self, ty: &mut TypeName) -> PlanResult<()> {
        let field = |tok| match tok {
            Tok::Key(Kw::Year) => Some(YEAR),
            Tok::Key(Kw::Month) => Some(MONTH),
            Tok::Key(Kw::Day) => Some(DAY),
            Tok::Key(Kw::Hour) => Some(HOUR),
            Tok::Key(Kw::Minute) => Some(MINUTE),
            Tok::Key(Kw::Second) => Some(SECOND),
            _ => None,
        };
        let Some(first) = field(self.peek()) else {
            return Ok(());
        };
        self.bump();
        let mut mask = first;
        let mut last = first;
        let may_span = !matches!(first, MONTH | SECOND);
        if may_span && self.accept_key(Kw::To) {
            let spans: &[i32] = match first {
                YEAR => &[MONTH],
                DAY => &[HOUR, MINUTE, SECOND],
                HOUR => &[MINUTE, SECOND],
                _ => &[SECOND],
            };
            let second = field(self.peek()).filter(|second| spans.contains(second));
            let Some(second) = second else {
                return Err(self.unexpected());
            };
            self.bump();
            last = second;
            for between in [MONTH, HOUR, MINUTE, SECOND] {
                // Fields in the order of their size, from the first to the last.
                let order = |bit: i32| match bit {
                    YEAR => 0,
                    MONTH => 1,
                    DAY => 2,
                    HOUR => 3,
                    MINUTE => 4,
                    _ => 5,
                };
                if order(between) > order(first) && order(between) <= order(last) {
                    mask |= between;
                }
            }
        }
        if last == SECOND {
            ty.modifiers = self.precision()?;
        }
        ty.interval_fields = Some(mask);
        Ok(())
    }

    /// Whether a keyword begins a constant with its type before it.
    pub(super) fn is_typed_constant(&self, keyword: Kw) -> bool {
        let next = self.peek_at(1);
        let modified = next == Tok::Char(b'(');
        let string = next == Tok::Str;
        match keyword {
            Kw::Int
            | Kw::Integer
            | Kw::Smallint
            | Kw::Bigint
            | Kw::Real
            | Kw::Boolean
            | Kw::Json => string,
            Kw::Double => next == Tok::Key(Kw::Precision),
            Kw::Float | Kw::Decimal | Kw::Dec | Kw::Numeric | Kw::Varchar | Kw::Interval => {
                string || modified
            }
            Kw::Bit | Kw::Character | Kw::Char | Kw::Nchar => {
                string || modified || next == Tok::Key(Kw::Varying)
            }
            Kw::National => matches!(next, Tok::Key(Kw::Character | Kw::Char)),
            Kw::Timestamp | Kw::Time => {
                let zone = matches!(next, Tok::Joined(Kw::With | Kw::Without));
                string || modified || zone
            }
            _ => false,
        }
    }

    /// `type 'text'` of a type that SQL spells with keywords.
    pub(super) fn typed_constant(&mut self) -> PlanResult<Expr> {
        let Tok::Key(keyword) = self.peek() else {
            return Err(self.unexpected());
        };
        let Some(mut ty) = self.sql_type(keyword, true)? else {
            return Err(self.unexpected());
        };
        let arg = self.string_constant()?;
        if keyword == Kw::Interval && ty.modifiers.is_empty() {
            self.interval_fields(&mut ty)?;
        }
        Ok(cast_of_constant(arg, ty))
    }

    fn string_constant(&mut self) -> PlanResult<Expr> {
        let value = self.value();
        let at = self.expect(Tok::Str)?;
        Ok(node(ExprKind::Literal(Literal::String(value)), at))
    }

    /// `name 'text'` or `name(modifiers) 'text'`.
    pub(super) fn named_constant(
        &mut self,
        name: QualifiedName,
        modifiers: Vec<Expr>,
    ) -> PlanResult<Expr> {
        let at = name.at();
        let arg = self.string_constant()?;
        Ok(cast_of_constant(arg, simple(name, modifiers, at)))
    }
}

fn cast_of_constant(arg: Expr, ty: TypeName) -> Expr {
    let at = ty.at;
    let arg = Box::new(arg);
    node(ExprKind::Cast { arg, ty }, at)
}
