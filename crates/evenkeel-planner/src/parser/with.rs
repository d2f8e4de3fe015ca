//! `WITH`.

use super::cursor::Parser;
use super::expr::Grammar;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Cte, ExprKind, With};
use crate::error::PlanResult;

impl Parser<'_> {
    /// `with_clause`, if one is next.
    pub(super) fn with(&mut self) -> PlanResult<Option<With>> {
        let at = self.pos();
        if !self.accept_key(Kw::With) && !self.accept(Tok::Joined(Kw::With)) {
            return Ok(None);
        }
        let named = matches!(self.peek_at(1), Tok::Key(Kw::As) | Tok::Char(b'('));
        let recursive = !named && self.accept_key(Kw::Recursive);
        let ctes = self.list(Self::cte)?;
        Ok(Some(With {
            recursive,
            ctes,
            at,
        }))
    }

    fn cte(&mut self) -> PlanResult<Cte> {
        let name = self.col_id()?;
        let columns = self.optional_names()?;
        self.expect_key(Kw::As)?;
        let materialized = if self.accept_key(Kw::Materialized) {
            Some(true)
        } else if self.accept_key(Kw::Not) {
            self.expect_key(Kw::Materialized)?;
            Some(false)
        } else {
            None
        };
        self.expect_char(b'(')?;
        let statement = Box::new(self.deeper(Self::preparable)?);
        self.expect_char(b')')?;
        let search = self.search()?;
        let cycle = self.cycle()?;
        Ok(Cte {
            name,
            columns,
            materialized,
            statement,
            search_or_cycle: search || cycle,
        })
    }

    fn search(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::Search) {
            return Ok(false);
        }
        if !self.accept_key(Kw::Depth) {
            self.expect_key(Kw::Breadth)?;
        }
        self.expect_keys(&[Kw::First, Kw::By])?;
        self.list(Self::col_id)?;
        self.expect_key(Kw::Set)?;
        self.col_id()?;
        Ok(true)
    }

    fn cycle(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::Cycle) {
            return Ok(false);
        }
        self.list(Self::col_id)?;
        self.expect_key(Kw::Set)?;
        self.col_id()?;
        if self.accept_key(Kw::To) {
            self.constant()?;
            self.expect_key(Kw::Default)?;
            self.constant()?;
        }
        self.expect_key(Kw::Using)?;
        self.col_id()?;
        Ok(true)
    }

    /// `AexprConst`
    fn constant(&mut self) -> PlanResult<()> {
        let value = self.primary(Grammar::Basic)?;
        let is_constant = match &value.kind {
            ExprKind::Literal(_) => true,
            ExprKind::Cast { arg, .. } => matches!(arg.kind, ExprKind::Literal(_)),
            _ => false,
        };
        if is_constant {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }
}
