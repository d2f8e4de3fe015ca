//! Coercion to domains.

use evenkeel_types::DomainType;
use evenkeel_types::{Datum, SqlState, TypeError};

use super::Env;
use crate::error::ExprResult;
use crate::program::DomainNode;

/// `format_type`
const FORMAT_TYPE: u32 = 1081;

impl Env<'_> {
    /// The value, once its domains have allowed it.
    pub(super) fn allowed(&self, node: &DomainNode, row: &[Datum]) -> ExprResult<Datum> {
        let mut space = self.space();
        let value = self.arg(&node.arg, row, &mut space)?;
        match value {
            Datum::Array(array) if node.each => {
                for (at, element) in array.elements().iter().enumerate() {
                    self.count_term(at)?;
                    self.test_domain(node, element)?;
                }
            }
            _ if node.each => {}
            value => self.test_domain(node, value)?,
        }
        Ok(value.clone())
    }

    fn test_domain(&self, node: &DomainNode, value: &Datum) -> ExprResult<()> {
        for test in &node.tests {
            let Some((name, condition)) = test else {
                if value.is_null() {
                    return Err(self.no_null(node.domain));
                }
                continue;
            };
            let env = Env {
                domain_value: Some(value),
                operand: None,
                ..*self
            };
            if env.truth(condition, &[])? == Some(false) {
                return Err(self.violates(node.domain, name));
            }
        }
        Ok(())
    }

    /// The domain's name, with its schema unless the session's path has it.
    fn shown(&self, domain: &'static DomainType) -> String {
        let args = [Datum::Oid(domain.oid()), Datum::Null];
        match self.session.system_call(FORMAT_TYPE, &args) {
            Ok(Datum::Text(name)) => name,
            _ => domain.name().to_owned(),
        }
    }

    /// 23502
    fn no_null(&self, domain: &'static DomainType) -> TypeError {
        let message = format!("domain {} does not allow null values", self.shown(domain));
        let schema = &*domain.parts().schema;
        TypeError::new(SqlState::NOT_NULL_VIOLATION, message)
            .data_type((schema, &domain.bare_name()), None)
    }

    /// 23514
    fn violates(&self, domain: &'static DomainType, constraint: &str) -> TypeError {
        let message = format!(
            "value for domain {} violates check constraint \"{constraint}\"",
            self.shown(domain)
        );
        let schema = &*domain.parts().schema;
        TypeError::new(SqlState::CHECK_VIOLATION, message)
            .data_type((schema, &domain.bare_name()), Some(constraint))
    }
}
