//! Subplans: run for expressions, once for a parameter, or kept for all that read them.

use std::cell::RefMut;
use std::sync::Arc;

use evenkeel_expr::ExprResult;
use evenkeel_expr::eval::{Env, Subplans};
use evenkeel_expr::program::{Program, SubplanKind, SubplanNode};
use evenkeel_planner::plan::{Subplan, SubplanUse};
use evenkeel_types::{ArrayValue, Datum, Dimension, SqlState, SqlType, TypeError};

use crate::any_set::{AnySet, hashed_operand};
use crate::batch::{Batch, row_bytes, take};
use crate::context::{ALL, Child, Cx, Step, SubplanState};
use crate::error::{ExecError, ExecResult};
use crate::spill::{Cursor, RowStore};
use crate::stack::with_room;
use crate::walk::subplan_depends;

impl Subplans for Cx {
    fn ask(&self, node: &SubplanNode, row: &[Datum], env: &Env<'_>) -> ExprResult<Datum> {
        self.answer(node, row, env)
            .map_err(|error| self.passed(error))
    }

    fn exec_param(&self, number: usize) -> ExprResult<Datum> {
        self.param(number).map_err(|error| self.passed(error))
    }
}

impl Cx {
    /// An expression's error that stands for an execution's.
    fn passed(&self, error: ExecError) -> TypeError {
        let stands_for = TypeError::internal(error.to_string());
        self.fail(error);
        stands_for
    }

    /// The value of a program of a subplan's node.
    fn inner_value(&self, program: &Program, row: &[Datum], env: &Env<'_>) -> ExecResult<Datum> {
        let value = env.eval(program, row);
        value.map_err(|error| self.failed().unwrap_or(error.into()))
    }

    fn subplan(&self, number: usize) -> ExecResult<(&Subplan, RefMut<'_, SubplanState>)> {
        let plan = self.plan.subplans.get(number);
        let state = self.subplans.get(number);
        match (plan, state) {
            (Some(plan), Some(state)) => {
                let state = state.try_borrow_mut();
                Ok((plan, state.map_err(|_| busy())?))
            }
            _ => Err(ExecError::plan("a subplan it has not")),
        }
    }

    /// The value of an executor parameter, computed if need be.
    fn param(&self, number: usize) -> ExecResult<Datum> {
        let (value, source) = self.exec_value(number)?;
        let Some(source) = source else {
            return value.ok_or_else(|| ExecError::plan("a parameter that nothing has set"));
        };
        let stamp = self.stamp(&subplan_depends(source, self));
        if let Some(value) = value
            && self.subplan(source)?.1.stamp == stamp
        {
            return Ok(value);
        }
        let (exists, array) = match &self.subplan(source)?.0.kind {
            SubplanUse::Once { exists, array, .. } => (*exists, *array),
            _ => return Err(ExecError::plan("a parameter of another kind of subplan")),
        };
        let value = match (exists, array) {
            (true, _) => self.exists(source)?,
            (false, Some(element)) => self.array(source, element)?,
            (false, None) => self.scalar(source)?,
        };
        self.set_exec(number, value.clone())?;
        self.subplan(source)?.1.stamp = stamp;
        Ok(value)
    }

    fn answer(&self, node: &SubplanNode, row: &[Datum], env: &Env<'_>) -> ExecResult<Datum> {
        for (param, program) in &node.params {
            let value = self.inner_value(program, row, env)?;
            self.set_exec(*param, value)?;
        }
        match &node.kind {
            SubplanKind::Exists => self.exists(node.plan),
            SubplanKind::Scalar => self.scalar(node.plan),
            SubplanKind::Array(element) => self.array(node.plan, *element),
            SubplanKind::Any { columns, test } => {
                self.quantified(node.plan, (columns, test), (row, env), true)
            }
            SubplanKind::All { columns, test } => {
                self.quantified(node.plan, (columns, test), (row, env), false)
            }
        }
    }

    fn exists(&self, number: usize) -> ExecResult<Datum> {
        let mut found = false;
        self.each_row(number, 1, &mut |_| {
            found = true;
            Ok(false)
        })?;
        Ok(Datum::Bool(found))
    }

