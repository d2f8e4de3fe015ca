//! The state of a connection that has a session, and the answers that both protocols give.

use evenkeel_sql::{Notification, Session, SimpleQuery};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{
    NotificationResponse, ReadyForQuery, TransactionStatus as WireStatus,
};
use pgwire::messages::startup::ParameterStatus;

use crate::error::{ConnectionError, notice_response};
use crate::portals::Named;
use crate::wire::{Transport, Wire};

/// The messages that may come next.
pub(crate) enum Mode {
    /// Anything.
    Ready,
    /// After an error in the extended protocol: everything up to Sync is skipped.
    SkipToSync,
    /// Data of COPY FROM STDIN.
    CopyIn(CopyProtocol),
}

/// A connection that has become a session.
pub(crate) struct Connection<'w, T> {
    pub wire: &'w mut Wire<T>,
    pub session: Session,
    pub named: Named,
    pub mode: Mode,
}

/// Which protocol began the COPY, and so what follows it.
pub(crate) enum CopyProtocol {
    /// The rest of the query text, then ReadyForQuery.
    Simple(SimpleQuery),
    /// The client's next messages, up to Sync.
    Extended,
}

impl<T: Transport> Connection<'_, T> {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a message is made to be sent once"
    )]
    pub fn put(&mut self, message: PgWireBackendMessage) {
        self.wire.put(&message);
    }

    pub fn put_parameter(&mut self, name: &str, value: String) {
        let status = ParameterStatus::new(name.to_owned(), value);
        self.put(PgWireBackendMessage::ParameterStatus(status));
    }

    /// Sends the notices and changed parameters of the last statement.
    pub fn put_side_effects(&mut self) {
        for notice in self.session.take_notices() {
            self.put(notice_response(&notice));
        }
        for (name, value) in self.session.take_parameter_changes() {
            self.put_parameter(name, value);
        }
    }

    /// Sends the notifications that there are for the client, if no transaction is open.
    pub async fn put_notifications(&mut self) -> Result<(), ConnectionError> {
        loop {
            let notifications = self.session.take_notifications();
            if notifications.is_empty() {
                return Ok(());
            }
            for Notification { pid, message } in notifications {
                let (channel, payload) = (message.channel.to_string(), message.payload.to_string());
                let response = NotificationResponse::new(pid, channel, payload);
                self.put(PgWireBackendMessage::NotificationResponse(response));
                self.wire.flush_if_full().await?;
            }
        }
    }

    /// Ends the answer to a query; the client may send the next one.
    pub async fn ready_for_query(&mut self) -> Result<(), ConnectionError> {
        self.put_side_effects();
        self.put_notifications().await?;
        let status = match self.session.wait_for_client() {
            evenkeel_sql::TransactionStatus::Idle => WireStatus::Idle,
            evenkeel_sql::TransactionStatus::InBlock => WireStatus::Transaction,
            evenkeel_sql::TransactionStatus::Failed => WireStatus::Error,
        };
        self.put(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(
            status,
        )));
        Ok(())
    }
}
