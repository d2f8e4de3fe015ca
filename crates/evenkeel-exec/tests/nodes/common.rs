//! Plans by hand, and what runs them in every way that must not change the answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::memory::SessionMemory;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyKind, Table, TableDef};
use evenkeel_engine::{CancelFlag, Config, Database, Durability, Isolation, Transaction, block_on};
use evenkeel_exec::{
    Batch, Environment, ExecResult, Execution, Limits, Relations, RowEvents, Step, TempSpace,
    VirtualRows,
};
use evenkeel_expr::call::Session;
use evenkeel_expr::program::{CallNode, Program};
use evenkeel_expr::{ExprResult, proc_by_oid};
use evenkeel_io::SimDisk;
use evenkeel_planner::plan::{Estimate, Node, NodeKind, Plan, SortColumn, Subplan};
use evenkeel_planner::relation::{
    Column, Index, IndexColumn, Relation, RelationKind, RelationSize,
};
use evenkeel_storage::StorageConfig;
use evenkeel_types::key::KeyColumn;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{Datum, SqlType, TypeContext, TypeError};

pub type Row = Vec<Datum>;

/// A database in memory with some tables.
pub struct Fixture {
    pub db: Database,
    pub disk: SimDisk,
    pub tables: Tables,
}

#[derive(Clone, Default)]
pub struct Tables(HashMap<u32, (Arc<Table>, Arc<RowLayout>)>);

impl Relations for Tables {
    fn table(&self, relation: &Relation) -> ExecResult<(Arc<Table>, Arc<RowLayout>)> {
        let found = self.0.get(&relation.oid).cloned();
        found.ok_or_else(|| TypeError::internal("no such table").into())
    }

    fn virtual_rows(&self, relation: &Relation) -> ExecResult<Vec<VirtualRows>> {
        let width = relation.columns.len();
        let row = |n: i32| {
            (0..width)
                .map(|at| Datum::Int4(n * 10 + at as i32))
                .collect()
        };
        Ok(vec![(0..2).map(row).collect(), (2..3).map(row).collect()])
    }
}

pub struct TestSession(TypeContext);

impl Session for TestSession {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        0
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

    fn system_call(&self, _oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        Ok(Datum::Null)
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

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with_buffers(8 << 20)
    }

    pub fn with_buffers(bytes: u64) -> Fixture {
        let disk = SimDisk::new(1);
        let mut storage = StorageConfig::small();
        storage.shared_buffers = bytes;
        let config = Config {
            storage,
            ..Config::default()
        };
        let db = Database::open(Arc::new(disk.clone()), Path::new("/db"), config).unwrap();
        Fixture {
            db,
            disk,
            tables: Tables::default(),
        }
    }

    /// Makes a table with these columns and indexes, and fills it.
    pub fn table(
        &mut self,
        types: &[SqlType],
        indexes: &[(bool, Vec<IndexColumn>)],
        rows: &[Row],
    ) -> Arc<Relation> {
        let layout = Arc::new(RowLayout::new(types));
        let mut txn = self.db.begin(Isolation::ReadCommitted).unwrap();
        let heap = txn.create_file().unwrap();
        let xid = txn.xid().unwrap();
        let mut defs = Vec::new();
        for (number, (unique, columns)) in indexes.iter().enumerate() {
            let file = txn.create_file().unwrap();
            let _ = BTree::create(self.db.store(), xid, file).unwrap();
            let column = |column: &IndexColumn| KeyColumn {
                column: column.column,
                ty: column.ty,
                descending: column.desc,
                nulls_first: column.nulls_first,
            };
            defs.push(IndexDef {
                file,
                unique: *unique,
                name: format!("index {number}").into(),
                key: Arc::new(Keys {
                    layout: Arc::clone(&layout),
                    columns: columns.iter().map(column).collect(),
                }),
                usable_after: None,
                deferrable: false,
            });
        }
        let oid = 1000 + self.tables.0.len() as u32;
        let def = TableDef {
            id: u64::from(oid),
            heap,
            fillfactor: 100,
            indexes: defs,
        };
        let table = Table::open(&self.db, def).unwrap();
        fill(&table, &layout, &mut txn, rows);
        block_on(txn.commit(Durability::Sync)).unwrap();
        self.tables.0.insert(oid, (table, layout));
        Arc::new(relation(oid, types, indexes))
    }

