//! Names of relations as the grammar gives them.

use evenkeel_planner::ast::QualifiedName;

use crate::error::{SqlError, SqlResult, SqlState};

/// A name's schema, if given, and last part.
///
/// # Errors
/// 42601 for a name of too many parts.
pub fn split_name(name: &QualifiedName) -> SqlResult<(Option<String>, String)> {
    if name.parts.len() > 3 {
        return Err(SqlError::syntax(format!(
            "improper relation name (too many dotted names): {}",
            name.display()
        )));
    }
    Ok((name.schema().map(str::to_owned), name.last().to_owned()))
}

/// 42P01.
pub fn undefined_table(schema: Option<&str>, table: &str) -> SqlError {
    let name = match schema {
        Some(schema) => format!("{schema}.{table}"),
        None => table.to_owned(),
    };
    SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}
