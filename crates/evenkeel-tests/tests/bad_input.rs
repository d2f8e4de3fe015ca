//! Damaged files, wrong directories, broken clients and bad statements get a specific error, while
//! everything else goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_tests::server::{TestServer, client_runtime, evenkeel};
use tokio_postgres::NoTls;

const PAGE: u64 = 8192;

fn flip_byte(file: &Path, offset: u64) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = usize::try_from(offset).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

/// The largest file under `base`, which is the one with the rows.
fn largest_relation(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data.join("base"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    files
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap()
}

/// A database with a table of some hundred pages, cleanly shut down.
fn with_rows(data: &Path) {
    let server = TestServer::start(data, &["fsync=off"]);
    server
        .psql("CREATE TABLE t (a int PRIMARY KEY, b text)")
        .ok();
    server
        .psql("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 20000) g")
        .ok();
    server.psql("CREATE TABLE other (a int)").ok();
    server.psql("INSERT INTO other VALUES (1)").ok();
    assert!(server.stop().success());
}

#[test]
fn a_second_server_on_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &["fsync=off"]);
    let second = evenkeel(&["serve", &data.display().to_string(), "--port", "0"]);
    assert!(!second.status.success());
    assert!(second.stderr.contains("evenkeel.pid"), "{}", second.stderr);
    assert_eq!(server.psql("SELECT 1").ok().trim(), "1");
}

/// A file stays open until it is synced, and no checkpoint comes here for as long as it takes.
#[test]
fn more_unsynced_tables_than_a_shell_allows_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start_with_open_files(64, &data, &["fsync=off"]);
    let each = |i| format!("CREATE TABLE t{i} (a int PRIMARY KEY); INSERT INTO t{i} VALUES ({i});");
    let script: String = (0..100).map(each).collect();
    server.psql(&script).ok();
    let sum = server
        .psql("SELECT (SELECT a FROM t1) + (SELECT a FROM t99)")
        .ok();
    assert_eq!(sum.trim(), "100");
}

#[test]
fn a_directory_of_something_else_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("holiday.txt"), "sun").unwrap();
    let out = evenkeel(&["serve", &dir.path().display().to_string(), "--port", "0"]);
    assert!(!out.status.success());
    let says = out.stderr.to_lowercase();
    assert!(
        says.contains("not an evenkeel") || says.contains("not empty"),
        "{}",
        out.stderr
    );
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn one_damaged_control_copy_is_survived_and_two_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    with_rows(&data);
    let control = data.join("control");
    let whole = std::fs::read(&control).unwrap();
    for copy in [0, 4096] {
        std::fs::write(&control, &whole).unwrap();
        flip_byte(&control, copy + 24);
        let server = TestServer::start(&data, &["fsync=off"]);
        assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "20000");
        assert!(server.stop().success());
    }
    flip_byte(&control, 24);
    flip_byte(&control, 4096 + 24);
    let out = evenkeel(&["serve", &data.display().to_string(), "--port", "0"]);
    assert!(!out.status.success());
    assert!(out.stderr.contains("control"), "{}", out.stderr);
}

#[test]
fn a_flipped_bit_fails_that_page_by_name_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    with_rows(&data);
    let file = largest_relation(&data);
    flip_byte(&file, 7 * PAGE + 4000);
    let server = TestServer::start(&data, &["fsync=off"]);
    let out = server.psql_with(&[
        "-X",
        "-v",
        "VERBOSITY=verbose",
        "-c",
        "SELECT sum(length(b)) FROM t",
    ]);
    assert!(!out.status.success());
    assert!(
        out.stderr.contains("XX001") && out.stderr.contains("block 7"),
        "{}",
        out.stderr
    );
    assert_eq!(server.psql("SELECT a FROM other").ok().trim(), "1");
    assert!(server.stop().success());
    let check = evenkeel(&["check", &data.display().to_string()]);
    assert!(!check.status.success());
    let report = format!("{}{}", check.stdout, check.stderr);
    assert!(report.contains("block 7"), "{report}");
}

/// Settings under which nothing can restore a damaged page.
const PLAIN: [&str; 2] = ["fsync=off", "torn_page_protection=off"];

