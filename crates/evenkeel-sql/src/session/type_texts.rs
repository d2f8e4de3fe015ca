//! Kept texts that hang on a type: written anew when it changes, dropped when it goes.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_planner::bind::{MentionKind, TypeMention};
use evenkeel_planner::parser::token_end;
use evenkeel_types::TypeContext;

use super::Session;
use crate::catalog::{
    CatalogState, ColumnInfo, DdlMark, DomainBody, NewText, Oid, TableInfo, TextOf, TypeInfo,
    ViewInfo, of_definition,
};
use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::planner::rows::{domains, mentions};
use crate::quote::quote_ident;
use crate::types::SqlType;

/// An expression of a table.
struct TableText {
    of: TextOf,
    text: Arc<str>,
    /// The same with the parentheses that are needed, where that is kept.
    pretty: Option<Arc<str>>,
    /// The type of the column that it gives its value.
    gives: Option<SqlType>,
    /// The columns without which it is not there, from 0.
    columns: Vec<usize>,
}

/// An object that a type takes with it.
pub(super) enum OfType {
    /// A column, by its table and its name.
    Column(Oid, Arc<str>),
    /// The default of a column, the same way.
    Default(Oid, Arc<str>),
    /// A constraint, by its table and its name.
    Constraint(Oid, Arc<str>),
    /// An index.
    Index(Oid),
    /// A view.
    View(Oid),
    /// A domain.
    Domain(Oid),
    /// A constraint of a domain, or (none) its default.
    OfDomain(Oid, Option<Arc<str>>),
}

/// A text of a domain: its default (none), or the condition of a constraint by its oid.
type DomainText = (Option<Oid>, Arc<str>, Option<Arc<str>>);

fn texts_of_domain(body: &DomainBody) -> Vec<DomainText> {
    let default = body
        .default
        .iter()
        .map(|text| (None, Arc::clone(text), None));
    let checks = body.checks.iter().map(|check| {
        let pretty = Some(Arc::clone(&check.pretty));
        (Some(check.oid), Arc::clone(&check.text), pretty)
    });
    default.chain(checks).collect()
}

/// A text of a domain as it reads now, with the parentheses that are needed where that is kept.
type NewDomainText = (Option<Oid>, String, String);

/// An object that depends on a type.
pub(super) struct Dependent {
    /// Its place in the order.
    order: Oid,
    /// Itself.
    pub(super) object: OfType,
    /// The schema that it is in.
    pub(super) schema: Oid,
    /// Itself in words.
    pub(super) words: String,
    /// The object by which it depends on the type, in words, if there is one.
    pub(super) needs: Option<String>,
}

/// New texts of tables and views.
#[derive(Default)]
pub(super) struct NewTexts {
    tables: Vec<(Oid, Vec<NewText>)>,
    views: Vec<(Oid, Vec<Edit>)>,
    domains: Vec<(Oid, Vec<NewDomainText>)>,
}

impl NewTexts {
    fn push_table(&mut self, table: Oid, texts: Vec<NewText>) {
        if !texts.is_empty() {
            self.tables.push((table, texts));
        }
    }

    fn push_domain(&mut self, domain: Oid, texts: Vec<NewDomainText>) {
        if !texts.is_empty() {
            self.domains.push((domain, texts));
        }
    }

    fn push_view(&mut self, view: Oid, edits: Vec<Edit>) {
        if !edits.is_empty() {
            self.views.push((view, edits));
        }
    }
}

