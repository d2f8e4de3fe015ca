//! Which slots and executor parameters programs and nodes look at.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_expr::program::{Program, SubplanKind};
use evenkeel_planner::plan::{
    Frame, FrameBound, KeyProgram, Merge, MergeAction, Node, NodeKind, OnConflict, Plan, RowChange,
    SetCall, SetItem, Subplan, SubplanUse, WindowCall,
};

use crate::context::{Cx, Known, working_param};
use crate::stack::with_room;

/// Calls `each` for the programs directly within a program.
pub(crate) fn inner(program: &Program, each: &mut dyn FnMut(&Program)) {
    let mut all = |programs: &[Program]| programs.iter().for_each(&mut *each);
    match program {
        Program::Const(_)
        | Program::Param(_)
        | Program::Exec(_)
        | Program::Slot(_)
        | Program::CaseOperand
        | Program::DomainValue => {}
        // Its conditions look at their value alone.
        Program::ToDomain(node) => each(&node.arg),
        Program::Call(call) => all(&call.args),
        Program::And(args)
        | Program::Or(args)
        | Program::Coalesce(args)
        | Program::Extreme { args, .. } => all(args),
        Program::IsDistinct { args, .. }
        | Program::NullIf { args, .. }
        | Program::AnyAll { args, .. } => all(&args[..]),
        Program::Array { items, .. } => all(items),
        Program::Row { fields, .. } => all(fields),
        Program::Cast(cast) => each(&cast.arg),
        Program::Not(arg)
        | Program::IsNull { arg, .. }
        | Program::RowIsNull { arg, .. }
        | Program::IsBool { arg, .. }
        | Program::Field { row: arg, .. } => each(arg),
        Program::Case {
            operand,
            branches,
            otherwise,
        } => {
            operand.iter().for_each(|operand| each(operand));
            for (condition, value) in branches {
                each(condition);
                each(value);
            }
            each(otherwise);
        }
        Program::Subscript { array, indexes } => {
            each(array);
            indexes.iter().for_each(each);
        }
        Program::Slice { array, ranges } => {
            each(array);
            let ends = ranges.iter().flat_map(|(low, high)| [low, high]);
            ends.flatten().for_each(each);
        }
        Program::AssignPart(assignment) => {
            each(&assignment.array);
            let ends = assignment.ranges.iter().flat_map(|(low, high)| [low, high]);
            ends.flatten().for_each(&mut *each);
            each(&assignment.value);
        }
        Program::RowCompare { pairs, .. } => {
            for pair in pairs {
                each(&pair.left);
                each(&pair.right);
            }
        }
        Program::Subplan(node) => {
            node.params.iter().for_each(|(_, value)| each(value));
            match &node.kind {
                SubplanKind::Any { test, .. } | SubplanKind::All { test, .. } => each(test),
                SubplanKind::Exists | SubplanKind::Scalar | SubplanKind::Array(_) => {}
            }
        }
    }
}

/// Marks the slots that a program looks at.
pub(crate) fn slots(program: &Program, used: &mut [bool]) {
    if let Program::Slot(slot) = program
        && let Some(used) = used.get_mut(*slot)
    {
        *used = true;
    }
    inner(program, &mut |program| with_room(|| slots(program, used)));
}

/// The executor parameters that an operator's rows depend on, those left out that it sets itself.
pub(crate) fn depends(node: &Node, cx: &Cx) -> Vec<usize> {
    let mut params = Params::new(&cx.plan, &cx.known);
    params.node(node);
    params.left()
}

/// As [`depends`], of programs.
pub(crate) fn programs_depend(programs: &[Program], cx: &Cx) -> Vec<usize> {
    let mut params = Params::new(&cx.plan, &cx.known);
    params.programs(programs);
    params.left()
}

/// As [`depends`], of a subplan.
pub(crate) fn subplan_depends(number: usize, cx: &Cx) -> Arc<[usize]> {
    of_subplan(number, &cx.plan, &cx.known)
}

fn of_subplan(number: usize, plan: &Plan, known: &Known) -> Arc<[usize]> {
    if let Some(depends) = known.borrow().get(&number) {
        return Arc::clone(depends);
    }
    let mut params = Params::new(plan, known);
    if let Some(subplan) = plan.subplans.get(number) {
        params.node(&subplan.root);
    }
    let depends: Arc<[usize]> = params.left().into();
    known.borrow_mut().insert(number, Arc::clone(&depends));
    depends
}

/// Collects executor parameters.
struct Params<'p> {
    plan: &'p Plan,
    known: &'p Known,
    used: BTreeSet<usize>,
    /// Those that are set within what was walked.
    set: BTreeSet<usize>,
}

