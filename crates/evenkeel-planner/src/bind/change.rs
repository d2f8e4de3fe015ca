//! INSERT, UPDATE and DELETE.

use std::sync::Arc;

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{Datum, SqlState, SqlType};

use super::from::{item_of, set_lateral};
use super::query::{Unknowns, finish_ctes};
use super::returning::entry_of;
use super::scope::{EntryInfo, Place, Scope};
use super::slots::Slot;
use super::targets::shown;
use super::{Binder, place};
use crate::ast::{self, Assignment, ExprKind as K, Pos, QueryBody, SetTarget};
use crate::bound::{
    Change, ChangeKind, Expr, ExprKind, FromNode, Query, RangeEntry, RangeKind, Target, Var,
};
use crate::error::{PlanError, PlanResult};
use crate::parser;
use crate::relation::{Column, Identity, Relation, RelationKind};

/// Source of a multi-column assignment.
enum SetValues<'a> {
    Row(&'a [ast::Expr]),
    /// A subquery's row, and the types and places of its columns.
    Subquery(Expr, Vec<(SqlType, Pos)>),
}

fn field_of(row: Expr, field: usize, (ty, at): (SqlType, Pos)) -> Expr {
    Expr {
        at,
        ty,
        kind: ExprKind::Field {
            row: Box::new(row),
            field,
        },
    }
}

fn syntax(message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(SqlState::SYNTAX_ERROR, message).at(at)
}

