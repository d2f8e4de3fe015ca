//! Messages that no driver sends.

use evenkeel_tests::raw::{Answer, RawClient, bind, error_state, execute};
use rand::Rng;
use rand::rngs::SmallRng;

/// Sends so many bursts of them; what was wrong.
pub fn attack(port: u16, rng: &mut SmallRng, number: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for burst in 0..number {
        let found = match burst % 6 {
            0 => garbage(port, rng),
            1 => mutated(port, rng),
            2 => copy_garbage(port, rng),
            3 => many_names(port, rng),
            4 => parameters(port, rng),
            _ => startup(port, rng),
        };
        wrong.extend(found);
    }
    wrong
}

fn random_bytes(rng: &mut SmallRng, most: usize) -> Vec<u8> {
    let length = rng.random_range(0..most);
    (0..length).map(|_| rng.random()).collect()
}

/// Messages with which PostgreSQL calls a client's fault an internal error.
const LIKE_POSTGRESQL: [&str; 1] = ["unsupported jsonb version number"];

fn is_internal(answer: &Answer) -> bool {
    let message = answer.field(b'M').unwrap_or_default();
    answer.kind == b'E'
        && answer.field(b'C').is_some_and(|state| state == "XX000")
        && !LIKE_POSTGRESQL
            .iter()
            .any(|known| message.starts_with(known))
}

/// Answers until the session is ready or gone; an internal error among them.
fn internal(client: &mut RawClient, what: &str) -> Option<String> {
    let answers = client.ready();
    let error = answers.iter().find(|answer| is_internal(answer));
    error.map(|error| format!("{what}: {:?}", error.field(b'M')))
}

/// Messages of known types with bodies of any bytes.
fn garbage(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::session(port);
    for _ in 0..rng.random_range(1..6) {
        let kinds = b"QPBEDCHSFdcfpX?\0";
        let kind = kinds[rng.random_range(0..kinds.len())];
        let body = random_bytes(rng, 300);
        let mut message = vec![kind];
        let length = match rng.random_range(0..6) {
            0 => rng.random(),
            1 => rng.random_range(0..5),
            _ => body.len() as u32 + 4,
        };
        message.extend(length.to_be_bytes());
        message.extend(body);
        if client.bytes(&message).is_err() {
            return None;
        }
    }
    // The end of what is sent ends the wait of a message that claims to be longer.
    let _ = client.bytes(b"S\0\0\0\x04");
    client.close_sending();
    while let Some(answer) = client.answer() {
        if is_internal(&answer) {
            return Some(format!("garbage: {:?}", answer.field(b'M')));
        }
    }
    None
}

/// A right sequence of messages with some of its bytes changed.
fn mutated(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::session(port);
    let mut bytes = Vec::new();
    let mut message = |kind: u8, body: &[u8]| {
        bytes.push(kind);
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
    };
    message(
        b'P',
        b"s\0SELECT $1::int + a FROM t WHERE a < 10\0\0\x01\0\0\0\x17",
    );
    message(
        b'B',
        b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x05\0\x01\0\x01",
    );
    message(b'D', b"Pp\0");
    message(b'E', &execute("p", 3));
    message(b'E', &execute("p", 0));
    message(b'C', b"Pp\0");
    message(b'S', b"");
    for _ in 0..rng.random_range(1..8) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..3) {
            0 => bytes[at] = rng.random(),
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, rng.random()),
        }
    }
    if client.bytes(&bytes).is_err() {
        return None;
    }
    client.close_sending();
    while let Some(answer) = client.answer() {
        if is_internal(&answer) {
            return Some(format!("mutated {bytes:?}: {:?}", answer.field(b'M')));
        }
    }
    None
}

fn copy_garbage(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::session(port);
    client.query("CREATE TABLE IF NOT EXISTS copied (a int, b text, c numeric, d timestamp)");
    let formats = [
        "",
        " WITH (FORMAT csv)",
        " WITH (FORMAT csv, HEADER match)",
        " WITH (FORMAT csv, QUOTE '''', ESCAPE '\\')",
        " WITH (FORMAT binary)",
        " WITH (DELIMITER ',', NULL 'x')",
    ];
    let format = formats[rng.random_range(0..formats.len())];
    client.send(b'Q', format!("COPY copied FROM STDIN{format}\0").as_bytes());
    match client.answer() {
        Some(answer) if answer.kind == b'G' => {}
        _ => return internal(&mut client, format),
    }
    let mut sent = Vec::new();
    for _ in 0..rng.random_range(0..20) {
        let mut data = match rng.random_range(0..5) {
            0 => random_bytes(rng, 4000),
            1 => vec![b'\\'; rng.random_range(0..100)],
            2 => "\"".repeat(rng.random_range(0..2000)).into_bytes(),
            3 => b"1\tx\t1e400\tinfinity\n2\t\\N\tnan\t4714-11-24 BC\n".to_vec(),
            _ => b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x04\xff\xff\xff\xfe".to_vec(),
        };
        if rng.random() {
            data.push(b'\n');
        }
        client.send(b'd', &data);
        sent.extend(data);
    }
    match rng.random_range(0..4) {
        0 => client.send(b'f', b"no more\0"),
        1 => client.send(b'Q', b"SELECT 1\0"),
        _ => client.send(b'c', b""),
    }
    let found = internal(&mut client, "COPY");
    found.map(|found| format!("{found} {format}: {:?}", String::from_utf8_lossy(&sent)))
}