/// A place of a text, and its new contents.
type Edit = (Range<usize>, String);

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in edits {
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(new);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// A place of the text where it is after the edits.
fn moved(at: usize, edits: &[Edit]) -> usize {
    let before = edits.iter().take_while(|(range, _)| range.end <= at);
    let (less, more) = before.fold((0, 0), |(less, more), (range, new)| {
        (less + range.len(), more + new.len())
    });
    at + more - less
}

/// The contents of a place that hangs on a type, for its new definition; none if they stay.
fn edit(
    text: &str,
    mention: &TypeMention,
    old: &TypeInfo,
    new: &TypeInfo,
) -> SqlResult<Option<Edit>> {
    let range = mention.start..token_end(text, mention.last);
    let there = text.get(range.clone()).unwrap_or_default();
    let contents = match &mention.kind {
        MentionKind::Name { schema: Some(_) } => {
            let same = (&old.name, old.schema_oid) == (&new.name, new.schema_oid);
            (!same).then(|| format!("{}.{}", quote_ident(&new.schema), quote_ident(&new.name)))
        }
        MentionKind::Name { schema: None } => {
            (old.name != new.name).then(|| quote_ident(&new.name))
        }
        MentionKind::Value(value) => {
            let cx = TypeContext::default();
            let now = of_definition(value.clone(), new.ty());
            let shown = now.to_text(mention.ty, &cx);
            let is_other = shown != value.to_text(mention.ty, &cx);
            is_other.then(|| format!("'{}'", shown.replace('\'', "''")))
        }
    };
    // An array type is also called by its own name.
    let is_name = matches!(mention.kind, MentionKind::Name { .. });
    if contents.is_some() && is_name && there.trim_matches('"').ends_with(&old.array_name()) {
        return Err(SqlError::unsupported(format!(
            "changing a type that an expression calls {there}"
        )));
    }
    Ok(contents.map(|contents| (range, contents)))
}

/// The names of types in a text that have no schema and are not of those that `own` knows, each
/// with its schema.
fn qualified(
    state: &CatalogState,
    text: &str,
    mentions: &[TypeMention],
    own: &dyn Fn(SqlType) -> bool,
) -> Vec<Edit> {
    let bare = mentions.iter().filter(|mention| {
        matches!(mention.kind, MentionKind::Name { schema: None }) && !own(mention.ty)
    });
    let edits = bare.filter_map(|mention| {
        let info = state.created_type(mention.ty.created()?.oid())?;
        let range = mention.start..token_end(text, mention.last);
        let name = text.get(range.clone())?;
        Some((range, format!("{}.{name}", quote_ident(&info.schema))))
    });
    edits.collect()
}

/// The expressions of a table.
fn texts_of(table: &TableInfo) -> Vec<TableText> {
    let mut texts = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(default) = &column.default {
            texts.push(TableText {
                of: TextOf::Default(column.attnum),
                text: Arc::clone(default),
                pretty: None,
                gives: Some(column.declared()),
                columns: vec![at],
            });
        }
        if let Some(generated) = &column.generated {
            texts.push(TableText {
                of: TextOf::Generated(column.attnum),
                text: Arc::clone(&generated.text),
                pretty: Some(Arc::clone(&generated.pretty)),
                gives: Some(column.declared()),
                columns: vec![at],
            });
        }
    }
    for check in &table.checks {
        texts.push(TableText {
            of: TextOf::Check(check.oid),
            text: Arc::clone(&check.text),
            pretty: Some(Arc::clone(&check.pretty)),
            gives: None,
            columns: check.columns.clone(),
        });
    }
    for index in &table.indexes {
        let expressions = index.expressions.iter().enumerate();
        let expressions =
            expressions.map(|(number, part)| (TextOf::IndexExpression(index.oid, number), part));
        let predicate = index.predicate.iter();
        let predicate = predicate.map(|part| (TextOf::IndexPredicate(index.oid), part));
        for (of, part) in expressions.chain(predicate) {
            let keys = index.columns.iter().filter_map(|key| key.column);
            texts.push(TableText {
                of,
                text: Arc::clone(&part.text),
                pretty: None,
                gives: None,
                columns: keys.chain(part.columns.iter().copied()).collect(),
            });
        }
    }
    texts
}

