//! The extended query protocol: named statements, portals, and their messages.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_sql::{
    Format, Prepared, RowStream, SqlError, SqlState, StatementResult, TransactionStatus,
};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended, TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};

use crate::connection::{Connection, Mode};
use crate::copy::{CopyIn, CopyProtocol};
use crate::error::ConnectionError;
use crate::simple::{RowsEnd, copy_in_response, row_description};
use crate::wire::Transport;

/// The statements and portals that a client has named. The unnamed ones have the name "".
#[derive(Default)]
pub(crate) struct Named {
    statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
}

struct Portal {
    prepared: Arc<Prepared>,
    params: Vec<Option<Bytes>>,
    param_formats: Vec<Format>,
    result_formats: Vec<Format>,
    progress: Progress,
}

enum Progress {
    Bound,
    /// A query's rows, as far as they have not been sent.
    Open(RowStream),
    /// It was not a query, or it failed.
    Done,
}

impl Named {
    /// Portals end with their transaction.
    pub fn transaction_boundary(&mut self, status: TransactionStatus) {
        if status == TransactionStatus::Idle && !self.portals.is_empty() {
            self.portals.clear();
        }
    }

    /// A simple query replaces the unnamed statement and portal.
    pub fn close_unnamed(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
    }
}

impl<T: Transport> Connection<'_, T> {
    /// A message of the extended protocol other than Sync and Flush.
    pub async fn extended(
        &mut self,
        message: PgWireFrontendMessage,
    ) -> Result<(), ConnectionError> {
        let outcome = match message {
            PgWireFrontendMessage::Parse(parse) => self.parse(parse).await,
            PgWireFrontendMessage::Bind(bind) => self.bind(bind),
            PgWireFrontendMessage::Describe(describe) => self.describe(&describe),
            PgWireFrontendMessage::Execute(execute) => self.execute(execute).await,
            PgWireFrontendMessage::Close(close) => self.close(close),
            _ => Err(ConnectionError::protocol("unexpected message type")),
        };
        if outcome.is_err() {
            self.session.fail();
        }
        outcome
    }

    async fn parse(&mut self, parse: Parse) -> Result<(), ConnectionError> {
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() && self.named.statements.contains_key(&name) {
            return Err(ConnectionError::Fatal(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )));
        }
        let prepared = self.session.prepare(&parse.query, &parse.type_oids).await;
        let prepared = prepared.map_err(ConnectionError::Fatal)?;
        self.named.statements.insert(name, prepared);
        self.put(PgWireBackendMessage::ParseComplete(ParseComplete::new()));
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), ConnectionError> {
        let statement = bind.statement_name.unwrap_or_default();
        let prepared = Arc::clone(self.statement(&statement)?);
        let wanted = prepared.param_types.len();
        if bind.parameters.len() != wanted {
            return Err(ConnectionError::protocol(format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" \
                 requires {wanted}",
                bind.parameters.len()
            )));
        }
        let param_formats = formats(&bind.parameter_format_codes)?;
        if param_formats.len() > 1 && param_formats.len() != wanted {
            return Err(ConnectionError::protocol(format!(
                "bind message has {} parameter formats but {wanted} parameters",
                param_formats.len()
            )));
        }
        let result_formats = formats(&bind.result_column_format_codes)?;
        let columns = prepared.columns.as_ref().map_or(0, |columns| columns.len());
        if result_formats.len() > 1 && result_formats.len() != columns {
            return Err(ConnectionError::protocol(format!(
                "bind message has {} result formats but query has {columns} columns",
                result_formats.len()
            )));
        }
        let portal = bind.portal_name.unwrap_or_default();
        if !portal.is_empty() && self.named.portals.contains_key(&portal) {
            return Err(ConnectionError::Fatal(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{portal}\" already exists"),
            )));
        }
        let bound = Portal {
            prepared,
            params: bind.parameters,
            param_formats,
            result_formats,
            progress: Progress::Bound,
        };
        self.named.portals.insert(portal, bound);
        self.put(PgWireBackendMessage::BindComplete(BindComplete::new()));
        Ok(())
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), ConnectionError> {
        let name = describe.name.as_deref().unwrap_or_default();
        let (columns, formats) = match describe.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = Arc::clone(self.statement(name)?);
                let types = prepared.param_types.clone();
                let parameters = ParameterDescription::new(types);
                self.put(PgWireBackendMessage::ParameterDescription(parameters));
                (prepared.columns.clone(), Vec::new())
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self
                    .named
                    .portals
                    .get(name)
                    .ok_or_else(|| no_portal(name))?;
                (
                    portal.prepared.columns.clone(),
                    portal.result_formats.clone(),
                )
            }
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
        let name = execute.name.unwrap_or_default();
        let limit = usize::try_from(execute.max_rows).unwrap_or(0);
        let portal = self
            .named
            .portals
            .get_mut(&name)
            .ok_or_else(|| no_portal(&name))?;
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
                    StatementResult::CopyIn(sink) => {
                        let response = copy_in_response(sink.column_count());
                        self.put(PgWireBackendMessage::CopyInResponse(response));
                        let protocol = CopyProtocol::Extended;
                        self.mode = Mode::CopyIn(Box::new(CopyIn { sink, protocol }));
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

    fn close(&mut self, close: Close) -> Result<(), ConnectionError> {
        let name = close.name.unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => drop(self.named.statements.remove(&name)),
            TARGET_TYPE_BYTE_PORTAL => drop(self.named.portals.remove(&name)),
            other => return Err(bad_target("CLOSE", other)),
        }
        self.put(PgWireBackendMessage::CloseComplete(CloseComplete::new()));
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&Arc<Prepared>, ConnectionError> {
        self.named.statements.get(name).ok_or_else(|| {
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
