//! CREATE, ALTER and DROP DATABASE.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{CommandOption, DatabaseChange, DatabaseCommand, Define, OptionValue};
use crate::error::PlanResult;

impl Parser<'_> {
    /// CREATE DATABASE, ALTER DATABASE or DROP DATABASE.
    pub(super) fn database_command(&mut self, verb: Kw) -> PlanResult<Define> {
        self.skip(2);
        let command = match verb {
            Kw::Create => {
                let name = self.col_id()?;
                self.accept_key(Kw::With);
                let options = self.database_options()?;
                DatabaseCommand::Create { name, options }
            }
            Kw::Drop => self.drop_database()?,
            _ => {
                let name = self.col_id()?;
                let change = self.database_change()?;
                DatabaseCommand::Alter { name, change }
            }
        };
        Ok(Define::Database(command))
    }

    fn drop_database(&mut self) -> PlanResult<DatabaseCommand> {
        let if_exists = self.if_exists();
        let name = self.col_id()?;
        let with = self.accept_key(Kw::With);
        let mut force = false;
        if with || self.peek() == Tok::Char(b'(') {
            self.expect_char(b'(')?;
            self.list(|parser| parser.expect_key(Kw::Force))?;
            self.expect_char(b')')?;
            force = true;
        }
        Ok(DatabaseCommand::Drop {
            name,
            if_exists,
            force,
        })
    }

    fn database_change(&mut self) -> PlanResult<DatabaseChange> {
        Ok(match self.peek() {
            Tok::Key(Kw::Rename) => {
                self.bump();
                self.expect_key(Kw::To)?;
                DatabaseChange::Rename(self.col_id()?)
            }
            Tok::Key(Kw::Owner) if self.peek_at(1) == Tok::Key(Kw::To) => {
                self.skip(2);
                DatabaseChange::Owner(self.role()?)
            }
            Tok::Key(Kw::Set) if self.peek_at(1) == Tok::Key(Kw::Tablespace) => {
                self.skip(2);
                self.col_id()?;
                DatabaseChange::Unbuilt("ALTER DATABASE SET TABLESPACE")
            }
            Tok::Key(Kw::Set | Kw::Reset) => self.database_setting()?,
            Tok::Key(Kw::Refresh) => {
                self.bump();
                self.expect_keys(&[Kw::Collation, Kw::Version])?;
                DatabaseChange::Unbuilt("ALTER DATABASE REFRESH COLLATION VERSION")
            }
            _ => {
                self.accept_key(Kw::With);
                DatabaseChange::Options(self.database_options()?)
            }
        })
    }

    /// `createdb_opt_list`, which may be empty.
    fn database_options(&mut self) -> PlanResult<Vec<CommandOption>> {
        let mut options = Vec::new();
        loop {
            let at = self.pos();
            let name = match self.peek() {
                Tok::Key(Kw::Connection) => {
                    self.bump();
                    self.expect_key(Kw::Limit)?;
                    "connection_limit".to_owned()
                }
                Tok::Ident
                | Tok::Key(
                    Kw::Encoding | Kw::Location | Kw::Owner | Kw::Tablespace | Kw::Template,
                ) => self.take_name().text,
                _ => return Ok(options),
            };
            self.accept_char(b'=');
            let value = match self.peek() {
                Tok::Key(Kw::Default) => {
                    self.bump();
                    OptionValue::Absent
                }
                Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => {
                    OptionValue::Number(self.numeric()?)
                }
                _ => OptionValue::Text(self.word_or_string()?),
            };
            options.push(CommandOption { name, value, at });
        }
    }
}
