//! Which catalogs a SELECT names, and what its column names mean.

use datafusion::sql::sqlparser::ast::{
    Ident, JoinOperator, ObjectName, Select, TableFactor, TableWithJoins,
};

use super::ast;
use crate::pg_catalog::generate;
use crate::pg_catalog::relations::{self, RelationDef};
use crate::planner::utility::ident_text;

/// The catalog that a name means, if it is one.
pub fn catalog(name: &ObjectName) -> Option<&'static RelationDef> {
    match ast::parts(name)?.as_slice() {
        [name] => relations::find("pg_catalog", name),
        [.., schema, name] => relations::find(schema, name),
        [] => None,
    }
}

/// A catalog under the name it has in a query.
#[derive(Debug, Clone)]
pub struct Source {
    /// Alias, or the name itself.
    pub name: String,
    /// The catalog.
    pub def: &'static RelationDef,
}

/// The catalogs of a FROM clause.
#[derive(Debug, Default)]
pub struct Scope {
    /// In order.
    pub sources: Vec<Source>,
    /// Whether there is anything else, too.
    pub others: bool,
}

impl Scope {
    /// The catalogs that a SELECT names in its FROM.
    pub fn of(select: &Select) -> Scope {
        let mut scope = Scope::default();
        select.from.iter().for_each(|item| scope.add_joined(item));
        scope
    }

    fn add_joined(&mut self, item: &TableWithJoins) {
        self.add(&item.relation);
        item.joins.iter().for_each(|join| self.add(&join.relation));
    }

    fn add(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => {
                self.add_joined(table_with_joins);
            }
            _ => match source(factor) {
                Some(source) => self.sources.push(source),
                None => self.others = true,
            },
        }
    }

    /// The source of that name.
    pub fn named(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// The first source with that column.
    pub fn with_column(&self, column: &str) -> Option<&Source> {
        self.sources
            .iter()
            .find(|source| source.def.position(column).is_some())
    }

    /// Whether a column name means one of these sources' columns.
    pub fn has(&self, parts: &[Ident]) -> bool {
        match parts {
            [column] => self.with_column(&ident_text(column)).is_some(),
            [table, _] => self.named(&ident_text(table)).is_some(),
            _ => false,
        }
    }
}

/// The catalog that a FROM item is, under its name there.
pub fn source(factor: &TableFactor) -> Option<Source> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        ..
    } = factor
    else {
        return None;
    };
    let def = catalog(name)?;
    let name = match alias {
        Some(alias) if alias.columns.is_empty() => ast::alias_name(alias),
        Some(_) => return None,
        None => def.name.to_owned(),
    };
    Some(Source { name, def })
}

/// Whether a SELECT without aggregates has no rows, because one of the catalogs that it joins
/// never has any.
pub fn is_empty(select: &Select) -> bool {
    select.from.iter().any(joined_is_empty)
}

fn joined_is_empty(item: &TableWithJoins) -> bool {
    let preserves = |operator: &JoinOperator| {
        matches!(
            operator,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
        )
    };
    if item.joins.iter().any(|join| preserves(&join.join_operator)) {
        return false;
    }
    let inner = |operator: &JoinOperator| {
        matches!(
            operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    };
    let joined = item.joins.iter().filter(|join| inner(&join.join_operator));
    factor_is_empty(&item.relation) || joined.map(|join| &join.relation).any(factor_is_empty)
}

fn factor_is_empty(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => joined_is_empty(table_with_joins),
        TableFactor::Table {
            name, args: None, ..
        } => catalog(name).is_some_and(|def| generate::is_always_empty(def.schema, def.name)),
        // Nothing has options: what would have them is not supported.
        TableFactor::Table {
            name,
            args: Some(_),
            ..
        } => ast::system_name(name).is_some_and(|name| name == "pg_options_to_table"),
        _ => false,
    }
}
