//! CREATE DOMAIN, ALTER DOMAIN.

use std::sync::Arc;

use evenkeel_engine::TableLockMode;
use evenkeel_planner::ast::{
    self, AlterDomain, Constraint, ConstraintKind, CreateDomain, DomainChange, Name, Persistence,
    QualifiedName, WrittenExpr,
};
use evenkeel_types::{DomainCheck, DomainParts, DomainType};

use super::Session;
use super::alter_rows::DomainColumn;
use super::enums::undefined_type;
use super::schemas::undefined_schema;
use crate::catalog::{DomainBody, NewDomain, NewDomainCheck, TypeInfo, gone_type};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::parse::type_named;
use crate::planner::rows;
use crate::quote::quote_ident;
use crate::types::SqlType;

fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// 42704
fn no_constraint(name: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of domain \"{domain}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn not_deferrable() -> SqlError {
    let message = "specifying constraint deferrability not supported for domains";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn not_enforceable() -> SqlError {
    let message = "specifying constraint enforceability not supported for domains";
    SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
}

/// A part of a constraint that a domain's cannot have.
fn refused_kind(kind: &ConstraintKind) -> Option<SqlError> {
    Some(match kind {
        ConstraintKind::Key(key) if key.primary => {
            syntax("primary key constraints not possible for domains")
        }
        ConstraintKind::Key(_) => syntax("unique constraints not possible for domains"),
        ConstraintKind::ForeignKey(_) => syntax("foreign key constraints not possible for domains"),
        ConstraintKind::Identity { .. } | ConstraintKind::Generated { .. } => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "specifying GENERATED not supported for domains",
        ),
        ConstraintKind::Unbuilt(clause) => SqlError::unsupported(clause),
        _ => return None,
    })
}

