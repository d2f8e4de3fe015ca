//! SQL/JSON: the predicate and the constructors.

use super::Binder;
use crate::ast::{JsonConstructor, Pos};
use crate::bound::Expr;
use crate::error::{PlanError, PlanResult};

impl Binder<'_> {
    pub(super) fn bind_json(&mut self, json: &JsonConstructor, at: Pos) -> PlanResult<Expr> {
        let name = match json {
            JsonConstructor::Parse { .. } => "JSON",
            JsonConstructor::Scalar(_) => "JSON_SCALAR",
            JsonConstructor::Serialize { .. } => "JSON_SERIALIZE",
            JsonConstructor::Object { .. } => "JSON_OBJECT",
            JsonConstructor::Array { .. } | JsonConstructor::ArrayOf { .. } => "JSON_ARRAY",
        };
        Err(PlanError::unsupported(format!("{name} is not supported")).at(at))
    }
}