/// The texts of a domain that `edits` changes, as they read then.
fn domain_texts(
    info: &TypeInfo,
    body: &DomainBody,
    cx: &Arc<StatementCx>,
    mut edits: impl FnMut(&str, &[TypeMention]) -> SqlResult<Vec<Edit>>,
) -> SqlResult<Vec<NewDomainText>> {
    let mut changed = Vec::new();
    for (of, text, pretty) in texts_of_domain(body) {
        let mut new = |text: &str| {
            let home = (body.base, &*info.schema);
            let mentions = domains::mentions(text, home, of.is_none(), cx);
            let edits = edits(text, &mentions.unwrap_or_default())?;
            SqlResult::Ok((!edits.is_empty()).then(|| edited(text, &edits)))
        };
        if let Some(text) = new(&text)? {
            let pretty = pretty.as_deref().map(new).transpose()?.flatten();
            changed.push((of, text, pretty.unwrap_or_default()));
        }
    }
    Ok(changed)
}

impl Session {
    /// The places of a text that hang on a type. One that is not understood has none.
    fn mentions_of(info: &TypeInfo, found: SqlResult<Vec<TypeMention>>) -> Vec<TypeMention> {
        let found = found.unwrap_or_default().into_iter();
        found.filter(|mention| info.is_of(mention.ty)).collect()
    }

    /// Keeps the types from being dropped that texts hang on which this transaction has made since
    /// the mark: a DROP TYPE that did not see them would leave a relation that cannot be read.
    /// Types that others could take another for get their schema in those texts.
    ///
    /// # Errors
    /// 42704 for a type that has gone meanwhile; the engine's.
    pub(super) async fn keep_mentioned_types(&mut self, since: DdlMark) -> SqlResult<()> {
        let state = self.view();
        if state.created_types().next().is_none() {
            return Ok(());
        }
        let cx = Arc::new(self.statement_cx(Arc::clone(&state)));
        let mut found = Vec::new();
        let mut texts = NewTexts::default();
        for oid in self.tx.ddl.defined_since(since) {
            if let Some(table) = state.table(oid) {
                let mut changed = Vec::new();
                for kept in texts_of(table) {
                    let own = |ty: SqlType| {
                        let mut types = table.columns.iter().map(ColumnInfo::declared);
                        types.any(|own| own.created() == ty.created())
                    };
                    let mut new = |text: &str| {
                        let mentions = mentions::in_expression(text, kept.gives, table, &cx)?;
                        let edits = qualified(&state, text, &mentions, &own);
                        found.extend(mentions);
                        SqlResult::Ok((!edits.is_empty()).then(|| edited(text, &edits)))
                    };
                    if let Some(text) = new(&kept.text)? {
                        let pretty = kept.pretty.as_deref().map(new).transpose()?.flatten();
                        changed.push((kept.of, text, pretty.unwrap_or_default()));
                    }
                }
                texts.push_table(oid, changed);
            } else if let Some(view) = state.view(oid) {
                let mentions = mentions::in_view(view, &cx)?;
                let edits = qualified(&state, &view.text, &mentions, &|_| false);
                texts.push_view(oid, edits);
                found.extend(mentions);
            } else if let Some(info) = state.created_type(oid)
                && let Some(body) = info.domain()
            {
                let own = |ty: SqlType| body.base.created() == ty.created();
                let new = domain_texts(info, body, &cx, |text, mentions| {
                    let edits = qualified(&state, text, mentions, &own);
                    found.extend(mentions.iter().cloned());
                    Ok(edits)
                })?;
                texts.push_domain(oid, new);
            }
        }
        for mention in found {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.keep_type(txn, ddl, mention.ty).await?;
        }
        self.put_new_texts(texts).await
    }

