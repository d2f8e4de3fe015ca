//! The notes that EXPLAIN shows of operators.

use std::sync::Arc;

use crate::bound::ChangeKind;
use crate::plan::{AggregateStrategy, Detail, JoinType, Node, NodeKind, Notes};

use super::deparse::Deparser;
use super::path::{Bitmap, BitmapKind, Change, ExprRef, IndexMatch, OrderKey, Path, PathKind};
use super::statement::{Source, Statement};

fn listed(deparser: &Deparser<'_, '_>, exprs: &[ExprRef]) -> Vec<String> {
    exprs.iter().map(|expr| deparser.expr(expr)).collect()
}

impl Statement<'_> {
    /// Notes what the path that a node was made from says of it. A path that only adds conditions
    /// to its child's node adds its notes to the child's.
    pub(super) fn note(&self, path: &Path, node: &mut Node) {
        let mut notes = match node.notes.take() {
            Some(notes) => *notes,
            None => Notes {
                node_type: node_type(&node.kind),
                ..Notes::default()
            },
        };
        match &path.kind {
            PathKind::Scan { rel, .. } | PathKind::Bitmap { rel, .. } => {
                notes.relation = Some(self.relation_names(*rel));
            }
            PathKind::Index {
                rel,
                index,
                backward,
                ..
            } => {
                notes.relation = Some(self.relation_names(*rel));
                notes.backward = *backward;
                if let Source::Relation(relation) = &self.rels[*rel].source {
                    notes.index = Some(Arc::clone(&relation.indexes[*index].name));
                }
            }
            PathKind::NestedLoop { join, .. } | PathKind::Hash { join, .. } => {
                notes.join_type = join_name(*join);
            }
            PathKind::Modify { change, .. } => {
                notes.operation = Some(match change.kind {
                    ChangeKind::Insert => "Insert",
                    ChangeKind::Update => "Update",
                    ChangeKind::Delete => "Delete",
                    ChangeKind::Merge => "Merge",
                });
                notes.relation = Some(self.relation_names(change.rel));
            }
            _ => {}
        }
        let mut deparser = Deparser::new(self);
        deparser.scanned = match path.kind {
            PathKind::Scan { rel, .. }
            | PathKind::Index { rel, .. }
            | PathKind::Bitmap { rel, .. } => Some(rel),
            _ => None,
        };
        for (name, conditions) in self.conditions(&deparser, path) {
            if !conditions.is_empty() {
                notes.details.push((name, Detail::Text(all_of(conditions))));
            }
        }
        if let PathKind::Modify { change, .. } = &path.kind {
            notes.details.extend(conflict_notes(change, &deparser));
        }
        let keys = match &path.kind {
            PathKind::Sort { keys, .. } => Some(("Sort Key", order(&deparser, keys))),
            PathKind::Aggregate { group, .. } if !group.is_empty() => {
                Some(("Group Key", listed(&deparser, group)))
            }
            _ => None,
        };
        if let Some((name, keys)) = keys {
            notes.details.push((name, Detail::List(keys)));
        }
        node.notes = Some(Box::new(notes));
    }

    /// The conditions that a path asks, by the names that they are shown under.
    fn conditions(
        &self,
        deparser: &Deparser<'_, '_>,
        path: &Path,
    ) -> Vec<(&'static str, Vec<String>)> {
        let of = |exprs: &[ExprRef]| listed(deparser, exprs);
        match &path.kind {
            PathKind::Subquery { filter, .. }
            | PathKind::Filter { filter, .. }
            | PathKind::Scan { filter, .. } => vec![("Filter", of(filter))],
            PathKind::Result { conditions } => vec![("One-Time Filter", of(conditions))],
            PathKind::Index {
                rel,
                index,
                keys,
                filter,
                ..
            } => vec![
                (
                    "Index Cond",
                    self.index_condition(deparser, *rel, *index, keys),
                ),
                ("Filter", of(filter)),
            ],
            PathKind::Bitmap {
                recheck, filter, ..
            } => vec![("Recheck Cond", of(recheck)), ("Filter", of(filter))],
            PathKind::NestedLoop {
                condition, filter, ..
            } => vec![("Join Filter", of(condition)), ("Filter", of(filter))],
            PathKind::Hash {
                keys,
                condition,
                filter,
                ..
            } => {
                let keys = keys.iter().map(|(outer, inner)| {
                    format!("({} = {})", deparser.expr(outer), deparser.expr(inner))
                });
                vec![
                    ("Hash Cond", keys.collect()),
                    ("Join Filter", of(condition)),
                    ("Filter", of(filter)),
                ]
            }
            _ => Vec::new(),
        }
    }

    fn relation_names(&self, rel: usize) -> (Arc<str>, Arc<str>) {
        let rel = &self.rels[rel];
        let name = match &rel.source {
            Source::Relation(relation) => Arc::clone(&relation.name),
            Source::Functions { calls, .. } => {
                Arc::from(calls.first().map_or("", |call| call.proc.name))
            }
            Source::Values(_) => Arc::from("*VALUES*"),
            Source::Cte(cte) | Source::Working(cte) => Arc::clone(&self.ctes[*cte].cte.name),
            Source::Query(_) | Source::Nothing => Arc::clone(&rel.alias),
        };
        (name, Arc::clone(&rel.alias))
    }

    /// The notes of a source of places.
    pub(super) fn note_bitmap(&self, rel: usize, bitmap: &Bitmap, node: &mut Node) {
        if !self.notes {
            return;
        }
        let mut notes = Notes {
            node_type: node_type(&node.kind),
            ..Notes::default()
        };
        if let BitmapKind::Index { index, keys } = &bitmap.kind
            && let Source::Relation(relation) = &self.rels[rel].source
        {
            // Its title names the index where that of other scans has the relation.
            let name = Arc::clone(&relation.indexes[*index].name);
            notes.relation = Some((Arc::clone(&name), name));
            let mut deparser = Deparser::new(self);
            deparser.scanned = Some(rel);
            let conditions = self.index_condition(&deparser, rel, *index, keys);
            if !conditions.is_empty() {
                let condition = Detail::Text(all_of(conditions));
                notes.details.push(("Index Cond", condition));
            }
        }
        node.notes = Some(Box::new(notes));
    }

    fn index_condition(
        &self,
        deparser: &Deparser<'_, '_>,
        rel: usize,
        index: usize,
        keys: &IndexMatch,
    ) -> Vec<String> {
        let Source::Relation(relation) = &self.rels[rel].source else {
            return Vec::new();
        };
        let column = |at: usize| {
            let index = &relation.indexes[index];
            match index.columns.get(at).and_then(|column| column.column) {
                Some(column) => crate::quote::identifier(&relation.columns[column].name),
                None => {
                    let number = index.expression_at(at);
                    let shown = number.and_then(|number| index.expressions.get(number));
                    shown.map_or(String::new(), |shown| shown.shown.to_string())
                }
            }
        };
        let mut all = Vec::new();
        for (at, value) in keys.equal.iter().enumerate() {
            all.push(format!("({} = {})", column(at), deparser.expr(value)));
        }
        let next = column(keys.equal.len());
        if keys.is_null {
            all.push(format!("({next} IS NULL)"));
        }
        if let Some(array) = &keys.any {
            all.push(format!("({next} = ANY ({}))", deparser.expr(array)));
        }
        for (end, strict, inclusive) in [(&keys.low, ">", ">="), (&keys.high, "<", "<=")] {
            if let Some((value, wanted)) = end {
                let op = if *wanted { inclusive } else { strict };
                all.push(format!("({next} {op} {})", deparser.expr(value)));
            }
        }
        all
    }
}

