//! Programs, evaluated for an execution.

use evenkeel_expr::call::Call;
use evenkeel_expr::eval::Env;
use evenkeel_expr::proc::{ProcKind, Rows};
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{Node, SetCall};
use evenkeel_types::{Datum, RecordValue, SqlType, TypeError};

use crate::batch::Batch;
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};

impl Cx {
    /// All that programs are evaluated with.
    #[inline]
    fn programs(&self) -> Env<'_> {
        Env::new(&self.params, self.env.session.as_ref(), self)
    }

    /// An expression's error, or that of the execution which it stands for.
    #[cold]
    fn error(&self, error: TypeError) -> ExecError {
        self.failed().unwrap_or(error.into())
    }

    /// The value of a program over a row.
    #[inline]
    pub fn eval(&self, program: &Program, row: &[Datum]) -> ExecResult<Datum> {
        match program {
            Program::Const(value) => Ok(value.clone()),
            Program::Slot(slot) => match row.get(*slot) {
                Some(value) => Ok(value.clone()),
                None => Err(ExecError::plan("a slot beyond its row")),
            },
            _ => {
                self.count_evaluation()?;
                let value = self.programs().eval(program, row);
                value.map_err(|error| self.error(error))
            }
        }
    }

    /// Whether all programs are true, asked in their order until one is not.
    #[inline]
    pub fn holds(&self, programs: &[Program], row: &[Datum]) -> ExecResult<bool> {
        for program in programs {
            self.count_evaluation()?;
            let truth = self.programs().truth(program, row);
            if truth.map_err(|error| self.error(error))? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a row passes a node's filter.
    #[inline]
    pub fn passes(&self, node: &Node, row: &[Datum]) -> ExecResult<bool> {
        let passes = self.holds(&node.filter, row)?;
        if !passes {
            self.count_removed(node, 1);
        }
        Ok(passes)
    }

    /// Counts rows that a node's filter left out.
    #[inline]
    pub fn count_removed(&self, node: &Node, rows: u64) {
        if let Some(measures) = &self.measures {
            measures.change(node, |measure| measure.removed += rows);
        }
    }

    /// Counts searches of an index and the rows of the heap that were looked at for its keys.
    pub fn count_index(&self, node: &Node, searches: u64, heap_rows: u64) {
        if let Some(measures) = &self.measures {
            measures.change(node, |measure| {
                measure.searches += searches;
                measure.heap_rows += heap_rows;
            });
        }
    }

    /// Counts the places that a source of a bitmap has found.
    pub fn count_found(&self, node: &Node, places: usize) {
        if let Some(measures) = &self.measures {
            measures.change(node, |measure| measure.rows += places as u64);
        }
    }

    /// Counts a run of a source of a bitmap.
    pub fn count_run(&self, node: &Node) {
        if let Some(measures) = &self.measures {
            measures.change(node, |measure| measure.loops += 1);
        }
    }

    /// Counts a page of the heap that a bitmap has led to.
    pub fn count_heap_block(&self, node: &Node, whole: bool) {
        if let Some(measures) = &self.measures {
            measures.change(node, |measure| measure.heap_blocks[usize::from(whole)] += 1);
        }
    }

    /// Appends a node's output for a raw row, if its filter holds.
    #[inline]
    pub fn emit(&self, node: &Node, row: &[Datum], out: &mut Batch) -> ExecResult<()> {
        if !self.passes(node, row)? {
            return Ok(());
        }
        match &node.project {
            None => out.push_row(row),
            Some(programs) => self.project(programs, row, out)?,
        }
        Ok(())
    }

    /// As [`Cx::emit`]; the row's values may be taken.
    #[inline]
    pub fn emit_taken(&self, node: &Node, row: &mut [Datum], out: &mut Batch) -> ExecResult<()> {
        if !self.passes(node, row)? {
            return Ok(());
        }
        match &node.project {
            None => out.push_taken(row),
            Some(programs) => self.project(programs, row, out)?,
        }
        Ok(())
    }

    /// Appends the row that programs make.
    pub fn project(&self, programs: &[Program], row: &[Datum], out: &mut Batch) -> ExecResult<()> {
        for program in programs {
            out.push_computed(self.eval(program, row)?, &self.env.memory)?;
        }
        out.end_row();
        Ok(())
    }
}

/// A call that gives rows: a set, or a single row of a scalar function.
pub(crate) enum SetRows {
    /// A set-returning function's, and its columns if it has several.
    Set(Box<dyn Rows>, &'static [(&'static str, SqlType)]),
    /// One row.
    One(Option<Datum>),
    /// None: a strict function with a NULL argument.
    None,
}

impl SetRows {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        match self {
            SetRows::Set(rows, _) => rows.bytes(),
            SetRows::One(_) | SetRows::None => 0,
        }
    }

    /// Puts the next row, of `width` columns, into `row`; false at the end.
    pub fn next(&mut self, cx: &Cx, width: usize, row: &mut Vec<Datum>) -> ExecResult<bool> {
        let more = match self {
            SetRows::None => false,
            SetRows::Set(rows, columns) => {
                let more = rows.next(cx.env.session.as_ref(), row)?;
                if more && width == 1 && columns.len() > 1 {
                    let types = columns.iter().map(|(_, ty)| *ty).collect();
                    let fields = std::mem::take(row).into_boxed_slice();
                    let names = columns.iter().map(|(name, _)| (*name).into()).collect();
                    let record = RecordValue::new(types, fields).named(names);
                    row.push(Datum::Record(record.into()));
                }
                more
            }
            SetRows::One(value) => match value.take() {
                None => false,
                Some(value) => {
                    row.clear();
                    match value {
                        Datum::Record(record) if width != 1 => {
                            row.extend_from_slice(record.fields());
                        }
                        value => row.push(value),
                    }
                    true
                }
            },
        };
        if more {
            // A NULL row has NULL columns.
            row.resize(width, Datum::Null);
        }
        Ok(more)
    }
}

impl Cx {
    /// Calls a function that gives rows.
    pub fn call_set(&self, call: &SetCall, row: &[Datum]) -> ExecResult<SetRows> {
        let args = call.args.iter().map(|arg| self.eval(arg, row));
        let args = args.collect::<ExecResult<Vec<_>>>()?;
        let null = call.proc.strict && args.iter().any(Datum::is_null);
        let args: Vec<&Datum> = args.iter().collect();
        let called = Call {
            oid: call.proc.oid,
            args: &args,
            types: &call.arg_types,
            result: match call.columns.as_slice() {
                [column] => *column,
                _ => SqlType::Record,
            },
            session: self.env.session.as_ref(),
        };
        match call.proc.kind {
            ProcKind::Set(..) if null => Ok(SetRows::None),
            ProcKind::Set(rows, columns) => Ok(SetRows::Set(rows(&called)?, columns)),
            ProcKind::Scalar(_) if null => Ok(SetRows::One(Some(Datum::Null))),
            ProcKind::Scalar(body) => Ok(SetRows::One(Some(body(&called)?))),
            _ => Err(ExecError::plan("a call that gives no rows")),
        }
    }
}
