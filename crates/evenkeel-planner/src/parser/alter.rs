//! ALTER TABLE.

use super::cursor::Parser;
use super::keywords::Kw;
use super::settings::is_non_reserved;
use super::token::Tok;
use crate::ast::{
    AlterAction, AlterTable, ColumnChange, ConstraintKind, Define, DropKind, QualifiedName, Rename,
    RenamedPart, Role, SetSchema,
};
use crate::error::PlanResult;

/// Whether an option of a sequence begins with the word.
fn is_sequence_option(word: Kw) -> bool {
    matches!(
        word,
        Kw::As
            | Kw::Cache
            | Kw::Cycle
            | Kw::Increment
            | Kw::Maxvalue
            | Kw::Minvalue
            | Kw::No
            | Kw::Owned
            | Kw::Sequence
            | Kw::Start
            | Kw::Restart
    )
}

impl Parser<'_> {
    /// Behind ALTER TABLE.
    pub(super) fn alter_table(&mut self) -> PlanResult<Define> {
        let if_exists = self.if_exists();
        let (name, _) = self.relation()?;
        if self.is_key(Kw::Rename) {
            return self.rename(DropKind::Table, name, if_exists);
        }
        if self.is_set_schema() {
            return self.set_schema(DropKind::Table, name, if_exists);
        }
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

    /// Whether `ALTER INDEX` is followed by a name and `RENAME`.
    pub(super) fn is_index_renamed(&self) -> bool {
        let mut at = 2;
        if self.peek_at(at) == Tok::Key(Kw::If) {
            at += 2;
        }
        while self.peek_at(at + 1) == Tok::Char(b'.') {
            at += 2;
        }
        self.peek_at(at + 1) == Tok::Key(Kw::Rename)
    }

    /// `RENAME` and what follows.
    pub(super) fn rename(
        &mut self,
        kind: DropKind,
        name: QualifiedName,
        if_exists: bool,
    ) -> PlanResult<Define> {
        self.expect_key(Kw::Rename)?;
        let is_table = kind == DropKind::Table;
        let has_columns = matches!(kind, DropKind::Table | DropKind::View);
        let part = if self.accept_key(Kw::To) {
            RenamedPart::Whole
        } else if is_table && self.accept_key(Kw::Constraint) {
            RenamedPart::Constraint(self.col_id()?)
        } else if has_columns {
            self.accept_key(Kw::Column);
            RenamedPart::Column(self.col_id()?)
        } else {
            return Err(self.unexpected());
        };
        if part != RenamedPart::Whole {
            self.expect_key(Kw::To)?;
        }
        Ok(Define::Rename(Rename {
            kind,
            name,
            if_exists,
            part,
            to: self.col_id()?,
        }))
    }

    /// Whether `SET SCHEMA` is next.
    fn is_set_schema(&self) -> bool {
        self.is_key(Kw::Set) && self.peek_at(1) == Tok::Key(Kw::Schema)
    }

    /// `SET SCHEMA` and what follows.
    pub(super) fn set_schema(
        &mut self,
        kind: DropKind,
        name: QualifiedName,
        if_exists: bool,
    ) -> PlanResult<Define> {
        self.expect_key(Kw::Set)?;
        self.expect_key(Kw::Schema)?;
        Ok(Define::SetSchema(SetSchema {
            kind,
            name,
            if_exists,
            to: self.col_id()?,
        }))
    }

    /// `ADD [COLUMN] [IF NOT EXISTS]`
    fn add_column(&mut self) -> PlanResult<AlterAction> {
        self.bump();
        self.accept_key(Kw::Column);
        let if_not_exists = self.if_not_exists()?;
        let column = self.table_column()?;
        Ok(AlterAction::AddColumn {
            column,
            if_not_exists,
        })
    }

    /// `DROP [COLUMN] [IF EXISTS]`
    fn drop_column(&mut self) -> PlanResult<AlterAction> {
        self.bump();
        self.accept_key(Kw::Column);
        let if_exists = self.if_exists();
        Ok(AlterAction::DropColumn {
            name: self.col_id()?,
            if_exists,
            cascade: self.cascade(),
        })
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
            (Kw::Alter, Tok::Key(Kw::Constraint)) => {
                self.skip(2);
                self.alter_constraint()
            }
            (Kw::Alter, _) => self.alter_column(),
            (Kw::Add, second) if second != Tok::Key(Kw::Exclude) => self.add_column(),
            (Kw::Drop, _) => self.drop_column(),
            (Kw::Validate, Tok::Key(Kw::Constraint)) => {
                self.skip(2);
                Ok(AlterAction::Validate(self.col_id()?))
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

    /// `ALTER opt_column`
    fn alter_column(&mut self) -> PlanResult<AlterAction> {
        self.bump();
        self.accept_key(Kw::Column);
        if matches!(self.peek(), Tok::Integer) {
            self.skip_command(Kw::Alter)?;
            return Ok(AlterAction::Unbuilt(
                "ALTER TABLE ALTER COLUMN SET STATISTICS",
            ));
        }
        let name = self.col_id()?;
        let change = match (self.peek(), self.peek_at(1), self.peek_at(2)) {
            (Tok::Key(Kw::Set), Tok::Key(Kw::Default), _) => {
                self.skip(2);
                ColumnChange::SetDefault(self.written(Self::expr)?)
            }
            (Tok::Key(Kw::Drop), Tok::Key(Kw::Default), _) => {
                self.skip(2);
                ColumnChange::DropDefault
            }
            (Tok::Key(word @ (Kw::Set | Kw::Drop)), Tok::Key(Kw::Not), Tok::Key(Kw::Null)) => {
                self.skip(3);
                ColumnChange::NotNull(word == Kw::Set)
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Expression), _) => {
                self.skip(2);
                self.expect_key(Kw::As)?;
                self.expect_char(b'(')?;
                let value = self.written(Self::expr)?;
                self.expect_char(b')')?;
                ColumnChange::SetExpression(value)
            }
            (Tok::Key(Kw::Drop), Tok::Key(Kw::Expression), _) => {
                self.skip(2);
                let if_exists = self.if_exists();
                ColumnChange::DropExpression { if_exists }
            }
            (Tok::Key(Kw::Type), ..) => {
                self.bump();
                self.column_type()?
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Data), _) => {
                self.skip(2);
                self.expect_key(Kw::Type)?;
                self.column_type()?
            }
            (Tok::Key(Kw::Add), Tok::Key(Kw::Generated), _) => {
                self.bump();
                self.added_identity()?
            }
            (Tok::Key(Kw::Drop), Tok::Key(Kw::Identity), _) => {
                self.skip(2);
                let if_exists = self.if_exists();
                ColumnChange::DropIdentity { if_exists }
            }
            (Tok::Key(Kw::Restart), ..) | (Tok::Key(Kw::Set), Tok::Key(Kw::Generated), _) => {
                self.set_identity()?
            }
            (Tok::Key(Kw::Set), Tok::Key(next), _) if is_sequence_option(next) => {
                self.set_identity()?
            }
            (first, second, _) => return self.unbuilt_column(first, second),
        };
        Ok(AlterAction::Column { name, change })
    }

    fn unbuilt_column(&mut self, first: Tok, second: Tok) -> PlanResult<AlterAction> {
        let name = match (first, second) {
            (Tok::Key(Kw::Set), Tok::Key(Kw::Statistics)) => {
                "ALTER TABLE ALTER COLUMN SET STATISTICS"
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Storage)) => "ALTER TABLE ALTER COLUMN SET STORAGE",
            (Tok::Key(Kw::Set), Tok::Key(Kw::Compression)) => {
                "ALTER TABLE ALTER COLUMN SET COMPRESSION"
            }
            (Tok::Key(Kw::Set | Kw::Reset), Tok::Char(b'(')) => "ALTER TABLE ALTER COLUMN SET",
            (Tok::Key(Kw::Options), _) => "ALTER TABLE ALTER COLUMN OPTIONS",
            (Tok::Key(Kw::Set | Kw::Drop | Kw::Add), _) => {
                self.bump();
                return Err(self.unexpected());
            }
            _ => return Err(self.unexpected()),
        };
        self.skip_command(Kw::Alter)?;
        Ok(AlterAction::Unbuilt(name))
    }

    /// `Typename opt_collate_clause alter_using` behind TYPE.
    fn column_type(&mut self) -> PlanResult<ColumnChange> {
        let ty = self.type_name()?;
        let collation = match self.accept_key(Kw::Collate) {
            true => Some(self.any_name()?),
            false => None,
        };
        let using = match self.accept_key(Kw::Using) {
            true => Some(self.written(Self::expr)?),
            false => None,
        };
        Ok(ColumnChange::Type {
            ty,
            collation,
            using,
        })
    }

    /// `GENERATED … AS IDENTITY` behind ADD.
    fn added_identity(&mut self) -> PlanResult<ColumnChange> {
        match self.generated()? {
            ConstraintKind::Identity { always, options } => {
                Ok(ColumnChange::AddIdentity { always, options })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `alter_identity_column_option_list`
    fn set_identity(&mut self) -> PlanResult<ColumnChange> {
        let (mut always, mut options) = (None, Vec::new());
        loop {
            if self.is_key(Kw::Restart) {
                options.extend(self.sequence_option_here()?);
            } else if self.is_key(Kw::Set) {
                self.bump();
                if self.accept_key(Kw::Generated) {
                    let said = self.accept_key(Kw::Always);
                    if !said {
                        self.expect_key(Kw::By)?;
                        self.expect_key(Kw::Default)?;
                    }
                    always = Some(said);
                } else {
                    let option = self.sequence_option_here()?;
                    options.push(option.ok_or_else(|| self.unexpected())?);
                }
            } else {
                return Ok(ColumnChange::SetIdentity { always, options });
            }
        }
    }

    /// `RoleSpec`
    pub(super) fn role(&mut self) -> PlanResult<Role> {
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
