//! One state of the catalog: immutable, shared by the statements planned on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel_engine::Database;
use evenkeel_types::SqlType;

use super::comment_info::{CommentInfo, Subject};
use super::{
    ColumnInfo, ConstraintInfo, DATABASE_OID, ExtensionInfo, ForeignKeyInfo,
    INFORMATION_SCHEMA_OID, IndexInfo, Oid, PG_CATALOG_OID, PUBLIC_OID, SchemaInfo, SequenceInfo,
    TableInfo, TypeBody, TypeInfo, ViewInfo, table_id,
};
use crate::search_path::is_temporary;

/// A relation by name.
#[derive(Debug, Clone)]
pub enum Relation {
    /// A table.
    Table(Arc<TableInfo>),
    /// An index, with its table.
    Index(Arc<TableInfo>, Arc<IndexInfo>),
    /// A sequence.
    Sequence(Arc<SequenceInfo>),
    /// A view.
    View(Arc<ViewInfo>),
}

impl Relation {
    /// Its oid.
    pub fn oid(&self) -> Oid {
        match self {
            Relation::Table(table) => table.oid,
            Relation::Index(_, index) => index.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::View(view) => view.oid,
        }
    }

    /// The name of its schema.
    pub fn schema(&self) -> &Arc<str> {
        match self {
            Relation::Table(table) | Relation::Index(table, _) => &table.schema,
            Relation::Sequence(sequence) => &sequence.schema,
            Relation::View(view) => &view.schema,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Relation::Table(table) => &table.name,
            Relation::Index(_, index) => &index.name,
            Relation::Sequence(sequence) => &sequence.name,
            Relation::View(view) => &view.name,
        }
    }
}

/// A unique constraint with its table and its index.
pub type UniqueKey<'a> = (
    &'a Arc<TableInfo>,
    &'a Arc<IndexInfo>,
    &'a Arc<ConstraintInfo>,
);

/// A change of the catalog that a transaction has made.
#[derive(Debug, Clone)]
pub(crate) enum CatalogChange {
    /// A table is new, or has a new definition.
    PutTable(Arc<TableInfo>),
    /// A table and its indexes are gone.
    DropTable(Oid),
    /// A sequence is new, or has a new definition.
    PutSequence(Arc<SequenceInfo>),
    /// A sequence is gone.
    DropSequence(Oid),
    /// A view is new, or has a new definition.
    PutView(Arc<ViewInfo>),
    /// A view is gone.
    DropView(Oid),
    /// A type is new, or has a new definition.
    PutType(Arc<TypeInfo>),
    /// A type is gone.
    DropType(Oid),
    /// A schema is new, or has a new name.
    PutSchema(Arc<SchemaInfo>),
    /// A schema is gone.
    DropSchema(Oid),
    /// An extension is installed.
    PutExtension(Arc<ExtensionInfo>),
    /// An extension is gone.
    DropExtension(Oid),
    /// An object has another comment.
    PutComment(Subject, Arc<CommentInfo>),
    /// An object has no comment any more.
    DropComment(Subject),
}

/// The relations visible at one moment to one transaction.
#[derive(Debug, Clone)]
pub struct CatalogState {
    /// Differs from that of every state with other content.
    pub version: u64,
    /// The version in which something changed last that is in no temporary schema.
    lasting: u64,
    /// The same of each temporary schema, by name.
    temporary: HashMap<Arc<str>, u64>,
    schemas: BTreeMap<Oid, Arc<SchemaInfo>>,
    schema_names: HashMap<Arc<str>, Oid>,
    tables: BTreeMap<Oid, Arc<TableInfo>>,
    sequences: BTreeMap<Oid, Arc<SequenceInfo>>,
    views: BTreeMap<Oid, Arc<ViewInfo>>,
    pub(super) types: BTreeMap<Oid, Arc<TypeInfo>>,
    /// Schema and name to oid: of enumerated types and of the types of their arrays.
    pub(super) type_names: HashMap<(Oid, Arc<str>), Oid>,
    /// The oid of a type of arrays to that of the elements' type.
    pub(super) array_types: HashMap<Oid, Oid>,
    /// Oid of a relation (table or index) to the oid of its table.
    owners: HashMap<Oid, Oid>,
    /// Schema and name to oid.
    names: HashMap<(Oid, Arc<str>), Oid>,
    extensions: BTreeMap<Oid, Arc<ExtensionInfo>>,
    comments: BTreeMap<Subject, Arc<CommentInfo>>,
    /// Foreign keys: table referred to, table that refers, oid.
    references: BTreeSet<(Oid, Oid, Oid)>,
    /// Oid of a foreign key to the oid of its table.
    foreign_keys: HashMap<Oid, Oid>,
    database: Option<Database>,
    /// The oid of the database.
    pub database_oid: Oid,
}

