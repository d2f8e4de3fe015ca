//! Type names: aliases, arrays, modifiers.

use evenkeel_types::{IntervalMod, MAX_CHAR_LENGTH, NumericMod, SqlState, SqlType};

use super::{Binder, Home};
use crate::ast::{self, ExprKind, Literal, Pos, TypeName};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};

/// The type of a name of `pg_type`, without modifier.
pub(super) fn by_name(name: &str) -> Option<SqlType> {
    if let Some(element) = name.strip_prefix('_') {
        return by_name(element)?.array_of();
    }
    let known = SqlType::all().iter().copied();
    known
        .chain([SqlType::Record])
        .find(|ty| ty.type_name() == name)
}

fn invalid(message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(at)
}

fn modifier(expr: &ast::Expr, at: Pos) -> PlanResult<i64> {
    let simple = || {
        let message = "type modifiers must be simple constants or identifiers";
        PlanError::new(SqlState::SYNTAX_ERROR, message).at(at)
    };
    let text = match &expr.kind {
        ExprKind::Literal(Literal::Integer(value)) => return Ok(i64::from(*value)),
        ExprKind::Literal(Literal::Number(text) | Literal::String(text)) => text.clone(),
        ExprKind::Column(parts) => match parts.as_slice() {
            [ast::FieldPart::Name(name)] => name.text.clone(),
            _ => return Err(simple()),
        },
        ExprKind::Op {
            op,
            left: None,
            right,
            ..
        } if op.symbol == "-" => return Ok(-modifier(right, at)?),
        _ => return Err(simple()),
    };
    match text.trim().parse::<i32>() {
        Ok(value) => Ok(i64::from(value)),
        Err(_) if text.trim().parse::<f64>().is_ok_and(|v| v.fract() == 0.0) => {
            Err(PlanError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type integer"),
            ))
        }
        Err(_) => Err(PlanError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type integer: \"{text}\""),
        )),
    }
}

/// A string type's length.
fn length(name: &str, given: &[i64], at: Pos) -> PlanResult<u32> {
    let [length] = given else {
        return Err(invalid("invalid type modifier", at));
    };
    if *length < 1 {
        return Err(invalid(
            format!("length for type {name} must be at least 1"),
            at,
        ));
    }
    if *length > i64::from(MAX_CHAR_LENGTH) {
        let message = format!("length for type {name} cannot exceed {MAX_CHAR_LENGTH}");
        return Err(invalid(message, at));
    }
    u32::try_from(*length).map_err(|_| invalid("invalid type modifier", at))
}

/// A timestamp's digits of seconds; more than 6 are cut to 6.
fn digits(name: &str, given: &[i64], at: Pos) -> PlanResult<u8> {
    let [digits] = given else {
        return Err(invalid("invalid type modifier", at));
    };
    if *digits < 0 {
        let message = format!("{name}({digits}) precision must not be negative");
        return Err(invalid(message, at));
    }
    Ok(u8::try_from(*digits).unwrap_or(6).min(6))
}

/// An interval's fields and digits of seconds.
fn interval(fields: Option<i32>, given: &[i64], at: Pos) -> PlanResult<IntervalMod> {
    let precision = match given {
        [] => None,
        given => Some(digits("INTERVAL", given, at)?),
    };
    let fields = fields.map_or(Some(IntervalMod::FULL), |bits| u16::try_from(bits).ok());
    let modifier = fields.map(|fields| IntervalMod { fields, precision });
    modifier
        .filter(|modifier| modifier.words().is_some())
        .ok_or_else(|| invalid("invalid INTERVAL type modifier", at))
}

fn numeric(given: &[i64], at: Pos) -> PlanResult<NumericMod> {
    let (precision, scale) = match given {
        [precision] => (*precision, 0),
        [precision, scale] => (*precision, *scale),
        _ => return Err(invalid("invalid NUMERIC type modifier", at)),
    };
    let (Ok(small), true) = (u16::try_from(precision), (1..=1000).contains(&precision)) else {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(invalid(message, at));
    };
    match i16::try_from(scale) {
        Ok(scale) if (-1000..=1000).contains(&scale) => Ok(NumericMod {
            precision: small,
            scale,
        }),
        _ => {
            let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
            Err(invalid(message, at))
        }
    }
}

impl Binder<'_> {
    /// The type that a name means.
    pub(super) fn bind_type(&mut self, ty: &TypeName) -> PlanResult<SqlType> {
        let named = type_named(ty, self.catalog, self.home.as_ref())?;
        self.note_type(ty, named);
        Ok(named)
    }
}

