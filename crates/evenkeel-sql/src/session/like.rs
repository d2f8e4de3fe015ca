//! `LIKE` in CREATE TABLE.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{LikeOptions, QualifiedName};

use super::Session;
use crate::catalog::comment_info::{CLASS, CONSTRAINTS, Subject};
use crate::catalog::{
    ColumnInfo, Generated, IndexInfo, NewCheck, NewColumn, NewConstraint, NewIndex, NewIndexColumn,
    NewIndexKey, OwnSequence, TableInfo, ViewColumn,
};
use crate::error::SqlResult;
use crate::key::KeyColumn;

/// Parts of a new table that LIKE takes from another; indexes are as the other has them.
#[derive(Default)]
pub(super) struct Copied {
    pub checks: Vec<NewCheck>,
    pub indexes: Vec<NewIndex>,
    /// Comments on columns and on CHECK constraints, by their names.
    pub comments: Vec<(CopiedPart, String, Arc<str>)>,
}

/// A part of a table that a copied comment is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CopiedPart {
    Column,
    Check,
}

impl Session {
    /// Copies a table's columns behind those that there are, and what the options name.
    pub(super) async fn copy_like(
        &mut self,
        name: &QualifiedName,
        options: LikeOptions,
        (columns, constraints): (&mut Vec<NewColumn>, &mut Vec<NewConstraint>),
        copied: &mut Copied,
    ) -> SqlResult<()> {
        if let Some(view) = self.named_view(name)? {
            let like = |column: &ViewColumn| NewColumn::plain(column.name.to_string(), column.ty);
            columns.extend(view.columns.iter().map(like));
            return Ok(());
        }
        let mode = TableLockMode::AccessShare;
        let table = self.locked_table(name, mode, WaitPolicy::Block).await?;
        let first = columns.len();
        for column in &table.columns {
            columns.push(self.like_column(column, options, first));
        }
        if options.constraints {
            let checks = table.checks.iter().map(|check| NewCheck {
                name: Some(check.name.to_string()),
                text: check.text.to_string(),
                pretty: check.pretty.to_string(),
                columns: check.columns.iter().map(|at| first + at).collect(),
                not_valid: false,
            });
            copied.checks.extend(checks);
        }
        if options.comments {
            self.copy_comments(&table, options, copied);
        }
        if options.indexes {
            for index in &table.indexes {
                let key = table.constraints.iter();
                let key = key.into_iter().find(|key| key.index_oid == index.oid);
                match key {
                    Some(key) => constraints.push(NewConstraint {
                        name: None,
                        kind: key.kind,
                        columns: names(&table, key.columns.iter().copied()),
                        included: names(&table, index.included.iter().copied()),
                        deferrable: key.deferrable,
                        deferred: key.deferred,
                        nulls_not_distinct: index.nulls_not_distinct,
                    }),
                    None => copied.indexes.push(like_index(&table, index)),
                }
            }
        }
        Ok(())
    }

    fn copy_comments(&self, table: &TableInfo, options: LikeOptions, copied: &mut Copied) {
        let view = self.view();
        let words = |subject| view.comment(subject)?.text.clone();
        for column in &table.columns {
            let subject = Subject {
                column: column.attnum,
                ..Subject::of(CLASS, table.oid)
            };
            let text = words(subject);
            let comment = |text| (CopiedPart::Column, column.name.to_string(), text);
            copied.comments.extend(text.map(comment));
        }
        for check in table.checks.iter().filter(|_| options.constraints) {
            let text = words(Subject::of(CONSTRAINTS, check.oid));
            let comment = |text| (CopiedPart::Check, check.name.to_string(), text);
            copied.comments.extend(text.map(comment));
        }
    }

    /// Gives the parts of a new table the comments that LIKE has copied.
    pub(super) async fn put_copied_comments(
        &mut self,
        table: &TableInfo,
        copied: &Copied,
    ) -> SqlResult<()> {
        for (part, name, text) in &copied.comments {
            let subject = match part {
                CopiedPart::Column => table.column(name).map(|at| Subject {
                    column: table.columns[at].attnum,
                    ..Subject::of(CLASS, table.oid)
                }),
                CopiedPart::Check => {
                    let found = table.checks.iter().find(|check| *check.name == **name);
                    found.map(|check| Subject::of(CONSTRAINTS, check.oid))
                }
            };
            if let Some(subject) = subject {
                let (catalog, txn, ddl) = self.ddl_parts()?;
                let text = Some(&**text);
                catalog.set_comment(txn, ddl, subject, text, false).await?;
            }
        }
        Ok(())
    }

    fn like_column(&self, column: &ColumnInfo, options: LikeOptions, first: usize) -> NewColumn {
        let generated = column.generated.as_ref().filter(|_| options.generated);
        let default = column.default.as_ref().filter(|_| options.defaults);
        let identity = column.identity.filter(|_| options.identity);
        let sequence = identity.and_then(|(identity, oid)| {
            let view = self.view();
            let sequence = view.sequence(oid)?;
            Some(OwnSequence {
                name: None,
                ty: sequence.ty,
                start: sequence.start,
                rule: sequence.rule,
                identity: Some(identity),
            })
        });
        NewColumn {
            name: column.name.to_string(),
            ty: column.declared(),
            not_null: column.not_null.is_some(),
            not_null_name: column.not_null.as_ref().map(|it| it.name.to_string()),
            default: default.map(|default| default.to_string()),
            generated: generated.map(|generated| Generated {
                text: Arc::clone(&generated.text),
                pretty: Arc::clone(&generated.pretty),
                columns: generated.columns.iter().map(|at| first + at).collect(),
                is_virtual: generated.is_virtual,
            }),
            sequence,
        }
    }
}

fn names(table: &TableInfo, columns: impl Iterator<Item = usize>) -> Vec<String> {
    let columns = columns.filter_map(|at| table.columns.get(at));
    columns.map(|column| column.name.to_string()).collect()
}

fn like_index(table: &TableInfo, index: &IndexInfo) -> NewIndex {
    let column = |(at, key): (usize, &KeyColumn)| {
        let column = key.column.and_then(|column| table.columns.get(column));
        let key_of = match column {
            Some(column) => NewIndexKey::Column(column.name.to_string()),
            None => NewIndexKey::Expression(index.expression_at(at)?.clone()),
        };
        Some(NewIndexColumn {
            key: key_of,
            descending: key.descending,
            nulls_first: Some(key.nulls_first),
            class: index.classes.get(at)?.map(|class| class.name.to_owned()),
        })
    };
    let columns = index.columns.iter().enumerate().filter_map(column);
    NewIndex {
        name: None,
        columns: columns.collect(),
        included: names(table, index.included.iter().copied()),
        unique: index.unique,
        nulls_not_distinct: index.nulls_not_distinct,
        if_not_exists: false,
        predicate: index.predicate.clone(),
    }
}
