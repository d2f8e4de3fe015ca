//! Definitions: tables, indexes, extensions.

use std::ops::Range;

use super::{CommandOption, Expr, IndexElement, Name, Pos, QualifiedName, Query, TypeName};

/// A definition.
#[derive(Debug, Clone, PartialEq)]
pub enum Define {
    /// `CREATE TABLE`
    CreateTable(CreateTable),
    /// `CREATE TABLE AS`
    CreateTableAs(CreateTableAs),
    /// `CREATE VIEW`
    CreateView(CreateView),
    /// `ALTER VIEW`
    AlterView(AlterView),
    /// `CREATE INDEX`
    CreateIndex(CreateIndex),
    /// `CREATE SEQUENCE`
    CreateSequence {
        /// Its name.
        name: QualifiedName,
        /// `TEMPORARY`, `UNLOGGED`
        persistence: Persistence,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// Its options, in order.
        options: Vec<SequenceOption>,
    },
    /// `ALTER SEQUENCE`
    AlterSequence {
        /// Its name.
        name: QualifiedName,
        /// `IF EXISTS`
        if_exists: bool,
        /// The change.
        change: SequenceChange,
    },
    /// `CREATE SCHEMA`
    CreateSchema {
        /// Its name; that of its owner if it is not given.
        name: Option<Name>,
        /// `AUTHORIZATION`
        owner: Option<Role>,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// Whether objects to be made in it follow, which are not read.
        elements: bool,
    },
    /// `ALTER SCHEMA`
    AlterSchema {
        /// Its name.
        name: Name,
        /// The change.
        change: SchemaChange,
    },
    /// `CREATE`, `ALTER` and `DROP DATABASE`
    Database(DatabaseCommand),
    /// `CREATE TYPE … AS ENUM`
    CreateEnum {
        /// Its name.
        name: QualifiedName,
        /// Its labels in their order.
        labels: Vec<String>,
    },
    /// `ALTER TYPE`
    AlterType(AlterType),
    /// `CREATE DOMAIN`
    CreateDomain(CreateDomain),
    /// `ALTER DOMAIN`
    AlterDomain(AlterDomain),
    /// `CREATE EXTENSION`
    CreateExtension {
        /// Its name.
        name: Name,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// Its options are known; those that are not built are refused by this name.
        unbuilt: Option<&'static str>,
    },
    /// `ALTER TABLE`
    AlterTable(AlterTable),
    /// `ALTER … RENAME`
    Rename(Rename),
    /// `ALTER … SET SCHEMA`
    SetSchema(SetSchema),
    /// `COMMENT ON`
    Comment(Comment),
    /// `DROP TABLE`, `DROP INDEX`
    Drop(Drop),
    /// `TRUNCATE`
    Truncate {
        /// The tables.
        tables: Vec<QualifiedName>,
        /// `RESTART IDENTITY`
        restart: bool,
        /// `CASCADE`
        cascade: bool,
    },
}

/// `COMMENT ON`
#[derive(Debug, Clone, PartialEq)]
pub struct Comment {
    /// The object.
    pub on: Commented,
    /// The words; `None` for NULL.
    pub text: Option<String>,
}

/// An object that a comment is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Commented {
    /// A table, an index, a sequence or a view, by the kind that is said.
    Relation(RelationKind, QualifiedName),
    /// `COLUMN`: the table's name and, as its last part, the column's.
    Column(QualifiedName),
    /// `CONSTRAINT … ON`: its name, and the table.
    Constraint(Name, QualifiedName),
    /// `SCHEMA`
    Schema(Name),
    /// `DATABASE`
    Database(Name),
    /// `EXTENSION`
    Extension(Name),
    /// `TYPE`
    Type(QualifiedName),
    /// `DOMAIN`
    Domain(QualifiedName),
    /// `CONSTRAINT … ON DOMAIN`: its name, and the domain.
    DomainConstraint(Name, QualifiedName),
}

/// A kind of relation that a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// `TABLE`
    Table,
    /// `INDEX`
    Index,
    /// `SEQUENCE`
    Sequence,
    /// `VIEW`
    View,
}

