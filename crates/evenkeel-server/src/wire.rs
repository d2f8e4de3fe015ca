//! The bytes of one connection: framing what comes in, buffering what goes out.
//!
//! Each message is cut out of the input first and decoded alone: what a client gets wrong in one
//! message cannot reach into the next. A large message is charged to the session before there is
//! room for it, and its memory grows with the bytes that come, not with the length that it says
//! it has (SRV-10).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use evenkeel_engine::memory::{Reservation, SessionMemory};
use evenkeel_sql::SqlError;
use pgwire::messages::PgWireBackendMessage;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::ConnectionError;
use crate::message::{self, BadMessage, Message};

/// Start-up packets are small; anything longer is not PostgreSQL's protocol.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Output is sent on when this much has gathered, whatever the protocol says.
const OUTPUT_BYTES: usize = 64 * 1024;
/// The least room that is made for input, ...
const INPUT_BYTES: usize = 4 * 1024;
/// ... and for the data of a load.
const BULK_INPUT_BYTES: usize = 64 * 1024;
/// A longer message is charged to the session.
const CHARGED_BYTES: usize = 64 * 1024;
/// A charged message is in memory twice at most: as it came, and as what was made of it.
const COPIES: usize = 2;
/// Buffers that once grew beyond this are given back when idle.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How long a client may take for what is left to be said when its connection ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Type byte and length.
const FRAME_HEADER: usize = 5;

/// The message at the beginning of some input.
#[derive(Clone, Copy)]
struct Frame {
    kind: u8,
    /// Bytes in all.
    length: usize,
}

/// The message that begins here, if its type and length have come.
fn frame(input: &[u8]) -> Result<Option<Frame>, ConnectionError> {
    let Some(mut header) = input.get(..FRAME_HEADER) else {
        return Ok(None);
    };
    let kind = header.get_u8();
    let length = header.get_u32() as usize;
    message::check_length(kind, length)?;
    Ok(Some(Frame {
        kind,
        length: length + 1,
    }))
}

/// The next item from a client.
pub(crate) enum Incoming {
    Message(Message),
    /// A message that there is no memory for, or that is not text: the statement's error. It is
    /// skipped.
    Refused {
        kind: u8,
        error: SqlError,
    },
}

/// A CopyData message in the input buffer.
pub(crate) struct CopyData<'a> {
    pub body: &'a [u8],
    /// Where the next message begins.
    pub end: usize,
}

/// A connection's byte stream: TCP or a Unix socket.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Comes when the connection has to end, whatever its client does; says why.
pub(crate) type Told = Pin<Box<dyn Future<Output = ConnectionError> + Send>>;

/// A connection's two buffers around its transport.
pub(crate) struct Wire<T> {
    transport: T,
    input: BytesMut,
    output: BytesMut,
    /// Bytes of `output` that have been sent.
    sent: usize,
    /// The session's, once there is one.
    memory: Option<Arc<SessionMemory>>,
    /// Charged for the large message that is coming in.
    receiving: Option<Reservation>,
    /// Charged for the large message that was handed over last.
    handled: Option<Reservation>,
    /// Bytes of a refused message that are still to come.
    skip: usize,
    /// Looked at whenever the client keeps the connection waiting, in either direction.
    told: Told,
}

impl<T: Transport> Wire<T> {
    pub fn new(transport: T, told: Told) -> Wire<T> {
        Wire {
            transport,
            input: BytesMut::with_capacity(8 * 1024),
            output: BytesMut::with_capacity(8 * 1024),
            sent: 0,
            memory: None,
            receiving: None,
            handled: None,
            skip: 0,
            told,
        }
    }

    /// Charges large messages to a session from now on.
    pub fn charge_to(&mut self, memory: &Arc<SessionMemory>) {
        self.memory = Some(Arc::clone(memory));
    }

    /// Replaces the future that ends the connection.
    pub fn ends_when(&mut self, told: Told) {
        self.told = told;
    }

