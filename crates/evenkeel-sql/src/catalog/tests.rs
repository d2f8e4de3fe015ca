//! The catalog over a database on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::{Config, Database, Durability, Isolation, Transaction, block_on};
use evenkeel_io::SimDisk;

use super::*;
use crate::types::Datum;

fn open(disk: &SimDisk) -> Database {
    Database::open(Arc::new(disk.clone()), Path::new("/db"), Config::default()).unwrap()
}

fn begin(db: &Database) -> Transaction {
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    txn.begin_statement().unwrap();
    txn
}

fn commit(txn: Transaction) {
    block_on(txn.commit(Durability::Sync)).unwrap();
}

fn column(name: &str, ty: SqlType) -> NewColumn {
    NewColumn {
        name: name.into(),
        ty,
        not_null: false,
        not_null_name: None,
        default: None,
        generated: None,
        sequence: None,
    }
}

fn constraint(kind: ConstraintKind, columns: &[&str]) -> NewConstraint {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    NewConstraint {
        name: None,
        kind,
        columns,
        included: Vec::new(),
        deferrable: false,
        deferred: false,
        nulls_not_distinct: false,
    }
}

fn accounts() -> CreateTable {
    CreateTable {
        schema: "public".into(),
        name: "accounts".into(),
        columns: vec![
            column("id", SqlType::Int4),
            NewColumn {
                default: Some("'x'".into()),
                ..column("name", SqlType::Varchar(Some(20)))
            },
            column("balance", SqlType::Numeric(None)),
        ],
        constraints: vec![
            constraint(ConstraintKind::Primary, &["id"]),
            constraint(ConstraintKind::Unique, &["name", "balance"]),
        ],
        checks: vec![NewCheck {
            name: None,
            text: "(id > 0)".into(),
            pretty: "id > 0".into(),
            columns: vec![0],
            not_valid: false,
        }],
        fillfactor: Some(90),
        parameters: StorageParameters::default(),
        if_not_exists: false,
    }
}

fn index(columns: &[&str]) -> NewIndex {
    NewIndex {
        name: None,
        columns: columns
            .iter()
            .map(|name| NewIndexColumn {
                key: NewIndexKey::Column((*name).to_owned()),
                descending: true,
                nulls_first: None,
                class: None,
            })
            .collect(),
        included: Vec::new(),
        unique: false,
        nulls_not_distinct: false,
        if_not_exists: false,
        predicate: None,
    }
}

fn create(catalog: &Catalog, txn: &mut Transaction, ddl: &DdlLog) -> Arc<TableInfo> {
    block_on(catalog.create_table(txn, ddl, &accounts()))
        .unwrap()
        .unwrap()
}

fn find(state: &CatalogState, name: &str) -> Option<Arc<TableInfo>> {
    state.resolve(None, name, &["public".to_owned()])
}

fn insert(txn: &mut Transaction, table: &TableInfo, values: &[Datum]) -> SqlResult<()> {
    let mut row = Vec::new();
    table.layout.encode(values, &mut row)?;
    block_on(table.table.insert(txn, &row))?;
    Ok(())
}

fn rows(txn: &mut Transaction, table: &TableInfo) -> usize {
    txn.begin_statement().unwrap();
    let mut scan = table.table.scan(&txn.snapshot().unwrap());
    let mut batch = RowBatch::new();
    let mut rows = 0;
    while scan.next_page(&mut batch).unwrap() {
        rows += batch.len();
    }
    rows
}

