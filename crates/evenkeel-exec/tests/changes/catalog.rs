//! Tables as a catalog, the executor and the engine have them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use evenkeel_engine::btree::BTree;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyKind, Table, TableDef};
use evenkeel_engine::{Database, Durability, Isolation, block_on};
use evenkeel_exec::{ExecResult, Relations, VirtualRows};
use evenkeel_planner::bound::Query;
use evenkeel_planner::catalog::Catalog;
use evenkeel_planner::relation::{
    Column, Index, IndexColumn, Relation, RelationKind, RelationSize,
};
use evenkeel_planner::{PlanError, PlanResult};
use evenkeel_types::key::KeyColumn;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{SqlType, TypeError};

type Stored = (Arc<Relation>, Arc<Table>, Arc<RowLayout>);

/// The tables of a database.
#[derive(Default)]
pub struct Tables(Mutex<HashMap<String, Stored>>);

struct Keys {
    layout: Arc<RowLayout>,
    columns: Vec<KeyColumn>,
}

impl KeyExtractor for Keys {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> evenkeel_engine::EngineResult<KeyKind> {
        let mut kind = KeyKind::Unique;
        for column in &self.columns {
            let value = self.layout.get(row, column.column.unwrap()).unwrap();
            if value.is_null() {
                kind = KeyKind::HasNull;
            }
            column.encode(&value, out).unwrap();
        }
        Ok(kind)
    }
}

impl Relations for Tables {
    fn table(&self, relation: &Relation) -> ExecResult<(Arc<Table>, Arc<RowLayout>)> {
        let tables = self.0.lock().unwrap();
        match tables.get(&*relation.name) {
            Some((_, table, layout)) => Ok((Arc::clone(table), Arc::clone(layout))),
            None => Err(TypeError::internal("no such table").into()),
        }
    }

    fn virtual_rows(&self, _relation: &Relation) -> ExecResult<Vec<VirtualRows>> {
        Ok(Vec::new())
    }
}

impl Catalog for Tables {
    fn relation(&self, _schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>> {
        let tables = self.0.lock().unwrap();
        Ok(tables.get(name).map(|(relation, ..)| Arc::clone(relation)))
    }

    fn type_named(&self, _: Option<&str>, _: &str, _: Option<&str>) -> Option<SqlType> {
        None
    }

    fn is_database(&self, name: &str) -> bool {
        name == "postgres"
    }

    fn schema_exists(&self, schema: &str) -> bool {
        schema == "public"
    }

    fn view(&self, _relation: &Relation) -> PlanResult<Arc<Query>> {
        Err(PlanError::unsupported("views"))
    }
}

/// A column's definition, and whether it is the primary key, or unique.
fn column(text: &str) -> (Column, bool, bool) {
    let (name, rest) = text.trim().split_once(' ').unwrap();
    let (rest, default) = match rest.split_once(" DEFAULT ") {
        Some((rest, default)) => (rest, Some(default.into())),
        None => (rest, None),
    };
    let ty = match rest.split(' ').next().unwrap() {
        "int" => SqlType::Int4,
        "bigint" => SqlType::Int8,
        "bool" => SqlType::Bool,
        _ => SqlType::Text,
    };
    let primary = rest.contains("PRIMARY KEY");
    let column = Column {
        name: name.into(),
        ty,
        domain: None,
        not_null: primary || rest.contains("NOT NULL"),
        default,
        identity: None,
        generated: None,
        stats: None,
    };
    (column, primary, rest.contains("UNIQUE"))
}

impl Tables {
    /// `CREATE TABLE name (column type [PRIMARY KEY | UNIQUE] [NOT NULL] [DEFAULT …], …)`
    pub fn create(&self, db: &Database, sql: &str) {
        let (name, rest) = sql
            .strip_prefix("CREATE TABLE ")
            .and_then(|rest| rest.split_once(" ("))
            .unwrap();
        let columns: Vec<_> = rest.trim_end_matches(')').split(", ").map(column).collect();
        let indexes = columns.iter().enumerate();
        let indexes = indexes.filter(|(_, (_, primary, unique))| *primary || *unique);
        let indexes: Vec<Index> = indexes
            .enumerate()
            .map(|(position, (at, (column, primary, _)))| Index {
                oid: 5000 + position as u32,
                name: match primary {
                    true => format!("{name}_pkey").into(),
                    false => format!("{name}_{}_key", column.name).into(),
                },
                position,
                columns: vec![IndexColumn {
                    column: Some(at),
                    ty: column.ty,
                    desc: false,
                    nulls_first: false,
                }],
                unique: true,
                expressions: Vec::new(),
                predicate: None,
                mentions: Vec::new(),
                constraint: true,
                deferrable: false,
                nulls_not_distinct: false,
                primary: *primary,
                pages: 1.0,
            })
            .collect();
        let oid = 20_000 + self.0.lock().unwrap().len() as u32;
        let relation = Relation {
            oid,
            schema: "public".into(),
            name: name.into(),
            kind: RelationKind::Table,
            columns: columns.into_iter().map(|(column, ..)| column).collect(),
            indexes,
            checks: Vec::new(),
            keys: Vec::new(),
            past: None,
            size: RelationSize {
                pages: 10.0,
                rows: 2260.0,
                all_visible: 0.0,
            },
        };
        let (table, layout) = store(db, &relation);
        let stored = (Arc::new(relation), table, layout);
        self.0.lock().unwrap().insert(name.to_owned(), stored);
    }
}

fn store(db: &Database, relation: &Relation) -> (Arc<Table>, Arc<RowLayout>) {
    let types: Vec<SqlType> = relation.columns.iter().map(|column| column.ty).collect();
    let layout = Arc::new(RowLayout::new(&types));
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    let heap = txn.create_file().unwrap();
    let xid = txn.xid().unwrap();
    let mut indexes = Vec::new();
    for index in &relation.indexes {
        let file = txn.create_file().unwrap();
        let _ = BTree::create(db.store(), xid, file).unwrap();
        let columns = index.columns.iter().map(|column| KeyColumn {
            column: column.column,
            ty: column.ty,
            descending: column.desc,
            nulls_first: column.nulls_first,
        });
        indexes.push(IndexDef {
            file,
            unique: index.unique,
            name: Arc::clone(&index.name),
            key: Arc::new(Keys {
                layout: Arc::clone(&layout),
                columns: columns.collect(),
            }),
            usable_after: None,
            deferrable: false,
        });
    }
    let def = TableDef {
        id: u64::from(relation.oid),
        heap,
        fillfactor: 100,
        indexes,
    };
    let table = Table::open(db, def).unwrap();
    block_on(txn.commit(Durability::Sync)).unwrap();
    (table, layout)
}
