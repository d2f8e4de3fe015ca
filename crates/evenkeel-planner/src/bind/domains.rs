//! Domains: coercion to one, its conditions, its default.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::CastContext;
use evenkeel_types::DomainType;
use evenkeel_types::{Datum, SqlState, SqlType};

use super::coerce::{apply_modifier, earlier};
use super::mentions::TypeMention;
use super::params::Params;
use super::scope::{Place, Scope};
use super::{Binder, Home, created_in};
use crate::ast::{self, Pos};
use crate::bound::{Expr, ExprKind, Target, ToDomain};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::parser;
use crate::planning::deparse;
use crate::relation::Relation;

/// The condition of a domain as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundDomainCheck {
    /// Its words with every cast.
    pub text: String,
    /// The same with the parentheses that are needed.
    pub pretty: String,
}

/// Binds the condition of a domain over `base`, which is in a schema.
///
/// # Errors
/// PostgreSQL's of the binder; 42804 for a condition that is not Boolean.
pub fn bind_domain_check(
    written: &ast::Expr,
    base: SqlType,
    schema: &str,
    (catalog, session): (&dyn Catalog, &dyn Session),
) -> PlanResult<BoundDomainCheck> {
    let bind = |written: &ast::Expr, kept: bool| {
        let mut binder = Binder::new(catalog, session, Params::new(&[]));
        if kept {
            binder.home = Some(Home::of_domain(base, schema));
        }
        let bound = binder.bind_domain_condition(written, base)?;
        binder.refuse_parameters()?;
        PlanResult::Ok(bound)
    };
    let bound = bind(written, false)?;
    let text = deparse::alone(&bound, false);
    // The text is stored: it must mean what was written.
    let again = parser::parse_expr(&text).and_then(|written| bind(&written, true));
    if !again.is_ok_and(|again| deparse::alone(&again, false) == text) {
        let message = "a CHECK constraint with this expression is not supported";
        return Err(PlanError::unsupported(message).at(written.at));
    }
    Ok(BoundDomainCheck {
        pretty: deparse::alone(&bound, true),
        text,
    })
}

/// The places of a domain's text that hang on types: of a condition over `VALUE`, or of a default,
/// which is `gives` read as a value of.
///
/// # Errors
/// The binder's, of a text that is no longer understood.
pub fn domain_mentions(
    text: &str,
    (base, schema): (SqlType, &str),
    default: bool,
    (catalog, session): (&dyn Catalog, &dyn Session),
) -> PlanResult<Vec<TypeMention>> {
    let written = parser::parse_expr(text)?;
    let mut binder = Binder::new(catalog, session, Params::new(&[]));
    binder.home = Some(Home::of_domain(base, schema));
    binder.mentions = Some(Vec::new());
    if default {
        let bound = binder.bind_expr(&written)?;
        binder.coerce_to_target(bound, base, CastContext::Assignment, Pos::NONE)?;
    } else {
        binder.bind_domain_condition(&written, base)?;
    }
    Ok(binder.take_mentions())
}

impl Home {
    fn of_domain(base: SqlType, schema: &str) -> Home {
        let mut types = vec![base];
        types.extend(base.domain().map(|domain| domain.root()));
        Home {
            types: created_in(types.into_iter()),
            schema: Arc::from(schema),
        }
    }
}

/// How many conversions stand around an expression.
fn conversions(mut expr: &Expr) -> usize {
    let mut count = 0;
    while let ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) = &expr.kind {
        count += 1;
        expr = arg;
    }
    count
}

