//! Functions of values: a signature, a result type, and a body that takes one row's arguments.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::{SessionVars, session_vars};
use crate::arrow::{ColumnBuilder, datum_at, datum_from_scalar, scalar_from_datum};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType};

/// One call: the arguments of one row and, for functions that ask for it, the session.
pub struct Call<'a> {
    /// Arguments.
    pub args: &'a [Datum],
    /// Their types.
    pub types: &'a [SqlType],
    session: Option<&'a Arc<SessionVars>>,
}

impl Call<'_> {
    /// The session's values.
    ///
    /// # Errors
    /// XX000 for a function that was not declared to need them.
    pub fn session(&self) -> SqlResult<&Arc<SessionVars>> {
        self.session.ok_or_else(|| {
            crate::error::SqlError::internal("a function was declared to need no session")
        })
    }

    /// A string argument.
    pub fn text(&self, at: usize) -> Option<&str> {
        self.args.get(at)?.as_str()
    }

    /// An integer argument of any width.
    pub fn integer(&self, at: usize) -> Option<i64> {
        match self.args.get(at)? {
            Datum::Int2(v) => Some(i64::from(*v)),
            Datum::Int4(v) => Some(i64::from(*v)),
            Datum::Int8(v) => Some(*v),
            Datum::Oid(v) => Some(i64::from(*v)),
            _ => None,
        }
    }
}

/// A function's body.
pub type Body = fn(&Call<'_>) -> SqlResult<Datum>;

/// How often a function is evaluated, and on what it depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Result {
    /// Of its arguments alone.
    Immutable,
    /// Of its arguments and the session, which no plan may remember (functions rule 1).
    Session,
    /// Another value for every row.
    EveryRow,
}

/// A function with PostgreSQL's name.
#[derive(Debug)]
pub struct PgFunction {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    result: SqlType,
    kind: Result,
    /// Whether NULL arguments reach the body.
    takes_nulls: bool,
    body: Body,
}

impl PgFunction {
    /// A function without arguments.
    pub fn nullary(name: &'static str, result: SqlType, kind: Result, body: Body) -> PgFunction {
        PgFunction::new(name, vec![vec![]], result, kind, body)
    }

    /// A function that takes any of these lists of argument types. NULL for any argument gives
    /// NULL.
    pub fn new(
        name: &'static str,
        arguments: Vec<Vec<DataType>>,
        result: SqlType,
        kind: Result,
        body: Body,
    ) -> PgFunction {
        // A stable function's value may be folded into a plan, which may be kept (rule 1).
        let volatility = match kind {
            Result::Immutable => Volatility::Immutable,
            Result::Session | Result::EveryRow => Volatility::Volatile,
        };
        let one = |types: Vec<DataType>| match types.as_slice() {
            [] => TypeSignature::Nullary,
            _ => TypeSignature::Exact(types),
        };
        let mut signatures: Vec<TypeSignature> = arguments.into_iter().map(one).collect();
        let signature = match signatures.len() {
            1 => signatures.swap_remove(0),
            _ => TypeSignature::OneOf(signatures),
        };
        PgFunction {
            name,
            aliases: Vec::new(),
            signature: Signature::new(signature, volatility),
            result,
            kind,
            takes_nulls: false,
            body,
        }
    }

    /// Other names of the function.
    #[must_use]
    pub fn also(mut self, names: &[&str]) -> PgFunction {
        self.aliases
            .extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Takes any number of arguments of any type.
    #[must_use]
    pub fn any(mut self, arguments: usize) -> PgFunction {
        self.signature = Signature::any(arguments, self.signature.volatility);
        self
    }

    /// Lets NULL arguments reach the body.
    #[must_use]
    pub fn with_nulls(mut self) -> PgFunction {
        self.takes_nulls = true;
        self
    }

    fn row(&self, call: &Call<'_>) -> SqlResult<Datum> {
        if !self.takes_nulls && call.args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        (self.body)(call)
    }

    fn invoke(&self, args: &ScalarFunctionArgs) -> SqlResult<ColumnarValue> {
        let session = match self.kind {
            Result::Session => Some(session_vars(&args.config_options)?),
            Result::Immutable | Result::EveryRow => None,
        };
        let types: Vec<SqlType> = args
            .arg_fields
            .iter()
            .map(|field| SqlType::from_arrow_field(field))
            .collect();
        let arrays = args
            .args
            .iter()
            .any(|arg| matches!(arg, ColumnarValue::Array(_)));
        let rows = if arrays || self.kind == Result::EveryRow {
            args.number_rows
        } else {
            1
        };
        let mut values: Vec<Datum> = Vec::with_capacity(args.args.len());
        let mut builder = ColumnBuilder::new(self.result, rows);
        for row in 0..rows {
            values.clear();
            for (arg, ty) in args.args.iter().zip(&types) {
                values.push(match arg {
                    ColumnarValue::Scalar(scalar) => datum_from_scalar(scalar, *ty)?,
                    ColumnarValue::Array(array) => datum_at(array as &dyn Array, row, *ty)?,
                });
            }
            let call = Call {
                args: &values,
                types: &types,
                session: session.as_ref(),
            };
            let value = self.row(&call)?;
            if !arrays && self.kind != Result::EveryRow {
                return Ok(ColumnarValue::Scalar(scalar_from_datum(
                    &value,
                    self.result,
                )?));
            }
            builder.append(&value)?;
        }
        Ok(ColumnarValue::Array(builder.finish()))
    }
}

impl PartialEq for PgFunction {
    fn eq(&self, other: &PgFunction) -> bool {
        self.name == other.name && self.signature == other.signature
    }
}

impl Eq for PgFunction {}

impl Hash for PgFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PgFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.arrow_type())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(self.result.arrow_field(self.name, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(self.invoke(&args)?)
    }
}
