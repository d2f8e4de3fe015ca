//! PostgreSQL's catalog functions, over the session's [`Snapshot`].

mod array;
mod definitions;
mod names;
mod server;
mod sizes;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::context;
use super::snapshot::Snapshot;
use crate::arrow::{ColumnBuilder, datum_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};

/// A function's value for one row.
type Eval = fn(&Snapshot, &[Datum]) -> SqlResult<Datum>;

/// What a function is.
#[derive(Debug, Clone, Copy)]
struct Definition {
    name: &'static str,
    result: SqlType,
    /// Whether a NULL argument makes the result NULL.
    strict: bool,
    /// Whether it does something, so that it runs as often as a statement says.
    acts: bool,
    eval: Eval,
}

const fn strict(name: &'static str, result: SqlType, eval: Eval) -> Definition {
    Definition {
        name,
        result,
        strict: true,
        acts: false,
        eval,
    }
}

const fn lax(name: &'static str, result: SqlType, eval: Eval) -> Definition {
    Definition {
        name,
        result,
        strict: false,
        acts: false,
        eval,
    }
}

const fn acting(name: &'static str, result: SqlType, eval: Eval) -> Definition {
    Definition {
        name,
        result,
        strict: false,
        acts: true,
        eval,
    }
}

/// One function, for DataFusion.
#[derive(Debug)]
struct CatalogFunction {
    definition: Definition,
    aliases: Vec<String>,
    signature: Signature,
}

impl CatalogFunction {
    fn new(definition: Definition, aliases: Vec<String>) -> CatalogFunction {
        let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let volatility = if definition.acts {
            Volatility::Volatile
        } else {
            Volatility::Stable
        };
        let signature = Signature::one_of(any, volatility);
        CatalogFunction {
            definition,
            aliases,
            signature,
        }
    }

    /// The value of one row, whose arguments are in `args`.
    fn value(&self, snapshot: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
        if self.definition.strict && args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        (self.definition.eval)(snapshot, args)
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(self.definition.result.arrow_type())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> DfResult<FieldRef> {
        Ok(Arc::new(
            self.definition.result.arrow_field(self.name(), true),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let snapshot = context::snapshot(&args.config_options)?;
        let types = args
            .arg_fields
            .iter()
            .map(|field| SqlType::from_arrow_field(field));
        let types: Vec<SqlType> = types.collect();
        let scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let columns: Vec<Arc<dyn Array>> =
            args.args.iter().map(one_or_all).collect::<DfResult<_>>()?;
        let mut values = ColumnBuilder::new(self.definition.result, rows);
        let mut row_args = Vec::with_capacity(columns.len());
        for row in 0..rows {
            row_args.clear();
            for ((column, ty), arg) in columns.iter().zip(&types).zip(&args.args) {
                let at = if matches!(arg, ColumnarValue::Scalar(_)) {
                    0
                } else {
                    row
                };
                row_args.push(datum_at(column, at, *ty)?);
            }
            values.append(&self.value(&snapshot, &row_args)?)?;
        }
        let values = values.finish();
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &values, 0,
            )?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// The array of an argument; of a constant, one row.
fn one_or_all(arg: &ColumnarValue) -> DfResult<Arc<dyn Array>> {
    match arg {
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
    }
}

/// Registers all of them, in place of functions of the same names.
///
/// # Errors
/// Those of the registry.
pub fn register(registry: &mut dyn FunctionRegistry) -> SqlResult<()> {
    let all = [
        names::FUNCTIONS,
        definitions::FUNCTIONS,
        sizes::FUNCTIONS,
        server::FUNCTIONS,
        array::FUNCTIONS,
    ];
    for definition in all.into_iter().flatten() {
        // The other names of a function that goes must go with it: whoever builds a registry
        // anew from this one would bring it back.
        let replaced = registry.udf(definition.name).ok();
        let replaced = replaced.filter(|function| function.name() == definition.name);
        let aliases = replaced.map_or_else(Vec::new, |function| function.aliases().to_vec());
        let function = CatalogFunction::new(*definition, aliases);
        registry.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

/// The argument at a position; NULL where there is none.
fn arg(args: &[Datum], at: usize) -> &Datum {
    args.get(at).unwrap_or(&Datum::Null)
}

/// A string argument.
fn text_arg(args: &[Datum], at: usize) -> SqlResult<&str> {
    match arg(args, at) {
        Datum::Text(text) => Ok(text),
        _ => Err(mismatch("text")),
    }
}

/// A whole number.
fn number_arg(args: &[Datum], at: usize) -> SqlResult<i64> {
    match arg(args, at) {
        Datum::Int2(n) => Ok(i64::from(*n)),
        Datum::Int4(n) => Ok(i64::from(*n)),
        Datum::Int8(n) => Ok(*n),
        Datum::Oid(n) => Ok(i64::from(*n)),
        Datum::Text(text) => text.trim().parse().map_err(|_| mismatch("bigint")),
        Datum::Numeric(n) => n.to_string().parse().map_err(|_| mismatch("bigint")),
        _ => Err(mismatch("bigint")),
    }
}

/// A flag; absent is false.
fn flag_arg(args: &[Datum], at: usize) -> bool {
    match arg(args, at) {
        Datum::Bool(value) => *value,
        Datum::Text(text) => matches!(text.as_str(), "t" | "true" | "on" | "yes" | "1"),
        _ => false,
    }
}

/// An oid, or a text that reads as one.
fn oid_arg(args: &[Datum], at: usize) -> SqlResult<u32> {
    u32::try_from(number_arg(args, at)?).map_err(|_| mismatch("oid"))
}

/// A relation by oid, or by name.
fn relation_arg(snapshot: &Snapshot, args: &[Datum], at: usize) -> SqlResult<u32> {
    match arg(args, at) {
        Datum::Text(name) => names::relation_oid(snapshot, name),
        _ => oid_arg(args, at),
    }
}

fn mismatch(wanted: &str) -> SqlError {
    let message = format!("an argument of a catalog function is not of type {wanted}");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}
