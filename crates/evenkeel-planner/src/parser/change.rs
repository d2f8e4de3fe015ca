//! INSERT, UPDATE and DELETE.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::expr::{Grammar, node};
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Assignment, ChangeTarget, ConflictUpdate, Delete, Expr, ExprKind, FieldPart, IndexElement,
    Insert, Name, OnConflict, Pos, Returning, SetTarget, Update, With,
};
use crate::error::{PlanError, PlanResult};

impl Parser<'_> {
    pub(super) fn insert(&mut self, with: Option<With>) -> PlanResult<Insert> {
        let at = self.expect_key(Kw::Insert)?;
        self.expect_key(Kw::Into)?;
        let name = self.qualified_name()?;
        let alias = if self.accept_key(Kw::As) {
            Some(self.col_id()?)
        } else {
            None
        };
        let only = false;
        let target = ChangeTarget { name, only, alias };
        let mut columns = Vec::new();
        if self.is_char(b'(') && !self.is_query_in_parentheses() {
            columns = self.set_targets()?;
        }
        let mut overriding = None;
        let default = columns.is_empty() && self.accept_key(Kw::Default);
        let source = if default {
            self.expect_key(Kw::Values)?;
            None
        } else {
            overriding = self.overriding()?;
            Some(self.query()?)
        };
        let on_conflict = self.on_conflict()?;
        let returning = self.returning()?;
        Ok(Insert {
            with,
            target,
            columns,
            overriding,
            source,
            on_conflict,
            returning,
            at,
        })
    }

    /// Whether the parenthesis that is next holds a query rather than names of columns.
    fn is_query_in_parentheses(&self) -> bool {
        matches!(
            self.peek_at(1),
            Tok::Char(b'(') | Tok::Key(Kw::Select | Kw::Table | Kw::With)
        ) || (self.peek_at(1) == Tok::Key(Kw::Values) && self.peek_at(2) == Tok::Char(b'('))
    }

    /// `OVERRIDING SYSTEM VALUE` (true) or `USER VALUE`, if it is next.
    pub(super) fn overriding(&mut self) -> PlanResult<Option<bool>> {
        if !self.accept_key(Kw::Overriding) {
            return Ok(None);
        }
        let system = self.accept_key(Kw::System);
        if !system {
            self.expect_key(Kw::User)?;
        }
        self.expect_key(Kw::Value)?;
        Ok(Some(system))
    }

    /// `set_target`
    fn set_target(&mut self) -> PlanResult<SetTarget> {
        let name = self.col_id()?;
        let parts = self.set_parts()?;
        Ok(SetTarget { name, parts })
    }

    /// `'(' set_target_list ')'`
    pub(super) fn set_targets(&mut self) -> PlanResult<Vec<SetTarget>> {
        self.expect_char(b'(')?;
        let list = self.list(Self::set_target)?;
        self.expect_char(b')')?;
        Ok(list)
    }

    /// `SET` and `set_clause_list`
    pub(super) fn assignments(&mut self) -> PlanResult<Vec<Assignment>> {
        self.expect_key(Kw::Set)?;
        self.list(|parser| {
            if parser.is_char(b'(') {
                let targets = parser.set_targets()?;
                parser.expect_char(b'=')?;
                return Ok(Assignment::Many(targets, parser.expr()?));
            }
            let target = parser.set_target()?;
            parser.expect_char(b'=')?;
            Ok(Assignment::One(target, parser.expr()?))
        })
    }

    fn on_conflict(&mut self) -> PlanResult<Option<OnConflict>> {
        if !self.is_key(Kw::On) {
            return Ok(None);
        }
        let at = self.bump();
        self.expect_key(Kw::Conflict)?;
        let target_at = self.pos();
        let mut target = Vec::new();
        let mut target_filter = None;
        let mut constraint = None;
        if self.accept_char(b'(') {
            target = self.list(Self::index_element)?;
            self.expect_char(b')')?;
            target_filter = self.filter()?;
        } else if self.accept_key(Kw::On) {
            self.expect_key(Kw::Constraint)?;
            constraint = Some(self.col_id()?);
        }
        self.expect_key(Kw::Do)?;
        let update = if self.accept_key(Kw::Update) {
            let set = self.assignments()?;
            let filter = self.filter()?;
            Some(ConflictUpdate { set, filter })
        } else {
            self.expect_key(Kw::Nothing)?;
            None
        };
        Ok(Some(OnConflict {
            target,
            target_at,
            target_filter,
            constraint,
            update,
            at,
        }))
    }

    /// `index_elem`
    pub(super) fn index_element(&mut self) -> PlanResult<IndexElement> {
        let at = self.pos();
        let called = matches!(self.peek_at(1), Tok::Char(b'(' | b'.'));
        let enclosed = self.is_char(b'(');
        let value = if self.accept_char(b'(') {
            let value = self.expr()?;
            self.expect_char(b')')?;
            value
        } else if called || !Self::is_col_id(self.peek()) {
            self.windowless()?
        } else {
            let name = self.take_name();
            node(ExprKind::Column(vec![FieldPart::Name(name)]), at)
        };
        let collation = if self.accept_key(Kw::Collate) {
            Some(self.any_name()?)
        } else {
            None
        };
        let operator_class = if Self::is_col_id(self.peek()) {
            Some(self.any_name()?)
        } else {
            None
        };
        let class_options = operator_class.is_some() && self.is_char(b'(');
        if class_options {
            self.operator_class_options()?;
        }
        let direction = self.direction();
        let nulls_first = self.nulls_order();
        Ok(IndexElement {
            value,
            enclosed,
            collation,
            operator_class,
            class_options,
            direction,
            nulls_first,
        })
    }

    /// `reloptions` of an operator class: names with values.
    fn operator_class_options(&mut self) -> PlanResult<()> {
        self.expect_char(b'(')?;
        self.list(|parser| {
            parser.col_label()?;
            if parser.accept_char(b'.') {
                parser.col_label()?;
            }
            if parser.accept_char(b'=') {
                parser.primary(Grammar::Basic)?;
            }
            Ok(())
        })?;
        self.expect_char(b')')?;
        Ok(())
    }

    /// `returning_clause`
    pub(super) fn returning(&mut self) -> PlanResult<Option<Returning>> {
        if !self.accept_key(Kw::Returning) {
            return Ok(None);
        }
        let mut old = None;
        let mut new = None;
        if self.accept_key(Kw::With) {
            self.expect_char(b'(')?;
            self.list(|parser| parser.returning_option(&mut old, &mut new))?;
            self.expect_char(b')')?;
        }
        let targets = self.targets()?;
        Ok(Some(Returning { old, new, targets }))
    }

    fn returning_option(
        &mut self,
        old: &mut Option<Name>,
        new: &mut Option<Name>,
    ) -> PlanResult<()> {
        let at = self.pos();
        let (row, word) = if self.accept_key(Kw::Old) {
            (old, "OLD")
        } else {
            self.expect_key(Kw::New)?;
            (new, "NEW")
        };
        self.expect_key(Kw::As)?;
        let name = self.col_id()?;
        if row.replace(name).is_some() {
            let message = format!("{word} cannot be specified multiple times");
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        Ok(())
    }

    /// `relation_expr_opt_alias`; SET is never an alias.
    pub(super) fn change_target(&mut self) -> PlanResult<ChangeTarget> {
        let (name, only) = self.relation()?;
        let bare = Self::is_col_id(self.peek()) && !self.is_key(Kw::Set);
        let alias = if self.accept_key(Kw::As) || bare {
            Some(self.col_id()?)
        } else {
            None
        };
        Ok(ChangeTarget { name, only, alias })
    }

    pub(super) fn update(&mut self, with: Option<With>) -> PlanResult<Update> {
        let at = self.expect_key(Kw::Update)?;
        let target = self.change_target()?;
        let set = self.assignments()?;
        let from = if self.accept_key(Kw::From) {
            self.list(Self::table_ref)?
        } else {
            Vec::new()
        };
        let filter = self.filter_or_cursor()?;
        let returning = self.returning()?;
        Ok(Update {
            with,
            target,
            set,
            from,
            filter,
            returning,
            at,
        })
    }

    pub(super) fn delete(&mut self, with: Option<With>) -> PlanResult<Delete> {
        let at = self.expect_key(Kw::Delete)?;
        self.expect_key(Kw::From)?;
        let target = self.change_target()?;
        let using = if self.accept_key(Kw::Using) {
            self.list(Self::table_ref)?
        } else {
            Vec::new()
        };
        let filter = self.filter_or_cursor()?;
        let returning = self.returning()?;
        Ok(Delete {
            with,
            target,
            using,
            filter,
            returning,
            at,
        })
    }

    /// `where_or_current_clause`
    fn filter_or_cursor(&mut self) -> PlanResult<Option<Expr>> {
        let cursor =
            self.peek_at(1) == Tok::Key(Kw::Current) && self.peek_at(2) == Tok::Key(Kw::Of);
        if !self.is_key(Kw::Where) || !cursor {
            return self.filter();
        }
        self.bump();
        let at: Pos = self.bump();
        self.bump();
        let name = self.col_id()?;
        Ok(Some(node(ExprKind::CurrentOf(name), at)))
    }
}
