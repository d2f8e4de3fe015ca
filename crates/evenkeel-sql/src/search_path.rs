//! The schemas that names without one are looked up in.

use std::ops::Deref;
use std::sync::Arc;

/// The name by which every session means its own temporary schema.
pub const OWN_TEMPORARY: &str = "pg_temp";
/// Names of temporary schemas begin with this.
pub const TEMPORARY_PREFIX: &str = "pg_temp_";
const PG_CATALOG: &str = "pg_catalog";

/// Whether a schema is a session's temporary one, by its name: no other can have such a name.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY_PREFIX)
}

/// `search_path` as it is in force: the schemas in order, with the session's temporary one, if it
/// has one, in front of those that are named or at the place of `pg_temp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SearchPath {
    schemas: Arc<[String]>,
    temporary: Option<Arc<str>>,
    /// The first schema is the temporary one, though the setting does not name it.
    implicit: bool,
}

impl SearchPath {
    /// The path that the setting names, for a session with this temporary schema.
    pub fn new(mut named: Vec<String>, temporary: Option<&Arc<str>>) -> SearchPath {
        let mut implicit = false;
        if let Some(own) = temporary {
            let mut is_named = false;
            for name in &mut named {
                if name == OWN_TEMPORARY {
                    *name = own.to_string();
                }
                is_named |= **name == **own;
            }
            if !is_named {
                implicit = true;
                named.insert(0, own.to_string());
            }
        }
        SearchPath {
            schemas: named.into(),
            temporary: temporary.cloned(),
            implicit,
        }
    }

    /// The session's temporary schema.
    pub fn temporary(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// The schema that a statement means by a name: `pg_temp` is the session's own.
    pub fn meant<'a>(&'a self, schema: &'a str) -> &'a str {
        match &self.temporary {
            Some(own) if schema == OWN_TEMPORARY => own,
            _ => schema,
        }
    }

    /// The schemas that the setting names, in which new relations are made.
    pub fn named(&self) -> &[String] {
        &self.schemas[usize::from(self.implicit)..]
    }

    /// All schemas in the order in which they are searched. Unless it is named, `pg_catalog` comes
    /// before those that are.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let (implicit, named) = self.schemas.split_at(usize::from(self.implicit));
        let catalog = (!named.iter().any(|schema| schema == PG_CATALOG)).then_some(PG_CATALOG);
        let named = named.iter().map(String::as_str);
        let implicit = implicit.iter().map(String::as_str);
        implicit.chain(catalog).chain(named)
    }
}

impl Deref for SearchPath {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.schemas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(named: &[&str], temporary: Option<&str>) -> SearchPath {
        let named = named.iter().map(|name| (*name).to_owned()).collect();
        SearchPath::new(named, temporary.map(Arc::from).as_ref())
    }

    #[test]
    fn a_temporary_schema_comes_first_unless_the_path_has_it_elsewhere() {
        let none = path(&["pg_temp", "public"], None);
        assert_eq!(none.named(), ["pg_temp", "public"]);
        assert_eq!(none.meant("pg_temp"), "pg_temp");
        let first = path(&["public"], Some("pg_temp_3"));
        let all: Vec<&str> = first.all().collect();
        assert_eq!(all, ["pg_temp_3", "pg_catalog", "public"]);
        assert_eq!(first.named(), ["public"]);
        assert_eq!(first.meant("pg_temp"), "pg_temp_3");
        let last = path(&["pg_catalog", "public", "pg_temp"], Some("pg_temp_3"));
        let all: Vec<&str> = last.all().collect();
        assert_eq!(all, ["pg_catalog", "public", "pg_temp_3"]);
        assert_eq!(last.named(), ["pg_catalog", "public", "pg_temp_3"]);
    }
}
