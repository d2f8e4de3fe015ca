//! One statement's answer over PostgreSQL's protocol, with everything a client can tell apart:
//! names and types of the columns, text values, SQLSTATE.

use crate::client::{Client, count, take, values};

/// A column as RowDescription has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// The type's oid.
    pub oid: u32,
}

/// A row's values; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// How a server answers a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Rows, perhaps none; commands have no columns.
    Rows {
        /// The columns.
        columns: Vec<Column>,
        /// The rows.
        rows: Vec<Row>,
    },
    /// An error.
    Error {
        /// SQLSTATE.
        state: String,
        /// Message.
        message: String,
    },
    /// The connection was lost.
    Lost(String),
}

/// Asks by the simple protocol; of several statements the last answer counts.
pub fn simple(client: &mut Client, sql: &str) -> Outcome {
    let mut body = sql.as_bytes().to_vec();
    body.push(0);
    let sent = client.send(Some(b'Q'), &body);
    sent.and_then(|()| answer(client))
        .unwrap_or_else(Outcome::Lost)
}

/// Asks by the extended protocol, with parameters of these types in text form.
pub fn extended(client: &mut Client, sql: &str, params: &[(u32, Option<&str>)]) -> Outcome {
    let count = u16::try_from(params.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    let mut parse = vec![0];
    parse.extend_from_slice(sql.as_bytes());
    parse.push(0);
    parse.extend_from_slice(&count);
    for (oid, _) in params {
        parse.extend_from_slice(&oid.to_be_bytes());
    }
    let mut bind = vec![0, 0, 0, 0];
    bind.extend_from_slice(&count);
    for (_, value) in params {
        match value {
            None => bind.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => {
                let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
                bind.extend_from_slice(&length.to_be_bytes());
                bind.extend_from_slice(value.as_bytes());
            }
        }
    }
    bind.extend_from_slice(&[0, 0]);
    let messages: [(u8, &[u8]); 5] = [
        (b'P', &parse),
        (b'B', &bind),
        (b'D', b"P\0"),
        (b'E', &[0, 0, 0, 0, 0]),
        (b'S', &[]),
    ];
    for (kind, body) in messages {
        if let Err(lost) = client.send(Some(kind), body) {
            return Outcome::Lost(lost);
        }
    }
    answer(client).unwrap_or_else(Outcome::Lost)
}

fn answer(client: &mut Client) -> Result<Outcome, String> {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    let mut error = None;
    loop {
        let (kind, body) = client.message()?;
        match kind {
            b'Z' => return Ok(error.unwrap_or(Outcome::Rows { columns, rows })),
            b'E' => {
                error.get_or_insert_with(|| refusal(&body));
            }
            b'T' => (columns, rows) = (described(&body), Vec::new()),
            b'D' => rows.push(values(&body)),
            _ => {}
        }
    }
}

fn refusal(body: &[u8]) -> Outcome {
    let (mut state, mut message) = (String::new(), String::new());
    for field in body.split(|&byte| byte == 0) {
        if let Some((&code, text)) = field.split_first() {
            let text = String::from_utf8_lossy(text).into_owned();
            match code {
                b'C' => state = text,
                b'M' => message = text,
                _ => {}
            }
        }
    }
    Outcome::Error { state, message }
}

fn described(mut body: &[u8]) -> Vec<Column> {
    const AFTER_NAME: usize = 18;
    let mut columns = Vec::new();
    for _ in 0..count(&mut body) {
        let Some(end) = body.iter().position(|&byte| byte == 0) else {
            break;
        };
        let name = String::from_utf8_lossy(&body[..end]).into_owned();
        let _ = take(&mut body, end + 1);
        let Some(rest) = take(&mut body, AFTER_NAME) else {
            break;
        };
        let oid = rest.get(6..10).and_then(|bytes| bytes.try_into().ok());
        columns.push(Column {
            name,
            oid: oid.map_or(0, u32::from_be_bytes),
        });
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_names_and_types() {
        let mut body = b"\0\x01value\0".to_vec();
        body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        let column = Column {
            name: "value".to_owned(),
            oid: 25,
        };
        assert_eq!(described(&body), [column]);
        assert!(described(&body[..9]).is_empty());
    }

    #[test]
    fn a_refusal_has_its_state() {
        let Outcome::Error { state, message } = refusal(b"SERROR\0C22003\0Mout of range\0\0")
        else {
            panic!("an error is an error");
        };
        assert_eq!(
            (state.as_str(), message.as_str()),
            ("22003", "out of range")
        );
    }
}