impl Binder<'_> {
    /// The relation to change, with its entry.
    pub(super) fn open_target(
        &mut self,
        target: &ast::ChangeTarget,
    ) -> PlanResult<(Arc<Relation>, usize)> {
        let relation = self.open_relation(&target.name)?;
        if relation.kind == RelationKind::Sequence {
            let message = format!("cannot change sequence \"{}\"", relation.name);
            return Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if relation.kind == RelationKind::View {
            let message = format!(
                "changes through view \"{}\" are not supported",
                relation.name
            );
            let error = PlanError::unsupported(message).at(target.name.at());
            return Err(error.hint("Change the rows of the tables that it is over."));
        }
        if !matches!(relation.kind, RelationKind::Table) {
            let message = format!("changes of \"{}\" are not supported", relation.name);
            return Err(PlanError::unsupported(message).at(target.name.at()));
        }
        let alias = target.alias.as_ref();
        let entry = entry_of(&relation, alias.map_or(&*relation.name, |name| &name.text));
        let info = EntryInfo {
            aliased: alias.is_some(),
            relation: Some((Arc::clone(&relation.name), relation.oid)),
            cte: None,
            join: false,
        };
        let rel = self.add_entry(entry, info);
        self.bind_indexes(rel)?;
        self.bind_virtuals(rel)?;
        Ok((relation, rel))
    }

    /// Makes the target's names visible.
    pub(super) fn show_target(&mut self, relation: &Relation, rel: usize) {
        let scope = self.scope();
        let mut item = item_of(rel, &scope.range_table[rel]);
        item.relation = (!scope.info[rel].aliased).then_some(relation.oid);
        scope.target = Some(rel);
        scope.namespace.insert(0, item);
    }

    /// The change with what the scope holds.
    fn finish_change(
        &mut self,
        kind: ChangeKind,
        relation: Arc<Relation>,
        target: usize,
        values: (Vec<usize>, Query),
        returning: Option<&ast::Returning>,
    ) -> PlanResult<Change> {
        let returning = self.bind_returning(returning, &relation, Place::Returning)?;
        let (generated, checks) = match kind {
            ChangeKind::Insert | ChangeKind::Update => (
                self.bind_generated(&relation, target)?,
                self.bind_checks(&relation, target)?,
            ),
            _ => (Vec::new(), Vec::new()),
        };
        let scope = self.scopes.pop().unwrap_or_default();
        let (columns, query) = values;
        Ok(Change {
            kind,
            query: Query {
                range_table: scope.range_table,
                ctes: finish_ctes(scope.ctes),
                ..query
            },
            target,
            relation,
            columns,
            conflict: None,
            clauses: Vec::new(),
            generated,
            checks,
            returning,
        })
    }

    pub(super) fn bind_delete(&mut self, delete: &ast::Delete) -> PlanResult<Change> {
        self.scopes.push(Scope::default());
        if let Some(with) = &delete.with {
            self.bind_with(with)?;
        }
        let (relation, rel) = self.open_target(&delete.target)?;
        let query = self.bind_rows(&relation, rel, &delete.using, delete.filter.as_ref())?;
        let values = (Vec::new(), query);
        let returning = delete.returning.as_ref();
        self.finish_change(ChangeKind::Delete, relation, rel, values, returning)
    }

    pub(super) fn bind_update(&mut self, update: &ast::Update) -> PlanResult<Change> {
        self.scopes.push(Scope::default());
        if let Some(with) = &update.with {
            self.bind_with(with)?;
        }
        let (relation, rel) = self.open_target(&update.target)?;
        let query = self.bind_rows(&relation, rel, &update.from, update.filter.as_ref())?;
        // RETURNING is bound before SET, as its errors come first.
        let returning = update.returning.as_ref();
        let returning = self.bind_returning(returning, &relation, Place::Returning)?;
        let (columns, targets) = self.bind_set(&update.set, &relation, rel)?;
        let query = Query { targets, ..query };
        let values = (columns, query);
        let change = self.finish_change(ChangeKind::Update, relation, rel, values, None)?;
        Ok(Change {
            returning,
            ..change
        })
    }

    /// The target joined with the other items, under WHERE.
    fn bind_rows(
        &mut self,
        relation: &Relation,
        rel: usize,
        items: &[ast::FromItem],
        filter: Option<&ast::Expr>,
    ) -> PlanResult<Query> {
        self.show_target(relation, rel);
        // Other items may not refer to the target, not even by LATERAL.
        set_lateral(&mut self.scope().namespace, true, false);
        let mut from = vec![FromNode::Entry(rel)];
        from.extend(self.bind_from(items)?);
        let filter = filter
            .map(|filter| self.bind_condition(Place::Where, "WHERE", filter))
            .transpose()?;
        Ok(Query {
            from,
            filter,
            ..Query::default()
        })
    }

    /// SET.
    pub(super) fn bind_set(
        &mut self,
        list: &[Assignment],
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<(Vec<usize>, Vec<Target>)> {
        let mut columns: Vec<usize> = Vec::new();
        let mut targets = Vec::new();
        for assignment in list {
            match assignment {
                Assignment::One(target, value) => {
                    let value = self.set_value(value)?;
                    self.set_column(target, value, (relation, rel), (&mut columns, &mut targets))?;
                }
                Assignment::Many(names, value) => {
                    let values = self.set_values(value, names.len())?;
                    for (index, target) in names.iter().enumerate() {
                        let value = match &values {
                            SetValues::Row(fields) => self.set_value(&fields[index])?,
                            SetValues::Subquery(row, types) => {
                                field_of(row.clone(), index, types[index])
                            }
                        };
                        let made = (&mut columns, &mut targets);
                        self.set_column(target, value, (relation, rel), made)?;
                    }
                }
            }
        }
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].contains(column) {
                let name = &relation.columns[*column].name;
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(syntax(message, Pos::NONE));
            }
        }
        self.ask_domains_again(relation, &columns, &mut targets)?;
        Ok((columns, targets))
    }

    fn set_value(&mut self, value: &ast::Expr) -> PlanResult<Expr> {
        match value.kind {
            K::Default => Ok(default_value(value.at)),
            _ => self.bind_in(Place::UpdateSource, value),
        }
    }

    /// The values of `(a, b) = …` for so many columns.
    fn set_values<'a>(
        &mut self,
        value: &'a ast::Expr,
        columns: usize,
    ) -> PlanResult<SetValues<'a>> {
        let mismatch = || {
            let message = "number of columns does not match number of values";
            syntax(message, place::of_ast(value))
        };
        match &value.kind {
            K::Row { fields, .. } if fields.len() == columns => Ok(SetValues::Row(fields)),
            K::Row { .. } => Err(mismatch()),
            K::Sublink(sublink) if sublink.kind == ast::SublinkKind::Scalar => {
                let before = std::mem::replace(&mut self.scope().place, Place::UpdateSource);
                let bound = self.bind_row_of(&sublink.query, value.at);
                self.scope().place = before;
                let (row, types) = bound?;
                match types.len() == columns {
                    true => Ok(SetValues::Subquery(row, types)),
                    false => Err(mismatch()),
                }
            }
            _ => {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or \
                               ROW() expression";
                Err(PlanError::unsupported(message).at(place::of_ast(value)))
            }
        }
    }

    fn set_column(
        &mut self,
        target: &SetTarget,
        value: Expr,
        (relation, rel): (&Relation, usize),
        (columns, targets): (&mut Vec<usize>, &mut Vec<Target>),
    ) -> PlanResult<()> {
        let slot = self.set_slot(target, relation, rel)?;
        let is_default = matches!(value.kind, ExprKind::Default);
        let value = self.assign(value, relation, &slot)?;
        let column = &relation.columns[slot.column];
        let computed = column.generated.is_some() || column.identity == Some(Identity::Always);
        if computed && !is_default {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(generated_always(column, message));
        }
        let old = |ty| Expr {
            kind: ExprKind::Var(Var {
                depth: 0,
                rel,
                column: slot.column,
            }),
            ty,
            at: Pos::NONE,
        };
        put_value(value, &slot, relation, old, (columns, targets));
        Ok(())
    }

    /// The DEFAULT of a column, if it has one: bound where no name means anything.
    pub(super) fn default_of(
        &mut self,
        relation: &Relation,
        column: usize,
    ) -> PlanResult<Option<Expr>> {
        let column = &relation.columns[column];
        let declared = column.declared();
        let text = match (&column.default, declared) {
            (Some(text), _) => &**text,
            // An identity takes its own, whatever the domain says.
            (None, SqlType::Domain(domain)) if column.identity.is_none() => {
                return self.domain_default(domain);
            }
            (None, _) => return Ok(None),
        };
        let broken = || {
            let message = format!("the default of column \"{}\" is no expression", column.name);
            PlanError::new(SqlState::INTERNAL_ERROR, message)
        };
        let parsed = parser::parse_expr(text)?;
        self.scopes.push(Scope::default());
        let bound = self.of_kept(relation, |binder| binder.bind_expr(&parsed));
        self.scopes.pop();
        let value = self.coerce_to_target(bound?, declared, CastContext::Assignment, Pos::NONE)?;
        value.map(Some).ok_or_else(broken)
    }

    pub(super) fn bind_insert(&mut self, insert: &ast::Insert) -> PlanResult<Change> {
        self.scopes.push(Scope::default());
        if let Some(with) = &insert.with {
            self.bind_with(with)?;
        }
        let (relation, rel) = self.open_target(&insert.target)?;
        let slots = self.insert_slots(&insert.columns, &relation)?;
        let listed = !insert.columns.is_empty();
        self.scope().overriding = insert.overriding;
        let (values, from) = match &insert.source {
            None => (Vec::new(), Vec::new()),
            Some(source) => self.insert_values(source, &relation, &slots, listed)?,
        };
        let (columns, targets) = self.insert_targets(values, &slots, &relation)?;
        self.scope().namespace.clear();
        self.show_target(&relation, rel);
        let query = Query {
            from,
            targets,
            ..Query::default()
        };
        let conflict = insert.on_conflict.as_ref();
        let conflict = conflict
            .map(|conflict| self.bind_conflict(conflict, &relation, rel))
            .transpose()?;
        let (values, returning) = ((columns, query), insert.returning.as_ref());
        let change = self.finish_change(ChangeKind::Insert, relation, rel, values, returning)?;
        Ok(Change { conflict, ..change })
    }

    /// The given values and the defaults of the other columns.
    fn insert_targets(
        &mut self,
        values: Vec<Expr>,
        slots: &[Slot],
        relation: &Relation,
    ) -> PlanResult<(Vec<usize>, Vec<Target>)> {
        let mut columns = Vec::with_capacity(values.len());
        let mut targets = Vec::with_capacity(values.len());
        for (value, slot) in values.into_iter().zip(slots) {
            let nothing = |ty| Expr {
                kind: ExprKind::Const(Datum::Null),
                ty,
                at: Pos::NONE,
            };
            put_value(value, slot, relation, nothing, (&mut columns, &mut targets));
        }
        self.ask_domains_again(relation, &columns, &mut targets)?;
        for column in 0..relation.columns.len() {
            if !columns.contains(&column)
                && let Some(default) = self.default_or_null(relation, column)?
            {
                columns.push(column);
                targets.push(shown(default, Arc::clone(&relation.columns[column].name)));
            }
        }
        Ok((columns, targets))
    }

    /// The row of an INSERT of MERGE: `None` is DEFAULT VALUES.
    pub(super) fn bind_merge_insert(
        &mut self,
        columns: &[SetTarget],
        values: Option<&[ast::Expr]>,
        overriding: Option<bool>,
        relation: &Relation,
    ) -> PlanResult<(Vec<usize>, Vec<Target>)> {
        self.scope().overriding = overriding;
        let slots = self.insert_slots(columns, relation)?;
        let row = match values {
            None => Vec::new(),
            Some(values) => {
                let row = self.insert_row(Place::SingleValues, values)?;
                self.assign_row(row, relation, &slots, !columns.is_empty())?
            }
        };
        self.insert_targets(row, &slots, relation)
    }

    /// The values for the columns, and the item of FROM they come from.
    fn insert_values(
        &mut self,
        source: &ast::Query,
        relation: &Relation,
        slots: &[Slot],
        listed: bool,
    ) -> PlanResult<(Vec<Expr>, Vec<FromNode>)> {
        let plain = source.with.is_none()
            && source.order_by.is_empty()
            && source.limit.is_none()
            && source.offset.is_none()
            && source.locking.is_empty();
        match &source.body {
            QueryBody::Values(rows) if plain => match rows.as_slice() {
                [row] => {
                    let row = self.insert_row(Place::SingleValues, row)?;
                    let row = self.assign_row(row, relation, slots, listed)?;
                    Ok((row, Vec::new()))
                }
                rows => self.insert_rows(rows, relation, slots, listed),
            },
            _ => self.insert_query(source, relation, slots, listed),
        }
    }

    fn insert_row(&mut self, place: Place, row: &[ast::Expr]) -> PlanResult<Vec<Expr>> {
        self.scope().place = place;
        let mut bound = Vec::with_capacity(row.len());
        for value in row {
            if matches!(value.kind, K::Default) {
                bound.push(default_value(value.at));
            } else {
                bound.extend(self.bind_list(std::slice::from_ref(value))?);
            }
        }
        self.scope().place = Place::None;
        Ok(bound)
    }

    fn assign_row(
        &mut self,
        row: Vec<Expr>,
        relation: &Relation,
        slots: &[Slot],
        listed: bool,
    ) -> PlanResult<Vec<Expr>> {
        if let Some(extra) = row.get(slots.len()) {
            let message = "INSERT has more expressions than target columns";
            return Err(syntax(message, place::of(extra)));
        }
        if let (Some(slot), true) = (slots.get(row.len()), listed) {
            let error = syntax("INSERT has more target columns than expressions", slot.at);
            let one_row = match row.as_slice() {
                [only] => matches!(&only.kind, ExprKind::Row(f) if f.len() == slots.len()),
                _ => false,
            };
            return Err(if one_row {
                error.hint(
                    "The insertion source is a row expression containing the same number of \
                     columns expected by the INSERT. Did you accidentally use extra parentheses?",
                )
            } else {
                error
            });
        }
        let mut assigned = Vec::with_capacity(row.len());
        for (value, slot) in row.into_iter().zip(slots) {
            let is_default = matches!(value.kind, ExprKind::Default);
            let value = self.assign(value, relation, slot)?;
            assigned.push(match is_default {
                true => value,
                false => self.given(value, relation, slot)?,
            });
        }
        Ok(assigned)
    }

    /// A value that an INSERT gives, unless the column's identity has the say.
    fn given(&mut self, value: Expr, relation: &Relation, slot: &Slot) -> PlanResult<Expr> {
        let column = &relation.columns[slot.column];
        if column.generated.is_some() {
            let message = format!(
                "cannot insert a non-DEFAULT value into column \"{}\"",
                column.name
            );
            return Err(generated_always(column, message));
        }
        match (column.identity, self.scope().overriding) {
            (Some(_), Some(false)) => self.assign(default_value(Pos::NONE), relation, slot),
            (Some(Identity::Always), None) => {
                let message = format!(
                    "cannot insert a non-DEFAULT value into column \"{}\"",
                    column.name
                );
                let hint = "Use OVERRIDING SYSTEM VALUE to override.";
                Err(generated_always(column, message).hint(hint))
            }
            _ => Ok(value),
        }
    }

    fn insert_rows(
        &mut self,
        rows: &[Vec<ast::Expr>],
        relation: &Relation,
        slots: &[Slot],
        listed: bool,
    ) -> PlanResult<(Vec<Expr>, Vec<FromNode>)> {
        let width = rows.first().map_or(0, Vec::len);
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != width {
                let message = "VALUES lists must all be the same length";
                let at = row.first().map_or(Pos::NONE, place::of_ast);
                return Err(syntax(message, at));
            }
            let row = self.insert_row(Place::Values, row)?;
            bound.push(self.assign_row(row, relation, slots, listed)?);
        }
        let column_types: Vec<SqlType> = slots
            .iter()
            .take(width)
            .map(|slot| slot.ty(relation))
            .collect();
        let entry = RangeEntry {
            alias: "*VALUES*".into(),
            columns: (1..=width).map(|n| format!("column{n}").into()).collect(),
            types: column_types.clone(),
            kind: RangeKind::Values(bound),
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        Ok(self.add_source(entry, &column_types))
    }

    /// Adds the entry that the rows come from; its columns are the values.
    fn add_source(&mut self, entry: RangeEntry, columns: &[SqlType]) -> (Vec<Expr>, Vec<FromNode>) {
        let rel = self.add_visible(entry);
        let variables = columns.iter().enumerate().map(|(column, ty)| Expr {
            kind: ExprKind::Var(Var {
                depth: 0,
                rel,
                column,
            }),
            ty: *ty,
            at: Pos::NONE,
        });
        (variables.collect(), vec![FromNode::Entry(rel)])
    }

    fn insert_query(
        &mut self,
        source: &ast::Query,
        relation: &Relation,
        slots: &[Slot],
        listed: bool,
    ) -> PlanResult<(Vec<Expr>, Vec<FromNode>)> {
        let query = self.bind_query(source, Unknowns::Keep)?;
        let shown: Vec<Expr> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| target.expr.clone())
            .collect();
        let column_types: Vec<SqlType> = shown.iter().map(|expr| expr.ty).collect();
        let names = query.targets.iter().filter(|target| !target.junk);
        let entry = RangeEntry {
            alias: "*SELECT*".into(),
            columns: names.map(|target| Arc::clone(&target.name)).collect(),
            types: column_types.clone(),
            kind: RangeKind::Subquery(Arc::new(query)),
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        let (variables, from) = self.add_source(entry, &column_types);
        let mut values = Vec::with_capacity(shown.len());
        for (variable, inner) in variables.into_iter().zip(shown) {
            let open = inner.ty == SqlType::Unknown
                && matches!(inner.kind, ExprKind::Const(_) | ExprKind::Param(_));
            let at = place::of(&inner);
            values.push(if open { inner } else { Expr { at, ..variable } });
        }
        let values = self.assign_row(values, relation, slots, listed)?;
        self.settle_parameters(&from);
        Ok((values, from))
    }

    /// Gives parameters of the source's select list the types that their columns decided.
    fn settle_parameters(&mut self, from: &[FromNode]) {
        let [FromNode::Entry(rel)] = from else {
            return;
        };
        let last = self.scopes.len() - 1;
        let entry = &mut self.scopes[last].range_table[*rel];
        let RangeKind::Subquery(query) = &mut entry.kind else {
            return;
        };
        let targets = Arc::make_mut(query).targets.iter_mut();
        let shown = targets.filter(|target| !target.junk);
        for (target, ty) in shown.zip(&mut entry.types) {
            if let (ExprKind::Param(index), SqlType::Unknown) = (&target.expr.kind, target.expr.ty)
            {
                target.expr.ty = self.params.decided(*index);
                *ty = target.expr.ty;
            }
        }
    }
}

