//! CREATE DOMAIN and ALTER DOMAIN.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{AlterDomain, CreateDomain, Define, DomainChange, Name, TableColumn};
use crate::error::PlanResult;

impl Parser<'_> {
    /// Behind CREATE DOMAIN.
    pub(super) fn create_domain(&mut self) -> PlanResult<Define> {
        let name = self.any_name()?;
        self.accept_key(Kw::As);
        let mut definition = TableColumn {
            name: Name {
                text: name.last().to_owned(),
                at: name.at(),
            },
            ty: self.type_name()?,
            collation: None,
            constraints: Vec::new(),
            misplaced: None,
            unbuilt: None,
        };
        self.column_constraints(&mut definition)?;
        Ok(Define::CreateDomain(CreateDomain { name, definition }))
    }

    /// Behind ALTER DOMAIN.
    pub(super) fn alter_domain(&mut self) -> PlanResult<Define> {
        let name = self.any_name()?;
        let change = self.domain_change()?;
        Ok(Define::AlterDomain(AlterDomain { name, change }))
    }

    fn domain_change(&mut self) -> PlanResult<DomainChange> {
        let words = (self.peek(), self.peek_at(1));
        Ok(match words {
            (Tok::Key(Kw::Set), Tok::Key(Kw::Default)) => {
                self.skip(2);
                DomainChange::Default(Some(self.written(Self::expr)?))
            }
            (Tok::Key(Kw::Drop), Tok::Key(Kw::Default)) => {
                self.skip(2);
                DomainChange::Default(None)
            }
            (Tok::Key(word @ (Kw::Set | Kw::Drop)), Tok::Key(Kw::Not)) => {
                self.skip(2);
                self.expect_key(Kw::Null)?;
                DomainChange::NotNull(word == Kw::Set)
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Schema)) => {
                self.skip(2);
                DomainChange::SetSchema(self.col_id()?)
            }
            (Tok::Key(Kw::Add), _) => {
                self.bump();
                DomainChange::AddConstraint(self.domain_constraint()?)
            }
            (Tok::Key(Kw::Drop), _) => {
                self.bump();
                self.expect_key(Kw::Constraint)?;
                let if_exists = self.if_exists();
                let name = self.col_id()?;
                // Nothing depends on a constraint of a domain.
                self.cascade();
                DomainChange::DropConstraint { name, if_exists }
            }
            (Tok::Key(Kw::Validate), _) => {
                self.bump();
                self.expect_key(Kw::Constraint)?;
                DomainChange::Validate(self.col_id()?)
            }
            (Tok::Key(Kw::Rename), Tok::Key(Kw::Constraint)) => {
                self.skip(2);
                let from = self.col_id()?;
                self.expect_key(Kw::To)?;
                let to = self.col_id()?;
                DomainChange::RenameConstraint { from, to }
            }
            (Tok::Key(Kw::Rename), _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                DomainChange::Rename(self.col_id()?)
            }
            (Tok::Key(Kw::Owner), _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                DomainChange::Owner(self.role()?)
            }
            (Tok::Key(Kw::Set), _) => {
                self.bump();
                return Err(self.unexpected());
            }
            _ => return Err(self.unexpected()),
        })
    }
}