/// A definition without the fields that differ from one opening to the next.
fn describe(table: &TableInfo) -> String {
    let columns = table.columns.iter();
    let columns: Vec<_> = columns
        .map(|c| {
            (
                &c.name,
                c.ty,
                c.attnum,
                &c.not_null,
                &c.default,
                &c.generated,
            )
        })
        .collect();
    let indexes = table.indexes.iter();
    let indexes: Vec<_> = indexes
        .map(|i| {
            (
                i.oid,
                &i.name,
                &i.columns,
                i.unique,
                i.primary,
                i.file,
                i.constraint,
                i.deferrable,
                &i.included,
            )
        })
        .collect();
    let constraints = table.constraints.iter();
    let constraints: Vec<_> = constraints
        .map(|c| (c.oid, &c.name, c.kind, &c.columns, c.index_oid, c.deferred))
        .collect();
    let checks = table.checks.iter();
    let checks: Vec<_> = checks
        .map(|c| (c.oid, &c.name, &c.text, &c.pretty, &c.columns))
        .collect();
    let dropped = table.dropped.iter();
    let dropped: Vec<_> = dropped.map(|c| (c.attnum, c.width)).collect();
    let (oid, name, heap) = (table.oid, &table.name, table.heap);
    format!(
        "{oid} {name} {heap:?} {} {columns:?} {dropped:?} {indexes:?} {constraints:?} {checks:?}",
        table.fillfactor
    )
}

#[test]
fn own_changes_are_seen_by_their_transaction_only_until_commit() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    assert!(find(&catalog.current(), "accounts").is_none());
    assert!(find(&catalog.view(&ddl), "accounts").is_some());
    assert!(find(&catalog.view(&DdlLog::default()), "accounts").is_none());
    assert!(txn.made_here(table.heap));
    let before = catalog.current().version;
    commit(txn);
    assert!(find(&catalog.current(), "accounts").is_some());
    assert_ne!(catalog.current().version, before);
}

#[test]
fn a_rollback_leaves_nothing() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    create(&catalog, &mut txn, &ddl);
    txn.rollback();
    assert!(find(&catalog.current(), "accounts").is_none());
    assert!(find(&catalog.view(&ddl), "accounts").is_none());
    assert!(find(&Catalog::open(&db).unwrap().current(), "accounts").is_none());
}

#[test]
fn a_savepoint_takes_its_changes_back() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    txn.savepoint("s");
    block_on(catalog.create_index(&mut txn, &ddl, table.oid, &index(&["balance"]))).unwrap();
    assert_eq!(
        catalog.view(&ddl).table(table.oid).unwrap().indexes.len(),
        3
    );
    txn.rollback_to("s").unwrap();
    assert_eq!(
        catalog.view(&ddl).table(table.oid).unwrap().indexes.len(),
        2
    );
    block_on(catalog.drop_table(&mut txn, &ddl, table.oid)).unwrap();
    txn.rollback_to("s").unwrap();
    commit(txn);
    assert_eq!(
        find(&catalog.current(), "accounts").unwrap().indexes.len(),
        2
    );
}

#[test]
fn the_catalog_is_read_back_as_it_was_written() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    block_on(catalog.create_index(&mut txn, &ddl, table.oid, &index(&["balance", "id"]))).unwrap();
    let late = NewConstraint {
        included: vec!["balance".into(), "name".into()],
        deferrable: true,
        deferred: true,
        ..constraint(ConstraintKind::Unique, &["id"])
    };
    block_on(catalog.add_constraint(&mut txn, &ddl, table.oid, &late)).unwrap();
    block_on(catalog.create_extension(&mut txn, &ddl, "uuid-ossp", false)).unwrap();
    commit(txn);
    let written = find(&catalog.current(), "accounts").unwrap();
    assert_eq!(&*written.indexes[0].name, "accounts_pkey");
    assert_eq!(&*written.indexes[1].name, "accounts_name_balance_key");
    assert_eq!(&*written.indexes[2].name, "accounts_balance_id_idx");
    assert!(written.columns[0].not_null.is_some() && written.columns[1].not_null.is_none());
    let described = describe(&written);
    drop((catalog, table, ddl, written));
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let read = find(&catalog.current(), "accounts").unwrap();
    assert_eq!(describe(&read), described);
    assert!(catalog.current().extension("uuid-ossp").is_some());
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let next = CreateTable {
        name: "t".into(),
        constraints: Vec::new(),
        checks: Vec::new(),
        ..accounts()
    };
    let next = block_on(catalog.create_table(&mut txn, &ddl, &next))
        .unwrap()
        .unwrap();
    assert!(next.oid > read.indexes[2].oid);
}

