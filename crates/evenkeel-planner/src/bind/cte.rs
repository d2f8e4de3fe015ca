//! WITH: common table expressions, recursive ones included.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::cte_graph;
use super::query::Unknowns;
use super::scope::{CteSlot, Scope};
use super::setops::Arms;
use super::{Binder, place, types};
use crate::ast::{self, QueryBody, SetOp, Statement};
use crate::bound::{Change, ChangeShape, Cte, Expr, Query};
use crate::error::{PlanError, PlanResult};
use crate::flat::flat;

fn cte_query(cte: &ast::Cte) -> PlanResult<&ast::Query> {
    match &*cte.statement {
        Statement::Query(query) => Ok(query),
        _ => {
            let name = &cte.name.text;
            let message =
                format!("recursive query \"{name}\" must not contain data-modifying statements");
            Err(recursion(message).at(cte.name.at))
        }
    }
}

fn recursion(message: String) -> PlanError {
    PlanError::new(SqlState::INVALID_RECURSION, message)
}

impl Binder<'_> {
    /// WITH of the query being bound.
    pub(super) fn bind_with(&mut self, with: &ast::With) -> PlanResult<()> {
        for (index, cte) in with.ctes.iter().enumerate() {
            let same = |other: &ast::Cte| other.name.text == cte.name.text;
            if with.ctes[..index].iter().any(same) {
                let message = format!(
                    "WITH query name \"{}\" specified more than once",
                    cte.name.text
                );
                let error = PlanError::new(SqlState::DUPLICATE_ALIAS, message);
                return Err(error.at(cte.name.at));
            }
        }
        let order = if with.recursive {
            cte_graph::order(&with.ctes)?
        } else {
            (0..with.ctes.len()).map(|index| (index, false)).collect()
        };
        for (position, (index, recursive)) in order.iter().enumerate() {
            let cte = &with.ctes[*index];
            if cte.search_or_cycle {
                let message = "SEARCH and CYCLE clauses are not supported";
                return Err(PlanError::unsupported(message).at(cte.name.at));
            }
            if !with.recursive {
                let later = order[position..].iter();
                let names = later.map(|(index, _)| with.ctes[*index].name.text.clone());
                self.scope().future_ctes = names.collect();
            }
            if *recursive {
                self.bind_recursive(cte)?;
            } else {
                self.bind_cte(cte)?;
            }
        }
        self.scope().future_ctes.clear();
        Ok(())
    }

    /// A change within WITH.
    fn bind_change_of(&mut self, cte: &ast::Cte) -> PlanResult<Option<Change>> {
        if matches!(&*cte.statement, Statement::Query(_)) {
            return Ok(None);
        }
        let nested = self.scopes.len() > 1;
        let change = match &*cte.statement {
            Statement::Insert(insert) => self.bind_insert(insert)?,
            Statement::Update(update) => self.bind_update(update)?,
            Statement::Delete(delete) => self.bind_delete(delete)?,
            Statement::Merge(merge) => self.bind_merge(merge)?,
            _ => {
                let message = "only queries and changes may stand in WITH";
                return Err(PlanError::unsupported(message).at(cte.name.at));
            }
        };
        if nested {
            let message = "WITH clause containing a data-modifying statement must be at the top \
                           level";
            return Err(PlanError::unsupported(message).at(cte.name.at));
        }
        Ok(Some(change))
    }

    fn bind_cte(&mut self, cte: &ast::Cte) -> PlanResult<()> {
        if let Some(change) = self.bind_change_of(cte)? {
            let returning = change.returning.iter().flat_map(|list| &list.targets);
            let names = returning.clone().map(|target| Arc::clone(&target.name));
            let columns = Self::column_names(cte, names.collect())?;
            let types = returning.map(|target| target.expr.ty).collect();
            let (query, shape) = flat(change);
            self.add_cte(cte, columns, types, query, Some(shape));
            return Ok(());
        }
        let query = self.bind_query(cte_query(cte)?, Unknowns::Text)?;
        let shown = query.targets.iter().filter(|target| !target.junk);
        let names = shown
            .clone()
            .map(|target| Arc::clone(&target.name))
            .collect();
        let types = shown.map(|target| target.expr.ty).collect();
        let columns = Self::column_names(cte, names)?;
        self.add_cte(cte, columns, types, query, None);
        Ok(())
    }

    /// The names of the columns, those that the list gives first.
    fn column_names(cte: &ast::Cte, mut names: Vec<Arc<str>>) -> PlanResult<Vec<Arc<str>>> {
        Self::check_names(cte, names.len(), cte.name.at)?;
        for (name, given) in names.iter_mut().zip(&cte.columns) {
            *name = given.text.as_str().into();
        }
        Ok(names)
    }

    fn add_cte(
        &mut self,
        cte: &ast::Cte,
        columns: Vec<Arc<str>>,
        types: Vec<SqlType>,
        query: Query,
        change: Option<ChangeShape>,
    ) {
        let name: Arc<str> = cte.name.text.as_str().into();
        let bound = Cte {
            name: Arc::clone(&name),
            materialized: cte.materialized,
            columns: columns.clone(),
            types: types.clone(),
            query,
            recursive: false,
            references: 0,
            change: change.map(Arc::new),
        };
        self.scope().ctes.push(CteSlot {
            name,
            columns,
            types,
            bound: Some(bound),
            references: 0,
        });
    }

    /// A recursive query: the columns' types are those of the first term, and the second must give
    /// the same.
    fn bind_recursive(&mut self, cte: &ast::Cte) -> PlanResult<()> {
        let query = cte_query(cte)?;
        let QueryBody::SetOp {
            op: SetOp::Union,
            all,
            left,
            right,
        } = &query.body
        else {
            let message = format!(
                "recursive query \"{}\" does not have the form non-recursive-term UNION [ALL] \
                 recursive-term",
                cte.name.text
            );
            return Err(recursion(message).at(cte.name.at));
        };
        cte_graph::check_recursive(cte, query)?;
        self.scopes.push(Scope::default());
        if let Some(with) = &query.with {
            self.bind_with(with)?;
        }
        let mut first = self.bind_arm(left, None)?;
        let open: Vec<SqlType> = first
            .columns()
            .iter()
            .map(|column| text_if_open(column.ty))
            .collect();
        first = self.arms_as(first, &open)?;
        let names = Self::column_names(cte, first.names().to_vec())?;
        // The slot belongs to the query with the WITH, one further out than the terms' query.
        let name: Arc<str> = cte.name.text.as_str().into();
        let outer = self.scopes.len() - 2;
        self.scopes[outer].ctes.push(CteSlot {
            name,
            columns: names.clone(),
            types: open.clone(),
            bound: None,
            references: 0,
        });
        let scope = Scope {
            recursive_term: true,
            ..Scope::default()
        };
        let second = self.bind_arm(right, Some(scope))?;
        let firsts: Vec<Expr> = first.columns().to_vec();
        let arms = self.combine(SetOp::Union, *all, first, second)?;
        check_types(cte, &firsts, &arms)?;
        let bound = self.finish_set(query, arms, Unknowns::Text)?;
        let scope = self.scopes.pop().unwrap_or_default();
        let bound = Query {
            range_table: scope.range_table,
            ctes: super::query::finish_ctes(scope.ctes),
            ..bound
        };
        let slot = self.scope().ctes.pop();
        let types = slot.map_or(open, |slot| slot.types);
        self.add_cte(cte, names, types, bound, None);
        let last = self.scope().ctes.last_mut();
        if let Some(cte) = last.and_then(|slot| slot.bound.as_mut()) {
            cte.recursive = true;
        }
        Ok(())
    }
}

fn text_if_open(ty: SqlType) -> SqlType {
    if ty == SqlType::Unknown {
        SqlType::Text
    } else {
        ty
    }
}

/// The second term may not widen the columns of the first.
fn check_types(cte: &ast::Cte, firsts: &[Expr], arms: &Arms) -> PlanResult<()> {
    for (index, (first, all)) in firsts.iter().zip(arms.columns()).enumerate() {
        if first.ty == all.ty {
            continue;
        }
        let named = types::same(first.ty, all.ty);
        let show = |ty: SqlType| {
            if named {
                ty.name()
            } else {
                types::name(ty).to_owned()
            }
        };
        let message = format!(
            "recursive query \"{}\" column {} has type {} in non-recursive term but type {} \
             overall",
            cte.name.text,
            index + 1,
            show(first.ty),
            show(all.ty)
        );
        let hint = "Cast the output of the non-recursive term to the correct type.";
        let error = PlanError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint);
        return Err(error.at(place::of(first)));
    }
    Ok(())
}