/// The notes that EXPLAIN shows of ON CONFLICT.
fn conflict_notes(change: &Change, deparser: &Deparser<'_, '_>) -> Vec<(&'static str, Detail)> {
    let Some(conflict) = &change.conflict else {
        return Vec::new();
    };
    let resolution = match conflict.update {
        Some(_) => "UPDATE",
        None => "NOTHING",
    };
    let mut notes = vec![("Conflict Resolution", Detail::Text(resolution.to_owned()))];
    let indexes = conflict.arbiters.iter();
    let names = indexes.map(|index| change.relation.indexes[*index].name.to_string());
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        notes.push(("Conflict Arbiter Indexes", Detail::List(names)));
    }
    let filter = conflict.update.iter().flat_map(|update| &update.filter);
    let filter: Vec<String> = filter.map(|expr| deparser.expr(expr)).collect();
    if !filter.is_empty() {
        notes.push(("Conflict Filter", Detail::Text(all_of(filter))));
    }
    notes
}

fn all_of(mut conditions: Vec<String>) -> String {
    match conditions.len() {
        1 => conditions.swap_remove(0),
        _ => format!("({})", conditions.join(" AND ")),
    }
}

fn order(deparser: &Deparser<'_, '_>, keys: &[OrderKey]) -> Vec<String> {
    let keys = keys.iter().map(|key| {
        let mut text = deparser.expr(&key.expr);
        if key.desc {
            text.push_str(" DESC");
        }
        if key.nulls_first != key.desc {
            text.push_str(if key.nulls_first {
                " NULLS FIRST"
            } else {
                " NULLS LAST"
            });
        }
        text
    });
    keys.collect()
}

