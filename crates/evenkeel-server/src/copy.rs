//! COPY FROM STDIN: the messages that carry its data.

use evenkeel_sql::{CopyInSink, SimpleQuery, SqlError, SqlState};
use pgwire::messages::PgWireFrontendMessage;

use crate::connection::{Connection, Mode, ends_session};
use crate::error::{ConnectionError, error_response};
use crate::wire::Transport;

/// A COPY FROM STDIN that is waiting for data.
pub(crate) struct CopyIn {
    pub sink: CopyInSink,
    pub protocol: CopyProtocol,
}

/// Which protocol began the COPY, and so what follows it.
pub(crate) enum CopyProtocol {
    /// The rest of the query text, then ReadyForQuery.
    Simple(SimpleQuery),
    /// Whatever the client sends, up to Sync.
    Extended,
}

impl<T: Transport> Connection<'_, T> {
    /// The data of COPY FROM STDIN that is in the buffer.
    pub async fn copy_data(&mut self) -> Result<(), ConnectionError> {
        while let Mode::CopyIn(copy) = &mut self.mode {
            let session = &mut self.session;
            let taken = self.wire.copy_data(|data| copy.sink.take(session, data))?;
            let stored = match taken {
                Ok(true) => copy.sink.store(&mut self.session).await,
                Ok(false) => return Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = stored
                && let Mode::CopyIn(copy) = std::mem::replace(&mut self.mode, Mode::Ready)
            {
                self.copy_failed(copy.protocol, &error).await?;
            }
        }
        Ok(())
    }

    /// Any other message while COPY FROM STDIN is under way.
    pub async fn copy_in(
        &mut self,
        copy: Box<CopyIn>,
        message: PgWireFrontendMessage,
    ) -> Result<(), ConnectionError> {
        let failure = match message {
            // Clients may send Sync right behind the Execute that begins a COPY.
            PgWireFrontendMessage::Flush(_) | PgWireFrontendMessage::Sync(_) => {
                self.mode = Mode::CopyIn(copy);
                return Ok(());
            }
            PgWireFrontendMessage::CopyDone(_) => match copy.sink.finish(&mut self.session).await {
                Ok(tag) => {
                    self.put_side_effects();
                    self.command_complete(tag);
                    return self.after_copy(copy.protocol).await;
                }
                Err(error) => error,
            },
            PgWireFrontendMessage::CopyFail(fail) => {
                copy.sink.fail(&mut self.session, &fail.message)
            }
            other => {
                let message = format!("unexpected message during COPY from stdin: {other:?}");
                let message: String = message.chars().take(200).collect();
                let _ = copy.sink.fail(&mut self.session, &message);
                return Err(ConnectionError::Fatal(SqlError::new(
                    SqlState::PROTOCOL_VIOLATION,
                    message,
                )));
            }
        };
        self.copy_failed(copy.protocol, &failure).await
    }

    async fn copy_failed(
        &mut self,
        protocol: CopyProtocol,
        failure: &SqlError,
    ) -> Result<(), ConnectionError> {
        if ends_session(failure) {
            return Err(ConnectionError::Fatal(failure.clone()));
        }
        self.session.fail();
        self.put(error_response("ERROR", failure));
        self.after_failed_copy(protocol).await
    }

    async fn after_copy(&mut self, protocol: CopyProtocol) -> Result<(), ConnectionError> {
        match protocol {
            CopyProtocol::Simple(query) => self.simple_results(query).await,
            CopyProtocol::Extended => Ok(()),
        }
    }

    /// The data that is still under way is skipped: in the simple protocol message by message
    /// (they mean nothing when ready), in the extended one up to Sync.
    async fn after_failed_copy(&mut self, protocol: CopyProtocol) -> Result<(), ConnectionError> {
        match protocol {
            CopyProtocol::Simple(query) => self.simple_results(query).await,
            CopyProtocol::Extended => {
                self.mode = Mode::SkipToSync;
                Ok(())
            }
        }
    }
}
