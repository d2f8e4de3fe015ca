//! CREATE, ALTER and DROP SEQUENCE, and the sequences of columns.

use std::sync::Arc;

use evenkeel_engine::TableLockMode;
use evenkeel_planner::ast::{
    self, ExprKind, Literal, Persistence, QualifiedName, SequenceChange as Change, SequenceOption,
};

use super::Session;
use super::schemas::is_missing;
use super::sequence_options::{Definition, Options};
use crate::catalog::{
    Identity, NewSequence, Oid, OwnSequence, Relation, SequenceChange, SequenceInfo, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::row;
use crate::parser::names::{split_name, undefined_table};
use crate::types::SqlType;

impl Session {
    pub(super) fn options<'a>(&self, list: &'a [SequenceOption]) -> SqlResult<Options<'a>> {
        Options::of(list)
            .map_err(|at| self.placed(SqlError::syntax("conflicting or redundant options"), at))
    }

    /// The type of a sequence's numbers: AS, or else `old`.
    fn sequence_type(&self, options: &Options<'_>, old: SqlType, of: &str) -> SqlResult<SqlType> {
        let ty = match options.ty {
            Some(ty) => self.column_type(ty)?,
            None => old,
        };
        if matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
            return Ok(ty);
        }
        let message = format!("{of} type must be smallint, integer, or bigint");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    fn refuse_sequence_name(&self, options: &Options<'_>) -> SqlResult<()> {
        match options.name {
            None => Ok(()),
            Some((_, at)) => {
                let error = SqlError::syntax("invalid sequence option SEQUENCE NAME");
                Err(self.placed(error, at))
            }
        }
    }

    pub(super) async fn create_sequence(
        &mut self,
        name: &QualifiedName,
        persistence: Persistence,
        if_not_exists: bool,
        list: &[SequenceOption],
    ) -> SqlResult<()> {
        let options = self.options(list)?;
        self.refuse_sequence_name(&options)?;
        let ty = self.sequence_type(&options, SqlType::Int8, "sequence")?;
        let (definition, restart) = options.define(ty, None)?;
        let (schema, name) = self.new_name(name, persistence, "SEQUENCE").await?;
        let owner = match options.owned_by {
            Some(owner) => self.sequence_owner(owner, &schema).await?,
            None => None,
        };
        let new = NewSequence {
            schema,
            name,
            ty,
            start: definition.start,
            rule: definition.rule,
            owner,
            identity: None,
            if_not_exists,
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let Some(made) = catalog.create_sequence(txn, ddl, &new).await? else {
            let message = format!("relation \"{}\" already exists, skipping", new.name);
            self.notice("NOTICE", SqlState::DUPLICATE_TABLE, message);
            return Ok(());
        };
        if restart.is_some() {
            let change = SequenceChange {
                restart,
                ..SequenceChange::of(&made)
            };
            catalog.alter_sequence(txn, ddl, made.oid, &change).await?;
        }
        Ok(())
    }

    /// The column that OWNED BY names; none for NONE.
    async fn sequence_owner(
        &mut self,
        owner: &QualifiedName,
        schema: &str,
    ) -> SqlResult<Option<(Oid, i16)>> {
        let (column, table) = match owner.parts.split_last() {
            Some((none, [])) if none.text == "none" => return Ok(None),
            Some((column, table)) if !table.is_empty() => (column, table),
            _ => {
                let error = SqlError::syntax("invalid OWNED BY option");
                return Err(error.hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
        };
        let name = QualifiedName {
            parts: table.to_vec(),
        };
        let mode = TableLockMode::AccessShare;
        let policy = evenkeel_engine::WaitPolicy::Block;
        let table = self.locked_table(&name, mode, policy).await?;
        if *table.schema != *schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                message,
            ));
        }
        let Some(at) = table.column(&column.text) else {
            return Err(no_column(&column.text, &table));
        };
        Ok(Some((table.oid, table.columns[at].attnum)))
    }

    /// The sequence of a name.
    fn find_sequence(&self, name: &QualifiedName) -> SqlResult<Arc<SequenceInfo>> {
        let (schema, last) = self.split_name(name)?;
        let path = &self.effective.search_path;
        match self.view().find(schema.as_deref(), &last, path) {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(other) => Err(row::not_a_sequence(&other)),
            None => {
                self.refuse_missing_schema(schema.as_deref())?;
                Err(undefined_table(schema.as_deref(), &last))
            }
        }
    }

    pub(super) async fn alter_sequence(
        &mut self,
        name: &QualifiedName,
        if_exists: bool,
        change: &Change,
    ) -> SqlResult<()> {
        let sequence = match self.find_sequence(name) {
            Ok(sequence) => sequence,
            Err(error) if if_exists && is_missing(&error) => {
                let message = format!("relation \"{}\" does not exist, skipping", name.last());
                self.notice("NOTICE", SqlState::SUCCESS, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match change {
            Change::Unbuilt(name) => Err(SqlError::unsupported(name)),
            Change::Owner(role) => self.check_owner(role),
            Change::Options(list) => {
                let options = self.options(list)?;
                self.refuse_sequence_name(&options)?;
                let mut changed = self.changed_sequence(&sequence, &options)?;
                if let Some(owner) = options.owned_by {
                    self.refuse_identity_owner(&sequence)?;
                    changed.owner = self.sequence_owner(owner, &sequence.schema).await?;
                }
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog
                    .alter_sequence(txn, ddl, sequence.oid, &changed)
                    .await?;
                Ok(())
            }
        }
    }

    /// The definition that options make of a sequence's.
    pub(super) fn changed_sequence(
        &self,
        sequence: &SequenceInfo,
        options: &Options<'_>,
    ) -> SqlResult<SequenceChange> {
        let of = if sequence.identity.is_some() {
            "identity column"
        } else {
            "sequence"
        };
        let ty = self.sequence_type(options, sequence.ty, of)?;
        let open = self.engine.database().sequence(sequence.file)?;
        let last = open.map_or(sequence.start, |open| open.position().last_value);
        let old = Definition {
            ty: sequence.ty,
            start: sequence.start,
            rule: sequence.rule,
        };
        let (definition, restart) = options.define(ty, Some((&old, last)))?;
        Ok(SequenceChange {
            ty: definition.ty,
            start: definition.start,
            rule: definition.rule,
            restart,
            ..SequenceChange::of(sequence)
        })
    }

    fn refuse_identity_owner(&self, sequence: &SequenceInfo) -> SqlResult<()> {
        let (Some(_), Some((table, _))) = (sequence.identity, sequence.owner) else {
            return Ok(());
        };
        let view = self.view();
        let table = view.table(table).map_or("", |table| &table.name);
        let error = SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot change ownership of identity sequence",
        );
        Err(error.detail(format!(
            "Sequence \"{}\" is linked to table \"{table}\".",
            sequence.name
        )))
    }

    /// The sequence of an identity on a column of this type.
    pub(super) fn identity_sequence(
        &self,
        ty: SqlType,
        always: bool,
        list: &[SequenceOption],
    ) -> SqlResult<OwnSequence> {
        let options = self.options(list)?;
        let ty = self.sequence_type(&options, ty, "identity column")?;
        let (definition, _) = options.define(ty, None)?;
        let name = match options.name {
            Some((name, _)) => Some(split_name(name)?.1),
            None => None,
        };
        Ok(OwnSequence {
            name,
            ty,
            start: definition.start,
            rule: definition.rule,
            identity: Some(match always {
                true => Identity::Always,
                false => Identity::ByDefault,
            }),
        })
    }

    /// The sequence of a `serial`.
    pub(super) fn serial_sequence(ty: SqlType) -> SqlResult<OwnSequence> {
        let (definition, _) = Options::default().define(ty, None)?;
        Ok(OwnSequence {
            name: None,
            ty,
            start: definition.start,
            rule: definition.rule,
            identity: None,
        })
    }

    /// A default as it is kept: a sequence that it takes its value of goes by its oid.
    pub(super) fn kept_default(&self, value: &ast::WrittenExpr) -> String {
        match self.sequence_of_next(&value.expr) {
            Some(sequence) => sequence.default_text(),
            None => value.text.clone(),
        }
    }

    /// The sequence of `nextval('name')`.
    fn sequence_of_next(&self, value: &ast::Expr) -> Option<Arc<SequenceInfo>> {
        let ExprKind::Call(call) = &value.kind else {
            return None;
        };
        let [argument] = call.args.as_slice() else {
            return None;
        };
        if call.name.last() != "nextval" {
            return None;
        }
        let literal = match &argument.value.kind {
            ExprKind::Cast { arg, .. } => &arg.kind,
            kind => kind,
        };
        let ExprKind::Literal(Literal::String(name)) = literal else {
            return None;
        };
        let name = evenkeel_planner::parser::parse_name(name).ok()?;
        self.find_sequence(&name).ok()
    }

    /// Drops a sequence with the defaults that use it, if CASCADE was said.
    pub(super) async fn drop_sequence(
        &mut self,
        sequence: &SequenceInfo,
        cascade: bool,
    ) -> SqlResult<()> {
        let view = self.view();
        if let (Some(_), Some((table, attnum))) = (sequence.identity, sequence.owner)
            && let Some(table) = view.table(table)
        {
            let column = table.columns.iter().find(|c| c.attnum == attnum);
            let column = column.map_or("", |column| &column.name);
            let message = format!(
                "cannot drop sequence {} because column {column} of table {} requires it",
                sequence.name, table.name
            );
            let hint = format!(
                "You can drop column {column} of table {} instead.",
                table.name
            );
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.hint(hint));
        }
        self.drop_views_on(&[sequence.oid], cascade).await?;
        self.drop_defaults_by(sequence, None, cascade).await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_sequence(txn, ddl, sequence.oid).await
    }

    /// Drops the defaults that use a sequence, but for those of `except`.
    ///
    /// # Errors
    /// 2BP01 if there are any, unless CASCADE was said.
    pub(super) async fn drop_defaults_by(
        &mut self,
        sequence: &SequenceInfo,
        except: Option<(&TableInfo, Option<usize>)>,
        cascade: bool,
    ) -> SqlResult<()> {
        let view = self.view();
        let users = view.defaults_by(sequence.oid);
        let users: Vec<(Oid, usize, String)> = users
            .filter(|(table, column)| {
                except.is_none_or(|(except, at)| {
                    let of = at.is_none_or(|at| except.columns[at].attnum == column.attnum);
                    except.oid != table.oid || !of
                })
            })
            .filter_map(|(table, column)| {
                let at = table.column(&column.name)?;
                let name = format!("column {} of table {}", column.name, table.name);
                Some((table.oid, at, name))
            })
            .collect();
        if !users.is_empty() && !cascade {
            let what = match except {
                Some((table, Some(at))) => {
                    let column = &table.columns[at].name;
                    format!("column {column} of table {}", table.name)
                }
                Some((table, None)) => format!("table {}", table.name),
                None => format!("sequence {}", sequence.name),
            };
            let message = format!("cannot drop {what} because other objects depend on it");
            let lines = users.iter().map(|(_, _, column)| {
                format!(
                    "default value for {column} depends on sequence {}",
                    sequence.name
                )
            });
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error
                .detail(lines.collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (table, at, name) in users {
            let message = format!("drop cascades to default value for {name}");
            self.notice("NOTICE", SqlState::SUCCESS, message);
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog
                .alter_column(txn, ddl, table, at, |column| column.default = None)
                .await?;
        }
        Ok(())
    }

    /// Drops a table with the sequences of its columns.
    pub(super) async fn drop_table(&mut self, table: &TableInfo, cascade: bool) -> SqlResult<()> {
        self.refuse_in_use(table, "DROP TABLE")?;
        let view = self.view();
        let own: Vec<Arc<SequenceInfo>> = view.sequences_of(table.oid).cloned().collect();
        for sequence in &own {
            self.drop_defaults_by(sequence, Some((table, None)), cascade)
                .await?;
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_table(txn, ddl, table.oid).await?;
        for sequence in own {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.drop_sequence(txn, ddl, sequence.oid).await?;
        }
        Ok(())
    }

    /// TRUNCATE … RESTART IDENTITY: the sequences of a table's columns begin again.
    pub(super) async fn restart_sequences(&mut self, table: Oid) -> SqlResult<()> {
        let view = self.view();
        let own: Vec<Arc<SequenceInfo>> = view.sequences_of(table).cloned().collect();
        for sequence in own {
            let change = SequenceChange {
                restart: Some(sequence.start),
                ..SequenceChange::of(&sequence)
            };
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog
                .alter_sequence(txn, ddl, sequence.oid, &change)
                .await?;
        }
        Ok(())
    }
}

/// 42703
pub(super) fn no_column(column: &str, table: &TableInfo) -> SqlError {
    let message = format!(
        "column \"{column}\" of relation \"{}\" does not exist",
        table.name
    );
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}
