//! SQL/JSON: the predicate and the constructors.

use evenkeel_expr::proc::{CastContext, Proc};
use evenkeel_expr::sql_json;
use evenkeel_types::{Datum, SqlState, SqlType};

use super::expr::{boolean, constant, negate};
use super::{Binder, place, tables, types};
use crate::ast::{
    self, ExprKind as K, JsonConstructor, JsonFormat, JsonInput, JsonItem, JsonOutput, Pos,
};
use crate::bound::{CallExpr, Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

/// `json_agg_strict`, `jsonb_agg_strict`
const AGGREGATES: [&str; 2] = ["json_agg_strict", "jsonb_agg_strict"];
/// `to_json`, `convert_to`, `convert_from`
const TO_JSON: u32 = 3176;
const CONVERT_TO: u32 = 1717;
const CONVERT_FROM: u32 = 1714;

fn mismatch(message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at)
}

fn call_of(proc: &'static Proc, args: Vec<Expr>, ty: SqlType, at: Pos) -> Expr {
    let kind = ExprKind::Call(CallExpr {
        proc,
        operator: None,
        args,
        variadic_array: false,
    });
    Expr { kind, ty, at }
}

/// A call of a built-in function, whose arguments are of its types.
fn system(oid: u32, args: Vec<Expr>, ty: SqlType, at: Pos) -> PlanResult<Expr> {
    let missing = || PlanError::new(SqlState::INTERNAL_ERROR, format!("no function {oid}"));
    let proc = tables::proc_by_oid(oid).ok_or_else(missing)?;
    Ok(call_of(proc, args, ty, at))
}

fn is_json(ty: SqlType) -> bool {
    matches!(ty, SqlType::Json | SqlType::Jsonb)
}

fn text(value: &str) -> Expr {
    constant(value.into(), SqlType::Text, Pos::NONE)
}

/// Text as bytes, or bytes as text.
fn recoded(oid: u32, arg: Expr, ty: SqlType) -> PlanResult<Expr> {
    let at = arg.at;
    let encoding = constant("UTF8".into(), SqlType::Name, Pos::NONE);
    system(oid, vec![arg, encoding], ty, at)
}

fn check_encoding(format: Option<&JsonFormat>) -> PlanResult<()> {
    match format {
        Some(format)
            if format
                .encoding
                .as_deref()
                .is_some_and(|name| name != "utf8") =>
        {
            Err(PlanError::unsupported("unsupported JSON encoding")
                .hint("Only UTF8 JSON encoding is supported.")
                .at(format.at))
        }
        _ => Ok(()),
    }
}

