//! Constraints of tables.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::keywords::Kw;
use super::table::plain;
use super::token::Tok;
use crate::ast::{
    AlterAction, Constraint, ConstraintKind, ForeignKey, KeyAction, KeyConstraint, Name, Pos,
};
use crate::error::{PlanError, PlanResult};

/// Whether a constraint may be deferrable, not valid, not inherited, not enforced.
#[derive(Clone, Copy)]
struct May {
    kind: &'static str,
    deferrable: bool,
    not_valid: bool,
    no_inherit: bool,
    not_enforced: bool,
}

impl May {
    const CHECK: May = May {
        kind: "CHECK",
        deferrable: false,
        not_valid: true,
        no_inherit: true,
        not_enforced: true,
    };
    const NOT_NULL: May = May {
        kind: "NOT NULL",
        deferrable: false,
        not_valid: true,
        no_inherit: true,
        not_enforced: false,
    };
    const FOREIGN_KEY: May = May {
        kind: "FOREIGN KEY",
        deferrable: true,
        not_valid: true,
        no_inherit: false,
        not_enforced: true,
    };

    const DOMAIN_CHECK: May = May {
        not_enforced: false,
        ..May::CHECK
    };
    const DOMAIN_NOT_NULL: May = May {
        not_valid: false,
        no_inherit: false,
        ..May::NOT_NULL
    };

    const fn key(kind: &'static str) -> May {
        May {
            kind,
            deferrable: true,
            not_valid: false,
            no_inherit: false,
            not_enforced: false,
        }
    }
}

