//! Set operations and common table expressions.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_types::SqlState;

use crate::ast::SetOp;
use crate::bound::{Query, SetNode};
use crate::error::{PlanError, PlanResult};
use crate::plan::Estimate;

use super::cost::{path, rows};
use super::joins::cheapest;
use super::path::{ExprRef, Path, PathKind, PathRef};
use super::rels::Rels;
use super::scans::column_of;
use super::statement::{Source, Statement};
use super::upper::Planned;
use super::visit;
use super::volatility;

/// Steps that a recursion is expected to take.
const STEPS: f64 = 10.0;

impl Statement<'_> {
    /// The ways to run a numbered query that is a set operation.
    pub(super) fn set_paths(
        &mut self,
        query: &mut Query,
        first: usize,
    ) -> PlanResult<Vec<Planned>> {
        let Some(node) = query.set_operation.take() else {
            return Err(PlanError::new(
                SqlState::INTERNAL_ERROR,
                "not a set operation",
            ));
        };
        let set = self.set_node(&node, first)?;
        let finished = self.listed_set(query, &set)?;
        Ok(self.planned(query, vec![finished]))
    }

    fn leaf_of(node: &SetNode, first: usize) -> usize {
        match node {
            SetNode::Leaf(entry) => first + entry,
            SetNode::Op { left, .. } => Self::leaf_of(left, first),
        }
    }

    fn set_node(&mut self, node: &SetNode, first: usize) -> PlanResult<PathRef> {
        match node {
            SetNode::Leaf(entry) => self.cheapest_of_query(first + entry),
            SetNode::Op {
                op: SetOp::Union,
                all,
                ..
            } => {
                let rel = Self::leaf_of(node, first);
                let mut children = Vec::new();
                self.union_children(node, *all, first, &mut children)?;
                let appended = self.append(rel, children);
                Ok(match all {
                    true => appended,
                    false => self.distinct_path(&appended, self.columns_of(rel)),
                })
            }
            SetNode::Op {
                op,
                all,
                left,
                right,
                ..
            } => {
                let rel = Self::leaf_of(node, first);
                let (left, right) = (self.set_node(left, first)?, self.set_node(right, first)?);
                Ok(self.set_operation(rel, &left, &right, *op == SetOp::Except, *all))
            }
        }
    }

    /// The arms of unions of one kind are arms of one union.
    fn union_children(
        &mut self,
        node: &SetNode,
        all: bool,
        first: usize,
        children: &mut Vec<PathRef>,
    ) -> PlanResult<()> {
        match node {
            SetNode::Op {
                op: SetOp::Union,
                all: inner,
                left,
                right,
                ..
            } if *inner == all || !all => {
                self.union_children(left, all, first, children)?;
                self.union_children(right, all, first, children)
            }
            _ => {
                children.push(self.set_node(node, first)?);
                Ok(())
            }
        }
    }

    fn cheapest_of_query(&mut self, rel: usize) -> PlanResult<PathRef> {
        let Source::Query(query) = self.rels[rel].source.clone() else {
            return Err(PlanError::new(
                SqlState::INTERNAL_ERROR,
                "an arm of a set operation is no query",
            ));
        };
        let mut query = Query::clone(&query);
        self.substitute_in(&mut query);
        let paths: Vec<PathRef> = self
            .query_paths(query)?
            .into_iter()
            .map(|planned| planned.path)
            .collect();
        let best = cheapest(&paths).cloned();
        best.ok_or_else(|| PlanError::new(SqlState::INTERNAL_ERROR, "a query has no path"))
    }

    fn columns_of(&self, rel: usize) -> Vec<ExprRef> {
        let types = self.rels[rel].types.iter().enumerate();
        types
            .map(|(column, ty)| Rc::new(column_of(rel, column, *ty)))
            .collect()
    }

    fn append(&self, rel: usize, children: Vec<PathRef>) -> PathRef {
        let sum = |of: fn(&Estimate) -> f64| children.iter().map(|c| of(&c.estimate)).sum::<f64>();
        let estimate = Estimate {
            startup: children.first().map_or(0.0, |child| child.estimate.startup),
            total: sum(|estimate| estimate.total),
            rows: sum(|estimate| estimate.rows),
            bytes: children.first().map_or(0.0, |child| child.estimate.bytes),
        };
        path(
            PathKind::Append { rel, children },
            estimate,
            Vec::new(),
            Rels::one(rel),
        )
    }

    fn set_operation(
        &self,
        rel: usize,
        left: &PathRef,
        right: &PathRef,
        except: bool,
        all: bool,
    ) -> PathRef {
        let read = left.estimate.rows + right.estimate.rows;
        let width = self.rels[rel].types.len() as f64;
        let total = left.estimate.total
            + right.estimate.total
            + read * self.settings.cpu_operator_cost * width;
        let estimate = Estimate {
            startup: total,
            total,
            rows: rows(left.estimate.rows * 0.5),
            bytes: left.estimate.bytes,
        };
        let kind = PathKind::SetOperation {
            rel,
            left: Rc::clone(left),
            right: Rc::clone(right),
            except,
            all,
        };
        path(kind, estimate, Vec::new(), Rels::one(rel))
    }

    /// The path of a common table expression that is kept as it is read.
    pub(super) fn plan_cte(&mut self, number: usize) -> PlanResult<PathRef> {
        if let Some(path) = &self.ctes[number].planned {
            return Ok(Rc::clone(path));
        }
        let cte = Arc::clone(&self.ctes[number].cte);
        let mut query = cte.query.clone();
        self.substitute_in(&mut query);
        let correlated = volatility::is_correlated(&query);
        let path = match (&cte.change, cte.recursive) {
            (Some(change), _) => self.change_path(query, change)?,
            (None, true) => self.recursive(query, number)?,
            (None, false) => {
                let paths = self.query_paths(query)?.into_iter();
                let paths: Vec<PathRef> = paths.map(|planned| planned.path).collect();
                let best = cheapest(&paths).cloned();
                best.ok_or_else(|| PlanError::new(SqlState::INTERNAL_ERROR, "a query has no path"))?
            }
        };
        self.ctes[number].correlated = correlated || self.reads_correlated(&path);
        self.ctes[number].planned = Some(Rc::clone(&path));
        Ok(path)
    }

    /// Whether a path reads a common table expression that looks at outer queries.
    fn reads_correlated(&self, path: &Path) -> bool {
        let rel = visit::rel(path).and_then(|rel| self.rels.get(rel));
        let mut found = match rel.map(|rel| &rel.source) {
            Some(Source::Cte(number)) => self.ctes[*number].correlated,
            _ => false,
        };
        visit::children(path, &mut |child| found |= self.reads_correlated(child));
        found
    }

    fn recursive(&mut self, mut query: Query, number: usize) -> PlanResult<PathRef> {
        let first = self.enter(&mut query)?;
        let Some(SetNode::Op {
            op: SetOp::Union,
            all,
            left,
            right,
            ..
        }) = query.set_operation.take()
        else {
            return Err(PlanError::new(
                SqlState::INTERNAL_ERROR,
                "a recursive query is no union",
            ));
        };
        let rel = Self::leaf_of(&left, first);
        let start = self.set_node(&left, first)?;
        let union_id = self.unions;
        self.unions += 1;
        self.ctes[number].working = Some((union_id, start.estimate.rows));
        let step = self.set_node(&right, first)?;
        let estimate = Estimate {
            startup: start.estimate.startup,
            total: start.estimate.total + STEPS * step.estimate.total,
            rows: start.estimate.rows + STEPS * step.estimate.rows,
            bytes: start.estimate.bytes,
        };
        let kind = PathKind::RecursiveUnion {
            rel,
            union_id,
            first: start,
            step,
            all,
        };
        let union = path(kind, estimate, Vec::new(), Rels::one(rel));
        let finished = self.listed_set(&query, &union)?;
        let mut planned = self.planned(&query, vec![finished]);
        Ok(planned.swap_remove(0).path)
    }
}
