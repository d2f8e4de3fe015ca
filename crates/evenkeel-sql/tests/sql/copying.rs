//! COPY FROM as clients send it, and what may not come in.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_sql::{CopyFormat, Format, Session, SqlError, StatementResult};

use crate::harness::{open, run, session};

pub async fn begin(session: &mut Session, sql: &str) {
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

/// A row of every type.
const ROW: &str = r#"SELECT 7::int2 AS a, -8::int4 AS b, 9::int8 AS c, 1.5::float4 AS d, 'NaN'::float8 AS e,
    -12345.678::numeric AS f, 'é'::text AS g, 'ab'::char(3) AS h, true AS i, '\x00ff'::bytea AS j,
    '2020-02-29'::date AS k, '12:34:56.7'::time AS l, '2020-02-29 12:34:56'::timestamp AS m,
    '2020-02-29 12:34:56+00'::timestamptz AS n, '1 mon 2 days 3 sec'::interval AS o,
    '6e8bc430-9c3a-11d9-9669-0800200c9a66'::uuid AS p, '{"a":1}'::json AS q,
    '{"a":1}'::jsonb AS r, '{1,NULL,3}'::int4[] AS s, NULL::text AS t, 5::oid AS u"#;

/// The row as PostgreSQL 18's COPY TO STDOUT (FORMAT binary) writes it.
const BINARY: &str = "5047434f50590aff0d0a000000000000000000001500000002000700000004fffffff800000008000000000000\
    0009000000043fc00000000000087ff80000000000000000000e0003000140000003000109291a7c00000002c3\
    a90000000361622000000001010000000200ff0000000400001cc4000000080000000a8be4ca60000000080002\
    42b4f33f9c0000000008000242b4f33f9c000000001000000000002dc6c00000000200000001000000106e8bc4\
    309c3a11d996690800200c9a66000000077b2261223a317d00000009017b2261223a20317d0000002800000001\
    000000010000001700000003000000010000000400000001ffffffff0000000400000003ffffffff0000000400\
    000005ffff";

async fn copied_out(session: &mut Session, sql: &str) -> Vec<u8> {
    let mut query = session.simple(sql);
    let mut data = Vec::new();
    while let Some(result) = session.next_result(&mut query).await.unwrap() {
        if let StatementResult::CopyOut(mut out) = result {
            let binary = sql.to_lowercase().contains("binary");
            assert_eq!(out.format() == CopyFormat::Binary, binary);
            while let Some(chunk) = out.next_chunk().await.unwrap() {
                chunk
                    .messages()
                    .for_each(|message| data.extend_from_slice(message));
            }
        }
    }
    data
}

#[tokio::test]
async fn the_binary_format_is_postgresqls_in_both_directions() {
    let engine = open();
    let mut main = session(&engine);
    let out = format!("COPY ({ROW}) TO STDOUT (FORMAT binary)");
    let data = copied_out(&mut main, &out).await;
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, BINARY);
    let empty = format!("CREATE TABLE t AS {ROW}; TRUNCATE t");
    run(&mut main, &empty).await.unwrap();
    for piece in [1, 7, data.len()] {
        begin(&mut main, "COPY BINARY t FROM STDIN").await;
        for piece in data.chunks(piece) {
            main.copy_data(piece).await.unwrap();
        }
        assert_eq!(main.copy_done().await.unwrap(), "COPY 1");
    }
    // Without the end's mark, as libraries that cannot know it send it.
    begin(&mut main, "COPY t FROM STDIN (FORMAT binary)").await;
    main.copy_data(&data[..data.len() - 2]).await.unwrap();
    assert_eq!(main.copy_done().await.unwrap(), "COPY 1");
    let back = copied_out(&mut main, "COPY (SELECT * FROM t LIMIT 1) TO STDOUT BINARY").await;
    assert_eq!(back, data);
}

#[tokio::test]
async fn data_that_is_no_binary_copy_is_refused() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int4, b text)")
        .await
        .unwrap();
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".as_slice();
    let with = |rest: &[u8]| [header, rest].concat();
    let row: &[u8] = &[0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'x'];
    let cases: [(Vec<u8>, &str, Option<&str>); 9] = [
        (
            b"1\tx\n".to_vec(),
            "COPY file signature not recognized",
            None,
        ),
        (Vec::new(), "COPY file signature not recognized", None),
        (
            header[..12].to_vec(),
            "invalid COPY file header (missing flags)",
            None,
        ),
        (
            header[..16].to_vec(),
            "invalid COPY file header (missing length)",
            None,
        ),
        (
            with(&[0, 1]),
            "row field count is 1, expected 2",
            Some("COPY t, line 1"),
        ),
        (
            with(&row[..9]),
            "unexpected EOF in COPY data",
            Some("COPY t, line 1"),
        ),
        (
            with(&[0, 2, 0xff, 0xff, 0xff, 0xfe]),
            "invalid field size",
            Some("COPY t, line 1"),
        ),
        (
            with(&[row, &[0xff, 0xff, 0]].concat()),
            "received copy data after EOF marker",
            Some("COPY t, line 2"),
        ),
        (
            with(&[row, &[0, 2, 0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff]].concat()),
            "",
            Some("COPY t, line 2, column a"),
        ),
    ];
    for (data, message, context) in cases {
        begin(&mut main, "COPY t FROM STDIN (FORMAT binary)").await;
        let error = match main.copy_data(&data).await {
            Ok(()) => main.copy_done().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.message.contains(message), "{}", error.message);
        assert_eq!(error.fields.context.as_deref(), context, "{message}");
        let (rows, _) = run(&mut main, "SELECT count(*) FROM t").await.unwrap();
        assert_eq!(rows, ["0"]);
    }
}

#[tokio::test]
async fn rows_that_are_passed_over_are_told_of() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE t (a int)").await.unwrap();
    begin(
        &mut main,
        "COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose)",
    )
    .await;
    main.copy_data(b"1\nx\n2\n").await.unwrap();
    assert_eq!(main.copy_done().await.unwrap(), "COPY 2");
    let texts = main.take_notices().into_iter().map(|notice| notice.message);
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "skipping row due to data type incompatibility at line 2 for column \"a\": \"x\"",
            "1 row was skipped due to data type incompatibility"
        ]
    );
}

/// The answer is PostgreSQL's.
#[tokio::test]
async fn values_that_read_as_names_are_copied_out_as_names() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE TABLE nam (c regclass, cs regclass[])")
        .await
        .unwrap();
    run(
        &mut main,
        "INSERT INTO nam VALUES ('nam', '{nam,NULL,pg_class}')",
    )
    .await
    .unwrap();
    let out = copied_out(&mut main, "COPY nam TO STDOUT").await;
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "nam\t{nam,NULL,pg_class}\n"
    );
    let csv = "COPY (SELECT c, cs, 'int4'::regtype FROM nam) TO STDOUT WITH CSV";
    let out = copied_out(&mut main, csv).await;
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "nam,\"{nam,NULL,pg_class}\",integer\n"
    );
    let binary = copied_out(
        &mut main,
        "COPY (SELECT 23::regtype) TO STDOUT (FORMAT binary)",
    )
    .await;
    assert!(
        binary
            .windows(8)
            .any(|bytes| bytes == [0, 0, 0, 4, 0, 0, 0, 23])
    );
}
