//! Statements by class: each maker gives another one at every call.

use std::path::Path;
use std::sync::LazyLock;

use rand::Rng;
use rand::rngs::SmallRng;

/// The tables that the statements use.
pub const TABLES: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b int, c text);
    INSERT INTO t SELECT g, g % 100, 'row ' || g FROM generate_series(1, 20000) g;
    CREATE TABLE kinds (i int, n numeric, f float8, s text, d timestamp, j jsonb, x int[], u uuid);
    INSERT INTO kinds SELECT g, g * 1.5, g / 3.0, 'k' || g,
        timestamp '2000-01-01' + g * interval '1 day',
        '{\"a\": [1, 2, {\"b\": null}]}', ARRAY[g, g + 1], NULL FROM generate_series(1, 500) g";

type Maker = fn(&mut SmallRng) -> String;

/// Every class.
pub const CLASSES: [(&str, Maker); 25] = [
    ("nested", nested),
    ("chain", chain),
    ("list", list),
    ("ctes", ctes),
    ("joins", joins),
    ("views", views),
    ("from", subselects),
    ("giant", giant),
    ("mutated", mutated),
    ("endless", endless),
    ("recursive", recursive),
    ("windows", windows),
    ("wide table", wide_table),
    ("literals", literals),
    ("catalog", catalog),
    ("parameters", parameters),
    ("calls", calls),
    ("soup", soup),
    ("mutated", mutated),
    ("cursors", cursors),
    ("grouping", grouping),
    ("changes", changes),
    ("regex", regex),
    ("calls", calls),
    ("mutated", mutated),
];

/// How many statements a text may hold: each has its own timeout.
pub fn statements_in(sql: &str) -> u32 {
    1 + (sql.matches(';').count() as u32).min(500)
}

fn one<'a>(rng: &mut SmallRng, of: &[&'a str]) -> &'a str {
    of[rng.random_range(0..of.len())]
}

/// Words of SQL, one a line.
const FUNCTIONS: &str = include_str!("words/functions.txt");
const VALUES: &str = include_str!("words/values.txt");
const OPERATORS: &str = include_str!("words/operators.txt");
const TOKENS: &str = include_str!("words/tokens.txt");
const TYPES: &str = include_str!("words/types.txt");
const PIECES: &str = include_str!("words/pieces.txt");
const PATTERNS: &str = include_str!("words/patterns.txt");
const CATALOGS: &str = include_str!("words/catalogs.txt");

