//! What statements become.

use crate::planner::parse::{Parsed, parse};

fn rewritten(sql: &str) -> String {
    let Ok(Parsed::Sql(mut statement)) = parse(sql) else {
        panic!("parses: {sql}")
    };
    super::rewrite_statement(&mut statement);
    statement.to_string()
}

#[test]
fn statements_without_catalogs_keep_their_shape() {
    for sql in [
        "SELECT a, (SELECT max(b) FROM u WHERE u.a = t.a), NULL, NULL FROM t",
        "SELECT EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t, LATERAL (SELECT t.a AS b) AS l",
        "UPDATE t SET a = a + 1 WHERE b = ANY(ARRAY[1, 2]) RETURNING a::TEXT",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING",
        "SELECT a || b FROM t WHERE a ~ 'x' ORDER BY 1",
    ] {
        assert_eq!(rewritten(sql), sql);
    }
}

#[test]
fn spellings_change_in_any_statement() {
    for (sql, becomes) in [
        (
            "SELECT pg_catalog.lower(a) FROM t",
            "SELECT lower(a) FROM t",
        ),
        (
            "SELECT 1 FROM t WHERE a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default",
            "SELECT 1 FROM t WHERE a ~ 'x'",
        ),
        (
            "SELECT 1 FROM t WHERE a = ANY($1)",
            "SELECT 1 FROM t WHERE ek_any_equal(a, $1)",
        ),
        (
            "SELECT 1 FROM t WHERE a = 't'::regclass",
            "SELECT 1 FROM t WHERE a = regclassin('t')",
        ),
        (
            "SELECT a::pg_catalog.regtype::pg_catalog.text FROM t",
            "SELECT regtypeout(regtypein(a)) AS \"a\" FROM t",
        ),
    ] {
        assert_eq!(rewritten(sql), becomes);
    }
}

#[test]
fn correlated_subqueries_on_catalogs_become_joins() {
    let sql = "SELECT relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace) \
               FROM pg_class";
    assert_eq!(
        rewritten(sql),
        "SELECT \"pg_class\".\"relname\", \"ek1_n\".\"nspname\" FROM pg_class LEFT JOIN \
         pg_namespace AS \"ek1_n\" ON \"ek1_n\".\"oid\" = \"pg_class\".\"relnamespace\""
    );
}

#[test]
fn subqueries_behind_empty_relations_are_null() {
    let sql = "SELECT ARRAY(SELECT rolname FROM pg_roles) AS a FROM pg_policy WHERE polname = 'x'";
    assert_eq!(
        rewritten(sql),
        "SELECT NULL AS a FROM pg_policy WHERE polname = 'x'"
    );
}
