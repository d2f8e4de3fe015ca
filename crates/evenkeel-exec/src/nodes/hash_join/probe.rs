//! Outer rows that look for partners in a hash table.

use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{JoinType, Node};
use evenkeel_types::Datum;

use super::table::{HashTable, key_of};
use crate::batch::{Batch, move_into};
use crate::context::Cx;
use crate::error::ExecResult;

/// Where the look-up of an outer row is.
#[derive(Default)]
pub(super) struct Probe {
    /// The key of the row at hand.
    pub key: Vec<Datum>,
    /// The outer row, then a partner.
    scratch: Vec<Datum>,
    /// Whether there is an outer row at hand.
    at_row: bool,
    /// The partner that is looked at next.
    next: Option<usize>,
    matched: bool,
}

impl Probe {
    pub fn forget(&mut self) {
        self.at_row = false;
        self.next = None;
        self.matched = false;
    }

    /// Joins the outer rows at hand; false when there is no room for more rows before the last.
    pub fn run(
        &mut self,
        node: &Node,
        cx: &Cx,
        (table, rows, at): (&mut HashTable, &mut Batch, &mut usize),
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        kind!(
            node,
            HashJoin {
                outer,
                inner,
                outer_keys,
                condition,
                join
            }
        );
        self.scratch.resize(outer.width + inner.width, Datum::Null);
        loop {
            if self.at_row {
                if !self.pairs(node, cx, table, most, out)? {
                    return Ok(false);
                }
                self.at_row = false;
            }
            if out.is_full(most) {
                return Ok(false);
            }
            if *at >= rows.len() {
                return Ok(true);
            }
            move_into(&mut self.scratch[..outer.width], rows.row_mut(*at));
            *at += 1;
            let row = &self.scratch[..outer.width];
            let complete = key_of(outer_keys, row, &mut self.key, cx)?;
            if *join == JoinType::NullAwareAnti {
                if !self.is_in(outer.width, condition, complete, table, cx)? {
                    cx.emit(node, &self.scratch[..outer.width], out)?;
                }
                continue;
            }
            self.at_row = true;
            self.matched = false;
            self.next = None;
            if complete {
                self.next = table.first(&self.key, table.hash(&self.key));
            }
        }
    }

    /// Goes through the partners of the outer row at hand; false when there is no room for more
    /// rows before the last.
    fn pairs(
        &mut self,
        node: &Node,
        cx: &Cx,
        table: &mut HashTable,
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        kind!(
            node,
            HashJoin {
                outer,
                condition,
                join
            }
        );
        let width = outer.width;
        while let Some(partner) = self.next {
            if out.is_full(most) {
                return Ok(false);
            }
            self.next = table.next(partner, &self.key);
            let first = matches!(join, JoinType::Semi | JoinType::Anti);
            if !(first && condition.is_empty()) {
                self.scratch[width..].clone_from_slice(table.row(partner));
                if !cx.holds(condition, &self.scratch)? {
                    continue;
                }
            }
            self.matched = true;
            if let Some(partners) = table.partners.get_mut(partner) {
                *partners = true;
            }
            if first {
                self.next = None;
                if *join == JoinType::Semi {
                    cx.emit(node, &self.scratch[..width], out)?;
                }
            } else {
                cx.emit(node, &self.scratch, out)?;
            }
        }
        if self.matched {
            return Ok(true);
        }
        match join {
            JoinType::Left | JoinType::Full => {
                if out.is_full(most) {
                    return Ok(false);
                }
                self.scratch[width..].fill(Datum::Null);
                cx.emit(node, &self.scratch, out)?;
            }
            JoinType::Anti => {
                if out.is_full(most) {
                    return Ok(false);
                }
                cx.emit(node, &self.scratch[..width], out)?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// `NOT IN`: whether the outer row is, or may be, equal to an inner one.
    fn is_in(
        &mut self,
        width: usize,
        condition: &[Program],
        complete: bool,
        table: &HashTable,
        cx: &Cx,
    ) -> ExecResult<bool> {
        if complete {
            let mut next = table.first(&self.key, table.hash(&self.key));
            while let Some(partner) = next {
                if self.may_hold(width, condition, partner, table, cx)? {
                    return Ok(true);
                }
                next = table.next(partner, &self.key);
            }
        }
        // A NULL among the keys may be equal to anything: with one in the outer row all inner
        // rows are looked at, else those that have one.
        let all = 0..if complete { 0 } else { table.len() };
        let some = table.with_nulls.iter().copied();
        for partner in all.chain(some) {
            if table.may_be_key(partner, &self.key)
                && self.may_hold(width, condition, partner, table, cx)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the condition is true or unknown for a pair.
    fn may_hold(
        &mut self,
        width: usize,
        condition: &[Program],
        partner: usize,
        table: &HashTable,
        cx: &Cx,
    ) -> ExecResult<bool> {
        if condition.is_empty() {
            return Ok(true);
        }
        self.scratch[width..].clone_from_slice(table.row(partner));
        for program in condition {
            if cx.eval(program, &self.scratch)? == Datum::Bool(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands over inner rows without a partner; true when that was the last.
    pub fn unmatched(
        &mut self,
        node: &Node,
        cx: &Cx,
        (table, at): (&mut HashTable, &mut usize),
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        kind!(node, HashJoin { outer, inner });
        self.scratch.resize(outer.width + inner.width, Datum::Null);
        self.scratch[..outer.width].fill(Datum::Null);
        while *at < table.len() {
            if out.is_full(most) {
                return Ok(false);
            }
            if table.partners.get(*at) != Some(&true) {
                self.scratch[outer.width..].clone_from_slice(table.row(*at));
                cx.emit(node, &self.scratch, out)?;
            }
            *at += 1;
        }
        Ok(true)
    }
}
