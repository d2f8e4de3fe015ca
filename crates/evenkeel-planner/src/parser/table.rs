//! The elements of a table's definition: its columns with their constraints.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Constraint, ConstraintKind, Expr, KeyConstraint, LikeOptions, Pos, TableColumn, TableElement,
    WrittenExpr,
};
use crate::error::{PlanError, PlanResult};

pub(super) fn plain(kind: ConstraintKind, at: Pos) -> Constraint {
    Constraint {
        name: None,
        kind,
        deferrable: false,
        deferred: false,
        not_valid: false,
        no_inherit: false,
        not_enforced: false,
        at,
    }
}

impl Parser<'_> {
    /// `TableElement`
    pub(super) fn table_element(&mut self) -> PlanResult<TableElement> {
        match self.peek() {
            Tok::Key(
                Kw::Constraint | Kw::Check | Kw::Unique | Kw::Primary | Kw::Foreign | Kw::Not,
            ) => Ok(TableElement::Constraint(self.table_constraint()?)),
            Tok::Key(Kw::Exclude) if self.is_exclusion() => {
                Ok(TableElement::Constraint(self.table_constraint()?))
            }
            Tok::Key(Kw::Like) => {
                self.bump();
                let name = self.qualified_name()?;
                let mut options = LikeOptions::default();
                while matches!(self.peek(), Tok::Key(Kw::Including | Kw::Excluding)) {
                    let including = self.is_key(Kw::Including);
                    self.bump();
                    self.like_option(including, &mut options)?;
                }
                Ok(TableElement::Like(name, options))
            }
            _ => Ok(TableElement::Column(self.table_column()?)),
        }
    }

    fn is_exclusion(&self) -> bool {
        matches!(self.peek_at(1), Tok::Char(b'(') | Tok::Key(Kw::Using))
    }

    fn like_option(&mut self, including: bool, options: &mut LikeOptions) -> PlanResult<()> {
        let slots: &mut [&mut bool] = match self.peek() {
            Tok::Key(Kw::Comments) => &mut [&mut options.comments],
            Tok::Key(Kw::Constraints) => &mut [&mut options.constraints],
            Tok::Key(Kw::Defaults) => &mut [&mut options.defaults],
            Tok::Key(Kw::Identity) => &mut [&mut options.identity],
            Tok::Key(Kw::Generated) => &mut [&mut options.generated],
            Tok::Key(Kw::Indexes) => &mut [&mut options.indexes],
            // Nothing of the kind can be set.
            Tok::Key(Kw::Compression | Kw::Statistics | Kw::Storage) => &mut [],
            Tok::Key(Kw::All) => &mut [
                &mut options.comments,
                &mut options.constraints,
                &mut options.defaults,
                &mut options.identity,
                &mut options.generated,
                &mut options.indexes,
            ],
            _ => return Err(self.unexpected()),
        };
        for slot in slots {
            **slot = including;
        }
        self.bump();
        Ok(())
    }

    /// `columnDef`
    pub(super) fn table_column(&mut self) -> PlanResult<TableColumn> {
        let name = self.col_id()?;
        let mut column = TableColumn {
            ty: self.type_name()?,
            name,
            collation: None,
            constraints: Vec::new(),
            misplaced: None,
            unbuilt: None,
        };
        for (word, unbuilt) in [(Kw::Storage, "STORAGE"), (Kw::Compression, "COMPRESSION")] {
            if self.accept_key(word) {
                if !self.accept_key(Kw::Default) {
                    self.col_id()?;
                }
                column.unbuilt = Some(unbuilt);
            }
        }
        if self.accept_key(Kw::Options) {
            self.skip_parentheses()?;
            column.unbuilt = Some("OPTIONS of a column");
        }
        self.column_constraints(&mut column)?;
        Ok(column)
    }

    /// `ColQualList`
    pub(super) fn column_constraints(&mut self, column: &mut TableColumn) -> PlanResult<()> {
        loop {
            let at = self.pos();
            if self.accept_key(Kw::Collate) {
                if column.collation.is_some() {
                    let message = "multiple COLLATE clauses not allowed";
                    return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
                }
                column.collation = Some(self.any_name()?);
                continue;
            }
            let name = match self.accept_key(Kw::Constraint) {
                true => Some(self.col_id()?),
                false => None,
            };
            match self.column_constraint()? {
                Some(mut constraint) => {
                    if name.is_some() {
                        constraint.at = at;
                    }
                    constraint.name = name;
                    column.constraints.push(constraint);
                }
                None if name.is_some() => return Err(self.unexpected()),
                None => {
                    if !self.constraint_attribute(column)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// `ConstraintAttr`: of the constraint before it.
    fn constraint_attribute(&mut self, column: &mut TableColumn) -> PlanResult<bool> {
        let at = self.pos();
        let (words, text): (&[Kw], _) = match (self.peek(), self.peek_at(1)) {
            (Tok::Key(Kw::Deferrable), _) => (&[Kw::Deferrable], "DEFERRABLE"),
            (Tok::Key(Kw::Not), Tok::Key(Kw::Deferrable)) => {
                (&[Kw::Not, Kw::Deferrable], "NOT DEFERRABLE")
            }
            (Tok::Key(Kw::Initially), Tok::Key(Kw::Deferred)) => {
                (&[Kw::Initially, Kw::Deferred], "INITIALLY DEFERRED")
            }
            (Tok::Key(Kw::Initially), _) => {
                (&[Kw::Initially, Kw::Immediate], "INITIALLY IMMEDIATE")
            }
            (Tok::Key(Kw::Not), Tok::Key(Kw::Enforced)) => {
                (&[Kw::Not, Kw::Enforced], "NOT ENFORCED")
            }
            (Tok::Key(Kw::Enforced), _) => (&[Kw::Enforced], "ENFORCED"),
            _ => return Ok(false),
        };
        self.expect_keys(words)?;
        let deferred_too = match (text, column.constraints.last()) {
            ("NOT DEFERRABLE", Some(last)) if last.deferred => Some(at),
            ("NOT DEFERRABLE", _) if self.is_key(Kw::Initially) => {
                (self.peek_at(1) == Tok::Key(Kw::Deferred)).then(|| self.pos())
            }
            _ => None,
        };
        if let Some(at) = deferred_too {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        let fits = match column.constraints.last_mut() {
            None => false,
            Some(last) => {
                match text {
                    "DEFERRABLE" => last.deferrable = true,
                    "INITIALLY DEFERRED" => (last.deferrable, last.deferred) = (true, true),
                    "NOT ENFORCED" => last.not_enforced = true,
                    _ => {}
                }
                let foreign = matches!(
                    last.kind,
                    ConstraintKind::ForeignKey(_) | ConstraintKind::Unbuilt(_)
                );
                foreign
                    || match text {
                        "ENFORCED" | "NOT ENFORCED" => {
                            matches!(last.kind, ConstraintKind::Check(_))
                        }
                        _ => matches!(last.kind, ConstraintKind::Key(_)),
                    }
            }
        };
        if !fits && column.misplaced.is_none() {
            column.misplaced = Some((text, at));
        }
        Ok(true)
    }

    /// `ColConstraintElem`
    fn column_constraint(&mut self) -> PlanResult<Option<Constraint>> {
        let at = self.pos();
        let kind = match self.peek() {
            Tok::Key(Kw::Not) if self.peek_at(1) == Tok::Key(Kw::Null) => {
                self.bump();
                self.bump();
                let mut constraint = plain(ConstraintKind::NotNull(None), at);
                constraint.no_inherit = self.no_inherit()?;
                return Ok(Some(constraint));
            }
            Tok::Key(Kw::Not)
                if !matches!(self.peek_at(1), Tok::Key(Kw::Deferrable | Kw::Enforced)) =>
            {
                self.bump();
                return Err(self.unexpected());
            }
            Tok::Key(Kw::Null) => {
                self.bump();
                ConstraintKind::Null
            }
            Tok::Key(Kw::Unique | Kw::Primary) => {
                let mut key = self.key_words()?;
                self.key_options(&mut key)?;
                ConstraintKind::Key(key)
            }
            Tok::Key(Kw::Check) => {
                let check = self.check()?;
                let mut constraint = plain(check, at);
                constraint.no_inherit = self.no_inherit()?;
                return Ok(Some(constraint));
            }
            Tok::Key(Kw::Default) => {
                self.bump();
                ConstraintKind::Default(self.written(Self::basic_expr)?)
            }
            Tok::Key(Kw::Generated) => self.generated()?,
            Tok::Key(Kw::References) => {
                ConstraintKind::ForeignKey(Box::new(self.references(Vec::new())?))
            }
            _ => return Ok(None),
        };
        Ok(Some(plain(kind, at)))
    }

    /// `opt_no_inherit`
    fn no_inherit(&mut self) -> PlanResult<bool> {
        if !self.accept_key(Kw::No) {
            return Ok(false);
        }
        self.expect_key(Kw::Inherit)?;
        Ok(true)
    }

    /// An expression with its text.
    pub(super) fn written(
        &mut self,
        parse: impl FnOnce(&mut Self) -> PlanResult<Expr>,
    ) -> PlanResult<WrittenExpr> {
        let at = self.pos();
        let expr = parse(self)?;
        let text = self.text_since(at).to_owned();
        Ok(WrittenExpr { expr, text, at })
    }

    /// `CHECK ( a_expr )`
    pub(super) fn check(&mut self) -> PlanResult<ConstraintKind> {
        self.expect_key(Kw::Check)?;
        self.expect_char(b'(')?;
        let check = self.written(Self::expr)?;
        self.expect_char(b')')?;
        Ok(ConstraintKind::Check(check))
    }

    /// `PRIMARY KEY`, `UNIQUE` and how NULLs count.
    pub(super) fn key_words(&mut self) -> PlanResult<KeyConstraint> {
        let primary = self.accept_key(Kw::Primary);
        self.expect_key(if primary { Kw::Key } else { Kw::Unique })?;
        Ok(KeyConstraint {
            primary,
            index: None,
            columns: Vec::new(),
            included: Vec::new(),
            nulls_not_distinct: !primary && self.null_treatment()?,
            options: Vec::new(),
            unbuilt: None,
        })
    }

    /// `opt_definition OptConsTableSpace`
    pub(super) fn key_options(&mut self, key: &mut KeyConstraint) -> PlanResult<()> {
        key.options = self.opt_definition()?;
        if self.accept_key(Kw::Using) {
            self.expect_keys(&[Kw::Index, Kw::Tablespace])?;
            self.col_id()?;
            key.unbuilt = Some("TABLESPACE");
        }
        Ok(())
    }

    /// `GENERATED …`
    pub(super) fn generated(&mut self) -> PlanResult<ConstraintKind> {
        self.bump();
        let at = self.pos();
        let always = self.accept_key(Kw::Always);
        if !always {
            self.expect_keys(&[Kw::By, Kw::Default])?;
        }
        self.expect_key(Kw::As)?;
        if self.accept_key(Kw::Identity) {
            let mut options = Vec::new();
            if self.accept_char(b'(') {
                options = self.sequence_options()?;
                if options.is_empty() {
                    return Err(self.unexpected());
                }
                self.expect_char(b')')?;
            }
            return Ok(ConstraintKind::Identity { always, options });
        }
        self.expect_char(b'(')?;
        let value = self.written(Self::expr)?;
        self.expect_char(b')')?;
        let stored = self.accept_key(Kw::Stored);
        if !stored {
            self.accept_key(Kw::Virtual);
        }
        if !always {
            let message = "for a generated column, GENERATED ALWAYS must be specified";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        Ok(ConstraintKind::Generated { value, stored })
    }

    /// Skips the content of a parenthesis, and the one that closes it.
    pub(super) fn skip_parentheses(&mut self) -> PlanResult<()> {
        self.expect_char(b'(')?;
        let mut open = 1_usize;
        while open > 0 {
            match self.peek() {
                Tok::Char(b'(') => open += 1,
                Tok::Char(b')') => open -= 1,
                Tok::End | Tok::Bad => return Err(self.unexpected()),
                _ => {}
            }
            self.bump();
        }
        Ok(())
    }
}