#[test]
fn schemas_are_read_back() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    for name in ["app", "gone"] {
        assert!(block_on(catalog.create_schema(&mut txn, &ddl, name, false)).unwrap());
    }
    let table = CreateTable {
        schema: "app".into(),
        ..accounts()
    };
    let made = block_on(catalog.create_table(&mut txn, &ddl, &table)).unwrap();
    block_on(catalog.rename_schema(&mut txn, &ddl, "app", "moved")).unwrap();
    for name in ["gone", "public"] {
        let view = catalog.view(&ddl);
        let schema = view.schema(view.schema_oid(name).unwrap()).unwrap();
        block_on(catalog.drop_schema(&mut txn, &ddl, schema)).unwrap();
    }
    commit(txn);
    let names = |catalog: &Catalog| {
        let state = catalog.current();
        let schemas = state.schemas().map(|s| (s.oid, s.name.to_string()));
        let table = state.resolve(Some("moved"), "accounts", &[]).unwrap();
        assert_eq!(&*table.schema, "moved");
        (schemas.collect::<Vec<_>>(), table.oid)
    };
    let written = names(&catalog);
    assert_eq!(written.1, made.unwrap().oid);
    assert!(
        written
            .0
            .iter()
            .all(|(_, name)| name != "public" && name != "gone")
    );
    drop((catalog, ddl));
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    assert_eq!(names(&catalog), written);
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    block_on(catalog.create_schema(&mut txn, &ddl, "public", false)).unwrap();
    assert!(catalog.view(&ddl).schema_oid("public").unwrap() >= FIRST_NORMAL_OID);
    commit(txn);
}

#[test]
fn views_are_read_back() {
    let disk = SimDisk::new(3);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    // Longer than a page, and not cut within a character.
    let text = format!("SELECT '{}' AS words", "ä".repeat(9000));
    for name in ["long", "gone", "old"] {
        let new = NewView {
            schema: "public".into(),
            name: name.into(),
            columns: vec![ViewColumn {
                name: "words".into(),
                ty: SqlType::Text,
            }],
            named: false,
            text: text.clone(),
            read_under: ReadUnder {
                time_zone: "UTC".into(),
                date_style: "ISO, DMY".into(),
                interval_style: "postgres".into(),
                now: 5,
            },
            references: Vec::new(),
        };
        block_on(catalog.create_view(&mut txn, &ddl, new)).unwrap();
    }
    let oid = |name: &str| {
        let view = catalog.view(&ddl);
        let found = view.find(Some("public"), name, &[]).unwrap();
        found.oid()
    };
    let (gone, old) = (oid("gone"), oid("old"));
    block_on(catalog.drop_view(&mut txn, &ddl, gone)).unwrap();
    block_on(catalog.rename_view(&mut txn, &ddl, old, "new")).unwrap();
    commit(txn);
    let views = |catalog: &Catalog| {
        let state = catalog.current();
        let views = state.views().map(|view| format!("{view:?}"));
        views.collect::<Vec<_>>()
    };
    let written = views(&catalog);
    assert_eq!(written.len(), 2);
    drop((catalog, ddl));
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    assert_eq!(views(&catalog), written);
    let state = catalog.current();
    assert!(state.views().all(|view| *view.text == *text));
    assert!(state.find(Some("public"), "new", &[]).is_some());
}

