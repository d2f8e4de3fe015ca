//! The query of CREATE VIEW.

use std::sync::Arc;

use evenkeel_planner::relation::RelationKind;
use evenkeel_planner::{ast, bind, parser};

use super::names::{Names, numbers, shown};
use crate::catalog::{ReadUnder, ReferenceColumn, ViewColumn, ViewReference};
use crate::deep::on_deep_stack;
use crate::error::{SqlResult, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;

/// The parts of a new view that its query decides.
pub struct ViewParts {
    /// Its columns, by the query's names.
    pub columns: Vec<ViewColumn>,
    /// The relations that it is over.
    pub references: Vec<ViewReference>,
    /// How its constants were read.
    pub read_under: ReadUnder,
}

/// Binds the query of CREATE VIEW, which begins at `start` of `text`.
///
/// # Errors
/// PostgreSQL's of names and types, with positions; 0A000 for what is not built.
pub fn parts(
    text: &str,
    query: &ast::Query,
    start: usize,
    cx: &Arc<StatementCx>,
) -> SqlResult<ViewParts> {
    on_deep_stack(|| {
        let names = Names::new(Arc::clone(cx));
        let setting = |name| cx.seed.settings.value(name).unwrap_or_default();
        let session = RowSession::new(Arc::clone(cx));
        let bound = bind::bind_view(query, &names, &session);
        let bound = bound.map_err(|error| planner_error(error, text))?;
        let used = bound.columns();
        let columns = shown(&bound.query).map(|target| ViewColumn {
            name: Arc::clone(&target.name),
            ty: target.expr.ty,
        });
        let references = bound.references.iter().map(|reference| {
            let relation = &reference.relation;
            let is_used = |at| {
                let whole = relation.kind == RelationKind::View;
                whole || used.contains(&(relation.oid, at))
            };
            let columns = relation.columns.iter().zip(numbers(relation, &names));
            let columns = columns
                .enumerate()
                .map(|(at, (column, attnum))| ReferenceColumn {
                    attnum,
                    name: Arc::clone(&column.name),
                    used: is_used(at),
                });
            ViewReference {
                schema: reference.schema.clone(),
                name: reference.name.clone(),
                start: reference.start.saturating_sub(start),
                end: parser::token_end(text, reference.last).saturating_sub(start),
                aliased: reference.aliased,
                oid: relation.oid,
                columns: columns.collect(),
            }
        });
        Ok(ViewParts {
            columns: columns.collect(),
            references: references.collect(),
            read_under: ReadUnder {
                time_zone: setting("timezone"),
                date_style: setting("datestyle"),
                interval_style: setting("intervalstyle"),
                now: cx.types.now_micros,
            },
        })
    })
}
