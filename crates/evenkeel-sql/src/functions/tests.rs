use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::{SessionStateBuilder, context::SessionContext};
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

use super::*;
use crate::error::SqlState;
use crate::session::api::Format;
use crate::types::{SqlType, TimeZone};

#[derive(Default)]
struct Settings(Mutex<Vec<(String, String)>>);

impl SettingsAccess for Settings {
    fn get(&self, name: &str) -> Option<String> {
        self.0
            .lock()
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.clone())
    }

    fn set(&self, name: &str, value: &str, _local: bool) -> SqlResult<String> {
        self.0.lock().push((name.to_owned(), value.to_owned()));
        Ok(value.to_owned())
    }

    fn all(&self) -> Vec<(String, String)> {
        self.0.lock().clone()
    }
}

fn vars() -> Arc<SessionVars> {
    Arc::new(SessionVars {
        user: "alice".into(),
        database: "shop".into(),
        backend_pid: 7,
        transaction_ts: 1_700_000_000_000_000,
        statement_ts: 1_700_000_001_000_000,
        cx: TypeContext {
            time_zone: TimeZone::parse("Asia/Kolkata").unwrap(),
            now_micros: 0,
        },
        search_path: vec!["alice".into(), "public".into()],
        settings: Arc::new(Settings::default()),
        catalog: Arc::new(CatalogState::new(1)),
        instance: None,
    })
}

fn context() -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(1);
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    config
        .options_mut()
        .extensions
        .insert(SessionVarsExtension(vars()));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(PgSemantics))
        .build();
    register_all(&mut state).unwrap();
    SessionContext::new_with_state(state)
}

async fn batches(context: &SessionContext, sql: &str) -> SqlResult<Vec<RecordBatch>> {
    Ok(context.sql(sql).await?.collect().await?)
}

/// The first column of each row as text.
async fn column(context: &SessionContext, sql: &str) -> SqlResult<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches(context, sql).await? {
        let ty = SqlType::from_arrow_field(batch.schema().field(0));
        for row in 0..batch.num_rows() {
            let mut out = BytesMut::new();
            let cx = &vars().cx;
            crate::arrow::put_field(batch.column(0), row, ty, Format::Text, cx, &mut out)?;
            let null = out[..4] == [0xff; 4];
            let text = String::from_utf8_lossy(out.get(4..).unwrap_or_default()).into_owned();
            rows.push(if null { "NULL".to_owned() } else { text });
        }
    }
    Ok(rows)
}

async fn value(sql: &str) -> SqlResult<String> {
    Ok(column(&context(), sql).await?.remove(0))
}

#[tokio::test]
async fn sums_and_averages_have_postgres_types() {
    for (sql, expected) in [
        (
            "SELECT sum(a) FROM (VALUES (9223372036854775807), (1)) t(a)",
            "9223372036854775808",
        ),
        ("SELECT sum(a) FROM (VALUES (1::int), (2)) t(a)", "3"),
        (
            "SELECT pg_typeof(sum(a)) FROM (VALUES (1::int)) t(a)",
            "bigint",
        ),
        (
            "SELECT pg_typeof(sum(a)) FROM (VALUES (1::smallint)) t(a)",
            "bigint",
        ),
        (
            "SELECT pg_typeof(sum(a)) FROM (VALUES (1::bigint)) t(a)",
            "numeric",
        ),
        (
            "SELECT max(s) FROM (SELECT sum(a) s FROM (VALUES (2147483647), (2147483647)) t(a) \
             GROUP BY a % 2) u",
            "4294967294",
        ),
        (
            "SELECT max(s) FROM (SELECT sum(a) OVER (ORDER BY a ROWS 1 PRECEDING) s \
             FROM (VALUES (1), (2), (4)) t(a)) u",
            "6",
        ),
        (
            "SELECT avg(a) FROM (VALUES (1), (2)) t(a)",
            "1.5000000000000000",
        ),
        (
            "SELECT pg_typeof(avg(a)) FROM (VALUES (1::int)) t(a)",
            "numeric",
        ),
        (
            "SELECT avg(a) FROM (VALUES (1.5::double precision)) t(a)",
            "1.5",
        ),
        ("SELECT sum(a) + 1 FROM (VALUES (1), (2)) t(a)", "4"),
    ] {
        assert_eq!(value(sql).await.unwrap(), expected, "{sql}");
    }
}