/// The schemas that a new database has. `pg_namespace` stores them only when they change.
pub(super) fn builtin() -> [SchemaInfo; 3] {
    let schema = |oid, name: &str| SchemaInfo {
        oid,
        name: name.into(),
        place: None,
    };
    [
        schema(PG_CATALOG_OID, "pg_catalog"),
        schema(PUBLIC_OID, "public"),
        schema(INFORMATION_SCHEMA_OID, "information_schema"),
    ]
}

impl CatalogState {
    pub(crate) fn new(version: u64) -> CatalogState {
        let mut state = CatalogState {
            version,
            lasting: version,
            temporary: HashMap::new(),
            schemas: BTreeMap::new(),
            schema_names: HashMap::new(),
            tables: BTreeMap::new(),
            sequences: BTreeMap::new(),
            views: BTreeMap::new(),
            types: BTreeMap::new(),
            type_names: HashMap::new(),
            array_types: HashMap::new(),
            owners: HashMap::new(),
            names: HashMap::new(),
            extensions: BTreeMap::new(),
            comments: BTreeMap::new(),
            references: BTreeSet::new(),
            foreign_keys: HashMap::new(),
            database: None,
            database_oid: DATABASE_OID,
        };
        for schema in builtin() {
            state.put_schema(Arc::new(schema));
        }
        state
    }

    /// The state of the catalog of this database.
    pub(crate) fn of(database: &Database, oid: Oid, version: u64) -> CatalogState {
        CatalogState {
            database: Some(database.clone()),
            database_oid: oid,
            ..CatalogState::new(version)
        }
    }

    /// The number under which locks and counters have a relation of the database.
    pub fn table_id(&self, oid: Oid) -> u64 {
        table_id(self.database_oid, oid)
    }

    /// The database it is of; `None` for one that is nobody's catalog.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// The state after `changes`.
    pub(crate) fn with(&self, changes: &[CatalogChange], version: u64) -> CatalogState {
        let mut next = self.clone();
        next.version = version;
        for change in changes {
            // Before a drop is applied: afterwards it is not known where that was.
            match next.temporary_schema_of(change) {
                Some(schema) => drop(next.temporary.insert(schema, version)),
                None => next.lasting = version,
            }
            next.apply(change);
        }
        next
    }

    /// The version of that part of the catalog which a session with this temporary schema sees. A
    /// plan made under it stays right while others make and drop temporary relations (CAT-19).
    pub fn version_seen(&self, temporary: Option<&str>) -> u64 {
        let own = temporary.and_then(|schema| self.temporary.get(schema));
        own.map_or(self.lasting, |own| self.lasting.max(*own))
    }

    /// The temporary schema that a change is in.
    fn temporary_schema_of(&self, change: &CatalogChange) -> Option<Arc<str>> {
        let table = |oid: &Oid| self.tables.get(oid).map(|table| &table.schema);
        let sequence = |oid: &Oid| self.sequences.get(oid).map(|sequence| &sequence.schema);
        let view = |oid: &Oid| self.views.get(oid).map(|view| &view.schema);
        let schema = match change {
            CatalogChange::PutTable(table) => Some(&table.schema),
            CatalogChange::DropTable(oid) => table(oid),
            CatalogChange::PutSequence(sequence) => Some(&sequence.schema),
            CatalogChange::DropSequence(oid) => sequence(oid),
            CatalogChange::PutView(view) => Some(&view.schema),
            CatalogChange::DropView(oid) => view(oid),
            CatalogChange::PutSchema(schema) => Some(&schema.name),
            CatalogChange::PutType(info) => Some(&info.schema),
            CatalogChange::DropType(oid) => self.types.get(oid).map(|info| &info.schema),
            CatalogChange::DropSchema(_)
            | CatalogChange::PutExtension(_)
            | CatalogChange::DropExtension(_)
            | CatalogChange::PutComment(..)
            | CatalogChange::DropComment(_) => None,
        };
        schema.filter(|schema| is_temporary(schema)).cloned()
    }

