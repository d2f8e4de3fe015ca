//! MERGE.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::query::finish_ctes;
use super::scope::{EntryInfo, NsItem, Place, Scope};
use super::{Binder, walk};
use crate::ast::{self, JoinKind, MergeWhen, Pos};
use crate::bound::{
    Change, ChangeKind, Expr, ExprKind, FromNode, JoinNode, MergeAction, MergeClause, Query,
    RangeEntry, RangeKind, Target, Var,
};
use crate::error::{PlanError, PlanResult};
use crate::relation::Relation;

fn syntax(message: &str) -> PlanError {
    PlanError::new(SqlState::SYNTAX_ERROR, message)
}

/// No clause may follow one of its kind that has no condition.
fn check_reachable(clauses: &[ast::MergeClause]) -> PlanResult<()> {
    for (number, clause) in clauses.iter().enumerate() {
        let mut before = clauses[..number].iter();
        if before.any(|other| other.when == clause.when && other.condition.is_none()) {
            return Err(syntax(
                "unreachable WHEN clause specified after unconditional WHEN clause",
            ));
        }
    }
    Ok(())
}

/// The join of target and source that gives the rows which some clause changes something for.
fn join_kind(clauses: &[ast::MergeClause]) -> JoinKind {
    let acts = |when| {
        let mut clauses = clauses.iter();
        clauses.any(|clause| clause.when == when && clause.action != ast::MergeAction::Nothing)
    };
    match (
        acts(MergeWhen::NotMatchedBySource),
        acts(MergeWhen::NotMatchedByTarget),
    ) {
        (true, true) => JoinKind::Full,
        (true, false) => JoinKind::Left,
        (false, true) => JoinKind::Right,
        (false, false) => JoinKind::Inner,
    }
}

/// An entry without names.
fn nameless(kind: RangeKind, types: Vec<SqlType>) -> RangeEntry {
    RangeEntry {
        alias: "".into(),
        columns: Vec::new(),
        types,
        kind,
        lateral: false,
        indexes: Vec::new(),
        virtuals: Vec::new(),
    }
}

const UNNAMED: EntryInfo = EntryInfo {
    aliased: true,
    relation: None,
    cte: None,
    join: true,
};

