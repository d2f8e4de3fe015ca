//! Schemas: what messages say besides their first line, and locks.

use crate::harness::{background, open, run, session, until_blocked};

const USED: &str = "CREATE SCHEMA app; CREATE TABLE app.t (id serial PRIMARY KEY); \
                    CREATE TABLE app.\"Made\" (a int); \
                    CREATE TABLE other (n int DEFAULT nextval('app.t_id_seq'))";

/// Recorded from PostgreSQL 18.
#[tokio::test]
async fn what_a_schema_holds_is_named() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, USED).await.unwrap();
    let error = run(&mut main, "DROP SCHEMA app").await.unwrap_err();
    assert_eq!(
        error.fields.detail.as_deref(),
        Some(
            "table app.t depends on schema app\n\
             default value for column n of table other depends on sequence app.t_id_seq\n\
             table app.\"Made\" depends on schema app"
        )
    );
    assert_eq!(
        error.fields.hint.as_deref(),
        Some("Use DROP ... CASCADE to drop the dependent objects too.")
    );
    main.take_notices();
    run(&mut main, "DROP SCHEMA app CASCADE").await.unwrap();
    let notices = main.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].message, "drop cascades to 3 other objects");
    assert_eq!(
        notices[0].detail.as_deref(),
        Some(
            "drop cascades to table app.t\n\
             drop cascades to default value for column n of table other\n\
             drop cascades to table app.\"Made\""
        )
    );
    let one = "CREATE SCHEMA app; CREATE SEQUENCE app.s; DROP SCHEMA app CASCADE";
    run(&mut main, one).await.unwrap();
    let notices = main.take_notices();
    assert_eq!(notices[0].message, "drop cascades to sequence app.s");
    assert_eq!(notices[0].detail, None);
}

#[tokio::test]
async fn an_error_about_a_table_names_its_schema() {
    let engine = open();
    let mut main = session(&engine);
    let made = "CREATE SCHEMA app; CREATE TABLE app.t (a int PRIMARY KEY CHECK (a > 0))";
    run(&mut main, made).await.unwrap();
    for sql in [
        "INSERT INTO app.t VALUES (NULL)",
        "INSERT INTO app.t VALUES (0)",
        "INSERT INTO app.t VALUES (1), (1)",
    ] {
        let error = run(&mut main, sql).await.unwrap_err();
        let fields = error.fields;
        let names = (fields.schema.as_deref(), fields.table.as_deref());
        assert_eq!(names, (Some("app"), Some("t")), "{sql}");
    }
}

#[tokio::test]
async fn a_schema_waits_for_what_is_made_in_it() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, "CREATE SCHEMA app").await.unwrap();
    run(&mut main, "BEGIN; CREATE TABLE app.t (a int)")
        .await
        .unwrap();
    let dropped = background(&engine, "DROP SCHEMA app");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    let error = dropped.await.unwrap().unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "2BP01");
    run(&mut main, "BEGIN; DROP SCHEMA app CASCADE")
        .await
        .unwrap();
    let made = background(&engine, "CREATE TABLE app.u (a int)");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    let error = made.await.unwrap().unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "3F000");
}

#[tokio::test]
async fn a_table_that_leaves_a_schema_is_not_dropped_with_it() {
    let engine = open();
    let mut main = session(&engine);
    let setup = "CREATE SCHEMA app; CREATE SCHEMA kept; CREATE SEQUENCE app.s; \
                 CREATE TABLE app.t (id int PRIMARY KEY); CREATE TABLE c (t int REFERENCES app.t)";
    run(&mut main, setup).await.unwrap();
    let moved = "BEGIN; ALTER TABLE app.t SET SCHEMA kept; ALTER SEQUENCE app.s SET SCHEMA kept";
    run(&mut main, moved).await.unwrap();
    let dropped = background(&engine, "DROP SCHEMA app CASCADE");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    dropped.await.unwrap().unwrap();
    run(&mut main, "SELECT nextval('kept.s')").await.unwrap();
    let error = run(&mut main, "INSERT INTO c VALUES (1)")
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "23503");
}

/// Recorded from PostgreSQL 18.
#[tokio::test]
async fn a_relation_that_goes_with_its_table_is_not_moved_alone() {
    let engine = open();
    let mut main = session(&engine);
    let setup = "CREATE SCHEMA app; CREATE TABLE t (id serial PRIMARY KEY)";
    run(&mut main, setup).await.unwrap();
    let error = run(&mut main, "ALTER SEQUENCE t_id_seq SET SCHEMA app")
        .await
        .unwrap_err();
    let detail = "Sequence \"t_id_seq\" is linked to table \"t\".";
    assert_eq!(error.fields.detail.as_deref(), Some(detail));
    let error = run(&mut main, "ALTER TABLE t_pkey SET SCHEMA app")
        .await
        .unwrap_err();
    let hint = "Change the schema of the table instead.";
    assert_eq!(error.fields.hint.as_deref(), Some(hint));
}