#[test]
fn columns_that_were_added_and_dropped_are_read_back() {
    let disk = SimDisk::new(7);
    let (written, stored) = {
        let db = open(&disk);
        let catalog = Catalog::open(&db).unwrap();
        let (mut txn, ddl) = (begin(&db), DdlLog::default());
        let table = create(&catalog, &mut txn, &ddl);
        let row = |id| [Datum::Int4(id), "n".into(), Datum::Null];
        insert(&mut txn, &table, &row(1)).unwrap();
        block_on(catalog.create_index(&mut txn, &ddl, table.oid, &index(&["balance"]))).unwrap();
        let added = NewColumn {
            not_null: true,
            default: Some("7".into()),
            ..column("added", SqlType::Int8)
        };
        let missing = evenkeel_types::row::stored(SqlType::Int8, &Datum::Int8(7)).unwrap();
        let missing = missing.map(Arc::from);
        block_on(catalog.add_column(&mut txn, &ddl, table.oid, &added, missing)).unwrap();
        block_on(catalog.drop_column(&mut txn, &ddl, table.oid, 1)).unwrap();
        let table = find(&catalog.view(&ddl), "accounts").unwrap();
        let row = [Datum::Int4(2), Datum::Null, Datum::Int8(8)];
        insert(&mut txn, &table, &row).unwrap();
        commit(txn);
        let table = find(&catalog.current(), "accounts").unwrap();
        let stored = decoded(&mut begin(&db), &table);
        db.close().unwrap();
        (describe(&table), stored)
    };
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let table = find(&catalog.current(), "accounts").unwrap();
    assert_eq!(describe(&table), written);
    let expected = [
        vec![Datum::Int4(1), Datum::Null, Datum::Int8(7)],
        vec![Datum::Int4(2), Datum::Null, Datum::Int8(8)],
    ];
    assert_eq!(stored, expected);
    assert_eq!(decoded(&mut begin(&db), &table), expected);
    let numbers: Vec<i16> = table.columns.iter().map(|column| column.attnum).collect();
    assert_eq!((numbers, table.next_attnum()), (vec![1, 3, 4], 5));
    assert_eq!(table.indexes.len(), 2, "the key with the column is gone");
}

/// The values of all rows.
fn decoded(txn: &mut Transaction, table: &TableInfo) -> Vec<Vec<Datum>> {
    txn.begin_statement().unwrap();
    let mut scan = table.table.scan(&txn.snapshot().unwrap());
    let (mut batch, mut rows) = (RowBatch::new(), Vec::new());
    while scan.next_page(&mut batch).unwrap() {
        rows.extend(
            batch
                .iter()
                .map(|(_, row)| table.layout.decode(row).unwrap()),
        );
    }
    rows
}

#[test]
fn a_catalog_survives_a_crash_of_the_process() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    create(&catalog, &mut txn, &ddl);
    commit(txn);
    let (mut unfinished, other) = (begin(&db), DdlLog::default());
    let second = CreateTable {
        name: "second".into(),
        constraints: Vec::new(),
        checks: Vec::new(),
        ..accounts()
    };
    block_on(catalog.create_table(&mut unfinished, &other, &second)).unwrap();
    let disk = disk.process_crash();
    let db = open(&disk);
    let state = Catalog::open(&db).unwrap().current();
    assert!(find(&state, "accounts").is_some());
    assert!(find(&state, "second").is_none());
    drop(unfinished);
}

#[test]
fn constraints_hold_and_names_are_taken_once() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    let row = |id: i32| [Datum::Int4(id), "a".into(), Datum::Null];
    insert(&mut txn, &table, &row(1)).unwrap();
    insert(&mut txn, &table, &row(2)).unwrap();
    let error = insert(&mut txn, &table, &row(1)).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::UNIQUE_VIOLATION);
    let state = |r: SqlResult<Option<Arc<TableInfo>>>| r.unwrap_err().sqlstate;
    let again = block_on(catalog.create_table(&mut txn, &ddl, &accounts()));
    assert_eq!(state(again), SqlState::DUPLICATE_TABLE);
    let lenient = CreateTable {
        if_not_exists: true,
        ..accounts()
    };
    assert!(
        block_on(catalog.create_table(&mut txn, &ddl, &lenient))
            .unwrap()
            .is_none()
    );
    let mut named = index(&["id"]);
    named.name = Some("accounts_pkey".into());
    let taken = block_on(catalog.create_index(&mut txn, &ddl, table.oid, &named));
    assert_eq!(state(taken), SqlState::DUPLICATE_TABLE);
    let missing = block_on(catalog.create_index(&mut txn, &ddl, table.oid, &index(&["nope"])));
    assert_eq!(state(missing), SqlState::UNDEFINED_COLUMN);
    let two = constraint(ConstraintKind::Primary, &["name"]);
    let error = block_on(catalog.add_constraint(&mut txn, &ddl, table.oid, &two)).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::INVALID_TABLE_DEFINITION);
    let pkey = table.indexes[0].oid;
    let error = block_on(catalog.drop_index(&mut txn, &ddl, pkey)).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
}

