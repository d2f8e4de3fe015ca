//! The extended query protocol: the messages that prepare, bind and run statements.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_sql::{Format, Prepared, RowStream, SqlError, SqlState, StatementResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};

use crate::connection::{Connection, CopyProtocol, Mode};
use crate::error::ConnectionError;
use crate::message::{Bind, Execute, Message, Parse, Target};
use crate::portals::{Portal, Progress};
use crate::simple::{RowsEnd, copy_in_response, row_description};
use crate::wire::Transport;

/// Memory of a portal besides the message whose values it has.
const PORTAL_BYTES: usize = 16 << 10;
/// The values of a named portal are copied out of a shorter message.
const COPIED_BYTES: usize = 64 << 10;
impl<T: Transport> Connection<'_, T> {
    /// A message of the extended protocol other than Sync and Flush.
    pub async fn extended(&mut self, message: Message) -> Result<(), ConnectionError> {
        let outcome = match message {
            Message::Parse(parse) => self.parse(parse).await,
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(target) => self.describe(&target),
            Message::Execute(execute) => self.execute(execute).await,
            Message::Close(target) => self.close(&target),
            _ => Err(ConnectionError::protocol("unexpected message type")),
        };
        if outcome.is_err() {
            self.session.fail();
        }
        outcome
    }

    async fn parse(&mut self, parse: Parse) -> Result<(), ConnectionError> {
        let name = parse.name;
        let free = self.session.check_statement_name(&name);
        free.map_err(ConnectionError::Fatal)?;
        let prepared = self
            .session
            .prepare(parse.query.as_str(), &parse.types)
            .await;
        let prepared = prepared.map_err(ConnectionError::Fatal)?;
        match name.is_empty() {
            true => self.named.unnamed = Some(prepared),
            false => self.session.name_statement(name, prepared),
        }
        self.put(PgWireBackendMessage::ParseComplete(ParseComplete::new()));
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), ConnectionError> {
        let statement = bind.statement;
        let prepared = Arc::clone(self.statement(&statement)?);
        let wanted = prepared.param_types.len();
        if bind.parameters.len() != wanted {
            return Err(ConnectionError::protocol(format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" \
                 requires {wanted}",
                bind.parameters.len()
            )));
        }
        let param_formats = formats(&bind.parameter_formats)?;
        if param_formats.len() > 1 && param_formats.len() != wanted {
            return Err(ConnectionError::protocol(format!(
                "bind message has {} parameter formats but {wanted} parameters",
                param_formats.len()
            )));
        }
        let result_formats = formats(&bind.result_formats)?;
        let columns = prepared.columns.as_ref().map_or(0, |columns| columns.len());
        if result_formats.len() > 1 && result_formats.len() != columns {
            return Err(ConnectionError::protocol(format!(
                "bind message has {} result formats but query has {columns} columns",
                result_formats.len()
            )));
        }
        let portal = bind.portal;
        let is_taken = self.named.portals.contains_key(&portal)
            || self.session.cursor_as_portal(&portal).is_some();
        if !portal.is_empty() && is_taken {
            return Err(ConnectionError::Fatal(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{portal}\" already exists"),
            )));
        }
        self.named.close_portal(&portal);
        let bytes = PORTAL_BYTES + bind.length;
        let charged = self.named.memory.grow(bytes);
        charged.map_err(|error| ConnectionError::Fatal(error.into()))?;
        let mut params = bind.parameters;
        if !portal.is_empty() && bytes < COPIED_BYTES {
            // It may stay, and must not keep the input that other messages were in.
            for value in params.iter_mut().flatten() {
                *value = Bytes::copy_from_slice(value);
            }
        }
        let bound = Portal {
            prepared,
            params,
            param_formats,
            result_formats,
            progress: Progress::Bound,
            bytes,
        };
        self.named.portals.insert(portal, bound);
        self.put(PgWireBackendMessage::BindComplete(BindComplete::new()));
        Ok(())
    }

    fn describe(&mut self, target: &Target) -> Result<(), ConnectionError> {
        let name = &*target.name;
        let (columns, formats) = match target.kind {
            Target::STATEMENT => {
                let prepared = Arc::clone(self.statement(name)?);
                let types = prepared.param_types.clone();
                let parameters = ParameterDescription::new(types);
                self.put(PgWireBackendMessage::ParameterDescription(parameters));
                (prepared.columns.clone(), Vec::new())
            }
            Target::PORTAL => match self.named.portals.get(name) {
                Some(portal) => (
                    portal.prepared.columns.clone(),
                    portal.result_formats.clone(),
                ),
                None => {
                    let cursor = self.session.cursor_as_portal(name);
                    let (columns, formats) = cursor.ok_or_else(|| no_portal(name))?;
                    (Some(columns), formats)
                }
            },
            other => return Err(bad_target("DESCRIBE", other)),
        };
        let description = match columns {
            Some(columns) => row_description(&columns, &formats),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        self.put(description);
        Ok(())
    }

    async fn execute(&mut self, execute: Execute) -> Result<(), ConnectionError> {
        let name = execute.portal;
        let limit = usize::try_from(execute.max_rows).unwrap_or(0);
        let Some(portal) = self.named.portals.get_mut(&name) else {
            return self.execute_cursor(&name, limit).await;
        };
        let rows = match std::mem::replace(&mut portal.progress, Progress::Done) {
            Progress::Open(mut rows) => {
                rows.call_again();
                rows
            }
            Progress::Done => {
                return Err(ConnectionError::Fatal(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )));
            }
            Progress::Bound => {
                let result = self.session.execute(
                    &portal.prepared,
                    &portal.params,
                    &portal.param_formats,
                    &portal.result_formats,
                );
                match result.await.map_err(ConnectionError::Fatal)? {
                    StatementResult::Rows(rows) => rows,
                    StatementResult::CopyIn(start) => {
                        let response = copy_in_response(start);
                        self.put(PgWireBackendMessage::CopyInResponse(response));
                        self.mode = Mode::CopyIn(CopyProtocol::Extended);
                        return Ok(());
                    }
                    other => {
                        self.put_side_effects();
                        return self.send_result(other).await;
                    }
                }
            }
        };
        self.portal_rows(&name, rows, limit).await
    }

    /// Execute of a portal that DECLARE has made.
    async fn execute_cursor(&mut self, name: &str, limit: usize) -> Result<(), ConnectionError> {
        if self.session.cursor_as_portal(name).is_none() {
            return Err(no_portal(name));
        }
        let rows = self.session.execute_cursor(name, limit).await;
        let rows = rows.map_err(ConnectionError::Fatal)?;
        self.portal_rows(name, rows, limit).await
    }

    async fn portal_rows(
        &mut self,
        name: &str,
        mut rows: RowStream,
        limit: usize,
    ) -> Result<(), ConnectionError> {
        match self.send_rows(&mut rows, limit).await? {
            RowsEnd::Drained => {
                self.put_side_effects();
                self.command_complete(rows.tag());
            }
            RowsEnd::Limit => {
                self.put(PgWireBackendMessage::PortalSuspended(PortalSuspended::new()));
            }
        }
        if let Some(portal) = self.named.portals.get_mut(name) {
            portal.progress = Progress::Open(rows);
        }
        Ok(())
    }

    fn close(&mut self, target: &Target) -> Result<(), ConnectionError> {
        let name = &*target.name;
        match target.kind {
            Target::STATEMENT if name.is_empty() => self.named.unnamed = None,
            Target::STATEMENT => self.session.forget_statement(name),
            Target::PORTAL if self.named.portals.contains_key(name) => {
                self.named.close_portal(name);
            }
            Target::PORTAL => self.session.close_cursor_as_portal(name),
            other => return Err(bad_target("CLOSE", other)),
        }
        self.put(PgWireBackendMessage::CloseComplete(CloseComplete::new()));
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&Arc<Prepared>, ConnectionError> {
        let found = match name.is_empty() {
            true => self.named.unnamed.as_ref(),
            false => self.session.named_statement(name),
        };
        found.ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            ConnectionError::Fatal(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
        })
    }
}

fn no_portal(name: &str) -> ConnectionError {
    ConnectionError::Fatal(SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("portal \"{name}\" does not exist"),
    ))
}

fn bad_target(message: &str, target: u8) -> ConnectionError {
    ConnectionError::protocol(format!("invalid {message} message subtype {target}"))
}

fn formats(codes: &[i16]) -> Result<Vec<Format>, ConnectionError> {
    codes
        .iter()
        .map(|&code| {
            Format::from_code(code).ok_or_else(|| {
                ConnectionError::Fatal(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unsupported format code: {code}"),
                ))
            })
        })
        .collect()
}