/// A command about a database.
#[derive(Debug, Clone, PartialEq)]
pub enum DatabaseCommand {
    /// `CREATE DATABASE`
    Create {
        /// Its name.
        name: Name,
        /// Its options, in order.
        options: Vec<CommandOption>,
    },
    /// `DROP DATABASE`
    Drop {
        /// Its name.
        name: Name,
        /// `IF EXISTS`
        if_exists: bool,
        /// `FORCE`: its sessions are ended.
        force: bool,
    },
    /// `ALTER DATABASE`
    Alter {
        /// Its name.
        name: Name,
        /// The change.
        change: DatabaseChange,
    },
}

/// A change of a database.
#[derive(Debug, Clone, PartialEq)]
pub enum DatabaseChange {
    /// `RENAME TO`
    Rename(Name),
    /// `OWNER TO`
    Owner(Role),
    /// Options, in order.
    Options(Vec<CommandOption>),
    /// `SET` and `RESET`
    Setting(DatabaseSetting),
    /// A change that is not built, refused by this name.
    Unbuilt(&'static str),
}

/// A change of the settings that a database's sessions begin with; names in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseSetting {
    /// `SET`; `None` for `DEFAULT`.
    Set(String, Option<String>),
    /// `SET … FROM CURRENT`
    FromCurrent(String),
    /// `RESET`; `None` for `ALL`.
    Reset(Option<String>),
}

/// A change of a schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// `RENAME TO`
    Rename(Name),
    /// `OWNER TO`
    Owner(Role),
}

/// A change of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceChange {
    /// Other options.
    Options(Vec<SequenceOption>),
    /// `OWNER TO`
    Owner(Role),
    /// One that is not built: its name.
    Unbuilt(&'static str),
}

/// How long a relation lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Until it is dropped.
    #[default]
    Permanent,
    /// `TEMPORARY`
    Temporary,
    /// `UNLOGGED`
    Unlogged,
}

/// `ON COMMIT`: the fate of a temporary table's rows when a transaction has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCommit {
    /// `PRESERVE ROWS`
    Preserve,
    /// `DELETE ROWS`
    Delete,
    /// `DROP`, of the table with them
    Drop,
}

/// `CREATE TABLE`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub name: QualifiedName,
    /// `TEMPORARY`, `UNLOGGED`
    pub persistence: Persistence,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Columns and constraints, in order.
    pub elements: Vec<TableElement>,
    /// `WITH (…)`
    pub options: Vec<CommandOption>,
    /// `ON COMMIT`
    pub on_commit: Option<OnCommit>,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// `CREATE TABLE AS query`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTableAs {
    /// Its name.
    pub name: QualifiedName,
    /// `TEMPORARY`, `UNLOGGED`
    pub persistence: Persistence,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The names of its columns, as many as are given.
    pub columns: Vec<Name>,
    /// `WITH (…)`
    pub options: Vec<CommandOption>,
    /// `ON COMMIT`
    pub on_commit: Option<OnCommit>,
    /// The query; none of one that is not built.
    pub query: Option<Box<Query>>,
    /// Whether the query is run: not with `WITH NO DATA`.
    pub with_data: bool,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// `CREATE VIEW`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub name: QualifiedName,
    /// `TEMPORARY`
    pub persistence: Persistence,
    /// `OR REPLACE`
    pub or_replace: bool,
    /// `RECURSIVE`: the query may read the view itself.
    pub recursive: bool,
    /// The names of its columns, as many as are given.
    pub columns: Vec<Name>,
    /// `WITH (…)`
    pub options: Vec<CommandOption>,
    /// The query.
    pub query: Box<Query>,
    /// Where the query's text lies in that of the command.
    pub text: Range<usize>,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// `ALTER VIEW`, but for `RENAME` and `SET SCHEMA`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterView {
    /// Its name.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The change.
    pub change: ViewChange,
}

/// A change of a view.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewChange {
    /// `OWNER TO`
    Owner(Role),
    /// One that is not built.
    Unbuilt(&'static str),
}

/// `CREATE DOMAIN`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateDomain {
    /// Its name.
    pub name: QualifiedName,
    /// Its type and its constraints, which are written as a column's.
    pub definition: TableColumn,
}

