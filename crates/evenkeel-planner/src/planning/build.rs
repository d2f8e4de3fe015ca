//! From the chosen path to the plan.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_types::{SqlState, SqlType};

use crate::bound::{CallExpr, Expr, ExprKind};
use crate::error::{PlanError, PlanResult};
use crate::plan::{
    Estimate, IndexKeys, JoinType, KeyProgram, Node, NodeKind, SetCall, SortColumn, Subplan,
    SubplanUse,
};
use crate::relation::{Relation, RelationKind};

use super::layout::{Env, Layout, Scope};
use super::number::{NUMBERED, ROW_ID};
use super::path::{Bitmap, BitmapKind, ExprRef, IndexMatch, OrderKey, Path, PathKind};
use super::scans::covers;
use super::statement::{Source, Statement};
use super::walk;

/// A node with what its rows hold.
pub(super) type Built = (Node, Layout);

pub(super) fn node(kind: NodeKind, width: usize, estimate: Estimate) -> Node {
    Node {
        kind,
        filter: Vec::new(),
        project: None,
        width,
        mark: None,
        estimate,
        notes: None,
    }
}

impl Statement<'_> {
    /// The plan of a whole query's path.
    pub(super) fn build_root(&mut self, path: &Path, env: &mut Env) -> PlanResult<Node> {
        self.note_used(path);
        Ok(self.build(path, env)?.0)
    }

    /// Notes the columns that a path looks at.
    fn note_used(&mut self, path: &Path) {
        let mut used: Vec<(usize, usize)> = Vec::new();
        self.each_expr(path, &mut |expr| {
            walk::each(expr, &mut |part| {
                if let ExprKind::Var(var) = part.kind
                    && var.depth == NUMBERED
                {
                    used.push((var.rel, var.column));
                }
            });
        });
        for (rel, column) in used {
            self.used.entry(rel).or_default().insert(column);
        }
    }

    /// Calls `f` with every expression of a path and of those below it.
    fn each_expr(&self, path: &Path, f: &mut dyn FnMut(&Expr)) {
        super::visit::exprs(path, f);
        if let Some(rel) = super::visit::rel(path) {
            match &self.rels[rel].source {
                Source::Functions { calls, .. } => {
                    let args = calls.iter().flat_map(|call| &call.args);
                    args.for_each(|arg| f(&self.substituted(arg)));
                }
                Source::Values(rows) => {
                    let values = rows.iter().flatten();
                    values.for_each(|value| f(&self.substituted(value)));
                }
                Source::Cte(number) if self.ctes[*number].correlated => {
                    if let Some(planned) = &self.ctes[*number].planned {
                        self.each_expr(planned, f);
                    }
                }
                _ => {}
            }
        }
        super::visit::children(path, &mut |child| self.each_expr(child, f));
    }

    fn substituted(&self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        self.substitute(&mut expr);
        expr
    }

    pub(super) fn build(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let (mut node, layout) = self.build_path(path, env)?;
        if self.notes {
            self.note(path, &mut node);
        }
        Ok((node, layout))
    }

    fn build_path(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let estimate = path.estimate;
        match &path.kind {
            PathKind::Result { conditions } => {
                let layout = Layout::default();
                let conditions = self.condition_programs(conditions, &layout, env)?;
                Ok((node(NodeKind::Result { conditions }, 0, estimate), layout))
            }
            PathKind::Scan { rel, filter } => self.build_scan(*rel, filter, estimate, env),
            PathKind::Index {
                rel,
                index,
                keys,
                filter,
                backward,
            } => self.build_index(*rel, (*index, keys, *backward), filter, estimate, env),
            PathKind::Bitmap {
                rel,
                bitmap,
                recheck,
                filter,
            } => self.build_bitmap_scan(*rel, (bitmap, recheck), filter, estimate, env),
            PathKind::Subquery { rel, child, filter } => {
                let (child, layout) = self.build(child, env)?;
                let renamed = Layout::of_columns(*rel, 0..layout.width());
                let marked = self.marked(*rel, (child, renamed));
                self.with_filter(marked, filter, estimate, env)
            }
            PathKind::NestedLoop { .. } | PathKind::Hash { .. } => self.build_join(path, env),
            PathKind::Materialize { child } => {
                let (child, layout) = self.build(child, env)?;
                let child = Box::new(child);
                let kind = NodeKind::Materialize { child };
                Ok((node(kind, layout.width(), estimate), layout))
            }
            PathKind::Memoize { child } => {
                let keys = self.params_of(child, env);
                let (child, layout) = self.build(child, env)?;
                let child = Box::new(child);
                let kind = NodeKind::Memoize { child, keys };
                Ok((node(kind, layout.width(), estimate), layout))
            }
            PathKind::Nothing => Ok(self.build_nothing(path)),
            PathKind::Filter { child, filter } => {
                let built = self.build(child, env)?;
                self.with_filter(built, filter, estimate, env)
            }
            PathKind::Project { child, exprs } => {
                let built = self.build(child, env)?;
                self.with_project(built, exprs, estimate, env)
            }
            PathKind::ProjectSet { child, exprs, keep } => {
                let built = self.build(child, env)?;
                let built = self.build_sets(built, exprs, estimate, env)?;
                match keep {
                    true => Ok(self.ensure(built, exprs, env)?.0),
                    false => self.with_project(built, exprs, estimate, env),
                }
            }
            _ => self.build_upper(path, env),
        }
    }

    /// Asks conditions of a node's rows.
    pub(super) fn with_filter(
        &mut self,
        (child, layout): Built,
        filter: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        if filter.is_empty() {
            return Ok((child, layout));
        }
        let programs = self.condition_programs(filter, &layout, env)?;
        let mut child = match child.project {
            None => child,
            Some(_) => wrapped(child, estimate),
        };
        child.filter.extend(programs);
        child.estimate = estimate;
        Ok((child, layout))
    }

    /// Computes a node's rows anew.
    pub(super) fn with_project(
        &mut self,
        (child, layout): Built,
        exprs: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let programs = self.programs_of(exprs, &layout, env)?;
        let given = Layout::of_exprs(exprs);
        let as_is = programs.len() == layout.width()
            && programs
                .iter()
                .enumerate()
                .all(|(at, program)| matches!(program, Program::Slot(slot) if *slot == at));
        if as_is {
            return Ok((child, given));
        }
        let mut child = match child.project {
            None => child,
            Some(_) => wrapped(child, estimate),
        };
        child.width = programs.len();
        child.project = Some(programs);
        child.estimate = estimate;
        Ok((child, given))
    }

    /// The slots of expressions in a node's rows; what is not there is computed and added.
    pub(super) fn ensure(
        &mut self,
        (child, mut layout): Built,
        exprs: &[ExprRef],
        env: &mut Env,
    ) -> PlanResult<(Built, Vec<usize>)> {
        let mut slots = Vec::with_capacity(exprs.len());
        let mut added: Vec<Program> = Vec::new();
        for expr in exprs {
            if let Some(slot) = layout.find(expr) {
                slots.push(slot);
                continue;
            }
            added.push(self.program(expr, &layout, env)?);
            slots.push(layout.push_computed(expr));
        }
        if added.is_empty() {
            return Ok(((child, layout), slots));
        }
        let estimate = child.estimate;
        let before = child.width;
        let mut outer = wrapped(child, estimate);
        let kept = (0..before).map(Program::Slot);
        outer.project = Some(kept.chain(added).collect());
        outer.width = layout.width();
        Ok(((outer, layout), slots))
    }

    /// The columns of an order; what is not there is computed and added.
    pub(super) fn ensure_order(
        &mut self,
        built: Built,
        keys: &[OrderKey],
        env: &mut Env,
    ) -> PlanResult<(Built, Vec<SortColumn>)> {
        // A constant orders nothing; its column would be one too many above.
        let keys = keys.iter().filter(|key| !is_known(&key.expr));
        self.ensure_keys(built, keys.collect(), env)
    }

    /// As [`Statement::ensure_order`], with a column for every key.
    pub(super) fn ensure_keys(
        &mut self,
        built: Built,
        keys: Vec<&OrderKey>,
        env: &mut Env,
    ) -> PlanResult<(Built, Vec<SortColumn>)> {
        let exprs: Vec<ExprRef> = keys.iter().map(|key| Rc::clone(&key.expr)).collect();
        let (built, slots) = self.ensure(built, &exprs, env)?;
        let columns = slots.into_iter().zip(keys);
        let columns = columns.map(|(slot, key)| SortColumn {
            slot,
            desc: key.desc,
            nulls_first: key.nulls_first,
        });
        Ok((built, columns.collect()))
    }

    /// Whether the places of a relation's rows are looked at.
    pub(super) fn used_as_row(&self, rel: usize) -> bool {
        self.used
            .get(&rel)
            .is_some_and(|used| used.contains(&ROW_ID))
    }

    fn columns_used(&self, rel: usize) -> Vec<usize> {
        let used = self.used.get(&rel).into_iter().flatten();
        used.copied().filter(|column| *column != ROW_ID).collect()
    }

    fn build_scan(
        &mut self,
        rel: usize,
        filter: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let all = self.rels[rel].types.len();
        let (kind, layout) = match self.rels[rel].source.clone() {
            Source::Relation(relation) => {
                let columns = self.columns_used(rel);
                let layout = Layout::of_columns(rel, columns.iter().copied());
                let kind = match relation.kind {
                    RelationKind::Table => NodeKind::SeqScan { relation, columns },
                    _ => NodeKind::VirtualScan { relation, columns },
                };
                (kind, layout)
            }
            Source::Functions {
                calls,
                widths,
                ordinality,
            } => {
                let types = self.rels[rel].types.clone();
                let mut made = Vec::with_capacity(calls.len());
                let mut next = 0;
                for (call, width) in calls.iter().zip(widths) {
                    let columns = types.iter().skip(next).take(width).copied().collect();
                    next += width;
                    made.push(self.set_call(call, columns, &Layout::default(), env)?);
                }
                let kind = NodeKind::FunctionScan {
                    calls: made,
                    ordinality,
                };
                (kind, Layout::of_columns(rel, 0..all))
            }
            Source::Values(rows) => {
                let mut made = Vec::with_capacity(rows.len());
                for row in rows.iter() {
                    let row: Vec<Expr> = row.iter().map(|value| self.substituted(value)).collect();
                    made.push(self.programs(&row, &Layout::default(), env)?);
                }
                (NodeKind::Values(made), Layout::of_columns(rel, 0..all))
            }
            Source::Cte(cte) => {
                let subplan = self.cte_subplan(cte, env)?;
                let kind = NodeKind::CteScan { subplan };
                (kind, Layout::of_columns(rel, 0..all))
            }
            Source::Working(cte) => {
                let working = self.ctes[cte].working;
                let (union_id, _) = working.ok_or_else(|| internal("no working table"))?;
                let kind = NodeKind::WorkingScan { union_id };
                (kind, Layout::of_columns(rel, 0..all))
            }
            Source::Query(_) | Source::Nothing => return Err(internal("a relation has no rows")),
        };
        let built = self.marked(rel, (node(kind, layout.width(), estimate), layout));
        self.with_filter(built, filter, estimate, env)
    }

    /// Changes in WITH are made whether or not anything reads their rows.
    pub(super) fn build_changes(&mut self) -> PlanResult<()> {
        let mut number = 0;
        while number < self.ctes.len() {
            if self.ctes[number].cte.change.is_some() {
                self.cte_subplan(number, &mut Env::default())?;
            }
            number += 1;
        }
        Ok(())
    }

    /// The subplan of a common table expression. One that looks at outer queries does so by the
    /// parameters that they have set for the query that it belongs to.
    fn cte_subplan(&mut self, number: usize, env: &mut Env) -> PlanResult<usize> {
        if let Some(subplan) = self.ctes[number].built {
            return Ok(subplan);
        }
        let path = self.plan_cte(number)?;
        let subplan = self.subplans.len();
        self.subplans.push(None);
        self.ctes[number].built = Some(subplan);
        let root = match self.ctes[number].correlated {
            true => self.build_root(&path, env)?,
            false => self.build_root(&path, &mut Env::default())?,
        };
        self.subplans[subplan] = Some(Subplan {
            name: Some(Arc::clone(&self.ctes[number].cte.name)),
            root,
            kind: SubplanUse::Cte,
        });
        Ok(subplan)
    }

    pub(super) fn set_call(
        &mut self,
        call: &CallExpr,
        columns: Vec<SqlType>,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<SetCall> {
        let args: Vec<Expr> = call.args.iter().map(|arg| self.substituted(arg)).collect();
        Ok(SetCall {
            proc: call.proc,
            args: self.programs(&args, layout, env)?,
            arg_types: args.iter().map(|arg| arg.ty).collect(),
            columns,
        })
    }

    fn build_index(
        &mut self,
        rel: usize,
        (number, keys, backward): (usize, &IndexMatch, bool),
        filter: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let Source::Relation(relation) = self.rels[rel].source.clone() else {
            return Err(internal("an index of no table"));
        };
        let columns = self.columns_used(rel);
        let layout = Layout::of_columns(rel, columns.iter().copied());
        let keys = self.index_keys(&relation, number, keys, env)?;
        let only = self.settings.indexonlyscan
            && !self.used_as_row(rel)
            && covers(&relation, number, columns.iter().copied());
        let kind = NodeKind::IndexScan {
            relation,
            index: number,
            columns,
            keys,
            backward,
            only,
        };
        let built = self.marked(rel, (node(kind, layout.width(), estimate), layout));
        self.with_filter(built, filter, estimate, env)
    }

    fn build_bitmap_scan(
        &mut self,
        rel: usize,
        (bitmap, recheck): (&Bitmap, &[ExprRef]),
        filter: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let Source::Relation(relation) = self.rels[rel].source.clone() else {
            return Err(internal("an index of no table"));
        };
        let columns = self.columns_used(rel);
        let layout = Layout::of_columns(rel, columns.iter().copied());
        let bitmap = self.build_bitmap((rel, &relation), bitmap, env)?;
        let kind = NodeKind::BitmapHeapScan {
            columns,
            bitmap: Box::new(bitmap),
            recheck: self.condition_programs(recheck, &layout, env)?,
            relation,
        };
        let built = self.marked(rel, (node(kind, layout.width(), estimate), layout));
        self.with_filter(built, filter, estimate, env)
    }

    fn build_bitmap(
        &mut self,
        (rel, relation): (usize, &Arc<Relation>),
        bitmap: &Bitmap,
        env: &mut Env,
    ) -> PlanResult<Node> {
        let kind = match &bitmap.kind {
            BitmapKind::Index { index, keys } => NodeKind::BitmapIndexScan {
                relation: Arc::clone(relation),
                index: *index,
                keys: self.index_keys(relation, *index, keys, env)?,
            },
            BitmapKind::And(parts) | BitmapKind::Or(parts) => {
                let parts = parts.iter();
                let parts = parts.map(|part| self.build_bitmap((rel, relation), part, env));
                NodeKind::BitmapCombine {
                    bitmaps: parts.collect::<PlanResult<_>>()?,
                    all: matches!(bitmap.kind, BitmapKind::And(_)),
                }
            }
        };
        let estimate = Estimate {
            startup: 0.0,
            total: bitmap.cost,
            rows: (relation.size.rows * bitmap.share).round(),
            bytes: 0.0,
        };
        let mut made = node(kind, 0, estimate);
        self.note_bitmap(rel, bitmap, &mut made);
        Ok(made)
    }

    fn index_keys(
        &mut self,
        relation: &Arc<Relation>,
        number: usize,
        keys: &IndexMatch,
        env: &mut Env,
    ) -> PlanResult<IndexKeys> {
        let nothing = Layout::default();
        let types: Vec<SqlType> = relation.indexes[number]
            .columns
            .iter()
            .map(|column| column.ty)
            .collect();
        let mut key = |at: usize, expr: &ExprRef| {
            PlanResult::Ok(KeyProgram {
                value: self.program(expr, &nothing, env)?,
                from: expr.ty,
                column: types[at],
            })
        };
        let mut made = IndexKeys {
            is_null: keys.is_null,
            ..IndexKeys::default()
        };
        for (at, expr) in keys.equal.iter().enumerate() {
            made.equal.push(key(at, expr)?);
        }
        let next = keys.equal.len();
        if let Some(expr) = &keys.any {
            made.any = Some(key(next, expr)?);
        }
        if let Some((expr, inclusive)) = &keys.low {
            made.low = Some((key(next, expr)?, *inclusive));
        }
        if let Some((expr, inclusive)) = &keys.high {
            made.high = Some((key(next, expr)?, *inclusive));
        }
        Ok(made)
    }

    fn build_join(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        match &path.kind {
            PathKind::NestedLoop {
                outer,
                inner,
                join,
                condition,
                filter,
            } => {
                let (outer, outer_layout) = self.build(outer, env)?;
                let (scope, params) = self.loop_params(inner, &outer_layout);
                env.open(scope);
                let built = self.build(inner, env);
                env.close();
                let (inner, inner_layout) = built?;
                let both = outer_layout.clone().joined(inner_layout);
                let condition = self.condition_programs(condition, &both, env)?;
                let layout = if keeps_inner(*join) {
                    both
                } else {
                    outer_layout
                };
                let kind = NodeKind::NestedLoop {
                    outer: Box::new(outer),
                    inner: Box::new(inner),
                    join: *join,
                    params,
                    condition,
                };
                let built = (node(kind, layout.width(), path.estimate), layout);
                self.with_filter(built, filter, path.estimate, env)
            }
            PathKind::Hash {
                outer,
                inner,
                join,
                keys,
                condition,
                filter,
            } => {
                let (outer, outer_layout) = self.build(outer, env)?;
                let (inner, inner_layout) = self.build(inner, env)?;
                let (mut outer_keys, mut inner_keys) = (Vec::new(), Vec::new());
                for (of_outer, of_inner) in keys {
                    outer_keys.push(self.program(of_outer, &outer_layout, env)?);
                    inner_keys.push(self.program(of_inner, &inner_layout, env)?);
                }
                let both = outer_layout.clone().joined(inner_layout);
                let condition = self.condition_programs(condition, &both, env)?;
                let layout = if keeps_inner(*join) {
                    both
                } else {
                    outer_layout
                };
                let kind = NodeKind::HashJoin {
                    outer: Box::new(outer),
                    inner: Box::new(inner),
                    join: *join,
                    outer_keys,
                    inner_keys,
                    condition,
                };
                let built = (node(kind, layout.width(), path.estimate), layout);
                self.with_filter(built, filter, path.estimate, env)
            }
            _ => Err(internal("not a join")),
        }
    }

    /// No rows, of the columns that are looked at.
    fn build_nothing(&self, path: &Path) -> Built {
        let mut layout = Layout::default();
        for rel in path.rels.iter() {
            let used = self.used.get(&rel).into_iter().flatten().copied();
            layout = layout.joined(Layout::of_columns(rel, used));
        }
        let kind = NodeKind::Values(Vec::new());
        (node(kind, layout.width(), path.estimate), layout)
    }

    /// The executor's parameters that a path looks at.
    fn params_of(&self, path: &Path, env: &Env) -> Vec<usize> {
        let mut params = BTreeSet::new();
        self.each_expr(path, &mut |expr| {
            walk::each(expr, &mut |part| params.extend(env.find(part)));
        });
        params.into_iter().collect()
    }

    /// The parameters of a nested loop: columns of the outer row that the inner side looks at, and
    /// expressions that the outer side has computed.
    /// Every loop has its own, since an outer loop may go on while an inner one still reads.
    fn loop_params(&mut self, inner: &Path, outer: &Layout) -> (Scope, Vec<(usize, usize)>) {
        let mut wanted: HashMap<(usize, usize), usize> = HashMap::new();
        let mut computed: Vec<(ExprRef, usize)> = Vec::new();
        self.each_expr(inner, &mut |expr| {
            walk::each(expr, &mut |part| {
                let Some(slot) = outer.find(part) else {
                    return;
                };
                match part.kind {
                    ExprKind::Var(var) if var.depth == NUMBERED => {
                        wanted.insert((var.rel, var.column), slot);
                    }
                    _ if computed.iter().all(|(_, known)| *known != slot) => {
                        computed.push((Rc::new(part.clone()), slot));
                    }
                    _ => {}
                }
            });
        });
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        wanted.sort_unstable();
        let mut scope = Scope::default();
        let mut params = Vec::with_capacity(wanted.len());
        for (var, slot) in wanted {
            let param = self.new_param();
            scope.vars.insert(var, param);
            params.push((param, slot));
        }
        for (expr, slot) in computed {
            let param = self.new_param();
            scope.exprs.push((expr, param));
            params.push((param, slot));
        }
        (scope, params)
    }
}

/// Whether an expression has one value in all rows.
pub(super) fn is_known(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
}

fn keeps_inner(join: JoinType) -> bool {
    !matches!(
        join,
        JoinType::Semi | JoinType::Anti | JoinType::NullAwareAnti
    )
}

pub(super) fn internal(message: &str) -> PlanError {
    PlanError::new(SqlState::INTERNAL_ERROR, message)
}

/// A node whose raw rows are the child's.
pub(super) fn wrapped(child: Node, estimate: Estimate) -> Node {
    let width = child.width;
    node(
        NodeKind::Project {
            child: Box::new(child),
        },
        width,
        estimate,
    )
}
