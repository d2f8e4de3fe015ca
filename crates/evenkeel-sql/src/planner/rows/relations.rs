//! Relations as the planner sees them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use evenkeel_planner::relation::{
    Check, Column, ColumnStatistics, GeneratedAs, Identity, Index, IndexColumn, IndexExpression,
    KeyUse, Relation, RelationKind, RelationSize,
};

use crate::catalog::{
    self, CatalogState, CheckInfo, ColumnStats, IndexExpr, IndexInfo, SequenceInfo, TableInfo,
    ViewColumn, ViewInfo,
};
use crate::pg_catalog::{self, RelationDef};
use crate::types::SqlType;

/// Blocks of a table that is as good as empty: it is expected to grow, as PostgreSQL has it.
const NEVER_VACUUMED_BLOCKS: f64 = 10.0;
/// Bytes of a page that rows share.
const PAGE_BYTES: f64 = 8192.0 - 24.0;
/// Bytes of a row beside its values: header and line pointer.
const ROW_OVERHEAD: f64 = 28.0;
/// Rows and pages that a catalog is expected to have.
const CATALOG_SIZE: RelationSize = RelationSize {
    pages: 10.0,
    rows: 300.0,
    all_visible: 0.0,
};

pub(super) fn relation_of(table: &TableInfo, view: &CatalogState) -> Relation {
    let columns = table.columns.iter().enumerate();
    let columns = columns.map(|(at, column)| Column {
        name: Arc::clone(&column.name),
        ty: column.ty,
        domain: column.domain,
        not_null: column.not_null.is_some(),
        default: column.value_if_none(),
        identity: column.identity.map(|(identity, _)| match identity {
            catalog::Identity::Always => Identity::Always,
            catalog::Identity::ByDefault => Identity::ByDefault,
        }),
        generated: column.generated.as_ref().map(|it| GeneratedAs {
            text: Arc::clone(&it.text),
            is_virtual: it.is_virtual,
        }),
        stats: table.stats.column(at).map(ColumnStats::for_planner),
    });
    let columns: Vec<Column> = columns.collect();
    Relation {
        oid: table.oid,
        schema: Arc::clone(&table.schema),
        name: Arc::clone(&table.name),
        kind: RelationKind::Table,
        checks: table.checks.iter().map(|c| check(c)).collect(),
        keys: key_uses(table, view),
        size: size(table, &columns),
        past: None,
        columns,
        indexes: table.indexes.iter().map(|i| index(table, i)).collect(),
    }
}