/// A server killed in the middle of things, two pages of whose table are damaged then; answers
/// the table's file.
fn crashed_with_damage(data: &Path) -> String {
    with_rows(data);
    let server = TestServer::start(data, &PLAIN);
    server.psql("CHECKPOINT").ok();
    // Half of the rows of every page stay where they are.
    server
        .psql("UPDATE t SET b = repeat('y', 200) WHERE a % 2 = 0")
        .ok();
    let file = largest_relation(data);
    server.kill();
    for block in [7, 9] {
        flip_byte(&file, block * PAGE + 4000);
    }
    file.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Waits until nothing is owed to any page.
fn await_redo(server: &TestServer) {
    let phase = "SELECT phase FROM pg_stat_recovery";
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.psql(phase).ok().trim() != "done" {
        assert!(Instant::now() < deadline, "redo does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn pages_damaged_in_a_crash_are_set_aside_until_a_command_zeroes_them() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let number = crashed_with_damage(&data);
    let server = TestServer::start(&data, &PLAIN);
    let scan = [
        "-X",
        "-v",
        "VERBOSITY=verbose",
        "-c",
        "SELECT count(*) FROM t WHERE b >= 'x'",
    ];
    let out = server.psql_with(&scan);
    assert!(!out.status.success());
    let named = out.stderr.contains("XX001") && out.stderr.contains("block 7");
    assert!(
        named && out.stderr.contains("damaged/base-"),
        "{}",
        out.stderr
    );
    // The scan met block 7; block 9 is met when redo comes to it.
    await_redo(&server);
    let listed = "SELECT file, fork, block FROM evenkeel_damaged_pages ORDER BY block";
    let both = format!("base/{number}|main|7\nbase/{number}|main|9");
    assert_eq!(server.psql(listed).ok().trim(), both);
    assert_eq!(server.psql("SELECT a FROM other").ok().trim(), "1");
    server.psql("INSERT INTO t VALUES (20001, 'z')").ok();
    let whole = server.psql(&format!(
        "SELECT evenkeel_zero_damaged_page('base/{number}', 'main', 8)"
    ));
    assert!(!whole.status.success() && whole.stderr.contains("not damaged"));
    server
        .psql(&format!(
            "SELECT evenkeel_zero_damaged_page('base/{number}', 'main', 9)"
        ))
        .ok();
    server.psql("CHECKPOINT").ok();
    assert!(server.stop().success());
    let path = data.display().to_string();
    let check = evenkeel(&["check", &path]);
    let report = format!("{}{}", check.stdout, check.stderr);
    assert!(
        !check.status.success() && report.contains("block 7"),
        "{report}"
    );
    let page = format!("base/{number}");
    let list = evenkeel(&["damaged", &path]);
    let line = format!("file {page} fork main block 7, LSN");
    assert!(list.stdout.contains(&line), "{}", list.stdout);
    assert_eq!(list.stdout.lines().count(), 1, "{}", list.stdout);
    let zeroed = evenkeel(&["damaged", &path, "zero", &page, "main", "7"]);
    assert!(zeroed.status.success(), "{}", zeroed.stderr);
    let server = TestServer::start(&data, &PLAIN);
    let left: u32 = server
        .psql("SELECT count(*) FROM t")
        .ok()
        .trim()
        .parse()
        .unwrap();
    assert!((19_900..20_001).contains(&left), "{left}");
    let none = server.psql("SELECT count(*) FROM evenkeel_damaged_pages");
    assert_eq!(none.ok().trim(), "0");
    assert!(server.stop().success());
}

#[test]
fn damaged_pages_are_rebuilt_by_a_function_and_by_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    with_rows(&data);
    let server = TestServer::start(&data, &["fsync=off"]);
    server
        .psql("UPDATE t SET b = repeat('y', 200) WHERE a % 2 = 0; CHECKPOINT")
        .ok();
    let sum = "SELECT sum(length(b)), min(b), max(b), count(*) FROM t";
    let expected = server.psql(sum).ok();
    assert!(server.stop().success());
    let file = largest_relation(&data);
    for block in [7, 9, 11] {
        flip_byte(&file, block * PAGE + 4000);
    }
    let path = data.display().to_string();
    let name = format!("base/{}", file.file_name().unwrap().to_str().unwrap());
    let server = TestServer::start(&data, &["fsync=off"]);
    assert!(!server.psql(sum).status.success());
    let rebuild = format!("SELECT evenkeel_rebuild_damaged_page('{name}', 'main', 7)");
    assert!(server.psql(&rebuild).ok().contains('/'));
    let again = server.psql(&rebuild);
    assert!(!again.status.success() && again.stderr.contains("is not damaged"));
    // The page is whole now and the others are not.
    let left = server.psql(sum).stderr;
    assert!(left.contains("block 9"), "{left}");
    assert!(server.stop().success());
    let rebuilt = evenkeel(&["damaged", &path, "rebuild", &name, "main", "9"]);
    assert!(rebuilt.status.success(), "{}", rebuilt.stderr);
    let repaired = evenkeel(&["repair", &path]);
    assert!(repaired.status.success(), "{}", repaired.stderr);
    let line = format!("file {name} fork main block 11 is rebuilt, LSN");
    assert!(repaired.stdout.contains(&line), "{}", repaired.stdout);
    assert_eq!(repaired.stdout.lines().count(), 1, "{}", repaired.stdout);
    let nothing = evenkeel(&["repair", &path]);
    assert!(nothing.status.success() && nothing.stdout.contains("no page is damaged"));
    let server = TestServer::start(&data, &["fsync=off"]);
    assert_eq!(server.psql(sum).ok(), expected);
    assert!(server.stop().success());
}

#[test]
fn a_page_that_nothing_else_has_is_not_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let number = crashed_with_damage(&data);
    // Of the time when the rows were put in.
    for area in ["doublewrite.0", "doublewrite.1"] {
        let _ = std::fs::remove_file(data.join(area));
    }
    let repaired = evenkeel(&["repair", &data.display().to_string()]);
    assert!(!repaired.status.success());
    let why =
        format!("file base/{number} fork main block 7 cannot be rebuilt: the disk: its checksum");
    assert!(repaired.stdout.contains(&why), "{}", repaired.stdout);
    assert!(
        repaired
            .stderr
            .contains("2 of 2 damaged pages could not be rebuilt"),
        "{}",
        repaired.stderr
    );
}

#[test]
fn a_truncated_file_is_an_error_of_its_table_and_not_fewer_rows() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    with_rows(&data);
    let file = largest_relation(&data);
    let length = std::fs::metadata(&file).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    let name = file.strip_prefix(&data).unwrap().display().to_string();
    let check = evenkeel(&["check", &data.display().to_string()]);
    assert!(!check.status.success(), "{}", check.stdout);
    let report = format!("{}{}", check.stdout, check.stderr);
    assert!(report.contains(&name), "{report}");
    let server = TestServer::start(&data, &["fsync=off"]);
    let verbose = ["-X", "-v", "VERBOSITY=verbose", "-c"];
    for sql in [
        "SELECT sum(length(b)) FROM t",
        "SELECT b FROM t WHERE a = 19999",
    ] {
        let out = server.psql_with(&[&verbose[..], &[sql]].concat());
        assert!(!out.status.success(), "{sql}: {}", out.stdout);
        let says = &out.stderr;
        assert!(
            says.contains("XX001") && says.contains(&name),
            "{sql}: {says}"
        );
    }
    assert_eq!(server.psql("SELECT a FROM t WHERE a = 1").ok().trim(), "1");
    assert_eq!(server.psql("SELECT a FROM other").ok().trim(), "1");
    server.psql("DROP TABLE t").ok();
    assert!(server.stop().success());
    let check = evenkeel(&["check", &data.display().to_string()]);
    assert!(check.status.success(), "{}{}", check.stdout, check.stderr);
}