    /// The kept texts that a type's new definition changes.
    ///
    /// # Errors
    /// 0A000 for a text in which the place cannot be written anew.
    pub(super) fn texts_for(
        &self,
        state: &Arc<CatalogState>,
        old: &TypeInfo,
        new: &TypeInfo,
    ) -> SqlResult<NewTexts> {
        let cx = Arc::new(self.statement_cx(Arc::clone(state)));
        let edits = |text: &str, found: SqlResult<Vec<TypeMention>>| -> SqlResult<Vec<Edit>> {
            let mentions = Session::mentions_of(old, found);
            let edits = mentions.iter().map(|mention| edit(text, mention, old, new));
            edits.filter_map(Result::transpose).collect()
        };
        let mut texts = NewTexts::default();
        for table in state.tables() {
            let mut changed = Vec::new();
            for kept in texts_of(table) {
                let renewed = |text: &str| {
                    let found = mentions::in_expression(text, kept.gives, table, &cx);
                    let edits = edits(text, found)?;
                    SqlResult::Ok((!edits.is_empty()).then(|| edited(text, &edits)))
                };
                if let Some(text) = renewed(&kept.text)? {
                    let pretty = kept.pretty.as_deref().map(renewed).transpose()?.flatten();
                    changed.push((kept.of, text, pretty.unwrap_or_default()));
                }
            }
            texts.push_table(table.oid, changed);
        }
        for view in state.views() {
            let edits = edits(&view.text, mentions::in_view(view, &cx))?;
            texts.push_view(view.oid, edits);
        }
        for info in state.created_types() {
            let Some(body) = info.domain() else {
                continue;
            };
            let new = domain_texts(info, body, &cx, |text, mentions| {
                edits(text, Ok(mentions.to_vec()))
            })?;
            texts.push_domain(info.oid, new);
        }
        Ok(texts)
    }

    /// Writes kept texts anew.
    ///
    /// # Errors
    /// 42P01 if a table or view has gone meanwhile; the engine's.
    pub(super) async fn put_new_texts(&mut self, texts: NewTexts) -> SqlResult<()> {
        for (table, texts) in texts.tables {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.rewrite_texts(txn, ddl, table, texts).await?;
        }
        for (view, edits) in texts.views {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            let change = |view: &mut ViewInfo| {
                view.text = edited(&view.text, &edits).into();
                for reference in &mut view.references {
                    reference.start = moved(reference.start, &edits);
                    reference.end = moved(reference.end, &edits);
                }
                Ok(())
            };
            catalog.change_view(txn, ddl, view, change).await?;
        }
        for (domain, texts) in texts.domains {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            let change = |_: &_, info: &mut TypeInfo| {
                let body = info.domain_mut()?;
                for (of, text, pretty) in texts {
                    match of {
                        None => body.default = Some(text.into()),
                        Some(oid) => {
                            let checks = body.checks.iter_mut();
                            for check in checks.filter(|check| check.oid == oid) {
                                check.text = text.as_str().into();
                                check.pretty = pretty.as_str().into();
                            }
                        }
                    }
                }
                Ok(())
            };
            catalog.change_type(txn, ddl, domain, change).await?;
        }
        Ok(())
    }

