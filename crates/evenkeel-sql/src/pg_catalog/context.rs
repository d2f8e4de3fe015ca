//! From the session's variables to a [`CatalogView`].

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::type_texts::ShownTypes;
use super::view::{
    CatalogView, Check, Column, Constraint, Extension, Index, KeyPart, KeySource, MadeRows, Sizes,
    Table,
};
use crate::catalog::{CatalogState, IndexInfo, Relation, SequenceInfo, TableInfo, ViewInfo};
use crate::functions::SessionVars;

/// How many catalog states' tables are kept converted.
const KEPT: usize = 4;

/// A state's objects, converted, and the rows that were made of them.
type Objects = (
    Arc<[Table]>,
    Arc<[Arc<SequenceInfo>]>,
    Arc<[Arc<ViewInfo>]>,
    Arc<[Extension]>,
    Arc<MadeRows>,
);

/// A state, the path under which its types have their names, and its objects.
type Conversion = (Weak<CatalogState>, Vec<String>, Objects);

/// The snapshot of a session.
pub fn of_session(vars: &SessionVars) -> CatalogView {
    let (tables, sequences, views, extensions, made) = objects(&vars.catalog, &vars.search_path);
    let schemas = vars.catalog.schemas();
    CatalogView {
        user: vars.user.clone(),
        database: vars.database.clone(),
        backend_pid: vars.backend_pid,
        statement_ts: vars.statement_ts,
        search_path: vars.search_path.clone(),
        schemas: schemas
            .map(|schema| (schema.oid, schema.name.to_string()))
            .collect(),
        tables,
        sequences,
        views,
        extensions,
        made,
        settings: Arc::clone(&vars.settings),
        sizes: Arc::new(CatalogSizes(Arc::clone(&vars.catalog))),
        catalog: Some(Arc::clone(&vars.catalog)),
        instance: vars.instance.clone(),
        named: Arc::clone(&vars.named),
    }
}

/// The objects of a state, as a session of this path sees them. States never change, so the last
/// few conversions are kept (PGC-3); the weak reference keeps an address from meaning another
/// state.
fn objects(state: &Arc<CatalogState>, path: &[String]) -> Objects {
    static CACHE: Mutex<Vec<Conversion>> = Mutex::new(Vec::new());
    let has_types = state.created_types().next().is_some();
    // The path matters to the names of created types only.
    let path = if has_types { path } else { &[] };
    let found = |cache: &[Conversion]| {
        let entry = cache.iter().find(|(weak, of, _)| {
            std::ptr::eq(weak.as_ptr(), Arc::as_ptr(state)) && of.as_slice() == path
        });
        entry.map(|(.., objects)| objects.clone())
    };
    if let Some(objects) = found(&CACHE.lock()) {
        return objects;
    }
    let tables = state.tables().map(|table| {
        let mut table = converted(table);
        if has_types {
            ShownTypes { state, path }.table(&mut table);
        }
        table
    });
    let tables = tables.collect();
    let extensions = state.extensions().map(|extension| Extension {
        oid: extension.oid,
        name: Arc::clone(&extension.name),
        version: Arc::clone(&extension.version),
    });
    let sequences = state.sequences().cloned();
    let (sequences, extensions) = (sequences.collect(), extensions.collect());
    let views = state.views().cloned().collect();
    let objects: Objects = (tables, sequences, views, extensions, Arc::default());
    let mut cache = CACHE.lock();
    cache.retain(|(weak, ..)| weak.strong_count() > 0);
    if cache.len() >= KEPT {
        cache.remove(0);
    }
    cache.push((Arc::downgrade(state), path.to_vec(), objects.clone()));
    objects
}

fn converted(table: &TableInfo) -> Table {
    let columns = table.columns.iter().map(|column| Column {
        name: Arc::clone(&column.name),
        ty: column.ty,
        declared: column.declared(),
        attnum: column.attnum,
        not_null: column.not_null.clone(),
        default: column.default.clone(),
        identity: column.identity,
        generated: column.generated.clone(),
        has_missing: column.missing.is_some(),
    });
    let constraints = table.constraints.iter().map(|constraint| Constraint {
        oid: constraint.oid,
        name: Arc::clone(&constraint.name),
        code: constraint.kind.code(),
        columns: constraint.columns.clone(),
        index: constraint.index_oid,
        deferrable: constraint.deferrable,
        deferred: constraint.deferred,
    });
    let checks = table.checks.iter().map(|check| Check {
        oid: check.oid,
        name: Arc::clone(&check.name),
        columns: check.columns.clone(),
        validated: check.validated,
        text: Arc::clone(&check.text),
        pretty: Arc::clone(&check.pretty),
    });
    Table {
        oid: table.oid,
        name: Arc::clone(&table.name),
        schema: Arc::clone(&table.schema),
        schema_oid: table.schema_oid,
        columns: columns.collect(),
        dropped: table.dropped.clone(),
        indexes: table
            .indexes
            .iter()
            .map(|index| converted_index(index))
            .collect(),
        constraints: constraints.collect(),
        checks: checks.collect(),
        foreign_keys: table.foreign_keys.clone(),
        options: options(table),
        stats: Arc::clone(&table.stats),
    }
}

fn options(table: &TableInfo) -> Vec<String> {
    let fillfactor = table.fillfactor_declared.then_some(table.fillfactor);
    let fillfactor = fillfactor.map(|percent| format!("fillfactor={percent}"));
    fillfactor
        .into_iter()
        .chain(table.parameters.items())
        .collect()
}

fn converted_index(index: &IndexInfo) -> Index {
    let key = index.columns.iter().enumerate().map(|(at, part)| KeyPart {
        source: match index.expression_at(at) {
            Some(expression) => KeySource::Expression(expression.clone()),
            None => KeySource::Column(part.column.unwrap_or_default()),
        },
        descending: part.descending,
        nulls_first: part.nulls_first,
        class: index.classes.get(at).copied().flatten(),
    });
    let included = index.included.iter().map(|at| KeyPart {
        source: KeySource::Column(*at),
        descending: false,
        nulls_first: false,
        class: None,
    });
    Index {
        oid: index.oid,
        name: Arc::clone(&index.name),
        key: key.chain(included).collect(),
        key_columns: index.columns.len(),
        deferrable: index.deferrable,
        predicate: index.predicate.clone(),
        unique: index.unique,
        primary: index.primary,
        nulls_not_distinct: index.nulls_not_distinct,
        check_xmin: index.usable_after.is_some(),
    }
}

/// The lengths of the files, as they are when asked.
pub(super) struct CatalogSizes(pub Arc<CatalogState>);

impl Sizes for CatalogSizes {
    fn blocks(&self, oid: u32) -> Option<u32> {
        match self.0.relation(oid)? {
            Relation::Table(table) => Some(table.table.blocks()),
            Relation::Index(table, index) => table.table.index_blocks(index.position),
            Relation::Sequence(_) => Some(1),
            Relation::View(_) => None,
        }
    }

    fn large_blocks(&self, oid: u32) -> u32 {
        let table = self.0.table(oid);
        let large = table.and_then(|table| table.table.large());
        large.map_or(0, |large| {
            let index = large.index_blocks(0).unwrap_or(0);
            large.blocks().saturating_add(index)
        })
    }
}
