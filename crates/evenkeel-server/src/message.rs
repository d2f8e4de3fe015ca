//! The messages of a client, decoded and checked.
//!
//! Nothing in a body is trusted: every count, length and text is checked against the bytes that
//! are there before it is used (SRV-3). Texts and values stay in the message's own
//! memory.

use bytes::{Buf, Bytes};
use evenkeel_sql::{SqlError, SqlState};

use crate::error::ConnectionError;

/// A text or a value may be this long; the message is refused before any of it is kept.
const LARGE_BYTES_MAX: usize = 1 << 30;
/// The longest message that carries neither, as in PostgreSQL.
const SMALL_BYTES_MAX: usize = 10_000;

/// The type bytes of the messages that clients send.
mod kind {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const PARSE: u8 = b'P';
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// A message of a client.
#[derive(Debug)]
pub(crate) enum Message {
    Query(Text),
    Parse(Parse),
    Bind(Bind),
    Describe(Target),
    Execute(Execute),
    Close(Target),
    Sync,
    Flush,
    /// Outside of a COPY: what was under way when it failed.
    CopyData,
    CopyDone,
    CopyFail(Text),
    Terminate,
    /// Nobody has asked for one.
    Password,
}

/// Valid UTF-8 in the memory of its message.
#[derive(Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    pub fn as_str(&self) -> &str {
        // It was checked when it was decoded.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) struct Parse {
    pub name: String,
    pub query: Text,
    pub types: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Bind {
    pub portal: String,
    pub statement: String,
    pub parameter_formats: Vec<i16>,
    pub parameters: Vec<Option<Bytes>>,
    pub result_formats: Vec<i16>,
    /// Bytes of the message, which live as long as a parameter does.
    pub length: usize,
}

/// The statement or portal that Describe and Close name.
#[derive(Debug)]
pub(crate) struct Target {
    pub kind: u8,
    pub name: String,
}

impl Target {
    pub const STATEMENT: u8 = b'S';
    pub const PORTAL: u8 = b'P';
}

#[derive(Debug)]
pub(crate) struct Execute {
    pub portal: String,
    pub max_rows: i32,
}

impl Message {
    /// The message's name, for an error about it.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Query(_) => "Query",
            Message::Parse(_) => "Parse",
            Message::Bind(_) => "Bind",
            Message::Describe(_) => "Describe",
            Message::Execute(_) => "Execute",
            Message::Close(_) => "Close",
            Message::Sync => "Sync",
            Message::Flush => "Flush",
            Message::CopyData => "CopyData",
            Message::CopyDone => "CopyDone",
            Message::CopyFail(_) => "CopyFail",
            Message::Terminate => "Terminate",
            Message::Password => "PasswordMessage",
        }
    }
}

/// Whether a message of this type is a simple query, which ReadyForQuery answers.
pub(crate) fn is_query(message_kind: u8) -> bool {
    message_kind == kind::QUERY
}

/// Whether a message of this type is data of a COPY.
pub(crate) fn is_copy_data(message_kind: u8) -> bool {
    message_kind == kind::COPY_DATA
}

/// Checks the length that a message of this type says it has, its own four bytes included.
///
/// # Errors
/// 08P01 for a type that there is not, and for a length that it cannot have.
pub(crate) fn check_length(message_kind: u8, length: usize) -> Result<(), ConnectionError> {
    let most = match message_kind {
        kind::QUERY | kind::PARSE | kind::BIND | kind::COPY_DATA | kind::COPY_FAIL => {
            LARGE_BYTES_MAX
        }
        kind::CLOSE
        | kind::COPY_DONE
        | kind::DESCRIBE
        | kind::EXECUTE
        | kind::FLUSH
        | kind::PASSWORD
        | kind::SYNC
        | kind::TERMINATE => SMALL_BYTES_MAX,
        other => {
            return Err(ConnectionError::protocol(format!(
                "invalid frontend message type {other}"
            )));
        }
    };
    if (4..=most).contains(&length) {
        return Ok(());
    }
    Err(ConnectionError::protocol(format!(
        "invalid message length {length} in message of type {:?}",
        char::from(message_kind)
    )))
}

