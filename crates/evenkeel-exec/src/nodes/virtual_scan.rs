//! Rows that the server makes: catalogs and statistics views, all or those with a value.

use evenkeel_planner::plan::{IndexKeys, Node};
use evenkeel_planner::relation::Relation;
use evenkeel_types::Datum;

use super::index_keys::{Search, key_columns, search};
use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::virtual_rows::VirtualRows;

/// Appends the columns of a row.
fn emit(
    row: &[Datum],
    (relation, columns): (&Relation, &[usize]),
    cx: &Cx,
    out: &mut Batch,
) -> ExecResult<()> {
    for column in columns {
        let value = row.get(*column).cloned();
        let value = value.ok_or_else(|| ExecError::plan("a column that is not there"))?;
        out.push_value(match (value, relation.columns.get(*column)) {
            // The server may give arrays in their text form.
            (Datum::Text(text), Some(column)) if column.ty.element().is_some() => {
                Datum::parse_text(column.ty, &text, cx.env.session.types())?
            }
            (value, _) => value,
        });
    }
    out.end_row();
    Ok(())
}

/// All rows.
#[derive(Default)]
pub(crate) struct VirtualScan {
    /// Those of the statement: each run gives the same ones.
    parts: Option<Vec<VirtualRows>>,
    part: usize,
    next: usize,
}

impl Operator for VirtualScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, VirtualScan { relation, columns });
        out.reset(columns.len());
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(cx.env.relations.virtual_rows(relation)?),
        };
        while !out.is_full(cx.most(want))
            && let Some(part) = parts.get(self.part)
        {
            let Some(row) = part.rows().get(self.next) else {
                self.part += 1;
                self.next = 0;
                continue;
            };
            self.next += 1;
            emit(row, (relation, columns), cx, out)?;
        }
        cx.over(out.len())?;
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.part = 0;
        self.next = 0;
        Ok(())
    }
}

/// The rows that have a value in a column, or one of some values.
#[derive(Default)]
pub(crate) struct VirtualIndexScan {
    parts: Option<Vec<VirtualRows>>,
    /// The part and the place of each row that is still to come, the next one last; `None` before
    /// the keys have been searched under the parameters as they are now.
    found: Option<Vec<(usize, usize)>>,
}

impl VirtualIndexScan {
    fn search(
        &self,
        (relation, index): (&Relation, usize),
        keys: &IndexKeys,
        cx: &Cx,
    ) -> ExecResult<Vec<(usize, usize)>> {
        let index = relation.indexes.get(index);
        let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
        let columns = key_columns(index);
        let [column] = &columns[..] else {
            return Err(ExecError::plan(
                "a virtual relation's index of many columns",
            ));
        };
        let wanted = match search(keys, &columns, cx)? {
            Search::Nothing => Vec::new(),
            Search::Prefix(key) => vec![key],
            Search::Prefixes(keys) => keys,
            Search::Ranges(_) => return Err(ExecError::plan("a range of a virtual relation")),
        };
        let mut found = Vec::new();
        let parts = self.parts.iter().flatten();
        let places: Vec<_> = parts
            .map(|part| part.places(column))
            .collect::<ExecResult<_>>()?;
        for key in &wanted {
            for (part, places) in places.iter().enumerate() {
                let places = places.get(key).into_iter().flatten();
                found.extend(places.map(|place| (part, *place)));
            }
        }
        found.reverse();
        Ok(found)
    }
}

impl Operator for VirtualIndexScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            IndexScan {
                relation,
                index,
                columns,
                keys,
            }
        );
        out.reset(columns.len());
        if self.parts.is_none() {
            self.parts = Some(cx.env.relations.virtual_rows(relation)?);
        }
        if self.found.is_none() {
            self.found = Some(self.search((relation, *index), keys, cx)?);
        }
        let parts = self.parts.as_deref().unwrap_or_default();
        let most = cx.most(want);
        while !out.is_full(most)
            && let Some((part, place)) = self.found.as_mut().and_then(Vec::pop)
        {
            let row = parts.get(part).and_then(|part| part.rows().get(place));
            let row = row.ok_or_else(|| ExecError::plan("a row that is not there"))?;
            emit(row, (relation, columns), cx, out)?;
        }
        cx.over(out.len() + 1)?;
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.found = None;
        Ok(())
    }
}