    pub(crate) fn apply(&mut self, change: &CatalogChange) {
        match change {
            CatalogChange::PutTable(table) => {
                let table = &self.with_schema_of_table(table);
                let table = &self.with_types_of_table(table);
                self.forget_table(table.oid);
                self.owners.insert(table.oid, table.oid);
                self.names
                    .insert((table.schema_oid, Arc::clone(&table.name)), table.oid);
                for index in &table.indexes {
                    self.owners.insert(index.oid, table.oid);
                    self.names
                        .insert((table.schema_oid, Arc::clone(&index.name)), index.oid);
                }
                for key in &table.foreign_keys {
                    self.foreign_keys.insert(key.oid, table.oid);
                    self.references.insert((key.parent, table.oid, key.oid));
                }
                self.tables.insert(table.oid, Arc::clone(table));
            }
            CatalogChange::DropTable(oid) => self.forget_table(*oid),
            CatalogChange::PutSequence(sequence) => {
                let sequence = &self.with_schema_of_sequence(sequence);
                self.forget_sequence(sequence.oid);
                let name = (sequence.schema_oid, Arc::clone(&sequence.name));
                self.names.insert(name, sequence.oid);
                self.sequences.insert(sequence.oid, Arc::clone(sequence));
            }
            CatalogChange::DropSequence(oid) => self.forget_sequence(*oid),
            CatalogChange::PutView(view) => {
                let view = &self.with_schema_of_view(view);
                self.forget_view(view.oid);
                let name = (view.schema_oid, Arc::clone(&view.name));
                self.names.insert(name, view.oid);
                self.views.insert(view.oid, Arc::clone(view));
            }
            CatalogChange::DropView(oid) => self.forget_view(*oid),
            CatalogChange::PutType(info) => self.put_type(info),
            CatalogChange::DropType(oid) => self.forget_type(*oid),
            CatalogChange::PutSchema(schema) => self.put_schema(Arc::clone(schema)),
            CatalogChange::DropSchema(oid) => self.forget_schema(*oid),
            CatalogChange::PutExtension(extension) => {
                self.extensions.insert(extension.oid, Arc::clone(extension));
            }
            CatalogChange::DropExtension(oid) => {
                self.extensions.remove(oid);
            }
            CatalogChange::PutComment(subject, comment) => {
                self.comments.insert(*subject, Arc::clone(comment));
            }
            CatalogChange::DropComment(subject) => {
                self.comments.remove(subject);
            }
        }
    }

    fn forget_schema(&mut self, oid: Oid) {
        if let Some(old) = self.schemas.remove(&oid) {
            self.schema_names.remove(&old.name);
        }
    }

    /// A relation carries its schema's name; a schema that is renamed has it replaced in all.
    fn put_schema(&mut self, schema: Arc<SchemaInfo>) {
        let oid = schema.oid;
        self.forget_schema(oid);
        self.schema_names.insert(Arc::clone(&schema.name), oid);
        self.schemas.insert(oid, schema);
        let tables: Vec<_> = self.tables_in(oid).cloned().collect();
        for table in tables {
            let renamed = self.with_schema_of_table(&table);
            self.tables.insert(table.oid, renamed);
        }
        let sequences: Vec<_> = self.sequences_in(oid).cloned().collect();
        for sequence in sequences {
            let renamed = self.with_schema_of_sequence(&sequence);
            self.sequences.insert(sequence.oid, renamed);
        }
        let types = self.types.values().filter(|info| info.schema_oid == oid);
        let types: Vec<_> = types.cloned().collect();
        for info in types {
            self.put_type(&info);
        }
        let views: Vec<_> = self.views_in(oid).cloned().collect();
        for view in views {
            let renamed = self.with_schema_of_view(&view);
            self.views.insert(view.oid, renamed);
        }
    }

    /// The table with the name that its schema has now: its definition may have been made before
    /// a rename that another transaction committed first.
    fn with_schema_of_table(&self, table: &Arc<TableInfo>) -> Arc<TableInfo> {
        match self.schema_name(table.schema_oid) {
            Some(name) if *name != table.schema => Arc::new(TableInfo {
                schema: Arc::clone(name),
                ..TableInfo::clone(table)
            }),
            _ => Arc::clone(table),
        }
    }

    /// As [`CatalogState::with_schema_of_table`].
    fn with_schema_of_sequence(&self, sequence: &Arc<SequenceInfo>) -> Arc<SequenceInfo> {
        match self.schema_name(sequence.schema_oid) {
            Some(name) if *name != sequence.schema => Arc::new(SequenceInfo {
                schema: Arc::clone(name),
                ..SequenceInfo::clone(sequence)
            }),
            _ => Arc::clone(sequence),
        }
    }

