//! The tables of `schema.txt` in the engine, and statements over them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::memory::SessionMemory;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyKind, Table, TableDef};
use evenkeel_engine::{CancelFlag, Config, Durability, Isolation, Transaction, block_on};
use evenkeel_exec::{
    Batch, Environment, ExecError, ExecResult, Execution, Limits, Relations, RowEvents, Step,
    TempSpace, VirtualRows,
};
use evenkeel_expr::ExprResult;
use evenkeel_expr::call::Session;
use evenkeel_io::SimDisk;
use evenkeel_planner::bind::bind;
use evenkeel_planner::bound::{Bound, BoundStatement, Query};
use evenkeel_planner::catalog::Catalog;
use evenkeel_planner::explain;
use evenkeel_planner::parser::parse;
use evenkeel_planner::plan::Plan;
use evenkeel_planner::planning::{Planning, plan};
use evenkeel_planner::relation::{
    Column, Index, IndexColumn, Relation, RelationKind, RelationSize,
};
use evenkeel_planner::{PlanError, PlanResult};
use evenkeel_storage::StorageConfig;
use evenkeel_types::key::KeyColumn;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{Datum, SqlType, TimeZone, TypeContext, TypeError};

use crate::recorded::{Answer, field};
use crate::ways::Way;

const SCHEMA: &str = include_str!("schema.txt");

type Row = Vec<Datum>;

/// The session of the recording: PostgreSQL's defaults, in Berlin.
struct BerlinSession(TypeContext);

impl Session for BerlinSession {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        self.0.now_micros
    }

    fn reserve(&self, _bytes: usize) -> ExprResult<()> {
        Ok(())
    }

    fn hold(&self, _: usize) -> ExprResult<()> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn check_cancel(&self) -> ExprResult<()> {
        Ok(())
    }

    fn system_call(&self, oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        Err(TypeError::unsupported(format!("system function {oid}")))
    }
}

#[derive(Clone, Default)]
struct Tables(HashMap<u32, (Arc<Table>, Arc<RowLayout>)>);

impl Relations for Tables {
    fn table(&self, relation: &Relation) -> ExecResult<(Arc<Table>, Arc<RowLayout>)> {
        let found = self.0.get(&relation.oid).cloned();
        found.ok_or_else(|| TypeError::internal("no such table").into())
    }

    fn virtual_rows(&self, _relation: &Relation) -> ExecResult<Vec<VirtualRows>> {
        Err(TypeError::internal("no virtual tables").into())
    }
}

struct Names(Vec<Arc<Relation>>);

impl Catalog for Names {
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>> {
        let mut relations = self.0.iter();
        let found = relations.find(|relation| &*relation.name == name);
        Ok(found
            .filter(|_| schema.is_none_or(|schema| schema == "queries"))
            .cloned())
    }

    fn type_named(&self, _: Option<&str>, _: &str, _: Option<&str>) -> Option<SqlType> {
        None
    }

    fn is_database(&self, name: &str) -> bool {
        name == "postgres"
    }

    fn schema_exists(&self, schema: &str) -> bool {
        schema == "queries"
    }

    fn view(&self, _relation: &Relation) -> PlanResult<Arc<Query>> {
        Err(PlanError::unsupported("there are no views"))
    }
}

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

/// The database.
pub struct Database {
    db: evenkeel_engine::Database,
    session: Arc<BerlinSession>,
    tables: Tables,
    small: Names,
    /// The same relations, with the sizes of large ones.
    large: Names,
}

fn context() -> TypeContext {
    TypeContext {
        time_zone: TimeZone::parse("Europe/Berlin").unwrap(),
        // A winter's day of the years in which the answers were recorded: 2026-01-15.
        now_micros: 1_768_435_200_000_000,
        ..TypeContext::default()
    }
}

impl Database {
    pub fn new() -> Database {
        let disk = Arc::new(SimDisk::new(1));
        let mut storage = StorageConfig::small();
        storage.shared_buffers = 16 << 20;
        let config = Config {
            storage,
            ..Config::default()
        };
        let db = evenkeel_engine::Database::open(disk, Path::new("/db"), config);
        let mut database = Database {
            db: db.unwrap(),
            session: Arc::new(BerlinSession(context())),
            tables: Tables::default(),
            small: Names(Vec::new()),
            large: Names(Vec::new()),
        };
        for table in SCHEMA.split_terminator("\n\n") {
            database.load(table);
        }
        database
    }