impl Home {
    /// The type of a column, or of the elements of one, by name.
    fn named(&self, name: &str) -> Option<SqlType> {
        let called = |ty: &&SqlType| ty.created().is_some_and(|of| of.is_called(name));
        self.types.iter().find(called).copied()
    }
}

/// The type that a name means.
///
/// # Errors
/// 42704 for a name that is none; those of its modifiers.
pub fn type_of(ty: &TypeName, types: &dyn Catalog) -> PlanResult<SqlType> {
    type_named(ty, types, None)
}

/// As [`type_of`], in a text that is kept for a relation.
fn type_named(ty: &TypeName, types: &dyn Catalog, home: Option<&Home>) -> PlanResult<SqlType> {
    let at = ty.at;
    let undefined = |name: String| {
        let message = format!("type \"{name}\" does not exist");
        PlanError::new(SqlState::UNDEFINED_OBJECT, message).at(at)
    };
    if let [database, _, _] = ty.name.parts.as_slice() {
        if !types.is_database(&database.text) {
            let shown = ty.name.display();
            let message = format!("cross-database references are not implemented: {shown}");
            return Err(PlanError::unsupported(message).at(at));
        }
    } else if ty.name.parts.len() > 3 {
        let message = format!(
            "improper qualified name (too many dotted names): {}",
            ty.name.display()
        );
        return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
    }
    if ty.setof {
        let message = "SETOF is not supported here";
        return Err(PlanError::unsupported(message).at(at));
    }
    let name = ty.name.last();
    let named = match ty.name.schema() {
        // The built-in ones come first, as `pg_catalog` does on the path.
        None => by_name(name)
            .or_else(|| home.and_then(|home| home.named(name)))
            .or_else(|| types.type_named(None, name, home.map(|home| &*home.schema))),
        Some("pg_catalog") => by_name(name),
        Some(schema) => {
            if !types.schema_exists(schema) {
                return Err(super::names::no_schema(schema, at));
            }
            types.type_named(Some(schema), name, None)
        }
    };
    let Some(named) = named else {
        if super::tables::is_unbuilt_type(ty.name.last()) {
            let message = format!("type {} is not supported", ty.name.last());
            return Err(PlanError::unsupported(message).at(at));
        }
        let mut shown = ty.name.display();
        if !ty.dimensions.is_empty() {
            shown.push_str("[]");
        }
        return Err(undefined(shown));
    };
    let named = with_modifiers(named, ty)?;
    if ty.dimensions.is_empty() {
        return Ok(named);
    }
    if let (SqlType::Domain(_), None) = (named, named.array_of()) {
        let message = format!("type {}[] is not supported", ty.name.display());
        return Err(PlanError::unsupported(message).at(at));
    }
    named
        .arrays_with_its_modifier()
        .ok_or_else(|| undefined(format!("{}[]", ty.name.display())))
}

fn with_modifiers(named: SqlType, ty: &TypeName) -> PlanResult<SqlType> {
    let at = ty.at;
    if ty.modifiers.is_empty() && ty.interval_fields.is_none() {
        return Ok(named);
    }
    let given: PlanResult<Vec<i64>> = ty.modifiers.iter().map(|m| modifier(m, at)).collect();
    let given = given?;
    modified(named, &given, ty)
}

fn modified(named: SqlType, given: &[i64], ty: &TypeName) -> PlanResult<SqlType> {
    let at = ty.at;
    Ok(match named {
        // `_varchar(3)`
        SqlType::Array(element, _) => {
            let element = modified(*element, given, ty)?;
            element.arrays_with_its_modifier().unwrap_or(named)
        }
        SqlType::Varchar(_) => SqlType::Varchar(Some(length("varchar", given, at)?)),
        SqlType::Char(_) => SqlType::Char(Some(length("char", given, at)?)),
        SqlType::Timestamp(_) => SqlType::Timestamp(Some(digits("TIMESTAMP", given, at)?)),
        SqlType::Timestamptz(_) => SqlType::Timestamptz(Some(digits("TIMESTAMP", given, at)?)),
        SqlType::Numeric(_) => SqlType::Numeric(Some(numeric(given, at)?)),
        SqlType::Time(_) => SqlType::Time(Some(digits("TIME", given, at)?)),
        SqlType::Timetz(_) => SqlType::Timetz(Some(digits("TIME", given, at)?)),
        SqlType::Interval(_) => SqlType::Interval(Some(interval(ty.interval_fields, given, at)?)),
        _ => {
            let shown = ty.name.last();
            let message = format!("type modifier is not allowed for type \"{shown}\"");
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
    })
}