    pub fn environment(&self, limits: Limits) -> Environment {
        let mut txn = self.db.begin(Isolation::RepeatableRead).unwrap();
        Environment {
            snapshot: txn.snapshot().unwrap(),
            relations: Arc::new(self.tables.clone()),
            session: Arc::new(TestSession(TypeContext::default())),
            memory: SessionMemory::unlimited(),
            events: Arc::new(RowEvents::new(&SessionMemory::unlimited())),
            cross_check: None,
            cancel: CancelFlag::new(),
            temp: Arc::new(TempSpace::new(self.db.store())),
            limits,
        }
    }

    /// The rows of a plan under some limits; no temporary file stays.
    pub fn rows_with(&self, plan: &Arc<Plan>, limits: Limits) -> ExecResult<Vec<Row>> {
        let env = self.environment(limits);
        let temp = Arc::clone(&env.temp);
        let mut run = Execution::start(Arc::clone(plan), Vec::new(), env)?;
        let rows = collect(&mut run);
        drop(run);
        assert_eq!(temp.quota().used(), 0, "temporary files stay");
        rows
    }

    /// The rows of a plan, the same ones in every way of running it.
    pub fn rows(&self, plan: Plan) -> Vec<Row> {
        self.run(plan, false)
    }

    /// As [`Fixture::rows`], in the same order.
    pub fn ordered(&self, plan: Plan) -> Vec<Row> {
        self.run(plan, true)
    }

    fn run(&self, plan: Plan, ordered: bool) -> Vec<Row> {
        let plan = Arc::new(plan);
        let expected = self.rows_with(&plan, Limits::default()).unwrap();
        let one = Limits {
            batch: 1,
            ..Limits::default()
        };
        let tiny = Limits {
            work_mem: 100,
            ..Limits::default()
        };
        let restless = |seed| Limits {
            synchronize_seqscans: true,
            interrupt: Some(seed),
            slice: Duration::ZERO,
            batch: 3,
            work_mem: 300,
        };
        for limits in [one, tiny, restless(5), restless(77)] {
            let found = self.rows_with(&plan, limits.clone()).unwrap();
            let same = if ordered {
                texts(&found) == texts(&expected)
            } else {
                sorted(&found) == sorted(&expected)
            };
            assert!(
                same,
                "{limits:?}:\n{:#?}\ninstead of\n{:#?}",
                texts(&found),
                texts(&expected)
            );
        }
        expected
    }

    pub fn error(&self, plan: Plan) -> String {
        let error = self.rows_with(&Arc::new(plan), Limits::default());
        error.expect_err("an error").sqlstate().to_owned()
    }
}

fn fill(table: &Arc<Table>, layout: &RowLayout, txn: &mut Transaction, rows: &[Row]) {
    let mut bytes = Vec::new();
    for row in rows {
        layout.encode(row, &mut bytes).unwrap();
        block_on(table.insert(txn, &bytes)).unwrap();
    }
}

