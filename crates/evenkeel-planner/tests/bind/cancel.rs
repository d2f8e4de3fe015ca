//! Binding and planning look at whether the statement is cancelled, wherever the work grows faster
//! than the text.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_expr::ExprResult;
use evenkeel_expr::call::Session;
use evenkeel_planner::PlanResult;
use evenkeel_planner::bind::bind;
use evenkeel_planner::bound::Bound;
use evenkeel_planner::parser::parse;
use evenkeel_planner::plan::Plan;
use evenkeel_planner::planning::{PlannerSettings, Planning, plan};
use evenkeel_types::{Datum, SqlState, TypeContext, TypeError};

use crate::catalog::Tables;

/// A session whose statement is cancelled after so many looks.
struct Ends {
    types: TypeContext,
    looks: AtomicU64,
    most: u64,
}

impl Ends {
    fn after(most: u64) -> Ends {
        let (types, looks) = (TypeContext::default(), AtomicU64::new(0));
        Ends { types, looks, most }
    }
}

impl Session for Ends {
    fn types(&self) -> &TypeContext {
        &self.types
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
        match self.looks.fetch_add(1, Ordering::Relaxed) < self.most {
            true => Ok(()),
            false => Err(TypeError::new(SqlState::QUERY_CANCELED, "cancelled")),
        }
    }

    fn system_call(&self, _oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        Ok(Datum::Null)
    }
}

fn bound(statement: &str, session: &Ends) -> PlanResult<Bound> {
    let parsed = parse(statement).unwrap();
    bind(&parsed[0].statement, &Tables::new(), session, &[])
}

fn planned(bound: &Bound, session: &Ends) -> PlanResult<Plan> {
    let settings = PlannerSettings::default();
    let how = Planning {
        settings: &settings,
        session,
        values: None,
        notes: false,
    };
    plan(bound, how)
}

fn from(count: usize, between: &str) -> String {
    let tables: Vec<_> = (0..count).map(|n| format!("dept u{n}")).collect();
    tables.join(between)
}

#[test]
fn a_plan_that_is_given_up_ends() {
    for count in [10, 40] {
        let statement = format!("SELECT 1 FROM {}", from(count, ", "));
        let bound = bound(&statement, &Ends::after(u64::MAX)).unwrap();
        for most in [0, 3, 1000] {
            let session = Ends::after(most);
            let error = planned(&bound, &session).map(drop).unwrap_err();
            assert_eq!(error.state, SqlState::QUERY_CANCELED, "{count} {most}");
            let looks = session.looks.load(Ordering::Relaxed);
            assert!(looks <= most + 1, "{looks} looks, not {most}");
        }
    }
}

#[test]
fn a_statement_that_is_given_up_is_not_bound() {
    let list: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
    let lists = [
        format!("SELECT 1 IN ({})", list.join(", ")),
        format!("SELECT {}", list.join(", ")),
        format!(
            "SELECT 1 FROM dept WHERE {}",
            vec!["id = 1"; 2000].join(" OR ")
        ),
        vec!["SELECT 1"; 2000].join(" UNION ALL "),
    ];
    for statement in lists {
        let session = Ends::after(5);
        let error = bound(&statement, &session).map(drop).unwrap_err();
        assert_eq!(error.state, SqlState::QUERY_CANCELED, "{statement:.40}");
    }
}

#[test]
fn more_relations_than_a_search_takes_are_joined_in_parts() {
    // As the threads that plan: joins within joins are as deep as the client writes them.
    let deep = std::thread::Builder::new().stack_size(512 << 20);
    deep.spawn(plan_large_joins).unwrap().join().unwrap();
}

fn plan_large_joins() {
    let chain = |join: &str| {
        let joins = (1..280).map(|n| format!(" {join} dept u{n} ON u{n}.id = u{}.id", n - 1));
        format!("SELECT 1 FROM dept u0{}", joins.collect::<String>())
    };
    let star = (1..280).map(|n| format!(" LEFT JOIN dept u{n} ON u{n}.id = u0.id"));
    let wide: Vec<_> = (1..280).map(|n| format!("u{n}.id = u0.id")).collect();
    let lateral = (1..200).map(|n| {
        format!(
            ", LATERAL (SELECT id FROM dept WHERE id > u{}.id OFFSET 0) u{n}",
            n - 1
        )
    });
    for statement in [
        chain("JOIN"),
        chain("LEFT JOIN"),
        format!("SELECT 1 FROM dept u0{}", star.collect::<String>()),
        format!(
            "SELECT 1 FROM {} WHERE {}",
            from(280, ", "),
            wide.join(" AND ")
        ),
        format!("SELECT 1 FROM {}", from(280, ", ")),
        format!("SELECT 1 FROM dept u0{}", lateral.collect::<String>()),
        format!(
            "SELECT 1 FROM {}, dept x WHERE x.id IN (SELECT id FROM dept)",
            from(280, ", ")
        ),
    ] {
        let session = Ends::after(u64::MAX);
        let bound = bound(&statement, &session).unwrap();
        let planned = planned(&bound, &session).unwrap();
        assert!(!planned.relations.is_empty(), "{statement:.80}");
    }
}
