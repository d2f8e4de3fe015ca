//! Commands: which one a text begins, and those that are not built.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Command, Discarded, Statement, TransactionCommand};
use crate::error::PlanResult;

impl Parser<'_> {
    /// `stmt`
    pub(super) fn statement(&mut self) -> PlanResult<Statement> {
        if let Some(keyword) = self.peek_key()
            && is_command(keyword)
        {
            return Ok(match self.command(keyword)? {
                Some(command) => Statement::Command(Box::new(command)),
                None => self.unbuilt_command(keyword)?,
            });
        }
        self.preparable()
    }

    fn unbuilt_command(&mut self, keyword: Kw) -> PlanResult<Statement> {
        let name = self.unbuilt()?;
        self.skip_command(keyword)?;
        Ok(Statement::Command(Box::new(Command::Unbuilt(name))))
    }

    /// A command that is built; `None`, with nothing taken, for any other.
    fn command(&mut self, keyword: Kw) -> PlanResult<Option<Command>> {
        Ok(Some(match keyword {
            Kw::Abort
            | Kw::Begin
            | Kw::Commit
            | Kw::End
            | Kw::Release
            | Kw::Rollback
            | Kw::Savepoint
            | Kw::Start => match self.transaction(keyword)? {
                Some(command) => Command::Transaction(command),
                None => return Ok(None),
            },
            Kw::Set => self.set()?,
            Kw::Show => self.show()?,
            Kw::Reset => self.reset()?,
            Kw::Discard => self.discard()?,
            Kw::Prepare if self.peek_at(1) != Tok::Key(Kw::Transaction) => self.prepare()?,
            Kw::Execute => self.execute()?,
            Kw::Deallocate => self.deallocate()?,
            Kw::Listen => self.listen()?,
            Kw::Notify => self.notify()?,
            Kw::Unlisten => self.unlisten()?,
            Kw::Explain => self.explain()?,
            Kw::Declare => self.declare()?,
            Kw::Fetch | Kw::Move => self.fetch()?,
            Kw::Close => self.close()?,
            Kw::Copy => self.copy()?,
            Kw::Vacuum | Kw::Analyze | Kw::Analyse => self.maintain()?,
            Kw::Reindex => self.reindex()?,
            Kw::Lock => self.lock()?,
            Kw::Checkpoint => {
                self.bump();
                Command::Checkpoint
            }
            Kw::Alter if self.peek_at(1) == Tok::Key(Kw::System) => self.alter_system()?,
            Kw::Create | Kw::Alter | Kw::Drop | Kw::Truncate | Kw::Comment => {
                return Ok(self.define(keyword)?.map(|d| Command::Define(Box::new(d))));
            }
            _ => return Ok(None),
        }))
    }

    fn discard(&mut self) -> PlanResult<Command> {
        self.bump();
        let discarded = match self.peek() {
            Tok::Key(Kw::All) => Discarded::All,
            Tok::Key(Kw::Plans) => Discarded::Plans,
            Tok::Key(Kw::Sequences) => Discarded::Sequences,
            Tok::Key(Kw::Temp | Kw::Temporary) => Discarded::Temp,
            _ => return Err(self.unexpected()),
        };
        self.bump();
        Ok(Command::Discard(discarded))
    }

    /// The name of a command that is not built, by its first words.
    ///
    /// # Errors
    /// 42601 at the first word that begins no command.
    fn unbuilt(&mut self) -> PlanResult<&'static str> {
        let mut longest = 0;
        let mut found = None;
        for (words, name) in UNBUILT {
            let read = words.iter().enumerate();
            let same = read
                .take_while(|(at, word)| self.peek_at(*at) == Tok::Key(**word))
                .count();
            longest = longest.max(same);
            if same == words.len() && found.is_none() {
                found = Some(*name);
            }
        }
        if found.is_none() {
            for _ in 0..longest {
                self.bump();
            }
        }
        found.ok_or_else(|| self.unexpected())
    }

    /// Skips a command up to its end: a semicolon outside of parentheses and of a function's body
    /// between BEGIN ATOMIC and END.
    pub(super) fn skip_command(&mut self, keyword: Kw) -> PlanResult<()> {
        let mut parentheses = 0_usize;
        let mut blocks = 0_usize;
        loop {
            match self.peek() {
                Tok::End => return Ok(()),
                Tok::Bad => return Err(self.unexpected()),
                Tok::Char(b'(') => parentheses += 1,
                Tok::Char(b')') => parentheses = parentheses.saturating_sub(1),
                Tok::Char(b';') if parentheses == 0 && blocks == 0 => return Ok(()),
                Tok::Key(Kw::Begin)
                    if keyword == Kw::Create && self.peek_at(1) == Tok::Key(Kw::Atomic) =>
                {
                    blocks += 1;
                }
                Tok::Key(Kw::Case) if blocks > 0 => blocks += 1,
                Tok::Key(Kw::End) => blocks = blocks.saturating_sub(1),
                _ => {}
            }
            self.bump();
        }
    }

    /// Whether the statement ends here.
    pub(super) fn is_end(&self) -> bool {
        matches!(self.peek(), Tok::End | Tok::Char(b';'))
    }

    fn transaction(&mut self, keyword: Kw) -> PlanResult<Option<TransactionCommand>> {
        let prepared = self.peek_at(1) == Tok::Key(Kw::Prepared);
        if matches!(keyword, Kw::Commit | Kw::Rollback) && prepared {
            return Ok(None);
        }
        self.bump();
        self.transaction_command(keyword).map(Some)
    }
}