fn relation(oid: u32, types: &[SqlType], indexes: &[(bool, Vec<IndexColumn>)]) -> Relation {
    let column = |(at, ty): (usize, &SqlType)| Column {
        name: format!("c{at}").into(),
        ty: *ty,
        domain: None,
        not_null: false,
        default: None,
        identity: None,
        generated: None,
        stats: None,
    };
    let index = |(at, (unique, columns)): (usize, &(bool, Vec<IndexColumn>))| Index {
        oid: oid + 100 + at as u32,
        name: format!("i{at}").into(),
        position: at,
        columns: columns.clone(),
        unique: *unique,
        expressions: Vec::new(),
        predicate: None,
        mentions: Vec::new(),
        constraint: true,
        deferrable: false,
        nulls_not_distinct: false,
        primary: false,
        pages: 1.0,
    };
    Relation {
        oid,
        schema: "public".into(),
        name: format!("t{oid}").into(),
        kind: RelationKind::Table,
        columns: types.iter().enumerate().map(column).collect(),
        indexes: indexes.iter().enumerate().map(index).collect(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize::default(),
        past: None,
    }
}

pub fn ascending(column: usize) -> IndexColumn {
    IndexColumn {
        column: Some(column),
        ty: SqlType::Int4,
        desc: false,
        nulls_first: false,
    }
}

pub fn collect(run: &mut Execution) -> ExecResult<Vec<Row>> {
    let mut rows = Vec::new();
    let mut batch = Batch::default();
    loop {
        match run.next(&mut batch)? {
            Step::Batch => {
                assert!(!batch.is_empty());
                rows.extend(batch.rows().map(<[Datum]>::to_vec));
            }
            Step::Wait(_) => assert!(batch.is_empty()),
            Step::Done => {
                assert!(batch.is_empty());
                assert_eq!(run.next(&mut batch)?, Step::Done, "the end is no end");
                return Ok(rows);
            }
        }
    }
}

pub fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

pub fn sorted(rows: &[Row]) -> Vec<String> {
    let mut rows = texts(rows);
    rows.sort();
    rows
}

pub fn plan(root: Node) -> Plan {
    plan_with(root, Vec::new(), 0)
}

pub fn plan_with(root: Node, subplans: Vec<Subplan>, exec_params: usize) -> Plan {
    Plan {
        root,
        subplans,
        exec_params,
        columns: Vec::new(),
        params: Vec::new(),
        relations: Vec::new(),
        changed: Vec::new(),
        locked: Vec::new(),
    }
}

pub fn node(kind: NodeKind, width: usize) -> Node {
    Node {
        kind,
        filter: Vec::new(),
        project: None,
        width,
        mark: None,
        estimate: Estimate::default(),
        notes: None,
    }
}

impl With for Node {
    fn filter(mut self, program: Program) -> Node {
        self.filter.push(program);
        self
    }

    fn project(mut self, programs: Vec<Program>) -> Node {
        self.width = programs.len();
        self.project = Some(programs);
        self
    }
}

pub trait With {
    fn filter(self, program: Program) -> Node;
    fn project(self, programs: Vec<Program>) -> Node;
}

pub fn int(value: impl Into<Option<i32>>) -> Datum {
    value.into().map_or(Datum::Null, Datum::Int4)
}

pub fn slot(slot: usize) -> Program {
    Program::Slot(slot)
}

pub fn constant(value: i32) -> Program {
    Program::Const(Datum::Int4(value))
}

/// A row of integers.
pub fn ints(values: &[Option<i32>]) -> Row {
    values.iter().copied().map(int).collect()
}

/// A node of constant rows.
pub fn values(rows: &[Row], width: usize) -> Node {
    let row = |row: &Row| row.iter().cloned().map(Program::Const).collect();
    if rows.is_empty() {
        let conditions = vec![Program::Const(Datum::Bool(false))];
        let nulls = vec![Program::Const(Datum::Null); width];
        return node(NodeKind::Result { conditions }, 0).project(nulls);
    }
    node(NodeKind::Values(rows.iter().map(row).collect()), width)
}

pub fn scan(relation: &Arc<Relation>) -> Node {
    let columns: Vec<usize> = (0..relation.columns.len()).collect();
    let width = columns.len();
    let relation = Arc::clone(relation);
    node(NodeKind::SeqScan { relation, columns }, width)
}

pub fn key(slot: usize, desc: bool, nulls_first: bool) -> SortColumn {
    SortColumn {
        slot,
        desc,
        nulls_first,
    }
}

/// Functions of two integers, by their oids.
pub const EQUAL: u32 = 65;
pub const LESS: u32 = 66;
pub const PLUS: u32 = 177;
pub const MINUS: u32 = 181;
pub const DIVIDE: u32 = 154;

pub fn call(proc: u32, left: Program, right: Program) -> Program {
    Program::Call(Box::new(CallNode {
        proc: proc_by_oid(proc).unwrap(),
        args: Box::new([left, right]),
        arg_types: Box::new([SqlType::Int4, SqlType::Int4]),
        result: SqlType::Int4,
        variadic_array: false,
        at: u32::MAX,
    }))
}

pub fn equal(left: Program, right: Program) -> Program {
    call(EQUAL, left, right)
}

pub fn less(left: Program, right: Program) -> Program {
    call(LESS, left, right)
}
