//! The tables of `schema.txt`, and a session with PostgreSQL's defaults.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_expr::ExprResult;
use evenkeel_expr::call::Session;
use evenkeel_planner::bind::bind;
use evenkeel_planner::bound::{BoundStatement, Query};
use evenkeel_planner::catalog::Catalog;
use evenkeel_planner::parser::parse;
use evenkeel_planner::relation::{
    Column, Index, IndexColumn, Relation, RelationKind, RelationSize,
};
use evenkeel_planner::{PlanError, PlanResult};
use evenkeel_types::{Datum, SqlType, TypeContext};

const SCHEMA: &str = include_str!("schema.txt");
const CATALOGS: &str = include_str!("catalogs.txt");

/// Session with PostgreSQL's default settings, in UTC.
#[derive(Default)]
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

/// The tables and PostgreSQL's catalogs; `public` is the search path.
pub struct Tables(Vec<Arc<Relation>>);

impl Tables {
    pub fn new() -> Tables {
        let tables = SCHEMA.split_terminator("\n\n").enumerate();
        let tables = tables.map(|(at, table)| relation(16_384 + at as u32 * 10, table));
        Tables(tables.chain(catalogs()).map(Arc::new).collect())
    }
}

impl Catalog for Tables {
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>> {
        let schemas = match &schema {
            Some(schema) => std::slice::from_ref(schema),
            None => &["pg_catalog", "public"],
        };
        let found = schemas.iter().find_map(|schema| {
            let mut tables = self.0.iter();
            tables.find(|table| &*table.schema == *schema && &*table.name == name)
        });
        Ok(found.cloned())
    }

    fn type_named(&self, _: Option<&str>, _: &str, _: Option<&str>) -> Option<SqlType> {
        None
    }

    fn is_database(&self, name: &str) -> bool {
        name == "postgres"
    }

    fn schema_exists(&self, schema: &str) -> bool {
        ["public", "other", "pg_catalog", "information_schema"].contains(&schema)
    }

    fn view(&self, _relation: &Relation) -> PlanResult<Arc<Query>> {
        Err(PlanError::unsupported("there are no views"))
    }
}

/// A type by its name.
fn named_type(name: &str) -> SqlType {
    let none = Tables(Vec::new());
    let parsed = parse(&format!("SELECT NULL::{name}")).unwrap();
    let bound = bind(&parsed[0].statement, &none, &TestSession::default(), &[]).unwrap();
    let BoundStatement::Query(query) = bound.statement else {
        panic!("no query");
    };
    query.targets[0].expr.ty
}

/// The relations of `catalogs.txt`, which the server makes the rows of.
fn catalogs() -> Vec<Relation> {
    let mut relations: Vec<Relation> = Vec::new();
    let mut types = HashMap::new();
    for line in CATALOGS.lines().filter(|line| !line.starts_with('#')) {
        let Some(columns) = line.strip_prefix("  ") else {
            let words: Vec<&str> = line.split(' ').collect();
            relations.push(Relation {
                oid: words[0].parse().unwrap(),
                schema: words[1].into(),
                name: words[2].into(),
                kind: RelationKind::Virtual,
                columns: Vec::new(),
                indexes: Vec::new(),
                checks: Vec::new(),
                keys: Vec::new(),
                size: RelationSize::default(),
                past: None,
            });
            continue;
        };
        let relation = relations.last_mut().unwrap();
        for column in columns.split(' ') {
            let (name, ty) = column.split_once(':').unwrap();
            let not_null = ty.ends_with('!');
            let ty = ty.trim_end_matches('!');
            let ty = *types
                .entry(ty)
                .or_insert_with(|| named_type(&format!("pg_catalog.\"{ty}\"")));
            relation.columns.push(Column {
                name: name.into(),
                ty,
                domain: None,
                not_null,
                default: None,
                identity: None,
                generated: None,
                stats: None,
            });
        }
    }
    relations
}

fn relation(oid: u32, text: &str) -> Relation {
    let mut relation = Relation {
        oid,
        schema: "public".into(),
        name: "".into(),
        kind: RelationKind::Table,
        columns: Vec::new(),
        indexes: Vec::new(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize::default(),
        past: None,
    };
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        if first == "table" {
            let (schema, name) = rest.split_once('.').unwrap();
            (relation.schema, relation.name) = (schema.into(), name.into());
        } else if first == "key" {
            let index = primary_key(&relation, rest);
            relation.indexes.push(index);
        } else {
            let ty = rest.strip_suffix(" notnull");
            relation.columns.push(Column {
                name: first.into(),
                ty: named_type(ty.unwrap_or(rest)),
                domain: None,
                not_null: ty.is_some(),
                default: None,
                identity: None,
                generated: None,
                stats: None,
            });
        }
    }
    relation
}

fn primary_key(relation: &Relation, columns: &str) -> Index {
    let column = |name: &str| {
        let mut columns = relation.columns.iter();
        let column = columns.position(|column| &*column.name == name);
        IndexColumn {
            column,
            ty: relation.columns[column.unwrap()].ty,
            desc: false,
            nulls_first: false,
        }
    };
    Index {
        oid: relation.oid + 1,
        name: format!("{}_pkey", relation.name).into(),
        position: 0,
        columns: columns.split(' ').map(column).collect(),
        unique: true,
        expressions: Vec::new(),
        predicate: None,
        mentions: Vec::new(),
        constraint: true,
        deferrable: false,
        nulls_not_distinct: false,
        primary: true,
        pages: 1.0,
    }
}