/// Decodes a message's body.
///
/// # Errors
/// 08P01 for a body that its type does not have, which ends the connection; 22021 for text that
/// is not valid UTF-8, which is the statement's error.
pub(crate) fn decode(message_kind: u8, body: Bytes) -> Result<Message, BadMessage> {
    let length = body.len();
    let mut body = Body(body);
    let message = match message_kind {
        kind::QUERY => Message::Query(body.text()?),
        kind::PARSE => Message::Parse(Parse {
            name: body.name()?,
            query: body.text()?,
            types: body.list(4, Bytes::get_u32)?,
        }),
        kind::BIND => Message::Bind(Bind {
            portal: body.name()?,
            statement: body.name()?,
            parameter_formats: body.list(2, Bytes::get_i16)?,
            parameters: body.values()?,
            result_formats: body.list(2, Bytes::get_i16)?,
            length,
        }),
        kind::DESCRIBE => Message::Describe(body.target()?),
        kind::CLOSE => Message::Close(body.target()?),
        kind::EXECUTE => Message::Execute(Execute {
            portal: body.name()?,
            max_rows: body.fixed(4)?.get_i32(),
        }),
        kind::COPY_FAIL => Message::CopyFail(body.text()?),
        // Their contents mean nothing where they are decoded.
        kind::COPY_DATA => return Ok(Message::CopyData),
        kind::PASSWORD => return Ok(Message::Password),
        kind::SYNC => Message::Sync,
        kind::FLUSH => Message::Flush,
        kind::COPY_DONE => Message::CopyDone,
        kind::TERMINATE => Message::Terminate,
        _ => return Err(BadMessage::Malformed),
    };
    if body.0.has_remaining() {
        return Err(BadMessage::Malformed);
    }
    Ok(message)
}

/// Why a message is not one.
#[derive(Debug)]
pub(crate) enum BadMessage {
    /// Its body is not of its type.
    Malformed,
    /// A text in it is not in the client's encoding.
    Encoding(SqlError),
}

/// The unread rest of a body.
struct Body(Bytes);

impl Body {
    fn fixed(&mut self, length: usize) -> Result<Bytes, BadMessage> {
        if self.0.len() < length {
            return Err(BadMessage::Malformed);
        }
        Ok(self.0.split_to(length))
    }

    /// Bytes up to a zero byte.
    fn string(&mut self) -> Result<Bytes, BadMessage> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let string = self.0.split_to(end.ok_or(BadMessage::Malformed)?);
        self.0.advance(1);
        Ok(string)
    }

    fn text(&mut self) -> Result<Text, BadMessage> {
        let string = self.string()?;
        match std::str::from_utf8(&string) {
            Ok(_) => Ok(Text(string)),
            Err(error) => Err(BadMessage::Encoding(not_utf8(&string, error))),
        }
    }

    fn name(&mut self) -> Result<String, BadMessage> {
        Ok(self.text()?.as_str().to_owned())
    }

    /// A count of two bytes, and so many items of `size` bytes.
    fn list<T>(
        &mut self,
        size: usize,
        mut item: impl FnMut(&mut Bytes) -> T,
    ) -> Result<Vec<T>, BadMessage> {
        let count = usize::from(self.fixed(2)?.get_u16());
        let mut items = self.fixed(count * size)?;
        Ok((0..count).map(|_| item(&mut items)).collect())
    }

    fn values(&mut self) -> Result<Vec<Option<Bytes>>, BadMessage> {
        let count = usize::from(self.fixed(2)?.get_u16());
        // Each has a length of four bytes.
        if self.0.len() < count * 4 {
            return Err(BadMessage::Malformed);
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(match self.fixed(4)?.get_i32() {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| BadMessage::Malformed)?;
                    Some(self.fixed(length)?)
                }
            });
        }
        Ok(values)
    }

    fn target(&mut self) -> Result<Target, BadMessage> {
        let kind = self.fixed(1)?.get_u8();
        let name = self.name()?;
        Ok(Target { kind, name })
    }
}