impl Parser<'_> {
    /// `TableConstraint`
    pub(super) fn table_constraint(&mut self) -> PlanResult<Constraint> {
        let at = self.pos();
        let name = match self.accept_key(Kw::Constraint) {
            true => Some(self.col_id()?),
            false => None,
        };
        let mut constraint = self.constraint_element()?;
        constraint.at = at;
        constraint.name = name;
        Ok(constraint)
    }

    /// `DomainConstraint`
    pub(super) fn domain_constraint(&mut self) -> PlanResult<Constraint> {
        let at = self.pos();
        let name = match self.accept_key(Kw::Constraint) {
            true => Some(self.col_id()?),
            false => None,
        };
        let begin = self.pos();
        let (kind, may) = if self.is_key(Kw::Check) {
            (self.check()?, May::DOMAIN_CHECK)
        } else {
            self.expect_key(Kw::Not)?;
            self.expect_key(Kw::Null)?;
            (ConstraintKind::NotNull(None), May::DOMAIN_NOT_NULL)
        };
        let mut constraint = plain(kind, begin);
        self.constraint_attributes(&mut constraint, may)?;
        constraint.at = at;
        constraint.name = name;
        Ok(constraint)
    }

    /// `ConstraintElem`
    fn constraint_element(&mut self) -> PlanResult<Constraint> {
        let at = self.pos();
        let (kind, may) = match self.peek() {
            Tok::Key(Kw::Check) => (self.check()?, May::CHECK),
            Tok::Key(Kw::Not) => {
                self.bump();
                self.expect_key(Kw::Null)?;
                let column = self.col_id()?;
                (ConstraintKind::NotNull(Some(column)), May::NOT_NULL)
            }
            Tok::Key(Kw::Unique | Kw::Primary) => {
                let key = self.table_key()?;
                let kind = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
                (ConstraintKind::Key(key), May::key(kind))
            }
            Tok::Key(Kw::Exclude) => {
                self.bump();
                if self.accept_key(Kw::Using) {
                    self.col_id()?;
                }
                self.skip_parentheses()?;
                if self.accept_key(Kw::Include) {
                    self.skip_parentheses()?;
                }
                self.opt_definition()?;
                if self.accept_key(Kw::Where) {
                    self.skip_parentheses()?;
                }
                (ConstraintKind::Unbuilt("EXCLUDE"), May::key("EXCLUDE"))
            }
            Tok::Key(Kw::Foreign) => {
                self.bump();
                self.expect_key(Kw::Key)?;
                self.expect_char(b'(')?;
                let columns = self.list(Self::col_id)?;
                self.expect_char(b')')?;
                let key = self.references(columns)?;
                (ConstraintKind::ForeignKey(Box::new(key)), May::FOREIGN_KEY)
            }
            _ => return Err(self.unexpected()),
        };
        let mut constraint = plain(kind, at);
        self.constraint_attributes(&mut constraint, may)?;
        Ok(constraint)
    }

    /// `PRIMARY KEY (…)`, `UNIQUE (…)`
    fn table_key(&mut self) -> PlanResult<KeyConstraint> {
        let mut key = self.key_words()?;
        if self.accept_key(Kw::Using) {
            self.expect_key(Kw::Index)?;
            key.index = Some(self.col_id()?);
            return Ok(key);
        }
        self.expect_char(b'(')?;
        key.columns = self.list(Self::col_id)?;
        if self.accept_key(Kw::Without) {
            self.expect_key(Kw::Overlaps)?;
            key.unbuilt = Some("WITHOUT OVERLAPS");
        }
        self.expect_char(b')')?;
        if self.accept_key(Kw::Include) {
            self.expect_char(b'(')?;
            key.included = self.list(Self::col_id)?;
            self.expect_char(b')')?;
        }
        self.key_options(&mut key)?;
        Ok(key)
    }

    /// `ConstraintAttributeSpec`
    fn constraint_attributes(&mut self, of: &mut Constraint, may: May) -> PlanResult<()> {
        let conflict = |at| {
            let message = "conflicting constraint properties";
            PlanError::new(SqlState::SYNTAX_ERROR, message).at(at)
        };
        let (mut deferrable, mut deferred, mut enforced) = (None, None, None);
        let begin = self.pos();
        loop {
            let at = self.pos();
            let (slot, value) = match (self.peek(), self.peek_at(1)) {
                (Tok::Key(Kw::Deferrable), _) => (&mut deferrable, true),
                (Tok::Key(Kw::Enforced), _) => (&mut enforced, true),
                (Tok::Key(Kw::Not), Tok::Key(Kw::Deferrable)) => (&mut deferrable, false),
                (Tok::Key(Kw::Not), Tok::Key(Kw::Enforced)) => (&mut enforced, false),
                (Tok::Key(Kw::Initially), Tok::Key(Kw::Deferred)) => (&mut deferred, true),
                (Tok::Key(Kw::Initially), Tok::Key(Kw::Immediate)) => (&mut deferred, false),
                (Tok::Key(Kw::Not), Tok::Key(Kw::Valid)) => {
                    of.not_valid = true;
                    self.bump();
                    self.bump();
                    continue;
                }
                (Tok::Key(Kw::No), Tok::Key(Kw::Inherit)) => {
                    of.no_inherit = true;
                    self.bump();
                    self.bump();
                    continue;
                }
                (Tok::Key(Kw::Not | Kw::Initially | Kw::No), _) => {
                    self.bump();
                    return Err(self.unexpected());
                }
                _ => break,
            };
            if slot.is_some_and(|before| before != value) {
                return Err(conflict(at));
            }
            *slot = Some(value);
            if deferrable == Some(false) && deferred == Some(true) {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
            }
            self.bump();
            if !matches!(self.last_key(), Some(Kw::Deferrable | Kw::Enforced)) {
                self.bump();
            }
        }
        of.deferrable = deferrable == Some(true) || deferred == Some(true);
        of.deferred = deferred == Some(true);
        of.not_enforced = enforced == Some(false);
        let refused = [
            (of.deferrable && !may.deferrable, "DEFERRABLE"),
            (of.not_valid && !may.not_valid, "NOT VALID"),
            (of.no_inherit && !may.no_inherit, "NO INHERIT"),
            (of.not_enforced && !may.not_enforced, "NOT ENFORCED"),
        ];
        match refused.iter().find(|(refused, _)| *refused) {
            Some((_, word)) => {
                let message = format!("{} constraints cannot be marked {word}", may.kind);
                Err(PlanError::unsupported(message).at(begin))
            }
            None => Ok(()),
        }
    }
}