fn word(rng: &mut SmallRng, list: &'static str) -> &'static str {
    let number = rng.random_range(0..list.lines().count());
    list.lines().nth(number).unwrap_or_default()
}

/// Small numbers as often as large ones.
fn size(rng: &mut SmallRng, most: usize) -> usize {
    let log = rng.random_range(0.0..(most as f64).ln());
    log.exp() as usize + 1
}

fn joined(count: usize, between: &str, term: impl Fn(usize) -> String) -> String {
    (0..count).map(term).collect::<Vec<_>>().join(between)
}

/// The text that opens and closes each construct that may stand in itself.
const RECURSIVE: [(&str, &str); 38] = [
    ("(", ")"),
    ("- ", ""),
    ("+", ""),
    ("~", ""),
    ("NOT (1 = ", ")::int::bool::int::bool::int"),
    ("abs(", ")"),
    ("length(", "::text)"),
    ("coalesce(", ", 1)"),
    ("coalesce(NULL, ", ")"),
    ("nullif(", ", 0)"),
    ("greatest(1, ", ")"),
    ("CASE WHEN true THEN ", " ELSE 1 END"),
    ("CASE ", " WHEN 1 THEN 1 ELSE 2 END"),
    ("CASE WHEN 1 = ", " THEN 1 END"),
    ("ARRAY[", "]"),
    ("(ARRAY[", "])[1]"),
    ("ROW(", ")"),
    ("(ROW(", ", 1) IS NULL)::int"),
    ("(SELECT ", ")"),
    ("(SELECT 1 WHERE 1 = ", ")"),
    ("(SELECT max(b) FROM t WHERE a = ", ")"),
    ("(EXISTS (SELECT ", "))::int"),
    ("CAST(", " AS int)"),
    ("CAST(", " AS numeric(20, 5))"),
    ("(1 IN (", "))::int"),
    ("(1 = ANY (ARRAY[", "]))::int"),
    ("(1 BETWEEN 0 AND ", ")::int"),
    ("(", " IS DISTINCT FROM 1)::int"),
    ("(", " COLLATE \"C\")"),
    ("lower(", "::text)"),
    ("replace(", "::text, '1', '11')"),
    ("jsonb_build_object('a', ", ")"),
    ("to_jsonb(", ")"),
    ("array_append(ARRAY[1], ", ")"),
    ("sum(", ")"),
    ("substring(", "::text FROM 1 FOR 2)"),
    ("(VALUES (", "))"),
    ("(1 + (SELECT ", " UNION SELECT 1 LIMIT 1))"),
];

fn nested(rng: &mut SmallRng) -> String {
    let depth = size(rng, 20_000);
    let kinds = rng.random_range(1..4);
    let chosen: Vec<_> = (0..kinds)
        .map(|_| RECURSIVE[rng.random_range(0..RECURSIVE.len())])
        .collect();
    let open: String = (0..depth).map(|n| chosen[n % kinds].0).collect();
    let close: String = (0..depth).rev().map(|n| chosen[n % kinds].1).collect();
    // Some are not closed, or closed too often.
    let cut = if rng.random_bool(0.1) {
        close.len() / 2
    } else {
        0
    };
    let inner = one(rng, &["1", "NULL", "'1'", "a", "b", "1.5", "*", "count(*)"]);
    let place = [
        ("SELECT ", ""),
        ("SELECT ", " FROM t WHERE a < 3"),
        ("SELECT a FROM t WHERE 1 = ", ""),
        ("SELECT a FROM t ORDER BY ", " LIMIT 1"),
        ("UPDATE t SET b = ", " WHERE a = -1"),
        ("DELETE FROM t WHERE a = -1 AND 1 = ", ""),
        ("INSERT INTO t (b) SELECT ", " WHERE false"),
        ("SELECT 1 LIMIT ", ""),
        ("EXPLAIN SELECT ", ""),
    ];
    let (before, after) = place[rng.random_range(0..place.len())];
    format!(
        "{before}{open}{inner}{}{after}",
        &close[floor(&close, cut)..]
    )
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn chain(rng: &mut SmallRng) -> String {
    let length = size(rng, 30_000);
    let operator = one(
        rng,
        &[
            " + ",
            " - ",
            " * ",
            " || ",
            " AND ",
            " OR ",
            " = ",
            " < ",
            " <> ",
            "::int::",
            " % ",
            " ^ ",
            " IS NULL AND ",
            " UNION ALL SELECT ",
            " UNION SELECT ",
            " INTERSECT SELECT ",
            " EXCEPT ALL SELECT ",
            ", ",
            ".",
            "[1]",
            " COLLATE ",
            " -> ",
            "; SELECT ",
            " << ",
        ],
    );
    let term = one(
        rng,
        &[
            "1", "a", "b = 1", "'x'", "NULL", "true", "1.5", "a = a", "int", "c",
        ],
    );
    let from = one(
        rng,
        &["", " FROM t WHERE a < 3", " FROM t LIMIT 1", " FROM t"],
    );
    let verb = one(
        rng,
        &[
            "SELECT ",
            "SELECT 1 WHERE ",
            "EXPLAIN SELECT ",
            "SELECT DISTINCT ",
        ],
    );
    let number = rng.random::<bool>();
    let term = |n: usize| match number {
        true if term == "1" => n.to_string(),
        true if term == "b = 1" => format!("b = {n}"),
        _ => term.to_owned(),
    };
    format!("{verb}{}{from}", joined(length, operator, term))
}

fn list(rng: &mut SmallRng) -> String {
    let length = size(rng, 50_000);
    let numbers = joined(length, ", ", |n| n.to_string());
    let texts = joined(length, ", ", |n| format!("'v{n}'"));
    let rows = joined(length, ", ", |n| format!("({n}, {n})"));
    let columns = joined(length, ", ", |n| format!("a + {n}"));
    match rng.random_range(0..14) {
        0 => format!("SELECT count(*) FROM t WHERE a IN ({numbers})"),
        1 => format!("SELECT count(*) FROM t WHERE c IN ({texts})"),
        2 => format!("SELECT count(*) FROM t WHERE (a, b) IN ({rows})"),
        3 => format!("SELECT count(*) FROM (VALUES {rows}) v"),
        4 => format!("SELECT cardinality(ARRAY[{numbers}])"),
        5 => format!("SELECT {columns} FROM t LIMIT 1"),
        6 => format!("SELECT a FROM t ORDER BY {columns} LIMIT 1"),
        7 => format!("SELECT count(*) FROM t GROUP BY {columns}"),
        8 => format!("SELECT concat({texts})"),
        9 => format!("SELECT greatest({numbers})"),
        10 => format!("INSERT INTO t (a, b) VALUES {rows} ON CONFLICT DO NOTHING"),
        11 => format!("SELECT jsonb_build_array({numbers})"),
        12 => format!("SELECT a FROM t WHERE a = ANY ('{{{numbers}}}')"),
        _ => format!("SELECT DISTINCT ON ({columns}) a FROM t"),
    }
}

fn ctes(rng: &mut SmallRng) -> String {
    let length = size(rng, 3000);
    let body = match rng.random_range(0..6) {
        0 => "SELECT a FROM c{p}",
        1 => "SELECT x.a FROM c{p} x JOIN c{p} y ON x.a = y.a",
        2 => "SELECT a FROM c{p} UNION ALL SELECT a + 1 FROM c{p}",
        3 => "SELECT a + 1 AS a FROM c{p} WHERE a IN (SELECT a FROM c{p})",
        4 => "SELECT count(*)::int AS a FROM c{p}, c{p} z",
        _ => "SELECT max(a) OVER () AS a FROM c{p} ORDER BY a",
    };
    let kept = one(rng, &["", "MATERIALIZED ", "NOT MATERIALIZED "]);
    let cte = |n: usize| match n {
        0 => format!("c0 AS {kept}(SELECT 1 AS a)"),
        n => format!(
            "c{n} AS {kept}({})",
            body.replace("{p}", &(n - 1).to_string())
        ),
    };
    let verb = one(rng, &["", "EXPLAIN ", "CREATE TABLE made AS "]);
    let all = joined(length, ", ", cte);
    format!("{verb}WITH {all} SELECT count(*) FROM c{}", length - 1)
}

/// Views over one another, deep in themselves or in number, and one that would read itself.
fn views(rng: &mut SmallRng) -> String {
    let (schema, length) = (rng.random_range(0..1_000_000), size(rng, 130));
    let over = match rng.random_range(0..6) {
        0 => "SELECT * FROM v{p}".to_owned(),
        1 => "SELECT x.a FROM v{p} x JOIN v{p} y ON x.a = y.a".to_owned(),
        2 => "SELECT a FROM v{p} UNION ALL SELECT a FROM v{p}".to_owned(),
        3 => "SELECT a FROM v{p} WHERE a IN (SELECT a FROM v{p})".to_owned(),
        4 => "SELECT max(a) OVER () AS a FROM v{p}".to_owned(),
        _ => format!(
            "SELECT a{} AS a FROM v{{p}}",
            " + 1".repeat(size(rng, 3000))
        ),
    };
    let mut sql = format!(
        "BEGIN; CREATE SCHEMA s{schema}; SET LOCAL search_path = s{schema}, public;
         CREATE VIEW v0 AS SELECT a FROM t WHERE a < 4;"
    );
    for n in 1..length {
        let query = over.replace("{p}", &(n - 1).to_string());
        sql += &format!("CREATE VIEW v{n} AS {query};");
    }
    let last = length - 1;
    let end = one(
        rng,
        &[
            "SELECT count(*) FROM v{l}",
            "EXPLAIN SELECT * FROM v{l}",
            "DROP VIEW v0",
        ],
    );
    let end = end.replace("{l}", &last.to_string());
    format!("{sql} {end}; CREATE OR REPLACE VIEW v0 AS SELECT a FROM v{last}; ROLLBACK")
}

fn joins(rng: &mut SmallRng) -> String {
    let length = size(rng, 400);
    let table = one(
        rng,
        &[
            "t",
            "kinds",
            "(SELECT 1 AS a)",
            "pg_class",
            "generate_series(1, 3)",
        ],
    );
    let kind = rng.random_range(0..6);
    let join = |n: usize| {
        let one = format!("{table} j{n}");
        match (n, kind) {
            (0, _) => one,
            (_, 0) => format!(", {one}"),
            (_, 1) => format!(" NATURAL JOIN {one}"),
            (_, 2) => format!(" JOIN {one} ON j{n} IS NOT NULL"),
            (_, 3) => format!(" LEFT JOIN {one} ON j0 = j{n}"),
            (_, 4) => format!(" CROSS JOIN LATERAL {one}"),
            _ => format!(" FULL JOIN {one} USING (a)"),
        }
    };
    let verb = one(rng, &["", "EXPLAIN "]);
    format!("{verb}SELECT count(*) FROM {}", joined(length, "", join))
}

fn subselects(rng: &mut SmallRng) -> String {
    let depth = size(rng, 3000);
    let (open, close) = [
        ("(SELECT * FROM ", ") s"),
        ("(SELECT DISTINCT * FROM ", ") s"),
        (
            "(SELECT * FROM t WHERE a IN (SELECT a FROM ",
            " LIMIT 1)) s",
        ),
        ("(SELECT *, row_number() OVER () FROM ", ") s"),
        ("(t NATURAL JOIN ", ")"),
        (
            "(SELECT a, b, c FROM t UNION ALL SELECT a, b, c FROM ",
            ") s",
        ),
        ("LATERAL (SELECT * FROM ", " LIMIT 1) s"),
    ][rng.random_range(0..7)];
    format!(
        "SELECT count(*) FROM {}t{}",
        open.repeat(depth),
        close.repeat(depth)
    )
}

fn giant(rng: &mut SmallRng) -> String {
    let n = [
        1000,
        100_000,
        10_000_000,
        300_000_000,
        999_999_999,
        2_147_483_647,
    ][rng.random_range(0..6)];
    let m = size(rng, 100_000);
    let made = match rng.random_range(0..32) {
        0 => format!("repeat('ab', {n})"),
        1 => format!("lpad('x', {n}, 'yz')"),
        2 => format!("rpad('x', -{n}, 'yz')"),
        3 => format!("replace(repeat('x', {m}), 'x', repeat('y', {m}))"),
        4 => format!("array_fill(1, ARRAY[{n}])::text"),
        5 => format!("array_fill('x'::text, ARRAY[{m}, {m}, {m}])::text"),
        6 => format!("repeat('[', {m})::jsonb::text"),
        7 => format!("(repeat('[', {m}) || repeat(']', {m}))::json::text"),
        8 => format!("(repeat('{{\"a\":', {m}) || '1' || repeat('}}', {m}))::jsonb::text"),
        9 => format!("regexp_replace(repeat('a', {m}), '(a*)*b', 'c', 'g')"),
        10 => format!("regexp_replace(repeat('x', {m}), 'x', repeat('y', {m}), 'g')"),
        11 => format!("string_to_array(repeat('a,', {n}), ',')::text"),
        12 => format!("(SELECT array_agg(g) FROM generate_series(1, {n}) g)::text"),
        13 => format!("(SELECT string_agg(repeat('x', {m}), '') FROM generate_series(1, {m}))"),
        14 => format!("format('%{n}s|%-{m}s', 'a', 'b')"),
        15 => format!("to_char({m}, repeat('9', {m}))"),
        16 => format!("to_char(now(), repeat('YYYY ', {n}))"),
        17 => format!("('1e' || {m})::numeric::text"),
        18 => format!("(10::numeric ^ {m})::text"),
        19 => format!("factorial({n})::text"),
        20 => format!("repeat('1', {m})::numeric * repeat('9', {m})::numeric || ''"),
        21 => format!("sqrt(repeat('7', {m})::numeric)::text"),
        22 => format!("(repeat('1', {m})::numeric / 7)::text"),
        23 => format!("translate(repeat('abc', {m}), 'abc', repeat('x', {m}))"),
        24 => format!("array_to_string(array_fill(repeat('x', {m}), ARRAY[{m}]), ',')"),
        25 => format!("encode(decode(repeat('ab', {n}), 'hex'), 'base64')"),
        26 => format!("overlay(repeat('x', {m}) placing repeat('y', {m}) from {n})"),
        27 => format!("(SELECT jsonb_agg(g) FROM generate_series(1, {n}) g)::text"),
        28 => format!(
            "(SELECT json_object_agg(g, repeat('x', {m})) FROM generate_series(1, {m}) g)::text"
        ),
        29 => format!("exp({m}::numeric)::text || ln(repeat('3', {m})::numeric)"),
        30 => format!("power(1.0000001::numeric, {n})::text"),
        _ => format!("round(1.5, {n})::text || trunc(1::numeric, -{n})"),
    };
    let place = one(
        rng,
        &[
            "SELECT length({})",
            "SELECT md5({})",
            "SELECT {} = {}",
            "SELECT length({}) FROM t",
            "SELECT {}",
            "SELECT count(DISTINCT {}) FROM t",
        ],
    );
    place.replace("{}", &made)
}

fn endless(rng: &mut SmallRng) -> String {
    let n = size(rng, 1_000_000);
    let sort = one(
        rng,
        &[
            "ORDER BY x.c, y.c",
            "GROUP BY x.b",
            "ORDER BY random()",
            "",
            "WHERE x.a + y.a < 0",
        ],
    );
    let column = one(
        rng,
        &[
            "x.b",
            "max(x.c)",
            "count(*)",
            "count(DISTINCT y.c)",
            "x.b + y.b",
        ],
    );
    match rng.random_range(0..10) {
        0..4 => format!("SELECT {column}, {n} FROM t x, t y, t z {sort}"),
        4 => format!("SELECT count(*) FROM generate_series(1, {n}00000000) g WHERE g % {n} = 0"),
        5 => format!(
            "SELECT count(*) FROM t x WHERE a IN (SELECT y.a + {n} FROM t y, t z WHERE y.b = x.b)"
        ),
        6 => format!("SELECT string_agg(x.c, ',' ORDER BY y.c, {n}) FROM t x, t y"),
        7 => format!("SELECT x.a FROM t x JOIN t y ON x.c LIKE '%' || y.c || '{n}%'"),
        8 => format!("SELECT DISTINCT x.a, y.a, {n} FROM t x, t y"),
        _ => {
            format!("SELECT x.a FROM t x, t y UNION SELECT y.a + {n} FROM t x, t y EXCEPT SELECT 1")
        }
    }
}

fn recursive(rng: &mut SmallRng) -> String {
    let n = size(rng, 100_000);
    let step = one(rng, &["n + 1", "n", "n * 2", "n + random()", "-n"]);
    let all = one(rng, &["UNION ALL", "UNION"]);
    let from = one(
        rng,
        &[
            "r",
            "r, t",
            "r JOIN t ON t.a = r.n",
            "r WHERE n < 1000000",
            "r, generate_series(1, 3)",
        ],
    );
    let then = one(
        rng,
        &["count(*)", "sum(n)", "array_agg(n)", "n", "max(n::text)"],
    );
    format!(
        "WITH RECURSIVE r(n) AS (SELECT {n}::float8 {all} SELECT {step} FROM {from}) \
         SELECT {then} FROM r"
    )
}

fn windows(rng: &mut SmallRng) -> String {
    let n = size(rng, 10_000_000);
    let call = one(
        rng,
        &[
            "sum(g)",
            "rank()",
            "ntile(7)",
            "lag(g, 1000000)",
            "array_agg(g)",
            "string_agg(g::text, ',')",
            "nth_value(g, 5)",
            "percent_rank()",
            "count(*)",
        ],
    );
    let frame = one(
        rng,
        &[
            "",
            "ORDER BY g",
            "ORDER BY g % 7, g DESC",
            "ORDER BY g ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "ORDER BY g ROWS BETWEEN 1000000 PRECEDING AND 1000000 FOLLOWING",
            "PARTITION BY g % 3 ORDER BY g RANGE BETWEEN 10 PRECEDING AND CURRENT ROW",
            "ORDER BY g GROUPS BETWEEN 5 PRECEDING AND 5 FOLLOWING EXCLUDE TIES",
            "ORDER BY g ROWS BETWEEN -1 PRECEDING AND NULL FOLLOWING",
        ],
    );
    format!(
        "SELECT max(w::text) FROM (SELECT {call} OVER ({frame}) w FROM generate_series(1, {n}) g) s"
    )
}

fn wide_table(rng: &mut SmallRng) -> String {
    let n = size(rng, 6000);
    let name = rng.random_range(0..1_000_000);
    let kind = one(
        rng,
        &[
            "int",
            "text",
            "numeric(10, 2)",
            "int DEFAULT 1",
            "text CHECK (true)",
            "int UNIQUE",
            "serial",
            "jsonb",
            "nosuchtype",
            "int[][][]",
        ],
    );
    let columns = joined(n, ", ", |n| format!("c{n} {kind}"));
    match rng.random_range(0..8) {
        0..3 => format!("CREATE TABLE w{name} ({columns}); DROP TABLE IF EXISTS w{name}"),
        3 => format!(
            "CREATE TABLE w{name} (a int DEFAULT {}1{}); DROP TABLE w{name}",
            "(".repeat(n),
            ")".repeat(n)
        ),
        4 => format!(
            "CREATE INDEX ON t ({})",
            joined(n, ", ", |n| format!("(a + {n})"))
        ),
        5 => format!(
            "CREATE TABLE w{name} AS SELECT {} FROM t LIMIT 1; DROP TABLE w{name}",
            joined(n, ", ", |n| format!("a AS c{n}"))
        ),
        6 => format!(
            "CREATE TABLE w{name} (a int, {}); DROP TABLE w{name}",
            joined(n, ", ", |n| format!("CHECK (a <> {n})"))
        ),
        _ => format!(
            "BEGIN; {} ROLLBACK",
            joined(n.min(500), " ", |n| format!(
                "CREATE TABLE w{name}_{n} (a int PRIMARY KEY);"
            ))
        ),
    }
}

fn literals(rng: &mut SmallRng) -> String {
    let kind = word(rng, TYPES);
    let count = rng.random_range(1..12);
    let text: String = (0..count).map(|_| word(rng, PIECES)).collect();
    let use_it = one(
        rng,
        &["", "::text", "::text::{}::text", " IS NULL", " = NULL"],
    );
    let use_it = use_it.replace("{}", kind);
    format!("SELECT ('{text}'::{kind}){use_it}")
}

fn catalog(rng: &mut SmallRng) -> String {
    let from = word(rng, CATALOGS);
    let other = word(rng, CATALOGS);
    let cast = one(
        rng,
        &[
            "text", "int", "oid", "regclass", "regtype", "name", "jsonb", "numeric", "bool[]",
        ],
    );
    let call = one(
        rng,
        &[
            "pg_get_indexdef",
            "pg_get_constraintdef",
            "format_type",
            "pg_table_size",
            "pg_get_expr",
            "obj_description",
            "pg_relation_filenode",
            "has_table_privilege",
            "to_regclass",
            "pg_get_userbyid",
            "pg_size_pretty",
            "col_description",
            "pg_get_viewdef",
            "pg_get_serial_sequence",
        ],
    );
    let n: i64 =
        [0, -1, 1259, 16_384, 4_294_967_295, i64::MAX, rng.random()][rng.random_range(0..7)];
    match rng.random_range(0..6) {
        0 => format!("SELECT x::{cast} FROM {from} x"),
        1 => format!("SELECT x::text::{cast} FROM {from} x, {other} y LIMIT 5"),
        2 => format!("SELECT {call}({n})"),
        3 => format!("SELECT {call}({n}, {n}), {n}::{cast}"),
        4 => format!("SELECT x.oid::{cast}, {call}(x.oid) FROM {from} x"),
        _ => format!("SELECT count(*), {n} FROM {from} x NATURAL JOIN {other} y"),
    }
}

fn parameters(rng: &mut SmallRng) -> String {
    let n = size(rng, 1_000_000);
    let big = one(
        rng,
        &[
            "65535",
            "65536",
            "2147483648",
            "99999999999",
            "4294967297",
            "0",
        ],
    );
    match rng.random_range(0..6) {
        0 => format!("SELECT ${big}, ${n}"),
        1 => format!("PREPARE p{n} (int) AS SELECT $1 + ${big}; DEALLOCATE p{n}"),
        2 => format!(
            "PREPARE p{n} AS SELECT {}; DEALLOCATE ALL",
            joined(n.min(5000), ", ", |n| format!("${}::int", n + 1))
        ),
        3 => format!(
            "EXECUTE p{n} ({})",
            joined(n.min(20_000), ", ", |n| n.to_string())
        ),
        4 => format!("SELECT {n}{}", "9".repeat(n.min(200_000))),
        _ => format!("SELECT \"{}\"", "n".repeat(n)),
    }
}

/// Every function and operator of the catalog by name, with arguments of any type at the edges.
fn calls(rng: &mut SmallRng) -> String {
    let call = |rng: &mut SmallRng| {
        let name = word(rng, FUNCTIONS);
        let count = rng.random_range(0..5);
        let arguments: Vec<_> = (0..count).map(|_| word(rng, VALUES)).collect();
        format!("{name}({})", arguments.join(", "))
    };
    let first = call(rng);
    let mut second = call(rng);
    if rng.random() {
        second = word(rng, VALUES).to_owned();
    }
    let operator = word(rng, OPERATORS);
    let left = word(rng, VALUES);
    let from = one(
        rng,
        &[
            "",
            " FROM t WHERE a < 3",
            " FROM t LIMIT 2",
            " FROM t GROUP BY b, a, c",
        ],
    );
    match rng.random_range(0..5) {
        0 => format!("SELECT {first}{from}"),
        1 => format!("SELECT * FROM {first} f, {second} g"),
        2 => format!("SELECT {first} {operator} {second}{from}"),
        3 => format!("SELECT {first} OVER (ORDER BY a){from}"),
        _ => format!("SELECT {left} {operator} {second}{from}"),
    }
}

fn soup(rng: &mut SmallRng) -> String {
    let length = size(rng, 2000) + 3;
    let start = one(
        rng,
        &[
            "SELECT",
            "WITH",
            "INSERT INTO t",
            "UPDATE t SET",
            "DELETE FROM t WHERE false AND",
            "CREATE TABLE",
            "MERGE INTO t",
            "EXPLAIN",
            "VALUES",
            "ALTER TABLE t",
        ],
    );
    let words: Vec<_> = (0..length).map(|_| word(rng, TOKENS)).collect();
    format!("{start} {}", words.join(" "))
}

/// The statements of the SQL tests.
static CORPUS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let dir = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs it"))
        .join("../evenkeel-sql/tests/slt");
    let mut statements = Vec::new();
    for entry in std::fs::read_dir(dir).expect("the SQL tests").flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for record in text.split("\n\n") {
            let mut lines = record.lines().skip_while(|line| line.starts_with('#'));
            let kind = lines.next().unwrap_or_default();
            if !kind.starts_with("statement") && !kind.starts_with("query") {
                continue;
            }
            let sql: Vec<_> = lines.take_while(|line| !line.starts_with("----")).collect();
            let sql = sql.join("\n");
            // A change of the server's own settings would change the test.
            if !sql.to_lowercase().contains("system")
                && !sql.contains("backend")
                && !sql.to_lowercase().contains("copy")
            {
                statements.push(sql);
            }
        }
    }
    statements.sort();
    statements
});