impl Binder<'_> {
    pub(super) fn bind_merge(&mut self, merge: &ast::Merge) -> PlanResult<Change> {
        self.scopes.push(Scope::default());
        if let Some(with) = &merge.with {
            if with.recursive {
                return Err(syntax(
                    "WITH RECURSIVE is not supported for MERGE statement",
                ));
            }
            self.bind_with(with)?;
        }
        check_reachable(&merge.clauses)?;
        let (relation, rel) = self.open_target(&merge.target)?;
        let source = self.bind_merge_source(&merge.source, rel)?;
        self.show_target(&relation, rel);
        // The source's columns come first in `*`.
        self.scope().namespace.rotate_left(1);
        let condition = self.bind_condition(Place::JoinOn, "JOIN/ON", &merge.on)?;
        let returning = self.bind_merge_returning(merge.returning.as_ref(), &relation)?;
        let source_rel = match &source {
            FromNode::Entry(rel) => *rel,
            FromNode::Join(join) => join.entry,
        };
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            clauses.push(self.bind_clause(clause, &relation, (rel, source_rel))?);
        }
        let entry = self.add_entry(
            nameless(
                RangeKind::Join {
                    columns: Vec::new(),
                },
                Vec::new(),
            ),
            UNNAMED,
        );
        let join = JoinNode {
            kind: join_kind(&merge.clauses),
            left: FromNode::Entry(rel),
            right: source,
            condition: Some(condition),
            entry,
        };
        let generated = self.bind_generated(&relation, rel)?;
        let checks = self.bind_checks(&relation, rel)?;
        let scope = self.scopes.pop().unwrap_or_default();
        Ok(Change {
            kind: ChangeKind::Merge,
            query: Query {
                from: vec![FromNode::Join(Box::new(join))],
                range_table: scope.range_table,
                ctes: finish_ctes(scope.ctes),
                ..Query::default()
            },
            target: rel,
            relation,
            columns: Vec::new(),
            conflict: None,
            clauses,
            generated,
            checks,
            returning,
        })
    }

    /// USING, which may not refer to the target.
    fn bind_merge_source(&mut self, item: &ast::FromItem, target: usize) -> PlanResult<FromNode> {
        let mut nodes = self.bind_from(std::slice::from_ref(item))?;
        let source = nodes
            .pop()
            .ok_or_else(|| syntax("MERGE without a source"))?;
        let scope = self.scope();
        let alias = &scope.range_table[target].alias;
        if scope.namespace.iter().any(|item| item.name == *alias) {
            let message = format!("name \"{alias}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            let error = PlanError::new(SqlState::DUPLICATE_ALIAS, message);
            return Err(error.detail(detail.to_owned()));
        }
        Ok(source)
    }

    fn bind_merge_returning(
        &mut self,
        returning: Option<&ast::Returning>,
        relation: &Arc<Relation>,
    ) -> PlanResult<Option<crate::bound::Returning>> {
        if returning.is_some() {
            let entry = nameless(RangeKind::MergeAction, vec![SqlType::Text]);
            let action = self.add_entry(entry, UNNAMED);
            self.scope().merge_action = Some(action);
        }
        self.bind_returning(returning, relation, Place::MergeReturning)
    }

    /// `MERGE_ACTION()`
    pub(super) fn bind_merge_action(&mut self, at: Pos) -> PlanResult<Expr> {
        let mut scopes = self.scopes.iter().rev().enumerate();
        let found = scopes.find(|(_, scope)| scope.place == Place::MergeReturning);
        let Some((depth, Some(rel))) = found.map(|(depth, scope)| (depth, scope.merge_action))
        else {
            let message =
                "MERGE_ACTION() can only be used in the RETURNING list of a MERGE command";
            return Err(syntax(message).at(at));
        };
        Ok(Expr {
            kind: ExprKind::Var(Var {
                depth,
                rel,
                column: 0,
            }),
            ty: SqlType::Text,
            at,
        })
    }

    fn bind_clause(
        &mut self,
        clause: &ast::MergeClause,
        relation: &Relation,
        (target, source): (usize, usize),
    ) -> PlanResult<MergeClause> {
        let hidden = match clause.when {
            MergeWhen::Matched => None,
            MergeWhen::NotMatchedByTarget => Some(target),
            MergeWhen::NotMatchedBySource => Some(source),
        };
        let namespace = self.scope().namespace.clone();
        for item in &mut self.scope().namespace {
            if Some(item.rel) == hidden {
                hide(item);
            }
        }
        let condition = clause.condition.as_ref();
        let condition = condition
            .map(|condition| self.bind_condition(Place::MergeWhen, "WHEN", condition))
            .transpose()?;
        let (action, (columns, targets)) = self.bind_action(&clause.action, relation, target)?;
        self.scope().namespace = namespace;
        Ok(MergeClause {
            when: clause.when,
            condition,
            action,
            columns,
            targets,
        })
    }

    fn bind_action(
        &mut self,
        action: &ast::MergeAction,
        relation: &Relation,
        target: usize,
    ) -> PlanResult<(MergeAction, (Vec<usize>, Vec<Target>))> {
        Ok(match action {
            ast::MergeAction::Nothing => (MergeAction::Nothing, Default::default()),
            ast::MergeAction::Delete => (MergeAction::Delete, Default::default()),
            ast::MergeAction::Update(set) => {
                (MergeAction::Update, self.bind_set(set, relation, target)?)
            }
            ast::MergeAction::Insert {
                columns,
                overriding,
                values,
            } => {
                let row =
                    self.bind_merge_insert(columns, values.as_deref(), *overriding, relation)?;
                refuse_sets(&row.1)?;
                (MergeAction::Insert, row)
            }
        })
    }
}

fn hide(item: &mut NsItem) {
    item.table_visible = false;
    item.columns_visible = false;
}

fn refuse_sets(values: &[Target]) -> PlanResult<()> {
    let mut found = None;
    for value in values {
        walk::walk(&value.expr, 0, &mut |part, level| {
            if level == 0 && found.is_none() && matches!(part.kind, ExprKind::SetCall(_)) {
                found = Some(part.at);
            }
            match level {
                0 => walk::Enter::Yes,
                _ => walk::Enter::No,
            }
        });
    }
    match found {
        None => Ok(()),
        Some(at) => {
            let message = "set-valued function called in context that cannot accept a set";
            Err(PlanError::unsupported(message).at(at))
        }
    }
}
