//! A server whose process may have little: few open files, small files, few threads.

use std::process::Command;

use evenkeel_tests::raw::RawClient;
use evenkeel_tests::server::{TestServer, server_binary};

/// With so few descriptors that relations' files are closed and opened again all the time:
/// nothing fails but what is told so, and storage is never poisoned.
#[test]
fn a_server_goes_on_with_few_open_files() {
    for limit in [256, 1024] {
        let dir = tempfile::tempdir().unwrap();
        let limits = format!("--nofile={limit}:{limit}");
        let settings = ["fsync=off"];
        let data = dir.path().join("data");
        let server = TestServer::try_start_limited(&[&limits], &data, &settings).expect("starts");
        let tables = 0..300;
        let create: String = tables
            .clone()
            .map(|n| {
                format!("CREATE TABLE t{n} (a int PRIMARY KEY); INSERT INTO t{n} VALUES ({n});")
            })
            .collect();
        server.psql(&create).ok();
        let churn = "CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1); DROP TABLE u;";
        for _ in 0..10 {
            server.psql(&churn.repeat(50)).ok();
        }
        // Connections that say nothing take none of those that relations need.
        let mut session = RawClient::session(server.port());
        let silent: Vec<RawClient> = (0..200).map(|_| RawClient::silent(server.port())).collect();
        for n in tables {
            assert_eq!(session.value(&format!("SELECT a FROM t{n}")), n.to_string());
        }
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        assert!(open.count() < limit, "of {limit}");
        drop(silent);
        assert!(!server.log().contains("poisoned"), "{}", server.log());
        assert!(
            !server.log().contains("Too many open files"),
            "{}",
            server.log()
        );
        assert!(server.stop().success());
    }
}

/// Growing a file beyond the limit is an error of the statement.
#[test]
fn a_limit_of_file_sizes_is_an_error_of_the_statement() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let limits = ["--fsize=34000000:34000000"];
    let server = TestServer::try_start_limited(&limits, &data, &["fsync=off"]).expect("starts");
    server.psql("CREATE TABLE t (a int8, b text)").ok();
    let fill = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 60000) g";
    let full = server.psql(fill);
    assert!(!full.status.success());
    assert_eq!(server.psql("SELECT count(*) FROM t").ok().trim(), "0");
    server.psql("INSERT INTO t VALUES (1, 'x')").ok();
    assert!(!server.log().contains("poisoned"), "{}", server.log());
    assert!(server.stop().success());
}

/// A process that does not get its threads says so and ends: it does not wait for threads that are
/// not there.
#[test]
fn a_server_without_address_space_ends_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    for megabytes in [100, 200, 300] {
        let bytes = megabytes << 20;
        let out = Command::new("timeout")
            .args(["-s", "KILL", "30", "prlimit", &format!("--as={bytes}")])
            .arg(server_binary())
            .arg("serve")
            .arg(dir.path().join(format!("data{megabytes}")))
            .args(["--port", "0", "-c", "shared_buffers=16MB"])
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&out.stderr);
        // Killed by `timeout`: it would have stayed.
        assert_ne!(out.status.code(), Some(137), "{megabytes}: {log}");
        assert!(!out.status.success(), "{megabytes}: {log}");
        let says = log.contains("evenkeel: ") || log.contains("memory allocation of");
        assert!(says, "{megabytes}: {log}");
    }
}

#[test]
fn a_server_without_room_for_its_threads_ends_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("evenkeel");
    std::fs::copy(server_binary(), &program).unwrap();
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open_to_all).unwrap();
    for processes in [1, 2, 3, 8] {
        // Root has no such limit, so that another user runs it, who cannot reach root's files.
        let script = "\
            limit=\"prlimit --nproc=$1:$1\"; \
            if [ $(id -u) = 0 ]; then \
                limit=\"setpriv --reuid=61234 --regid=61234 --clear-groups $limit\"; \
            fi; \
            exec timeout -s KILL 30 $limit \"$2\" serve \"$3\" --port 0 -c shared_buffers=8MB";
        let out = Command::new("sh")
            .args(["-c", script, "sh", &processes.to_string()])
            .arg(&program)
            .arg(dir.path().join(format!("data{processes}")))
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            out.status.code(),
            Some(1),
            "{processes}: {}\n{log}",
            out.status
        );
        assert!(
            log.contains("\nevenkeel: ") || log.starts_with("evenkeel: "),
            "{log}"
        );
    }
}
