//! A connection from its first byte to its last: reads messages, runs them in a session, answers.
//!
//! Output is buffered and sent when the protocol says the client waits for it (SRV-2).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_sql::{Client, EndFlag, SessionParams, SqlError, SqlState};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::{Authentication, BackendKeyData, SecretKey};
use rand::Rng;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::connection::{Connection, Mode};
use crate::error::{ConnectionError, ends_session, error_response};
use crate::message::{self, Message};
use crate::portals::Named;
use crate::shared::{Shared, stopped};
use crate::startup::{Request, StartupParameters, negotiate};
use crate::wire::{Incoming, Transport, Wire};

/// Whether the connection goes on after a message.
enum Next {
    Go,
    Close,
}

/// Serves one connection from its first byte to its last.
/// `place` is given back when it has become a session.
pub(crate) async fn serve<T: Transport>(
    transport: T,
    client: Client,
    shared: Arc<Shared>,
    place: OwnedSemaphorePermit,
) {
    let mut stopping = shared.stopping.subscribe();
    let told = async move {
        stopped(&mut stopping).await;
        shutting_down()
    };
    let mut wire = Wire::new(transport, Box::pin(told));
    match start(&mut wire, client, &shared, place).await {
        Err(ConnectionError::Fatal(error)) => {
            tracing::info!(
                sqlstate = error.sqlstate.0,
                "connection ended: {}",
                error.message
            );
            wire.put(&error_response("FATAL", &error));
        }
        Err(ConnectionError::Io(error)) => tracing::debug!("connection lost: {error}"),
        Ok(()) => {}
    }
    wire.close().await;
}

async fn start<T: Transport>(
    wire: &mut Wire<T>,
    client: Client,
    shared: &Arc<Shared>,
    place: OwnedSemaphorePermit,
) -> Result<(), ConnectionError> {
    let request = tokio::time::timeout(shared.authentication_timeout(), negotiate(wire)).await;
    match request {
        Ok(Ok(Request::Session(parameters))) => {
            let _slot = shared.connection_slot()?;
            drop(place);
            run_session(wire, client, shared, parameters).await
        }
        Ok(Ok(Request::Cancel { pid, secret })) => {
            shared.instances.cancel(pid, &secret);
            Ok(())
        }
        Ok(Err(e)) => Err(e),
        Ok(Ok(Request::Closed)) | Err(_) => Ok(()),
    }
}

async fn run_session<T: Transport>(
    wire: &mut Wire<T>,
    client: Client,
    shared: &Arc<Shared>,
    parameters: StartupParameters,
) -> Result<(), ConnectionError> {
    let mut key = vec![0_u8; if parameters.long_cancel_key { 32 } else { 4 }];
    rand::rng().fill(key.as_mut_slice());
    let cancel_key = Bytes::from(key);
    let instance = shared.instance()?;
    let failed = instance.failed.clone();
    let database = parameters.wanted_database(instance.engine.databases());
    let session = instance
        .engine
        .session(SessionParams {
            user: parameters.user,
            database,
            settings: parameters.settings,
            cancel_key: Some(cancel_key.clone()),
            client,
        })
        .map_err(ConnectionError::Fatal)?;
    // The session holds the engine, and ends with it.
    drop(instance);
    let backend = Arc::clone(session.backend());
    let told = told_to_end(shared.stopping.subscribe(), failed, backend.end_flag());
    wire.ends_when(Box::pin(told));
    wire.charge_to(session.memory());
    let named = Named::new(session.memory());
    let mut connection = Connection {
        wire,
        session,
        named,
        mode: Mode::Ready,
    };
    connection.put(PgWireBackendMessage::Authentication(Authentication::Ok));
    for (name, value) in connection.session.initial_parameters() {
        connection.put_parameter(name, value);
    }
    let secret_key = match <[u8; 4]>::try_from(cancel_key.as_ref()) {
        Ok(short) => SecretKey::I32(i32::from_be_bytes(short)),
        Err(_) => SecretKey::Bytes(cancel_key),
    };
    connection.put(PgWireBackendMessage::BackendKeyData(BackendKeyData::new(
        backend.pid,
        secret_key,
    )));
    connection.ready_for_query().await?;
    let ended = connection.run(shared).await;
    connection.session.close().await;
    ended
}