/// A view's columns; its rows are those of its query.
pub(super) fn view(view: &ViewInfo) -> Relation {
    let column = |column: &ViewColumn| Column {
        name: Arc::clone(&column.name),
        ty: column.ty.storage(),
        domain: catalog::split_domain(column.ty).1,
        not_null: false,
        default: None,
        identity: None,
        generated: None,
        stats: None,
    };
    Relation {
        oid: view.oid,
        schema: Arc::clone(&view.schema),
        name: Arc::clone(&view.name),
        kind: RelationKind::View,
        columns: view.columns.iter().map(column).collect(),
        indexes: Vec::new(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize::default(),
        past: None,
    }
}

/// A sequence as a table of one row.
pub(super) fn sequence(sequence: &SequenceInfo) -> Relation {
    let column = |(name, ty): (&str, SqlType)| Column {
        name: Arc::from(name),
        ty,
        domain: None,
        not_null: true,
        default: None,
        identity: None,
        generated: None,
        stats: None,
    };
    let columns = [
        ("last_value", SqlType::Int8),
        ("log_cnt", SqlType::Int8),
        ("is_called", SqlType::Bool),
    ];
    Relation {
        oid: sequence.oid,
        schema: Arc::clone(&sequence.schema),
        name: Arc::clone(&sequence.name),
        kind: RelationKind::Sequence,
        columns: columns.into_iter().map(column).collect(),
        indexes: Vec::new(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize {
            pages: 1.0,
            rows: 1.0,
            all_visible: 0.0,
        },
        past: None,
    }
}

/// First those that refer to the table, whose actions come before the checks of its own.
fn key_uses(table: &TableInfo, view: &CatalogState) -> Vec<KeyUse> {
    let referred = view.references_to(table.oid).map(|(_, key)| KeyUse {
        oid: key.oid,
        referred: true,
        columns: table.positions(&key.referenced),
    });
    let own = table.foreign_keys.iter().map(|key| KeyUse {
        oid: key.oid,
        referred: false,
        columns: table.positions(&key.columns),
    });
    referred.chain(own).collect()
}

fn check(check: &CheckInfo) -> Check {
    Check {
        name: Arc::clone(&check.name),
        text: Arc::clone(&check.text),
    }
}

fn expression(expression: &IndexExpr) -> IndexExpression {
    IndexExpression {
        text: Arc::clone(&expression.text),
        shown: expression.among_columns(false).into(),
        program: Arc::clone(&expression.program),
    }
}

fn index(table: &TableInfo, index: &IndexInfo) -> Index {
    let columns = index.columns.iter().map(|part| IndexColumn {
        column: part.column,
        ty: part.ty,
        desc: part.descending,
        nulls_first: part.nulls_first,
    });
    Index {
        oid: index.oid,
        name: Arc::clone(&index.name),
        position: index.position,
        columns: columns.collect(),
        expressions: index.expressions.iter().map(expression).collect(),
        predicate: index.predicate.as_ref().map(|p| Arc::clone(&p.text)),
        mentions: index.key.mentions().to_vec(),
        constraint: index.constraint.is_some(),
        unique: index.unique,
        deferrable: index.deferrable,
        nulls_not_distinct: index.nulls_not_distinct,
        primary: index.primary,
        pages: f64::from(table.table.index_blocks(index.position).unwrap_or(1)),
    }
}

/// As PostgreSQL's `estimate_rel_size`: rows as dense as they were when they were counted last.
fn size(table: &TableInfo, columns: &[Column]) -> RelationSize {
    let known = &table.stats;
    let mut pages = f64::from(table.table.blocks());
    let never = known.reltuples < 0.0;
    if never {
        pages = pages.max(NEVER_VACUUMED_BLOCKS);
    }
    let density = if !never && known.relpages > 0 {
        f64::from(known.reltuples) / f64::from(known.relpages)
    } else {
        let width: f64 = columns.iter().map(width).sum();
        let full = PAGE_BYTES * f64::from(table.fillfactor) / 100.0;
        (full / (width + ROW_OVERHEAD)).floor()
    };
    let visible = if known.relpages > 0 {
        f64::from(known.relallvisible) / f64::from(known.relpages)
    } else {
        0.0
    };
    RelationSize {
        pages,
        rows: (density * pages).round(),
        all_visible: visible.clamp(0.0, 1.0),
    }
}

/// PostgreSQL's guess of a value's bytes: its length, or 32.
fn width(column: &Column) -> f64 {
    match &column.stats {
        Some(stats) => stats.width,
        None => match column.ty.wire_len() {
            length if length > 0 => f64::from(length),
            _ => 32.0,
        },
    }
}

impl ColumnStats {
    /// The statistics as the planner reads them.
    fn for_planner(&self) -> Arc<ColumnStatistics> {
        let made = self.planned.get_or_init(|| {
            let common = self.most_common.iter();
            Arc::new(ColumnStatistics {
                null_fraction: f64::from(self.null_frac),
                width: f64::from(self.avg_width),
                distinct: f64::from(self.n_distinct),
                most_common: common
                    .map(|(value, share)| (value.clone(), f64::from(*share)))
                    .collect(),
                histogram: self.histogram.clone(),
                correlation: f64::from(self.correlation),
            })
        });
        Arc::clone(made)
    }
}

/// A catalog, whose definition never changes.
pub(super) fn virtual_relation(def: &'static RelationDef) -> Arc<Relation> {
    static MADE: LazyLock<HashMap<u32, Arc<Relation>>> = LazyLock::new(|| {
        let all = pg_catalog::relations().iter();
        all.map(|def| (def.oid, Arc::new(described(def)))).collect()
    });
    match MADE.get(&def.oid) {
        Some(relation) => Arc::clone(relation),
        None => Arc::new(described(def)),
    }
}

/// The keys by which a catalog's rows are found.
fn keys(def: &RelationDef) -> Vec<Index> {
    let keys = if def.schema == "pg_catalog" {
        pg_catalog::keys_of(def.name)
    } else {
        &[]
    };
    let index = |(position, key): (usize, &pg_catalog::CatalogKey)| {
        let at = def.position(key.column)?;
        let column = IndexColumn {
            column: Some(at),
            ty: def.columns.get(at)?.ty,
            desc: false,
            nulls_first: false,
        };
        Some(Index {
            oid: 0,
            name: Arc::from(key.name),
            position,
            columns: vec![column],
            expressions: Vec::new(),
            predicate: None,
            mentions: Vec::new(),
            constraint: false,
            unique: key.unique,
            deferrable: false,
            nulls_not_distinct: false,
            primary: false,
            pages: 1.0,
        })
    };
    keys.iter().enumerate().filter_map(index).collect()
}

fn described(def: &RelationDef) -> Relation {
    let columns = def.columns.iter().map(|column| Column {
        name: Arc::from(column.name),
        ty: column.ty,
        domain: None,
        not_null: column.not_null,
        default: None,
        identity: None,
        generated: None,
        stats: None,
    });
    Relation {
        oid: def.oid,
        schema: Arc::from(def.schema),
        name: Arc::from(def.name),
        kind: RelationKind::Virtual,
        columns: columns.collect(),
        indexes: keys(def),
        checks: Vec::new(),
        keys: Vec::new(),
        size: CATALOG_SIZE,
        past: None,
    }
}
