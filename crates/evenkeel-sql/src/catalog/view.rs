//! Views: CREATE, ALTER, DROP.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Tid, Transaction, WaitPolicy};

use super::fields::{Fields, damaged};
use super::state::{CatalogChange, CatalogState};
use super::system::SystemTables;
use super::{Catalog, DdlLog, Oid, ReadUnder, ViewColumn, ViewInfo, ViewReference, gone};
use crate::error::SqlResult;
use crate::types::Datum;

/// Bytes of a definition in one row: it fits into a page with others.
const PART_BYTES: usize = 3000;

/// CREATE VIEW
#[derive(Debug, Clone)]
pub struct NewView {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns.
    pub columns: Vec<ViewColumn>,
    /// Whether they have other names than the query's.
    pub named: bool,
    /// The query.
    pub text: String,
    /// How its constants are read.
    pub read_under: ReadUnder,
    /// The relations in it.
    pub references: Vec<ViewReference>,
}

/// A text in pieces of so many bytes at most, cut between characters.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > PART_BYTES {
        let mut end = PART_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

impl SystemTables {
    /// Reads the views; the greatest oid of one.
    pub(super) fn load_views(
        &self,
        txn: &mut Transaction,
        state: &mut CatalogState,
    ) -> SqlResult<Oid> {
        const TABLE: &str = "evenkeel_view";
        let mut parts: BTreeMap<(Oid, i32), (Tid, String)> = BTreeMap::new();
        for (place, values) in self.view.read(txn)? {
            let mut fields = Fields::new(values, TABLE);
            let key = (fields.oid()?, fields.int4()?);
            parts.insert(key, (place, fields.text()?));
        }
        let mut views: BTreeMap<Oid, (String, Vec<Tid>)> = BTreeMap::new();
        for ((oid, number), (place, part)) in parts {
            let (text, places) = views.entry(oid).or_default();
            if usize::try_from(number) != Ok(places.len()) {
                return Err(damaged(TABLE));
            }
            text.push_str(&part);
            places.push(place);
        }
        let mut greatest = 0;
        for (oid, (text, places)) in views {
            let type_of = |oid, typmod| state.column_type(oid, typmod);
            let view = ViewInfo::decode(oid, &text, places, &type_of);
            let view = view.ok_or_else(|| damaged(TABLE))?;
            greatest = greatest.max(oid).max(view.rule);
            state.apply(&CatalogChange::PutView(Arc::new(view)));
        }
        Ok(greatest)
    }
}

impl CatalogState {
    /// The views whose queries name a relation.
    pub fn views_of(&self, oid: Oid) -> impl Iterator<Item = &Arc<ViewInfo>> {
        self.views().filter(move |view| view.uses(oid))
    }
}

impl Catalog {
    /// Creates a view.
    ///
    /// # Errors
    /// 42P07, 3F000, and the engine's.
    pub async fn create_view(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        new: NewView,
    ) -> SqlResult<()> {
        let schema_oid = self.schema_for_create(ddl, &new.schema)?;
        self.claim_name(txn, ddl, schema_oid, &new.name, false)
            .await?;
        let types = new.columns.iter().map(|column| column.ty);
        self.keep_types(txn, ddl, (schema_oid, &new.name), types)
            .await?;
        let view = ViewInfo {
            oid: self.new_oid()?,
            rule: self.new_oid()?,
            name: new.name.as_str().into(),
            schema: new.schema.as_str().into(),
            schema_oid,
            columns: new.columns,
            named: new.named,
            text: new.text.as_str().into(),
            read_under: new.read_under,
            references: new.references,
            places: Vec::new(),
        };
        self.lock_view(txn, view.oid).await?;
        self.put_view(txn, ddl, view).await
    }

    /// Gives a view another definition.
    ///
    /// # Errors
    /// 42P01 if it has gone meanwhile; the engine's.
    pub async fn change_view(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        change: impl FnOnce(&mut ViewInfo) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let mut view = self.locked_view(txn, ddl, oid).await?;
        change(&mut view)?;
        self.delete_view_rows(txn, &view).await?;
        self.put_view(txn, ddl, view).await
    }

    /// Gives a view another name.
    ///
    /// # Errors
    /// 42P07; 42P01 if it has gone meanwhile; the engine's.
    pub async fn rename_view(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let schema = self.locked_view(txn, ddl, oid).await?.schema_oid;
        self.claim_name(txn, ddl, schema, to, false).await?;
        let rename = |view: &mut ViewInfo| {
            view.name = to.into();
            Ok(())
        };
        self.change_view(txn, ddl, oid, rename).await
    }

    /// Drops a view. The caller has dealt with the views that use it.
    ///
    /// # Errors
    /// 42P01 if it has gone meanwhile; the engine's.
    pub async fn drop_view(&self, txn: &mut Transaction, ddl: &DdlLog, oid: Oid) -> SqlResult<()> {
        let view = self.locked_view(txn, ddl, oid).await?;
        self.delete_view_rows(txn, &view).await?;
        self.forget(txn, ddl, CatalogChange::DropView(oid))
    }

    async fn lock_view(&self, txn: &Transaction, oid: Oid) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        txn.lock_table(self.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        Ok(())
    }

    pub(super) async fn locked_view(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        oid: Oid,
    ) -> SqlResult<ViewInfo> {
        self.lock_view(txn, oid).await?;
        let view = self.view(ddl);
        let view = view.view(oid).map(|view| ViewInfo::clone(view));
        view.ok_or_else(|| gone(oid))
    }

    async fn delete_view_rows(&self, txn: &mut Transaction, view: &ViewInfo) -> SqlResult<()> {
        for place in &view.places {
            self.tables.view.delete(txn, *place).await?;
        }
        Ok(())
    }

    async fn put_view(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        mut view: ViewInfo,
    ) -> SqlResult<()> {
        view.places.clear();
        let text = view.encode();
        for (number, piece) in pieces(&text).into_iter().enumerate() {
            // A text has fewer than two gibibytes.
            let row = [
                Datum::Oid(view.oid),
                Datum::Int4(number as i32),
                piece.into(),
            ];
            view.places.push(self.tables.view.insert(txn, &row).await?);
        }
        self.forget(txn, ddl, CatalogChange::PutView(Arc::new(view)))
    }
}
