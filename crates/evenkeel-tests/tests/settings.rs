//! Settings of a running server: its files, `ALTER SYSTEM`, loading them again.

use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel_tests::server::TestServer;

/// The lines that psql prints for one statement after the other, in one session.
fn session(server: &TestServer, statements: &[&str]) -> Vec<String> {
    let mut arguments = vec!["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1"];
    arguments.extend(statements.iter().flat_map(|statement| ["-c", *statement]));
    let printed = server.psql_with(&arguments).ok();
    printed.lines().map(str::to_owned).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// SET-4, SET-6: the values that ALTER SYSTEM writes are in force once they are loaded, in sessions
/// that are open as well, and after a restart.
#[test]
fn alter_system_takes_effect_when_the_configuration_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &["fsync=off"]);
    let printed = session(
        &server,
        &[
            "SHOW work_mem",
            "ALTER SYSTEM SET work_mem = '3MB'",
            "SHOW work_mem",
            "SELECT pg_reload_conf()",
            "SHOW work_mem",
            "SELECT source, sourceline FROM pg_settings WHERE name = 'work_mem'",
            "SELECT name, setting, applied, error FROM pg_file_settings",
            "ALTER SYSTEM SET max_connections = 7",
            "SELECT pg_reload_conf()",
            "SELECT setting, pending_restart FROM pg_settings WHERE name = 'max_connections'",
            "SELECT name, applied, error FROM pg_file_settings ORDER BY seqno",
        ],
    );
    let expected = [
        "64MB",
        "ALTER SYSTEM",
        "64MB",
        "t",
        "3MB",
        "configuration file|2",
        "work_mem|3MB|t|",
        "ALTER SYSTEM",
        "t",
        "1000|t",
        "work_mem|t|",
        "max_connections|f|setting could not be applied",
    ];
    assert_eq!(printed, expected);
    assert!(server.stop().success());
    let server = TestServer::start(&data, &["fsync=off"]);
    let printed = session(
        &server,
        &[
            "SHOW work_mem",
            "SHOW max_connections",
            "ALTER SYSTEM RESET ALL",
            "SHOW work_mem",
        ],
    );
    assert_eq!(printed, ["3MB", "7", "ALTER SYSTEM", "3MB"]);
    assert!(server.stop().success());
}

/// Changes that a session, a transaction or a setting does not allow, in PostgreSQL's words.
#[test]
fn changes_that_are_not_allowed_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    for (statement, error) in [
        (
            "ALTER SYSTEM SET work_mem = '1kB'",
            "1 kB is outside the valid range",
        ),
        (
            "ALTER SYSTEM SET nonsense = 1",
            "unrecognized configuration parameter \"nonsense\"",
        ),
        (
            "ALTER SYSTEM SET server_version = '19'",
            "parameter \"server_version\" cannot be changed",
        ),
        (
            "BEGIN; ALTER SYSTEM RESET ALL",
            "ALTER SYSTEM cannot run inside a transaction block",
        ),
        (
            "SET max_connections = 5",
            "cannot be changed without restarting the server",
        ),
        (
            "SET checkpoint_timeout = '1h'",
            "parameter \"checkpoint_timeout\" cannot be changed now",
        ),
    ] {
        let output = server.psql(statement);
        assert!(
            output.stderr.contains(error),
            "{statement}: {}",
            output.stderr
        );
    }
    assert!(server.stop().success());
}

/// SET-3: a signal loads the files; checkpoints follow, errors are logged and change nothing.
#[test]
fn a_signal_loads_the_files_and_the_server_follows() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &["fsync=off", "autovacuum_naptime=1h"]);
    let file = data.join("evenkeel.conf");
    let signal = || {
        let pid = server.pid().to_string();
        let sent = Command::new("kill").args(["-HUP", &pid]).status();
        assert!(sent.expect("kill").success());
    };
    server.psql("CREATE TABLE t (a int)").ok();
    let timed = || {
        server.psql("INSERT INTO t VALUES (1)").ok();
        let count = server
            .psql("SELECT num_timed FROM pg_stat_checkpointer")
            .ok();
        count.trim().parse::<u64>().expect("a number")
    };
    assert_eq!(timed(), 0);
    std::fs::write(
        &file,
        "checkpoint_timeout = 1s\nwork_mem = nonsense\nstatement_timeout = 9s\n",
    )
    .unwrap();
    signal();
    wait_until("a checkpoint by the new timeout", || timed() > 0);
    let shown = session(
        &server,
        &[
            "SHOW checkpoint_timeout",
            "SHOW work_mem",
            "SHOW statement_timeout",
        ],
    );
    assert_eq!(shown, ["1s", "64MB", "9s"]);
    let log = server.log();
    assert!(
        log.contains("received SIGHUP, reloading configuration files"),
        "{log}"
    );
    assert!(
        log.contains("evenkeel.conf:2: invalid value for parameter \"work_mem\""),
        "{log}"
    );
    assert!(log.contains("unaffected changes were applied"), "{log}");
    std::fs::write(&file, "").unwrap();
    signal();
    wait_until("the default is back", || {
        server.psql("SHOW checkpoint_timeout").ok().trim() == "5min"
    });
    let output = server.psql("SET jit = on");
    assert!(
        output.stderr.contains("setting \"jit\" has no effect"),
        "{}",
        output.stderr
    );
    assert!(server.stop().success());
}

/// A server does not start by a configuration that has errors, and names each.
#[test]
fn a_configuration_with_errors_is_refused_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let text = "work_mem = 1kB\nnonsense = 5\nport\n";
    std::fs::write(data.join("evenkeel.conf"), text).unwrap();
    let Err(log) = TestServer::try_start(&data, &[]) else {
        panic!("it started");
    };
    for part in [
        "evenkeel.conf:1: 1 kB is outside the valid range for parameter \"work_mem\"",
        "evenkeel.conf:2: unrecognized configuration parameter \"nonsense\"",
        "evenkeel.conf:3: syntax error",
    ] {
        assert!(log.contains(part), "{log}");
    }
}