/// Prepared statements, portals, savepoints or cursors by the thousand, then a statement.
fn many_names(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::session(port);
    let many = rng.random_range(100..3000);
    match rng.random_range(0..4) {
        0 => {
            for n in 0..many {
                client.send(b'P', format!("s{n}\0SELECT {n}, * FROM t\0\0\0").as_bytes());
            }
        }
        1 => {
            client.query("BEGIN");
            client.send(b'P', b"s\0SELECT * FROM t ORDER BY c\0\0\0");
            for n in 0..many.min(400) {
                client.send(b'B', &bind(&format!("p{n}"), "s"));
                client.send(b'E', &execute(&format!("p{n}"), 1));
            }
        }
        2 => {
            let savepoints: String = (0..many).map(|n| format!("SAVEPOINT s{n};")).collect();
            client.send(b'Q', format!("BEGIN;{savepoints}\0").as_bytes());
            let found = internal(&mut client, "savepoints");
            client.query("ROLLBACK TO s5; RELEASE s2; ROLLBACK");
            return found;
        }
        _ => {
            let cursor =
                |n| format!("DECLARE c{n} SCROLL CURSOR FOR SELECT {n}, * FROM t; FETCH c{n};");
            let cursors: String = (0..many.min(300)).map(cursor).collect();
            client.send(b'Q', format!("BEGIN;{cursors}\0").as_bytes());
            let found = internal(&mut client, "cursors");
            client.query("MOVE ALL IN c1; FETCH BACKWARD ALL FROM c1; COMMIT");
            return found;
        }
    }
    client.send(b'S', b"");
    let found = internal(&mut client, "names");
    found.or_else(|| {
        let after = client.query("ROLLBACK; SELECT 1");
        error_state(&after).map(|state| format!("names: {state} afterwards"))
    })
}

/// Parameters of any number, type, format and value.
fn parameters(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::session(port);
    let types = [
        16_u32,
        17,
        20,
        21,
        23,
        25,
        114,
        700,
        701,
        1007,
        1009,
        1043,
        1082,
        1083,
        1114,
        1184,
        1186,
        1266,
        1700,
        2950,
        3802,
        0,
        4_000_000_000,
    ];
    let number = *[1, 2, 7, 300, 65_535].get(rng.random_range(0..5)).unwrap();
    let list: Vec<String> = (1..=number.min(300)).map(|n| format!("${n}")).collect();
    let mut parse = format!("s\0SELECT {}\0", list.join(", ")).into_bytes();
    let chosen: Vec<u32> = (0..number)
        .map(|_| types[rng.random_range(0..types.len())])
        .collect();
    parse.extend((number as u16).to_be_bytes());
    chosen
        .iter()
        .for_each(|oid| parse.extend(oid.to_be_bytes()));
    client.send(b'P', &parse);
    let mut body = b"\0s\0".to_vec();
    body.extend(1_u16.to_be_bytes());
    body.extend(u16::from(rng.random::<bool>()).to_be_bytes());
    body.extend((number as u16).to_be_bytes());
    for _ in 0..number {
        let most = if rng.random() { 9 } else { 40 };
        let value = random_bytes(rng, most);
        if rng.random_bool(0.1) {
            body.extend((-1_i32).to_be_bytes());
        } else {
            body.extend((value.len() as i32).to_be_bytes());
            body.extend(value);
        }
    }
    body.extend([0, 1, 0, u8::from(rng.random::<bool>())]);
    client.send(b'B', &body);
    client.send(b'D', b"P\0");
    client.send(b'E', &execute("", 0));
    client.send(b'S', b"");
    internal(
        &mut client,
        &format!("parameters {chosen:?}")
            .chars()
            .take(200)
            .collect::<String>(),
    )
}

/// A first message that is none.
fn startup(port: u16, rng: &mut SmallRng) -> Option<String> {
    let mut client = RawClient::silent(port);
    let mut bytes = match rng.random_range(0..4) {
        0 => random_bytes(rng, 200),
        1 => [&80_877_103_u32.to_be_bytes()[..], &random_bytes(rng, 50)].concat(),
        2 => [&196_608_u32.to_be_bytes()[..], &random_bytes(rng, 9000)].concat(),
        _ => [&80_877_102_u32.to_be_bytes()[..], &random_bytes(rng, 300)].concat(),
    };
    if rng.random() {
        let length = (bytes.len() as u32 + 4).to_be_bytes();
        bytes = [&length[..], &bytes].concat();
    }
    let _ = client.bytes(&bytes);
    client.close_sending();
    client.drain();
    None
}
