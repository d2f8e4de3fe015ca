//! COMMENT ON: what `pg_description` and `pg_shdescription` have.

use std::sync::Arc;

use evenkeel_engine::{Tid, Transaction};

use super::comment_info::{
    CLASS, CONSTRAINTS, CommentInfo, EXTENSIONS, NAMESPACES, PLPGSQL, Subject, TYPES,
};
use super::fields::Fields;
use super::state::{CatalogChange, CatalogState};
use super::{Catalog, DdlLog, Oid, TableInfo};
use crate::error::SqlResult;
use crate::types::Datum;

/// A row of `pg_description`, decoded.
pub(super) fn read_comment(place: Tid, values: Vec<Datum>) -> SqlResult<CatalogChange> {
    let mut fields = Fields::new(values, "pg_description");
    let (object, class, column) = (fields.oid()?, fields.oid()?, fields.int4()?);
    let column = i16::try_from(column).map_err(|_| super::fields::damaged("pg_description"))?;
    let text = fields.text_or_null()?.map(Into::into);
    let subject = Subject {
        class,
        object,
        column,
    };
    Ok(CatalogChange::PutComment(
        subject,
        Arc::new(CommentInfo { text, place }),
    ))
}

fn has_constraint(table: &TableInfo, oid: Oid) -> bool {
    let not_null = |column: &super::ColumnInfo| column.not_null.as_ref().map(|it| it.oid);
    table.constraints.iter().any(|it| it.oid == oid)
        || table.checks.iter().any(|it| it.oid == oid)
        || table.foreign_keys.iter().any(|it| it.oid == oid)
        || table.columns.iter().any(|it| not_null(it) == Some(oid))
}

impl CatalogState {
    /// Whether the object of a comment is there.
    fn has(&self, subject: Subject) -> bool {
        let Subject {
            class,
            object,
            column,
        } = subject;
        match class {
            CLASS if column == 0 => self.relation(object).is_some(),
            CLASS => {
                let of_table = self.table(object).is_some_and(|table| {
                    let mut columns = table.columns.iter();
                    columns.any(|known| known.attnum == column)
                });
                let columns = self.view(object).map_or(0, |view| view.columns.len());
                of_table || usize::try_from(column).is_ok_and(|at| (1..=columns).contains(&at))
            }
            CONSTRAINTS => {
                let mut domains = self.created_types().filter_map(|info| info.domain());
                self.tables().any(|table| has_constraint(table, object))
                    || domains.any(|body| body.has_constraint(object))
            }
            NAMESPACES => self.schema(object).is_some(),
            TYPES => self.created_type(object).is_some(),
            EXTENSIONS => object == PLPGSQL || self.extensions().any(|known| known.oid == object),
            _ => true,
        }
    }
}

impl Catalog {
    /// Gives an object, which the caller keeps from being dropped, a comment, or takes it away.
    /// `was_born_with_one`: it has one in a new database, which is then hidden.
    ///
    /// # Errors
    /// The engine's.
    pub async fn set_comment(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        subject: Subject,
        text: Option<&str>,
        was_born_with_one: bool,
    ) -> SqlResult<()> {
        let old = self.view(ddl).comment(subject).cloned();
        if let Some(old) = &old {
            self.tables.description.delete(txn, old.place).await?;
        }
        let text = text.filter(|text| !text.is_empty());
        let change = if text.is_some() || was_born_with_one {
            let row = [
                Datum::Oid(subject.object),
                Datum::Oid(subject.class),
                Datum::Int4(i32::from(subject.column)),
                text.map_or(Datum::Null, Datum::from),
            ];
            let place = self.tables.description.insert(txn, &row).await?;
            let text = text.map(Arc::from);
            CatalogChange::PutComment(subject, Arc::new(CommentInfo { text, place }))
        } else if old.is_some() {
            CatalogChange::DropComment(subject)
        } else {
            return Ok(());
        };
        self.forget(txn, ddl, change)
    }

    /// Takes away the comments on what the transaction has dropped.
    ///
    /// # Errors
    /// The engine's.
    pub async fn drop_comments(&self, txn: &mut Transaction, ddl: &DdlLog) -> SqlResult<()> {
        let view = self.view(ddl);
        let gone = view.comments().filter(|(subject, _)| !view.has(**subject));
        let gone: Vec<_> = gone.map(|(subject, it)| (*subject, it.place)).collect();
        for (subject, place) in gone {
            self.tables.description.delete(txn, place).await?;
            self.forget(txn, ddl, CatalogChange::DropComment(subject))?;
        }
        Ok(())
    }
}
