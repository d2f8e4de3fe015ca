//! COPY FROM as clients send it, and what may not come in.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_sql::{Format, Session, SqlError, StatementResult};

use crate::harness::{open, run, session};

async fn begin(session: &mut Session, sql: &str) {
    let mut query = session.simple(sql);
    while let Some(result) = session.next_result(&mut query).await.unwrap() {
        if let StatementResult::CopyIn(_) = result {
            return;
        }
    }
    panic!("no COPY FROM in {sql}");
}

fn described(error: &SqlError) -> (&str, &str) {
    (error.sqlstate.as_str(), &error.message)
}

#[tokio::test]
async fn a_cancelled_copy_ends_with_its_next_piece_of_data() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int)").await.unwrap();
    begin(&mut main, "COPY t FROM STDIN (FORMAT csv)").await;
    // Nothing is stored while a quote is open.
    main.copy_data(b"\"1\n2\n").await.unwrap();
    main.backend().cancel();
    let error = main.copy_data(b"3\n").await.unwrap_err();
    let wanted = ("57014", "canceling statement due to user request");
    assert_eq!(described(&error), wanted);
    let (rows, _) = run(&mut main, "SELECT count(*) FROM t").await.unwrap();
    assert_eq!(rows, ["0"]);
}

#[tokio::test]
async fn the_time_limit_of_a_copy_is_that_of_its_data() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int)").await.unwrap();
    run(&mut main, "SET statement_timeout = 30").await.unwrap();
    begin(&mut main, "COPY t FROM STDIN").await;
    main.copy_data(b"1\n").await.unwrap();
    let mut failure = None;
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if let Err(error) = main.copy_data(b"2\n").await {
            failure = Some(error);
            break;
        }
    }
    let error = failure.unwrap();
    let wanted = ("57014", "canceling statement due to statement timeout");
    assert_eq!(described(&error), wanted);
    // The next statement has a time of its own.
    begin(&mut main, "SET statement_timeout = 0; COPY t FROM STDIN").await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    main.copy_data(b"1\n").await.unwrap();
    main.backend().cancel();
    let error = main.copy_data(b"2\n").await.unwrap_err();
    let wanted = ("57014", "canceling statement due to user request");
    assert_eq!(described(&error), wanted);
}

#[tokio::test]
async fn another_statement_ends_a_copy_that_has_not_ended() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int)").await.unwrap();
    begin(&mut main, "COPY t FROM STDIN").await;
    main.copy_data(b"1\n").await.unwrap();
    let (rows, _) = run(&mut main, "SELECT count(*) FROM t").await.unwrap();
    assert_eq!(rows, ["0"]);
    let error = main.copy_data(b"2\n").await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "XX000");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused_by_copy() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a text PRIMARY KEY)")
        .await
        .unwrap();
    for (options, data, bytes) in [
        ("", &b"a\0b\n"[..], "0x00"),
        ("(FORMAT csv)", b"a\0b\n", "0x00"),
        ("(FORMAT csv)", b"\"\0\"\n", "0x00"),
        ("", b"a\xff\n", "0xff"),
        ("", b"\xe2\x28\xa1\n", "0xe2 0x28 0xa1"),
    ] {
        begin(&mut main, &format!("COPY t FROM STDIN {options}")).await;
        let error = main.copy_data(data).await.unwrap_err();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {bytes}");
        assert_eq!(described(&error), ("22021", &*message));
        let place = error.fields.context.as_deref();
        assert_eq!(place, Some("COPY t, line 1"), "{options}");
    }
}

#[tokio::test]
async fn no_parameter_brings_a_zero_byte_in() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE t (a text PRIMARY KEY, b varchar(5))",
    )
    .await
    .unwrap();
    for sql in [
        "INSERT INTO t VALUES ($1, NULL)",
        "INSERT INTO t VALUES ('x', $1)",
        "SELECT $1::bytea",
        "SELECT * FROM t WHERE a = $1",
    ] {
        let prepared = main.prepare(sql, &[]).await.unwrap();
        for format in [Format::Text, Format::Binary] {
            let value = Some(Bytes::from_static(b"a\0b"));
            let result = main.execute(&prepared, &[value], &[format], &[]).await;
            if sql.contains("bytea") && format == Format::Binary {
                assert!(result.is_ok());
                continue;
            }
            let error = result.err().unwrap();
            let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
            assert_eq!(described(&error), ("22021", message), "{sql}");
        }
        main.sync().await.unwrap();
    }
    let (rows, _) = run(&mut main, "SELECT count(*) FROM t").await.unwrap();
    assert_eq!(rows, ["0"]);
}
