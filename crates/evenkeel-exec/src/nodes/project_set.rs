//! Select lists with set-returning functions: for each row of the child as many rows as the
//! longest set has; the others are NULL behind their ends.

use evenkeel_planner::plan::{Node, SetItem};
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::ExecResult;
use crate::eval::SetRows;

pub(crate) struct ProjectSet {
    child: Child,
    rows: Batch,
    at: usize,
    /// The sets of the row at hand, an entry for each item.
    sets: Option<Vec<SetRows>>,
    row: Vec<Datum>,
    /// The next values of the sets, an entry for each item.
    values: Vec<Option<Datum>>,
}

impl ProjectSet {
    pub fn new(child: Child) -> ProjectSet {
        ProjectSet {
            child,
            rows: Batch::default(),
            at: 0,
            sets: None,
            row: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Appends the next row of the row at hand; false when its sets have ended.
    fn next_row(&mut self, items: &[SetItem], cx: &Cx, out: &mut Batch) -> ExecResult<bool> {
        let row = self.rows.row(self.at);
        let sets = match &mut self.sets {
            Some(sets) => sets,
            none => {
                let begin = |item: &SetItem| match item {
                    SetItem::Value(_) => Ok(SetRows::None),
                    SetItem::Set(call) => cx.call_set(call, row),
                };
                none.insert(items.iter().map(begin).collect::<ExecResult<_>>()?)
            }
        };
        let mut any = false;
        self.values.clear();
        for (item, set) in items.iter().zip(sets) {
            let mut value = None;
            if let SetItem::Set(call) = item {
                let width = call.columns.len();
                if set.next(cx, width, &mut self.row)? {
                    any = true;
                    value = Some(call_value(call, &mut self.row));
                } else {
                    *set = SetRows::None;
                    value = Some(Datum::Null);
                }
            }
            self.values.push(value);
        }
        if !any {
            return Ok(false);
        }
        for (item, value) in items.iter().zip(&mut self.values) {
            out.push_value(match (item, value.take()) {
                (SetItem::Value(program), _) => cx.eval(program, row)?,
                (SetItem::Set(_), value) => value.unwrap_or(Datum::Null),
            });
        }
        out.end_row();
        Ok(true)
    }
}

/// A set's row as one value: a row with several columns is a record.
fn call_value(call: &evenkeel_planner::plan::SetCall, row: &mut Vec<Datum>) -> Datum {
    if call.columns.len() == 1 {
        return row.pop().unwrap_or(Datum::Null);
    }
    let fields = std::mem::take(row).into_boxed_slice();
    let record = evenkeel_types::RecordValue::new(call.columns.clone().into(), fields);
    Datum::Record(std::sync::Arc::new(record))
}

impl Operator for ProjectSet {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, ProjectSet { child, items });
        out.reset(items.len());
        let most = cx.most(want);
        loop {
            while self.at < self.rows.len() {
                if out.is_full(most) {
                    return Ok(Step::Rows);
                }
                if !self.next_row(items, cx, out)? {
                    self.at += 1;
                    self.sets = None;
                }
                if cx.over(1)? {
                    return Ok(if out.is_empty() {
                        Step::Yield
                    } else {
                        Step::Rows
                    });
                }
            }
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            self.at = 0;
            // One row may be enough for a bounded number of rows.
            let one = if want == ALL { ALL } else { 1 };
            let step = self.child.next(child, cx, one, &mut self.rows)?;
            if step != Step::Rows {
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, ProjectSet { child });
        self.rows.reset(0);
        self.at = 0;
        self.sets = None;
        self.child.rescan(child, cx)
    }
}