    /// As [`CatalogState::with_schema_of_table`].
    fn with_schema_of_view(&self, view: &Arc<ViewInfo>) -> Arc<ViewInfo> {
        match self.schema_name(view.schema_oid) {
            Some(name) if *name != view.schema => Arc::new(ViewInfo {
                schema: Arc::clone(name),
                ..ViewInfo::clone(view)
            }),
            _ => Arc::clone(view),
        }
    }

    /// The table with the labels that its columns' types have now: its definition may have been
    /// made before a change of a type that another transaction committed first.
    fn with_types_of_table(&self, table: &Arc<TableInfo>) -> Arc<TableInfo> {
        let is_known = |column: &ColumnInfo| {
            let of = [
                column.ty.created(),
                column.domain.and_then(SqlType::created),
            ];
            of.into_iter().flatten().all(|of| self.has_type(of))
        };
        match table.columns.iter().all(is_known) {
            true => Arc::clone(table),
            false => Arc::new(table.with_types(|ty| self.type_now(ty))),
        }
    }

    fn put_type(&mut self, info: &Arc<TypeInfo>) {
        let oid = info.oid;
        let schema = self.schema_name(info.schema_oid).cloned();
        let info = Arc::new(TypeInfo {
            schema: schema.unwrap_or_else(|| Arc::clone(&info.schema)),
            ..TypeInfo::clone(info)
        });
        self.forget_type(oid);
        let name = (info.schema_oid, Arc::clone(&info.name));
        self.type_names.insert(name, oid);
        let array = (info.schema_oid, Arc::from(info.array_name()));
        self.type_names.insert(array, info.array_oid);
        self.array_types.insert(info.array_oid, oid);
        let concerned = self.columns_of_type(&info).map(|(table, _)| table.oid);
        let concerned: BTreeSet<Oid> = concerned.collect();
        self.types.insert(oid, Arc::clone(&info));
        // The domains over it are others too.
        let over = self.types.values().filter(|other| other.is_over(&info));
        let over: Vec<_> = over.cloned().collect();
        for domain in over {
            let mut domain = TypeInfo::clone(&domain);
            if let TypeBody::Domain(body) = &mut domain.body {
                body.base = self.type_now(body.base);
            }
            self.put_type(&Arc::new(domain));
        }
        for table in concerned {
            if let Some(table) = self.tables.get(&table).cloned() {
                let table = self.with_types_of_table(&table);
                self.tables.insert(table.oid, table);
            }
        }
    }

    fn forget_type(&mut self, oid: Oid) {
        if let Some(old) = self.types.remove(&oid) {
            let array = (old.schema_oid, Arc::from(old.array_name()));
            self.type_names.remove(&array);
            let name = (old.schema_oid, Arc::clone(&old.name));
            self.type_names.remove(&name);
            self.array_types.remove(&old.array_oid);
        }
    }

    fn forget_table(&mut self, oid: Oid) {
        let Some(old) = self.tables.remove(&oid) else {
            return;
        };
        self.owners.retain(|_, owner| *owner != oid);
        for key in &old.foreign_keys {
            self.foreign_keys.remove(&key.oid);
            self.references.remove(&(key.parent, oid, key.oid));
        }
        let relations = old
            .indexes
            .iter()
            .map(|index| &index.name)
            .chain([&old.name]);
        for name in relations {
            self.names.remove(&(old.schema_oid, Arc::clone(name)));
        }
    }

    fn forget_sequence(&mut self, oid: Oid) {
        if let Some(old) = self.sequences.remove(&oid) {
            let name = (old.schema_oid, Arc::clone(&old.name));
            self.names.remove(&name);
        }
    }

    fn forget_view(&mut self, oid: Oid) {
        if let Some(old) = self.views.remove(&oid) {
            let name = (old.schema_oid, Arc::clone(&old.name));
            self.names.remove(&name);
        }
    }

    /// A view by oid.
    pub fn view(&self, oid: Oid) -> Option<&Arc<ViewInfo>> {
        self.views.get(&oid)
    }

