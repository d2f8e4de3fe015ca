//! GROUP BY: grouped expressions, grouping sets, GROUPING.

use evenkeel_types::SqlState;

use super::scope::Place;
use super::sort::check_groupable;
use super::{Binder, equal, walk};
use crate::ast::{self, ExprKind as K, Grouping, Pos};
use crate::bound::{Expr, ExprKind, Query, Target};
use crate::error::{PlanError, PlanResult};

/// Most grouping sets of a query, and most elements of CUBE.
const MAX_SETS: usize = 4096;
const MAX_CUBE: usize = 12;

/// GROUP BY as it is being bound.
struct Groups {
    /// The select list with the grouped expressions that are not in it at the end.
    targets: Vec<Target>,
    /// Places in `targets`, without repetition.
    members: Vec<usize>,
}

type Sets = Vec<Vec<usize>>;

fn too_many(at: Pos) -> PlanError {
    let message = format!("too many grouping sets present (maximum {MAX_SETS})");
    PlanError::new(SqlState::STATEMENT_TOO_COMPLEX, message).at(at)
}

impl Binder<'_> {
    /// GROUP BY: the grouped expressions and their sets, which are none for a plain GROUP BY.
    pub(super) fn bind_group_by(
        &mut self,
        select: &ast::Select,
        targets: &mut [Target],
    ) -> PlanResult<(Vec<Expr>, Sets)> {
        let mut groups = Groups {
            targets: targets.to_vec(),
            members: Vec::new(),
        };
        let mut plain = true;
        let mut factors = Vec::with_capacity(select.group_by.len());
        for item in &select.group_by {
            plain &= matches!(item, Grouping::Expr(_) | Grouping::Set(_));
            factors.push(self.sets_of(item, &mut groups)?);
        }
        for (target, grouped) in targets.iter_mut().zip(&groups.targets) {
            target.expr = grouped.expr.clone();
        }
        let exprs = groups.members.iter();
        let exprs = exprs
            .map(|index| groups.targets[*index].expr.clone())
            .collect();
        if plain {
            return Ok((exprs, Vec::new()));
        }
        let mut sets: Sets = vec![Vec::new()];
        for factor in factors {
            if sets.len().saturating_mul(factor.len()) > MAX_SETS {
                return Err(too_many(Pos::NONE));
            }
            sets = product(&sets, &factor);
        }
        for set in &mut sets {
            set.sort_unstable();
        }
        if select.group_distinct {
            let mut seen = std::collections::HashSet::new();
            sets.retain(|set| seen.insert(set.clone()));
        }
        Ok((exprs, sets))
    }

    fn member(&mut self, item: &ast::Expr, groups: &mut Groups) -> PlanResult<Vec<usize>> {
        if let K::Row {
            fields,
            explicit: false,
        } = &item.kind
        {
            let mut all = Vec::new();
            for field in fields {
                all.extend(self.member(field, groups)?);
            }
            return Ok(all);
        }
        let index = self.find_target(item, &mut groups.targets, Place::GroupBy)?;
        let expr = self.resolve_target(&mut groups.targets, index)?;
        check_groupable(&expr)?;
        let known = groups.members.iter().position(|member| *member == index);
        let number = known.unwrap_or_else(|| {
            groups.members.push(index);
            groups.members.len() - 1
        });
        Ok(vec![number])
    }

    /// The sets that an element of GROUP BY stands for.
    fn sets_of(&mut self, item: &Grouping, groups: &mut Groups) -> PlanResult<Sets> {
        match item {
            Grouping::Expr(expr) => Ok(vec![self.member(expr, groups)?]),
            Grouping::Empty(_) => Ok(vec![Vec::new()]),
            Grouping::Set(list) => {
                let mut all = Vec::new();
                for expr in list {
                    all.extend(self.member(expr, groups)?);
                }
                Ok(vec![all])
            }
            Grouping::Rollup(items, _) => {
                let parts = self.parts(items, groups)?;
                let prefixes = (0..=parts.len()).rev();
                Ok(prefixes.map(|n| parts[..n].concat()).collect())
            }
            Grouping::Cube(items, at) => {
                if items.len() > MAX_CUBE {
                    let message = format!("CUBE is limited to {MAX_CUBE} elements");
                    return Err(PlanError::new(SqlState::TOO_MANY_COLUMNS, message).at(*at));
                }
                let parts = self.parts(items, groups)?;
                let chosen = |mask: usize| {
                    let picked = parts.iter().enumerate();
                    let picked = picked.filter(|(i, _)| mask & (1 << i) != 0);
                    picked.flat_map(|(_, part)| part.clone()).collect()
                };
                Ok((0..1_usize << parts.len()).rev().map(chosen).collect())
            }
            Grouping::Sets(items, at) => {
                let mut all = Vec::new();
                for item in items {
                    all.extend(self.deeper(|binder| binder.sets_of(item, groups))?);
                    if all.len() > MAX_SETS {
                        return Err(too_many(*at));
                    }
                }
                Ok(all)
            }
        }
    }

    fn parts(&mut self, items: &[Grouping], groups: &mut Groups) -> PlanResult<Sets> {
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            parts.push(self.sets_of(item, groups)?.concat());
        }
        Ok(parts)
    }

    /// Looks the arguments of GROUPING up among the grouped expressions.
    pub(super) fn finish_groupings(&mut self, query: &mut Query) -> PlanResult<()> {
        let groupings = std::mem::take(&mut self.scope().groupings);
        if groupings.is_empty() {
            return Ok(());
        }
        let mut places = Vec::with_capacity(groupings.len());
        for (args, _) in &groupings {
            let mut members = Vec::with_capacity(args.len());
            for arg in args {
                let same = |group: &Expr| equal::exprs(group, arg);
                let Some(member) = query.group_by.iter().position(same) else {
                    let message = "arguments to GROUPING must be grouping expressions of the \
                                   associated query level";
                    let at = super::place::of(arg);
                    return Err(PlanError::new(SqlState::GROUPING_ERROR, message).at(at));
                };
                members.push(member);
            }
            places.push(members);
        }
        let targets = query.targets.iter_mut().map(|target| &mut target.expr);
        for expr in targets.chain(&mut query.having) {
            replace(expr, &places);
        }
        Ok(())
    }
}

fn replace(expr: &mut Expr, places: &[Vec<usize>]) {
    if let ExprKind::Grouping(members) = &mut expr.kind
        && let [index] = members.as_slice()
        && let Some(found) = places.get(*index)
    {
        *members = found.clone();
        return;
    }
    walk::children_mut(expr, &mut |child| replace(child, places));
}

fn product(left: &Sets, right: &Sets) -> Sets {
    let mut all = Vec::with_capacity(left.len() * right.len());
    for a in left {
        for b in right {
            let mut both = a.clone();
            both.extend(b.iter().copied());
            both.sort_unstable();
            both.dedup();
            all.push(both);
        }
    }
    all
}
