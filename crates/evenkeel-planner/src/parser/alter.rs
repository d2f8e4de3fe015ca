//! ALTER TABLE.

use super::cursor::Parser;
use super::keywords::Kw;
use super::settings::is_non_reserved;
use super::token::Tok;
use crate::ast::{AlterAction, AlterTable, Define, Role};
use crate::error::PlanResult;

impl Parser<'_> {
    /// Behind ALTER TABLE.
    pub(super) fn alter_table(&mut self) -> PlanResult<Define> {
        let if_exists = self.if_exists();
        let (name, _) = self.relation()?;
        let mut actions = vec![self.alter_action()?];
        while self.accept_char(b',') {
            actions.push(self.alter_action()?);
        }
        Ok(Define::AlterTable(AlterTable {
            name,
            if_exists,
            actions,
        }))
    }

    /// `alter_table_cmd`
    fn alter_action(&mut self) -> PlanResult<AlterAction> {
        let Tok::Key(keyword) = self.peek() else {
            return Err(self.unexpected());
        };
        let second = self.peek_at(1);
        match (keyword, second) {
            (
                Kw::Add,
                Tok::Key(
                    Kw::Constraint | Kw::Check | Kw::Unique | Kw::Primary | Kw::Foreign | Kw::Not,
                ),
            ) => {
                self.bump();
                Ok(AlterAction::AddConstraint(self.table_constraint()?))
            }
            (Kw::Drop, Tok::Key(Kw::Constraint)) => {
                self.bump();
                self.bump();
                let if_exists = self.if_exists();
                Ok(AlterAction::DropConstraint {
                    name: self.col_id()?,
                    if_exists,
                    cascade: self.cascade(),
                })
            }
            (Kw::Owner, _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                Ok(AlterAction::Owner(self.role()?))
            }
            (Kw::Set, Tok::Char(b'(')) => {
                self.bump();
                Ok(AlterAction::SetOptions(self.definitions()?))
            }
            (Kw::Reset, _) => {
                self.bump();
                Ok(AlterAction::ResetOptions(self.definitions()?))
            }
            _ => self.unbuilt_action(keyword, second),
        }
    }

    fn unbuilt_action(&mut self, keyword: Kw, second: Tok) -> PlanResult<AlterAction> {
        let name = match (keyword, second) {
            (Kw::Add, Tok::Key(Kw::Exclude)) => "ALTER TABLE ADD EXCLUDE",
            (Kw::Add | Kw::Drop, Tok::End) => {
                self.bump();
                return Err(self.unexpected());
            }
            (Kw::Add, _) => "ALTER TABLE ADD COLUMN",
            (Kw::Drop, _) => "ALTER TABLE DROP COLUMN",
            (Kw::Alter, Tok::Key(Kw::Constraint)) => "ALTER TABLE ALTER CONSTRAINT",
            (Kw::Alter, _) => "ALTER TABLE ALTER COLUMN",
            (Kw::Rename, Tok::Key(Kw::To)) => "ALTER TABLE RENAME",
            (Kw::Rename, Tok::Key(Kw::Constraint)) => "ALTER TABLE RENAME CONSTRAINT",
            (Kw::Rename, _) => "ALTER TABLE RENAME COLUMN",
            (Kw::Validate, Tok::Key(Kw::Constraint)) => "ALTER TABLE VALIDATE CONSTRAINT",
            (Kw::Cluster, Tok::Key(Kw::On)) => "ALTER TABLE CLUSTER ON",
            (Kw::Enable, _) => "ALTER TABLE ENABLE",
            (Kw::Disable, _) => "ALTER TABLE DISABLE",
            (Kw::Inherit, _) => "ALTER TABLE INHERIT",
            (Kw::No, Tok::Key(Kw::Inherit)) => "ALTER TABLE NO INHERIT",
            (Kw::No, Tok::Key(Kw::Force)) => "ALTER TABLE NO FORCE ROW LEVEL SECURITY",
            (Kw::Force, _) => "ALTER TABLE FORCE ROW LEVEL SECURITY",
            (Kw::Of, _) => "ALTER TABLE OF",
            (Kw::Not, Tok::Key(Kw::Of)) => "ALTER TABLE NOT OF",
            (Kw::Replica, Tok::Key(Kw::Identity)) => "ALTER TABLE REPLICA IDENTITY",
            (Kw::Attach, _) => "ALTER TABLE ATTACH PARTITION",
            (Kw::Detach, _) => "ALTER TABLE DETACH PARTITION",
            (Kw::Options, Tok::Char(b'(')) => "ALTER TABLE OPTIONS",
            (Kw::Set, Tok::Key(Kw::Logged)) => "ALTER TABLE SET LOGGED",
            (Kw::Set, Tok::Key(Kw::Unlogged)) => "ALTER TABLE SET UNLOGGED",
            (Kw::Set, Tok::Key(Kw::Schema)) => "ALTER TABLE SET SCHEMA",
            (Kw::Set, Tok::Key(Kw::Tablespace)) => "ALTER TABLE SET TABLESPACE",
            (Kw::Set, Tok::Key(Kw::Access)) => "ALTER TABLE SET ACCESS METHOD",
            (Kw::Set, Tok::Key(Kw::Without)) => "ALTER TABLE SET WITHOUT",
            (
                Kw::Validate | Kw::Cluster | Kw::No | Kw::Not | Kw::Replica | Kw::Options | Kw::Set,
                _,
            ) => {
                self.bump();
                return Err(self.unexpected());
            }
            _ => return Err(self.unexpected()),
        };
        self.skip_command(Kw::Alter)?;
        Ok(AlterAction::Unbuilt(name))
    }

    /// `RoleSpec`
    fn role(&mut self) -> PlanResult<Role> {
        match self.peek() {
            Tok::Key(Kw::CurrentUser | Kw::CurrentRole | Kw::SessionUser) => {
                self.bump();
                Ok(Role::Current)
            }
            tok if is_non_reserved(tok) => Ok(Role::Named(self.take_name())),
            _ => Err(self.unexpected()),
        }
    }
}