    /// All views, by oid.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewInfo>> {
        self.views.values()
    }

    /// The comment that was given to an object.
    pub fn comment(&self, subject: Subject) -> Option<&Arc<CommentInfo>> {
        self.comments.get(&subject)
    }

    /// All comments that were given, by subject.
    pub fn comments(&self) -> impl Iterator<Item = (&Subject, &Arc<CommentInfo>)> {
        self.comments.iter()
    }

    /// A sequence by oid.
    pub fn sequence(&self, oid: Oid) -> Option<&Arc<SequenceInfo>> {
        self.sequences.get(&oid)
    }

    /// All sequences, by oid.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceInfo>> {
        self.sequences.values()
    }

    /// The sequences that belong to a table's columns.
    pub fn sequences_of(&self, table: Oid) -> impl Iterator<Item = &Arc<SequenceInfo>> {
        let owned = move |s: &&Arc<SequenceInfo>| s.owner.is_some_and(|(oid, _)| oid == table);
        self.sequences.values().filter(owned)
    }

    /// A foreign key by oid, with its table.
    pub fn foreign_key(&self, oid: Oid) -> Option<(&Arc<TableInfo>, &Arc<ForeignKeyInfo>)> {
        let table = self.tables.get(self.foreign_keys.get(&oid)?)?;
        let key = table.foreign_keys.iter().find(|key| key.oid == oid)?;
        Some((table, key))
    }

    /// The deferrable constraint that an index enforces, with its table and the index.
    pub fn unique_key(&self, index: Oid) -> Option<UniqueKey<'_>> {
        let table = self.tables.get(self.owners.get(&index)?)?;
        let index = table.indexes.iter().find(|known| known.oid == index)?;
        let mut constraints = table.constraints.iter();
        let key = constraints.find(|key| key.index_oid == index.oid && key.deferrable)?;
        Some((table, index, key))
    }

    /// The foreign keys that refer to a table, with the tables that they belong to.
    pub fn references_to(
        &self,
        parent: Oid,
    ) -> impl Iterator<Item = (&Arc<TableInfo>, &Arc<ForeignKeyInfo>)> {
        let all = self
            .references
            .range((parent, 0, 0)..=(parent, Oid::MAX, Oid::MAX));
        all.filter_map(|(.., key)| self.foreign_key(*key))
    }

    /// A table by oid.
    pub fn table(&self, oid: Oid) -> Option<&Arc<TableInfo>> {
        self.tables.get(&oid)
    }

    /// A table, an index, a sequence or a view by oid.
    pub fn relation(&self, oid: Oid) -> Option<Relation> {
        if let Some(sequence) = self.sequences.get(&oid) {
            return Some(Relation::Sequence(Arc::clone(sequence)));
        }
        if let Some(view) = self.views.get(&oid) {
            return Some(Relation::View(Arc::clone(view)));
        }
        let table = self.tables.get(self.owners.get(&oid)?)?;
        if table.oid == oid {
            return Some(Relation::Table(Arc::clone(table)));
        }
        let index = table.indexes.iter().find(|index| index.oid == oid)?;
        Some(Relation::Index(Arc::clone(table), Arc::clone(index)))
    }

    /// A relation by schema and name.
    pub fn relation_in(&self, schema_oid: Oid, name: &str) -> Option<Relation> {
        self.relation(*self.names.get(&(schema_oid, Arc::from(name)))?)
    }

    /// A relation by name: in `schema` if one is given, else in the first schema of the path
    /// that has it.
    pub fn find(
        &self,
        schema: Option<&str>,
        name: &str,
        search_path: &[String],
    ) -> Option<Relation> {
        match schema {
            Some(schema) => self.relation_in(self.schema_oid(schema)?, name),
            None => search_path
                .iter()
                .filter_map(|schema| self.schema_oid(schema))
                .find_map(|oid| self.relation_in(oid, name)),
        }
    }

    /// As [`CatalogState::find`], for tables only.
    pub fn resolve(
        &self,
        schema: Option<&str>,
        name: &str,
        search_path: &[String],
    ) -> Option<Arc<TableInfo>> {
        match self.find(schema, name, search_path)? {
            Relation::Table(table) => Some(table),
            Relation::Index(..) | Relation::Sequence(_) | Relation::View(_) => None,
        }
    }

    /// All tables, by oid.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableInfo>> {
        self.tables.values()
    }

    /// All schemas, by oid.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<SchemaInfo>> {
        self.schemas.values()
    }

    /// A schema by oid.
    pub fn schema(&self, oid: Oid) -> Option<&Arc<SchemaInfo>> {
        self.schemas.get(&oid)
    }

    /// Oid of a schema.
    pub fn schema_oid(&self, name: &str) -> Option<Oid> {
        self.schema_names.get(name).copied()
    }

    /// Name of a schema.
    pub fn schema_name(&self, oid: Oid) -> Option<&Arc<str>> {
        Some(&self.schemas.get(&oid)?.name)
    }

    /// Installed extensions.
    pub fn extensions(&self) -> impl Iterator<Item = &Arc<ExtensionInfo>> {
        self.extensions.values()
    }

    /// An extension by name.
    pub fn extension(&self, name: &str) -> Option<&Arc<ExtensionInfo>> {
        self.extensions
            .values()
            .find(|extension| &*extension.name == name)
    }
}
