//! The server's memory is bounded: whoever passes a budget is refused by name, and nobody else
//! notices.

use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_tests::raw::{Answer, RawClient, bind, error_state, execute};
use evenkeel_tests::server::TestServer;

const MIB: usize = 1 << 20;
const SETTINGS: &[&str] = &[
    "fsync=off",
    "shared_buffers=32MB",
    "max_server_memory=192MB",
    "max_session_memory=32MB",
];

fn start(data: &Path, more: &[&str]) -> TestServer {
    let settings: Vec<&str> = SETTINGS.iter().chain(more).copied().collect();
    TestServer::start(data, &settings)
}

/// 53200 of the session's budget, with its name.
#[track_caller]
fn assert_refused(answers: &[Answer]) {
    let error = answers.iter().find(|answer| answer.kind == b'E');
    let error = error.unwrap_or_else(|| panic!("not refused: {} answers", answers.len()));
    let field = |code| error.field(code).unwrap_or_default();
    assert_eq!(field(b'C'), "53200", "{} {}", field(b'M'), field(b'D'));
    assert_eq!(field(b'M'), "out of memory");
    assert!(
        field(b'D').contains("\"max_session_memory\""),
        "{}",
        field(b'D')
    );
}

/// Waits until the process has no more than so much.
#[track_caller]
fn assert_gives_back(server: &TestServer, most: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.resident() > most {
        assert!(
            Instant::now() < deadline,
            "{} MiB stay",
            server.resident() / MIB
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_a_statement_gathers_is_bounded_and_the_next_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    client.value("CREATE TABLE t (a int PRIMARY KEY, b text)");
    client.value("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 200000) g");
    let before = server.resident();
    for gathers in [
        "SELECT a FROM t FOR UPDATE",
        "UPDATE t SET b = b RETURNING *",
        "DELETE FROM t RETURNING *",
        "INSERT INTO t SELECT a + 1000000, b FROM t RETURNING *",
        "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM t; MOVE ALL FROM c",
        "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH ALL FROM c",
    ] {
        let answers = client.query(gathers);
        assert_refused(&answers);
        client.query("ROLLBACK");
        assert_eq!(
            client.value("SELECT count(*) FROM t"),
            "200000",
            "{gathers}"
        );
        // The budget and a fifth of it.
        let most = before + 192 * MIB * 6 / 5;
        assert!(server.resident() < most, "{}", server.resident() / MIB);
    }
}

#[test]
fn savepoints_are_charged() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    client.query("BEGIN");
    let thousand = "SAVEPOINT s; ".repeat(1000);
    let mut sets = (0..500).map(|_| client.query(&thousand));
    let refused = |answers: &Vec<Answer>| error_state(answers).is_some();
    assert_refused(&sets.find(refused).expect("savepoints without end"));
    assert!(server.resident() < 320 * MIB, "{}", server.resident() / MIB);
    client.query("ROLLBACK");
    client.query("BEGIN");
    assert!(error_state(&client.query(&thousand)).is_none());
}

#[test]
fn an_analyze_takes_a_sample_that_fits_into_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    client.value("CREATE TABLE t (a int, b text)");
    let fill = "INSERT INTO t SELECT g, repeat(g::text, 1800 / length(g::text))
         FROM generate_series(1, 35000) g";
    client.value(fill);
    let before = server.resident();
    client.value("ANALYZE t");
    let most = before + 48 * MIB;
    assert!(server.resident() < most, "{}", server.resident() / MIB);
    let distinct = "SELECT n_distinct FROM pg_stats WHERE attname = 'a'";
    assert_eq!(client.value(distinct), "-1");
}