impl<T: Transport> Connection<'_, T> {
    async fn run(&mut self, shared: &Shared) -> Result<(), ConnectionError> {
        let ending = self.session.backend().end_flag();
        loop {
            while let Some(incoming) = self.buffered().await? {
                let next = match incoming {
                    Incoming::Message(message) => self.message(message).await?,
                    Incoming::Refused { kind, error } => self.refused(kind, &error).await?,
                };
                if let Next::Close = next {
                    return Ok(());
                }
                self.wire.flush_if_full().await?;
            }
            if *shared.stopping.borrow() || ending.is_raised() {
                return Err(shutting_down());
            }
            self.wire.flush().await?;
            if !self.wait_for_message().await? {
                return Ok(());
            }
        }
    }

    /// Waits until more has come from the client, which is told of notifications meanwhile; `false`
    /// when it has closed the connection.
    async fn wait_for_message(&mut self) -> Result<bool, ConnectionError> {
        let mut idle = std::pin::pin!(idle_for(self.session.idle_limit()));
        let bulk = matches!(self.mode, Mode::CopyIn(_));
        loop {
            tokio::select! {
                biased;
                open = self.wire.fill(bulk) => return open,
                error = &mut idle => return Err(ConnectionError::Fatal(error)),
                () = self.session.notified() => {
                    self.put_notifications().await?;
                    self.wire.flush().await?;
                }
            }
        }
    }

    /// The next message that has come in whole, except for the data of a COPY: that is taken.
    async fn buffered(&mut self) -> Result<Option<Incoming>, ConnectionError> {
        self.copy_data().await?;
        self.wire.buffered()
    }

    /// A message that is skipped fails its statement as an error of its own would.
    async fn refused(&mut self, kind: u8, error: &SqlError) -> Result<Next, ConnectionError> {
        match std::mem::replace(&mut self.mode, Mode::Ready) {
            Mode::CopyIn(protocol) => self.copy_failed(protocol, error).await?,
            Mode::SkipToSync => self.mode = Mode::SkipToSync,
            Mode::Ready if message::is_copy_data(kind) => {}
            Mode::Ready => {
                self.session.fail();
                self.put(error_response("ERROR", error));
                if message::is_query(kind) {
                    self.named.close_unnamed();
                    self.named.transaction_boundary(self.session.status());
                    self.ready_for_query().await?;
                } else {
                    self.mode = Mode::SkipToSync;
                }
            }
        }
        Ok(Next::Go)
    }

    async fn message(&mut self, message: Message) -> Result<Next, ConnectionError> {
        if let Message::Terminate = message {
            return Ok(Next::Close);
        }
        match std::mem::replace(&mut self.mode, Mode::Ready) {
            Mode::CopyIn(protocol) => {
                return self.copy_in(protocol, message).await.map(|()| Next::Go);
            }
            Mode::SkipToSync if !matches!(message, Message::Sync) => {
                self.mode = Mode::SkipToSync;
                return Ok(Next::Go);
            }
            Mode::SkipToSync | Mode::Ready => {}
        }
        match message {
            Message::Query(query) => self.simple_query(query).await?,
            Message::Sync => self.sync().await?,
            Message::Flush => self.wire.flush().await?,
            // A COPY that has failed: what the client still had under way.
            Message::CopyData | Message::CopyDone | Message::CopyFail(_) => {}
            other => match self.extended(other).await {
                Ok(()) => {}
                Err(ConnectionError::Fatal(error)) if !ends_session(&error) => {
                    self.put(error_response("ERROR", &error));
                    if !matches!(self.mode, Mode::CopyIn(_)) {
                        self.mode = Mode::SkipToSync;
                    }
                }
                Err(e) => return Err(e),
            },
        }
        Ok(Next::Go)
    }

    async fn sync(&mut self) -> Result<(), ConnectionError> {
        if let Err(error) = self.session.sync().await {
            self.put(error_response("ERROR", &error));
        }
        self.named.transaction_boundary(self.session.status());
        self.ready_for_query().await
    }
}

/// Waits until the server stops, its database fails, or another session ends this one. One future
/// for the whole session: what it waits for is entered once, not per message.
async fn told_to_end(
    mut stopping: watch::Receiver<bool>,
    mut failed: watch::Receiver<Option<String>>,
    ending: Arc<EndFlag>,
) -> ConnectionError {
    tokio::select! {
        () = stopped(&mut stopping) => shutting_down(),
        failure = failed.wait_for(Option::is_some) => {
            let reason = failure.ok().and_then(|reason| reason.clone());
            crashed(&reason.unwrap_or_default())
        }
        () = ending.raised() => shutting_down(),
    }
}

/// The error of a client that takes too long; never, if it may take any time.
async fn idle_for(limit: Option<(Duration, SqlError)>) -> SqlError {
    match limit {
        Some((limit, error)) => {
            tokio::time::sleep(limit).await;
            error
        }
        None => std::future::pending().await,
    }
}

fn crashed(reason: &str) -> ConnectionError {
    let mut error = SqlError::new(
        SqlState::CRASH_SHUTDOWN,
        format!("terminating connection because the database has failed: {reason}"),
    );
    error.fields.hint = Some("It is recovering; connect again in a moment.".into());
    ConnectionError::Fatal(error)
}

fn shutting_down() -> ConnectionError {
    ConnectionError::Fatal(SqlError::new(
        SqlState::ADMIN_SHUTDOWN,
        "terminating connection due to administrator command",
    ))
}