    fn load(&mut self, text: &str) {
        let oid = 1000 * (1 + self.small.0.len() as u32);
        let (relation, rows) = read_table(oid, text);
        let types: Vec<SqlType> = relation.columns.iter().map(|column| column.ty).collect();
        let layout = Arc::new(RowLayout::new(&types));
        let mut txn = self.db.begin(Isolation::ReadCommitted).unwrap();
        let heap = txn.create_file().unwrap();
        let indexes = relation.indexes.iter();
        let indexes = indexes
            .map(|index| self.index(index, &layout, &mut txn))
            .collect();
        let def = TableDef {
            id: u64::from(oid),
            heap,
            fillfactor: 100,
            indexes,
        };
        let table = Table::open(&self.db, def).unwrap();
        let mut bytes = Vec::new();
        for row in &rows {
            layout.encode(row, &mut bytes).unwrap();
            block_on(table.insert(&mut txn, &bytes)).unwrap();
        }
        block_on(txn.commit(Durability::Sync)).unwrap();
        self.tables.0.insert(oid, (table, layout));
        let mut large = relation.clone();
        large.size = RelationSize {
            pages: 20_000.0,
            rows: 1_000_000.0,
            all_visible: 1.0,
        };
        for index in &mut large.indexes {
            index.pages = 4_000.0;
        }
        self.small.0.push(Arc::new(relation));
        self.large.0.push(Arc::new(large));
    }

    fn index(&self, index: &Index, layout: &Arc<RowLayout>, txn: &mut Transaction) -> IndexDef {
        let file = txn.create_file().unwrap();
        let xid = txn.xid().unwrap();
        let _ = BTree::create(self.db.store(), xid, file).unwrap();
        let column = |column: &IndexColumn| KeyColumn {
            column: column.column,
            ty: column.ty,
            descending: column.desc,
            nulls_first: column.nulls_first,
        };
        IndexDef {
            file,
            unique: index.unique,
            name: Arc::clone(&index.name),
            key: Arc::new(Keys {
                layout: Arc::clone(layout),
                columns: index.columns.iter().map(column).collect(),
            }),
            usable_after: None,
            deferrable: false,
        }
    }

    pub fn catalog(&self, large: bool) -> &dyn Catalog {
        if large { &self.large } else { &self.small }
    }

    pub fn context(&self) -> &TypeContext {
        &self.session.0
    }

    pub fn bind(
        &self,
        text: &str,
        catalog: &dyn Catalog,
        types: &[Option<SqlType>],
    ) -> PlanResult<Bound> {
        bind(
            &parse(text)?[0].statement,
            catalog,
            self.session.as_ref(),
            types,
        )
    }

    fn environment(&self, limits: Limits) -> Environment {
        let mut txn = self.db.begin(Isolation::RepeatableRead).unwrap();
        Environment {
            snapshot: txn.snapshot().unwrap(),
            relations: Arc::new(self.tables.clone()),
            session: Arc::clone(&self.session) as Arc<dyn Session>,
            memory: SessionMemory::unlimited(),
            events: Arc::new(RowEvents::new(&SessionMemory::unlimited())),
            cross_check: None,
            cancel: CancelFlag::new(),
            temp: Arc::new(TempSpace::new(self.db.store())),
            limits,
        }
    }

    fn plan(&self, text: &str, way: &Way, notes: bool) -> PlanResult<(Plan, Vec<Datum>)> {
        let (text, params, known) = match &way.params {
            Some((text, params, known)) => (&**text, params.as_slice(), *known),
            None => (text, &[][..], false),
        };
        let types: Vec<_> = params.iter().map(|(ty, _)| Some(*ty)).collect();
        let values: Vec<_> = params.iter().map(|(_, value)| value.clone()).collect();
        let bound = self.bind(text, self.catalog(way.large), &types)?;
        let how = Planning {
            settings: &way.settings,
            session: self.session.as_ref(),
            values: known.then_some(&values),
            notes,
        };
        Ok((plan(&bound, how)?, values))
    }