/// `ALTER DOMAIN`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterDomain {
    /// Its name.
    pub name: QualifiedName,
    /// The change.
    pub change: DomainChange,
}

/// A change of a domain.
#[derive(Debug, Clone, PartialEq)]
pub enum DomainChange {
    /// `SET DEFAULT`, `DROP DEFAULT`
    Default(Option<WrittenExpr>),
    /// `SET NOT NULL`, `DROP NOT NULL`
    NotNull(bool),
    /// `ADD`
    AddConstraint(Constraint),
    /// `DROP CONSTRAINT`
    DropConstraint {
        /// Its name.
        name: Name,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `VALIDATE CONSTRAINT`
    Validate(Name),
    /// `RENAME CONSTRAINT`
    RenameConstraint {
        /// Its name as it is.
        from: Name,
        /// Its name as it shall be.
        to: Name,
    },
    /// `RENAME TO`
    Rename(Name),
    /// `SET SCHEMA`
    SetSchema(Name),
    /// `OWNER TO`
    Owner(Role),
}

/// `ALTER TYPE`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterType {
    /// Its name.
    pub name: QualifiedName,
    /// The change.
    pub change: TypeChange,
}

/// A change of a type.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeChange {
    /// `ADD VALUE`
    AddValue {
        /// The label.
        label: String,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// `BEFORE`, `AFTER`
        place: NewLabelPlace,
    },
    /// `RENAME VALUE`
    RenameValue {
        /// The label as it is.
        from: String,
        /// The label as it shall be.
        to: String,
    },
    /// `RENAME TO`
    Rename(Name),
    /// `SET SCHEMA`
    SetSchema(Name),
    /// `OWNER TO`
    Owner(Role),
    /// One that is not built: its name.
    Unbuilt(&'static str),
}

/// The place of a new label among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewLabelPlace {
    /// Behind all others.
    Last,
    /// Right before another.
    Before(String),
    /// Right behind another.
    After(String),
}

/// A part of a table's definition.
#[derive(Debug, Clone, PartialEq)]
pub enum TableElement {
    /// A column.
    Column(TableColumn),
    /// A constraint.
    Constraint(Constraint),
    /// `LIKE table`
    Like(QualifiedName, LikeOptions),
}

/// `INCLUDING` of `LIKE`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LikeOptions {
    /// `COMMENTS`
    pub comments: bool,
    /// `CONSTRAINTS`
    pub constraints: bool,
    /// `DEFAULTS`
    pub defaults: bool,
    /// `IDENTITY`
    pub identity: bool,
    /// `GENERATED`
    pub generated: bool,
    /// `INDEXES`
    pub indexes: bool,
}

/// A column of CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TypeName,
    /// `COLLATE`
    pub collation: Option<QualifiedName>,
    /// Its constraints, in order.
    pub constraints: Vec<Constraint>,
    /// A clause as `DEFERRABLE` that does not belong to the constraint before it.
    pub misplaced: Option<(&'static str, Pos)>,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// A constraint of a column or a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// `CONSTRAINT name`
    pub name: Option<Name>,
    /// Its kind.
    pub kind: ConstraintKind,
    /// `DEFERRABLE`, `INITIALLY DEFERRED`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
    /// `NOT VALID`
    pub not_valid: bool,
    /// `NO INHERIT`
    pub no_inherit: bool,
    /// `NOT ENFORCED`
    pub not_enforced: bool,
    /// Where it begins.
    pub at: Pos,
}

/// An expression with the bytes of the text that it stands in.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenExpr {
    /// The expression.
    pub expr: Expr,
    /// As it was written.
    pub text: String,
    /// Where it begins.
    pub at: Pos,
}