impl Binder<'_> {
    /// `arg IS JSON …`
    pub(super) fn bind_is_json(&mut self, kind: &ast::ExprKind, at: Pos) -> PlanResult<Expr> {
        let ast::ExprKind::IsJson {
            arg,
            item,
            unique,
            negated,
        } = kind
        else {
            return Err(PlanError::new(SqlState::INTERNAL_ERROR, "no IS JSON"));
        };
        let (unique, negated) = (*unique, *negated);
        let mut arg = self.bind_expr(arg)?;
        let string = arg.ty == SqlType::Unknown || tables::category(arg.ty) == 'S';
        if arg.ty == SqlType::Bytea {
            arg = recoded(CONVERT_FROM, arg, SqlType::Text)?;
        } else if string {
            arg = self.coerce(arg, SqlType::Text, CastContext::Implicit, Pos::NONE)?;
        } else if !is_json(arg.ty) {
            let message = format!(
                "cannot use type {} in IS JSON predicate",
                types::name(arg.ty)
            );
            return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let item = text(match item {
            JsonItem::Value => "value",
            JsonItem::Array => "array",
            JsonItem::Object => "object",
            JsonItem::Scalar => "scalar",
        });
        let unique = constant(Datum::Bool(unique), SqlType::Bool, Pos::NONE);
        let args = vec![arg, item, unique];
        let test = boolean(
            call_of(&sql_json::IS_JSON, args, SqlType::Bool, at).kind,
            at,
        );
        Ok(negate(test, negated, at))
    }

    /// A constructor of JSON.
    pub(super) fn bind_json(&mut self, json: &JsonConstructor, at: Pos) -> PlanResult<Expr> {
        match json {
            JsonConstructor::Parse { value, unique } => self.bind_json_parse(value, *unique, at),
            JsonConstructor::Scalar(value) => {
                let value = self.bind_expr(value)?;
                let value = self.resolve_unknown(value)?;
                system(TO_JSON, vec![value], SqlType::Json, at)
            }
            JsonConstructor::Serialize { value, returning } => {
                self.bind_json_serialize(value, returning.as_ref(), at)
            }
            JsonConstructor::Object {
                members,
                absent,
                unique,
                returning,
            } => {
                let mut args = Vec::with_capacity(members.len() * 2);
                for (name, value) in members {
                    let name = self.bind_expr(name)?;
                    args.push(self.resolve_unknown(name)?);
                    args.push(self.json_input(value, None)?);
                }
                let output = self.json_output(returning.as_ref(), &args)?;
                let proc = sql_json::object_maker(output.binary, *absent, *unique);
                self.json_result(call_of(proc, args, output.made(), at), &output)
            }
            JsonConstructor::Array {
                items,
                absent,
                returning,
            } => {
                let mut args = Vec::with_capacity(items.len());
                for item in items {
                    args.push(self.json_input(item, None)?);
                }
                let output = self.json_output(returning.as_ref(), &args)?;
                let proc = sql_json::array_maker(output.binary, *absent);
                self.json_result(call_of(proc, args, output.made(), at), &output)
            }
            JsonConstructor::ArrayOf {
                query,
                format,
                returning,
            } => self.bind_json_array_of(query, format.as_ref(), returning.as_ref(), at),
        }
    }

    /// A value of a constructor; without a format it is read as JSON where `read` says so, and
    /// becomes JSON by its type otherwise.
    fn json_input(&mut self, input: &JsonInput, read: Option<&str>) -> PlanResult<Expr> {
        let value = self.bind_expr(&input.value)?;
        let value = self.resolve_unknown(value)?;
        if let Some(format) = &input.format
            && format.encoding.is_some()
            && value.ty != SqlType::Bytea
        {
            let message = "JSON ENCODING clause is only allowed for bytea input type";
            return Err(mismatch(message, format.at));
        }
        if is_json(value.ty) || (input.format.is_none() && read.is_none()) {
            return Ok(value);
        }
        let at = place::of(&value);
        let value = match value.ty {
            SqlType::Bytea => {
                check_encoding(input.format.as_ref())?;
                recoded(CONVERT_FROM, value, SqlType::Text)?
            }
            ty if tables::category(ty) == 'S' => value,
            _ => {
                let (how, at) = match &input.format {
                    Some(format) => ("explicit", format.at),
                    None => ("implicit", at),
                };
                let message = format!("cannot use non-string types with {how} FORMAT JSON clause");
                return Err(mismatch(message, at));
            }
        };
        self.cast_explicitly(value, SqlType::Json, at)
    }

    fn bind_json_parse(&mut self, input: &JsonInput, unique: bool, at: Pos) -> PlanResult<Expr> {
        let value = self.bind_expr(&input.value)?;
        let encoded = input
            .format
            .as_ref()
            .filter(|format| format.encoding.is_some());
        if let Some(format) = encoded
            && value.ty != SqlType::Bytea
        {
            let message = "JSON ENCODING clause is only allowed for bytea input type";
            return Err(mismatch(message, format.at));
        }
        let value = match value.ty {
            SqlType::Bytea => {
                check_encoding(input.format.as_ref())?;
                recoded(CONVERT_FROM, value, SqlType::Text)?
            }
            _ => value,
        };
        if !unique {
            let at = place::of(&value);
            return self.cast_explicitly(value, SqlType::Json, at);
        }
        if value.ty != SqlType::Unknown && tables::category(value.ty) != 'S' {
            let message = "cannot use non-string types with WITH UNIQUE KEYS clause";
            return Err(mismatch(message, at));
        }
        let value = self.coerce(value, SqlType::Text, CastContext::Implicit, Pos::NONE)?;
        let proc = &sql_json::PARSE_UNIQUE;
        Ok(call_of(proc, vec![value], SqlType::Json, at))
    }

    fn bind_json_serialize(
        &mut self,
        input: &JsonInput,
        returning: Option<&JsonOutput>,
        at: Pos,
    ) -> PlanResult<Expr> {
        let value = self.json_input(input, Some("JSON_SERIALIZE"))?;
        let mut output = self.json_output(returning, &[])?;
        if returning.is_none() {
            output.ty = SqlType::Text;
        }
        if output.ty != SqlType::Bytea && tables::category(output.ty) != 'S' {
            let message = format!(
                "cannot use type {} in RETURNING clause of JSON_SERIALIZE()",
                types::name(output.ty)
            );
            let error = PlanError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(error.hint("Try returning a string type or bytea."));
        }
        let mut result = self.json_result(value, &output)?;
        result.at = at;
        Ok(result)
    }

    /// `SELECT json_agg_strict(value) FROM (query) q(value)`
    fn bind_json_array_of(
        &mut self,
        query: &ast::Query,
        format: Option<&JsonFormat>,
        returning: Option<&JsonOutput>,
        at: Pos,
    ) -> PlanResult<Expr> {
        let (_, columns) = self.bind_row_of(query, at)?;
        let [(column, _)] = columns.as_slice() else {
            let message = "subquery must return only one column";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        };
        let sample = constant(Datum::Null, *column, at);
        let output = self.json_output(returning, std::slice::from_ref(&sample))?;
        let name = AGGREGATES[usize::from(output.binary)];
        let read = format.is_some() && !is_json(*column);
        let wrapper = super::sublink::over_column(query, at, |value| {
            let value = if read { cast_to_json(value, at) } else { value };
            system_call(name, value, at)
        });
        let sublink = ast::Sublink {
            kind: ast::SublinkKind::Scalar,
            query: wrapper,
        };
        let value = self.bind_sublink(&sublink, at)?;
        self.json_result(value, &output)
    }

    /// The type that a constructor returns; without a word about it `jsonb` if an argument is.
    fn json_output(&mut self, returning: Option<&JsonOutput>, args: &[Expr]) -> PlanResult<Output> {
        let Some(given) = returning else {
            let binary = args.iter().any(|arg| arg.ty == SqlType::Jsonb);
            let ty = if binary {
                SqlType::Jsonb
            } else {
                SqlType::Json
            };
            return Ok(Output { ty, binary });
        };
        let ty = self.bind_type(&given.ty)?;
        if ty.is_of_domain() {
            let message = "RETURNING with a domain is not supported";
            return Err(PlanError::unsupported(message).at(given.ty.at));
        }
        if matches!(ty, SqlType::Record | SqlType::Void | SqlType::Unknown) {
            let message = "returning pseudo-types is not supported in SQL/JSON functions";
            return Err(PlanError::unsupported(message));
        }
        if let Some(format) = &given.format {
            if ty != SqlType::Bytea && format.encoding.is_some() {
                let message = "cannot set JSON encoding for non-bytea output types";
                return Err(PlanError::unsupported(message).at(format.at));
            }
            check_encoding(Some(format))?;
        }
        let binary = ty == SqlType::Jsonb;
        Ok(Output { ty, binary })
    }

    /// The value of a constructor as the type that it returns.
    fn json_result(&mut self, value: Expr, output: &Output) -> PlanResult<Expr> {
        let (from, at) = (value.ty, place::of(&value));
        if types::same(from, output.ty) {
            return Ok(value);
        }
        if output.ty == SqlType::Bytea {
            let value = self.cast_explicitly(value, SqlType::Text, at)?;
            return recoded(CONVERT_TO, value, SqlType::Bytea);
        }
        let context = CastContext::Assignment;
        match self.coerce_to_target(value, output.ty, context, at)? {
            Some(value) => Ok(value),
            None => {
                let (from, to) = (types::name(from), types::name(output.ty));
                let message = format!("cannot cast type {from} to {to}");
                Err(PlanError::new(SqlState::CANNOT_COERCE, message))
            }
        }
    }
}