    /// The plan of a statement as EXPLAIN shows it.
    pub fn explained(&self, text: &str, way: &Way) -> String {
        match self.plan(text, way, true) {
            Ok((plan, _)) => {
                let mut free = |_| Ok::<(), Infallible>(());
                let Ok(lines) = explain::text(&plan, explain::Options::PLAIN, None, &mut free);
                lines.join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    /// The answer to a statement.
    pub fn answer(&self, text: &str, way: &Way) -> Answer {
        let (plan, values) = match self.plan(text, way, false) {
            Ok((plan, values)) => (Arc::new(plan), values),
            Err(error) => return Answer::error(error.state.0, &error.message),
        };
        let types: Vec<SqlType> = plan.columns.iter().map(|column| column.ty).collect();
        let columns = plan.columns.iter();
        let columns = columns
            .map(|column| format!("{} {} {}", column.ty.oid(), column.ty.typmod(), column.name))
            .collect();
        let env = self.environment(way.limits.clone());
        let rows = Execution::start(plan, values, env).and_then(|mut run| collect(&mut run));
        match rows {
            Ok(rows) => Answer {
                columns,
                rows: rows.iter().map(|row| self.shown(row, &types)).collect(),
                error: None,
            },
            Err(error) => Answer::error(error.sqlstate(), &message(&error)),
        }
    }

    fn shown(&self, row: &[Datum], types: &[SqlType]) -> String {
        assert_eq!(row.len(), types.len(), "a row of another width");
        let fields = row.iter().zip(types).map(|(value, ty)| match value {
            Datum::Null => "\\N".to_owned(),
            // The session's catalog has the names of types; these are without modifiers.
            Datum::Oid(oid) if *ty == SqlType::Regtype => {
                SqlType::from_oid(*oid, -1).map_or_else(String::new, |ty| ty.name())
            }
            value => field(&value.to_text(*ty, self.context())),
        });
        fields.collect::<Vec<_>>().join("\t")
    }
}

fn message(error: &ExecError) -> String {
    match error {
        ExecError::Value(error) => error.message.to_string(),
        ExecError::Engine(error) => error.to_string(),
    }
}

fn collect(run: &mut Execution) -> ExecResult<Vec<Row>> {
    let mut rows = Vec::new();
    let mut batch = Batch::default();
    loop {
        match run.next(&mut batch)? {
            Step::Batch => rows.extend(batch.rows().map(<[Datum]>::to_vec)),
            Step::Wait(_) => {}
            Step::Done => return Ok(rows),
        }
    }
}

/// A type by its name.
fn named_type(name: &str) -> SqlType {
    let session = BerlinSession(context());
    let parsed = parse(&format!("SELECT NULL::{name}")).unwrap();
    let bound = bind(&parsed[0].statement, &Names(Vec::new()), &session, &[]).unwrap();
    let BoundStatement::Query(query) = bound.statement else {
        panic!("no query");
    };
    query.targets[0].expr.ty
}

/// A table of `schema.txt`: its relation and its rows.
fn read_table(oid: u32, text: &str) -> (Relation, Vec<Row>) {
    let mut relation = Relation {
        oid,
        schema: "queries".into(),
        name: "".into(),
        kind: RelationKind::Table,
        columns: Vec::new(),
        indexes: Vec::new(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize::default(),
        past: None,
    };
    let context = context();
    let mut rows = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "table" => relation.name = rest.into(),
            "column" => {
                let (name, ty) = rest.split_once(' ').unwrap();
                let not_null = ty.strip_suffix(" notnull");
                relation.columns.push(Column {
                    name: name.into(),
                    ty: named_type(not_null.unwrap_or(ty)),
                    domain: None,
                    not_null: not_null.is_some(),
                    default: None,
                    identity: None,
                    generated: None,
                    stats: None,
                });
            }
            "key" | "index" => {
                let index = read_index(&relation, word == "key", rest);
                relation.indexes.push(index);
            }
            _ => {
                let fields = rest.split('|').zip(&relation.columns);
                let row = fields.map(|(field, column)| match field {
                    "\\N" => Datum::Null,
                    text => {
                        let value = Datum::parse_text(column.ty, text, &context);
                        value.unwrap_or_else(|error| panic!("{line}: {error}"))
                    }
                });
                rows.push(row.collect());
            }
        }
    }
    relation.size = RelationSize {
        pages: 1.0 + rows.len() as f64 / 60.0,
        rows: rows.len() as f64,
        all_visible: 0.0,
    };
    (relation, rows)
}

fn read_index(relation: &Relation, primary: bool, text: &str) -> Index {
    let columns = text.strip_prefix("unique ").unwrap_or(text);
    let column = |text: &str| {
        let (name, direction) = text.split_once(' ').unwrap_or((text, ""));
        let mut columns = relation.columns.iter();
        let column = columns.position(|column| &*column.name == name);
        let desc = direction.starts_with("desc");
        IndexColumn {
            column,
            ty: relation.columns[column.unwrap()].ty,
            desc,
            nulls_first: match direction.split_once("nulls ") {
                Some((_, place)) => place == "first",
                None => desc,
            },
        }
    };
    Index {
        oid: relation.oid + 1 + relation.indexes.len() as u32,
        name: format!("{}_{}", relation.name, relation.indexes.len()).into(),
        position: relation.indexes.len(),
        columns: columns.split(", ").map(column).collect(),
        unique: primary || columns != text,
        expressions: Vec::new(),
        predicate: None,
        mentions: Vec::new(),
        constraint: true,
        deferrable: false,
        nulls_not_distinct: false,
        primary,
        pages: 1.0,
    }
}