impl<'p> Params<'p> {
    fn new(plan: &'p Plan, known: &'p Known) -> Params<'p> {
        Params {
            plan,
            known,
            used: BTreeSet::new(),
            set: BTreeSet::new(),
        }
    }

    fn left(&self) -> Vec<usize> {
        self.used.difference(&self.set).copied().collect()
    }

    fn program(&mut self, program: &Program) {
        with_room(|| self.program_here(program));
    }

    fn program_here(&mut self, program: &Program) {
        match program {
            Program::Exec(number) => self.param(*number),
            Program::Subplan(node) => {
                self.set.extend(node.params.iter().map(|(param, _)| *param));
                if let SubplanKind::Any { columns, .. } | SubplanKind::All { columns, .. } =
                    &node.kind
                {
                    self.set.extend(columns.iter().copied());
                }
                self.subplan(node.plan);
            }
            _ => {}
        }
        inner(program, &mut |program| self.program(program));
    }

    /// A parameter of a subplan depends on what the subplan depends on.
    fn param(&mut self, number: usize) {
        let of = |subplan: &Subplan| match subplan.kind {
            SubplanUse::Once { param, .. } => param == number,
            _ => false,
        };
        match self.plan.subplans.iter().position(of) {
            Some(subplan) => self.subplan(subplan),
            None => {
                self.used.insert(number);
            }
        }
    }

    fn subplan(&mut self, number: usize) {
        let depends = of_subplan(number, self.plan, self.known);
        self.used.extend(depends.iter());
    }

    fn programs<'a>(&mut self, programs: impl IntoIterator<Item = &'a Program>) {
        for program in programs {
            self.program(program);
        }
    }

    fn key(&mut self, key: &KeyProgram) {
        self.program(&key.value);
    }

    fn conflict(&mut self, conflict: &OnConflict) {
        if let Some(update) = &conflict.update {
            let values = update.set.iter().map(|(_, value)| value);
            self.programs(values.chain(&update.filter));
        }
    }

    fn merge(&mut self, merge: &Merge) {
        for clause in &merge.clauses {
            self.programs(&clause.condition);
            match &clause.action {
                MergeAction::Insert(values) => self.programs(values),
                MergeAction::Update(set) => {
                    self.programs(set.iter().map(|(_, value)| value));
                }
                MergeAction::Delete | MergeAction::Nothing => {}
            }
        }
    }

    fn window(&mut self, frame: &Frame, functions: &[WindowCall]) {
        for function in functions {
            self.programs(function.args.iter().chain(&function.filter));
        }
        for bound in [&frame.start, &frame.end] {
            if let FrameBound::Preceding(value, test) | FrameBound::Following(value, test) = bound {
                self.programs(std::iter::once(value).chain(test));
            }
        }
    }

    fn call(&mut self, call: &SetCall) {
        self.programs(&call.args);
    }

    fn node(&mut self, node: &Node) {
        with_room(|| self.node_here(node));
    }

    fn node_here(&mut self, node: &Node) {
        self.programs(&node.filter);
        self.programs(node.project.iter().flatten());
        self.kind(&node.kind);
        for child in node.children() {
            self.node(child);
        }
    }

    fn change(&mut self, change: &RowChange) {
        match change {
            RowChange::Insert {
                conflict: Some(conflict),
            } => self.conflict(conflict),
            RowChange::Merge(merge) => self.merge(merge),
            _ => {}
        }
    }

    fn kind(&mut self, kind: &NodeKind) {
        match kind {
            NodeKind::Result { conditions } => self.programs(conditions),
            NodeKind::Values(rows) => self.programs(rows.iter().flatten()),
            NodeKind::BitmapHeapScan { recheck, .. } => self.programs(recheck),
            NodeKind::IndexScan { keys, .. } | NodeKind::BitmapIndexScan { keys, .. } => {
                let ends = [&keys.low, &keys.high].into_iter().flatten();
                let ends = ends.map(|(key, _)| key);
                for key in keys.equal.iter().chain(&keys.any).chain(ends) {
                    self.key(key);
                }
            }
            NodeKind::FunctionScan { calls, .. } => {
                calls.iter().for_each(|call| self.call(call));
            }
            NodeKind::CteScan { subplan } => self.subplan(*subplan),
            NodeKind::WorkingScan { union_id } => {
                self.used.insert(working_param(*union_id));
            }
            NodeKind::RecursiveUnion { union_id, .. } => {
                self.set.insert(working_param(*union_id));
            }
            NodeKind::Memoize { keys, .. } => self.used.extend(keys),
            NodeKind::ProjectSet { items, .. } => {
                for item in items {
                    match item {
                        SetItem::Value(value) => self.program(value),
                        SetItem::Set(call) => self.call(call),
                    }
                }
            }
            NodeKind::NestedLoop {
                params, condition, ..
            } => {
                self.set.extend(params.iter().map(|(param, _)| *param));
                self.programs(condition);
            }
            NodeKind::HashJoin {
                outer_keys,
                inner_keys,
                condition,
                ..
            } => self.programs(outer_keys.iter().chain(inner_keys).chain(condition)),
            NodeKind::MergeJoin { condition, .. } => self.programs(condition),
            NodeKind::ModifyTable {
                change,
                generated,
                checks,
                ..
            } => {
                self.programs(generated.iter().map(|(_, value)| value));
                self.programs(checks.iter().map(|check| &check.condition));
                self.change(change);
            }
            NodeKind::Limit { offset, count, .. } => {
                self.programs(offset.iter().chain(count));
            }
            NodeKind::Aggregate { aggregates, .. } => {
                for aggregate in aggregates {
                    let order = aggregate.order_by.iter().map(|(key, _, _)| key);
                    let args = aggregate.direct.iter().chain(&aggregate.args);
                    self.programs(args.chain(order).chain(&aggregate.filter));
                }
            }
            NodeKind::Window {
                frame, functions, ..
            } => self.window(frame, functions),
            _ => {}
        }
    }
}
