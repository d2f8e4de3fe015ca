//! Prepared statements as the extended protocol uses them.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_sql::{Format, Session, SqlResult, StatementResult, TransactionStatus};

use crate::harness::{open, run, session};

async fn execute(session: &mut Session, sql: &str, params: &[&str]) -> SqlResult<Vec<Vec<u8>>> {
    let prepared = session.prepare(sql, &[]).await?;
    let params: Vec<Option<Bytes>> = params
        .iter()
        .map(|text| Some(Bytes::copy_from_slice(text.as_bytes())))
        .collect();
    let result = session
        .execute(&prepared, &params, &[], &[Format::Binary])
        .await?;
    let mut rows = Vec::new();
    if let StatementResult::Rows(mut stream) = result {
        while let Some(batch) = stream.next_batch(1).await? {
            rows.extend(batch.iter().map(|row| row.to_vec()));
        }
    }
    session.sync().await?;
    Ok(rows)
}

async fn types(session: &mut Session, sql: &str) -> Vec<u32> {
    session.prepare(sql, &[]).await.unwrap().param_types.clone()
}

#[tokio::test]
async fn parameters_take_their_types_from_their_places() {
    let engine = open();
    let mut main = session(&engine);
    let create = "CREATE TABLE t (a int, b bigint, c text, d timestamp, e numeric(8,2), f bool, \
                  PRIMARY KEY (a, b))";
    run(&mut main, create).await.unwrap();
    for (sql, expected) in [
        ("SELECT c FROM t WHERE a = $1 AND b > $2", vec![23, 20]),
        (
            "UPDATE t SET b = b + $1, c = $2 WHERE a = $3",
            vec![20, 25, 23],
        ),
        (
            "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)",
            vec![23, 20, 25, 1114, 1700, 16],
        ),
        (
            "SELECT count(*) FROM t WHERE d < $1 AND f = $2",
            vec![1114, 16],
        ),
        ("SELECT $1::int + 1, $2", vec![23, 25]),
        (
            "SELECT * FROM t WHERE a IN ($1, $2) LIMIT $3",
            vec![23, 23, 20],
        ),
        (
            "DELETE FROM t WHERE a = $1 AND b = (SELECT max(b) FROM t WHERE a = $2)",
            vec![23, 23],
        ),
        ("SELECT generate_series(1, $1)", vec![23]),
        (
            "SELECT generate_series($1, 5::bigint, $2) * 2",
            vec![20, 20],
        ),
        (
            "SELECT generate_series(a, $1), generate_series($2::int, $3) FROM t",
            vec![23, 23, 23],
        ),
    ] {
        assert_eq!(types(&mut main, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn values_go_both_ways_in_both_formats() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int PRIMARY KEY, b bigint)")
        .await
        .unwrap();
    execute(&mut main, "INSERT INTO t VALUES ($1, $2)", &["7", "8"])
        .await
        .unwrap();
    let rows = execute(&mut main, "SELECT a, b FROM t WHERE a = $1", &["7"])
        .await
        .unwrap();
    let expected = [
        &[0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 8][..],
        &8i64.to_be_bytes()[..],
    ]
    .concat();
    assert_eq!(rows, [expected]);
    let prepared = main
        .prepare("SELECT b FROM t WHERE a = $1", &[])
        .await
        .unwrap();
    let seven = [Some(Bytes::copy_from_slice(&7i32.to_be_bytes()))];
    let result = main
        .execute(&prepared, &seven, &[Format::Binary], &[])
        .await
        .unwrap();
    let StatementResult::Rows(mut rows) = result else {
        panic!("rows")
    };
    assert_eq!(
        rows.next_batch(9).await.unwrap().unwrap()[0][..],
        b"\0\0\0\x018"[..]
    );
    main.sync().await.unwrap();
    let error = main.execute(&prepared, &[], &[], &[]).await.err().unwrap();
    assert_eq!(error.sqlstate.as_str(), "42P02");
}

#[tokio::test]
async fn sets_in_a_select_list_take_parameters_and_have_types() {
    let engine = open();
    let mut main = session(&engine);
    let create = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    run(&mut main, create).await.unwrap();
    for (sql, params, types, expected) in [
        ("SELECT generate_series(1, $1)", &["3"][..], vec![23], 3),
        (
            "SELECT generate_series(1, $1), a FROM t",
            &["3"],
            vec![23, 23],
            6,
        ),
        ("SELECT generate_series(1, $1) FROM t", &["0"], vec![23], 0),
        (
            "SELECT generate_series(1, 10, $1::bigint)",
            &["2"],
            vec![20],
            5,
        ),
        (
            "SELECT generate_series(1, $1), generate_series(2, $2)",
            &["1", "5"],
            vec![23, 23],
            4,
        ),
    ] {
        let prepared = main.prepare(sql, &[]).await.unwrap();
        let columns = prepared.columns.as_ref().unwrap();
        let given: Vec<u32> = columns.iter().map(|column| column.type_oid).collect();
        assert_eq!(given, types, "{sql}");
        let rows = execute(&mut main, sql, params).await.unwrap();
        assert_eq!(rows.len(), expected, "{sql}");
        let name = &*columns[0].name;
        assert_eq!(name, "generate_series", "{sql}");
    }
    execute(
        &mut main,
        "INSERT INTO t SELECT generate_series($1::int, $2)",
        &["3", "7"],
    )
    .await
    .unwrap();
    let (rows, _) = run(&mut main, "SELECT count(*) FROM t").await.unwrap();
    assert_eq!(rows, ["7"]);
}

#[tokio::test]
async fn a_prepared_statement_follows_its_table() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1)",
    )
    .await
    .unwrap();
    let prepared = main.prepare("SELECT * FROM t", &[]).await.unwrap();
    run(
        &mut main,
        "DROP TABLE t; CREATE TABLE t (a int); INSERT INTO t VALUES (2)",
    )
    .await
    .unwrap();
    let result = main.execute(&prepared, &[], &[], &[]).await.unwrap();
    let StatementResult::Rows(mut rows) = result else {
        panic!("rows")
    };
    assert_eq!(
        rows.next_batch(9).await.unwrap().unwrap()[0][..],
        b"\0\0\0\x012"[..]
    );
    main.sync().await.unwrap();
    run(&mut main, "DROP TABLE t; CREATE TABLE t (a text)")
        .await
        .unwrap();
    let error = main.execute(&prepared, &[], &[], &[]).await.err().unwrap();
    assert_eq!(&*error.message, "cached plan must not change result type");
    run(&mut main, "DROP TABLE t").await.unwrap();
    let error = main.execute(&prepared, &[], &[], &[]).await.err().unwrap();
    assert_eq!(error.sqlstate.as_str(), "42P01");
}