#[tokio::test]
async fn values_are_those_of_postgres() {
    for (sql, expected) in [
        ("SELECT round(2.5)", "3"),
        ("SELECT round(-2.5)", "-3"),
        ("SELECT round(2.5::double precision)", "2"),
        ("SELECT round(3.5::double precision)", "4"),
        ("SELECT round(1234.5678, 2)", "1234.57"),
        ("SELECT round(1234.5678, -2)", "1200"),
        ("SELECT trunc(1.999, 1)", "1.9"),
        ("SELECT 2.5::int", "3"),
        ("SELECT (2.5::double precision)::int", "2"),
        ("SELECT '42'::int + 1", "43"),
        ("SELECT 0.5::double precision::text", "0.5"),
        ("SELECT 100::double precision::text", "100"),
        ("SELECT true::text", "true"),
        ("SELECT now()", "2023-11-15 03:43:20+05:30"),
        ("SELECT current_timestamp", "2023-11-15 03:43:20+05:30"),
        ("SELECT statement_timestamp()", "2023-11-15 03:43:21+05:30"),
        ("SELECT current_date", "2023-11-15"),
        ("SELECT localtimestamp()", "2023-11-15 03:43:20"),
        ("SELECT now()::text", "2023-11-15 03:43:20+05:30"),
        ("SELECT current_database()", "shop"),
        ("SELECT current_user", "alice"),
        ("SELECT current_schema()", "public"),
        ("SELECT current_schemas(true)", "{pg_catalog,public}"),
        ("SELECT pg_backend_pid()", "7"),
        ("SELECT set_config('a.b', 'c', false)", "c"),
        ("SELECT current_setting('a.b', true)", "NULL"),
        ("SELECT pg_typeof(1::smallint)", "smallint"),
        ("SELECT uuid_nil()", "00000000-0000-0000-0000-000000000000"),
        ("SELECT 10.0 / 4", "2.5000000000000000"),
        ("SELECT 10 / 3.0", "3.3333333333333333"),
        ("SELECT -2.0 / 3", "-0.6666666666666667"),
        ("SELECT 7 / 2", "3"),
        ("SELECT -7 % 3", "-1"),
    ] {
        assert_eq!(
            value(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")),
            expected,
            "{sql}"
        );
    }
    assert!(
        value("SELECT version()")
            .await
            .unwrap()
            .starts_with("PostgreSQL 18")
    );
}

#[tokio::test]
async fn overflow_and_division_by_zero_are_errors() {
    let range = SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
    for (sql, state) in [
        ("SELECT a + a FROM (VALUES (2147483647::int)) t(a)", range),
        (
            "SELECT a * a FROM (VALUES (9223372036854775807)) t(a)",
            range,
        ),
        (
            "SELECT a - 1::int FROM (VALUES ((-2147483648)::int)) t(a)",
            range,
        ),
        (
            "SELECT a / 0 FROM (VALUES (1)) t(a)",
            SqlState::DIVISION_BY_ZERO,
        ),
        (
            "SELECT a % 0 FROM (VALUES (1)) t(a)",
            SqlState::DIVISION_BY_ZERO,
        ),
        (
            "SELECT 1::double precision / 0::double precision",
            SqlState::DIVISION_BY_ZERO,
        ),
        (
            "SELECT '1e300'::double precision * '1e300'::double precision",
            range,
        ),
        ("SELECT 3000000000::int", range),
        ("SELECT 'x'::int", SqlState::INVALID_TEXT_REPRESENTATION),
        (
            "SELECT '2024-13-01'::date",
            SqlState::DATETIME_FIELD_OVERFLOW,
        ),
        (
            "SELECT current_setting('no.such')",
            SqlState::UNDEFINED_OBJECT,
        ),
        (
            "SELECT round(1.5::double precision, 1)",
            SqlState::UNDEFINED_FUNCTION,
        ),
    ] {
        let error = value(sql).await.expect_err(sql);
        assert_eq!(error.sqlstate, state, "{sql}: {error}");
    }
}

#[tokio::test]
async fn random_and_uuids_are_new_for_every_row() {
    let context = context();
    for call in [
        "random()",
        "gen_random_uuid()",
        "uuid_generate_v4()",
        "uuid_generate_v1()",
    ] {
        let sql = format!("SELECT {call} FROM (VALUES (1), (2), (3)) t(a)");
        let rows = column(&context, &sql).await.unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows[0] != rows[1] && rows[1] != rows[2], "{call}");
    }
}

#[test]
fn values_of_the_scope_come_before_those_of_a_plan() {
    let mut options = ConfigOptions::new();
    assert!(session_vars(&options).is_err());
    options.extensions.insert(SessionVarsExtension(vars()));
    assert_eq!(session_vars(&options).unwrap().user, "alice");
    let mut other = SessionVars::clone(&vars());
    other.user = "bob".into();
    let user = with_session(&Arc::new(other), || {
        session_vars(&options).unwrap().user.clone()
    });
    assert_eq!(user, "bob");
    assert_eq!(session_vars(&options).unwrap().user, "alice");
}