    /// The objects that depend on a type, in PostgreSQL's order. Those that go with a column of it
    /// are not among them.
    pub(super) fn dependents_of_type(&self, info: &TypeInfo) -> Vec<Dependent> {
        let state = &self.view();
        let cx = Arc::new(self.statement_cx(Arc::clone(state)));
        let mut found = Vec::new();
        for table in state.tables() {
            let columns = table.columns.iter().enumerate();
            let of_type = columns.filter(|(_, column)| info.is_of(column.declared()));
            let of_type: Vec<usize> = of_type.map(|(at, _)| at).collect();
            let name = (&*table.schema, &*table.name);
            let words = self.described(state, "table", table.oid, name);
            for at in &of_type {
                let column = &table.columns[*at];
                let words = format!("column {} of {words}", quote_ident(&column.name));
                let array = column.declared().oid() == info.array_oid;
                for view in state
                    .views()
                    .filter(|it| it.uses_column(table.oid, column.attnum))
                {
                    found.push(self.view_of_type(state, view, Some(words.clone())));
                }
                found.push(Dependent {
                    order: table.oid,
                    object: OfType::Column(table.oid, Arc::clone(&column.name)),
                    schema: table.schema_oid,
                    words,
                    needs: array.then(|| format!("type {}[]", self.type_in_words(info))),
                });
            }
            let rest = texts_of(table).into_iter();
            let rest = rest.filter(|kept| !kept.columns.iter().any(|at| of_type.contains(at)));
            for kept in rest {
                let mentions = mentions::in_expression(&kept.text, kept.gives, table, &cx);
                if !Session::mentions_of(info, mentions).is_empty() {
                    found.extend(self.of_table(state, (table, &words), kept.of));
                }
            }
        }
        for view in state.views() {
            if !Session::mentions_of(info, mentions::in_view(view, &cx)).is_empty() {
                found.push(self.view_of_type(state, view, None));
            }
        }
        let mut all = self.with_views_over(state, found);
        all.extend(self.domains_with(state, info, &cx));
        all.sort_by_key(|dependent| dependent.order);
        all
    }

    /// The domains over a type with what depends on them, and the parts of others that mention it.
    fn domains_with(
        &self,
        state: &Arc<CatalogState>,
        info: &TypeInfo,
        cx: &Arc<StatementCx>,
    ) -> Vec<Dependent> {
        let mut found = Vec::new();
        for other in state.created_types().filter(|other| other.oid != info.oid) {
            let Some(body) = other.domain() else {
                continue;
            };
            let words = format!("type {}", self.type_in_words(other));
            let dependent = |object, words, needs| Dependent {
                order: other.oid,
                object,
                schema: other.schema_oid,
                words,
                needs,
            };
            if other.is_over(info) {
                let array = body.base.oid() == info.array_oid;
                let needs = array.then(|| format!("type {}[]", self.type_in_words(info)));
                found.push(dependent(OfType::Domain(other.oid), words.clone(), needs));
                for mut inner in self.dependents_of_type(other) {
                    inner.order = other.oid;
                    inner.needs.get_or_insert_with(|| words.clone());
                    found.push(inner);
                }
                continue;
            }
            for (of, text, _) in texts_of_domain(body) {
                let home = (body.base, &*other.schema);
                let mentions = domains::mentions(&text, home, of.is_none(), cx);
                if Session::mentions_of(info, mentions).is_empty() {
                    continue;
                }
                let check = body.checks.iter().find(|check| Some(check.oid) == of);
                let name = check.map(|check| Arc::clone(&check.name));
                let shown = match &name {
                    Some(name) => format!("constraint {}", quote_ident(name)),
                    None => words.clone(),
                };
                found.push(dependent(OfType::OfDomain(other.oid, name), shown, None));
            }
        }
        found
    }

    fn view_of_type(
        &self,
        state: &CatalogState,
        view: &ViewInfo,
        needs: Option<String>,
    ) -> Dependent {
        Dependent {
            order: view.oid,
            object: OfType::View(view.oid),
            schema: view.schema_oid,
            words: self.in_words(state, view.oid),
            needs,
        }
    }

    /// The objects in their order, with the views over those that are views: each once, and by
    /// itself rather than by another.
    fn with_views_over(&self, state: &CatalogState, found: Vec<Dependent>) -> Vec<Dependent> {
        let mut all = Vec::with_capacity(found.len());
        for dependent in found {
            if let OfType::View(oid) = dependent.object {
                for (over, _, needs) in self.views_on(oid) {
                    if let Some(view) = state.view(over) {
                        all.push(self.view_of_type(state, view, Some(needs)));
                    }
                }
            }
            all.push(dependent);
        }
        let by_view = |it: &Dependent| matches!(it.object, OfType::View(_)) && it.needs.is_some();
        all.sort_by_key(|dependent| (dependent.order, by_view(dependent)));
        let is_same = |a: &mut Dependent, b: &mut Dependent| match (&a.object, &b.object) {
            (OfType::View(a), OfType::View(b)) => a == b,
            _ => false,
        };
        all.dedup_by(is_same);
        all
    }

