//! COMMENT ON.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Comment, Commented, Define, RelationKind};
use crate::error::PlanResult;

impl Parser<'_> {
    /// Whether COMMENT ON is followed by a kind of object that can have one.
    pub(super) fn is_commented(&self) -> bool {
        let Tok::Key(kind) = self.peek_at(2) else {
            return false;
        };
        matches!(
            kind,
            Kw::Constraint
                | Kw::Domain
                | Kw::Table
                | Kw::Index
                | Kw::Sequence
                | Kw::View
                | Kw::Column
                | Kw::Schema
                | Kw::Database
                | Kw::Extension
                | Kw::Type
        )
    }

    /// Behind COMMENT ON.
    pub(super) fn comment_on(&mut self) -> PlanResult<Define> {
        let on = match self.peek() {
            Tok::Key(Kw::Table) => self.commented_relation(RelationKind::Table)?,
            Tok::Key(Kw::Index) => self.commented_relation(RelationKind::Index)?,
            Tok::Key(Kw::Sequence) => self.commented_relation(RelationKind::Sequence)?,
            Tok::Key(Kw::View) => self.commented_relation(RelationKind::View)?,
            Tok::Key(Kw::Column) => {
                self.bump();
                Commented::Column(self.qualified_name()?)
            }
            Tok::Key(Kw::Constraint) => {
                self.bump();
                let name = self.col_id()?;
                self.expect_key(Kw::On)?;
                // A table may be called `domain`.
                if self.is_key(Kw::Domain)
                    && !matches!(self.peek_at(1), Tok::Key(Kw::Is) | Tok::Char(b'.'))
                {
                    self.bump();
                    Commented::DomainConstraint(name, self.any_name()?)
                } else {
                    Commented::Constraint(name, self.qualified_name()?)
                }
            }
            Tok::Key(Kw::Schema) => {
                self.bump();
                Commented::Schema(self.col_id()?)
            }
            Tok::Key(Kw::Database) => {
                self.bump();
                Commented::Database(self.col_id()?)
            }
            Tok::Key(Kw::Extension) => {
                self.bump();
                Commented::Extension(self.col_id()?)
            }
            Tok::Key(Kw::Type) => {
                self.bump();
                Commented::Type(self.any_name()?)
            }
            Tok::Key(Kw::Domain) => {
                self.bump();
                Commented::Domain(self.any_name()?)
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_key(Kw::Is)?;
        let text = match self.accept_key(Kw::Null) {
            true => None,
            false => Some(self.string()?),
        };
        Ok(Define::Comment(Comment { on, text }))
    }

    fn commented_relation(&mut self, kind: RelationKind) -> PlanResult<Commented> {
        self.bump();
        Ok(Commented::Relation(kind, self.qualified_name()?))
    }
}
