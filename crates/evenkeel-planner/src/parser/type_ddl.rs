//! CREATE TYPE … AS ENUM and ALTER TYPE.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{AlterType, Define, NewLabelPlace, TypeChange};
use crate::error::PlanResult;

impl Parser<'_> {
    /// CREATE TYPE of an enumerated type, if the text begins it.
    pub(super) fn create_enum_here(&mut self) -> PlanResult<Option<Define>> {
        let mut at = 3;
        while self.peek_at(at) == Tok::Char(b'.') {
            at += 2;
        }
        let is_enum =
            self.peek_at(at) == Tok::Key(Kw::As) && self.peek_at(at + 1) == Tok::Key(Kw::Enum);
        if !is_enum {
            return Ok(None);
        }
        self.skip(2);
        let name = self.any_name()?;
        self.skip(2);
        self.expect_char(b'(')?;
        let labels = match self.is_char(b')') {
            true => Vec::new(),
            false => self.list(Self::string)?,
        };
        self.expect_char(b')')?;
        Ok(Some(Define::CreateEnum { name, labels }))
    }

    /// Behind ALTER TYPE.
    pub(super) fn alter_type(&mut self) -> PlanResult<Define> {
        let name = self.any_name()?;
        let change = match (self.peek(), self.peek_at(1)) {
            (Tok::Key(Kw::Add), Tok::Key(Kw::Value)) => {
                self.skip(2);
                self.added_label()?
            }
            (Tok::Key(Kw::Rename), Tok::Key(Kw::Value)) => {
                self.skip(2);
                let from = self.string()?;
                self.expect_key(Kw::To)?;
                let to = self.string()?;
                TypeChange::RenameValue { from, to }
            }
            (Tok::Key(Kw::Rename), Tok::Key(Kw::To)) => {
                self.skip(2);
                TypeChange::Rename(self.col_id()?)
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Schema)) => {
                self.skip(2);
                TypeChange::SetSchema(self.col_id()?)
            }
            (Tok::Key(Kw::Owner), _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                TypeChange::Owner(self.role()?)
            }
            _ => {
                self.skip_command(Kw::Alter)?;
                TypeChange::Unbuilt("this change of a type")
            }
        };
        Ok(Define::AlterType(AlterType { name, change }))
    }

    fn added_label(&mut self) -> PlanResult<TypeChange> {
        let if_not_exists = self.if_not_exists()?;
        let label = self.string()?;
        let place = if self.accept_key(Kw::Before) {
            NewLabelPlace::Before(self.string()?)
        } else if self.accept_key(Kw::After) {
            NewLabelPlace::After(self.string()?)
        } else {
            NewLabelPlace::Last
        };
        Ok(TypeChange::AddValue {
            label,
            if_not_exists,
            place,
        })
    }
}