/// Whether a keyword begins a command.
fn is_command(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::Abort
            | Kw::Alter
            | Kw::Analyse
            | Kw::Analyze
            | Kw::Begin
            | Kw::Call
            | Kw::Checkpoint
            | Kw::Close
            | Kw::Cluster
            | Kw::Comment
            | Kw::Commit
            | Kw::Copy
            | Kw::Create
            | Kw::Deallocate
            | Kw::Declare
            | Kw::Discard
            | Kw::Do
            | Kw::Drop
            | Kw::End
            | Kw::Execute
            | Kw::Explain
            | Kw::Fetch
            | Kw::Grant
            | Kw::Import
            | Kw::Listen
            | Kw::Load
            | Kw::Lock
            | Kw::Move
            | Kw::Notify
            | Kw::Prepare
            | Kw::Reassign
            | Kw::Refresh
            | Kw::Reindex
            | Kw::Release
            | Kw::Reset
            | Kw::Revoke
            | Kw::Rollback
            | Kw::Savepoint
            | Kw::Security
            | Kw::Set
            | Kw::Show
            | Kw::Start
            | Kw::Truncate
            | Kw::Unlisten
            | Kw::Vacuum
    )
}

macro_rules! unbuilt {
    ($($name:literal: $($word:ident)+;)*) => {
        /// The first words of commands that are not built, with the command's name. The first of
        /// several that match counts.
        const UNBUILT: &[(&[Kw], &str)] = &[$((&[$(Kw::$word),+], $name),)*];
    };
}

