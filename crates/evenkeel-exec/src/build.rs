//! The running state of a plan's nodes.

use evenkeel_planner::plan::{AggregateStrategy, HeldRow, Node, NodeKind};
use evenkeel_planner::relation::RelationKind;

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::nodes::aggregate::{Hashed, Ordered};
use crate::nodes::append::Append;
use crate::nodes::bitmap_scan::BitmapScan;
use crate::nodes::cte::{CteScan, WorkingScan};
use crate::nodes::fixed::{FixedRow, FixedScan, Marked};
use crate::nodes::function_scan::FunctionScan;
use crate::nodes::hash_join::HashJoin;
use crate::nodes::index_scan::IndexScan;
use crate::nodes::leaf::{Single, Values};
use crate::nodes::limit::Limit;
use crate::nodes::lock_rows::LockRows;
use crate::nodes::materialize::Materialize;
use crate::nodes::measured::Measured;
use crate::nodes::memoize::Memoize;
use crate::nodes::merge_append::MergeAppend;
use crate::nodes::merge_join::MergeJoin;
use crate::nodes::modify::Modify;
use crate::nodes::nested_loop::NestedLoop;
use crate::nodes::project_set::ProjectSet;
use crate::nodes::recursive::RecursiveUnion;
use crate::nodes::seq_scan::SeqScan;
use crate::nodes::set_operation::SetOperation;
use crate::nodes::shape::{Project, Shape};
use crate::nodes::sort::Sort;
use crate::nodes::unique::Unique;
use crate::nodes::virtual_scan::{VirtualIndexScan, VirtualScan};
use crate::nodes::window::Window;
use crate::stack::with_room;

/// Every so many levels of a plan an operator looks whether the stack has room.
const LEVELS: usize = 64;

/// How the state of a node is made.
#[derive(Clone, Copy)]
struct Way<'h> {
    /// Nodes above it.
    depth: usize,
    /// The rows that are held, for a re-check.
    held: Option<&'h [HeldRow]>,
    /// Whether what it does is measured.
    measured: bool,
}

/// The state of a node and of those below it; with `measured` it counts what they do.
pub(crate) fn build(node: &Node, measured: bool) -> ExecResult<Child> {
    let way = Way {
        depth: 0,
        held: None,
        measured,
    };
    build_at(node, way)
}

/// The same for a re-check: operators with a mark give the one row that is held for them.
pub(crate) fn build_recheck(node: &Node, held: &[HeldRow]) -> ExecResult<Child> {
    let way = Way {
        depth: 0,
        held: Some(held),
        measured: false,
    };
    build_at(node, way)
}

fn build_at(node: &Node, way: Way<'_>) -> ExecResult<Child> {
    let mut built: Box<dyn Operator> = if way.depth > 0 && way.depth.is_multiple_of(LEVELS) {
        Box::new(Deep(Some(with_room(|| shaped(node, way))?)))
    } else {
        shaped(node, way)?
    };
    if way.measured {
        built = Box::new(Measured::new(built));
    }
    Ok(Child(built))
}

/// The state of a node with its filter and projection.
fn shaped(node: &Node, way: Way<'_>) -> ExecResult<Box<dyn Operator>> {
    let scan = match &node.kind {
        NodeKind::SeqScan { .. } | NodeKind::BitmapHeapScan { .. } => true,
        NodeKind::IndexScan { relation, .. } => relation.kind == RelationKind::Table,
        _ => false,
    };
    let held = way.held.unwrap_or_default().iter();
    let mut marks = held.map(|held| Some(held.mark));
    // A mark that nothing holds is of a row that is only told from none.
    let fixed = node.mark.is_some() && marks.any(|mark| mark == node.mark);
    let raw: Box<dyn Operator> = match (node.mark, fixed) {
        (Some(_), true) if scan => Box::new(FixedScan::default()),
        (Some(_), true) => Box::new(FixedRow::default()),
        (Some(_), false) if !scan => Box::new(Marked::new(raw(&node.kind, way)?)),
        _ => raw(&node.kind, way)?,
    };
    let join = matches!(
        node.kind,
        NodeKind::NestedLoop { .. } | NodeKind::HashJoin { .. } | NodeKind::MergeJoin { .. }
    );
    if join && node.mark.is_some() {
        return Err(ExecError::plan("a join with a mark"));
    }
    if scan || join || (node.filter.is_empty() && node.project.is_none()) {
        return Ok(raw);
    }
    Ok(Box::new(Shape::new(raw)))
}

