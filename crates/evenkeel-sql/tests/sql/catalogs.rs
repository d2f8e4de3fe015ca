//! Catalogs: their rows are found by their keys as they are found among all.

use crate::harness::{open, run, session};

/// Relations with the columns by which their rows are found, and whether each is unique.
const KEYS: [(&str, &str, bool); 15] = [
    ("pg_class", "oid", true),
    ("pg_class", "relname", false),
    ("pg_attribute", "attrelid", false),
    ("pg_attrdef", "adrelid", false),
    ("pg_type", "oid", true),
    ("pg_type", "typname", false),
    ("pg_proc", "oid", true),
    ("pg_proc", "proname", false),
    ("pg_namespace", "nspname", true),
    ("pg_index", "indexrelid", true),
    ("pg_index", "indrelid", false),
    ("pg_constraint", "oid", true),
    ("pg_constraint", "conrelid", false),
    ("pg_depend", "objid", false),
    ("pg_collation", "oid", true),
];

#[tokio::test]
async fn rows_of_catalogs_are_found_by_their_keys() {
    let engine = open();
    let mut session = session(&engine);
    let tables = "CREATE TABLE a (x serial PRIMARY KEY, y text NOT NULL UNIQUE, CHECK (x > 0)); \
                  CREATE TABLE b (x int DEFAULT 7, y int)";
    run(&mut session, tables).await.unwrap();
    for (relation, column, unique) in KEYS {
        // Each row is looked up for a row of the same relation, by key and by comparing all.
        let joined = format!(
            "SELECT count(*) FROM (SELECT {column} AS k FROM {relation} LIMIT 300) o, {relation} r \
             WHERE r.{column} = o.k"
        );
        let ways = [
            "SET enable_hashjoin = off; SET enable_material = off",
            "SET enable_indexscan = off; SET enable_hashjoin = on",
        ];
        let mut answers = Vec::new();
        for way in ways {
            run(&mut session, way).await.unwrap();
            answers.push(run(&mut session, &joined).await.unwrap().0);
            let reset = "RESET enable_hashjoin; RESET enable_material; RESET enable_indexscan";
            run(&mut session, reset).await.unwrap();
        }
        assert_eq!(answers[0], answers[1], "{relation}.{column}");
        assert_ne!(answers[0], ["0"], "{relation}.{column} is of no row");
        let twice = format!("SELECT {column} FROM {relation} GROUP BY 1 HAVING count(*) > 1");
        let (twice, _) = run(&mut session, &twice).await.unwrap();
        assert!(
            !unique || twice.is_empty(),
            "{relation}.{column}: {twice:?}"
        );
    }
}

#[tokio::test]
async fn a_catalog_is_searched_by_its_key() {
    let engine = open();
    let mut session = session(&engine);
    run(&mut session, "CREATE TABLE t (a int)").await.unwrap();
    for (sql, index) in [
        (
            "SELECT relkind FROM pg_class WHERE oid = 't'::regclass",
            "pg_class_oid_index",
        ),
        (
            "SELECT 1 FROM pg_class WHERE relname = 't'",
            "pg_class_relname_nsp_index",
        ),
        (
            "SELECT 1 FROM pg_class WHERE relname = 't'::varchar",
            "pg_class_relname_nsp_index",
        ),
        (
            "SELECT 1 FROM pg_type WHERE oid = ANY ('{20,23}')",
            "pg_type_oid_index",
        ),
    ] {
        let (plan, _) = run(&mut session, &format!("EXPLAIN {sql}")).await.unwrap();
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:?}");
    }
    // A change of the transaction is seen at once, and goes with it.
    let of_t = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'u'::regclass AND attnum > 0";
    run(&mut session, "BEGIN; CREATE TABLE u (a int, b int)")
        .await
        .unwrap();
    assert_eq!(run(&mut session, of_t).await.unwrap().0, ["2"]);
    run(&mut session, "ROLLBACK").await.unwrap();
    let (left, _) = run(
        &mut session,
        "SELECT count(*) FROM pg_class WHERE relname = 'u'",
    )
    .await
    .unwrap();
    assert_eq!(left, ["0"]);
}