#[test]
fn values_are_charged_while_they_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    client.value("CREATE TABLE t (a int PRIMARY KEY)");
    client.value("INSERT INTO t VALUES (1)");
    for makes in [
        "SELECT length(repeat('a', 100000000))",
        "SELECT length(repeat('a', 100000000)) FROM t WHERE a = 1",
        "SELECT length(reverse(repeat('a', 20000000)))",
        "SELECT length(upper(lower(repeat('a', 20000000))))",
        "SELECT length(repeat('a', 20000000) || repeat('b', 20000000))",
        "SELECT length(md5(repeat('a', 20000000)) || lpad('', 40000000))",
        "SELECT length(string_agg(repeat('x', 200000), '')) FROM generate_series(1, 100000) g(i)",
        "SELECT cardinality(array_agg(repeat('x', 200000))) FROM generate_series(1, 100000) g(i)",
        "SELECT length(btrim(repeat('a', 20000000), 'b'))",
        "SELECT cardinality(string_to_array(repeat('a,', 10000000), ','))",
    ] {
        assert_refused(&client.query(makes));
        assert!(
            server.resident() < 320 * MIB,
            "{makes}: {} MiB",
            server.resident() / MIB
        );
        assert_eq!(client.value("SELECT a FROM t WHERE a = 1"), "1");
    }
    // Of many large values that are made one after the other few are there at once.
    assert_eq!(
        client
            .value("SELECT length(max(repeat('x', 200000) || i)) FROM generate_series(1, 2000) i"),
        "200003"
    );
    // Those that fit are made.
    assert_eq!(
        client.value("SELECT length(reverse(repeat('ab', 2000000)))"),
        "4000000"
    );
}

#[test]
fn open_portals_are_bounded_and_given_back_when_the_session_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    client.value("CREATE TABLE t (a int PRIMARY KEY, b text)");
    client.value("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g");
    let before = server.resident();
    for (statement, least) in [
        ("SELECT * FROM t", 10),
        ("SELECT b, max(a) FROM t GROUP BY b", 10),
    ] {
        let mut hog = RawClient::session(server.port());
        hog.value("BEGIN");
        let mut parse = format!("s\0{statement}\0").into_bytes();
        parse.extend([0, 0]);
        hog.send(b'P', &parse);
        hog.send(b'S', &[]);
        assert_eq!(error_state(&hog.ready()), None);
        let mut open = 0;
        let refused = loop {
            let portal = format!("p{open}");
            hog.send(b'B', &bind(&portal, "s"));
            hog.send(b'E', &execute(&portal, 1));
            hog.send(b'S', &[]);
            let answers = hog.ready();
            if error_state(&answers).is_some() {
                break answers;
            }
            open += 1;
            assert!(open < 20_000, "no bound");
        };
        assert_refused(&refused);
        assert!(open >= least, "{open}");
        assert!(
            server.resident() < before + 128 * MIB,
            "{}",
            server.resident() / MIB
        );
        assert_eq!(client.value("SELECT count(*) FROM t"), "20000");
        hog.terminate();
        assert_gives_back(&server, before + 48 * MIB);
    }
}