    /// The body of the next start-up packet (those have no type byte); `None` at the end of
    /// the connection.
    pub async fn startup_packet(&mut self) -> Result<Option<BytesMut>, ConnectionError> {
        loop {
            if let Some(mut length) = self.input.get(..4) {
                let length = length.get_u32() as usize;
                if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                    return Err(ConnectionError::protocol(
                        "invalid length of startup packet",
                    ));
                }
                if self.input.len() >= length {
                    let mut packet = self.input.split_to(length);
                    packet.advance(4);
                    return Ok(Some(packet));
                }
            }
            if !self.fill(false).await? {
                return Ok(None);
            }
        }
    }

    /// The next message that is in the buffer already, complete; one that is refused, as soon as
    /// its length is there.
    ///
    /// # Errors
    /// 08P01 for what is not a message of the protocol.
    pub fn buffered(&mut self) -> Result<Option<Incoming>, ConnectionError> {
        self.handled = None;
        self.skip_refused();
        if self.skip > 0 {
            return Ok(None);
        }
        let Some(Frame { kind, length }) = frame(&self.input)? else {
            return Ok(None);
        };
        if length > CHARGED_BYTES
            && let Err(error) = self.charge(length)
        {
            self.skip = length;
            self.skip_refused();
            return Ok(Some(Incoming::Refused { kind, error }));
        }
        if self.input.len() < length {
            return Ok(None);
        }
        let mut body = self.input.split_to(length);
        if length > CHARGED_BYTES {
            // The message alone has its memory, so that it goes with the message.
            self.input = BytesMut::from(&self.input[..]);
        }
        self.handled = self.receiving.take();
        body.advance(FRAME_HEADER);
        match message::decode(kind, body.freeze()) {
            Ok(message) => Ok(Some(Incoming::Message(message))),
            Err(BadMessage::Encoding(error)) => Ok(Some(Incoming::Refused { kind, error })),
            Err(BadMessage::Malformed) => Err(ConnectionError::protocol(format!(
                "invalid message format in message of type {:?}",
                char::from(kind)
            ))),
        }
    }

    /// Charges the message that is coming in, once.
    fn charge(&mut self, length: usize) -> Result<(), SqlError> {
        if self.receiving.is_none()
            && let Some(memory) = &self.memory
        {
            self.receiving = Some(Reservation::of(memory, length * COPIES)?);
        }
        Ok(())
    }

    /// Drops what has come of a refused message.
    fn skip_refused(&mut self) {
        let skipped = self.skip.min(self.input.len());
        self.input.advance(skipped);
        self.skip -= skipped;
    }

    /// The CopyData message that is next in the buffer behind `used` bytes, if it is complete.
    /// There may be one per line of a load, so they are not decoded one by one.
    pub fn copy_data(&self, used: usize) -> Result<Option<CopyData<'_>>, ConnectionError> {
        if self.skip > 0 {
            return Ok(None);
        }
        let input = self.input.get(used..).unwrap_or_default();
        Ok(match frame(input)? {
            Some(Frame { kind: b'd', length }) if input.len() >= length => Some(CopyData {
                body: &input[FRAME_HEADER..length],
                end: used + length,
            }),
            _ => None,
        })
    }

    /// Drops `used` bytes of CopyData messages from the buffer.
    pub fn drop_copy_data(&mut self, used: usize) {
        self.input.advance(used);
        if used > CHARGED_BYTES && self.receiving.take().is_some() {
            self.input = BytesMut::from(&self.input[..]);
        }
    }

    /// Reads more, with much room for a load; `false` when the client has closed the connection.
    /// Cancel safe.
    ///
    /// # Errors
    /// The connection's, or that it has to end.
    pub async fn fill(&mut self, bulk: bool) -> Result<bool, ConnectionError> {
        let room = self.room(bulk);
        self.input.reserve(room);
        tokio::select! {
            biased;
            read = self.transport.read_buf(&mut self.input) => Ok(read? > 0),
            error = &mut self.told => Err(self.ended(error)),
        }
    }

    /// How much room there must be for what comes next. That of a large message doubles as it
    /// comes, up to what it says it has.
    fn room(&self, bulk: bool) -> usize {
        if self.skip > 0 {
            return BULK_INPUT_BYTES;
        }
        let have = self.input.len();
        match frame(&self.input) {
            Ok(Some(Frame { length, .. })) if length > CHARGED_BYTES && length > have => {
                let missing = length - have;
                // From an eighth on, the rest at once: what is reserved is then not doubled again.
                if have >= length / 8 {
                    missing
                } else {
                    missing.min(have.max(CHARGED_BYTES))
                }
            }
            _ if bulk => BULK_INPUT_BYTES,
            _ => INPUT_BYTES,
        }
    }

    /// The connection was told to end, which it is only once.
    fn ended(&mut self, error: ConnectionError) -> ConnectionError {
        self.told = Box::pin(std::future::pending());
        error
    }

    /// Puts `message` into the output buffer.
    pub fn put(&mut self, message: &PgWireBackendMessage) {
        // Encoding fails only for a body longer than its type allows; a part of one would
        // break the protocol for what follows, so it is taken back.
        let before = self.output.len();
        if let Err(e) = message.encode(&mut self.output) {
            tracing::error!("a message could not be encoded: {e}");
            self.output.truncate(before);
        }
    }

    /// Puts a DataRow whose fields are encoded already.
    pub fn put_row(&mut self, field_count: u16, fields: &[u8]) {
        self.output.put_u8(b'D');
        self.output.put_u32((fields.len() + 6) as u32);
        self.output.put_u16(field_count);
        self.output.put_slice(fields);
    }

    /// Puts CopyData.
    pub fn put_copy_data(&mut self, data: &[u8]) {
        self.output.put_u8(b'd');
        self.output.put_u32((data.len() + 4) as u32);
        self.output.put_slice(data);
    }

    /// Puts a byte outside of any message: the answer to an encryption request.
    pub fn put_raw(&mut self, byte: u8) {
        self.output.put_u8(byte);
    }

    /// Sends what has gathered once it is worth a system call.
    pub async fn flush_if_full(&mut self) -> Result<(), ConnectionError> {
        if self.output.len() >= OUTPUT_BYTES {
            self.flush().await
        } else {
            Ok(())
        }
    }

    /// Sends everything in the output buffer.
    ///
    /// # Errors
    /// The connection's; or that it has to end, while the client does not take more.
    pub async fn flush(&mut self) -> Result<(), ConnectionError> {
        while let Some(left) = self.output.get(self.sent..)
            && !left.is_empty()
        {
            let written = tokio::select! {
                biased;
                written = self.transport.write(left) => written?,
                error = &mut self.told => return Err(self.ended(error)),
            };
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            self.sent += written;
        }
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > KEPT_BYTES_MAX {
            self.output = BytesMut::with_capacity(8 * 1024);
        }
        Ok(self.transport.flush().await?)
    }

    /// Sends what is left, if the client takes it soon, and closes the sending side.
    pub async fn close(&mut self) {
        self.ends_when(Box::pin(std::future::pending()));
        let _ = tokio::time::timeout(FAREWELL, async {
            if self.flush().await.is_ok() {
                let _ = self.transport.shutdown().await;
            }
        })
        .await;
    }
}
