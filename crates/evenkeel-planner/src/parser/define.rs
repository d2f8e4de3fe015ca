//! Definitions: CREATE, DROP, TRUNCATE.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Command, CommandOption, CreateIndex, CreateTable, CreateTableAs, Define, Drop, DropKind,
    OnCommit, Persistence, QualifiedName, Statement,
};
use crate::error::PlanResult;

impl Parser<'_> {
    /// A definition that is built; `None`, with nothing taken, for any other.
    pub(super) fn define(&mut self, verb: Kw) -> PlanResult<Option<Define>> {
        let second = self.peek_at(1);
        match (verb, second) {
            (Kw::Comment, Tok::Key(Kw::On)) if self.is_commented() => {
                self.skip(2);
                self.comment_on().map(Some)
            }
            (Kw::Truncate, _) => {
                self.bump();
                self.truncate().map(Some)
            }
            (Kw::Alter, Tok::Key(Kw::Table)) if self.peek_at(2) != Tok::Key(Kw::All) => {
                self.skip(2);
                self.alter_table().map(Some)
            }
            (Kw::Alter, Tok::Key(Kw::Index)) if self.is_index_renamed() => {
                self.skip(2);
                let if_exists = self.if_exists();
                let name = self.qualified_name()?;
                self.rename(DropKind::Index, name, if_exists).map(Some)
            }
            (
                Kw::Drop,
                Tok::Key(
                    Kw::Table
                    | Kw::Index
                    | Kw::Sequence
                    | Kw::Schema
                    | Kw::Extension
                    | Kw::View
                    | Kw::Type
                    | Kw::Domain,
                ),
            ) => {
                self.bump();
                self.drop().map(Some)
            }
            (Kw::Create, Tok::Key(Kw::Unique | Kw::Index)) => {
                self.bump();
                self.create_index().map(Some)
            }
            (Kw::Alter, Tok::Key(Kw::Sequence)) => {
                self.skip(2);
                self.alter_sequence().map(Some)
            }
            (Kw::Alter, Tok::Key(Kw::View)) => {
                self.skip(2);
                self.alter_view().map(Some)
            }
            (Kw::Create | Kw::Alter, Tok::Key(Kw::Type | Kw::Domain)) => self.define_type(verb),
            (Kw::Create | Kw::Alter, Tok::Key(Kw::Schema)) => {
                self.skip(2);
                self.schema_command(verb).map(Some)
            }
            (Kw::Create, Tok::Key(Kw::Extension)) => {
                self.skip(2);
                self.create_extension().map(Some)
            }
            (Kw::Create | Kw::Alter | Kw::Drop, Tok::Key(Kw::Database)) => {
                self.database_command(verb).map(Some)
            }
            (Kw::Create, _) => self.create_relation(),
            _ => Ok(None),
        }
    }

    /// CREATE or ALTER of a type or a domain.
    fn define_type(&mut self, verb: Kw) -> PlanResult<Option<Define>> {
        let domain = self.peek_at(1) == Tok::Key(Kw::Domain);
        if verb == Kw::Create && !domain {
            return self.create_enum_here();
        }
        self.skip(2);
        let define = match (verb, domain) {
            (Kw::Create, _) => self.create_domain(),
            (_, true) => self.alter_domain(),
            (_, false) => self.alter_type(),
        };
        define.map(Some)
    }

    /// CREATE TABLE, CREATE SEQUENCE or CREATE VIEW, whatever stands between the words.
    fn create_relation(&mut self) -> PlanResult<Option<Define>> {
        if let Some((words, persistence)) = self.words_before(Kw::Table) {
            self.skip(words);
            return self.create_table(persistence, false).map(Some);
        }
        if let Some((words, persistence)) = self.words_before(Kw::Sequence) {
            self.skip(words);
            return self.create_sequence(persistence).map(Some);
        }
        self.create_view_here()
    }

    pub(super) fn skip(&mut self, words: usize) {
        for _ in 0..words {
            self.bump();
        }
    }

    /// The number of words before the name of CREATE TABLE or CREATE SEQUENCE, if that is what
    /// the text begins.
    fn words_before(&self, kind: Kw) -> Option<(usize, Persistence)> {
        let (words, persistence) = match self.peek_at(1) {
            Tok::Key(word) if word == kind => (1, Persistence::Permanent),
            Tok::Key(Kw::Temp | Kw::Temporary) => (2, Persistence::Temporary),
            Tok::Key(Kw::Unlogged) => (2, Persistence::Unlogged),
            Tok::Key(Kw::Local | Kw::Global)
                if matches!(self.peek_at(2), Tok::Key(Kw::Temp | Kw::Temporary)) =>
            {
                (3, Persistence::Temporary)
            }
            _ => return None,
        };
        (self.peek_at(words) == Tok::Key(kind)).then_some((words + 1, persistence))
    }

    /// `IF NOT EXISTS`
    pub(super) fn if_not_exists(&mut self) -> PlanResult<bool> {
        if !self.is_key(Kw::If) || self.peek_at(1) != Tok::Key(Kw::Not) {
            return Ok(false);
        }
        self.bump();
        self.bump();
        self.expect_key(Kw::Exists)?;
        Ok(true)
    }

    /// `IF EXISTS`
    pub(super) fn if_exists(&mut self) -> bool {
        let exists = self.is_key(Kw::If) && self.peek_at(1) == Tok::Key(Kw::Exists);
        if exists {
            self.bump();
            self.bump();
        }
        exists
    }

    /// `opt_drop_behavior`: whether CASCADE.
    pub(super) fn cascade(&mut self) -> bool {
        let cascade = self.accept_key(Kw::Cascade);
        if !cascade {
            self.accept_key(Kw::Restrict);
        }
        cascade
    }

    /// CREATE TABLE AS, of which alone there is a plan.
    pub(super) fn explained_create(&mut self) -> PlanResult<Statement> {
        let Some((words, persistence)) = self.words_before(Kw::Table) else {
            self.bump();
            return Err(self.unexpected());
        };
        self.skip(words);
        let define = self.create_table(persistence, true)?;
        Ok(Statement::Command(Box::new(Command::Define(Box::new(
            define,
        )))))
    }

    fn create_table(&mut self, persistence: Persistence, with_query: bool) -> PlanResult<Define> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        let unbuilt = match self.peek() {
            _ if with_query => None,
            Tok::Key(Kw::Of) => Some("CREATE TABLE OF"),
            Tok::Key(Kw::Partition) => Some("CREATE TABLE PARTITION OF"),
            _ => None,
        };
        let mut create = CreateTable {
            name,
            persistence,
            if_not_exists,
            elements: Vec::new(),
            options: Vec::new(),
            on_commit: None,
            unbuilt,
        };
        if unbuilt.is_some() {
            self.skip_command(Kw::Create)?;
            return Ok(Define::CreateTable(create));
        }
        let names =
            Self::is_col_id(self.peek_at(1)) && matches!(self.peek_at(2), Tok::Char(b',' | b')'));
        if !self.is_char(b'(') || names || with_query {
            return self.create_table_as(create);
        }
        self.bump();
        if !self.is_char(b')') {
            create.elements = self.list(Self::table_element)?;
        }
        self.expect_char(b')')?;
        if self.accept_key(Kw::Inherits) {
            self.expect_char(b'(')?;
            self.list(Self::qualified_name)?;
            self.expect_char(b')')?;
            create.unbuilt = Some("INHERITS");
        }
        if self.is_key(Kw::Partition) {
            create.unbuilt = Some("PARTITION BY");
            self.skip_command(Kw::Create)?;
            return Ok(Define::CreateTable(create));
        }
        let unbuilt = self.table_clauses(&mut create.options, &mut create.on_commit)?;
        create.unbuilt = unbuilt.or(create.unbuilt);
        Ok(Define::CreateTable(create))
    }

    /// `table_access_method_clause OptWith OnCommitOption OptTableSpace`; the name of one that is
    /// not built.
    fn table_clauses(
        &mut self,
        options: &mut Vec<CommandOption>,
        on_commit: &mut Option<OnCommit>,
    ) -> PlanResult<Option<&'static str>> {
        let mut unbuilt = None;
        if self.accept_key(Kw::Using) && self.col_id()?.text != "heap" {
            unbuilt = Some("USING an access method");
        }
        if self.accept_key(Kw::With) {
            *options = self.definitions()?;
        } else if self.accept_key(Kw::Without) {
            self.expect_key(Kw::Oids)?;
        }
        if self.accept_key(Kw::On) {
            self.expect_key(Kw::Commit)?;
            let fate = if self.accept_key(Kw::Delete) {
                OnCommit::Delete
            } else if self.accept_key(Kw::Preserve) {
                OnCommit::Preserve
            } else {
                self.expect_key(Kw::Drop)?;
                OnCommit::Drop
            };
            if fate != OnCommit::Drop {
                self.expect_key(Kw::Rows)?;
            }
            *on_commit = Some(fate);
        }
        if self.accept_key(Kw::Tablespace) && self.col_id()?.text != "pg_default" {
            unbuilt = Some("TABLESPACE");
        }
        Ok(unbuilt)
    }

    /// `create_as_target AS SelectStmt opt_with_data`
    fn create_table_as(&mut self, create: CreateTable) -> PlanResult<Define> {
        let columns = self.optional_names()?;
        let mut made = CreateTableAs {
            name: create.name,
            persistence: create.persistence,
            if_not_exists: create.if_not_exists,
            columns,
            options: Vec::new(),
            on_commit: None,
            query: None,
            with_data: true,
            unbuilt: None,
        };
        made.unbuilt = self.table_clauses(&mut made.options, &mut made.on_commit)?;
        if !self.is_key(Kw::As) && made.columns.is_empty() && made.options.is_empty() {
            return Err(self.unexpected());
        }
        self.expect_key(Kw::As)?;
        if self.is_key(Kw::Execute) {
            self.execute()?;
            made.unbuilt = Some("CREATE TABLE AS EXECUTE");
        } else {
            made.query = Some(Box::new(self.query()?));
        }
        made.with_data = self.with_data()?;
        Ok(Define::CreateTableAs(made))
    }

    /// `opt_with_data`
    fn with_data(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::With) {
            return Ok(true);
        }
        let no = self.accept_key(Kw::No);
        self.expect_key(Kw::Data)?;
        Ok(!no)
    }

    /// Behind CREATE.
    fn create_index(&mut self) -> PlanResult<Define> {
        let unique = self.accept_key(Kw::Unique);
        self.expect_key(Kw::Index)?;
        let concurrently = self.accept_key(Kw::Concurrently);
        let if_not_exists = self.if_not_exists()?;
        let name = match if_not_exists || !self.is_key(Kw::On) {
            true => Some(self.col_id()?),
            false => None,
        };
        self.expect_key(Kw::On)?;
        let (table, _) = self.relation()?;
        let method = match self.accept_key(Kw::Using) {
            true => Some(self.col_id()?),
            false => None,
        };
        self.expect_char(b'(')?;
        let columns = self.list(Self::index_element)?;
        self.expect_char(b')')?;
        let mut unbuilt = concurrently.then_some("CREATE INDEX CONCURRENTLY");
        let mut included = Vec::new();
        if self.accept_key(Kw::Include) {
            self.expect_char(b'(')?;
            included = self.list(Self::index_element)?;
            self.expect_char(b')')?;
        }
        let nulls_not_distinct = self.null_treatment()?;
        let mut options = Vec::new();
        if self.accept_key(Kw::With) {
            options = self.definitions()?;
        }
        if self.accept_key(Kw::Tablespace) && self.col_id()?.text != "pg_default" {
            unbuilt = Some("TABLESPACE");
        }
        let filter = self.filter()?;
        Ok(Define::CreateIndex(CreateIndex {
            name,
            table,
            unique,
            if_not_exists,
            method,
            columns,
            included,
            nulls_not_distinct,
            options,
            filter,
            unbuilt,
        }))
    }

    /// `opt_unique_null_treatment`
    pub(super) fn null_treatment(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::Nulls) {
            return Ok(false);
        }
        let not = self.accept_key(Kw::Not);
        self.expect_key(Kw::Distinct)?;
        Ok(not)
    }

    /// Behind CREATE EXTENSION.
    fn create_extension(&mut self) -> PlanResult<Define> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.col_id()?;
        self.accept_key(Kw::With);
        let mut unbuilt = None;
        loop {
            if self.accept_key(Kw::Schema) {
                if !matches!(self.col_id()?.text.as_str(), "public" | "pg_catalog") {
                    unbuilt = Some("CREATE EXTENSION with SCHEMA");
                }
            } else if self.accept_key(Kw::Version) {
                self.word_of_extension()?;
                unbuilt = Some("CREATE EXTENSION with VERSION");
            } else if !self.accept_key(Kw::Cascade) {
                break;
            }
        }
        Ok(Define::CreateExtension {
            name,
            if_not_exists,
            unbuilt,
        })
    }

    /// Behind DROP.
    fn drop(&mut self) -> PlanResult<Define> {
        let kind = match self.peek() {
            Tok::Key(Kw::Table) => DropKind::Table,
            Tok::Key(Kw::Index) => DropKind::Index,
            Tok::Key(Kw::Sequence) => DropKind::Sequence,
            Tok::Key(Kw::Schema) => DropKind::Schema,
            Tok::Key(Kw::View) => DropKind::View,
            Tok::Key(Kw::Type) => DropKind::Type,
            Tok::Key(Kw::Domain) => DropKind::Domain,
            _ => DropKind::Extension,
        };
        self.bump();
        let concurrently = kind == DropKind::Index && self.accept_key(Kw::Concurrently);
        let if_exists = self.if_exists();
        let names = match kind {
            DropKind::Extension | DropKind::Schema => self.list(|parser| {
                let name = parser.col_id()?;
                Ok(QualifiedName { parts: vec![name] })
            })?,
            _ => self.list(Self::any_name)?,
        };
        let cascade = self.cascade();
        Ok(Define::Drop(Drop {
            kind,
            names,
            if_exists,
            cascade,
            concurrently,
        }))
    }

    /// Behind TRUNCATE.
    fn truncate(&mut self) -> PlanResult<Define> {
        self.accept_key(Kw::Table);
        let tables = self.list(|parser| Ok(parser.relation()?.0))?;
        let mut restart = false;
        if matches!(self.peek(), Tok::Key(Kw::Continue | Kw::Restart)) {
            restart = self.is_key(Kw::Restart);
            self.bump();
            self.expect_key(Kw::Identity)?;
        }
        Ok(Define::Truncate {
            tables,
            restart,
            cascade: self.cascade(),
        })
    }

    /// `opt_definition`: `WITH (…)`, if it is next.
    pub(super) fn opt_definition(&mut self) -> PlanResult<Vec<CommandOption>> {
        if !self.accept_key(Kw::With) {
            return Ok(Vec::new());
        }
        self.definitions()
    }
}