/// The kinds of constraints.
#[derive(Debug, Clone, PartialEq)]
pub enum ConstraintKind {
    /// `NULL`
    Null,
    /// `NOT NULL`; of a table, the column.
    NotNull(Option<Name>),
    /// `DEFAULT`
    Default(WrittenExpr),
    /// `CHECK`
    Check(WrittenExpr),
    /// `PRIMARY KEY`, `UNIQUE`
    Key(KeyConstraint),
    /// `GENERATED … AS IDENTITY`
    Identity {
        /// `ALWAYS`, or else `BY DEFAULT`
        always: bool,
        /// The options of its sequence.
        options: Vec<SequenceOption>,
    },
    /// `FOREIGN KEY`, `REFERENCES`
    ForeignKey(Box<ForeignKey>),
    /// `GENERATED ALWAYS AS (expression)`
    Generated {
        /// The expression.
        value: WrittenExpr,
        /// `STORED`
        stored: bool,
    },
    /// One that is not built: its name.
    Unbuilt(&'static str),
}

/// `FOREIGN KEY`, `REFERENCES`
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignKey {
    /// The columns; none for a column's own constraint.
    pub columns: Vec<Name>,
    /// The table that it refers to.
    pub table: QualifiedName,
    /// The columns that it refers to; none for those of the primary key.
    pub referenced: Vec<Name>,
    /// `MATCH FULL`
    pub full: bool,
    /// `ON DELETE`
    pub on_delete: KeyAction,
    /// The columns of `ON DELETE SET NULL (…)` and `SET DEFAULT (…)`.
    pub set_columns: Vec<Name>,
    /// `ON UPDATE`
    pub on_update: KeyAction,
}

/// The action of a foreign key when the row that it refers to goes or gets another key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyAction {
    /// `NO ACTION`
    #[default]
    NoAction,
    /// `RESTRICT`
    Restrict,
    /// `CASCADE`
    Cascade,
    /// `SET NULL`
    SetNull,
    /// `SET DEFAULT`
    SetDefault,
}

/// `PRIMARY KEY`, `UNIQUE`
#[derive(Debug, Clone, PartialEq)]
pub struct KeyConstraint {
    /// `PRIMARY KEY`, or else `UNIQUE`
    pub primary: bool,
    /// `USING INDEX`, in the place of columns.
    pub index: Option<Name>,
    /// The columns; none for a column's own constraint.
    pub columns: Vec<Name>,
    /// `INCLUDE (…)`
    pub included: Vec<Name>,
    /// `NULLS NOT DISTINCT`
    pub nulls_not_distinct: bool,
    /// `WITH (…)`
    pub options: Vec<CommandOption>,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// An option of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceOption {
    /// The option.
    pub kind: SequenceOptionKind,
    /// Where it begins.
    pub at: Pos,
}

/// The options of sequences.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceOptionKind {
    /// `AS type`
    As(TypeName),
    /// `INCREMENT [BY] n`
    Increment(String),
    /// `MINVALUE n`, `NO MINVALUE`
    Min(Option<String>),
    /// `MAXVALUE n`, `NO MAXVALUE`
    Max(Option<String>),
    /// `START [WITH] n`
    Start(String),
    /// `RESTART [[WITH] n]`
    Restart(Option<String>),
    /// `CACHE n`
    Cache(String),
    /// `CYCLE`, `NO CYCLE`
    Cycle(bool),
    /// `OWNED BY table.column`, `OWNED BY NONE`
    OwnedBy(QualifiedName),
    /// `SEQUENCE NAME name`
    Name(QualifiedName),
    /// `LOGGED`, `UNLOGGED`
    Logged(bool),
}

/// `CREATE INDEX`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// Its name.
    pub name: Option<Name>,
    /// The table.
    pub table: QualifiedName,
    /// `UNIQUE`
    pub unique: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `USING method`
    pub method: Option<Name>,
    /// The columns.
    pub columns: Vec<IndexElement>,
    /// `INCLUDE (…)`
    pub included: Vec<IndexElement>,
    /// `NULLS NOT DISTINCT`
    pub nulls_not_distinct: bool,
    /// `WITH (…)`
    pub options: Vec<CommandOption>,
    /// `WHERE`
    pub filter: Option<Expr>,
    /// A clause that is not built.
    pub unbuilt: Option<&'static str>,
}

/// `ALTER TABLE`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The actions, in order.
    pub actions: Vec<AlterAction>,
}