fn join_name(join: JoinType) -> Option<&'static str> {
    Some(match join {
        JoinType::Inner => return None,
        JoinType::Left => "Left",
        JoinType::Right => "Right",
        JoinType::Full => "Full",
        JoinType::Semi => "Semi",
        JoinType::Anti | JoinType::NullAwareAnti => "Anti",
    })
}

fn node_type(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Result { .. } => "Result",
        NodeKind::Values(_) => "Values Scan",
        NodeKind::SeqScan { .. } | NodeKind::VirtualScan { .. } => "Seq Scan",
        NodeKind::IndexScan { only: true, .. } => "Index Only Scan",
        NodeKind::IndexScan { .. } => "Index Scan",
        NodeKind::BitmapHeapScan { .. } => "Bitmap Heap Scan",
        NodeKind::BitmapIndexScan { .. } => "Bitmap Index Scan",
        NodeKind::BitmapCombine { all: true, .. } => "BitmapAnd",
        NodeKind::BitmapCombine { .. } => "BitmapOr",
        NodeKind::FunctionScan { .. } => "Function Scan",
        NodeKind::CteScan { .. } => "CTE Scan",
        NodeKind::WorkingScan { .. } => "WorkTable Scan",
        NodeKind::Project { .. } => "Subquery Scan",
        NodeKind::ProjectSet { .. } => "ProjectSet",
        NodeKind::NestedLoop { .. } => "Nested Loop",
        NodeKind::HashJoin { .. } => "Hash Join",
        NodeKind::MergeJoin { .. } => "Merge Join",
        NodeKind::Materialize { .. } => "Materialize",
        NodeKind::Memoize { .. } => "Memoize",
        NodeKind::Sort { presorted: 0, .. } => "Sort",
        NodeKind::Sort { .. } => "Incremental Sort",
        NodeKind::Limit { .. } => "Limit",
        NodeKind::Aggregate { strategy, .. } => match strategy {
            AggregateStrategy::Plain => "Aggregate",
            AggregateStrategy::Sorted => "GroupAggregate",
            AggregateStrategy::Hashed => "HashAggregate",
        },
        NodeKind::Window { .. } => "WindowAgg",
        NodeKind::Unique { .. } => "Unique",
        NodeKind::Append { .. } => "Append",
        NodeKind::MergeAppend { .. } => "Merge Append",
        NodeKind::SetOperation { .. } => "HashSetOp",
        NodeKind::RecursiveUnion { .. } => "Recursive Union",
        NodeKind::LockRows { .. } => "LockRows",
        NodeKind::ModifyTable { .. } => "ModifyTable",
    }
}