/// 22021 with the bytes that are wrong, as PostgreSQL shows them.
fn not_utf8(string: &[u8], error: std::str::Utf8Error) -> SqlError {
    let wrong = string.get(error.valid_up_to()..).unwrap_or_default();
    let shown = error.error_len().unwrap_or(wrong.len()).clamp(1, 4);
    let bytes: Vec<String> = wrong
        .iter()
        .take(shown)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            bytes.join(" ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const KINDS: &[u8] = b"BCDEFHPQSXcdfp\0\xff";

    fn bind(parameters: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = b"portal\0statement\0".to_vec();
        body.extend([0, 1, 0, 0]);
        body.extend((parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            match parameter {
                None => body.extend((-1_i32).to_be_bytes()),
                Some(value) => {
                    body.extend((value.len() as u32).to_be_bytes());
                    body.extend(*value);
                }
            }
        }
        body.extend([0, 1, 0, 1]);
        body
    }

    #[test]
    fn a_bind_is_decoded_without_copying_its_values() {
        let body = Bytes::from(bind(&[Some(b"one"), None, Some(b"")]));
        let within = body.as_ptr_range();
        let Ok(Message::Bind(bind)) = decode(b'B', body) else {
            panic!("not decoded");
        };
        assert_eq!((&*bind.portal, &*bind.statement), ("portal", "statement"));
        let values: Vec<_> = bind.parameters.iter().map(Option::as_deref).collect();
        assert_eq!(values, [Some(&b"one"[..]), None, Some(&b""[..])]);
        assert_eq!(
            (bind.parameter_formats, bind.result_formats),
            (vec![0], vec![1])
        );
        let first = bind.parameters[0].as_deref().unwrap();
        assert!(within.contains(&first.as_ptr()));
    }

    #[test]
    fn a_bind_that_ends_early_or_late_is_malformed() {
        let whole = bind(&[Some(b"one"), None]);
        for end in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..end]);
            assert!(
                matches!(decode(b'B', cut), Err(BadMessage::Malformed)),
                "{end}"
            );
        }
        let mut longer = whole.clone();
        longer.push(0);
        let longer = decode(b'B', longer.into());
        assert!(matches!(longer, Err(BadMessage::Malformed)));
        // A length that is negative, or more than there is.
        let at = b"portal\0statement\0".len() + 6;
        for length in [-2_i32, i32::MIN, i32::MAX, 1 << 20] {
            let mut wrong = whole.clone();
            wrong[at..at + 4].copy_from_slice(&length.to_be_bytes());
            let decoded = decode(b'B', wrong.into());
            assert!(matches!(decoded, Err(BadMessage::Malformed)), "{length}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_the_statements_error() {
        let decoded = decode(b'Q', Bytes::from_static(b"SELECT '\xc3\x28'\0"));
        let Err(BadMessage::Encoding(error)) = decoded else {
            panic!("{decoded:?}");
        };
        assert_eq!(error.sqlstate.as_str(), "22021");
        assert_eq!(
            &*error.message,
            "invalid byte sequence for encoding \"UTF8\": 0xc3"
        );
    }

    #[test]
    fn lengths_are_those_of_the_messages_type() {
        for kind in *b"QPBdf" {
            assert!(check_length(kind, 1 << 30).is_ok());
            assert!(check_length(kind, (1 << 30) + 1).is_err());
        }
        for kind in *b"CcDEHpSX" {
            assert!(check_length(kind, 10_000).is_ok());
            assert!(check_length(kind, 10_001).is_err());
            assert!(check_length(kind, 3).is_err());
        }
        assert!(check_length(b'F', 8).is_err());
    }

    /// Any bytes decode into a message or an error.
    #[test]
    fn no_body_makes_decoding_panic() {
        let seed: u64 = rand::rng().random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let whole = bind(&[Some(b"one"), None, Some(b"three")]);
        for _ in 0..100_000 {
            let kind = KINDS[random.random_range(0..KINDS.len())];
            let mut body = if random.random() {
                whole.clone()
            } else {
                let length = random.random_range(0..64);
                (0..length).map(|_| random.random()).collect()
            };
            for _ in 0..random.random_range(0..4) {
                if !body.is_empty() {
                    let at = random.random_range(0..body.len());
                    body[at] = random.random();
                }
            }
            body.truncate(random.random_range(0..=body.len()));
            let _ = decode(kind, body.into());
        }
    }
}