#[tokio::test]
async fn a_failed_result_fails_the_block() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "BEGIN").await.unwrap();
    let sql = "SELECT 10 / (5 - i) FROM generate_series(1, 9) i";
    let prepared = main.prepare(sql, &[]).await.unwrap();
    let result = main.execute(&prepared, &[], &[], &[]).await.unwrap();
    let StatementResult::Rows(mut rows) = result else {
        panic!("rows")
    };
    let failed = loop {
        match rows.next_batch(1).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a division by zero"),
            Err(error) => break error,
        }
    };
    assert_eq!(failed.sqlstate.as_str(), "22012");
    main.sync().await.unwrap();
    assert_eq!(main.status(), TransactionStatus::Failed);
    run(&mut main, "ROLLBACK").await.unwrap();
    assert_eq!(main.status(), TransactionStatus::Idle);
}

#[tokio::test]
async fn statements_until_sync_are_one_transaction() {
    let engine = open();
    let mut main = session(&engine);
    let mut other = session(&engine);
    run(&mut main, "CREATE TABLE t (a int PRIMARY KEY)")
        .await
        .unwrap();
    let insert = main
        .prepare("INSERT INTO t VALUES ($1)", &[])
        .await
        .unwrap();
    let one = [Some(Bytes::from_static(b"1"))];
    main.execute(&insert, &one, &[], &[]).await.unwrap();
    assert_eq!(
        run(&mut other, "SELECT count(*) FROM t").await.unwrap().0,
        ["0"]
    );
    assert!(main.execute(&insert, &one, &[], &[]).await.is_err());
    main.sync().await.unwrap();
    assert_eq!(
        run(&mut other, "SELECT count(*) FROM t").await.unwrap().0,
        ["0"]
    );
    main.execute(&insert, &one, &[], &[]).await.unwrap();
    main.sync().await.unwrap();
    assert_eq!(
        run(&mut other, "SELECT count(*) FROM t").await.unwrap().0,
        ["1"]
    );
}

#[tokio::test]
async fn a_cancel_request_between_parse_and_execute_is_not_lost() {
    let engine = open();
    let mut main = session(&engine);
    let sql = "CREATE TABLE t (n int); INSERT INTO t VALUES (1)";
    run(&mut main, sql).await.unwrap();
    let handle = Arc::clone(main.backend());
    let sum = "SELECT sum(n) FROM t";
    let prepared = main.prepare(sum, &[]).await.unwrap();
    handle.cancel();
    let outcome = match main.execute(&prepared, &[], &[], &[]).await {
        Ok(StatementResult::Rows(mut rows)) => rows.next_batch(1).await.map(drop),
        other => other.map(drop),
    };
    assert_eq!(outcome.unwrap_err().sqlstate.as_str(), "57014");
    main.sync().await.unwrap();
    // One that comes while nothing runs is dropped.
    main.wait_for_client();
    handle.cancel();
    let prepared = main.prepare(sum, &[]).await.unwrap();
    main.wait_for_client();
    handle.cancel();
    let result = main.execute(&prepared, &[], &[], &[]).await.unwrap();
    let StatementResult::Rows(mut rows) = result else {
        panic!("no rows");
    };
    assert_eq!(rows.next_batch(1).await.unwrap().unwrap().len(), 1);
}
