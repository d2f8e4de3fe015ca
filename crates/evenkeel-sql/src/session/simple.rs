//! The simple protocol: a text of several statements in one implicit transaction.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::run::{Arguments, Source};
use super::{Session, StatementResult};
use crate::deep::on_deep_stack;
use crate::error::SqlResult;
use crate::parser::{lexer, parse};

/// Where the statements of a text are.
type Statements = SmallVec<[Range<usize>; 2]>;

/// A simple-protocol query text under way: one result for each of its statements.
pub struct SimpleQuery {
    text: Arc<str>,
    /// The statements to come; `None` before the first call.
    left: Option<VecDeque<Range<usize>>>,
    many: bool,
}

impl Session {
    /// Begins a simple-protocol query. Parsing errors come from `next_result`.
    pub fn simple(&mut self, sql: &str) -> SimpleQuery {
        SimpleQuery {
            text: Arc::from(sql),
            left: None,
            many: false,
        }
    }

    /// The next statement's result; `None` when the text is done (the implicit transaction is
    /// then ended). Drain a result before asking for the next one. After an error the rest of
    /// the text is dropped and the next call returns `None`.
    ///
    /// # Errors
    /// The statement's; the transaction has then failed.
    pub async fn next_result(
        &mut self,
        query: &mut SimpleQuery,
    ) -> SqlResult<Option<StatementResult>> {
        match query.left {
            None => self.begin_statement(),
            Some(_) => self.note_stream_failure(),
        }
        let result = self.next_of(query).await;
        if result.is_err() {
            query.left = Some(VecDeque::new());
            self.in_batch = false;
        }
        self.settle(result)
    }

    async fn next_of(&mut self, query: &mut SimpleQuery) -> SqlResult<Option<StatementResult>> {
        if query.left.is_none() {
            let statements = self.split(&query.text).await?;
            query.many = statements.len() > 1;
            if query.many {
                let charges = statements.iter().map(|at| &query.text[at.clone()]);
                let charges = charges.map(|text| self.charge_planning(text));
                let _planning = charges.collect::<SqlResult<Vec<_>>>()?;
                self.check_syntax(&query.text, &statements).await?;
            }
            let statements: VecDeque<_> = statements.into_iter().collect();
            let empty = statements.is_empty();
            query.left = Some(statements);
            self.backend_entry.runs(&query.text, self.statement_start);
            if empty {
                return Ok(Some(StatementResult::Empty));
            }
        }
        let next = query.left.as_mut().and_then(VecDeque::pop_front);
        let Some(range) = next else {
            self.in_batch = false;
            self.sync().await?;
            return Ok(None);
        };
        let last = query.left.as_ref().is_none_or(VecDeque::is_empty);
        self.in_batch = query.many;
        let text = &query.text[range];
        let result = self.run(Source::Simple(text), Arguments::None, &[]).await?;
        if last {
            self.in_batch = false;
            if result.is_complete() {
                self.sync().await?;
            }
        }
        Ok(Some(result))
    }
}

/// A longer text is not scanned on a thread that serves others.
const LONG_TEXT: usize = 1 << 20;
/// A text of up to so many bytes is parsed in less time than it takes to have another thread do
/// it.
const SHORT_TEXT: usize = 4096;

impl Session {
    /// Where the statements of a text are.
    pub(super) async fn split(&mut self, text: &Arc<str>) -> SqlResult<Statements> {
        if text.len() <= LONG_TEXT {
            return Ok(lexer::split(text));
        }
        let text = Arc::clone(text);
        let planners = self.engine.planners();
        planners
            .run(&self.cancel, move || Ok(lexer::split(&text)))
            .await
    }

    /// As in PostgreSQL a syntax error anywhere keeps a whole text from running.
    async fn check_syntax(&mut self, text: &Arc<str>, statements: &Statements) -> SqlResult<()> {
        let (text, statements) = (Arc::clone(text), statements.clone());
        let short = text.len() <= SHORT_TEXT;
        let check = move || {
            for range in &statements {
                drop(parse::parse(&text[range.clone()])?);
            }
            Ok(())
        };
        if short {
            return on_deep_stack(check);
        }
        self.engine.planners().run(&self.cancel, check).await
    }
}

impl StatementResult {
    /// Whether all of the statement has run, so that the implicit transaction of a text's last
    /// statement is committed before its tag goes out; rows or data may still be to flow.
    fn is_complete(&self) -> bool {
        match self {
            StatementResult::Command(_) | StatementResult::Empty => true,
            StatementResult::Rows(rows) => rows.is_complete(),
            StatementResult::CopyIn(_) | StatementResult::CopyOut(_) => false,
        }
    }
}