    /// The object of a table that an expression belongs to.
    fn of_table(
        &self,
        state: &CatalogState,
        (table, words): (&TableInfo, &str),
        of: TextOf,
    ) -> Option<Dependent> {
        let column = |attnum: i16| {
            let mut columns = table.columns.iter();
            columns.find(|column| column.attnum == attnum)
        };
        let (order, object, words) = match of {
            TextOf::Check(oid) => {
                let check = table.checks.iter().find(|check| check.oid == oid)?;
                let words = format!("constraint {} on {words}", quote_ident(&check.name));
                let object = OfType::Constraint(table.oid, Arc::clone(&check.name));
                (oid, object, words)
            }
            TextOf::Generated(attnum) => {
                let name = &column(attnum)?.name;
                let words = format!("column {} of {words}", quote_ident(name));
                (
                    table.oid,
                    OfType::Column(table.oid, Arc::clone(name)),
                    words,
                )
            }
            TextOf::Default(attnum) => {
                let name = &column(attnum)?.name;
                let column = format!("column {} of {words}", quote_ident(name));
                let object = OfType::Default(table.oid, Arc::clone(name));
                (table.oid, object, format!("default value for {column}"))
            }
            TextOf::IndexExpression(oid, _) | TextOf::IndexPredicate(oid) => {
                let index = table.indexes.iter().find(|index| index.oid == oid)?;
                let name = (&*table.schema, &*index.name);
                let words = self.described(state, "index", oid, name);
                (oid, OfType::Index(oid), words)
            }
        };
        Some(Dependent {
            order,
            object,
            schema: table.schema_oid,
            words,
            needs: None,
        })
    }

    /// Drops an object that depends on a type, unless it has gone with another.
    ///
    /// # Errors
    /// The engine's.
    pub(super) async fn drop_of_type(&mut self, object: OfType) -> SqlResult<()> {
        match object {
            OfType::Column(table, name) => {
                if self
                    .view()
                    .table(table)
                    .is_some_and(|it| it.column(&name).is_some())
                {
                    self.drop_column_of(table, &name).await?;
                }
            }
            OfType::Default(table, name) => {
                let there = self
                    .view()
                    .table(table)
                    .and_then(|table| table.column(&name));
                if let Some(at) = there {
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    let change = |column: &mut crate::catalog::ColumnInfo| column.default = None;
                    catalog.alter_column(txn, ddl, table, at, change).await?;
                }
            }
            OfType::Constraint(table, name) => {
                let view = self.view();
                let table = view.table(table);
                if table.is_some_and(|it| it.checks.iter().any(|check| check.name == name)) {
                    let table = table.map_or(0, |table| table.oid);
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    catalog.drop_constraint(txn, ddl, table, &name).await?;
                }
            }
            OfType::Index(oid) => {
                if self.view().relation(oid).is_some() {
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    catalog.drop_index(txn, ddl, oid).await?;
                }
            }
            OfType::Domain(oid) => {
                if self.view().created_type(oid).is_some() {
                    self.lock_type(oid).await?;
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    catalog.drop_type(txn, ddl, oid).await?;
                }
            }
            OfType::OfDomain(oid, part) => {
                if self.view().created_type(oid).is_some() {
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    let change = |_: &_, info: &mut TypeInfo| {
                        let body = info.domain_mut()?;
                        match part {
                            None => body.default = None,
                            Some(name) => body.checks.retain(|check| check.name != name),
                        }
                        Ok(())
                    };
                    catalog.change_type(txn, ddl, oid, change).await?;
                }
            }
            OfType::View(oid) => {
                if self.view().view(oid).is_some() {
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    catalog.drop_view(txn, ddl, oid).await?;
                }
            }
        }
        Ok(())
    }
}
