//! The state of planning one statement: its relations by number, its common table expressions and
//! subplans.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::program::Program;
use evenkeel_types::{Datum, SqlType};

use crate::bound::{CallExpr, Cte, Expr, ExprKind, IndexExprs, Query, RangeEntry, RangeKind, Var};
use crate::error::{PlanError, PlanResult};
use crate::plan::Subplan;
use crate::relation::{Oid, Relation};
use evenkeel_types::SqlState;

use super::domains::forget_domains;
use super::layout::{Env, Layout};
use super::number::{self, NUMBERED, Numbers};
use super::path::PathRef;
use super::rels::Rels;
use super::settings::PlannerSettings;
use super::{volatility, walk};

/// Most relations of a statement, after its views and subqueries have been put in.
const RELATIONS_MAX: usize = 4096;

/// A relation of the statement.
#[derive(Debug)]
pub(super) struct Rel {
    /// Its name in the query; empty for what no text names.
    pub(super) alias: Arc<str>,
    /// Its columns' names.
    pub(super) columns: Vec<Arc<str>>,
    /// Its columns' types.
    pub(super) types: Vec<SqlType>,
    /// Where its rows come from.
    pub(super) source: Source,
    /// The relations that it looks at, beside those of outer queries.
    pub(super) needs: Rels,
    /// The expressions and predicates of its indexes.
    pub(super) indexes: Rc<Vec<IndexExprs>>,
}

/// Where a relation's rows come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A table or a virtual relation.
    Relation(Arc<Relation>),
    /// A query.
    Query(Arc<Query>),
    /// Functions.
    Functions {
        calls: Vec<CallExpr>,
        widths: Vec<usize>,
        ordinality: bool,
    },
    /// Rows of VALUES.
    Values(Rc<Vec<Vec<Expr>>>),
    /// A common table expression, by its number.
    Cte(usize),
    /// The working table of a recursive union.
    Working(usize),
    /// Nothing: a join, or a subquery that has become part of the query around it.
    Nothing,
}

/// A common table expression of the statement.
pub(super) struct CteUse {
    /// Its definition, numbered from outside.
    pub(super) cte: Arc<Cte>,
    /// Its path, once it is planned.
    pub(super) planned: Option<PathRef>,
    /// Whether it looks at columns of outer queries, also through others of its kind.
    pub(super) correlated: bool,
    /// Its subplan, once it is built.
    pub(super) built: Option<usize>,
    /// The working table of its recursion, while its second term is planned, with the rows of the
    /// first.
    pub(super) working: Option<(usize, f64)>,
}

