//! Which WITH items refer to which, and whether a recursive one does so where it may.

use std::collections::HashSet;

use evenkeel_types::SqlState;

use super::place;
use crate::ast::{
    Argument, Call, Cte, Expr, ExprKind as K, FrameBound, FromItem, Grouping, JoinKind,
    JsonConstructor, Pos, Query, QueryBody, Select, SetOp, SortBy, Statement, SublinkKind, Window,
};
use crate::error::{PlanError, PlanResult};

/// Where a reference to a recursive query stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Allowed,
    NonRecursive,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

impl Context {
    fn complaint(self) -> &'static str {
        match self {
            Context::Allowed => "more than once",
            Context::NonRecursive => "within its non-recursive term",
            Context::Subquery => "within a subquery",
            Context::OuterJoin => "within an outer join",
            Context::Intersect => "within INTERSECT",
            Context::Except => "within EXCEPT",
        }
    }
}

/// A walk that reports the references to names that no inner WITH hides.
struct Walk<'a> {
    found: &'a mut dyn FnMut(&str, Pos, Context) -> PlanResult<()>,
    hidden: Vec<HashSet<String>>,
    context: Context,
}

/// The order in which the items are bound, each with whether it is recursive.
pub(super) fn order(ctes: &[Cte]) -> PlanResult<Vec<(usize, bool)>> {
    let mut uses: Vec<HashSet<usize>> = Vec::with_capacity(ctes.len());
    for cte in ctes {
        let mut used = HashSet::new();
        let Statement::Query(query) = &*cte.statement else {
            uses.push(used);
            continue;
        };
        let mut found = |name: &str, _: Pos, _: Context| {
            if let Some(index) = ctes.iter().position(|other| other.name.text == name) {
                used.insert(index);
            }
            Ok(())
        };
        Walk::new(&mut found).query(query)?;
        uses.push(used);
    }
    let mut done: Vec<(usize, bool)> = Vec::with_capacity(ctes.len());
    let mut left: Vec<usize> = (0..ctes.len()).collect();
    while !left.is_empty() {
        let ready = left.iter().position(|index| {
            let needed = uses[*index].iter().filter(|used| *used != index);
            needed.into_iter().all(|used| !left.contains(used))
        });
        let Some(ready) = ready else {
            let message = "mutual recursion between WITH items is not implemented";
            let at = ctes[left[0]].name.at;
            return Err(PlanError::unsupported(message).at(at));
        };
        let index = left.remove(ready);
        done.push((index, uses[index].contains(&index)));
    }
    Ok(done)
}

/// Refuses a recursive query that refers to itself where it may not, or not at all in its second
/// term.
pub(super) fn check_recursive(cte: &Cte, query: &Query) -> PlanResult<()> {
    let QueryBody::SetOp { left, right, .. } = &query.body else {
        return Ok(());
    };
    let name = cte.name.text.as_str();
    let refused = |context: Context, at: Pos| {
        let message = format!(
            "recursive reference to query \"{name}\" must not appear {}",
            context.complaint()
        );
        PlanError::new(SqlState::INVALID_RECURSION, message).at(at)
    };
    let mut found = |other: &str, at: Pos, context: Context| {
        if other == name {
            return Err(refused(context, at));
        }
        Ok(())
    };
    let mut walk = Walk::new(&mut found);
    walk.context = Context::NonRecursive;
    walk.query(left)?;
    let mut seen = 0;
    let mut found = |other: &str, at: Pos, context: Context| {
        if other != name {
            return Ok(());
        }
        seen += 1;
        if context != Context::Allowed || seen > 1 {
            return Err(refused(context, at));
        }
        Ok(())
    };
    Walk::new(&mut found).query(right)?;
    let unsupported = |what: &str, at: Pos| {
        let message = format!("{what} in a recursive query is not implemented");
        Err(PlanError::unsupported(message).at(at))
    };
    if let Some(first) = query.order_by.first() {
        return unsupported("ORDER BY", place::of_ast(&first.value));
    }
    if let Some(offset) = &query.offset {
        return unsupported("OFFSET", place::of_ast(offset));
    }
    if let Some(limit) = &query.limit {
        return unsupported("LIMIT", place::of_ast(limit));
    }
    if let Some(locking) = query.locking.first() {
        return unsupported("FOR UPDATE/SHARE", locking.at);
    }
    Ok(())
}