    fn scalar(&self, number: usize) -> ExecResult<Datum> {
        let mut value = None;
        self.each_row(number, 2, &mut |row| {
            if value.is_some() {
                return Err(ExecError::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            value = Some(row.first_mut().map_or(Datum::Null, take));
            Ok(true)
        })?;
        Ok(value.unwrap_or(Datum::Null))
    }

    fn array(&self, number: usize, element: SqlType) -> ExecResult<Datum> {
        let mut elements = Vec::new();
        let mut reservation = self.reservation();
        self.each_row(number, ALL, &mut |row| {
            reservation.grow(row_bytes(row))?;
            elements.push(row.first_mut().map_or(Datum::Null, take));
            Ok(true)
        })?;
        if matches!(element, SqlType::Array(..)) {
            return array_of_arrays(&elements);
        }
        Ok(Datum::array(elements))
    }

    /// `ANY` (`any`) or `ALL`, three-valued.
    fn quantified(
        &self,
        number: usize,
        (columns, test): (&[usize], &Program),
        (outer, env): (&[Datum], &Env<'_>),
        any: bool,
    ) -> ExecResult<Datum> {
        if any && let Some(found) = self.hashed_any(number, (columns, test), (outer, env))? {
            return Ok(found);
        }
        let mut result = Datum::Bool(!any);
        self.each_row(number, ALL, &mut |row| {
            for (param, value) in columns.iter().zip(row) {
                self.set_exec(*param, take(value))?;
            }
            match self.inner_value(test, outer, env)? {
                Datum::Bool(value) if value == any => {
                    result = Datum::Bool(any);
                    return Ok(false);
                }
                Datum::Null => result = Datum::Null,
                _ => {}
            }
            Ok(true)
        })?;
        Ok(result)
    }

    /// `ANY` with an equality, of rows that are kept: by a hash table, if they are not too many.
    fn hashed_any(
        &self,
        number: usize,
        (columns, test): (&[usize], &Program),
        (outer, env): (&[Datum], &Env<'_>),
    ) -> ExecResult<Option<Datum>> {
        let [column] = columns else {
            return Ok(None);
        };
        let Some(operand) = hashed_operand(test, *column) else {
            return Ok(None);
        };
        let stamp = self.stamp(&subplan_depends(number, self));
        let (plan, state) = self.subplan(number)?;
        if plan.kind != SubplanUse::Kept {
            return Ok(None);
        }
        let built = state.kept.any.is_some() && state.kept.stamp == stamp;
        drop(state);
        if !built {
            let limit = self.env.limits.work_mem;
            let mut set = AnySet::new(self.reservation(), limit);
            let mut complete = true;
            self.each_row(number, ALL, &mut |row| {
                complete = set.insert(row.first_mut().map_or(Datum::Null, take));
                Ok(complete)
            })?;
            self.subplan(number)?.1.kept.any = Some(complete.then_some(set));
        }
        let empty = match &self.subplan(number)?.1.kept.any {
            Some(Some(set)) => set.is_empty(),
            _ => return Ok(None),
        };
        if empty {
            return Ok(Some(Datum::Bool(false)));
        }
        let value = self.inner_value(operand, outer, env)?;
        let (_, state) = self.subplan(number)?;
        Ok(match &state.kept.any {
            Some(Some(set)) => Some(set.contains(&value)),
            _ => None,
        })
    }

    /// Hands over a subplan's rows, until `each` says no. At most `want` are asked for at once.
    fn each_row(
        &self,
        number: usize,
        want: usize,
        each: &mut dyn FnMut(&mut [Datum]) -> ExecResult<bool>,
    ) -> ExecResult<()> {
        let kept = matches!(self.subplan(number)?.0.kind, SubplanUse::Kept);
        let mut batch = Batch::default();
        if kept {
            let mut cursor = Cursor::default();
            let read = |out: &mut Batch| self.read_kept(number, &mut cursor, want, out);
            return self.drive(read, &mut batch, each);
        }
        let (plan, mut state) = self.subplan(number)?;
        let mut root = state.root.take().ok_or_else(busy)?;
        drop(state);
        let mut run = || {
            begin(&mut root, plan, self)?;
            let read = |out: &mut Batch| pull(&mut root, plan, self, want, out);
            self.drive(read, &mut batch, each)
        };
        let result = run();
        self.subplan(number)?.1.root = Some(root);
        result
    }

    /// Pulls rows to the end. An expression cannot give way, so the thread's other work is moved
    /// off it when a subplan turns out to be long (RUN-4).
    pub fn drive(
        &self,
        mut read: impl FnMut(&mut Batch) -> ExecResult<Step>,
        batch: &mut Batch,
        each: &mut dyn FnMut(&mut [Datum]) -> ExecResult<bool>,
    ) -> ExecResult<()> {
        let mut part = |until_yield: bool| -> ExecResult<bool> {
            loop {
                match read(batch)? {
                    Step::Done => return Ok(true),
                    Step::Yield if until_yield => return Ok(false),
                    Step::Yield => {
                        self.wait();
                        self.begin_slice();
                    }
                    Step::Rows => {
                        for at in 0..batch.len() {
                            if !each(batch.row_mut(at))? {
                                return Ok(true);
                            }
                        }
                    }
                }
            }
        };
        if part(true)? {
            return Ok(());
        }
        evenkeel_io::blocking(|| {
            self.wait();
            self.begin_slice();
            part(false).map(drop)
        })
    }

    /// Runs a subplan that keeps its rows on, to its end or until it gives way.
    pub fn run_on(&self, number: usize) -> ExecResult<Step> {
        let mut cursor = Cursor::default();
        let mut batch = Batch::default();
        loop {
            match self.read_kept(number, &mut cursor, ALL, &mut batch)? {
                Step::Rows => {}
                step => return Ok(step),
            }
        }
    }

    /// Puts the rows at the cursor, of a subplan that keeps its rows, into `out`; runs it on as
    /// far as need be. Rows are kept as they are read, and the subplan begins anew when what it
    /// depends on has been set since.
    pub fn read_kept(
        &self,
        number: usize,
        cursor: &mut Cursor,
        want: usize,
        out: &mut Batch,
    ) -> ExecResult<Step> {
        let stamp = self.stamp(&subplan_depends(number, self));
        let (plan, mut state) = self.subplan(number)?;
        let width = plan.root.width;
        out.reset(width);
        if state.kept.store.is_none() || state.kept.stamp != stamp {
            let limits = &self.env.limits;
            let store = RowStore::new(width, self.reservation(), &self.env.temp, limits.work_mem);
            state.kept.store = Some(store);
            state.kept.complete = false;
            state.kept.stamp = stamp;
            state.kept.any = None;
            let mut root = state.root.take().ok_or_else(busy)?;
            drop(state);
            let begun = begin(&mut root, plan, self);
            state = self.subplan(number)?.1;
            state.root = Some(root);
            begun?;
        }
        let most = self.most(want);
        let store = state.kept.store.as_ref().ok_or_else(busy)?;
        while !out.is_full(most) && store.read(cursor, out)? {}
        if !out.is_empty() {
            return Ok(Step::Rows);
        }
        if state.kept.complete {
            return Ok(Step::Done);
        }
        // The store stays where it is: the subplan may read other subplans, not itself.
        let mut root = state.root.take().ok_or_else(busy)?;
        drop(state);
        let step = pull(&mut root, plan, self, want, out);
        let mut state = self.subplan(number)?.1;
        state.root = Some(root);
        let step = step?;
        state.kept.complete |= step == Step::Done;
        let store = state.kept.store.as_mut().ok_or_else(busy)?;
        for row in out.rows() {
            store.push(row)?;
        }
        // The rows just read are served from the store, which sets the cursor's place in it.
        let rows = out.len();
        out.reset(width);
        while out.len() < rows && store.read(cursor, out)? {}
        Ok(step)
    }
}

// Subplans ask for one another through expressions, so each begins and goes on where the stack has
// room.

fn begin(root: &mut Child, plan: &Subplan, cx: &Cx) -> ExecResult<()> {
    with_room(|| root.rescan(&plan.root, cx))
}

fn pull(
    root: &mut Child,
    plan: &Subplan,
    cx: &Cx,
    want: usize,
    out: &mut Batch,
) -> ExecResult<Step> {
    with_room(|| root.next(&plan.root, cx, want, out))
}

/// Arrays of the same dimensions as one array with a dimension more.
fn array_of_arrays(arrays: &[Datum]) -> ExecResult<Datum> {
    let mut shape: Option<Vec<Dimension>> = None;
    let mut elements = Vec::new();
    for array in arrays {
        let Datum::Array(array) = array else {
            let state = SqlState::NULL_VALUE_NOT_ALLOWED;
            return Err(ExecError::new(state, "cannot accumulate null arrays"));
        };
        let state = SqlState("2202E");
        if array.is_empty() {
            return Err(ExecError::new(state, "cannot accumulate empty arrays"));
        }
        let first = shape.get_or_insert_with(|| array.dimensions().to_vec());
        if first.as_slice() != array.dimensions() {
            let message = "cannot accumulate arrays of different dimensionality";
            return Err(ExecError::new(state, message));
        }
        elements.extend_from_slice(array.elements());
    }
    let mut dimensions = shape.unwrap_or_default();
    let length = i32::try_from(arrays.len()).unwrap_or(i32::MAX);
    dimensions.insert(0, Dimension { length, lower: 1 });
    let array = ArrayValue::new(&dimensions, elements)?;
    Ok(Datum::Array(Arc::new(array)))
}

/// A subplan that asks for itself.
fn busy() -> ExecError {
    ExecError::plan("a subplan that runs within itself")
}