/// The file of `pg_class`, cut short or zeroed, after a crash and after a clean end: no start takes
/// the tables in it for gone.
#[test]
fn a_catalog_that_is_damaged_is_named_and_not_empty() {
    for (killed, damage) in [false, true].into_iter().flat_map(|killed| {
        let damages = ["empty", "one page less", "zeroed", "missing"];
        damages.map(|damage| (killed, damage))
    }) {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let server = TestServer::start(&data, &["fsync=off"]);
        let tables = (0..200).map(|n| format!("CREATE TABLE t{n} (a int); "));
        server.psql(&tables.collect::<String>()).ok();
        server.psql("INSERT INTO t7 VALUES (7); CHECKPOINT").ok();
        server.psql("CREATE TABLE late (a int)").ok();
        match killed {
            true => server.kill(),
            false => assert!(server.stop().success()),
        }
        let file = data.join("base/1259");
        let length = std::fs::metadata(&file).unwrap().len();
        match damage {
            "missing" => std::fs::remove_file(&file).unwrap(),
            "zeroed" => std::fs::write(&file, vec![0; length as usize]).unwrap(),
            _ => {
                let left = if damage == "empty" { 0 } else { length - 8192 };
                let open = std::fs::File::options().write(true).open(&file).unwrap();
                open.set_len(left).unwrap();
            }
        }
        let case = format!("{damage}, killed: {killed}");
        let report = evenkeel(&["check", &data.display().to_string()]);
        match TestServer::try_start(&data, &["fsync=off"]) {
            Err(says) => assert!(says.contains("1259"), "{case}: {says}"),
            Ok(server) => {
                // The log had all of it.
                let read = server
                    .psql("SELECT a FROM t7; SELECT count(*) FROM late")
                    .ok();
                assert_eq!(
                    read.split_whitespace().collect::<Vec<_>>(),
                    ["7", "0"],
                    "{case}"
                );
                assert!(killed, "{case}: damage that nobody saw");
            }
        }
        if !killed {
            assert!(!report.status.success(), "{case}: {}", report.stdout);
        }
    }
}