impl Session {
    pub(super) async fn create_domain(&mut self, create: &CreateDomain) -> SqlResult<()> {
        let (schema, name) = self
            .new_name(&create.name, Persistence::Permanent, "DOMAIN")
            .await?;
        let written = &create.definition;
        let base = self.column_type(&written.ty)?;
        if !base.is_storable() || base.array_of().is_none() && !is_array(base) {
            let shown = base.name();
            let message = format!("\"{shown}\" is not a valid base type for a domain");
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(self.placed(error, written.ty.at));
        }
        self.check_domain_collation(written, base)?;
        self.refuse_attributes_of_domain(written)?;
        let mut new = NewDomain {
            default: None,
            dimensions: i32::try_from(written.ty.dimensions.len()).unwrap_or_default(),
            constraints: Vec::new(),
            schema,
            name,
            base,
        };
        self.domain_constraints(&written.constraints, &mut new)?;
        if let (None, SqlType::Domain(of)) = (&new.default, base) {
            new.default = of.default().map(str::to_owned);
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.create_domain(txn, ddl, new).await
    }

    /// DEFERRABLE and the like, which no constraint of a domain can be.
    fn refuse_attributes_of_domain(&self, written: &ast::TableColumn) -> SqlResult<()> {
        let Some((clause, at)) = written.misplaced else {
            return Ok(());
        };
        let error = match clause {
            "ENFORCED" | "NOT ENFORCED" => not_enforceable(),
            _ => not_deferrable(),
        };
        Err(self.placed(error, at))
    }

    /// 0A000 for a collation other than the one that there is.
    fn check_domain_collation(&self, written: &ast::TableColumn, base: SqlType) -> SqlResult<()> {
        let Some(collation) = &written.collation else {
            return Ok(());
        };
        let element = base.element().unwrap_or(base).storage();
        if !element.is_string() || element == SqlType::InternalChar {
            let message = format!("collations are not supported by type {}", base.name());
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(self.placed(error, written.ty.at));
        }
        match (collation.schema(), collation.last()) {
            (None | Some("pg_catalog"), "C" | "POSIX" | "default") => Ok(()),
            _ => Err(SqlError::unsupported("COLLATE of a domain")),
        }
    }

    /// DEFAULT and the constraints of a new domain.
    fn domain_constraints(&self, written: &[Constraint], new: &mut NewDomain) -> SqlResult<()> {
        let (mut defaulted, mut null) = (false, None);
        for constraint in written {
            if constraint.deferrable {
                return Err(self.placed(not_deferrable(), constraint.at));
            }
            match &constraint.kind {
                ConstraintKind::Default(value) => {
                    if std::mem::replace(&mut defaulted, true) {
                        let error = syntax("multiple default expressions");
                        return Err(self.placed(error, constraint.at));
                    }
                    new.default = self.domain_default(value, &new.name, new.base)?;
                }
                ConstraintKind::Null | ConstraintKind::NotNull(_) => {
                    let not_null = constraint.kind != ConstraintKind::Null;
                    match null {
                        Some(before) if before != not_null => {
                            let error = syntax("conflicting NULL/NOT NULL constraints");
                            return Err(self.placed(error, constraint.at));
                        }
                        Some(true) => {
                            let message = "redundant NOT NULL constraint definition";
                            let state = SqlState::INVALID_OBJECT_DEFINITION;
                            let error = SqlError::new(state, message);
                            return Err(self.placed(error, constraint.at));
                        }
                        _ => {}
                    }
                    null = Some(not_null);
                    if not_null {
                        new.constraints.push(NewDomainCheck {
                            name: constraint.name.as_ref().map(|name| name.text.clone()),
                            condition: None,
                            not_valid: false,
                        });
                    }
                }
                ConstraintKind::Check(_) => {
                    let check = self.domain_check(constraint, new.base, &new.schema)?;
                    new.constraints.push(check);
                }
                other => {
                    let refused = refused_kind(other);
                    let refused = refused.map(|error| self.placed(error, constraint.at));
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
        Ok(())
    }

    /// A CHECK constraint of a domain.
    fn domain_check(
        &self,
        constraint: &Constraint,
        base: SqlType,
        schema: &str,
    ) -> SqlResult<NewDomainCheck> {
        let name = constraint.name.as_ref().map(|name| name.text.clone());
        let ConstraintKind::Check(written) = &constraint.kind else {
            return Ok(NewDomainCheck {
                name,
                condition: None,
                not_valid: false,
            });
        };
        if constraint.no_inherit {
            let message = "check constraints for domains cannot be marked NO INHERIT";
            let error = SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
            return Err(self.placed(error, constraint.at));
        }
        if constraint.not_enforced {
            return Err(self.placed(not_enforceable(), constraint.at));
        }
        let cx = Arc::new(self.statement_cx(self.view()));
        let bound = rows::domains::bind_check(&self.current_text, written, (base, schema), &cx);
        // As in PostgreSQL.
        let bound = bound.map_err(SqlError::without_position)?;
        Ok(NewDomainCheck {
            name,
            condition: Some((bound.text, bound.pretty)),
            not_valid: constraint.not_valid,
        })
    }

    /// The DEFAULT of a domain as it is kept; NULL is none.
    fn domain_default(
        &self,
        value: &WrittenExpr,
        name: &str,
        base: SqlType,
    ) -> SqlResult<Option<String>> {
        self.check_default(value, name, base)?;
        let is_null = matches!(value.expr.kind, ast::ExprKind::Literal(ast::Literal::Null));
        Ok((!is_null).then(|| self.kept_default(value)))
    }

    /// The domain of a name.
    ///
    /// # Errors
    /// 42704 if there is no such type, 42809 if it is no domain.
    pub(super) fn named_domain(&self, name: &QualifiedName) -> SqlResult<Arc<TypeInfo>> {
        let not_domain = |shown: &str| {
            let message = format!("{shown} is not a domain");
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        };
        match self.find_created(name) {
            Ok(Some(info)) if info.is_domain() => Ok(info),
            Ok(Some(info)) => Err(not_domain(&self.type_in_words(&info))),
            // A relation's row type has its name.
            Ok(None) if self.renamed_relation(name).is_ok() => {
                Err(not_domain(&quote_ident(name.last())))
            }
            Ok(None) => Err(undefined_type(name)),
            Err(error) if error.sqlstate == SqlState::WRONG_OBJECT_TYPE => {
                let shown = type_named(name.last()).map(|ty| ty.base_name());
                Err(not_domain(shown.unwrap_or("unknown")))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn alter_domain(&mut self, alter: &AlterDomain) -> SqlResult<()> {
        let info = self.named_domain(&alter.name)?;
        self.lock_type(info.oid).await?;
        let info = self.view().created_type(info.oid).cloned();
        let info = info.ok_or_else(|| gone_type(0))?;
        match &alter.change {
            DomainChange::Owner(role) => self.check_owner(role),
            DomainChange::Rename(to) => self.rename_type(info.oid, &to.text).await,
            DomainChange::SetSchema(to) => self.move_type(&info, &to.text).await,
            DomainChange::Default(value) => {
                let base = info.domain().map_or(SqlType::Text, |body| body.base);
                let value = value.as_ref();
                let value = value.map(|value| self.domain_default(value, &info.name, base));
                let value = value.transpose()?.flatten();
                self.change_domain(&info, |body| {
                    body.default = value.map(Into::into);
                    Ok(())
                })
                .await
            }
            DomainChange::NotNull(true) => {
                let constraint = NewDomainCheck {
                    name: None,
                    condition: None,
                    not_valid: false,
                };
                self.add_domain_constraint(&info, constraint).await
            }
            DomainChange::NotNull(false) => {
                self.change_domain(&info, |body| {
                    body.not_null = None;
                    Ok(())
                })
                .await
            }
            DomainChange::AddConstraint(constraint) => {
                if constraint.deferrable {
                    return Err(not_deferrable());
                }
                let base = info.domain().map_or(SqlType::Text, |body| body.base);
                let new = self.domain_check(constraint, base, &info.schema)?;
                self.add_domain_constraint(&info, new).await
            }
            DomainChange::DropConstraint { name, if_exists } => {
                self.drop_domain_constraint(&info, name, *if_exists).await
            }
            DomainChange::Validate(name) => self.validate_domain(&info, name).await,
            DomainChange::RenameConstraint { from, to } => {
                self.rename_domain_constraint(&info, &from.text, &to.text)
                    .await
            }
        }
    }

    async fn change_domain(
        &mut self,
        info: &TypeInfo,
        change: impl FnOnce(&mut DomainBody) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let put = |_: &_, info: &mut TypeInfo| change(info.domain_mut()?);
        catalog.change_type(txn, ddl, info.oid, put).await
    }

    async fn add_domain_constraint(
        &mut self,
        info: &Arc<TypeInfo>,
        new: NewDomainCheck,
    ) -> SqlResult<()> {
        let body = info.domain();
        if new.condition.is_none() && body.is_some_and(|body| body.not_null.is_some()) {
            return Ok(());
        }
        let state = self.view();
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let put = {
            let new = new.clone();
            move |catalog: &crate::catalog::Catalog, info: &mut TypeInfo| {
                catalog.add_domain_constraint(&state, info, &new).map(drop)
            }
        };
        catalog.change_type(txn, ddl, info.oid, put).await?;
        if new.not_valid {
            return Ok(());
        }
        let condition = new.condition.as_ref().map(|(text, _)| text.as_str());
        self.check_domain_columns(info, condition).await
    }

    async fn drop_domain_constraint(
        &mut self,
        info: &TypeInfo,
        name: &Name,
        if_exists: bool,
    ) -> SqlResult<()> {
        let name = &*name.text;
        let there = info.domain().is_some_and(|body| {
            let mut names = body.constraint_names();
            names.any(|known| **known == *name)
        });
        if !there && if_exists {
            let error = no_constraint(name, &info.name);
            let message = format!("{}, skipping", error.message);
            self.notice("NOTICE", SqlState::SUCCESS, message);
            return Ok(());
        }
        if !there {
            return Err(no_constraint(name, &info.name));
        }
        self.change_domain(info, |body| {
            body.checks.retain(|check| *check.name != *name);
            body.not_null.take_if(|(_, known)| **known == *name);
            Ok(())
        })
        .await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_comments(txn, ddl).await
    }

    async fn validate_domain(&mut self, info: &Arc<TypeInfo>, name: &Name) -> SqlResult<()> {
        let name = &*name.text;
        let body = info.domain();
        let check = body.and_then(|body| body.checks.iter().find(|check| *check.name == *name));
        let Some(check) = check else {
            let not_null = body.and_then(|body| body.not_null.as_ref());
            if not_null.is_some_and(|(_, known)| **known == *name) {
                let message = format!(
                    "constraint \"{name}\" of domain \"{}\" is not a check constraint",
                    info.name
                );
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            return Err(no_constraint(name, &info.name));
        };
        if check.validated {
            return Ok(());
        }
        let text = check.text.to_string();
        self.check_domain_columns(info, Some(&text)).await?;
        self.change_domain(info, |body| {
            let checks = body.checks.iter_mut().filter(|check| *check.name == *name);
            checks.for_each(|check| check.validated = true);
            Ok(())
        })
        .await
    }

    async fn rename_domain_constraint(
        &mut self,
        info: &TypeInfo,
        from: &str,
        to: &str,
    ) -> SqlResult<()> {
        let shown = self.type_in_words(info);
        self.change_domain(info, |body| {
            let there = |name: &str| body.constraint_names().any(|known| **known == *name);
            if !there(from) {
                let message = format!("constraint \"{from}\" for domain {shown} does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            if there(to) {
                let message = format!("constraint \"{to}\" for domain {shown} already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            match &mut body.not_null {
                Some((_, name)) if **name == *from => *name = to.into(),
                _ => {
                    let checks = body.checks.iter_mut();
                    let found = checks.filter(|check| *check.name == *from);
                    found.for_each(|check| check.name = to.into());
                }
            }
            body.checks.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(())
        })
        .await
    }

    /// Looks at all values of a domain, and of those over it, that tables have: whether they keep
    /// to a condition, or are not NULL.
    ///
    /// # Errors
    /// 23514, 23502; 0A000 for a column of arrays of it.
    async fn check_domain_columns(
        &mut self,
        info: &Arc<TypeInfo>,
        condition: Option<&str>,
    ) -> SqlResult<()> {
        let asked = SqlType::Domain(asked_alone(info, condition)?);
        let state = self.view();
        let mut tables: Vec<(u32, Arc<str>)> = Vec::new();
        for ty in state.types_over(info) {
            for (table, at) in state.columns_of_type(&ty) {
                let column = &table.columns[at];
                if column.declared().oid() == ty.array_oid {
                    let message = format!(
                        "cannot alter type \"{}\" because column \"{}.{}\" uses it",
                        ty.name, table.name, column.name
                    );
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                tables.push((table.oid, Arc::clone(&column.name)));
            }
        }
        for (oid, column) in tables {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            let table = catalog
                .lock_table(txn, ddl, oid, TableLockMode::Share)
                .await?;
            let Some(at) = table.column(&column) else {
                continue;
            };
            let cx = Arc::new(self.statement_cx(self.view()));
            let program = rows::domains::guard(&table, at, asked, &cx)?;
            let column = DomainColumn {
                table,
                at,
                program,
                cx,
            };
            self.check_domain_column(column).await?;
        }
        Ok(())
    }

    pub(super) async fn rename_type(&mut self, oid: u32, to: &str) -> SqlResult<()> {
        let change = |info: &mut TypeInfo| {
            info.name = to.into();
            Ok(())
        };
        self.redefine(oid, change).await
    }

    pub(super) async fn move_type(&mut self, info: &TypeInfo, to: &str) -> SqlResult<()> {
        self.refuse_move(&info.schema, to)?;
        let to = self.effective.search_path.meant(to).to_owned();
        let oid = self.view().schema_oid(&to);
        let oid = oid.ok_or_else(|| undefined_schema(&to))?;
        let change = |info: &mut TypeInfo| {
            info.schema = to.as_str().into();
            info.schema_oid = oid;
            Ok(())
        };
        self.redefine(info.oid, change).await
    }
}

fn is_array(ty: SqlType) -> bool {
    matches!(ty.storage(), SqlType::Array(..))
}

/// A domain that asks for nothing but one condition, or for values that are not NULL.
fn asked_alone(info: &TypeInfo, condition: Option<&str>) -> SqlResult<&'static DomainType> {
    let body = info.domain();
    let body = body.ok_or_else(|| SqlError::internal("an enumerated type is no domain"))?;
    let check = condition.map(|text| DomainCheck {
        name: "".into(),
        text: text.into(),
    });
    Ok(DomainType::define(DomainParts {
        oid: info.oid,
        array_oid: info.array_oid,
        name: quote_ident(&info.name).into(),
        array_name: "".into(),
        schema: (&*info.schema).into(),
        base: body.base.storage(),
        base_definition: None,
        not_null: check.is_none(),
        default: None,
        checks: check.into_iter().collect(),
    }))
}
