//! INSERT of rows that nothing asks for afterwards: many are stored by one write, which fills whole
//! pages by one log record each.

use evenkeel_engine::EngineError;
use evenkeel_planner::plan::{Node, NodeKind, RowChange};
use evenkeel_planner::relation::Relation;

use super::changed::{has_events, note_with};
use crate::batch::Batch;
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::large::NewRows;
use crate::new_row::{Rules, Stored, refused};
use crate::writer::{Write, Written};

/// Bytes of rows that are stored together.
const TOGETHER: usize = 64 << 10;

/// Rows of the child's batch that are being stored.
struct Begun {
    /// The first one, and how many follow one another from there.
    first: usize,
    count: usize,
    /// The error of the row behind them: theirs would have come first.
    then: Option<ExecError>,
}

/// Stores the rows of its child's batches.
#[derive(Default)]
pub(crate) struct InsertMany {
    begun: Option<Begun>,
    scratch: Vec<u8>,
}

impl InsertMany {
    /// Whether a change can be made so: the rows are not returned, and none yields to another. A
    /// single row is stored sooner by itself.
    pub fn suits(node: &Node, rows: &Batch) -> bool {
        let inserts = matches!(
            &node.kind,
            NodeKind::ModifyTable {
                change: RowChange::Insert { conflict: None },
                ..
            }
        );
        inserts && node.project.is_none() && rows.len() > 1
    }

    /// Stores the rows from `at` on, which it moves to their end; false when it waits.
    pub fn go_on(
        &mut self,
        node: &Node,
        stored: &Stored,
        (rows, at): (&mut Batch, &mut usize),
        cx: &Cx,
    ) -> ExecResult<bool> {
        let rules = Rules::of(node)?;
        loop {
            let (begun, written) = match self.begun.take() {
                Some(begun) => (begun, cx.resume_write()),
                None => {
                    let (new, begun) = self.gather(rules, stored, (rows, at), cx)?;
                    if begun.count == 0 {
                        return begun.then.map_or(Ok(true), Err);
                    }
                    (
                        begun,
                        cx.write(&stored.table, Write::InsertMany { rows: new }),
                    )
                }
            };
            match written {
                Ok(None) => {
                    self.begun = Some(begun);
                    return Ok(false);
                }
                Ok(Some(Written::Done(_))) => {}
                Ok(Some(_)) => return Err(ExecError::plan("an insert that yields to others")),
                Err(error) => return Err(refused_of(error, rules.relation, (rows, &begun), cx)),
            }
            Self::note_all(rules.relation, stored, (rows, &begun), cx)?;
            cx.count_changes(node, begun.count);
            if let Some(error) = begun.then {
                return Err(error);
            }
        }
    }

    /// Makes the next rows.
    fn gather(
        &mut self,
        rules: Rules<'_>,
        stored: &Stored,
        (rows, at): (&mut Batch, &mut usize),
        cx: &Cx,
    ) -> ExecResult<(NewRows, Begun)> {
        let width = rules.relation.columns.len();
        let mut new = NewRows::default();
        let mut begun = Begun {
            first: *at,
            count: 0,
            then: None,
        };
        while *at < rows.len() && new.bytes() < TOGETHER {
            let row = rows.row_mut(*at).get_mut(..width);
            let row = row.ok_or_else(|| ExecError::plan("a row with too few columns"))?;
            match stored.encode_into(rules, (row, None), cx, &mut self.scratch) {
                Ok(None) => new.push_bytes(&self.scratch),
                Ok(Some(long)) => new.push(long),
                Err(error) => {
                    begun.then = Some(error);
                    break;
                }
            }
            *at += 1;
            begun.count += 1;
        }
        Ok((new, begun))
    }

    /// Queues the events of rows that were stored.
    fn note_all(
        relation: &Relation,
        stored: &Stored,
        (rows, begun): (&Batch, &Begun),
        cx: &Cx,
    ) -> ExecResult<()> {
        if !has_events(relation) {
            return Ok(());
        }
        let placed = cx.placed()?;
        // In the order of the rows.
        let mut doubts = cx.doubts()?.into_iter().peekable();
        for (number, at) in placed.into_iter().enumerate() {
            let values = rows.row(begun.first + number);
            let of_row = std::iter::from_fn(|| doubts.next_if(|doubt| doubt.tid == at));
            note_with(relation, stored, (None, Some((at, values))), of_row, cx)?;
        }
        Ok(())
    }
}

/// The error of rows that were to be stored, with the detail of the one that it is about.
fn refused_of(
    error: ExecError,
    relation: &Relation,
    (rows, begun): (&Batch, &Begun),
    cx: &Cx,
) -> ExecError {
    let number = match &error {
        ExecError::Engine(EngineError::UniqueViolation { row, .. }) => *row,
        _ => return error,
    };
    if number >= begun.count {
        return error;
    }
    refused(error, relation, rows.row(begun.first + number), cx)
}