unbuilt! {
    "CALL": Call;
    "CLUSTER": Cluster;
    "COMMENT": Comment On;
    "COMMIT PREPARED": Commit Prepared;
    "DO": Do;
    "GRANT": Grant;
    "IMPORT FOREIGN SCHEMA": Import Foreign Schema;
    "LOAD": Load;
    "PREPARE TRANSACTION": Prepare Transaction;
    "REASSIGN OWNED": Reassign Owned;
    "REFRESH MATERIALIZED VIEW": Refresh Materialized View;
    "REVOKE": Revoke;
    "ROLLBACK PREPARED": Rollback Prepared;
    "SECURITY LABEL": Security Label;
    "CREATE ACCESS METHOD": Create Access Method;
    "CREATE AGGREGATE": Create Aggregate;
    "CREATE AGGREGATE": Create Or Replace Aggregate;
    "CREATE CAST": Create Cast;
    "CREATE COLLATION": Create Collation;
    "CREATE TRIGGER": Create Constraint Trigger;
    "CREATE TRIGGER": Create Or Replace Constraint Trigger;
    "CREATE CONVERSION": Create Conversion;
    "CREATE CONVERSION": Create Default Conversion;
    "CREATE EVENT TRIGGER": Create Event Trigger;
    "CREATE FOREIGN DATA WRAPPER": Create Foreign Data Wrapper;
    "CREATE FOREIGN TABLE": Create Foreign Table;
    "CREATE FUNCTION": Create Function;
    "CREATE FUNCTION": Create Or Replace Function;
    "CREATE ROLE": Create Group;
    "CREATE LANGUAGE": Create Language;
    "CREATE LANGUAGE": Create Or Replace Language;
    "CREATE LANGUAGE": Create Procedural Language;
    "CREATE LANGUAGE": Create Or Replace Procedural Language;
    "CREATE LANGUAGE": Create Trusted;
    "CREATE LANGUAGE": Create Or Replace Trusted;
    "CREATE MATERIALIZED VIEW": Create Materialized View;
    "CREATE MATERIALIZED VIEW": Create Unlogged Materialized View;
    "CREATE OPERATOR": Create Operator;
    "CREATE POLICY": Create Policy;
    "CREATE PROCEDURE": Create Procedure;
    "CREATE PROCEDURE": Create Or Replace Procedure;
    "CREATE PUBLICATION": Create Publication;
    "CREATE ROLE": Create Role;
    "CREATE RULE": Create Rule;
    "CREATE RULE": Create Or Replace Rule;
    "CREATE SEQUENCE": Create Sequence;
    "CREATE SEQUENCE": Create Temp Sequence;
    "CREATE SEQUENCE": Create Temporary Sequence;
    "CREATE SEQUENCE": Create Local Temp Sequence;
    "CREATE SEQUENCE": Create Local Temporary Sequence;
    "CREATE SEQUENCE": Create Global Temp Sequence;
    "CREATE SEQUENCE": Create Global Temporary Sequence;
    "CREATE SEQUENCE": Create Unlogged Sequence;
    "CREATE SERVER": Create Server;
    "CREATE STATISTICS": Create Statistics;
    "CREATE SUBSCRIPTION": Create Subscription;
    "CREATE TABLESPACE": Create Tablespace;
    "CREATE TEXT SEARCH": Create Text Search;
    "CREATE TRANSFORM": Create Transform;
    "CREATE TRANSFORM": Create Or Replace Transform;
    "CREATE TRIGGER": Create Trigger;
    "CREATE TRIGGER": Create Or Replace Trigger;
    "CREATE TYPE": Create Type;
    "CREATE USER MAPPING": Create User Mapping;
    "CREATE ROLE": Create User;
    "CREATE VIEW": Create View;
    "CREATE VIEW": Create Or Replace View;
    "CREATE VIEW": Create Recursive View;
    "CREATE VIEW": Create Or Replace Recursive View;
    "CREATE VIEW": Create Temp View;
    "CREATE VIEW": Create Temporary View;
    "CREATE VIEW": Create Temp Recursive View;
    "CREATE VIEW": Create Temporary Recursive View;
    "CREATE VIEW": Create Or Replace Temp View;
    "CREATE VIEW": Create Or Replace Temporary View;
    "CREATE VIEW": Create Local Temp View;
    "CREATE VIEW": Create Local Temporary View;
    "CREATE VIEW": Create Global Temp View;
    "CREATE VIEW": Create Global Temporary View;
    "ALTER AGGREGATE": Alter Aggregate;
    "ALTER COLLATION": Alter Collation;
    "ALTER CONVERSION": Alter Conversion;
    "ALTER DEFAULT PRIVILEGES": Alter Default Privileges;
    "ALTER EVENT TRIGGER": Alter Event Trigger;
    "ALTER EXTENSION": Alter Extension;
    "ALTER FOREIGN DATA WRAPPER": Alter Foreign Data Wrapper;
    "ALTER FOREIGN TABLE": Alter Foreign Table;
    "ALTER FUNCTION": Alter Function;
    "ALTER ROLE": Alter Group;
    "ALTER INDEX": Alter Index;
    "ALTER LANGUAGE": Alter Language;
    "ALTER LANGUAGE": Alter Procedural Language;
    "ALTER LARGE OBJECT": Alter Large Object;
    "ALTER MATERIALIZED VIEW": Alter Materialized View;
    "ALTER OPERATOR": Alter Operator;
    "ALTER POLICY": Alter Policy;
    "ALTER PROCEDURE": Alter Procedure;
    "ALTER PUBLICATION": Alter Publication;
    "ALTER ROLE": Alter Role;
    "ALTER ROUTINE": Alter Routine;
    "ALTER RULE": Alter Rule;
    "ALTER SEQUENCE": Alter Sequence;
    "ALTER SERVER": Alter Server;
    "ALTER STATISTICS": Alter Statistics;
    "ALTER SUBSCRIPTION": Alter Subscription;
    "ALTER TABLE ALL": Alter Table All;
    "ALTER TABLESPACE": Alter Tablespace;
    "ALTER TEXT SEARCH": Alter Text Search;
    "ALTER TRIGGER": Alter Trigger;
    "ALTER TYPE": Alter Type;
    "ALTER USER MAPPING": Alter User Mapping;
    "ALTER ROLE": Alter User;
    "ALTER VIEW": Alter View;
    "DROP ACCESS METHOD": Drop Access Method;
    "DROP AGGREGATE": Drop Aggregate;
    "DROP CAST": Drop Cast;
    "DROP COLLATION": Drop Collation;
    "DROP CONVERSION": Drop Conversion;
    "DROP EVENT TRIGGER": Drop Event Trigger;
    "DROP FOREIGN DATA WRAPPER": Drop Foreign Data Wrapper;
    "DROP FOREIGN TABLE": Drop Foreign Table;
    "DROP FUNCTION": Drop Function;
    "DROP ROLE": Drop Group;
    "DROP LANGUAGE": Drop Language;
    "DROP LANGUAGE": Drop Procedural Language;
    "DROP MATERIALIZED VIEW": Drop Materialized View;
    "DROP OPERATOR": Drop Operator;
    "DROP OWNED": Drop Owned By;
    "DROP POLICY": Drop Policy;
    "DROP PROCEDURE": Drop Procedure;
    "DROP PUBLICATION": Drop Publication;
    "DROP ROLE": Drop Role;
    "DROP ROUTINE": Drop Routine;
    "DROP RULE": Drop Rule;
    "DROP SEQUENCE": Drop Sequence;
    "DROP SERVER": Drop Server;
    "DROP STATISTICS": Drop Statistics;
    "DROP SUBSCRIPTION": Drop Subscription;
    "DROP TABLESPACE": Drop Tablespace;
    "DROP TEXT SEARCH": Drop Text Search;
    "DROP TRANSFORM": Drop Transform;
    "DROP TRIGGER": Drop Trigger;
    "DROP TYPE": Drop Type;
    "DROP USER MAPPING": Drop User Mapping;
    "DROP ROLE": Drop User;
    "DROP VIEW": Drop View;
}