impl Binder<'_> {
    /// A parameter: a value of a domain comes from the client as one of the type that it is over.
    pub(super) fn param(&mut self, index: usize, ty: SqlType, at: Pos) -> PlanResult<Expr> {
        let kind = ExprKind::Param(index);
        let param = Expr { kind, ty, at };
        let Some(domain) = ty.domain() else {
            return Ok(param);
        };
        let root = ty.storage();
        let arg = match root.typmod() >= 0 {
            true => apply_modifier(param, root, CastContext::Assignment, Pos::NONE),
            false => param,
        };
        self.in_domain(arg, (domain, ty), 1, false, at)
    }

    /// The expression as a value of a domain, or of arrays of one: its type can be coerced to that.
    pub(super) fn coerce_to_domain(
        &mut self,
        expr: Expr,
        (domain, target): (&'static DomainType, SqlType),
        context: CastContext,
        at: Pos,
    ) -> PlanResult<Expr> {
        if let (ExprKind::Param(index), SqlType::Unknown) = (&expr.kind, expr.ty) {
            let index = *index;
            self.params.decide(index, target, expr.at)?;
            return self.param(index, target, earlier(expr.at, at));
        }
        let root = target.storage();
        let before = conversions(&expr);
        let arg = match (root, expr.ty) {
            // The fields of an interval say how its literal is read.
            (SqlType::Interval(Some(_)), SqlType::Unknown) => {
                let plain = || PlanError::new(SqlState::INTERNAL_ERROR, "a literal of no type");
                let read = self.coerce_to_target(expr, root, context, Pos::NONE)?;
                read.ok_or_else(plain)?
            }
            _ => {
                let arg = self.coerce(expr, root, context, Pos::NONE)?;
                match root.typmod() >= 0 {
                    true => apply_modifier(arg, root, context, Pos::NONE),
                    false => arg,
                }
            }
        };
        let added = conversions(&arg).saturating_sub(before);
        let explicit = context == CastContext::Explicit;
        self.in_domain(arg, (domain, target), added, explicit, at)
    }

    fn in_domain(
        &mut self,
        arg: Expr,
        (domain, target): (&'static DomainType, SqlType),
        added: usize,
        explicit: bool,
        at: Pos,
    ) -> PlanResult<Expr> {
        let tests = self.domain_tests(domain)?;
        let kind = ExprKind::ToDomain(Box::new(ToDomain {
            arg,
            domain,
            each: !matches!(target, SqlType::Domain(_)),
            explicit,
            added,
            tests,
        }));
        Ok(Expr {
            kind,
            ty: target,
            at,
        })
    }

    /// The tests of a domain: NOT NULL first, then the conditions, those of the domains that it is
    /// over before its own.
    fn domain_tests(&mut self, domain: &'static DomainType) -> PlanResult<Vec<DomainTest>> {
        let chain = domain.chain();
        let mut tests = Vec::new();
        if chain.iter().any(|of| of.parts().not_null) {
            tests.push(None);
        }
        for of in chain {
            for check in &of.parts().checks {
                let condition = self.deeper(|binder| {
                    let written = parser::parse_expr(&check.text)?;
                    binder.of_kept_domain(of, |binder| {
                        binder.bind_domain_condition(&written, of.parts().base)
                    })
                })?;
                tests.push(Some((Arc::from(&*check.name), condition)));
            }
        }
        Ok(tests)
    }

    /// Binds a text that the catalog keeps for a domain.
    fn of_kept_domain<T>(&mut self, of: &DomainType, bind: impl FnOnce(&mut Self) -> T) -> T {
        let home = Home::of_domain(of.parts().base, &of.parts().schema);
        let before = self.home.replace(home);
        // Places in it are none of the text that is bound.
        let mentions = self.mentions.take();
        let bound = bind(self);
        self.mentions = mentions;
        self.home = before;
        bound
    }

    /// A condition in which only `VALUE` means something.
    fn bind_domain_condition(&mut self, written: &ast::Expr, base: SqlType) -> PlanResult<Expr> {
        let before = self.domain_value.replace(base);
        self.scopes.push(Scope::default());
        self.scope().place = Place::Check;
        let bound = self.bind_expr(written);
        let bound = bound.and_then(|bound| self.coerce_to_boolean(bound, "CHECK"));
        self.scopes.pop();
        self.domain_value = before;
        bound
    }

    /// The DEFAULT of a domain, or else of the one that it is over.
    pub(super) fn domain_default(
        &mut self,
        domain: &'static DomainType,
    ) -> PlanResult<Option<Expr>> {
        let Some(text) = domain.default() else {
            return Ok(None);
        };
        let parsed = parser::parse_expr(text)?;
        self.scopes.push(Scope::default());
        let bound = self.of_kept_domain(domain, |binder| binder.bind_expr(&parsed));
        self.scopes.pop();
        let (target, context) = (SqlType::Domain(domain), CastContext::Assignment);
        self.coerce_to_target(bound?, target, context, Pos::NONE)
    }

    /// The DEFAULT of a column. Without one, NULL where a domain must allow it; else nothing.
    pub(super) fn default_or_null(
        &mut self,
        relation: &Relation,
        column: usize,
    ) -> PlanResult<Option<Expr>> {
        if let Some(default) = self.default_of(relation, column)? {
            return Ok(Some(default));
        }
        let column = &relation.columns[column];
        let SqlType::Domain(domain) = column.declared() else {
            return Ok(None);
        };
        if !domain.is_constrained() || column.generated.is_some() || column.identity.is_some() {
            return Ok(None);
        }
        let null = Expr {
            kind: ExprKind::Const(Datum::Null),
            ty: column.ty,
            at: Pos::NONE,
        };
        self.in_domain(null, (domain, column.declared()), 0, false, Pos::NONE)
            .map(Some)
    }

    /// Asks the domains again of columns of which a part is assigned to.
    pub(super) fn ask_domains_again(
        &mut self,
        relation: &Relation,
        columns: &[usize],
        targets: &mut [Target],
    ) -> PlanResult<()> {
        for (column, target) in columns.iter().zip(targets) {
            let declared = relation.columns[*column].declared();
            if let (ExprKind::AssignPart(_), SqlType::Domain(domain)) =
                (&target.expr.kind, declared)
            {
                let whole = target.expr.clone();
                target.expr = self.in_domain(whole, (domain, declared), 0, false, Pos::NONE)?;
            }
        }
        Ok(())
    }

    /// A value of a domain as one of the type that it is over.
    pub(super) fn of_base(&mut self, expr: Expr) -> Expr {
        let SqlType::Domain(_) = expr.ty else {
            return expr;
        };
        Expr {
            ty: expr.ty.base(),
            at: expr.at,
            kind: ExprKind::Relabel(Box::new(expr)),
        }
    }
}

/// A test of a domain as [`ToDomain::tests`] has it.
type DomainTest = Option<(Arc<str>, Expr)>;
