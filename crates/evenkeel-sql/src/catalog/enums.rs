//! Enumerated types: CREATE TYPE … AS ENUM, ALTER TYPE, DROP TYPE.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy};
use evenkeel_types::enums::{EnumLabel, LABEL_LENGTH, STRIDE};

use super::fields::damaged;
use super::state::{CatalogChange, CatalogState};
use super::system::{SystemTable, SystemTables};
use super::{Catalog, DdlLog, Oid, TableInfo, TypeBody, TypeInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;

/// Where ALTER TYPE … ADD VALUE puts a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelPlace {
    /// Behind all others.
    Last,
    /// Right before another.
    Before(String),
    /// Right behind another.
    After(String),
}

/// 42710
fn type_exists(name: &str) -> SqlError {
    let message = format!("type \"{name}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

/// 42710 for a relation whose row type would have the name of a type.
fn hides_type(name: &str) -> SqlError {
    let hint = "A relation has an associated type of the same name, so you must use a name that \
                doesn't conflict with any existing type.";
    type_exists(name).hint(hint)
}

/// 42704 for a type that has gone meanwhile.
pub fn gone_type(oid: Oid) -> SqlError {
    let message = format!("type with OID {oid} does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// 42602 for a label that is too long.
fn check_label(label: &str) -> SqlResult<()> {
    if label.len() <= LABEL_LENGTH {
        return Ok(());
    }
    let message = format!("invalid enum label \"{label}\"");
    let detail = format!("Labels must be {LABEL_LENGTH} bytes or less.");
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
}

fn no_label(label: &str) -> SqlError {
    let message = format!("\"{label}\" is not an existing enum label");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn label_exists(label: &str) -> SqlError {
    let message = format!("enum label \"{label}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

/// The index at which a new label stands, and its position there.
fn place_of(labels: &[EnumLabel], place: &LabelPlace) -> SqlResult<(usize, i64)> {
    let find = |wanted: &str| {
        let found = labels.iter().position(|known| *known.label == *wanted);
        found.ok_or_else(|| no_label(wanted))
    };
    let at = match place {
        LabelPlace::Last => labels.len(),
        LabelPlace::Before(neighbour) => find(neighbour)?,
        LabelPlace::After(neighbour) => find(neighbour)? + 1,
    };
    let below = at.checked_sub(1).and_then(|at| labels.get(at));
    let position = match (below, labels.get(at)) {
        (None, None) => Some(STRIDE),
        (Some(below), None) => below.position.checked_add(STRIDE),
        (None, Some(above)) => above.position.checked_sub(STRIDE),
        (Some(below), Some(above)) => {
            let middle = below.position.midpoint(above.position);
            (middle != below.position).then_some(middle)
        }
    };
    // Rows have positions: making room would write them anew.
    let position = position.ok_or_else(|| {
        let message = "there is no room for another enum label between its neighbours";
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    })?;
    Ok((at, position))
}

impl SystemTables {
    /// Reads the enumerated types into a state that has the schemas; the greatest oid of one.
    pub(super) fn load_enums(
        &self,
        txn: &mut Transaction,
        state: &mut CatalogState,
    ) -> SqlResult<Oid> {
        let mut types = BTreeMap::new();
        for (place, values) in self.enums.read(txn)? {
            let info = TypeInfo::read(place, values)?;
            types.insert(info.oid, info);
        }
        let mut greatest = 0;
        for (place, values) in self.labels.read(txn)? {
            let (of, label) = TypeInfo::read_label(values)?;
            greatest = greatest.max(label.oid);
            let info = types.get_mut(&of).ok_or_else(|| damaged("pg_enum"))?;
            info.labels_mut()?.push(label);
            info.places.push(place);
        }
        for (_, mut info) in types {
            info.labels_mut()?.sort_by_key(|label| label.position);
            let schema = state.schema_name(info.schema_oid).cloned();
            info.schema = schema.ok_or_else(|| damaged("evenkeel_enum"))?;
            greatest = greatest.max(info.oid).max(info.array_oid);
            state.apply(&CatalogChange::PutType(Arc::new(info)));
        }
        Ok(greatest)
    }
}

impl CatalogState {
    /// The columns that have a type, or the type of its arrays: with their tables.
    pub fn columns_of_type<'s>(
        &'s self,
        info: &'s TypeInfo,
    ) -> impl Iterator<Item = (&'s Arc<TableInfo>, usize)> {
        self.tables().flat_map(move |table| {
            let columns = table.columns.iter().enumerate();
            let of = columns.filter(move |(_, column)| info.is_of(column.declared()));
            of.map(move |(at, _)| (table, at))
        })
    }

    /// A type with the labels that it has in this state.
    pub fn type_now(&self, ty: SqlType) -> SqlType {
        match ty.created() {
            Some(_) => self.type_by_oid(ty.oid()).unwrap_or(ty),
            None => ty,
        }
    }
}

impl Catalog {
    /// Creates an enumerated type.
    ///
    /// # Errors
    /// 42710, 42602, 3F000, and the engine's.
    pub async fn create_enum(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        (schema, name): (&str, &str),
        labels: &[String],
    ) -> SqlResult<()> {
        let schema_oid = self.schema_for_create(ddl, schema)?;
        self.claim_type_name(txn, ddl, schema_oid, name).await?;
        let mut info = TypeInfo {
            oid: self.new_oid()?,
            array_oid: self.new_oid()?,
            name: name.into(),
            schema: schema.into(),
            schema_oid,
            body: TypeBody::Enum(Vec::with_capacity(labels.len())),
            places: Vec::new(),
        };
        self.lock_type(txn, info.oid, TableLockMode::AccessExclusive)
            .await?;
        for label in labels {
            if info.labels().iter().any(|known| *known.label == **label) {
                // As PostgreSQL has it, whose index refuses it.
                let message = "duplicate key value violates unique constraint \
                               \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message));
            }
            self.add_label(&mut info, label, &LabelPlace::Last)?;
        }
        self.put_type(txn, ddl, info).await
    }

    /// Adds a label to a type that is being defined.
    ///
    /// # Errors
    /// 42710, 42602, 22023 for a neighbour that there is not, 54000 where there is no room.
    pub fn add_label(&self, info: &mut TypeInfo, label: &str, place: &LabelPlace) -> SqlResult<()> {
        check_label(label)?;
        if info.labels().iter().any(|known| *known.label == *label) {
            return Err(label_exists(label));
        }
        let (at, position) = place_of(info.labels(), place)?;
        let new = EnumLabel {
            oid: self.new_oid()?,
            position,
            label: label.into(),
        };
        info.labels_mut()?.insert(at, new);
        Ok(())
    }

    /// Gives a type another definition.
    ///
    /// # Errors
    /// 42704 if it has gone meanwhile; those of `change`; the engine's.
    pub async fn change_type(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        change: impl FnOnce(&Catalog, &mut TypeInfo) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let mut info = self.locked_type(txn, ddl, oid).await?;
        let before = (info.schema_oid, Arc::clone(&info.name));
        change(self, &mut info)?;
        if before != (info.schema_oid, Arc::clone(&info.name)) {
            self.claim_type_name(txn, ddl, info.schema_oid, &info.name)
                .await?;
        }
        self.delete_type_rows(txn, &info).await?;
        self.put_type(txn, ddl, info).await
    }

    /// Drops a type. The caller has dealt with the columns that have it.
    ///
    /// # Errors
    /// 42704 if it has gone meanwhile; the engine's.
    pub async fn drop_type(&self, txn: &mut Transaction, ddl: &DdlLog, oid: Oid) -> SqlResult<()> {
        let info = self.locked_type(txn, ddl, oid).await?;
        self.delete_type_rows(txn, &info).await?;
        self.forget(txn, ddl, CatalogChange::DropType(oid))
    }

    /// Keeps a type from being dropped until the transaction ends.
    ///
    /// # Errors
    /// 42704 if it has gone meanwhile; the engine's.
    pub async fn keep_type(&self, txn: &Transaction, ddl: &DdlLog, ty: SqlType) -> SqlResult<()> {
        let Some(of) = ty.created() else {
            return Ok(());
        };
        self.lock_type(txn, of.oid(), TableLockMode::AccessShare)
            .await?;
        let there = self.view(ddl).created_type(of.oid()).is_some();
        there.then_some(()).ok_or_else(|| gone_type(of.oid()))
    }

    /// Keeps the types of a new relation's columns, and sees that no type has its name.
    ///
    /// # Errors
    /// 42710; as [`Catalog::keep_type`].
    pub(super) async fn keep_types(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        (schema, name): (Oid, &str),
        types: impl Iterator<Item = SqlType>,
    ) -> SqlResult<()> {
        if self.view(ddl).type_in(schema, name).is_some() {
            return Err(hides_type(name));
        }
        for ty in types {
            self.keep_type(txn, ddl, ty).await?;
        }
        Ok(())
    }

    pub(super) async fn lock_type(
        &self,
        txn: &Transaction,
        oid: Oid,
        mode: TableLockMode,
    ) -> SqlResult<()> {
        txn.lock_table(self.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        Ok(())
    }

    async fn locked_type(&self, txn: &Transaction, ddl: &DdlLog, oid: Oid) -> SqlResult<TypeInfo> {
        self.lock_type(txn, oid, TableLockMode::AccessExclusive)
            .await?;
        let view = self.view(ddl);
        let info = view.created_type(oid).map(|info| TypeInfo::clone(info));
        info.ok_or_else(|| gone_type(oid))
    }

    pub(super) async fn claim_type_name(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        schema: Oid,
        name: &str,
    ) -> SqlResult<()> {
        self.keep_schema(txn, ddl, schema).await?;
        let lock = self.name_lock(schema, name);
        txn.lock_table(lock, TableLockMode::Exclusive, WaitPolicy::Block)
            .await?;
        let view = self.view(ddl);
        match view.type_in(schema, name).is_some() || view.relation_in(schema, name).is_some() {
            true => Err(type_exists(name)),
            false => Ok(()),
        }
    }

    async fn delete_type_rows(&self, txn: &mut Transaction, info: &TypeInfo) -> SqlResult<()> {
        let (own, parts) = self.tables_of(info);
        if let Some((place, places)) = info.places.split_first() {
            own.delete(txn, *place).await?;
            for place in places {
                parts.delete(txn, *place).await?;
            }
        }
        Ok(())
    }

    /// The tables of a type's own row and of those of its labels or constraints.
    fn tables_of(&self, info: &TypeInfo) -> (&SystemTable, &SystemTable) {
        let tables = &self.tables;
        match info.is_domain() {
            true => (&tables.domains, &tables.domain_constraints),
            false => (&tables.enums, &tables.labels),
        }
    }

    pub(super) async fn put_type(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        mut info: TypeInfo,
    ) -> SqlResult<()> {
        let (own, parts) = self.tables_of(&info);
        let mut places = vec![own.insert(txn, &info.row()).await?];
        let rows: Vec<_> = info.label_rows().chain(info.constraint_rows()).collect();
        for row in rows {
            places.push(parts.insert(txn, &row).await?);
        }
        info.places = places;
        self.forget(txn, ddl, CatalogChange::PutType(Arc::new(info)))
    }
}

/// Gives a label another text.
///
/// # Errors
/// 22023 for one that is not there, 42710, 42602.
pub fn rename_label(info: &mut TypeInfo, from: &str, to: &str) -> SqlResult<()> {
    check_label(to)?;
    let taken = info.labels().iter().any(|known| *known.label == *to);
    let mut labels = info.labels_mut()?.iter_mut();
    let label = labels.find(|known| *known.label == *from);
    let label = label.ok_or_else(|| no_label(from))?;
    if taken {
        return Err(label_exists(to));
    }
    label.label = to.into();
    Ok(())
}
