//! SET CONSTRAINTS: which constraints wait for the end of the transaction.

use crate::catalog::Oid;

/// Which constraints are deferred in a transaction, by SET CONSTRAINTS.
#[derive(Debug, Clone, Default)]
pub struct Deferral {
    /// Of all that may be.
    pub all: Option<bool>,
    /// Of some, said after that.
    pub named: Vec<(Oid, bool)>,
}

impl Deferral {
    /// Whether a deferrable constraint is deferred.
    pub fn of(&self, oid: Oid, initially: bool) -> bool {
        let named = self.named.iter().rev().find(|(named, _)| *named == oid);
        let said = named.map(|(_, deferred)| *deferred).or(self.all);
        said.unwrap_or(initially)
    }
}
