//! Which slots and executor parameters programs and nodes look at.

use std::collections::BTreeSet;

use crate::context::working_param;
use evenkeel_expr::program::{Program, SubplanKind};
use evenkeel_planner::plan::{
    Frame, FrameBound, KeyProgram, Merge, MergeAction, Node, NodeKind, OnConflict, Plan, RowChange,
    SetCall, SetItem, Subplan, SubplanUse, WindowCall,
};

/// Calls `each` for the programs directly within a program.
pub(crate) fn inner(program: &Program, each: &mut dyn FnMut(&Program)) {
    let mut all = |programs: &[Program]| programs.iter().for_each(&mut *each);
    match program {
        Program::Const(_)
        | Program::Param(_)
        | Program::Exec(_)
        | Program::Slot(_)
        | Program::CaseOperand => {}
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
    inner(program, &mut |program| slots(program, used));
}

/// Collects executor parameters.
#[derive(Default)]
struct Params {
    used: BTreeSet<usize>,
    /// Those that are set within what was walked.
    set: BTreeSet<usize>,
    plans: BTreeSet<usize>,
}

/// The executor parameters that an operator's rows depend on, those left out that it sets itself.
pub(crate) fn depends(node: &Node, plan: &Plan) -> Vec<usize> {
    let mut params = Params::default();
    params.node(node, plan);
    params.used.difference(&params.set).copied().collect()
}

/// As [`depends`], of programs.
pub(crate) fn programs_depend(programs: &[Program], plan: &Plan) -> Vec<usize> {
    let mut params = Params::default();
    params.programs(programs, plan);
    params.used.difference(&params.set).copied().collect()
}

/// As [`depends`], of a subplan.
pub(crate) fn subplan_depends(number: usize, plan: &Plan) -> Vec<usize> {
    let mut params = Params::default();
    params.subplan(number, plan);
    params.used.difference(&params.set).copied().collect()
}

impl Params {
    fn program(&mut self, program: &Program, plan: &Plan) {
        match program {
            Program::Exec(number) => self.param(*number, plan),
            Program::Subplan(node) => {
                self.set.extend(node.params.iter().map(|(param, _)| *param));
                if let SubplanKind::Any { columns, .. } | SubplanKind::All { columns, .. } =
                    &node.kind
                {
                    self.set.extend(columns.iter().copied());
                }
                self.subplan(node.plan, plan);
            }
            _ => {}
        }
        inner(program, &mut |program| self.program(program, plan));
    }

    /// A parameter of a subplan depends on what the subplan depends on.
    fn param(&mut self, number: usize, plan: &Plan) {
        let of = |subplan: &Subplan| match subplan.kind {
            SubplanUse::Once { param, .. } => param == number,
            _ => false,
        };
        match plan.subplans.iter().position(of) {
            Some(subplan) => self.subplan(subplan, plan),
            None => {
                self.used.insert(number);
            }
        }
    }

    fn subplan(&mut self, number: usize, plan: &Plan) {
        if self.plans.insert(number)
            && let Some(subplan) = plan.subplans.get(number)
        {
            self.node(&subplan.root, plan);
        }
    }

    fn programs<'a>(&mut self, programs: impl IntoIterator<Item = &'a Program>, plan: &Plan) {
        for program in programs {
            self.program(program, plan);
        }
    }

    fn key(&mut self, key: &KeyProgram, plan: &Plan) {
        self.program(&key.value, plan);
    }

    fn conflict(&mut self, conflict: &OnConflict, plan: &Plan) {
        if let Some(update) = &conflict.update {
            let values = update.set.iter().map(|(_, value)| value);
            self.programs(values.chain(&update.filter), plan);
        }
    }

    fn merge(&mut self, merge: &Merge, plan: &Plan) {
        for clause in &merge.clauses {
            self.programs(&clause.condition, plan);
            match &clause.action {
                MergeAction::Insert(values) => self.programs(values, plan),
                MergeAction::Update(set) => {
                    self.programs(set.iter().map(|(_, value)| value), plan);
                }
                MergeAction::Delete | MergeAction::Nothing => {}
            }
        }
    }

    fn window(&mut self, frame: &Frame, functions: &[WindowCall], plan: &Plan) {
        for function in functions {
            self.programs(function.args.iter().chain(&function.filter), plan);
        }
        for bound in [&frame.start, &frame.end] {
            if let FrameBound::Preceding(value, test) | FrameBound::Following(value, test) = bound {
                self.programs(std::iter::once(value).chain(test), plan);
            }
        }
    }

    fn call(&mut self, call: &SetCall, plan: &Plan) {
        self.programs(&call.args, plan);
    }

    fn node(&mut self, node: &Node, plan: &Plan) {
        self.programs(&node.filter, plan);
        self.programs(node.project.iter().flatten(), plan);
        self.kind(&node.kind, plan);
        for child in node.children() {
            self.node(child, plan);
        }
    }

    fn change(&mut self, change: &RowChange, plan: &Plan) {
        match change {
            RowChange::Insert {
                conflict: Some(conflict),
            } => self.conflict(conflict, plan),
            RowChange::Merge(merge) => self.merge(merge, plan),
            _ => {}
        }
    }

    fn kind(&mut self, kind: &NodeKind, plan: &Plan) {
        match kind {
            NodeKind::Result { conditions } => self.programs(conditions, plan),
            NodeKind::Values(rows) => self.programs(rows.iter().flatten(), plan),
            NodeKind::IndexScan { keys, .. } => {
                let ends = [&keys.low, &keys.high].into_iter().flatten();
                let ends = ends.map(|(key, _)| key);
                for key in keys.equal.iter().chain(&keys.any).chain(ends) {
                    self.key(key, plan);
                }
            }
            NodeKind::FunctionScan { calls, .. } => {
                calls.iter().for_each(|call| self.call(call, plan));
            }
            NodeKind::CteScan { subplan } => self.subplan(*subplan, plan),
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
                        SetItem::Value(value) => self.program(value, plan),
                        SetItem::Set(call) => self.call(call, plan),
                    }
                }
            }
            NodeKind::NestedLoop {
                params, condition, ..
            } => {
                self.set.extend(params.iter().map(|(param, _)| *param));
                self.programs(condition, plan);
            }
            NodeKind::HashJoin {
                outer_keys,
                inner_keys,
                condition,
                ..
            } => self.programs(outer_keys.iter().chain(inner_keys).chain(condition), plan),
            NodeKind::MergeJoin { condition, .. } => self.programs(condition, plan),
            NodeKind::ModifyTable {
                change,
                generated,
                checks,
                ..
            } => {
                self.programs(generated.iter().map(|(_, value)| value), plan);
                self.programs(checks.iter().map(|check| &check.condition), plan);
                self.change(change, plan);
            }
            NodeKind::Limit { offset, count, .. } => {
                self.programs(offset.iter().chain(count), plan);
            }
            NodeKind::Aggregate { aggregates, .. } => {
                for aggregate in aggregates {
                    let order = aggregate.order_by.iter().map(|(key, _, _)| key);
                    let args = aggregate.direct.iter().chain(&aggregate.args);
                    self.programs(args.chain(order).chain(&aggregate.filter), plan);
                }
            }
            NodeKind::Window {
                frame, functions, ..
            } => self.window(frame, functions, plan),
            _ => {}
        }
    }
}
