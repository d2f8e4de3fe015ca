//! Stock pgbench: loads, every built-in script in every protocol mode, and the sums afterwards.

use evenkeel_tests::server::TestServer;

fn money(server: &TestServer) -> String {
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(tbalance) FROM pgbench_tellers), \
                (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
    server.psql(sums).ok().trim().to_owned()
}

/// TPC-B moves the same amount in all four tables.
fn assert_books_balance(server: &TestServer) {
    let sums = money(server);
    let mut columns = sums.split('|');
    let first = columns.next().expect("four sums");
    assert!(
        columns.all(|sum| sum == first),
        "the books do not balance: {sums}"
    );
}

#[test]
fn every_script_runs_in_every_protocol_mode_and_the_books_balance() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let loaded = server.pgbench(&["-i", "-s", "1"]);
    assert!(loaded.stderr.contains("done in"), "{}", loaded.stderr);
    loaded.ok();
    let accounts = server
        .psql("SELECT count(*), min(aid), max(aid) FROM pgbench_accounts")
        .ok();
    assert_eq!(accounts.trim(), "100000|1|100000");
    for script in ["tpcb-like", "select-only"] {
        for protocol in ["simple", "extended", "prepared"] {
            for clients in ["1", "8"] {
                let run = [
                    "-n", "-b", script, "-M", protocol, "-c", clients, "-j", "2", "-t", "50",
                ];
                let output = server.pgbench(&run);
                let expected = "number of failed transactions: 0 (0.000%)";
                let text = format!("{}{}", output.stdout, output.stderr);
                assert!(
                    text.contains(expected),
                    "{script} {protocol} {clients}: {text}"
                );
                output.ok();
            }
        }
    }
    assert_books_balance(&server);
    // -N leaves tellers and branches alone, so it comes after the sums.
    server
        .pgbench(&[
            "-n", "-N", "-M", "prepared", "-c", "64", "-j", "2", "-t", "20",
        ])
        .ok();
    server.psql("VACUUM FREEZE").ok();
    server.psql("CHECKPOINT").ok();
    let accounts = server.psql("SELECT count(*) FROM pgbench_accounts").ok();
    assert_eq!(accounts.trim(), "100000");
    assert!(server.stop().success());
}

#[test]
fn pgbench_loads_on_the_server_side_and_with_a_fillfactor_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server
        .pgbench(&["-i", "-I", "dtGvp", "-s", "1", "-F", "90"])
        .ok();
    let accounts = server
        .psql("SELECT count(*), sum(bid) FROM pgbench_accounts")
        .ok();
    assert_eq!(accounts.trim(), "100000|100000");
    server.pgbench(&["-n", "-c", "4", "-t", "50"]).ok();
    assert_books_balance(&server);
}
