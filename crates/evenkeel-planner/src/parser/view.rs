//! CREATE VIEW and ALTER VIEW.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{AlterView, CreateView, Define, DropKind, Persistence, ViewChange};
use crate::error::PlanResult;

impl Parser<'_> {
    /// CREATE VIEW, if the text begins it.
    pub(super) fn create_view_here(&mut self) -> PlanResult<Option<Define>> {
        let mut words = 1;
        let or_replace = self.peek_at(1) == Tok::Key(Kw::Or);
        if or_replace {
            words += 2;
        }
        if matches!(self.peek_at(words), Tok::Key(Kw::Local | Kw::Global)) {
            words += 1;
        }
        let mut persistence = Persistence::Permanent;
        if matches!(self.peek_at(words), Tok::Key(Kw::Temp | Kw::Temporary)) {
            persistence = Persistence::Temporary;
            words += 1;
        }
        let recursive = self.peek_at(words) == Tok::Key(Kw::Recursive);
        if recursive {
            words += 1;
        }
        if self.peek_at(words) != Tok::Key(Kw::View) {
            return Ok(None);
        }
        self.skip(words + 1);
        let name = self.qualified_name()?;
        if recursive && !self.is_char(b'(') {
            return Err(self.unexpected());
        }
        let columns = self.optional_names()?;
        let options = self.opt_definition()?;
        self.expect_key(Kw::As)?;
        let start = self.pos().0 as usize;
        let query = Box::new(self.query()?);
        let text = start..self.last_end();
        let mut unbuilt = None;
        if self.accept_key(Kw::With) {
            if !self.accept_key(Kw::Cascaded) {
                self.accept_key(Kw::Local);
            }
            self.expect_key(Kw::Check)?;
            self.expect_key(Kw::Option)?;
            unbuilt = Some(match recursive {
                true => "WITH CHECK OPTION on a recursive view",
                false => "WITH CHECK OPTION",
            });
        }
        Ok(Some(Define::CreateView(CreateView {
            name,
            persistence,
            or_replace,
            recursive,
            columns,
            options,
            query,
            text,
            unbuilt,
        })))
    }

    /// Behind ALTER VIEW.
    pub(super) fn alter_view(&mut self) -> PlanResult<Define> {
        let if_exists = self.if_exists();
        let name = self.qualified_name()?;
        let change = match (self.peek(), self.peek_at(1)) {
            (Tok::Key(Kw::Rename), _) => return self.rename(DropKind::View, name, if_exists),
            (Tok::Key(Kw::Set), Tok::Key(Kw::Schema)) => {
                return self.set_schema(DropKind::View, name, if_exists);
            }
            (Tok::Key(Kw::Owner), _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                ViewChange::Owner(self.role()?)
            }
            _ => {
                self.skip_command(Kw::Alter)?;
                ViewChange::Unbuilt("this change of a view")
            }
        };
        Ok(Define::AlterView(AlterView {
            name,
            if_exists,
            change,
        }))
    }
}