/// A right statement with some of its tokens lost, doubled, exchanged or taken from another.
fn mutated(rng: &mut SmallRng) -> String {
    let pick = |rng: &mut SmallRng| tokens(&CORPUS[rng.random_range(0..CORPUS.len())]);
    let mut statement = pick(rng);
    let other = pick(rng);
    for _ in 0..rng.random_range(1..6) {
        if statement.is_empty() {
            break;
        }
        let at = rng.random_range(0..statement.len());
        match rng.random_range(0..7) {
            0 => drop(statement.remove(at)),
            1 => statement.insert(at, statement[at].clone()),
            2 => {
                let with = rng.random_range(0..statement.len());
                statement.swap(at, with);
            }
            3 | 4 if !other.is_empty() => {
                let from = rng.random_range(0..other.len());
                let to = (from + rng.random_range(1..8)).min(other.len());
                statement.splice(at..at, other[from..to].iter().cloned());
            }
            5 => {
                let edge = one(
                    rng,
                    &[
                        "NULL",
                        "-1",
                        "9223372036854775807",
                        "''",
                        "1e400",
                        "NaN",
                        "*",
                        "(",
                        "0",
                        "'{}'",
                    ],
                );
                edge.clone_into(&mut statement[at]);
            }
            _ => word(rng, TOKENS).clone_into(&mut statement[at]),
        }
    }
    statement.join("")
}

