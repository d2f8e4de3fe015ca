//! COMMENT ON.

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{Comment, Commented, QualifiedName, RelationKind};

use super::Session;
use super::schemas::undefined_schema;
use crate::catalog::comment_info::{
    CLASS, CONSTRAINTS, DATABASES, EXTENSIONS, NAMESPACES, PLPGSQL, Subject, TYPES,
};
use crate::catalog::{Relation, TableInfo, ViewInfo};
use crate::error::{SqlError, SqlResult, SqlState, lock_error};
use crate::pg_catalog;

impl Session {
    pub(super) async fn comment_on(&mut self, comment: &Comment) -> SqlResult<()> {
        let subject = match &comment.on {
            Commented::Relation(kind, name) => {
                let relation = self.commented_relation(name).await?;
                check_kind(*kind, &relation)?;
                Subject::of(CLASS, relation.oid())
            }
            Commented::Column(name) => self.commented_column(name).await?,
            Commented::Constraint(name, table) => {
                let relation = self.commented_relation(table).await?;
                let open = "cannot open relation";
                match &relation {
                    Relation::Table(table) => {
                        Subject::of(CONSTRAINTS, constraint(table, &name.text)?)
                    }
                    Relation::Index(_, index) => {
                        return Err(unsupported(open, &index.name, "indexes"));
                    }
                    Relation::Sequence(sequence) => {
                        return Err(unsupported(open, &sequence.name, "sequences"));
                    }
                    Relation::View(view) => return Err(unsupported(open, &view.name, "views")),
                }
            }
            Commented::Schema(name) => {
                let oid = self.view().schema_oid(&name.text);
                let oid = oid.ok_or_else(|| undefined_schema(&name.text))?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                let mode = TableLockMode::ShareUpdateExclusive;
                catalog.lock_schema(txn, ddl, oid, mode).await?;
                Subject::of(NAMESPACES, oid)
            }
            Commented::Database(name) => {
                let own = self.seat.info();
                let own_oid = own.oid;
                let named = self.engine.databases().named(&name.text);
                let Some(named) = named else {
                    let message = format!("database \"{}\" does not exist", name.text);
                    self.notice("WARNING", SqlState::INVALID_CATALOG_NAME, message);
                    return Ok(());
                };
                if named.oid != own_oid {
                    let text = comment.text.as_deref();
                    return self.comment_on_database(&name.text, text).await;
                }
                self.comment_on_own_database().await?;
                Subject::of(DATABASES, own_oid)
            }
            Commented::Type(name) => {
                let info = self.named_created(name)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.keep_type(txn, ddl, info.ty()).await?;
                Subject::of(TYPES, info.oid)
            }
            Commented::Domain(name) => self.commented_domain(name).await?,
            Commented::DomainConstraint(name, domain) => {
                self.commented_domain_constraint(&name.text, domain).await?
            }
            Commented::Extension(name) => Subject::of(EXTENSIONS, self.extension(&name.text)?),
        };
        let born = pg_catalog::has_description(&self.view(), subject);
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let text = comment.text.as_deref();
        catalog.set_comment(txn, ddl, subject, text, born).await
    }