#[test]
fn a_key_added_later_is_checked_against_the_rows() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let bare = CreateTable {
        constraints: Vec::new(),
        checks: Vec::new(),
        ..accounts()
    };
    let table = block_on(catalog.create_table(&mut txn, &ddl, &bare))
        .unwrap()
        .unwrap();
    for id in [Datum::Int4(1), Datum::Int4(2), Datum::Null] {
        insert(&mut txn, &table, &[id, "a".into(), Datum::Null]).unwrap();
    }
    let add = |txn: &mut Transaction, kind, column| {
        block_on(catalog.add_constraint(txn, &ddl, table.oid, &constraint(kind, &[column])))
    };
    txn.savepoint("s");
    let error = add(&mut txn, ConstraintKind::Primary, "id").unwrap_err();
    assert_eq!(error.sqlstate, SqlState::NOT_NULL_VIOLATION);
    txn.rollback_to("s").unwrap();
    let error = add(&mut txn, ConstraintKind::Unique, "name").unwrap_err();
    assert_eq!(error.sqlstate, SqlState::UNIQUE_VIOLATION);
    txn.rollback_to("s").unwrap();
    let changed = add(&mut txn, ConstraintKind::Unique, "id").unwrap();
    let duplicate = [Datum::Int4(2), "b".into(), Datum::Null];
    assert!(insert(&mut txn, &changed, &duplicate).is_err());
}

#[test]
fn truncate_and_drop_give_the_space_back_at_commit() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    insert(&mut txn, &table, &[Datum::Int4(1), "a".into(), Datum::Null]).unwrap();
    commit(txn);
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let empty = block_on(catalog.truncate(&mut txn, &ddl, table.oid)).unwrap();
    assert!(txn.made_here(empty.heap) && empty.heap != table.heap);
    assert_eq!(rows(&mut txn, &empty), 0);
    txn.rollback();
    let mut txn = begin(&db);
    let kept = find(&catalog.current(), "accounts").unwrap();
    assert_eq!((kept.heap, rows(&mut txn, &kept)), (table.heap, 1));
    txn.rollback();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let empty = block_on(catalog.truncate(&mut txn, &ddl, table.oid)).unwrap();
    insert(&mut txn, &empty, &[Datum::Int4(1), "a".into(), Datum::Null]).unwrap();
    commit(txn);
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let now = find(&catalog.current(), "accounts").unwrap();
    assert_eq!(rows(&mut txn, &now), 1);
    block_on(catalog.drop_table(&mut txn, &ddl, table.oid)).unwrap();
    assert!(find(&catalog.view(&ddl), "accounts").is_none());
    let table = create(&catalog, &mut txn, &ddl);
    commit(txn);
    assert_eq!(find(&catalog.current(), "accounts").unwrap().oid, table.oid);
    let reread = Catalog::open(&db).unwrap().current();
    assert_eq!(reread.tables().count(), 1);
}