/// Adds a value to the columns' values. One for a part of a column is put into the value that the
/// column has from other parts, or into that of `before`.
fn put_value(
    value: Expr,
    slot: &Slot,
    relation: &Relation,
    before: impl FnOnce(SqlType) -> Expr,
    (columns, targets): (&mut Vec<usize>, &mut Vec<Target>),
) {
    let column = &relation.columns[slot.column];
    let value = match &slot.part {
        None => value,
        Some(part) => {
            let mut given = columns.iter().zip(targets.iter_mut());
            let in_parts = |target: &Target| matches!(target.expr.kind, ExprKind::AssignPart(_));
            if let Some((_, target)) =
                given.find(|(column, target)| **column == slot.column && in_parts(target))
            {
                let array = std::mem::replace(&mut target.expr, default_value(Pos::NONE));
                target.expr = part.assigned(array, value);
                return;
            }
            part.assigned(before(column.ty), value)
        }
    };
    columns.push(slot.column);
    targets.push(shown(value, Arc::clone(&column.name)));
}

/// 428C9
fn generated_always(column: &Column, message: String) -> PlanError {
    let kind = match column.generated {
        Some(_) => "a generated column",
        None => "an identity column defined as GENERATED ALWAYS",
    };
    let detail = format!("Column \"{}\" is {kind}.", column.name);
    PlanError::new(SqlState::GENERATED_ALWAYS, message).detail(detail)
}

/// `DEFAULT`, whose type is that of its column.
fn default_value(at: Pos) -> Expr {
    Expr {
        kind: ExprKind::Default,
        ty: SqlType::Unknown,
        at,
    }
}