#[test]
fn prepared_statements_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    let refused = (0..20_000).find_map(|number| {
        let mut parse = format!("s{number}\0SELECT {number}\0").into_bytes();
        parse.extend([0, 0]);
        client.send(b'P', &parse);
        client.send(b'S', &[]);
        let answers = client.ready();
        error_state(&answers).is_some().then_some(answers)
    });
    assert_refused(&refused.expect("a bound"));
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn a_message_is_charged_before_there_is_room_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &[]);
    let mut client = RawClient::session(server.port());
    let before = server.resident();
    // Too long for the session: refused, skipped, and the session goes on.
    let text = format!("SELECT length('{}')", "x".repeat(64 * MIB));
    assert_refused(&client.query(&text));
    assert_eq!(client.value("SELECT 1"), "1");
    let mut parse = format!("\0{text}\0").into_bytes();
    parse.extend([0, 0]);
    client.send(b'P', &parse);
    client.send(b'B', &bind("", ""));
    client.send(b'E', &execute("", 0));
    client.send(b'S', &[]);
    assert_refused(&client.ready());
    assert_eq!(client.value("SELECT 1"), "1");
    client.value("CREATE TABLE t (a text)");
    client.send(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(client.answer().map(|answer| answer.kind), Some(b'G'));
    client.send(b'd', &vec![b'x'; 64 * MIB]);
    client.send(b'c', &[]);
    assert_refused(&client.ready());
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    // So is a line that has no end, however small its pieces are.
    client.send(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(client.answer().map(|answer| answer.kind), Some(b'G'));
    let piece = vec![b'x'; MIB / 2];
    for _ in 0..128 {
        client.send(b'd', &piece);
    }
    client.send(b'c', &[]);
    assert_refused(&client.ready());
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    // One that fits is taken.
    let fits = format!("SELECT length('{}')", "x".repeat(2 * MIB));
    assert_eq!(client.value(&fits), (2 * MIB).to_string());
    assert_gives_back(&server, before + 48 * MIB);
}

/// The length of a message is what a client says; memory is for what it sends.
#[test]
fn a_length_alone_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "fsync=off",
        "max_server_memory=64GB",
        "max_session_memory=4GB",
    ];
    let server = TestServer::start(&dir.path().join("data"), &settings);
    let before = server.resident();
    let mut clients: Vec<RawClient> = Vec::new();
    for _ in 0..8 {
        let mut client = RawClient::session(server.port());
        let mut head = vec![b'Q'];
        head.extend((1_u32 << 30).to_be_bytes());
        client.bytes(&head).unwrap();
        client.bytes(&vec![b'x'; MIB]).unwrap();
        clients.push(client);
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        server.resident() < before + 64 * MIB,
        "{}",
        server.resident() / MIB
    );
}

#[test]
fn statements_that_run_once_do_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"), &["max_session_memory=96MB"]);
    let mut client = RawClient::session(server.port());
    let before = server.resident();
    let padding = "x".repeat(MIB);
    for number in 0..150 {
        let text = format!("SELECT length('{number}{padding}')");
        client.value(&text);
    }
    assert_gives_back(&server, before + 96 * MIB);
}

#[test]
fn sorts_spill_within_their_limit_into_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = start(&data, &["work_mem=1MB"]);
    let mut client = RawClient::session(server.port());
    client.value("CREATE TABLE t (a int, b text)");
    client.value("INSERT INTO t SELECT g % 997 * 1009 + g, repeat('x', 200) FROM generate_series(1, 100000) g");
    let sorted = "SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY b, a) AS r FROM t) s";
    assert_eq!(client.value(sorted), "5000050000");
    let grouped = "SELECT count(*) FROM (SELECT a, b, count(*) FROM t GROUP BY a, b) s";
    assert_eq!(client.value(grouped), "100000");
    let files = || std::fs::read_dir(data.join("pgsql_tmp")).unwrap().count();
    assert_eq!(files(), 0);
    client.value("SET temp_file_limit = '1MB'");
    let answers = client.query(sorted);
    assert_eq!(
        error_state(&answers).as_deref(),
        Some("53400"),
        "{answers:?}"
    );
    client.value("SET temp_file_limit = -1");
    assert_eq!(client.value(sorted), "5000050000");
    assert_eq!(files(), 0);
    // The next start removes the temporary files that a crash has left.
    server.kill();
    std::fs::write(data.join("pgsql_tmp").join("pgsql_tmp.7"), "left").unwrap();
    let _server = start(&data, &[]);
    assert_eq!(files(), 0);
}

