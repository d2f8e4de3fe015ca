//! Options of sequences.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Define, DropKind, Persistence, SequenceChange, SequenceOption, SequenceOptionKind,
};
use crate::error::PlanResult;

impl Parser<'_> {
    /// Behind CREATE SEQUENCE.
    pub(super) fn create_sequence(&mut self, persistence: Persistence) -> PlanResult<Define> {
        let if_not_exists = self.if_not_exists()?;
        Ok(Define::CreateSequence {
            name: self.qualified_name()?,
            persistence,
            if_not_exists,
            options: self.sequence_options()?,
        })
    }

    /// Behind ALTER SEQUENCE.
    pub(super) fn alter_sequence(&mut self) -> PlanResult<Define> {
        let if_exists = self.if_exists();
        let name = self.qualified_name()?;
        let change = match (self.peek(), self.peek_at(1)) {
            (Tok::Key(Kw::Owner), _) => {
                self.bump();
                self.expect_key(Kw::To)?;
                SequenceChange::Owner(self.role()?)
            }
            (Tok::Key(Kw::Rename), _) => return self.rename(DropKind::Sequence, name, if_exists),
            (Tok::Key(Kw::Set), Tok::Key(Kw::Schema)) => {
                return self.set_schema(DropKind::Sequence, name, if_exists);
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Logged)) => {
                self.unbuilt_sequence("ALTER SEQUENCE SET LOGGED")?
            }
            (Tok::Key(Kw::Set), Tok::Key(Kw::Unlogged)) => {
                self.unbuilt_sequence("ALTER SEQUENCE SET UNLOGGED")?
            }
            _ => {
                let options = self.sequence_options()?;
                if options.is_empty() {
                    return Err(self.unexpected());
                }
                SequenceChange::Options(options)
            }
        };
        Ok(Define::AlterSequence {
            name,
            if_exists,
            change,
        })
    }

    fn unbuilt_sequence(&mut self, name: &'static str) -> PlanResult<SequenceChange> {
        self.skip_command(Kw::Alter)?;
        Ok(SequenceChange::Unbuilt(name))
    }

    /// `SeqOptList`, which may be empty.
    pub(super) fn sequence_options(&mut self) -> PlanResult<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.sequence_option_here()? {
            options.push(option);
        }
        Ok(options)
    }

    /// An option, if there is one.
    pub(super) fn sequence_option_here(&mut self) -> PlanResult<Option<SequenceOption>> {
        let at = self.pos();
        let kind = self.sequence_option()?;
        Ok(kind.map(|kind| SequenceOption { kind, at }))
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
