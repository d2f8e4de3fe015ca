//! MERGE.

use super::cursor::Parser;
use super::keywords::Kw;
use crate::ast::{Merge, MergeAction, MergeClause, MergeWhen, With};
use crate::error::PlanResult;

impl Parser<'_> {
    pub(super) fn merge(&mut self, with: Option<With>) -> PlanResult<Merge> {
        let at = self.expect_key(Kw::Merge)?;
        self.expect_key(Kw::Into)?;
        let target = self.change_target()?;
        self.expect_key(Kw::Using)?;
        let source = self.table_ref()?;
        self.expect_key(Kw::On)?;
        let on = self.expr()?;
        let mut clauses = vec![self.merge_clause()?];
        while self.is_key(Kw::When) {
            clauses.push(self.merge_clause()?);
        }
        let returning = self.returning()?;
        Ok(Merge {
            with,
            target,
            source,
            on,
            clauses,
            returning,
            at,
        })
    }

    fn merge_clause(&mut self) -> PlanResult<MergeClause> {
        self.expect_key(Kw::When)?;
        let when = if self.accept_key(Kw::Matched) {
            MergeWhen::Matched
        } else {
            self.expect_keys(&[Kw::Not, Kw::Matched])?;
            if !self.accept_key(Kw::By) {
                MergeWhen::NotMatchedByTarget
            } else if self.accept_key(Kw::Source) {
                MergeWhen::NotMatchedBySource
            } else {
                self.expect_key(Kw::Target)?;
                MergeWhen::NotMatchedByTarget
            }
        };
        let condition = if self.accept_key(Kw::And) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect_key(Kw::Then)?;
        let action = self.merge_action_of(when)?;
        Ok(MergeClause {
            when,
            condition,
            action,
        })
    }

    fn merge_action_of(&mut self, when: MergeWhen) -> PlanResult<MergeAction> {
        let inserts = when == MergeWhen::NotMatchedByTarget;
        if self.accept_key(Kw::Do) {
            self.expect_key(Kw::Nothing)?;
            return Ok(MergeAction::Nothing);
        }
        if inserts {
            self.expect_key(Kw::Insert)?;
            return self.merge_insert();
        }
        if self.accept_key(Kw::Update) {
            return Ok(MergeAction::Update(self.assignments()?));
        }
        self.expect_key(Kw::Delete)?;
        Ok(MergeAction::Delete)
    }

    fn merge_insert(&mut self) -> PlanResult<MergeAction> {
        let columns = if self.is_char(b'(') {
            self.set_targets()?
        } else {
            Vec::new()
        };
        if columns.is_empty() && self.accept_key(Kw::Default) {
            self.expect_key(Kw::Values)?;
            return Ok(MergeAction::Insert {
                columns,
                overriding: None,
                values: None,
            });
        }
        let overriding = self.overriding()?;
        self.expect_key(Kw::Values)?;
        let values = Some(self.exprs_in_parentheses()?);
        Ok(MergeAction::Insert {
            columns,
            overriding,
            values,
        })
    }
}
