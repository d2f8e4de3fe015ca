//! Options of sequences.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{SequenceOption, SequenceOptionKind};
use crate::error::PlanResult;

impl Parser<'_> {
    /// `SeqOptList`, which may be empty.
    pub(super) fn sequence_options(&mut self) -> PlanResult<Vec<SequenceOption>> {
        let mut options = Vec::new();
        loop {
            let at = self.pos();
            let Some(kind) = self.sequence_option()? else {
                return Ok(options);
            };
            options.push(SequenceOption { kind, at });
        }
    }

    /// `SeqOptElem`
    fn sequence_option(&mut self) -> PlanResult<Option<SequenceOptionKind>> {
        use SequenceOptionKind as Kind;
        let Tok::Key(keyword) = self.peek() else {
            return Ok(None);
        };
        let known = [
            Kw::As,
            Kw::Cache,
            Kw::Cycle,
            Kw::Increment,
            Kw::Logged,
            Kw::Maxvalue,
            Kw::Minvalue,
            Kw::No,
            Kw::Owned,
            Kw::Sequence,
            Kw::Start,
            Kw::Restart,
            Kw::Unlogged,
        ];
        if !known.contains(&keyword) {
            return Ok(None);
        }
        self.bump();
        Ok(Some(match keyword {
            Kw::As => Kind::As(self.simple_type()?),
            Kw::Cache => Kind::Cache(self.numeric()?),
            Kw::Cycle => Kind::Cycle(true),
            Kw::Increment => {
                self.accept_key(Kw::By);
                Kind::Increment(self.numeric()?)
            }
            Kw::Logged => Kind::Logged(true),
            Kw::Unlogged => Kind::Logged(false),
            Kw::Maxvalue => Kind::Max(Some(self.numeric()?)),
            Kw::Minvalue => Kind::Min(Some(self.numeric()?)),
            Kw::No => self.sequence_without()?,
            Kw::Owned => {
                self.expect_key(Kw::By)?;
                Kind::OwnedBy(self.any_name()?)
            }
            Kw::Sequence => {
                self.expect_key(Kw::Name)?;
                Kind::Name(self.any_name()?)
            }
            Kw::Start => {
                self.accept_key(Kw::With);
                Kind::Start(self.numeric()?)
            }
            _ => self.sequence_restart()?,
        }))
    }

    /// Behind `NO`.
    fn sequence_without(&mut self) -> PlanResult<SequenceOptionKind> {
        let kind = match self.peek() {
            Tok::Key(Kw::Maxvalue) => SequenceOptionKind::Max(None),
            Tok::Key(Kw::Minvalue) => SequenceOptionKind::Min(None),
            Tok::Key(Kw::Cycle) => SequenceOptionKind::Cycle(false),
            _ => return Err(self.unexpected()),
        };
        self.bump();
        Ok(kind)
    }

    /// Behind `RESTART`.
    fn sequence_restart(&mut self) -> PlanResult<SequenceOptionKind> {
        let with = self.accept_key(Kw::With);
        let number = matches!(
            self.peek(),
            Tok::Integer | Tok::Number | Tok::Char(b'+' | b'-')
        );
        Ok(SequenceOptionKind::Restart(match with || number {
            true => Some(self.numeric()?),
            false => None,
        }))
    }
}
