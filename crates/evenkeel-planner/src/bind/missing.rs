//! Names that are not there: errors with the hints that PostgreSQL gives.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::columns::TableRef;
use crate::ast::Pos;
use crate::error::PlanError;

/// Most changes by which a name may differ from one that is suggested.
const MAX_DISTANCE: usize = 3;

/// A column of an entry of some query: query (in the stack), entry, column.
type Place = (usize, usize, usize);

/// The best suggestions so far.
#[derive(Debug)]
struct Suggestions {
    distance: usize,
    first: Option<Place>,
    second: Option<Place>,
    exact: Vec<(usize, usize)>,
}

impl Suggestions {
    fn offer(&mut self, distance: usize, place: Place) {
        if distance < self.distance {
            self.distance = distance;
            self.first = Some(place);
            self.second = None;
        } else if distance == self.distance {
            if self.second.is_some() {
                // Too many to be of use; only a closer one will do.
                self.first = None;
                self.second = None;
                self.distance = distance.saturating_sub(1);
            } else if self.first.is_some() {
                self.second = Some(place);
            }
        }
    }
}

/// The number of characters to insert, delete or replace.
fn levenshtein(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl Binder<'_> {
    /// 42703 with the hint that fits.
    pub(super) fn missing_column(&self, table: Option<&str>, column: &str, at: Pos) -> PlanError {
        let message = match table {
            Some(table) => format!("column {table}.{column} does not exist"),
            None => format!("column \"{column}\" does not exist"),
        };
        let error = PlanError::new(SqlState::UNDEFINED_COLUMN, message).at(at);
        let found = self.search_column(table, column);
        match found.exact.as_slice() {
            [] => {}
            [(scope, rel)] => {
                let alias = self.alias((*scope, *rel, 0));
                let error = error.detail(format!(
                    "There is a column named \"{column}\" in table \"{alias}\", but it cannot be \
                     referenced from this part of the query."
                ));
                return if self.visible_if(*scope, *rel, true) {
                    error
                        .hint("To reference that column, you must mark this subquery with LATERAL.")
                } else if table.is_none() && self.visible_if(*scope, *rel, false) {
                    error.hint("To reference that column, you must use a table-qualified name.")
                } else {
                    error
                };
            }
            _ => {
                let error = error.detail(format!(
                    "There are columns named \"{column}\", but they are in tables that cannot be \
                     referenced from this part of the query."
                ));
                return if table.is_none() {
                    error.hint("Try using a table-qualified name.")
                } else {
                    error
                };
            }
        }
        match (found.first, found.second) {
            (Some(first), Some(second)) => error.hint(format!(
                "Perhaps you meant to reference the column \"{}\" or the column \"{}\".",
                self.suggestion(first),
                self.suggestion(second)
            )),
            (Some(first), None) => error.hint(format!(
                "Perhaps you meant to reference the column \"{}\".",
                self.suggestion(first)
            )),
            _ => error,
        }
    }

    fn alias(&self, (scope, rel, _): Place) -> Arc<str> {
        Arc::clone(&self.scopes[scope].range_table[rel].alias)
    }

    fn suggestion(&self, place: Place) -> String {
        let (scope, rel, column) = place;
        let name = &self.scopes[scope].range_table[rel].columns[column];
        format!("{}.{name}", self.alias(place))
    }

    /// Looks for columns of that or a similar name, visible or not.
    fn search_column(&self, table: Option<&str>, column: &str) -> Suggestions {
        let mut best = Suggestions {
            distance: MAX_DISTANCE + 1,
            first: None,
            second: None,
            exact: Vec::new(),
        };
        let length = column.len();
        for (depth, scope) in self.scopes.iter().enumerate().rev() {
            for (rel, entry) in scope.range_table.iter().enumerate() {
                if scope.info[rel].join {
                    continue;
                }
                let penalty = table.map_or(0, |table| levenshtein(table, &entry.alias));
                let mut exact = false;
                for (index, name) in entry.columns.iter().enumerate() {
                    if **name == *column {
                        exact = true;
                    }
                    if exact || penalty > best.distance {
                        continue;
                    }
                    let distance = levenshtein(name, column);
                    if distance > length / 2 || distance > best.distance {
                        continue;
                    }
                    best.offer(distance + penalty, (depth, rel, index));
                }
                if exact && penalty == 0 && best.exact.len() < 2 {
                    best.exact.push((depth, rel));
                }
            }
        }
        best
    }

    /// Whether the entry's columns would be visible if this were LATERAL, or by a qualified name.
    fn visible_if(&self, scope: usize, rel: usize, lateral: bool) -> bool {
        let scope = &self.scopes[scope];
        let mut items = scope.namespace.iter().filter(|item| item.rel == rel);
        items.any(|item| {
            if lateral {
                item.lateral_only && item.lateral_ok && !scope.lateral_active
            } else {
                item.table_visible && (scope.lateral_active || !item.lateral_only)
            }
        })
    }

    /// 42P01 for a table name that no visible item of FROM has.
    pub(super) fn missing_table(&mut self, table: TableRef<'_>, at: Pos) -> PlanError {
        let Some((scope, rel)) = self.search_table(table) else {
            let message = format!("missing FROM-clause entry for table \"{}\"", table.table);
            return PlanError::new(SqlState::UNDEFINED_TABLE, message).at(at);
        };
        let message = format!(
            "invalid reference to FROM-clause entry for table \"{}\"",
            table.table
        );
        let error = PlanError::new(SqlState::UNDEFINED_TABLE, message).at(at);
        let alias = self.alias((scope, rel, 0));
        if self.scopes[scope].info[rel].aliased && *alias != *table.table {
            let by_alias = TableRef {
                schema: None,
                table: &alias,
            };
            let depth = self.scopes.len() - 1 - scope;
            if let Ok(Some(found)) = self.find_table(by_alias, Pos::NONE)
                && found.depth == depth
                && found.item.rel == rel
            {
                let hint = format!("Perhaps you meant to reference the table alias \"{alias}\".");
                return error.hint(hint);
            }
        }
        let error = error.detail(format!(
            "There is an entry for table \"{alias}\", but it cannot be referenced from this part \
             of the query."
        ));
        if self.visible_if(scope, rel, true) {
            error.hint("To reference that table, you must mark this subquery with LATERAL.")
        } else {
            error
        }
    }

    /// An entry of any query around that the name could have meant.
    fn search_table(&self, table: TableRef<'_>) -> Option<(usize, usize)> {
        let relation = self
            .catalog
            .relation(table.schema, table.table)
            .ok()
            .flatten();
        let oid = relation.map(|relation| relation.oid);
        for (depth, scope) in self.scopes.iter().enumerate().rev() {
            for (rel, entry) in scope.range_table.iter().enumerate() {
                let info = &scope.info[rel];
                let by_oid = info
                    .relation
                    .as_ref()
                    .is_some_and(|(_, own)| Some(*own) == oid);
                let plain = table.schema.is_none();
                let by_cte = plain && info.cte.as_deref() == Some(table.table);
                let by_alias = *entry.alias == *table.table;
                if by_oid || by_cte || by_alias {
                    return Some((depth, rel));
                }
            }
        }
        None
    }
}