fn raw(kind: &NodeKind, way: Way<'_>) -> ExecResult<Box<dyn Operator>> {
    let below = Way {
        depth: way.depth + 1,
        ..way
    };
    let child = |node: &Node| build_at(node, below);
    Ok(match kind {
        NodeKind::Result { .. } => Box::new(Single::default()),
        NodeKind::Values(_) => Box::new(Values::default()),
        NodeKind::SeqScan { .. } => Box::new(SeqScan::default()),
        NodeKind::IndexScan { relation, .. } if relation.kind == RelationKind::Virtual => {
            Box::new(VirtualIndexScan::default())
        }
        NodeKind::IndexScan { .. } => Box::new(IndexScan::default()),
        NodeKind::BitmapHeapScan { .. } => Box::new(BitmapScan::default()),
        NodeKind::BitmapIndexScan { .. } | NodeKind::BitmapCombine { .. } => {
            return Err(ExecError::plan("a bitmap without a scan of its rows"));
        }
        NodeKind::VirtualScan { .. } => Box::new(VirtualScan::default()),
        NodeKind::FunctionScan { .. } => Box::new(FunctionScan::default()),
        NodeKind::CteScan { .. } => Box::new(CteScan::default()),
        NodeKind::WorkingScan { .. } => Box::new(WorkingScan::default()),
        NodeKind::Project { child: of } => Box::new(Project::new(child(of)?)),
        NodeKind::NestedLoop { outer, inner, .. } => {
            Box::new(NestedLoop::new(child(outer)?, child(inner)?))
        }
        NodeKind::Materialize { child: of } => Box::new(Materialize::new(child(of)?)),
        NodeKind::Sort { child: of, .. } => Box::new(Sort::new(child(of)?)),
        NodeKind::Limit { child: of, .. } => Box::new(Limit::new(child(of)?)),
        NodeKind::Aggregate {
            child: of,
            strategy,
            sets,
            ..
        } => {
            if *strategy == AggregateStrategy::Hashed || !sets.is_empty() {
                Box::new(Hashed::new(child(of)?))
            } else {
                Box::new(Ordered::new(child(of)?))
            }
        }
        NodeKind::Unique { child: of, .. } => Box::new(Unique::new(child(of)?)),
        NodeKind::Append { children } => {
            let children = children.iter().map(child).collect::<ExecResult<_>>()?;
            Box::new(Append::new(children))
        }
        NodeKind::MergeAppend { children, .. } => {
            let children = children.iter().map(child).collect::<ExecResult<_>>()?;
            Box::new(MergeAppend::new(children))
        }
        NodeKind::HashJoin { outer, inner, .. } => {
            Box::new(HashJoin::new(child(outer)?, child(inner)?))
        }
        NodeKind::MergeJoin { outer, inner, .. } => {
            Box::new(MergeJoin::new(child(outer)?, child(inner)?))
        }
        NodeKind::SetOperation { left, right, .. } => {
            Box::new(SetOperation::new(child(left)?, child(right)?))
        }
        NodeKind::RecursiveUnion { first, step, .. } => {
            Box::new(RecursiveUnion::new(child(first)?, child(step)?))
        }
        NodeKind::ProjectSet { child: of, .. } => Box::new(ProjectSet::new(child(of)?)),
        NodeKind::Memoize { child: of, .. } => Box::new(Memoize::new(child(of)?)),
        NodeKind::Window { child: of, .. } => Box::new(Window::new(child(of)?)),
        NodeKind::LockRows { child: of, .. } => Box::new(LockRows::new(child(of)?)),
        NodeKind::ModifyTable { child: of, .. } => Box::new(Modify::new(child(of)?)),
    })
}

/// Runs and drops its operator where the stack has room.
struct Deep(Option<Box<dyn Operator>>);

impl Deep {
    fn operator(&mut self) -> ExecResult<&mut Box<dyn Operator>> {
        let operator = self.0.as_mut();
        operator.ok_or_else(|| ExecError::plan("an operator that was dropped"))
    }
}

impl Operator for Deep {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        let operator = self.operator()?;
        with_room(|| operator.next(node, cx, want, out))
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        let operator = self.operator()?;
        with_room(|| operator.rescan(node, cx))
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        if let Some(operator) = &mut self.0 {
            with_room(|| operator.bound(node, rows));
        }
    }
}

impl Drop for Deep {
    fn drop(&mut self) {
        let operator = self.0.take();
        with_room(|| drop(operator));
    }
}