/// Words, quoted texts, blanks and single signs.
fn tokens(sql: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut quoted = false;
    for sign in sql.chars() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let joins = tokens.last().is_some_and(|last| {
            let before = last.chars().next_back().unwrap_or(' ');
            quoted || word(before) && word(sign) || before == ' ' && sign == ' '
        });
        match tokens.last_mut() {
            Some(last) if joins => last.push(sign),
            _ => tokens.push(sign.to_string()),
        }
        quoted ^= sign == '\'';
    }
    tokens
}

fn cursors(rng: &mut SmallRng) -> String {
    let n = size(rng, 2000);
    let query = one(
        rng,
        &[
            "SELECT * FROM t",
            "SELECT * FROM t x, t y",
            "SELECT generate_series(1, 1000000000)",
            "SELECT a FROM t FOR UPDATE",
            "VALUES (1), (2)",
            "SELECT * FROM t ORDER BY c DESC",
            "UPDATE t SET b = 1",
            "SELECT 1/0",
        ],
    );
    let kind = one(
        rng,
        &[
            "",
            "SCROLL",
            "NO SCROLL",
            "BINARY",
            "INSENSITIVE SCROLL",
            "ASENSITIVE",
        ],
    );
    let hold = one(rng, &["", "WITH HOLD", "WITHOUT HOLD"]);
    let moves = one(
        rng,
        &[
            "FETCH ALL",
            "FETCH BACKWARD ALL",
            "FETCH ABSOLUTE -1",
            "FETCH RELATIVE 9223372036854775807",
            "MOVE LAST",
            "FETCH -2147483648",
            "MOVE FORWARD ALL",
            "FETCH 0",
            "FETCH LAST",
            "FETCH ABSOLUTE 9999999",
        ],
    );
    let after = one(
        rng,
        &[
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT x",
            "DELETE FROM t WHERE CURRENT OF k",
            "CLOSE k",
        ],
    );
    format!(
        "BEGIN; DECLARE k {kind} CURSOR {hold} FOR {query}; FETCH {n} FROM k; \
         {moves} FROM k; {after}; FETCH FROM k"
    )
}