#[test]
fn a_log_that_ends_in_rubbish_ends_there() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    with_rows(&data);
    let server = TestServer::start(&data, &[]);
    server.psql("INSERT INTO other VALUES (2)").ok();
    server.kill();
    let mut segments: Vec<_> = std::fs::read_dir(data.join("wal"))
        .unwrap()
        .flatten()
        .collect();
    segments.sort_by_key(std::fs::DirEntry::file_name);
    for segment in segments {
        // A segment is zero from the end of its log on: rubbish goes there.
        let mut bytes = std::fs::read(segment.path()).unwrap();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let from = (used + 64).next_multiple_of(64).min(bytes.len());
        for (i, byte) in bytes.iter_mut().enumerate().skip(from) {
            *byte = (i * 31 % 251) as u8;
        }
        std::fs::write(segment.path(), bytes).unwrap();
    }
    let server = TestServer::start(&data, &[]);
    assert_eq!(server.psql("SELECT sum(a) FROM other").ok().trim(), "3");
}

fn raw_connection(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let body = b"\0\x03\0\0user\0postgres\0\0";
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], body].concat()).unwrap();
    let mut greeting = Vec::new();
    let mut chunk = [0; 1024];
    while !greeting.ends_with(b"Z\0\0\0\x05I") {
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "no greeting");
        greeting.extend_from_slice(&chunk[..n]);
    }
    stream
}

#[test]
fn malformed_and_oversized_messages_end_only_their_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let messages: [&[u8]; 5] = [
        b"B\0\0\0\x08ab\xff\xff",      // Bind whose body ends before its counts
        b"?\0\0\0\x04",                // no such type
        b"Q\xff\xff\xff\xff",          // a length of 4 GiB
        b"Q\0\0\0\x01",                // a length shorter than itself
        b"P\0\0\0\x0a\0x\0\xff\xff\0", // Parse with more types than bytes
    ];
    for message in messages {
        let mut stream = raw_connection(&server);
        stream.write_all(message).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("08P01"), "{message:?}: {text}");
        assert_eq!(server.psql("SELECT 1").ok().trim(), "1");
    }
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(server.psql("SELECT 1").ok().trim(), "1");
}

/// Asks for a large result and reads none of it.
fn stuck_connection(server: &TestServer) -> TcpStream {
    let mut stream = raw_connection(server);
    let query = b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)\0";
    let length = u32::try_from(query.len() + 4).unwrap().to_be_bytes();
    stream
        .write_all(&[b"Q", &length[..], query].concat())
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    stream
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_server_from_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &["fsync=off"]);
    let stuck = stuck_connection(&server);
    assert!(server.stop().success());
    drop(stuck);
    // The second signal does not even wait for that.
    let server = TestServer::start(&data, &["fsync=off"]);
    server.psql("CREATE TABLE t (a int)").ok();
    let stuck = stuck_connection(&server);
    let pid = server.pid().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
    // The log is that of both servers.
    while server.log().matches("received SIGTERM").count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.stop().code(), Some(1));
    drop(stuck);
    let server = TestServer::start(&data, &["fsync=off"]);
    assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "0");
}

