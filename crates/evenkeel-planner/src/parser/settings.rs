//! Transactions and settings.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::keywords::{Category, Kw};
use super::token::Tok;
use crate::ast::{
    AlterSystem, Command, CommandOption, DatabaseChange, DatabaseSetting, IsolationLevel,
    OptionValue, SetSetting, TransactionCommand, TransactionModes,
};
use crate::error::{PlanError, PlanResult};
use crate::quote::identifier;

impl Parser<'_> {
    /// `TransactionStmt` behind its first word.
    pub(super) fn transaction_command(&mut self, verb: Kw) -> PlanResult<TransactionCommand> {
        if verb == Kw::Savepoint {
            return Ok(TransactionCommand::Savepoint(self.col_id()?.text));
        }
        if verb == Kw::Release {
            return Ok(TransactionCommand::Release(self.savepoint()?));
        }
        if verb == Kw::Start {
            self.expect_key(Kw::Transaction)?;
            return Ok(TransactionCommand::Begin(self.modes(false)?));
        }
        if !self.accept_key(Kw::Work) {
            self.accept_key(Kw::Transaction);
        }
        Ok(match verb {
            Kw::Begin => TransactionCommand::Begin(self.modes(false)?),
            Kw::Commit | Kw::End => TransactionCommand::Commit {
                chain: self.chain()?,
            },
            Kw::Rollback if self.accept_key(Kw::To) => {
                TransactionCommand::RollbackTo(self.savepoint()?)
            }
            _ => TransactionCommand::Rollback {
                chain: self.chain()?,
            },
        })
    }

    /// `[SAVEPOINT] ColId`
    fn savepoint(&mut self) -> PlanResult<String> {
        // The word itself may be the name.
        if self.is_key(Kw::Savepoint) && !matches!(self.peek_at(1), Tok::End | Tok::Char(b';')) {
            self.bump();
        }
        Ok(self.col_id()?.text)
    }

    /// `opt_transaction_chain`
    fn chain(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::And) {
            return Ok(false);
        }
        let no = self.accept_key(Kw::No);
        self.expect_key(Kw::Chain)?;
        Ok(!no)
    }

    /// `transaction_mode_list`, which may be empty unless it is `required`.
    fn modes(&mut self, required: bool) -> PlanResult<TransactionModes> {
        let mut modes = TransactionModes::default();
        let mut needed = required;
        loop {
            match self.peek() {
                Tok::Key(Kw::Isolation) => {
                    self.bump();
                    self.expect_key(Kw::Level)?;
                    modes.isolation = Some(self.isolation()?);
                }
                Tok::Key(Kw::Read) => {
                    self.bump();
                    let only = self.accept_key(Kw::Only);
                    if !only {
                        self.expect_key(Kw::Write)?;
                    }
                    modes.read_only = Some(only);
                }
                Tok::Key(Kw::Not) => {
                    self.bump();
                    self.expect_key(Kw::Deferrable)?;
                }
                // Deferrable matters to SERIALIZABLE only.
                Tok::Key(Kw::Deferrable) => {
                    self.bump();
                }
                _ if needed => return Err(self.unexpected()),
                _ => return Ok(modes),
            }
            needed = self.accept_char(b',');
        }
    }

    /// `iso_level`
    fn isolation(&mut self) -> PlanResult<IsolationLevel> {
        if self.accept_key(Kw::Serializable) {
            return Ok(IsolationLevel::Serializable);
        }
        if self.accept_key(Kw::Repeatable) {
            self.expect_key(Kw::Read)?;
            return Ok(IsolationLevel::RepeatableRead);
        }
        self.expect_key(Kw::Read)?;
        if !self.accept_key(Kw::Uncommitted) {
            self.expect_key(Kw::Committed)?;
        }
        Ok(IsolationLevel::ReadCommitted)
    }

    /// `SET CONSTRAINTS`
    fn set_constraints(&mut self) -> PlanResult<Command> {
        self.skip(2);
        let names = match self.accept_key(Kw::All) {
            true => Vec::new(),
            false => self.list(Self::qualified_name)?,
        };
        let deferred = self.accept_key(Kw::Deferred);
        if !deferred {
            self.expect_key(Kw::Immediate)?;
        }
        Ok(Command::SetConstraints { names, deferred })
    }

    /// `VariableSetStmt`, `ConstraintsSetStmt`
    pub(super) fn set(&mut self) -> PlanResult<Command> {
        let named = matches!(
            self.peek_at(2),
            Tok::Key(Kw::To | Kw::From) | Tok::Char(b'=' | b'.')
        );
        if self.peek_at(1) == Tok::Key(Kw::Constraints) && !named {
            return self.set_constraints();
        }
        self.bump();
        let scoped = !named && matches!(self.peek(), Tok::Key(Kw::Local | Kw::Session));
        let local = scoped && self.is_key(Kw::Local);
        let authorization =
            self.is_key(Kw::Session) && matches!(self.peek_at(1), Tok::Key(Kw::Authorization));
        if scoped && !authorization {
            self.bump();
        }
        if self.is_key(Kw::Transaction) && !self.names_setting() {
            self.bump();
            if self.accept_key(Kw::Snapshot) {
                self.string()?;
                return Ok(Command::Unbuilt("SET TRANSACTION SNAPSHOT"));
            }
            let modes = self.modes(true)?;
            let command = TransactionCommand::SetTransaction(modes);
            return Ok(Command::Transaction(command));
        }
        if self.is_key(Kw::Characteristics) && scoped && !local && !self.names_setting() {
            self.bump();
            self.expect_keys(&[Kw::As, Kw::Transaction])?;
            let command = TransactionCommand::SetSession(self.modes(true)?);
            return Ok(Command::Transaction(command));
        }
        self.set_rest(local)
    }

    /// `SetResetClause` of a database.
    pub(super) fn database_setting(&mut self) -> PlanResult<DatabaseChange> {
        let change = if self.is_key(Kw::Reset) {
            match self.reset()? {
                Command::Reset(name) => DatabaseSetting::Reset(name),
                _ => return Ok(DatabaseChange::Unbuilt("ALTER DATABASE RESET of a role")),
            }
        } else {
            self.bump();
            let modes = matches!(self.peek(), Tok::Key(Kw::Transaction | Kw::Session));
            if modes && !self.names_setting() {
                self.skip_command(Kw::Alter)?;
                let what = "ALTER DATABASE SET of a transaction's modes or a role";
                return Ok(DatabaseChange::Unbuilt(what));
            }
            match self.set_rest(false)? {
                Command::Set(set) => DatabaseSetting::Set(set.name, set.value),
                Command::SetFromCurrent { name, .. } => DatabaseSetting::FromCurrent(name),
                _ => return Ok(DatabaseChange::Unbuilt("ALTER DATABASE SET of a role")),
            }
        };
        Ok(DatabaseChange::Setting(change))
    }

    /// Whether the word that is next is the name of a setting that is given a value.
    fn names_setting(&self) -> bool {
        matches!(
            self.peek_at(1),
            Tok::Key(Kw::To | Kw::From) | Tok::Char(b'=' | b'.')
        )
    }

    /// `set_rest_more`
    fn set_rest(&mut self, local: bool) -> PlanResult<Command> {
        let setting = |name: &str, value| {
            let name = name.to_owned();
            Command::Set(SetSetting { name, value, local })
        };
        if !self.names_setting() {
            match self.peek() {
                Tok::Key(Kw::Time) => {
                    self.bump();
                    self.expect_key(Kw::Zone)?;
                    return Ok(setting("timezone", self.zone()?));
                }
                Tok::Key(Kw::Names) => {
                    self.bump();
                    let value = match self.peek() {
                        Tok::Str => Some(self.string()?),
                        _ => {
                            self.accept_key(Kw::Default);
                            None
                        }
                    };
                    return Ok(setting("client_encoding", value));
                }
                Tok::Key(Kw::Schema) => {
                    self.bump();
                    return Ok(setting("search_path", Some(self.string()?)));
                }
                Tok::Key(Kw::Catalog) => return Err(self.set_catalog()?),
                Tok::Key(Kw::Role) => {
                    self.bump();
                    self.word_or_string()?;
                    return Ok(Command::Unbuilt("SET ROLE"));
                }
                Tok::Key(Kw::Session) => {
                    self.bump();
                    self.expect_key(Kw::Authorization)?;
                    if !self.accept_key(Kw::Default) {
                        self.word_or_string()?;
                    }
                    return Ok(Command::Unbuilt("SET SESSION AUTHORIZATION"));
                }
                Tok::Key(Kw::Xml) => {
                    self.bump();
                    self.expect_key(Kw::Option)?;
                    if !self.accept_key(Kw::Document) {
                        self.expect_key(Kw::Content)?;
                    }
                    return Ok(Command::Unbuilt("SET XML OPTION"));
                }
                _ => {}
            }
        }
        let name = self.setting_name()?;
        if self.accept_key(Kw::From) {
            self.expect_key(Kw::Current)?;
            return Ok(Command::SetFromCurrent { name, local });
        }
        let value = self.given_value(&name)?;
        Ok(setting(&name, value))
    }

    /// The value of a `generic_set`; `None` for DEFAULT. The items of a list of names are quoted,
    /// as `flatten_set_variable_args` does it.
    fn given_value(&mut self, name: &str) -> PlanResult<Option<String>> {
        if !self.accept_char(b'=') {
            self.expect_key(Kw::To)?;
        }
        if self.accept_key(Kw::Default) {
            return Ok(None);
        }
        let mut values = self.list(Self::setting_value)?;
        if name == "search_path" {
            values = values.iter().map(|name| identifier(name)).collect();
        }
        Ok(Some(values.join(", ")))
    }

    /// `AlterSystemStmt`
    pub(super) fn alter_system(&mut self) -> PlanResult<Command> {
        self.bump();
        self.bump();
        let change = if self.accept_key(Kw::Set) {
            let name = self.setting_name()?;
            let value = self.given_value(&name)?;
            AlterSystem::Set(name, value)
        } else {
            self.expect_key(Kw::Reset)?;
            let name = match self.accept_key(Kw::All) {
                true => None,
                false => Some(self.setting_name()?),
            };
            AlterSystem::Reset(name)
        };
        Ok(Command::AlterSystem(change))
    }

    fn set_catalog(&mut self) -> PlanResult<PlanError> {
        self.bump();
        let at = self.pos();
        self.string()?;
        let message = "current database cannot be changed";
        Ok(PlanError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(at))
    }

    /// `zone_value`
    fn zone(&mut self) -> PlanResult<Option<String>> {
        match self.peek() {
            Tok::Key(Kw::Default | Kw::Local) => {
                self.bump();
                Ok(None)
            }
            Tok::Key(Kw::Interval) => {
                let message = "SET TIME ZONE with an interval is not supported";
                Err(PlanError::unsupported(message).at(self.pos()))
            }
            Tok::Str | Tok::Ident => Ok(Some(self.take_name().text)),
            Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => self.numeric().map(Some),
            _ => Err(self.unexpected()),
        }
    }

    /// `var_name`, in lower case.
    fn setting_name(&mut self) -> PlanResult<String> {
        let mut name = self.col_id()?.text;
        while self.accept_char(b'.') {
            name.push('.');
            name.push_str(&self.col_id()?.text);
        }
        Ok(name.to_lowercase())
    }

    /// `var_value`
    fn setting_value(&mut self) -> PlanResult<String> {
        match self.peek() {
            Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => self.numeric(),
            _ => self.word_or_string(),
        }
    }

    /// `Sconst`
    pub(super) fn string(&mut self) -> PlanResult<String> {
        if self.peek() != Tok::Str {
            return Err(self.unexpected());
        }
        Ok(self.take_name().text)
    }

    /// `opt_boolean_or_string`
    pub(super) fn word_or_string(&mut self) -> PlanResult<String> {
        match self.peek() {
            Tok::Str | Tok::Key(Kw::True | Kw::False | Kw::On) => Ok(self.take_name().text),
            tok if is_non_reserved(tok) => Ok(self.take_name().text),
            _ => Err(self.unexpected()),
        }
    }

    /// `NumericOnly`
    pub(super) fn numeric(&mut self) -> PlanResult<String> {
        let negative = self.is_char(b'-');
        if negative || self.is_char(b'+') {
            self.bump();
        }
        if !matches!(self.peek(), Tok::Integer | Tok::Number) {
            return Err(self.unexpected());
        }
        let digits = match self.peek() {
            Tok::Integer => self.number().to_string(),
            _ => self.word().to_owned(),
        };
        self.bump();
        let sign = if negative { "-" } else { "" };
        Ok(format!("{sign}{digits}"))
    }

    /// `RESET`
    pub(super) fn reset(&mut self) -> PlanResult<Command> {
        self.bump();
        let name = self.shown_name()?;
        Ok(match name.as_str() {
            "session authorization" => Command::Unbuilt("RESET SESSION AUTHORIZATION"),
            "all" => Command::Reset(None),
            _ => Command::Reset(Some(name)),
        })
    }

    /// `SHOW`
    pub(super) fn show(&mut self) -> PlanResult<Command> {
        self.bump();
        let name = self.shown_name()?;
        Ok(match name.as_str() {
            "session authorization" => Command::Show("session_authorization".to_owned()),
            _ => Command::Show(name),
        })
    }

    /// The name of a setting, with the spellings of the standard; `all` for ALL.
    fn shown_name(&mut self) -> PlanResult<String> {
        let alone = matches!(self.peek_at(1), Tok::End | Tok::Char(b';' | b'.'));
        let (words, name): (&[Kw], _) = match self.peek() {
            Tok::Key(Kw::All) => (&[Kw::All], "all"),
            Tok::Key(Kw::Time) if !alone => (&[Kw::Time, Kw::Zone], "timezone"),
            Tok::Key(Kw::Transaction) if !alone => (
                &[Kw::Transaction, Kw::Isolation, Kw::Level],
                "transaction_isolation",
            ),
            Tok::Key(Kw::Session) if !alone => {
                (&[Kw::Session, Kw::Authorization], "session authorization")
            }
            _ => return self.setting_name(),
        };
        self.expect_keys(words)?;
        Ok(name.to_owned())
    }

    /// `utility_option_list` in parentheses.
    pub(super) fn utility_options(&mut self) -> PlanResult<Vec<CommandOption>> {
        self.expect_char(b'(')?;
        let options = self.list(|parser| {
            let at = parser.pos();
            let name = match parser.peek() {
                Tok::Key(Kw::Analyze | Kw::Analyse) => {
                    parser.bump();
                    "analyze".to_owned()
                }
                Tok::Joined(Kw::Format) => {
                    parser.bump();
                    "format".to_owned()
                }
                tok if is_non_reserved(tok) => parser.take_name().text,
                _ => return Err(parser.unexpected()),
            };
            let value = match parser.peek() {
                Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => {
                    OptionValue::Number(parser.numeric()?)
                }
                Tok::Char(b',' | b')') => OptionValue::Absent,
                _ => OptionValue::Text(parser.word_or_string()?),
            };
            Ok(CommandOption { name, value, at })
        })?;
        self.expect_char(b')')?;
        Ok(options)
    }

    /// `reloptions`, `definition`: names with values after `=`, in parentheses.
    pub(super) fn definitions(&mut self) -> PlanResult<Vec<CommandOption>> {
        self.expect_char(b'(')?;
        let options = self.list(|parser| {
            let at = parser.pos();
            let mut name = parser.col_label()?.text;
            if parser.accept_char(b'.') {
                name = format!("{name}.{}", parser.col_label()?.text);
            }
            let value = if parser.accept_char(b'=') {
                parser.definition_value()?
            } else {
                OptionValue::Absent
            };
            Ok(CommandOption { name, value, at })
        })?;
        self.expect_char(b')')?;
        Ok(options)
    }

    /// `def_arg`
    fn definition_value(&mut self) -> PlanResult<OptionValue> {
        match self.peek() {
            Tok::Str => Ok(OptionValue::Text(self.string()?)),
            Tok::Char(b'+' | b'-') | Tok::Integer | Tok::Number => {
                self.numeric().map(OptionValue::Number)
            }
            Tok::Key(keyword) if keyword.category() == Category::Reserved => {
                Ok(OptionValue::Text(self.take_name().text))
            }
            Tok::Key(Kw::None) => Ok(OptionValue::Text(self.take_name().text)),
            Tok::Op | Tok::Char(_) => self.operator_symbol().map(OptionValue::Text),
            _ => {
                let ty = self.type_name()?;
                Ok(OptionValue::Text(ty.name.last().to_owned()))
            }
        }
    }
}

/// `NonReservedWord`
pub(super) fn is_non_reserved(tok: Tok) -> bool {
    match tok {
        Tok::Ident => true,
        Tok::Key(keyword) => keyword.category() != Category::Reserved,
        _ => false,
    }
}
