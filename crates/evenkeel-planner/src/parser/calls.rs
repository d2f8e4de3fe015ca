//! Function calls: arguments, WITHIN GROUP, FILTER, OVER.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::expr::{Stop, node};
use super::keywords::Kw;
use super::primary::plain_call;
use super::token::Tok;
use crate::ast::{Argument, Call, Expr, ExprKind, Pos, QualifiedName, Window};
use crate::error::{PlanError, PlanResult};

fn syntax_error(message: &str, at: Pos) -> PlanError {
    PlanError::new(SqlState::SYNTAX_ERROR, message).at(at)
}

/// A call with what decides whether it may be something else.
struct Application {
    call: Call,
    /// Arguments without ALL, DISTINCT, VARIADIC or a star: a string after them makes them the
    /// modifiers of a type.
    plain: bool,
    order_at: Pos,
}

impl Parser<'_> {
    /// Behind a function's name: a call, or a constant of a type of that name.
    pub(super) fn call_or_constant(&mut self, name: QualifiedName) -> PlanResult<Expr> {
        if self.peek() == Tok::Str {
            return self.named_constant(name, Vec::new());
        }
        let application = self.application(name)?;
        if application.plain && self.peek() == Tok::Str {
            return self.constant_with_modifiers(application);
        }
        let at = application.call.name.at();
        let mut call = application.call;
        self.within_group(&mut call)?;
        self.filter_and_over(&mut call)?;
        Ok(node(ExprKind::Call(Box::new(call)), at))
    }

    /// `func_expr_windowless`: a call with nothing behind its parenthesis.
    pub(super) fn windowless_call(&mut self, name: QualifiedName) -> PlanResult<Expr> {
        let at = name.at();
        let call = self.application(name)?.call;
        Ok(node(ExprKind::Call(Box::new(call)), at))
    }

    fn constant_with_modifiers(&mut self, application: Application) -> PlanResult<Expr> {
        let call = application.call;
        if let Some(name) = call.args.iter().find_map(|arg| arg.name.as_ref()) {
            let message = "type modifier cannot have parameter name";
            return Err(syntax_error(message, name.at));
        }
        if !call.order_by.is_empty() {
            let message = "type modifier cannot have ORDER BY";
            return Err(syntax_error(message, application.order_at));
        }
        let modifiers = call.args.into_iter().map(|arg| arg.value).collect();
        self.named_constant(call.name, modifiers)
    }

    /// `func_application`
    fn application(&mut self, name: QualifiedName) -> PlanResult<Application> {
        self.expect_char(b'(')?;
        let mut call = plain_call(name, Vec::new());
        let mut plain = false;
        let mut order_at = Pos::NONE;
        if self.accept_char(b'*') {
            call.star = true;
        } else if !self.is_char(b')') {
            call.distinct = self.accept_key(Kw::Distinct);
            let quantified = call.distinct || self.accept_key(Kw::All);
            if !quantified && self.accept_key(Kw::Variadic) {
                call.variadic = true;
                call.args.push(self.argument()?);
            } else {
                self.arguments(&mut call, !quantified)?;
            }
            plain = !quantified && !call.variadic;
            order_at = self.pos();
            call.order_by = self.order_by()?;
        }
        self.expect_char(b')')?;
        Ok(Application {
            call,
            plain,
            order_at,
        })
    }

    fn arguments(&mut self, call: &mut Call, variadic: bool) -> PlanResult<()> {
        call.args.push(self.argument()?);
        while self.accept_char(b',') {
            if variadic && self.accept_key(Kw::Variadic) {
                call.variadic = true;
                call.args.push(self.argument()?);
                return Ok(());
            }
            call.args.push(self.argument()?);
        }
        Ok(())
    }

    /// `func_arg_expr`
    pub(super) fn argument(&mut self) -> PlanResult<Argument> {
        self.argument_until(Stop::Never)
    }

    /// An argument that may end at a word of an operator.
    pub(super) fn argument_until(&mut self, stop: Stop) -> PlanResult<Argument> {
        let named = matches!(self.peek_at(1), Tok::ColonEquals | Tok::EqualsGreater);
        let name = if named && Self::is_function_name(self.peek()) {
            let name = self.take_name();
            self.bump();
            Some(name)
        } else {
            None
        };
        let value = self.expr_until(stop)?;
        Ok(Argument { name, value })
    }

    fn within_group(&mut self, call: &mut Call) -> PlanResult<()> {
        if !self.is_key(Kw::Within) {
            return Ok(());
        }
        let at = self.bump();
        self.expect_key(Kw::Group)?;
        self.expect_char(b'(')?;
        if !self.is_key(Kw::Order) {
            return Err(self.unexpected());
        }
        let order_by = self.order_by()?;
        self.expect_char(b')')?;
        let message = if !call.order_by.is_empty() {
            "cannot use multiple ORDER BY clauses with WITHIN GROUP"
        } else if call.distinct {
            "cannot use DISTINCT with WITHIN GROUP"
        } else if call.variadic {
            "cannot use VARIADIC with WITHIN GROUP"
        } else {
            call.order_by = order_by;
            call.within_group = true;
            return Ok(());
        };
        Err(syntax_error(message, at))
    }

    /// `filter_clause over_clause`
    pub(super) fn filter_and_over(&mut self, call: &mut Call) -> PlanResult<()> {
        if self.accept_key(Kw::Filter) {
            self.expect_char(b'(')?;
            self.expect_key(Kw::Where)?;
            call.filter = Some(self.expr()?);
            self.expect_char(b')')?;
        }
        if self.accept_key(Kw::Over) {
            call.over = Some(self.over()?);
        }
        Ok(())
    }

    fn over(&mut self) -> PlanResult<Window> {
        if self.is_char(b'(') {
            return self.window(None);
        }
        let name = self.col_id()?;
        let at = name.at;
        Ok(Window {
            name: Some(name),
            reference: true,
            base: None,
            partition_by: Vec::new(),
            order_by: Vec::new(),
            frame: None,
            at,
        })
    }
}