impl Parser<'_> {
    /// `REFERENCES qualified_name opt_column_list key_match key_actions`
    pub(super) fn references(&mut self, columns: Vec<Name>) -> PlanResult<ForeignKey> {
        self.expect_key(Kw::References)?;
        let mut key = ForeignKey {
            columns,
            table: self.qualified_name()?,
            referenced: self.optional_names()?,
            full: false,
            on_delete: KeyAction::NoAction,
            set_columns: Vec::new(),
            on_update: KeyAction::NoAction,
        };
        let at = self.pos();
        if self.accept_key(Kw::Match) {
            if self.accept_key(Kw::Partial) {
                let message = "MATCH PARTIAL not yet implemented";
                return Err(PlanError::unsupported(message).at(at));
            }
            key.full = self.accept_key(Kw::Full);
            if !key.full {
                self.expect_key(Kw::Simple)?;
            }
        }
        let (mut deletes, mut updates) = (false, false);
        while self.is_key(Kw::On) {
            self.bump();
            let delete = self.accept_key(Kw::Delete);
            if !delete {
                self.expect_key(Kw::Update)?;
            }
            let said = if delete { &mut deletes } else { &mut updates };
            if std::mem::replace(said, true) {
                return Err(self.unexpected());
            }
            let (action, columns, at) = self.key_action()?;
            if delete {
                (key.on_delete, key.set_columns) = (action, columns);
                continue;
            }
            if !columns.is_empty() {
                let what = match action {
                    KeyAction::SetNull => "SET NULL",
                    _ => "SET DEFAULT",
                };
                let message =
                    format!("a column list with {what} is only supported for ON DELETE actions");
                return Err(PlanError::unsupported(message).at(at));
            }
            key.on_update = action;
        }
        Ok(key)
    }

    /// `key_action`: it, its columns, and where it begins.
    fn key_action(&mut self) -> PlanResult<(KeyAction, Vec<Name>, Pos)> {
        let at = self.pos();
        let action = if self.accept_key(Kw::No) {
            self.expect_key(Kw::Action)?;
            KeyAction::NoAction
        } else if self.accept_key(Kw::Set) {
            let null = self.accept_key(Kw::Null);
            if !null {
                self.expect_key(Kw::Default)?;
            }
            let columns = self.optional_names()?;
            let action = match null {
                true => KeyAction::SetNull,
                false => KeyAction::SetDefault,
            };
            return Ok((action, columns, at));
        } else if self.accept_key(Kw::Cascade) {
            KeyAction::Cascade
        } else {
            self.expect_key(Kw::Restrict)?;
            KeyAction::Restrict
        };
        Ok((action, Vec::new(), at))
    }

    /// Behind ALTER TABLE … ALTER CONSTRAINT.
    pub(super) fn alter_constraint(&mut self) -> PlanResult<AlterAction> {
        let (name, at) = (self.col_id()?, self.pos());
        let mut like = plain(ConstraintKind::Null, at);
        self.constraint_attributes(&mut like, May::FOREIGN_KEY)?;
        if like.not_valid {
            let message = "constraints cannot be altered to be NOT VALID";
            return Err(PlanError::unsupported(message).at(at));
        }
        Ok(match like.not_enforced {
            true => AlterAction::Unbuilt("ALTER TABLE ALTER CONSTRAINT NOT ENFORCED"),
            false => AlterAction::AlterConstraint {
                name,
                deferrable: like.deferrable,
                deferred: like.deferred,
            },
        })
    }
}
