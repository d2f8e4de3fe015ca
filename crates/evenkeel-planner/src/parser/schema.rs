//! CREATE SCHEMA and ALTER SCHEMA.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Define, SchemaChange};
use crate::error::PlanResult;

impl Parser<'_> {
    /// Behind CREATE SCHEMA or ALTER SCHEMA.
    pub(super) fn schema_command(&mut self, verb: Kw) -> PlanResult<Define> {
        match verb {
            Kw::Create => self.create_schema(),
            _ => self.alter_schema(),
        }
    }

    /// Behind CREATE SCHEMA.
    fn create_schema(&mut self) -> PlanResult<Define> {
        let if_not_exists = self.if_not_exists()?;
        let name = match self.peek() {
            Tok::Key(Kw::Authorization) => None,
            _ => Some(self.col_id()?),
        };
        let owner = match self.accept_key(Kw::Authorization) {
            true => Some(self.role()?),
            false => None,
        };
        let elements = matches!(self.peek(), Tok::Key(Kw::Create | Kw::Grant));
        if elements {
            self.skip_command(Kw::Create)?;
        }
        Ok(Define::CreateSchema {
            name,
            owner,
            if_not_exists,
            elements,
        })
    }

    /// Behind ALTER SCHEMA.
    fn alter_schema(&mut self) -> PlanResult<Define> {
        let name = self.col_id()?;
        let change = match self.peek() {
            Tok::Key(Kw::Rename) => {
                self.bump();
                self.expect_key(Kw::To)?;
                SchemaChange::Rename(self.col_id()?)
            }
            _ => {
                self.expect_key(Kw::Owner)?;
                self.expect_key(Kw::To)?;
                SchemaChange::Owner(self.role()?)
            }
        };
        Ok(Define::AlterSchema { name, change })
    }
}