/// The state of planning one statement.
pub(super) struct Statement<'a> {
    /// Whether the plan is made for EXPLAIN.
    pub(super) notes: bool,
    /// Costs and switches.
    pub(super) settings: &'a PlannerSettings,
    /// The session that waits for the plan, or has given it up.
    session: &'a dyn Session,
    /// The values of parameters, for a plan that is made for these.
    pub(super) values: Option<&'a [Datum]>,
    /// Relations, by number.
    pub(super) rels: Vec<Rel>,
    /// Common table expressions, by number.
    pub(super) ctes: Vec<CteUse>,
    /// Subplans; the number of one that is still being built is taken by `None`.
    pub(super) subplans: Vec<Option<Subplan>>,
    /// Executor parameters.
    pub(super) exec_params: usize,
    /// Recursive unions.
    pub(super) unions: usize,
    /// Columns that are looked at, by relation, once the path is chosen.
    pub(super) used: HashMap<usize, BTreeSet<usize>>,
    /// Columns that the statement's text looks at, by relation: these and perhaps others.
    pub(super) mentioned: HashMap<usize, BTreeSet<usize>>,
    /// Relations that have become part of the query around them, with what their columns are.
    pub(super) pulled: HashMap<usize, Vec<Expr>>,
    /// Relations that are read, for their locks.
    pub(super) locked: Vec<Arc<Relation>>,
    /// Tables that are changed.
    pub(super) changed: Vec<Oid>,
    /// Tables whose rows are locked.
    pub(super) row_locked: Vec<Oid>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(
        settings: &'a PlannerSettings,
        session: &'a dyn Session,
        values: Option<&'a [Datum]>,
    ) -> Statement<'a> {
        Statement {
            notes: false,
            settings,
            session,
            values,
            rels: Vec::new(),
            ctes: Vec::new(),
            subplans: Vec::new(),
            exec_params: 0,
            unions: 0,
            used: HashMap::new(),
            mentioned: HashMap::new(),
            pulled: HashMap::new(),
            locked: Vec::new(),
            changed: Vec::new(),
            row_locked: Vec::new(),
        }
    }

    /// Ends the planning of a statement that its session has given up, and lets other sessions of
    /// the thread run. Asked wherever the work grows faster than the statement.
    ///
    /// # Errors
    /// 57014.
    pub(super) fn check_cancel(&self) -> PlanResult<()> {
        Ok(self.session.check_cancel()?)
    }

    /// Numbers a query's relations and common table expressions. Answers the number of its first
    /// relation; the range table's entry `i` is relation `first + i`.
    pub(super) fn enter(&mut self, query: &mut Query) -> PlanResult<usize> {
        let numbers = Numbers {
            first: self.rels.len(),
            first_cte: self.ctes.len(),
        };
        if numbers.first + query.range_table.len() > RELATIONS_MAX {
            return Err(PlanError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many range table entries",
            ));
        }
        number::number(query, &numbers)?;
        walk::each_of_query(query, &mut |expr| {
            if let ExprKind::Var(var) = expr.kind
                && var.depth == NUMBERED
            {
                self.mentioned
                    .entry(var.rel)
                    .or_default()
                    .insert(var.column);
            }
        });
        for cte in &query.ctes {
            self.ctes.push(CteUse {
                cte: Arc::clone(cte),
                planned: None,
                correlated: false,
                built: None,
                working: None,
            });
        }
        for entry in &query.range_table {
            let rel = self.rel_of(entry)?;
            self.rels.push(rel);
        }
        Ok(numbers.first)
    }

    fn rel_of(&mut self, entry: &RangeEntry) -> PlanResult<Rel> {
        let mut needs = Rels::default();
        let mut note = |expr: &Expr| {
            if let ExprKind::Var(var) = expr.kind
                && var.depth == NUMBERED
            {
                needs.insert(var.rel);
            }
        };
        let source = match &entry.kind {
            RangeKind::Relation(relation) => {
                self.locked.push(Arc::clone(relation));
                Source::Relation(Arc::clone(relation))
            }
            RangeKind::Subquery(query) => {
                walk::each_of_query(query, &mut note);
                Source::Query(Arc::clone(query))
            }
            RangeKind::Functions {
                calls,
                widths,
                ordinality,
            } => {
                let args = calls.iter().flat_map(|call| &call.args);
                args.for_each(|arg| walk::each(arg, &mut note));
                Source::Functions {
                    calls: calls.clone(),
                    widths: widths.clone(),
                    ordinality: *ordinality,
                }
            }
            RangeKind::Values(rows) => {
                let values = rows.iter().flatten();
                values.for_each(|value| walk::each(value, &mut note));
                Source::Values(Rc::new(rows.clone()))
            }
            RangeKind::Cte { cte, working, .. } => match working {
                true => Source::Working(*cte),
                false => self.cte_source(*cte),
            },
            RangeKind::Join { .. }
            | RangeKind::Excluded(_)
            | RangeKind::Version(_)
            | RangeKind::MergeAction => Source::Nothing,
        };
        Ok(Rel {
            alias: Arc::clone(&entry.alias),
            columns: entry.columns.clone(),
            types: entry.types.clone(),
            source,
            needs,
            indexes: Rc::new(entry.indexes.clone()),
        })
    }

    /// A common table expression that is read once, or that may be written out wherever it is read,
    /// is a subquery; PostgreSQL has the same rule.
    fn cte_source(&self, number: usize) -> Source {
        let cte = &self.ctes[number].cte;
        if cte.change.is_some() {
            return Source::Cte(number);
        }
        let wished = match cte.materialized {
            None => cte.references == 1,
            Some(materialized) => !materialized,
        };
        if wished && !cte.recursive && !volatility::query_is_volatile(&cte.query) {
            Source::Query(Arc::new(cte.query.clone()))
        } else {
            Source::Cte(number)
        }
    }

    /// A relation for rows that an operator makes.
    pub(super) fn new_rel(&mut self, types: Vec<SqlType>) -> usize {
        self.rels.push(Rel {
            alias: Arc::from(""),
            columns: Vec::new(),
            types,
            source: Source::Nothing,
            needs: Rels::default(),
            indexes: Rc::default(),
        });
        self.rels.len() - 1
    }

    /// A new executor parameter.
    pub(super) fn new_param(&mut self) -> usize {
        self.exec_params += 1;
        self.exec_params - 1
    }

    /// Puts what pulled-up columns stand for into an expression.
    pub(super) fn substitute(&self, expr: &mut Expr) {
        if !self.pulled.is_empty() {
            walk::change_expr(expr, 0, &mut Substitute(self));
        }
    }

    /// The same throughout a query.
    pub(super) fn substitute_in(&self, query: &mut Query) {
        if !self.pulled.is_empty() {
            walk::change_query(query, 0, &mut Substitute(self));
        }
    }
}