fn grouping(rng: &mut SmallRng) -> String {
    let n = size(rng, 16);
    let columns = joined(n, ", ", |n| format!("a % {}", n + 2));
    let sets = joined(size(rng, 5000), ", ", |n| format!("(a, b, {n} + a)"));
    let call = one(
        rng,
        &[
            "count(*)",
            "array_agg(c)",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY b)",
            "string_agg(DISTINCT c, ',' ORDER BY c)",
            "sum(b) FILTER (WHERE b > 5)",
            "mode() WITHIN GROUP (ORDER BY c)",
            "GROUPING(a)",
        ],
    );
    let by = match rng.random_range(0..6) {
        0 => format!("CUBE ({columns})"),
        1 => format!("ROLLUP ({columns})"),
        2 => format!("GROUPING SETS ({sets})"),
        3 => format!("CUBE ({columns}), CUBE ({columns})"),
        4 => format!("DISTINCT ROLLUP (a, ({columns})), CUBE (b, c)"),
        _ => columns,
    };
    format!("SELECT count(*) FROM (SELECT {call} FROM t GROUP BY {by}) s")
}

fn changes(rng: &mut SmallRng) -> String {
    let n = size(rng, 1_000_000);
    let undo = one(rng, &["ROLLBACK", "COMMIT"]);
    match rng.random_range(0..9) {
        0 => format!(
            "BEGIN; INSERT INTO t SELECT -(x.a * 20000 + y.a) - {n}, 0, '' FROM t x, t y; ROLLBACK"
        ),
        1 => format!("BEGIN; UPDATE t SET b = b + {n}; UPDATE t SET b = b - {n}; ROLLBACK"),
        2 => format!(
            "BEGIN; DELETE FROM t; INSERT INTO t SELECT g FROM generate_series(1, {n}) g; ROLLBACK"
        ),
        3 => format!(
            "CREATE TABLE IF NOT EXISTS x{n} AS SELECT x.a, y.c FROM t x, t y; DROP TABLE x{n}"
        ),
        4 => format!("BEGIN; CREATE INDEX ON t (c, b, a, (a + {n})); {undo}"),
        5 => format!(
            "MERGE INTO t USING (SELECT x.a + {n} AS a FROM t x, t y) s \
             ON t.a = s.a WHEN MATCHED THEN DELETE"
        ),
        6 => format!(
            "INSERT INTO t SELECT a, {n} FROM t ON CONFLICT (a) \
             DO UPDATE SET b = (SELECT count(*) FROM t x, t y)"
        ),
        7 => format!("BEGIN; LOCK TABLE t; SELECT a FROM t WHERE b = {n} % 100 FOR UPDATE; {undo}"),
        _ => format!("BEGIN; ALTER TABLE t ALTER b TYPE text USING (b + {n})::text; {undo}"),
    }
}

fn regex(rng: &mut SmallRng) -> String {
    let count = rng.random_range(1..30);
    let text: String = (0..count).map(|_| word(rng, PATTERNS)).collect();
    let m = size(rng, 1_000_000);
    let depth = size(rng, 5000);
    let text = match rng.random_range(0..4) {
        0 => format!("{}a{}", "(".repeat(depth), ")*".repeat(depth)),
        1 => "a?".repeat(depth) + &"a".repeat(depth),
        _ => text,
    };
    match rng.random_range(0..6) {
        0 => format!("SELECT repeat('a', {m}) ~ '{text}'"),
        1 => format!("SELECT regexp_replace(repeat('ab', {m}), '{text}', 'x', 'g') IS NULL"),
        2 => format!("SELECT count(*) FROM regexp_matches(repeat('a b', {m}), '{text}', 'g')"),
        3 => format!("SELECT cardinality(regexp_split_to_array(repeat('a,', {m}), '{text}'))"),
        4 => format!("SELECT repeat('a', {m}) SIMILAR TO '{text}'"),
        _ => format!("SELECT repeat('ab', {m}) LIKE '{}'", "%a_".repeat(depth)),
    }
}
