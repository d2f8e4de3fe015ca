//! XML's syntax. It parses, so that errors stand where PostgreSQL has them; nothing is built of it.

use super::cursor::Parser;
use super::expr::{Grammar, node};
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{Expr, ExprKind, Pos};
use crate::error::PlanResult;

/// An expression that is refused by its name.
pub(super) fn unsupported(name: &str, at: Pos) -> Expr {
    node(ExprKind::Unsupported(name.to_owned()), at)
}

impl Parser<'_> {
    /// A function of XML with a parenthesis behind it, if `keyword` is one.
    pub(super) fn xml_call(&mut self, keyword: Kw) -> PlanResult<Option<Expr>> {
        let at = self.pos();
        let inner: fn(&mut Self) -> PlanResult<()> = match keyword {
            Kw::Xmlconcat => |parser| parser.exprs().map(drop),
            Kw::Xmlelement => Self::xml_element,
            Kw::Xmlexists => |parser| {
                parser.primary(Grammar::Basic)?;
                parser.xml_passing()
            },
            Kw::Xmlforest => Self::xml_attributes,
            Kw::Xmlparse => Self::xml_parse,
            Kw::Xmlpi => |parser| {
                parser.expect_key(Kw::Name)?;
                parser.col_label()?;
                if parser.accept_char(b',') {
                    parser.expr()?;
                }
                Ok(())
            },
            Kw::Xmlroot => Self::xml_root,
            Kw::Xmlserialize => Self::xml_serialize,
            _ => return Ok(None),
        };
        self.bump();
        self.expect_char(b'(')?;
        inner(self)?;
        self.expect_char(b')')?;
        let name = keyword.text().to_ascii_uppercase();
        Ok(Some(unsupported(&name, at)))
    }

    fn xml_element(&mut self) -> PlanResult<()> {
        self.expect_key(Kw::Name)?;
        self.col_label()?;
        if !self.accept_char(b',') {
            return Ok(());
        }
        if self.is_key(Kw::Xmlattributes) && self.peek_at(1) == Tok::Char(b'(') {
            self.bump();
            self.bump();
            self.xml_attributes()?;
            self.expect_char(b')')?;
            if !self.accept_char(b',') {
                return Ok(());
            }
        }
        self.exprs().map(drop)
    }

    fn xml_attributes(&mut self) -> PlanResult<()> {
        self.list(|parser| {
            parser.expr()?;
            if parser.accept_key(Kw::As) {
                parser.col_label()?;
            }
            Ok(())
        })
        .map(drop)
    }

    fn xml_parse(&mut self) -> PlanResult<()> {
        self.document_or_content()?;
        self.expr()?;
        if self.accept_key(Kw::Preserve) || self.accept_key(Kw::Strip) {
            self.expect_key(Kw::Whitespace)?;
        }
        Ok(())
    }

    fn document_or_content(&mut self) -> PlanResult<()> {
        if !self.accept_key(Kw::Document) {
            self.expect_key(Kw::Content)?;
        }
        Ok(())
    }

    fn xml_root(&mut self) -> PlanResult<()> {
        self.expr()?;
        self.expect_char(b',')?;
        self.expect_key(Kw::Version)?;
        if self.is_key(Kw::No) && self.peek_at(1) == Tok::Key(Kw::Value) {
            self.bump();
            self.bump();
        } else {
            self.expr()?;
        }
        if self.accept_char(b',') {
            self.expect_key(Kw::Standalone)?;
            if !self.accept_key(Kw::Yes) {
                self.expect_key(Kw::No)?;
                self.accept_key(Kw::Value);
            }
        }
        Ok(())
    }

    fn xml_serialize(&mut self) -> PlanResult<()> {
        self.document_or_content()?;
        self.expr()?;
        self.expect_key(Kw::As)?;
        self.simple_type()?;
        if self.accept_key(Kw::No) {
            self.expect_key(Kw::Indent)?;
        } else {
            self.accept_key(Kw::Indent);
        }
        Ok(())
    }

    /// `xmlexists_argument`
    fn xml_passing(&mut self) -> PlanResult<()> {
        self.expect_key(Kw::Passing)?;
        self.xml_mechanism()?;
        self.primary(Grammar::Basic)?;
        self.xml_mechanism()
    }

    fn xml_mechanism(&mut self) -> PlanResult<()> {
        if self.accept_key(Kw::By) && !self.accept_key(Kw::Ref) {
            self.expect_key(Kw::Value)?;
        }
        Ok(())
    }

    /// `XMLTABLE (…)`
    pub(super) fn xml_table(&mut self) -> PlanResult<Expr> {
        let at = self.bump();
        self.expect_char(b'(')?;
        if self.is_key(Kw::Xmlnamespaces) && self.peek_at(1) == Tok::Char(b'(') {
            self.bump();
            self.bump();
            self.list(|parser| {
                if parser.accept_key(Kw::Default) {
                    return parser.basic_expr().map(drop);
                }
                parser.basic_expr()?;
                parser.expect_key(Kw::As)?;
                parser.col_label().map(drop)
            })?;
            self.expect_char(b')')?;
            self.expect_char(b',')?;
        }
        self.primary(Grammar::Basic)?;
        self.xml_passing()?;
        self.expect_key(Kw::Columns)?;
        self.list(Self::xml_column)?;
        self.expect_char(b')')?;
        Ok(unsupported("XMLTABLE", at))
    }

    fn xml_column(&mut self) -> PlanResult<()> {
        self.col_id()?;
        if self.accept_key(Kw::For) {
            self.expect_key(Kw::Ordinality)?;
            return Ok(());
        }
        self.type_name()?;
        loop {
            match self.peek() {
                Tok::Key(Kw::Null) => {
                    self.bump();
                }
                Tok::Key(Kw::Not) => {
                    self.bump();
                    self.expect_key(Kw::Null)?;
                }
                Tok::Key(Kw::Default | Kw::Path) | Tok::Ident => {
                    self.bump();
                    self.basic_expr()?;
                }
                _ => return Ok(()),
            }
        }
    }
}
