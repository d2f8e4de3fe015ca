//! CREATE, ALTER and DROP DATABASE: their options and PostgreSQL's checks.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_planner::ast::{
    CommandOption, DatabaseChange as Change, DatabaseCommand, DatabaseSetting, Name, OptionValue,
};

use evenkeel_engine::block_on;

use super::Session;
use super::commands::refuse_setting;
use crate::databases::{Closed, DatabaseChange, NewDatabase, SettingChange};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::options::{flag, placed, required};
use crate::protocol::Oid;

/// How long a command waits for a database to be free, and how often it looks.
const LOOKS: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Locales in which strings compare by their bytes, as they do here.
const LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.UTF8", "C.utf8"];

impl Session {
    pub(super) async fn database_command(&mut self, command: &DatabaseCommand) -> SqlResult<()> {
        match command {
            DatabaseCommand::Create { name, options } => self.create_database(name, options).await,
            DatabaseCommand::Drop {
                name,
                if_exists,
                force,
            } => self.drop_database(&name.text, *if_exists, *force).await,
            DatabaseCommand::Alter { name, change } => {
                self.alter_database(&name.text, change).await
            }
        }
    }

    async fn create_database(&mut self, name: &Name, given: &[CommandOption]) -> SqlResult<()> {
        let options = self.database_options(given, true)?;
        self.refuse_in_block("CREATE DATABASE")?;
        let template = options.template.as_deref().unwrap_or("template1");
        let databases = Arc::clone(self.engine.databases());
        let Some(template) = databases.named(template) else {
            let message = format!("template database \"{template}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        };
        if databases.named(&name.text).is_some() {
            let message = format!("database \"{}\" already exists", name.text);
            return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, message));
        }
        let busy = format!(
            "source database \"{}\" is being accessed by other users",
            template.name
        );
        let closed = self.close_database(template.oid, busy).await?;
        let template = match template.files.is_made() {
            true => Some(databases.catalog(template.oid)?),
            false => None,
        };
        let new = NewDatabase {
            name: name.text.clone(),
            is_template: options.change.is_template.unwrap_or(false),
            allows_connections: options.change.allows_connections.unwrap_or(true),
            connection_limit: options.change.connection_limit.unwrap_or(-1),
        };
        keep_closed(self.tx.txn()?, closed);
        self.off_runtime(move |_, txn, _| {
            block_on(databases.create(txn, &new, template.as_deref()))
        })
        .await
    }