impl<'a> Walk<'a> {
    fn new(found: &'a mut dyn FnMut(&str, Pos, Context) -> PlanResult<()>) -> Walk<'a> {
        Walk {
            found,
            hidden: Vec::new(),
            context: Context::Allowed,
        }
    }

    fn within(
        &mut self,
        context: Context,
        f: impl FnOnce(&mut Self) -> PlanResult<()>,
    ) -> PlanResult<()> {
        let before = self.context;
        if before == Context::Allowed {
            self.context = context;
        }
        let result = f(self);
        self.context = before;
        result
    }

    fn query(&mut self, query: &Query) -> PlanResult<()> {
        stacker::maybe_grow(super::walk::RED_ZONE, super::walk::STACK_PART, || {
            let with = query.with.as_ref();
            if let Some(with) = with {
                let names: HashSet<String> =
                    with.ctes.iter().map(|cte| cte.name.text.clone()).collect();
                if with.recursive {
                    self.hidden.push(names);
                    self.within(Context::Subquery, |walk| walk.ctes(&with.ctes))?;
                } else {
                    self.within(Context::Subquery, |walk| walk.ctes(&with.ctes))?;
                    self.hidden.push(names);
                }
            }
            self.body(&query.body)?;
            self.sort(&query.order_by)?;
            for expr in query.limit.iter().chain(&query.offset) {
                self.expr(expr)?;
            }
            if with.is_some() {
                self.hidden.pop();
            }
            Ok(())
        })
    }

    fn ctes(&mut self, ctes: &[Cte]) -> PlanResult<()> {
        for cte in ctes {
            if let Statement::Query(query) = &*cte.statement {
                self.query(query)?;
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &QueryBody) -> PlanResult<()> {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::Values(rows) => rows.iter().flatten().try_for_each(|expr| self.expr(expr)),
            QueryBody::SetOp {
                op,
                all,
                left,
                right,
            } => match op {
                SetOp::Union => {
                    self.query(left)?;
                    self.query(right)
                }
                SetOp::Intersect => {
                    let context = if *all {
                        Context::Intersect
                    } else {
                        self.context
                    };
                    self.within(context, |walk| walk.query(left))?;
                    self.within(context, |walk| walk.query(right))
                }
                SetOp::Except => {
                    let context = if *all { Context::Except } else { self.context };
                    self.within(context, |walk| walk.query(left))?;
                    self.within(Context::Except, |walk| walk.query(right))
                }
            },
        }
    }

    fn select(&mut self, select: &Select) -> PlanResult<()> {
        for target in &select.targets {
            self.expr(&target.value)?;
        }
        for item in &select.from {
            self.from(item)?;
        }
        for expr in select.filter.iter().chain(&select.having) {
            self.expr(expr)?;
        }
        for grouping in &select.group_by {
            self.grouping(grouping)?;
        }
        select
            .windows
            .iter()
            .try_for_each(|window| self.window(window))
    }

    fn grouping(&mut self, grouping: &Grouping) -> PlanResult<()> {
        match grouping {
            Grouping::Expr(expr) => self.expr(expr),
            Grouping::Empty(_) => Ok(()),
            Grouping::Set(list) => list.iter().try_for_each(|expr| self.expr(expr)),
            Grouping::Rollup(list, _) | Grouping::Cube(list, _) | Grouping::Sets(list, _) => {
                list.iter().try_for_each(|item| self.grouping(item))
            }
        }
    }

    fn from(&mut self, item: &FromItem) -> PlanResult<()> {
        match item {
            FromItem::Table { name, .. } => {
                if let [only] = name.parts.as_slice()
                    && !self.hidden.iter().any(|names| names.contains(&only.text))
                {
                    return (self.found)(&only.text, only.at, self.context);
                }
                Ok(())
            }
            FromItem::Subquery { query, .. } => self.query(query),
            FromItem::Functions { calls, .. } => {
                calls.iter().try_for_each(|(call, _)| self.expr(call))
            }
            FromItem::Join(join) => {
                let (left, right) = match join.kind {
                    JoinKind::Inner => (self.context, self.context),
                    JoinKind::Left => (self.context, Context::OuterJoin),
                    JoinKind::Right => (Context::OuterJoin, self.context),
                    JoinKind::Full => (Context::OuterJoin, Context::OuterJoin),
                };
                self.within(left, |walk| walk.from(&join.left))?;
                self.within(right, |walk| walk.from(&join.right))?;
                join.on.iter().try_for_each(|on| self.expr(on))
            }
        }
    }

    fn sort(&mut self, list: &[SortBy]) -> PlanResult<()> {
        list.iter().try_for_each(|item| self.expr(&item.value))
    }

    fn window(&mut self, window: &Window) -> PlanResult<()> {
        for expr in &window.partition_by {
            self.expr(expr)?;
        }
        self.sort(&window.order_by)?;
        let Some(frame) = &window.frame else {
            return Ok(());
        };
        for bound in [&frame.start, &frame.end] {
            if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                self.expr(offset)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> PlanResult<()> {
        for Argument { value, .. } in &call.args {
            self.expr(value)?;
        }
        self.sort(&call.order_by)?;
        if let Some(filter) = &call.filter {
            self.expr(filter)?;
        }
        call.over.iter().try_for_each(|over| self.window(over))
    }

    fn json(&mut self, json: &JsonConstructor) -> PlanResult<()> {
        match json {
            JsonConstructor::Scalar(value) => self.expr(value),
            JsonConstructor::Parse { value, .. } | JsonConstructor::Serialize { value, .. } => {
                self.expr(&value.value)
            }
            JsonConstructor::Object { members, .. } => {
                let parts = members.iter();
                self.exprs(parts.flat_map(|(name, value)| [name, &value.value]))
            }
            JsonConstructor::Array { items, .. } => {
                self.exprs(items.iter().map(|item| &item.value))
            }
            JsonConstructor::ArrayOf { query, .. } => {
                self.within(Context::Subquery, |walk| walk.query(query))
            }
        }
    }

    fn exprs<'e>(&mut self, list: impl IntoIterator<Item = &'e Expr>) -> PlanResult<()> {
        list.into_iter().try_for_each(|expr| self.expr(expr))
    }

    fn expr(&mut self, expr: &Expr) -> PlanResult<()> {
        stacker::maybe_grow(super::walk::RED_ZONE, super::walk::STACK_PART, || {
            self.kind(&expr.kind)
        })
    }

    fn kind(&mut self, kind: &K) -> PlanResult<()> {
        match kind {
            K::Literal(_)
            | K::Param(_)
            | K::Column(_)
            | K::SqlValue(..)
            | K::Default
            | K::MergeAction
            | K::CurrentOf(_)
            | K::Unsupported(_) => Ok(()),
            K::Field { base: arg, .. }
            | K::Cast { arg, .. }
            | K::Collate { arg, .. }
            | K::Not(arg)
            | K::IsNull { arg, .. }
            | K::IsBool { arg, .. }
            | K::IsNormalized { arg, .. }
            | K::IsJson { arg, .. } => self.expr(arg),
            K::Json(json) => self.json(json),
            K::Subscript { base, subscripts } => {
                self.expr(base)?;
                let mut parts = subscripts.iter();
                parts.try_for_each(|s| self.exprs(s.lower.iter().chain(&s.upper)))
            }
            K::AtTimeZone { arg, zone } => {
                self.exprs(std::iter::once(&**arg).chain(zone.as_deref()))
            }
            K::Op { left, right, .. } => self.exprs(left.as_deref().into_iter().chain([&**right])),
            K::AnyAll { left, array, .. } => self.exprs([&**left, &**array]),
            K::IsDistinct { left, right, .. } | K::NullIf(left, right) => {
                self.exprs([&**left, &**right])
            }
            K::And(args)
            | K::Or(args)
            | K::Coalesce(args)
            | K::Greatest(args)
            | K::Least(args)
            | K::Row { fields: args, .. }
            | K::Array(args)
            | K::Grouping(args) => self.exprs(args),
            K::Like {
                arg,
                pattern,
                escape,
                ..
            } => self.exprs([&**arg, &**pattern].into_iter().chain(escape.as_deref())),
            K::Between { arg, low, high, .. } => self.exprs([&**arg, &**low, &**high]),
            K::InList { arg, list, .. } => self.exprs(std::iter::once(&**arg).chain(list)),
            K::Call(call) => self.call(call),
            K::Case {
                operand,
                branches,
                otherwise,
            } => {
                self.exprs(operand.as_deref())?;
                self.exprs(branches.iter().flat_map(|(when, then)| [when, then]))?;
                self.exprs(otherwise.as_deref())
            }
            K::Sublink(link) => {
                self.within(Context::Subquery, |walk| walk.query(&link.query))?;
                match &link.kind {
                    SublinkKind::Any { left, .. } | SublinkKind::All { left, .. } => {
                        self.expr(left)
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}
