//! Domains: CREATE DOMAIN, ALTER DOMAIN, and their reading at start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::fields::{Fields, damaged};
use super::names::free_name_among;
use super::state::{CatalogChange, CatalogState};
use super::system::SystemTables;
use super::{Catalog, DdlLog, DomainBody, DomainCheckInfo, Oid, TypeBody, TypeInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;

/// A constraint of a domain to be made.
#[derive(Debug, Clone)]
pub struct NewDomainCheck {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// The condition, as SQL text with every cast; NOT NULL has none.
    pub condition: Option<(String, String)>,
    /// NOT VALID
    pub not_valid: bool,
}

/// CREATE DOMAIN.
#[derive(Debug, Clone)]
pub struct NewDomain {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The type that it is over.
    pub base: SqlType,
    /// `typndims`
    pub dimensions: i32,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// Its constraints, in the order in which they are written.
    pub constraints: Vec<NewDomainCheck>,
}

/// 42710
fn constraint_exists(name: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

impl SystemTables {
    /// Reads the domains into a state that has the enumerated types; the greatest oid of one.
    pub(super) fn load_domains(
        &self,
        txn: &mut Transaction,
        state: &mut CatalogState,
    ) -> SqlResult<Oid> {
        let mut greatest = 0;
        let mut constraints: HashMap<Oid, Vec<_>> = HashMap::new();
        for (place, values) in self.domain_constraints.read(txn)? {
            let mut fields = Fields::new(values.clone(), "evenkeel_domain_constraint");
            greatest = greatest.max(fields.oid()?);
            fields.text()?;
            let of = constraints.entry(fields.oid()?).or_default();
            of.push((place, Fields::new(values, "evenkeel_domain_constraint")));
        }
        // A domain is younger than what it is over.
        let mut rows = Vec::new();
        for (place, values) in self.domains.read(txn)? {
            let oid = Fields::new(values.clone(), "evenkeel_domain").oid()?;
            rows.push((oid, place, values));
        }
        rows.sort_by_key(|row| row.0);
        for (_, place, values) in rows {
            let mut info = {
                let type_of = |oid, typmod| state.column_type(oid, typmod);
                TypeInfo::read_domain(place, values, type_of)?
            };
            for (place, fields) in constraints.remove(&info.oid).unwrap_or_default() {
                info.read_constraint(place, fields)?;
            }
            if let TypeBody::Domain(body) = &mut info.body {
                body.checks.sort_by(|a, b| a.name.cmp(&b.name));
            }
            let schema = state.schema_name(info.schema_oid).cloned();
            info.schema = schema.ok_or_else(|| damaged("evenkeel_domain"))?;
            greatest = greatest.max(info.oid).max(info.array_oid);
            state.apply(&CatalogChange::PutType(Arc::new(info)));
        }
        Ok(greatest)
    }
}

impl CatalogState {
    /// The names of the constraints of a schema's domains.
    pub fn domain_constraint_names(&self, schema: Oid) -> impl Iterator<Item = &Arc<str>> {
        let domains = self.types_in(schema).filter_map(|info| info.domain());
        domains.flat_map(DomainBody::constraint_names)
    }

    /// The domains over a type, over its arrays or over those domains, with the type itself.
    pub fn types_over(&self, info: &Arc<TypeInfo>) -> Vec<Arc<TypeInfo>> {
        let mut all = vec![Arc::clone(info)];
        let mut at = 0;
        while let Some(base) = all.get(at).cloned() {
            at += 1;
            let over = self.created_types().filter(|other| other.is_over(&base));
            all.extend(over.cloned());
        }
        all
    }
}

impl Catalog {
    /// Creates a domain.
    ///
    /// # Errors
    /// 42710, 3F000, 42704 for a type that has gone meanwhile, and the engine's.
    pub async fn create_domain(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        new: NewDomain,
    ) -> SqlResult<()> {
        let schema_oid = self.schema_for_create(ddl, &new.schema)?;
        self.claim_type_name(txn, ddl, schema_oid, &new.name)
            .await?;
        self.keep_type(txn, ddl, new.base).await?;
        let body = DomainBody {
            // Its definition may have changed before it was locked.
            base: self.view(ddl).type_now(new.base),
            dimensions: new.dimensions,
            default: new.default.map(Into::into),
            not_null: None,
            checks: Vec::new(),
        };
        let mut info = TypeInfo {
            oid: self.new_oid()?,
            array_oid: self.new_oid()?,
            name: new.name.into(),
            schema: new.schema.into(),
            schema_oid,
            body: TypeBody::Domain(body),
            places: Vec::new(),
        };
        self.lock_type(txn, info.oid, TableLockMode::AccessExclusive)
            .await?;
        let state = self.view(ddl);
        for constraint in &new.constraints {
            self.add_domain_constraint(&state, &mut info, constraint)?;
        }
        self.put_type(txn, ddl, info).await
    }

    /// Adds a constraint to a domain that is being defined: its name.
    ///
    /// # Errors
    /// 42710 for a name that is taken.
    pub fn add_domain_constraint(
        &self,
        state: &CatalogState,
        info: &mut TypeInfo,
        new: &NewDomainCheck,
    ) -> SqlResult<Arc<str>> {
        let (domain, schema) = (Arc::clone(&info.name), info.schema_oid);
        let body = info.domain_mut()?;
        if new.condition.is_none() && body.not_null.is_some() {
            let (_, name) = body.not_null.clone().unwrap_or_default();
            return Ok(name);
        }
        let taken = |name: &str| body.constraint_names().any(|known| **known == *name);
        let name: Arc<str> = match &new.name {
            Some(name) if taken(name) => return Err(constraint_exists(name, &domain)),
            Some(name) => name.as_str().into(),
            None => {
                let label = match new.condition {
                    Some(_) => "check",
                    None => "not_null",
                };
                let tables = state.tables().filter(|table| table.schema_oid == schema);
                let elsewhere: HashSet<&str> = tables
                    .flat_map(|table| table.constraint_names())
                    .chain(state.domain_constraint_names(schema))
                    .map(|name| &**name)
                    .collect();
                let used = |name: &str| taken(name) || elsewhere.contains(name);
                free_name_among(used, &domain, "", label).into()
            }
        };
        let oid = self.new_oid()?;
        match &new.condition {
            None => body.not_null = Some((oid, Arc::clone(&name))),
            Some((text, pretty)) => {
                body.checks.push(DomainCheckInfo {
                    oid,
                    name: Arc::clone(&name),
                    text: text.as_str().into(),
                    pretty: pretty.as_str().into(),
                    validated: !new.not_valid,
                });
                body.checks.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        Ok(name)
    }
}
