//! Functions of strings where DataFusion's are not PostgreSQL's.

use datafusion::arrow::datatypes::DataType;

use super::define::{Call, PgFunction, Result};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};

fn chr(call: &Call<'_>) -> SqlResult<Datum> {
    let code = call.integer(0).unwrap_or_default();
    let character = u32::try_from(code).ok().and_then(char::from_u32);
    let message = match (code, character) {
        (0, _) => "null character not permitted".to_owned(),
        (_, Some(character)) => return Ok(character.to_string().into()),
        (..0, _) => "character number must be positive".to_owned(),
        (..=0x10_ffff, _) => format!("requested character not valid for encoding: {code}"),
        _ => format!("requested character too large for encoding: {code}"),
    };
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

pub(super) fn functions() -> Vec<PgFunction> {
    let number = vec![vec![DataType::Int64]];
    vec![PgFunction::new(
        "chr",
        number,
        SqlType::Text,
        Result::Immutable,
        chr,
    )]
}
