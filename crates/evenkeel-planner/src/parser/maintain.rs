//! COPY, VACUUM, ANALYZE, LOCK.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::keywords::Kw;
use super::settings::is_non_reserved;
use super::token::Tok;
use crate::ast::{
    Command, CommandOption, Copy, CopyFile, CopyTarget, LockMode, Maintain, Name, OptionValue, Pos,
    QualifiedName, Reindex, ReindexTarget,
};
use crate::error::{PlanError, PlanResult};

impl Parser<'_> {
    pub(super) fn copy(&mut self) -> PlanResult<Command> {
        self.bump();
        let mut options = Vec::new();
        let target = if self.accept_char(b'(') {
            let begin = self.pos();
            self.preparable()?;
            let end = self.expect_char(b')')?;
            CopyTarget::Query(begin, end)
        } else {
            let at = self.pos();
            if self.accept_key(Kw::Binary) {
                options.push(text_option("format", "binary", at));
            }
            let name = self.qualified_name()?;
            let columns = self.optional_names()?;
            CopyTarget::Table { name, columns }
        };
        let from = matches!(target, CopyTarget::Table { .. }) && self.accept_key(Kw::From);
        if !from {
            self.expect_key(Kw::To)?;
        }
        let file = self.copy_file()?;
        if matches!(target, CopyTarget::Table { .. }) {
            self.old_delimiter(&mut options)?;
        }
        self.accept_key(Kw::With);
        self.copy_options(&mut options)?;
        let filter_at = self.pos();
        let filter = match target {
            CopyTarget::Table { .. } => self.filter()?,
            CopyTarget::Query(..) => None,
        };
        if filter.is_some() && !from {
            let message = "WHERE clause not allowed with COPY TO";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(filter_at));
        }
        Ok(Command::Copy(Box::new(Copy {
            target,
            from,
            file,
            options,
            filter,
        })))
    }

    /// `opt_program copy_file_name`
    fn copy_file(&mut self) -> PlanResult<CopyFile> {
        let program = self.accept_key(Kw::Program);
        match self.peek() {
            Tok::Str => {
                self.bump();
                Ok(CopyFile::Server)
            }
            Tok::Key(Kw::Stdin | Kw::Stdout) => {
                self.bump();
                if program {
                    let message = "STDIN/STDOUT not allowed with PROGRAM";
                    return Err(PlanError::new(SqlState::SYNTAX_ERROR, message));
                }
                Ok(CopyFile::Client)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `copy_delimiter`
    fn old_delimiter(&mut self, options: &mut Vec<CommandOption>) -> PlanResult<()> {
        let at = self.pos();
        let using = self.accept_key(Kw::Using);
        if using || self.is_key(Kw::Delimiters) {
            self.expect_key(Kw::Delimiters)?;
            let value = OptionValue::Text(self.string()?);
            let name = "delimiter".to_owned();
            options.push(CommandOption { name, value, at });
        }
        Ok(())
    }

    fn copy_options(&mut self, options: &mut Vec<CommandOption>) -> PlanResult<()> {
        if self.accept_char(b'(') {
            options.extend(self.list(Self::copy_option)?);
            self.expect_char(b')')?;
            return Ok(());
        }
        while let Some(option) = self.old_copy_option()? {
            options.push(option);
        }
        Ok(())
    }

    /// `copy_generic_opt_elem`
    fn copy_option(&mut self) -> PlanResult<CommandOption> {
        let at = self.pos();
        let name = self.col_label()?.text;
        let value = match self.peek() {
            Tok::Char(b',' | b')') => OptionValue::Absent,
            Tok::Char(b'*') => {
                self.bump();
                OptionValue::Star
            }
            Tok::Char(b'(') => {
                self.bump();
                let list = self.list(Self::word_or_string)?;
                self.expect_char(b')')?;
                OptionValue::List(list)
            }
            Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => {
                OptionValue::Number(self.numeric()?)
            }
            Tok::Key(Kw::Default) => OptionValue::Text(self.take_name().text),
            _ => OptionValue::Text(self.word_or_string()?),
        };
        Ok(CommandOption { name, value, at })
    }

    /// `copy_opt_item`: the spelling of before PostgreSQL 9.0.
    fn old_copy_option(&mut self) -> PlanResult<Option<CommandOption>> {
        let at = self.pos();
        let Tok::Key(keyword) = self.peek() else {
            return Ok(None);
        };
        let option = match keyword {
            Kw::Binary => text_option("format", "binary", at),
            Kw::Csv => text_option("format", "csv", at),
            Kw::Freeze => text_option("freeze", "true", at),
            Kw::Header => text_option("header", "true", at),
            Kw::Delimiter | Kw::Null | Kw::Quote | Kw::Escape | Kw::Encoding => {
                self.bump();
                if keyword != Kw::Encoding {
                    self.accept_key(Kw::As);
                }
                let (name, value) = (keyword.text().to_owned(), self.string()?);
                let value = OptionValue::Text(value);
                return Ok(Some(CommandOption { name, value, at }));
            }
            Kw::Force => return self.force(at).map(Some),
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(option))
    }

    /// `FORCE QUOTE`, `FORCE NOT NULL`, `FORCE NULL`
    fn force(&mut self, at: Pos) -> PlanResult<CommandOption> {
        self.bump();
        let name = if self.accept_key(Kw::Quote) {
            "force_quote"
        } else if self.accept_key(Kw::Not) {
            self.expect_key(Kw::Null)?;
            "force_not_null"
        } else {
            self.expect_key(Kw::Null)?;
            "force_null"
        };
        let value = if self.accept_char(b'*') {
            OptionValue::Star
        } else {
            let names = self.list(Self::col_id)?;
            OptionValue::List(names.into_iter().map(|name| name.text).collect())
        };
        let name = name.to_owned();
        Ok(CommandOption { name, value, at })
    }

    /// VACUUM and ANALYZE.
    pub(super) fn maintain(&mut self) -> PlanResult<Command> {
        let vacuum = self.is_key(Kw::Vacuum);
        self.bump();
        let mut options = Vec::new();
        if self.is_char(b'(') {
            options = self.utility_options()?;
        } else {
            let words: &[(Kw, &str)] = match vacuum {
                true => &[
                    (Kw::Full, "full"),
                    (Kw::Freeze, "freeze"),
                    (Kw::Verbose, "verbose"),
                    (Kw::Analyze, "analyze"),
                    (Kw::Analyse, "analyze"),
                ],
                false => &[(Kw::Verbose, "verbose")],
            };
            for (word, name) in words {
                if self.is_key(*word) {
                    let at = self.bump();
                    let (name, value) = ((*name).to_owned(), OptionValue::Absent);
                    options.push(CommandOption { name, value, at });
                }
            }
        }
        let tables = if self.is_end() {
            Vec::new()
        } else {
            self.list(Self::maintained_table)?
        };
        let maintain = Maintain { options, tables };
        Ok(match vacuum {
            true => Command::Vacuum(maintain),
            false => Command::Analyze(maintain),
        })
    }

    pub(super) fn reindex(&mut self) -> PlanResult<Command> {
        self.bump();
        let options = match self.is_char(b'(') {
            true => self.utility_options()?,
            false => Vec::new(),
        };
        let Tok::Key(kind) = self.peek() else {
            return Err(self.unexpected());
        };
        if !matches!(
            kind,
            Kw::Index | Kw::Table | Kw::Schema | Kw::System | Kw::Database
        ) {
            return Err(self.unexpected());
        }
        self.bump();
        let concurrently = self.accept_key(Kw::Concurrently);
        let target = match kind {
            Kw::Index => ReindexTarget::Index(self.qualified_name()?),
            Kw::Table => ReindexTarget::Table(self.qualified_name()?),
            Kw::Schema => ReindexTarget::Schema(self.col_id()?),
            kind => {
                let name = match self.is_end() {
                    true => None,
                    false => Some(self.col_id()?),
                };
                match kind {
                    Kw::System => ReindexTarget::System,
                    _ => ReindexTarget::Database(name),
                }
            }
        };
        Ok(Command::Reindex(Reindex {
            options,
            target,
            concurrently,
        }))
    }

    /// `vacuum_relation`
    fn maintained_table(&mut self) -> PlanResult<(QualifiedName, Vec<Name>)> {
        let (name, _) = self.relation()?;
        Ok((name, self.optional_names()?))
    }

    pub(super) fn lock(&mut self) -> PlanResult<Command> {
        self.bump();
        self.accept_key(Kw::Table);
        let tables = self.list(|parser| Ok(parser.relation()?.0))?;
        let mode = if self.accept_key(Kw::In) {
            let mode = self.lock_mode()?;
            self.expect_key(Kw::Mode)?;
            mode
        } else {
            LockMode::AccessExclusive
        };
        let nowait = self.accept_key(Kw::Nowait);
        Ok(Command::Lock {
            tables,
            mode,
            nowait,
        })
    }

    /// `lock_type`
    fn lock_mode(&mut self) -> PlanResult<LockMode> {
        if self.accept_key(Kw::Access) {
            if self.accept_key(Kw::Share) {
                return Ok(LockMode::AccessShare);
            }
            self.expect_key(Kw::Exclusive)?;
            return Ok(LockMode::AccessExclusive);
        }
        if self.accept_key(Kw::Row) {
            if self.accept_key(Kw::Share) {
                return Ok(LockMode::RowShare);
            }
            self.expect_key(Kw::Exclusive)?;
            return Ok(LockMode::RowExclusive);
        }
        if !self.accept_key(Kw::Share) {
            self.expect_key(Kw::Exclusive)?;
            return Ok(LockMode::Exclusive);
        }
        if self.accept_key(Kw::Update) {
            self.expect_key(Kw::Exclusive)?;
            return Ok(LockMode::ShareUpdateExclusive);
        }
        if self.accept_key(Kw::Row) {
            self.expect_key(Kw::Exclusive)?;
            return Ok(LockMode::ShareRowExclusive);
        }
        Ok(LockMode::Share)
    }

    /// `NonReservedWord_or_Sconst`
    pub(super) fn word_of_extension(&mut self) -> PlanResult<String> {
        match self.peek() {
            Tok::Str => self.string(),
            tok if is_non_reserved(tok) => Ok(self.take_name().text),
            _ => Err(self.unexpected()),
        }
    }
}

fn text_option(name: &str, value: &str, at: Pos) -> CommandOption {
    CommandOption {
        name: name.to_owned(),
        value: OptionValue::Text(value.to_owned()),
        at,
    }
}