    async fn drop_database(&mut self, name: &str, if_exists: bool, force: bool) -> SqlResult<()> {
        self.refuse_in_block("DROP DATABASE")?;
        let databases = Arc::clone(self.engine.databases());
        let Some(info) = databases.named(name) else {
            if !if_exists {
                return databases.expect(name).map(drop);
            }
            let message = format!("database \"{name}\" does not exist, skipping");
            self.notice("NOTICE", SqlState::INVALID_CATALOG_NAME, message);
            return Ok(());
        };
        if info.is_template {
            let message = "cannot drop a template database";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if info.oid == self.seat.info().oid {
            let message = "cannot drop the currently open database";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if force {
            for backend in self.engine.instance().backends().list() {
                if backend.database_oid == info.oid {
                    backend.terminate();
                }
            }
        }
        let busy = format!("database \"{name}\" is being accessed by other users");
        let closed = self.close_database(info.oid, busy).await?;
        let txn = self.tx.txn()?;
        keep_closed(txn, closed);
        databases.drop_database(txn, info.oid).await
    }

    async fn alter_database(&mut self, name: &str, change: &Change) -> SqlResult<()> {
        let databases = Arc::clone(self.engine.databases());
        let change = match change {
            Change::Unbuilt(clause) => return Err(SqlError::unsupported(*clause)),
            Change::Owner(owner) => {
                databases.expect(name)?;
                return self.check_owner(owner);
            }
            Change::Options(given) => {
                let options = self.database_options(given, false)?;
                let oid = databases.expect(name)?.oid;
                if options.change.allows_connections == Some(false) && oid == self.seat.info().oid {
                    let message = "cannot disallow connections for current database";
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                options.change
            }
            Change::Setting(setting) => {
                databases.expect(name)?;
                DatabaseChange {
                    setting: Some(self.database_setting(setting)?),
                    ..DatabaseChange::default()
                }
            }
            Change::Rename(to) => {
                let oid = databases.expect(name)?.oid;
                if oid == self.seat.info().oid {
                    let message = "current database cannot be renamed";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let busy = format!("database \"{name}\" is being accessed by other users");
                let closed = self.close_database(oid, busy).await?;
                keep_closed(self.tx.txn()?, closed);
                DatabaseChange {
                    name: Some(to.text.clone()),
                    ..DatabaseChange::default()
                }
            }
        };
        databases.alter(self.tx.txn()?, name, &change).await
    }

    fn database_setting(&mut self, setting: &DatabaseSetting) -> SqlResult<SettingChange> {
        let current;
        let (name, value) = match setting {
            DatabaseSetting::Reset(None) => return Ok(SettingChange::ResetAll),
            DatabaseSetting::Reset(Some(name)) => (name, None),
            DatabaseSetting::Set(name, value) => (name, value.as_deref()),
            DatabaseSetting::FromCurrent(name) => {
                current = self.setting(name)?;
                (name, Some(current.as_str()))
            }
        };
        refuse_setting(name, value)?;
        let (name, without_effect) = self.settings.of_database(name, value)?;
        if let Some(without_effect) = without_effect {
            self.notice("NOTICE", SqlState::SUCCESS, without_effect);
        }
        Ok(match value {
            Some(value) => SettingChange::Set(name, value.to_owned()),
            None => SettingChange::Reset(name),
        })
    }

    /// Comments on another database than the session's: its catalog is not open here, so the
    /// comment is in its row.
    pub(super) async fn comment_on_database(
        &mut self,
        name: &str,
        text: Option<&str>,
    ) -> SqlResult<()> {
        let databases = Arc::clone(self.engine.databases());
        let change = DatabaseChange {
            comment: Some(Some(Arc::from(text.unwrap_or_default()))),
            ..DatabaseChange::default()
        };
        databases.alter(self.tx.txn()?, name, &change).await
    }

    /// A comment of the session's own database goes to its catalog, and takes the place of one that
    /// another database's session gave it.
    pub(super) async fn comment_on_own_database(&mut self) -> SqlResult<()> {
        let databases = Arc::clone(self.engine.databases());
        let own = databases.list();
        let own = own.iter().find(|info| info.oid == self.seat.info().oid);
        let Some(own) = own.filter(|own| own.comment.is_some()) else {
            return Ok(());
        };
        let change = DatabaseChange {
            comment: Some(None),
            ..DatabaseChange::default()
        };
        databases.alter(self.tx.txn()?, &own.name, &change).await
    }

    /// Closes a database to all but this session; 55006, with this message, if others stay in it.
    async fn close_database(&mut self, oid: Oid, busy: String) -> SqlResult<Closed> {
        let own = usize::from(self.seat.info().oid == oid);
        let mut others = 0;
        for _ in 0..LOOKS {
            match self.engine.databases().close(oid, own)? {
                Ok(closed) => return Ok(closed),
                Err(count) => others = count,
            }
            tokio::time::sleep(LOOK_EVERY).await;
            self.cancel.check()?;
        }
        let detail = match others {
            1 => "There is 1 other session using the database.".to_owned(),
            _ => format!("There are {others} other sessions using the database."),
        };
        Err(SqlError::new(SqlState::OBJECT_IN_USE, busy).detail(detail))
    }

    /// The options of CREATE DATABASE, or of ALTER DATABASE, which knows few of them.
    fn database_options(&self, given: &[CommandOption], create: bool) -> SqlResult<Options> {
        let mut options = Options::default();
        for (at, option) in given.iter().enumerate() {
            let again = given[..at].iter().any(|other| other.name == option.name);
            if again {
                let error = SqlError::syntax("conflicting or redundant options");
                return Err(placed(error, option, &self.current_text));
            }
            let known =
                options.set(option)? || (create && self.set_of_create(&mut options, option)?);
            if !known {
                let message = format!("option \"{}\" not recognized", option.name);
                return Err(placed(
                    SqlError::syntax(message),
                    option,
                    &self.current_text,
                ));
            }
        }
        Ok(options)
    }

    /// An option that CREATE DATABASE alone has; whether it is known.
    fn set_of_create(&self, options: &mut Options, option: &CommandOption) -> SqlResult<bool> {
        let value = option.value.text();
        match option.name.as_str() {
            "template" => options.template = value.map(str::to_owned),
            "owner" => {
                if let Some(name) = value
                    && name != self.params.user
                {
                    let message = format!("role \"{name}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
            }
            "tablespace" => {
                if let Some(name) = value.filter(|name| *name != "pg_default") {
                    let message = format!("tablespace \"{name}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
            }
            "encoding" => check_encoding(&option.value)
                .map_err(|error| placed(error, option, &self.current_text))?,
            "locale" | "lc_collate" | "lc_ctype" | "builtin_locale" => {
                if let Some(name) = value.filter(|name| !LOCALES.contains(name)) {
                    return Err(SqlError::unsupported(format!("locale \"{name}\""))
                        .hint("Strings compare by their bytes, as in locale \"C\"."));
                }
            }
            "locale_provider" => check_provider(required(option)?)?,
            "icu_locale" | "icu_rules" | "oid" => {
                let clause = option.name.to_uppercase();
                return Err(SqlError::unsupported(format!("{clause} of a database")));
            }
            "strategy" => check_strategy(required(option)?)?,
            // Of the locale's provider, which has none that change.
            "collation_version" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The options as they were given.
#[derive(Default)]
struct Options {
    template: Option<String>,
    change: DatabaseChange,
}

impl Options {
    /// An option of CREATE and ALTER DATABASE; whether it is known.
    fn set(&mut self, option: &CommandOption) -> SqlResult<bool> {
        match option.name.as_str() {
            "is_template" => self.change.is_template = Some(flag(option)?),
            "allow_connections" => self.change.allows_connections = Some(flag(option)?),
            "connection_limit" => {
                let text = option.value.text().unwrap_or("-1");
                let limit = text.parse().ok().filter(|limit: &i32| *limit >= -1);
                let limit = limit.ok_or_else(|| {
                    let message = format!("invalid connection limit: {text}");
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                })?;
                self.change.connection_limit = Some(limit);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The encoding is UTF-8, by its name or PostgreSQL's number.
fn check_encoding(value: &OptionValue) -> SqlResult<()> {
    let Some(given) = value.text() else {
        return Ok(());
    };
    let name: String = given.chars().filter(|c| c.is_alphanumeric()).collect();
    match (value, name.to_ascii_lowercase().as_str()) {
        (OptionValue::Number(_), "6") | (OptionValue::Text(_), "utf8" | "unicode") => Ok(()),
        (OptionValue::Text(_), known) if ENCODINGS.contains(&known) => {
            Err(SqlError::unsupported(format!("encoding \"{given}\""))
                .hint("The encoding of every database is UTF8."))
        }
        (OptionValue::Number(_), _) => {
            let message = format!("{given} is not a valid encoding code");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
        _ => {
            let message = format!("{given} is not a valid encoding name");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Other encodings that PostgreSQL's databases may have, in its normal form.
const ENCODINGS: [&str; 12] = [
    "sqlascii", "latin1", "latin2", "latin9", "win1250", "win1251", "win1252", "koi8r", "eucjp",
    "euckr", "euctw", "iso88595",
];

fn check_provider(name: &str) -> SqlResult<()> {
    match name {
        "libc" | "builtin" => Ok(()),
        "icu" => Err(SqlError::unsupported("locale provider \"icu\"")),
        _ => {
            let message = format!("unrecognized locale provider: {name}");
            Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
        }
    }
}

/// Both of PostgreSQL's ways to copy a template, of which this one logs every page.
fn check_strategy(name: &str) -> SqlResult<()> {
    if ["wal_log", "file_copy"].contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let message = format!("invalid create database strategy \"{name}\"");
    let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    Err(error.hint("Valid strategies are \"wal_log\" and \"file_copy\"."))
}

/// Keeps a database closed until the transaction ends.
fn keep_closed(txn: &mut evenkeel_engine::Transaction, closed: Closed) {
    let closed = Arc::new(closed);
    let other = Arc::clone(&closed);
    txn.on_commit(Box::new(move || drop(closed)));
    txn.on_abort(Box::new(move || drop(other)));
}