/// The type that a constructor returns.
struct Output {
    ty: SqlType,
    /// Whether a `jsonb` is made.
    binary: bool,
}

impl Output {
    /// The type that is made, before it becomes the one that is returned.
    fn made(&self) -> SqlType {
        if self.binary {
            SqlType::Jsonb
        } else {
            SqlType::Json
        }
    }
}

fn system_name(parts: &[&str], at: Pos) -> ast::QualifiedName {
    let name = |part: &&str| ast::Name {
        text: (*part).to_owned(),
        at,
    };
    ast::QualifiedName {
        parts: parts.iter().map(name).collect(),
    }
}

fn cast_to_json(value: ast::Expr, at: Pos) -> ast::Expr {
    let ty = ast::TypeName {
        name: system_name(&["pg_catalog", "json"], at),
        modifiers: Vec::new(),
        interval_fields: None,
        dimensions: Vec::new(),
        setof: false,
        at,
    };
    let kind = K::Cast {
        arg: Box::new(value),
        ty,
    };
    ast::Expr { kind, at }
}

fn system_call(name: &str, value: ast::Expr, at: Pos) -> ast::Expr {
    let call = ast::Call {
        name: system_name(&["pg_catalog", name], at),
        args: vec![ast::Argument { name: None, value }],
        star: false,
        distinct: false,
        variadic: false,
        order_by: Vec::new(),
        within_group: false,
        filter: None,
        over: None,
        special: true,
    };
    ast::Expr {
        kind: K::Call(Box::new(call)),
        at,
    }
}