    async fn commented_domain(&mut self, name: &QualifiedName) -> SqlResult<Subject> {
        let info = self.named_created(name)?;
        if !info.is_domain() {
            let message = format!("\"{}\" is not a domain", name.display());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.keep_type(txn, ddl, info.ty()).await?;
        Ok(Subject::of(TYPES, info.oid))
    }

    async fn commented_domain_constraint(
        &mut self,
        name: &str,
        domain: &QualifiedName,
    ) -> SqlResult<Subject> {
        let info = self.named_domain(domain)?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.keep_type(txn, ddl, info.ty()).await?;
        let oid = info.domain().and_then(|body| body.constraint(name));
        let oid = oid.ok_or_else(|| {
            let shown = self.type_in_words(&info);
            let message = format!("constraint \"{name}\" for domain {shown} does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        Ok(Subject::of(CONSTRAINTS, oid))
    }

    fn extension(&self, name: &str) -> SqlResult<u32> {
        if name == "plpgsql" {
            return Ok(PLPGSQL);
        }
        let view = self.view();
        let found = view.extension(name).map(|extension| extension.oid);
        found.ok_or_else(|| {
            let message = format!("extension \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// A relation that nobody drops or alters from now on.
    async fn commented_relation(&mut self, name: &QualifiedName) -> SqlResult<Relation> {
        let mode = TableLockMode::ShareUpdateExclusive;
        loop {
            let relation = self.renamed_relation(name)?;
            let locked = match &relation {
                Relation::Index(table, _) => table.oid,
                other => other.oid(),
            };
            self.tx
                .txn()?
                .lock_table(self.catalog.table_id(locked), mode, WaitPolicy::Block)
                .await
                .map_err(|error| lock_error(error, "relation", name.last()))?;
            let again = self.renamed_relation(name)?;
            if again.oid() == relation.oid() {
                return Ok(again);
            }
        }
    }

    async fn commented_column(&mut self, name: &QualifiedName) -> SqlResult<Subject> {
        let mut table = name.clone();
        let column = table.parts.pop().filter(|_| !table.parts.is_empty());
        let column = column.ok_or_else(|| {
            SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified")
        })?;
        let relation = self.commented_relation(&table).await?;
        let set = "cannot set comment on relation";
        let table = match &relation {
            Relation::Table(table) => table,
            Relation::View(view) => return view_column(view, &column.text),
            Relation::Index(_, index) => return Err(unsupported(set, &index.name, "indexes")),
            Relation::Sequence(sequence) => {
                return Err(unsupported(set, &sequence.name, "sequences"));
            }
        };
        let found = table.column(&column.text).map(|at| &table.columns[at]);
        let found = found.ok_or_else(|| {
            let message = format!(
                "column \"{}\" of relation \"{}\" does not exist",
                column.text, table.name
            );
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok(Subject {
            column: found.attnum,
            ..Subject::of(CLASS, table.oid)
        })
    }
}

/// 42809 for a relation that has no such part.
fn unsupported(what: &str, name: &str, kinds: &str) -> SqlError {
    let message = format!("{what} \"{name}\"");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    error.detail(format!("This operation is not supported for {kinds}."))
}

/// 42809 for a relation of another kind.
fn check_kind(kind: RelationKind, relation: &Relation) -> SqlResult<()> {
    let (is_it, words) = match kind {
        RelationKind::Table => (matches!(relation, Relation::Table(_)), "a table"),
        RelationKind::Index => (matches!(relation, Relation::Index(..)), "an index"),
        RelationKind::Sequence => (matches!(relation, Relation::Sequence(_)), "a sequence"),
        RelationKind::View => (matches!(relation, Relation::View(_)), "a view"),
    };
    if is_it {
        return Ok(());
    }
    let message = format!("\"{}\" is not {words}", relation.name());
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
}

/// A column of a view; 42703 if there is none of that name.
fn view_column(view: &ViewInfo, name: &str) -> SqlResult<Subject> {
    let mut columns = view.columns.iter().zip(1..);
    let found = columns.find(|(column, _)| *column.name == *name);
    let (_, number) = found.ok_or_else(|| {
        let relation = &view.name;
        let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    Ok(Subject {
        column: number,
        ..Subject::of(CLASS, view.oid)
    })
}

/// Oid of a table's constraint.
fn constraint(table: &TableInfo, name: &str) -> SqlResult<u32> {
    let keys = table.constraints.iter().map(|it| (&it.name, it.oid));
    let checks = table.checks.iter().map(|it| (&it.name, it.oid));
    let foreign = table.foreign_keys.iter().map(|it| (&it.name, it.oid));
    let not_null = table.columns.iter().filter_map(|it| it.not_null.as_ref());
    let not_null = not_null.map(|it| (&it.name, it.oid));
    let mut all = keys.chain(checks).chain(foreign).chain(not_null);
    let found = all.find(|(known, _)| ***known == *name);
    found.map(|(_, oid)| oid).ok_or_else(|| {
        let message = format!(
            "constraint \"{name}\" for table \"{}\" does not exist",
            table.name
        );
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}