/// `ALTER … SET SCHEMA`
#[derive(Debug, Clone, PartialEq)]
pub struct SetSchema {
    /// The kind of object that the command names.
    pub kind: DropKind,
    /// The relation.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The schema that it goes into.
    pub to: Name,
}

/// `ALTER … RENAME`
#[derive(Debug, Clone, PartialEq)]
pub struct Rename {
    /// The kind of object that the command names.
    pub kind: DropKind,
    /// The relation.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The part of it that gets another name.
    pub part: RenamedPart,
    /// The new name.
    pub to: Name,
}

/// The part of a relation that `RENAME` is about.
#[derive(Debug, Clone, PartialEq)]
pub enum RenamedPart {
    /// The relation itself.
    Whole,
    /// `COLUMN`
    Column(Name),
    /// `CONSTRAINT`
    Constraint(Name),
}

/// An action of ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// `ADD constraint`
    AddConstraint(Constraint),
    /// `DROP CONSTRAINT`
    DropConstraint {
        /// Its name.
        name: Name,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`
        cascade: bool,
    },
    /// `VALIDATE CONSTRAINT`
    Validate(Name),
    /// `ADD COLUMN`
    AddColumn {
        /// The column.
        column: TableColumn,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
    },
    /// `DROP COLUMN`
    DropColumn {
        /// Its name.
        name: Name,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`
        cascade: bool,
    },
    /// `ALTER CONSTRAINT`
    AlterConstraint {
        /// Its name.
        name: Name,
        /// `DEFERRABLE` or `NOT DEFERRABLE`, if either was said.
        deferrable: bool,
        /// `INITIALLY DEFERRED`
        deferred: bool,
    },
    /// `ALTER COLUMN`
    Column {
        /// The column.
        name: Name,
        /// The change.
        change: ColumnChange,
    },
    /// `OWNER TO`
    Owner(Role),
    /// `SET (…)`
    SetOptions(Vec<CommandOption>),
    /// `RESET (…)`
    ResetOptions(Vec<CommandOption>),
    /// One that is not built: its name.
    Unbuilt(&'static str),
}

/// A change of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnChange {
    /// `SET DEFAULT`
    SetDefault(WrittenExpr),
    /// `DROP DEFAULT`
    DropDefault,
    /// `SET EXPRESSION AS`
    SetExpression(WrittenExpr),
    /// `DROP EXPRESSION`
    DropExpression {
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `TYPE`
    Type {
        /// The type.
        ty: TypeName,
        /// `COLLATE`
        collation: Option<QualifiedName>,
        /// `USING`
        using: Option<WrittenExpr>,
    },
    /// `SET NOT NULL`, or else `DROP NOT NULL`
    NotNull(bool),
    /// `ADD GENERATED … AS IDENTITY`
    AddIdentity {
        /// `ALWAYS`, or else `BY DEFAULT`
        always: bool,
        /// The options of its sequence.
        options: Vec<SequenceOption>,
    },
    /// `SET GENERATED`, `SET` with options of the sequence, `RESTART`
    SetIdentity {
        /// `ALWAYS`, or else `BY DEFAULT`; none if it stays as it is.
        always: Option<bool>,
        /// The options of its sequence.
        options: Vec<SequenceOption>,
    },
    /// `DROP IDENTITY`
    DropIdentity {
        /// `IF EXISTS`
        if_exists: bool,
    },
}

/// A role, as the grammar has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// By its name.
    Named(Name),
    /// `CURRENT_USER`, `CURRENT_ROLE`, `SESSION_USER`
    Current,
}

/// The kinds of objects that DROP knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    /// `TABLE`
    Table,
    /// `INDEX`
    Index,
    /// `SEQUENCE`
    Sequence,
    /// `SCHEMA`
    Schema,
    /// `EXTENSION`
    Extension,
    /// `VIEW`
    View,
    /// `TYPE`
    Type,
    /// `DOMAIN`
    Domain,
}

/// `DROP`
#[derive(Debug, Clone, PartialEq)]
pub struct Drop {
    /// Their kind.
    pub kind: DropKind,
    /// Their names.
    pub names: Vec<QualifiedName>,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `CASCADE`
    pub cascade: bool,
    /// `CONCURRENTLY`
    pub concurrently: bool,
}
