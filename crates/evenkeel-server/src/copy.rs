//! COPY FROM STDIN: the messages that carry its data.

use evenkeel_sql::{SqlError, SqlState};

use crate::connection::{Connection, CopyProtocol, Mode};
use crate::error::{ConnectionError, ends_session, error_response};
use crate::message::Message;
use crate::wire::Transport;

impl<T: Transport> Connection<'_, T> {
    /// The data of COPY FROM STDIN that is in the buffer.
    pub async fn copy_data(&mut self) -> Result<(), ConnectionError> {
        if !matches!(self.mode, Mode::CopyIn(_)) {
            return Ok(());
        }
        let (mut used, mut taken) = (0, Ok(()));
        while taken.is_ok()
            && let Some(data) = self.wire.copy_data(used)?
        {
            used = data.end;
            taken = self.session.copy_data(data.body).await;
        }
        self.wire.drop_copy_data(used);
        if let Err(error) = taken
            && let Mode::CopyIn(protocol) = std::mem::replace(&mut self.mode, Mode::Ready)
        {
            self.copy_failed(protocol, &error).await?;
        }
        Ok(())
    }

    /// Any other message while COPY FROM STDIN is under way.
    pub async fn copy_in(
        &mut self,
        protocol: CopyProtocol,
        message: Message,
    ) -> Result<(), ConnectionError> {
        let failure = match message {
            // Clients may send Sync right behind the Execute that begins a COPY.
            Message::Flush | Message::Sync => {
                self.mode = Mode::CopyIn(protocol);
                return Ok(());
            }
            Message::CopyDone => match self.session.copy_done().await {
                Ok(tag) => {
                    self.put_side_effects();
                    self.command_complete(tag);
                    return self.after_copy(protocol).await;
                }
                Err(error) => error,
            },
            Message::CopyFail(why) => self.session.copy_fail(why.as_str()),
            other => {
                let message = format!(
                    "unexpected message of type {} during COPY from stdin",
                    other.name()
                );
                let _ = self.session.copy_fail(&message);
                return Err(ConnectionError::Fatal(SqlError::new(
                    SqlState::PROTOCOL_VIOLATION,
                    message,
                )));
            }
        };
        self.copy_failed(protocol, &failure).await
    }

    pub async fn copy_failed(
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