#[test]
fn a_bad_line_far_into_a_copy_undoes_all_of_it_and_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server.psql("CREATE TABLE t (a int, b text)").ok();
    let file = dir.path().join("lines");
    let mut lines: Vec<String> = (1..=120_000).map(|i| format!("{i}\tline {i}")).collect();
    lines[99_999] = "one hundred thousand\tbad".to_owned();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let out = server.psql(&format!("\\copy t FROM '{}'", file.display()));
    assert!(!out.status.success());
    assert!(out.stderr.contains("line 100000"), "{}", out.stderr);
    assert!(
        out.stderr.contains("one hundred thousand"),
        "{}",
        out.stderr
    );
    assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "0");
}

#[test]
fn errors_carry_postgresqls_sqlstates() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server
        .psql("CREATE TABLE t (a int PRIMARY KEY, b varchar(3) NOT NULL)")
        .ok();
    server.psql("INSERT INTO t VALUES (1, 'x')").ok();
    let cases = [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT nothing FROM t", "42703"),
        ("INSERT INTO t VALUES (1, 'y')", "23505"),
        ("INSERT INTO t VALUES (2, NULL)", "23502"),
        ("INSERT INTO t VALUES (2, 'long')", "22001"),
        ("SELECT 1 / (a - 1) FROM t", "22012"),
        ("SELECT a + 2147483647 FROM t", "22003"),
        ("SELECT 'x'::int", "22P02"),
        ("CREATE TABLE t (a int)", "42P07"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1", "0A000"),
        (
            "CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f()",
            "0A000",
        ),
        ("BEGIN; SELECT 1/0; SELECT 1", "22012"),
    ];
    for (sql, state) in cases {
        let out = server.psql_with(&["-X", "-v", "VERBOSITY=verbose", "-c", sql]);
        assert!(
            out.stderr.contains(state),
            "{sql}: wanted {state}, got {}",
            out.stderr
        );
    }
    assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "1");
}

#[test]
fn a_cancelled_statement_ends_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server.psql("CREATE TABLE t (a bigint)").ok();
    client_runtime().block_on(async {
        let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(driver);
        let token = client.cancel_token();
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            token.cancel_query(NoTls).await.unwrap();
        });
        let long = "INSERT INTO t SELECT g FROM generate_series(1, 200000000) g";
        let error = client.batch_execute(long).await.unwrap_err();
        canceller.await.unwrap();
        assert_eq!(error.code().unwrap().code(), "57014", "{error:?}");
        let row = client
            .query_one("SELECT count(*) FROM t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    });
}

/// Statements that take long: to run, and to understand.
fn long_statements() -> [String; 2] {
    let checks: Vec<String> = (0..20_000).map(|n| format!("CHECK (a <> {n})")).collect();
    [
        "INSERT INTO t SELECT g FROM generate_series(1, 200000000) g".to_owned(),
        format!("CREATE TABLE checked (a int, {})", checks.join(", ")),
    ]
}

/// Runs a statement that `end` ends half a second later, and how long after it.
async fn ended_by<T: Send + 'static>(
    url: &str,
    long: &str,
    end: impl FnOnce() -> T + Send + 'static,
) -> (T, Duration) {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    let ender = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(500));
        (Instant::now(), end())
    });
    let error = client.batch_execute(long).await.unwrap_err();
    let now = Instant::now();
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!((error.severity(), error.code().code()), ("FATAL", "57P01"));
    assert_eq!(
        error.message(),
        "terminating connection due to administrator command"
    );
    let (then, ended) = ender.await.unwrap();
    (ended, now - then)
}

#[test]
fn a_statement_under_way_is_told_that_the_server_ends() {
    for long in long_statements() {
        let dir = tempfile::tempdir().unwrap();
        let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
        server.psql("CREATE TABLE t (a bigint)").ok();
        let url = server.url();
        let (status, took) =
            client_runtime().block_on(ended_by(&url, &long, move || server.stop()));
        assert!(
            status.success() && took < Duration::from_secs(2),
            "{took:?}"
        );
    }
}

#[test]
fn a_session_under_way_is_ended_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let server = Arc::new(TestServer::start(&dir.path().join("data"), &["fsync=off"]));
    server.psql("CREATE TABLE t (a bigint)").ok();
    for long in long_statements() {
        let other = Arc::clone(&server);
        let end = move || {
            let active = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE state = 'active' AND pid <> pg_backend_pid()";
            other.psql(active).ok()
        };
        let (ended, took) = client_runtime().block_on(ended_by(&server.url(), &long, end));
        assert_eq!(ended.trim(), "t");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "0");
}
