//! Expressions of tables as a session sees them: a type that was created has its schema where the
//! session's path does not have it. A dump, which is read under no path, is of this form.

use std::sync::Arc;

use evenkeel_planner::ast::{ExprKind, Literal};
use evenkeel_planner::parser::{parse_expr, parse_name, token_end};

use super::view::{Column, KeySource, Table};
use crate::catalog::{CatalogState, Generated, IndexExpr, TypeInfo};
use crate::parser::parse::type_named;
use crate::types::SqlType;
use evenkeel_types::CreatedType;

/// A session's view of types by name.
pub struct ShownTypes<'a> {
    pub state: &'a CatalogState,
    pub path: &'a [String],
}

impl ShownTypes<'_> {
    /// The type that a kept text means by a name.
    fn meant(&self, name: &str, home: (&[SqlType], &str)) -> Option<&TypeInfo> {
        let parts = parse_name(name).ok()?.parts;
        let ty = match parts.as_slice() {
            [schema, name] => {
                let schema = self.state.schema_oid(&schema.text)?;
                self.state.type_in(schema, &name.text)
            }
            [name] if type_named(&name.text).is_err() => {
                let mut own = home.0.iter().filter_map(|ty| ty.created());
                let own = own.find(|of| of.is_called(&name.text));
                let own = own.map(CreatedType::ty);
                own.or_else(|| self.state.type_kept(&name.text, home.1, self.path))
            }
            _ => None,
        };
        self.state.created_type(ty?.oid()).map(|info| &**info)
    }

    /// A text with the names of types behind `::` as the session has to write them.
    pub fn text(&self, text: &str, home: (&[SqlType], &str)) -> String {
        if !text.contains("::") {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let (mut at, mut is_cast) = (0, false);
        loop {
            let end = token_end(text, at);
            let Some(token) = text.get(at..end).filter(|token| !token.is_empty()) else {
                break;
            };
            if is_cast {
                let end = self.end_of_name(text, end);
                let name = text.get(at..end).unwrap_or_default();
                match self.meant(name.trim(), home) {
                    Some(info) => out.push_str(&self.state.shown_type(info, self.path)),
                    None => out.push_str(name),
                }
                (at, is_cast) = (end, false);
                continue;
            }
            is_cast = token.trim_start() == "::";
            out.push_str(token);
            at = end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    /// Where a name ends whose first part ends at `end`.
    fn end_of_name(&self, text: &str, end: usize) -> usize {
        match text.get(end..).is_some_and(|rest| rest.starts_with('.')) {
            true => token_end(text, end + 1),
            false => end,
        }
    }

    fn column(&self, column: &mut Column, home: (&[SqlType], &str)) {
        if let Some(default) = &column.default {
            // A bare string is shown with its column's type.
            let bare = column.ty.enumerated().is_some()
                && parse_expr(default)
                    .is_ok_and(|it| matches!(it.kind, ExprKind::Literal(Literal::String(_))));
            let default = match bare {
                true => &format!("{default}::{}", column.ty.base_name()),
                false => &**default,
            };
            column.default = Some(self.text(default, home).into());
        }
        if let Some(generated) = &column.generated {
            column.generated = Some(Arc::new(Generated {
                text: self.text(&generated.text, home).into(),
                pretty: self.text(&generated.pretty, home).into(),
                ..Generated::clone(generated)
            }));
        }
    }

    /// Gives the expressions of a table the form that the session sees.
    pub fn table(&self, table: &mut Table) {
        let types = table.columns.iter().map(|column| column.declared);
        let types: Vec<SqlType> = types.collect();
        let schema = Arc::clone(&table.schema);
        let home = (types.as_slice(), &*schema);
        for column in &mut table.columns {
            self.column(column, home);
        }
        for check in &mut table.checks {
            check.text = self.text(&check.text, home).into();
            check.pretty = self.text(&check.pretty, home).into();
        }
        let part = |part: &mut IndexExpr| {
            part.text = self.text(&part.text, home).into();
            part.pretty = self.text(&part.pretty, home).into();
        };
        for index in &mut table.indexes {
            index.predicate.iter_mut().for_each(part);
            for key in &mut index.key {
                if let KeySource::Expression(expression) = &mut key.source {
                    part(expression);
                }
            }
        }
    }
}