struct Substitute<'s, 'a>(&'s Statement<'a>);

impl walk::Change for Substitute<'_, '_> {
    fn expr(&mut self, expr: &mut Expr, _depth: usize) {
        if let ExprKind::Var(var) = expr.kind
            && var.depth == NUMBERED
            && let Some(columns) = self.0.pulled.get(&var.rel)
        {
            let at = expr.at;
            *expr = columns[var.column].clone();
            expr.at = at;
            // A column of a query within a query that was pulled up too.
            self.0.substitute(expr);
        }
    }

    fn entry(&mut self, _entry: &mut RangeEntry, _depth: usize) {}
}

/// The relations that an expression looks at, those of outer queries included.
pub(super) fn rels_of(expr: &Expr) -> Rels {
    let mut rels = Rels::default();
    walk::each(expr, &mut |part| {
        if let ExprKind::Var(var) = part.kind
            && var.depth == NUMBERED
        {
            rels.insert(var.rel);
        }
    });
    rels
}

/// The paths of a query, cheapest last resort first; never empty.
pub(super) type Paths = Vec<PathRef>;

/// The program of an expression over a row with all columns of the relation that its variables are
/// of.
///
/// # Errors
/// 0A000 for what is not built.
pub(crate) fn program_over(
    relation: &Relation,
    expr: &Expr,
    session: &dyn Session,
) -> PlanResult<Program> {
    struct Number;
    impl walk::Change for Number {
        fn expr(&mut self, expr: &mut Expr, depth: usize) {
            if let ExprKind::Var(var) = &mut expr.kind
                && var.depth == depth
            {
                *var = Var {
                    depth: NUMBERED,
                    rel: 0,
                    column: var.column,
                };
            }
        }

        fn entry(&mut self, _entry: &mut RangeEntry, _depth: usize) {}
    }
    let mut expr = expr.clone();
    walk::change_expr(&mut expr, 0, &mut Number);
    forget_domains(&mut expr);
    let settings = PlannerSettings::default();
    let mut statement = Statement::new(&settings, session, None);
    let layout = Layout::of_columns(0, 0..relation.columns.len());
    statement.program(&expr, &layout, &mut Env::default())
}