#[test]
fn a_table_may_be_made_changed_and_dropped_in_one_transaction() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    block_on(catalog.truncate(&mut txn, &ddl, table.oid)).unwrap();
    let name = "accounts_name_balance_key";
    let left = block_on(catalog.drop_constraint(&mut txn, &ddl, table.oid, name)).unwrap();
    assert_eq!(left.indexes.len(), 1);
    block_on(catalog.create_index(&mut txn, &ddl, table.oid, &index(&["name"]))).unwrap();
    let made = catalog.view(&ddl).table(table.oid).unwrap().indexes[1].oid;
    block_on(catalog.drop_index(&mut txn, &ddl, made)).unwrap();
    block_on(catalog.drop_table(&mut txn, &ddl, table.oid)).unwrap();
    commit(txn);
    assert_eq!(catalog.current().tables().count(), 0);
    assert_eq!(Catalog::open(&db).unwrap().current().tables().count(), 0);
}

#[test]
fn files_of_large_values_go_with_their_table() {
    let db = open(&SimDisk::new(1));
    let catalog = Catalog::open(&db).unwrap();
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let table = create(&catalog, &mut txn, &ddl);
    let large = table.large.clone().unwrap();
    let short = CreateTable {
        name: "short".into(),
        columns: vec![
            column("a", SqlType::Int4),
            column("b", SqlType::Char(Some(20))),
        ],
        constraints: Vec::new(),
        checks: Vec::new(),
        ..accounts()
    };
    let short = block_on(catalog.create_table(&mut txn, &ddl, &short));
    assert!(
        short.unwrap().unwrap().large.is_none(),
        "no row of it is long"
    );
    commit(txn);
    let read = |oid| {
        let state = Catalog::open(&db).unwrap().current();
        let table = state.table(oid).cloned();
        table.and_then(|table| table.large.clone())
    };
    assert_eq!(read(table.oid).unwrap().heap, large.heap);
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    let empty = block_on(catalog.truncate(&mut txn, &ddl, table.oid)).unwrap();
    let renewed = empty.large.clone().unwrap();
    assert!(txn.made_here(renewed.heap) && txn.made_here(renewed.tree));
    assert!(renewed.heap != large.heap && renewed.tree != large.tree);
    commit(txn);
    assert_eq!(read(table.oid).unwrap().heap, renewed.heap);
    let (mut txn, ddl) = (begin(&db), DdlLog::default());
    block_on(catalog.drop_table(&mut txn, &ddl, table.oid)).unwrap();
    commit(txn);
    assert!(read(table.oid).is_none());
    assert!(
        Catalog::open(&db)
            .unwrap()
            .tables
            .large
            .read(&mut begin(&db))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn temporary_tables_of_others_leave_plans_alone() {
    let db = open(&SimDisk::new(12));
    let catalog = Catalog::open(&db).unwrap();
    let (own, other) = (Some("pg_temp_0"), Some("pg_temp_1"));
    let versions = || {
        let state = catalog.current();
        [None, own, other].map(|schema| state.version_seen(schema))
    };
    let change = |work: &dyn Fn(&mut Transaction, &DdlLog)| {
        let (mut txn, ddl) = (begin(&db), DdlLog::default());
        work(&mut txn, &ddl);
        commit(txn);
    };
    let table = CreateTable {
        schema: "pg_temp_0".into(),
        ..accounts()
    };
    let before = versions();
    change(&|txn, ddl| {
        block_on(catalog.create_temporary_schema(txn, ddl, "pg_temp_0")).unwrap();
        block_on(catalog.create_table(txn, ddl, &table)).unwrap();
    });
    let made = versions();
    assert_eq!((made[0], made[2]), (before[0], before[2]));
    assert_ne!(made[1], before[1]);
    let oid = catalog.current().tables().next().unwrap().oid;
    change(&|txn, ddl| {
        block_on(catalog.create_index(txn, ddl, oid, &index(&["id"]))).unwrap();
        block_on(catalog.drop_table(txn, ddl, oid)).unwrap();
    });
    let dropped = versions();
    assert_eq!((dropped[0], dropped[2]), (before[0], before[2]));
    assert_ne!(dropped[1], made[1]);
    change(&|txn, ddl| drop(create(&catalog, txn, ddl)));
    let lasting = versions();
    let all_differ = lasting.iter().zip(dropped).all(|(now, then)| *now != then);
    assert!(all_differ, "{lasting:?} after {dropped:?}");
}