#[test]
fn connections_before_authentication_have_a_limit_of_their_own_and_time_out() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "fsync=off",
        "max_connections=4",
        "authentication_timeout=2s",
    ];
    let server = TestServer::start(&dir.path().join("data"), &settings);
    // Sessions do not count among them.
    let mut session = RawClient::session(server.port());
    let mut waiting: Vec<RawClient> = (0..4).map(|_| RawClient::silent(server.port())).collect();
    let deadline = Instant::now() + Duration::from_secs(1);
    let refused = loop {
        let mut one_more = RawClient::silent(server.port());
        if let Some(answer) = one_more.answer() {
            break answer;
        }
        assert!(Instant::now() < deadline, "not refused");
    };
    assert_eq!(refused.field(b'C').as_deref(), Some("53300"));
    assert_eq!(session.value("SELECT 1"), "1");
    // Those that say nothing are let go of, and there is room again.
    for silent in &mut waiting {
        assert!(silent.answer().is_none());
    }
    let mut late = RawClient::session(server.port());
    assert_eq!(late.value("SELECT 1"), "1");
}

#[test]
fn malformed_messages_are_protocol_errors_and_no_panics() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let whole = bind("portal", "statement");
    let cut = (0..whole.len()).map(|end| whole[..end].to_vec());
    let mut negative = b"\0\0\0\0\0\x01".to_vec();
    negative.extend((-7_i32).to_be_bytes());
    let mut huge = b"\0\0\0\0\0\x01".to_vec();
    huge.extend(i32::MAX.to_be_bytes());
    for body in cut.chain([negative, huge]) {
        let mut client = RawClient::session(server.port());
        client.send(b'B', &body);
        let answers = client.ready();
        assert_eq!(error_state(&answers).as_deref(), Some("08P01"), "{body:?}");
    }
    let mut client = RawClient::session(server.port());
    client.send(b'Q', b"SELECT '\xff'\0");
    assert_eq!(error_state(&client.ready()).as_deref(), Some("22021"));
    assert_eq!(client.value("SELECT 1"), "1");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn every_kind_of_statement_says_that_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let mut other = RawClient::session(server.port());
    other.value("CREATE TABLE t (a int PRIMARY KEY, b text)");
    other.value("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g");
    other.value("BEGIN");
    other.value("UPDATE t SET b = 'y' WHERE a = 1");
    let mut client = RawClient::session(server.port());
    client.value("SET statement_timeout = '100ms'");
    for slow in [
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT * FROM generate_series(1, 100000000000)",
        "COPY (SELECT * FROM generate_series(1, 100000000000)) TO STDOUT",
        "INSERT INTO t SELECT g, 'x' FROM generate_series(2000, 100000000000) g",
        "EXPLAIN ANALYZE SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT pg_sleep(3600)",
        "SELECT * FROM t WHERE a = 1 FOR UPDATE",
        "UPDATE t SET b = 'z' WHERE a = 1",
        "DELETE FROM t WHERE a = 1",
        "BEGIN; LOCK TABLE t",
        "ALTER TABLE t ADD c int",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 100000000000); MOVE ALL FROM c",
    ] {
        let answers = client.query(slow);
        let error = answers.iter().find(|answer| answer.kind == b'E');
        let error = error.unwrap_or_else(|| panic!("{slow}: no error"));
        assert_eq!(error.field(b'C').as_deref(), Some("57014"), "{slow}");
        assert_eq!(
            error.field(b'M').as_deref(),
            Some("canceling statement due to statement timeout"),
            "{slow}"
        );
        client.query("ROLLBACK");
    }
    assert_eq!(client.value("SELECT 1"), "1");
    // As long as these take.
    other.value("ROLLBACK");
    other.value("CREATE TABLE large (a int, b text)");
    other.value("INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 200000) g");
    client.value("SET statement_timeout = '5ms'");
    for slow in [
        "CREATE INDEX ON large (b)",
        "CREATE TABLE copy AS SELECT * FROM large",
        "VACUUM large",
        "ANALYZE large",
        "ALTER TABLE large ALTER a TYPE bigint",
        "COPY large TO STDOUT",
    ] {
        let answers = client.query(slow);
        let error = answers.iter().find(|answer| answer.kind == b'E');
        let error = error.unwrap_or_else(|| panic!("{slow}: no error"));
        assert_eq!(error.field(b'C').as_deref(), Some("57014"), "{slow}");
    }
    assert_eq!(client.value("SELECT 1"), "1");
}
