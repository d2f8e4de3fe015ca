//! Statements that are made systematically: clauses combined with one another.

use crate::lists;

/// The areas with their statements.
pub fn areas() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("joins", joins()),
        ("joins", join_trees()),
        ("subqueries", subqueries()),
        ("subqueries", row_subqueries()),
        ("aggregates", aggregates()),
        ("grouping", grouping()),
        ("windows", windows()),
        ("windows", range_frames()),
        ("sets", sets()),
        ("limits", limits()),
        ("large", large()),
        ("scans", scans()),
        ("logic", logic()),
        ("casts", casts()),
        ("arithmetic", arithmetic()),
        ("datetime", datetime()),
    ]
}

const KINDS: [&str; 4] = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];

fn joins() -> Vec<String> {
    let mut list = Vec::new();
    let pairs = [
        ("t", "u"),
        ("v", "w"),
        ("u", "nothing"),
        ("nothing", "v"),
        ("v", "v2"),
    ];
    for kind in KINDS {
        for (left, right) in pairs {
            let table = if right == "v2" { "v AS v2" } else { right };
            let from = format!("{left} {kind} {table}");
            let on = |condition: &str| {
                let condition = condition.replace("L.", &format!("{left}."));
                format!(
                    "{from} ON {}",
                    condition.replace("R.", &format!("{right}."))
                )
            };
            list.extend(merged_joins(kind, left, right, table));
            for condition in [
                "L.a = R.a",
                "L.a = R.a AND L.b <> R.b",
                "L.a = R.a AND L.a > 1",
                "L.a = R.a AND R.b = 'one'",
            ] {
                list.push(format!(
                    "SELECT {left}.a, {right}.a, {left}.b, {right}.b FROM {}",
                    on(condition)
                ));
            }
            if kind != "FULL JOIN" {
                list.push(format!(
                    "SELECT {left}.a, {right}.a FROM {}",
                    on("L.a < R.a")
                ));
                list.push(format!(
                    "SELECT {left}.a, {right}.b FROM {}",
                    on("L.a = R.a OR L.b = R.b")
                ));
                list.push(format!(
                    "SELECT count(*), count({left}.a), count({right}.a) FROM {}",
                    on("L.a IS NOT DISTINCT FROM R.a")
                ));
            }
            list.push(format!(
                "SELECT count(*), count({left}.a), count({right}.a) FROM {}",
                on("false")
            ));
            list.push(format!(
                "SELECT count(*), count({left}.a), count({right}.a) FROM {}",
                on("true")
            ));
            list.push(format!(
                "SELECT {left}.a, {left}.b FROM {} WHERE {right}.a IS NULL",
                on("L.a = R.a")
            ));
            list.push(format!(
                "SELECT {right}.* FROM {} WHERE {left}.a IS NULL OR {left}.b = 'two'",
                on("L.a = R.a")
            ));
            list.push(format!(
                "SELECT coalesce({left}.a, {right}.a) AS k, count(*) FROM {} GROUP BY 1",
                on("L.a = R.a")
            ));
        }
    }
    list
}

/// Joins by columns of one name.
fn merged_joins(kind: &str, left: &str, right: &str, table: &str) -> [String; 4] {
    let from = format!("{left} {kind} {table}");
    [
        format!("SELECT * FROM {from} USING (a)"),
        format!("SELECT * FROM {from} USING (b, a)"),
        format!("SELECT * FROM {left} NATURAL {kind} {table}"),
        format!(
            "SELECT a, {left}.a AS l, {right}.a AS r, {left}.b FROM {from} USING (a) \
             WHERE a > 1 OR a IS NULL"
        ),
    ]
}

/// Joins of three tables, in both shapes.
fn join_trees() -> Vec<String> {
    let mut list = Vec::new();
    for first in KINDS {
        for second in KINDS {
            list.push(format!(
                "SELECT t.id, u.id, v.b FROM t {first} u ON t.a = u.a {second} v ON u.a = v.a"
            ));
            list.push(format!(
                "SELECT t.id, u.id, v.b FROM t {first} (u {second} v ON u.a = v.a AND v.b = 'one') ON t.a = v.a"
            ));
            list.push(format!(
                "SELECT * FROM v {first} w USING (a) {second} nothing USING (a)"
            ));
            list.push(format!(
                "SELECT * FROM w NATURAL {first} v {second} (SELECT a, id FROM u) s USING (a)"
            ));
            list.push(format!(
                "SELECT w.w, v.b, u.id FROM w {first} v ON w.a = v.a AND w.w > 2 {second} u ON u.b = v.b WHERE w.w IS NULL OR w.w < 5"
            ));
        }
        list.push(format!(
            "SELECT t.id, s.k FROM t {first} (SELECT a, count(*) AS k FROM v GROUP BY a) s ON s.a = t.a"
        ));
        list.push(format!(
            "SELECT x.id, s.* FROM t x {first} (SELECT a, 1 AS one, coalesce(b, '?') AS q FROM v) s ON s.a = x.a AND s.one = 1"
        ));
        list.push(format!(
            "SELECT a.id, b.id FROM t a {first} t b ON a.a = b.a AND a.id < b.id"
        ));
        if ["JOIN", "LEFT JOIN"].contains(&first) {
            list.push(format!(
                "SELECT t.id, s.* FROM t {first} LATERAL (SELECT b, w FROM w WHERE w.a = t.a ORDER BY w LIMIT 1) s ON true"
            ));
            list.push(format!(
                "SELECT t.id, s.c FROM t {first} LATERAL (SELECT count(*) AS c FROM v WHERE v.a < t.a) s ON s.c > 1"
            ));
            list.push(format!(
                "SELECT t.id, g FROM t {first} LATERAL generate_series(1, t.a) AS g ON g <> 2"
            ));
            list.push(format!(
                "SELECT t.id, s.x, r.y FROM t {first} LATERAL (SELECT t.a + 1 AS x) s ON true {first} LATERAL (SELECT s.x * 2 AS y FROM u WHERE u.a = s.x) r ON true"
            ));
        }
    }
    list
}

fn subqueries() -> Vec<String> {
    let mut list = Vec::new();
    let tests = lists::SUBQUERIES_TESTSS;
    let inner = lists::SUBQUERIES_INNERS;
    for test in tests {
        for sub in inner {
            let test = test.replace("SUB", sub);
            list.push(format!("SELECT id, a FROM t WHERE {test}"));
            list.push(format!("SELECT id, {test} AS x FROM t"));
        }
        let test = test.replace("SUB", inner[3]);
        list.push(format!("SELECT id FROM t WHERE {test} OR b = 'four'"));
        list.push(format!("SELECT id FROM t WHERE ({test}) IS NOT TRUE"));
        list.push(format!("SELECT id FROM t WHERE ({test}) IS UNKNOWN"));
        list.push(format!(
            "SELECT t.id, u.id FROM t LEFT JOIN u ON t.a = u.a AND {test}"
        ));
        list.push(format!("SELECT count(*) FILTER (WHERE {test}) FROM t"));
    }
    for sub in &inner[3..9] {
        list.push(format!(
            "SELECT id, (SELECT count(*) FROM ({sub}) s) AS x FROM t"
        ));
        list.push(format!("SELECT id, ARRAY({sub}) AS x FROM t WHERE id <> 2"));
    }
    list
}

fn row_subqueries() -> Vec<String> {
    let mut list = Vec::new();
    let inner = [
        "SELECT a, b FROM v",
        "SELECT a, b FROM v WHERE a IS NOT NULL AND b IS NOT NULL",
        "SELECT a, b FROM nothing",
        "SELECT w.a, w.b FROM w WHERE w.w > t.id",
        "SELECT 1, 'one'",
    ];
    for sub in inner {
        for test in lists::ROW_SUBQUERIES_TESTS {
            if test.contains("LIMIT") && !sub.contains("nothing") && !sub.contains("'one'") {
                continue;
            }
            let test = test.replace("SUB", sub);
            list.push(format!("SELECT id FROM t WHERE {test}"));
            list.push(format!("SELECT id, {test} AS x FROM t"));
        }
    }
    list
}

fn aggregates() -> Vec<String> {
    let mut list = Vec::new();
    let calls = lists::AGGREGATES_CALLSS;
    for call in calls {
        list.push(format!("SELECT {call} FROM t"));
        list.push(format!("SELECT {call} AS x FROM t WHERE false"));
        list.push(format!("SELECT d, {call} AS x FROM t GROUP BY d"));
        if !call.contains("+") {
            let filtered = format!("{call} FILTER (WHERE id % 3 <> 0)");
            list.push(format!(
                "SELECT a, {filtered} AS x, count(*) FROM t GROUP BY a"
            ));
            list.push(format!(
                "SELECT a % 2 AS g, {call} AS x FROM t GROUP BY g HAVING count(*) > 1"
            ));
        }
    }
    for group in lists::AGGREGATES_GROUPS {
        for having in [
            "",
            "HAVING count(*) > 1",
            "HAVING max(id) > 5 AND min(a) IS NOT NULL",
        ] {
            list.push(
                format!("SELECT count(*), sum(id), min(b) FROM t GROUP BY {group} {having}")
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    list
}

fn grouping() -> Vec<String> {
    let mut list = Vec::new();
    for by in lists::GROUPING_BYS {
        let by = if by == "GROUP_DISTINCT" {
            "DISTINCT ROLLUP (region, product), ROLLUP (region, product)"
        } else {
            by
        };
        for targets in [
            "region, product, count(*)",
            "region, product, sum(amount), GROUPING(region, product)",
            "coalesce(region, '-') AS r, grouping(product) AS g, max(id), count(DISTINCT year)",
            "region || '/' || product AS rp, avg(amount)",
        ] {
            list.push(format!("SELECT {targets} FROM sales GROUP BY {by}"));
        }
        list.push(format!(
            "SELECT region, product, count(*) FROM sales GROUP BY {by} HAVING GROUPING(region) = 0 OR count(*) > 3"
        ));
        list.push(format!(
            "SELECT region, product, count(*) FROM sales WHERE false GROUP BY {by}"
        ));
        list.push(format!(
            "SELECT * FROM (SELECT region, product, string_agg(id::text, ',' ORDER BY id) AS ids FROM sales GROUP BY {by}) s WHERE region IS NULL"
        ));
        list.push(format!(
            "SELECT region, sum(count(*)) OVER (PARTITION BY region) AS w, count(*) FROM sales GROUP BY {by}, product"
        ));
        list.push(format!(
            "SELECT DISTINCT region, count(*) > 1 AS many FROM sales GROUP BY {by}"
        ));
    }
    list
}

fn windows() -> Vec<String> {
    let mut list = Vec::new();
    // Within peers these give every row the same value, or the order is total.
    let framed = [
        "count(*)",
        "sum(id)",
        "max(a)",
        "min(n)",
        "avg(id)",
        "count(*) FILTER (WHERE a > 1)",
        "bool_or(a = 2)",
    ];
    let positional = [
        "first_value(id)",
        "last_value(b)",
        "nth_value(id, 2)",
        "array_agg(id)",
        "string_agg(b, '-')",
    ];
    let orders = [
        "PARTITION BY a ORDER BY id",
        "ORDER BY a DESC NULLS LAST, id",
    ];
    for (number, frame) in lists::FRAMES.iter().enumerate() {
        for (at, call) in framed.iter().chain(&positional).enumerate() {
            let order = orders[(number + at) % 2];
            list.push(format!(
                "SELECT id, {call} OVER ({order} {frame}) AS x FROM t"
            ));
        }
        // Order with peers: only what all peers share.
        for call in &framed[..4] {
            if !frame.starts_with("ROWS") && !frame.contains("EXCLUDE CURRENT") {
                list.push(format!(
                    "SELECT a, {call} OVER (ORDER BY a {frame}) AS x FROM t"
                ));
            }
        }
    }
    for call in lists::WINDOWS_CALLS {
        for order in [
            "ORDER BY id",
            "PARTITION BY b ORDER BY id DESC",
            "PARTITION BY a % 2, b IS NULL ORDER BY id",
        ] {
            list.push(format!("SELECT id, {call} OVER ({order}) AS x FROM t"));
        }
    }
    for call in ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"] {
        list.push(format!("SELECT a, {call} OVER (ORDER BY a) AS x FROM t"));
        list.push(format!("SELECT a, {call} OVER () AS x FROM t"));
        list.push(format!(
            "SELECT a, {call} OVER (PARTITION BY b ORDER BY d DESC NULLS FIRST) AS x FROM t"
        ));
    }
    list
}

fn range_frames() -> Vec<String> {
    let mut list = Vec::new();
    let orders = [
        ("id", "2", "t"),
        ("a", "1", "t"),
        ("n", "1.5", "t"),
        ("f", "2.0", "t"),
        ("d", "interval '1 month'", "t"),
        ("ts", "interval '1 year'", "times"),
        ("tz", "interval '36 hours'", "times"),
        ("iv", "interval '1 day'", "times"),
        ("tm", "interval '2 hours'", "times"),
        ("i2", "10", "nums"),
        ("i8", "10", "nums"),
        ("f4", "1", "nums"),
        ("n", "0.5", "nums"),
    ];
    for (column, step, table) in orders {
        for direction in ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"] {
            for frame in [
                "BETWEEN S PRECEDING AND S FOLLOWING",
                "BETWEEN CURRENT ROW AND S FOLLOWING",
                "BETWEEN S PRECEDING AND S PRECEDING",
                "S PRECEDING EXCLUDE CURRENT ROW",
            ] {
                if (column.len() + direction.len() + frame.len()).is_multiple_of(2) || column == "a"
                {
                    let frame = frame.replace('S', step);
                    list.push(format!(
                        "SELECT id, count(*) OVER (ORDER BY {column}{direction} RANGE {frame}) AS x, sum(id) OVER (ORDER BY {column}{direction} RANGE {frame}) AS y FROM {table}"
                    ));
                }
            }
        }
    }
    list
}

fn sets() -> Vec<String> {
    let mut list = Vec::new();
    let queries = [
        "SELECT a, b FROM v",
        "SELECT a, b FROM w",
        "SELECT a, b FROM nothing",
        "SELECT a, b FROM u",
        "VALUES (1, 'one'), (1, 'one'), (NULL, NULL)",
    ];
    let ops = [
        "UNION",
        "UNION ALL",
        "INTERSECT",
        "INTERSECT ALL",
        "EXCEPT",
        "EXCEPT ALL",
    ];
    for op in ops {
        for left in queries {
            for right in queries {
                list.push(format!("{left} {op} {right}"));
            }
        }
        for second in ops {
            list.push(format!(
                "SELECT a FROM v {op} SELECT a FROM w {second} SELECT a FROM u"
            ));
            list.push(format!(
                "SELECT a FROM v {op} (SELECT a FROM w {second} SELECT a FROM t)"
            ));
            list.push(format!(
                "(SELECT a FROM v ORDER BY a LIMIT 4) {op} SELECT a FROM w {second} SELECT 3"
            ));
        }
        list.push(format!(
            "SELECT a AS k FROM v {op} SELECT id FROM t ORDER BY k DESC NULLS LAST"
        ));
        list.push(format!(
            "SELECT a FROM v {op} SELECT id FROM t ORDER BY 1 LIMIT 3 OFFSET 1"
        ));
        list.push(format!("SELECT a FROM v {op} SELECT n FROM t"));
        list.push(format!("SELECT b FROM u {op} SELECT c FROM u"));
        list.push(format!("SELECT c FROM u {op} SELECT b FROM u"));
        list.push(format!("SELECT c FROM u {op} SELECT b FROM t"));
        list.push(format!("SELECT d FROM t {op} SELECT ts FROM times"));
        list.push(format!("SELECT n FROM nums {op} SELECT f8 FROM nums"));
        list.push(format!(
            "SELECT ai FROM arrs {op} SELECT ARRAY[a, id] FROM t"
        ));
        list.push(format!(
            "SELECT s.a, count(*) FROM (SELECT a FROM v {op} SELECT a FROM w) s GROUP BY s.a"
        ));
        list.push(format!(
            "SELECT * FROM (SELECT a, b FROM v {op} SELECT a, b FROM w) s WHERE s.a = 1"
        ));
        list.push(format!(
            "SELECT id FROM t WHERE a IN (SELECT a FROM v {op} SELECT a FROM w)"
        ));
        list.push(format!("SELECT NULL {op} SELECT 1"));
        list.push(format!("SELECT '2' {op} SELECT 1"));
        list.push(format!("SELECT {} {op} SELECT", ""));
    }
    list
}

fn limits() -> Vec<String> {
    let mut list = Vec::new();
    for limit in lists::LIMITS_LIMITS {
        for offset in ["", "OFFSET 0", "OFFSET 2", "OFFSET 50", "OFFSET NULL"] {
            list.push(
                format!("SELECT id FROM t ORDER BY id LIMIT {limit} {offset}")
                    .trim_end()
                    .to_owned(),
            );
        }
        list.push(format!(
            "SELECT id, a FROM t ORDER BY a DESC NULLS LAST, id LIMIT {limit}"
        ));
        list.push(format!("SELECT DISTINCT a FROM t ORDER BY a LIMIT {limit}"));
        list.push(format!(
            "SELECT a, count(*) FROM t GROUP BY a ORDER BY count(*) DESC, a LIMIT {limit}"
        ));
    }
    for count in ["1", "2", "4", "0", "", "100"] {
        for order in ["a", "a DESC", "b NULLS FIRST", "a, b"] {
            list.push(format!(
                "SELECT {} FROM t ORDER BY {order} FETCH FIRST {count} ROWS WITH TIES",
                order.replace(" DESC", "").replace(" NULLS FIRST", "")
            ));
        }
        list.push(format!(
            "SELECT id FROM t ORDER BY id OFFSET 2 ROWS FETCH NEXT {count} ROWS ONLY"
        ));
    }
    for on in ["a", "b", "a, b", "(a)", "a % 2", "upper(b)"] {
        list.push(format!(
            "SELECT DISTINCT ON ({on}) {on}, id FROM t ORDER BY {on}, id"
        ));
        list.push(format!(
            "SELECT DISTINCT ON ({on}) id FROM t ORDER BY {on}, id DESC"
        ));
        list.push(format!(
            "SELECT count(*) FROM (SELECT DISTINCT ON ({on}) * FROM t) s"
        ));
    }
    for columns in lists::LIMITS_COLUMNSS {
        list.push(format!("SELECT DISTINCT {columns} FROM t"));
    }
    for order in lists::LIMITS_ORDERS {
        list.push(format!("SELECT id, a FROM t ORDER BY {order}"));
        list.push(format!("SELECT id FROM t ORDER BY {order} LIMIT 3"));
    }
    list
}

/// Over a table of more rows than a batch has.
fn large() -> Vec<String> {
    let mut list = Vec::new();
    for kind in KINDS {
        list.push(format!(
            "SELECT count(*), sum(x.k), sum(y.k) FROM big x {kind} big y ON x.k = y.m"
        ));
        list.push(format!(
            "SELECT count(*), sum(x.k), sum(y.k) FROM big x {kind} big y ON x.g = y.g AND x.s = y.s"
        ));
        list.push(format!(
            "SELECT count(*), sum(b.k), sum(t.id) FROM big b {kind} t ON b.g = t.a"
        ));
        list.push(format!(
            "SELECT count(*), sum(b.k), sum(t.id) FROM t {kind} big b ON b.g = t.a AND b.m < 50"
        ));
        list.push(format!("SELECT g, count(*) FROM big {kind} v ON g = a WHERE v.b IS NOT NULL OR g = 5 GROUP BY g"));
    }
    for test in lists::LARGE_TESTS {
        list.push(format!("SELECT count(*), sum(k) FROM big WHERE {test}"));
        list.push(format!("SELECT {test} AS x, count(*) FROM big GROUP BY 1"));
    }
    for group in [
        "g",
        "s",
        "m",
        "g, s",
        "k % 7, g",
        "ROLLUP (g, s)",
        "CUBE (g, k % 3)",
    ] {
        list.push(format!("SELECT {group}, count(*), sum(k), min(s), max(m), count(DISTINCT m) FROM big GROUP BY {group}", ).replace("SELECT ROLLUP (g, s)", "SELECT g, s").replace("SELECT CUBE (g, k % 3)", "SELECT g"));
        list.push(format!(
            "SELECT string_agg(s, '' ORDER BY k DESC) FROM big GROUP BY {group} HAVING count(*) > 2"
        ));
    }
    for order in ["s, k", "g DESC, m, k", "m NULLS FIRST, k DESC", "k"] {
        list.push(format!("SELECT k, g, s FROM big ORDER BY {order}"));
        list.push(format!(
            "SELECT k FROM big ORDER BY {order} LIMIT 10 OFFSET 300"
        ));
        list.push(format!("SELECT k, sum(m) OVER (ORDER BY {order} ROWS 5 PRECEDING) AS x, lag(k, 300) OVER (ORDER BY {order}) AS y FROM big"));
        list.push(format!("SELECT k, count(*) OVER (PARTITION BY g ORDER BY {order}) AS x, last_value(k) OVER (PARTITION BY g ORDER BY {order} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS y FROM big"));
    }
    for op in [
        "UNION",
        "UNION ALL",
        "INTERSECT",
        "INTERSECT ALL",
        "EXCEPT",
        "EXCEPT ALL",
    ] {
        list.push(format!(
            "SELECT g, m FROM big WHERE k < 400 {op} SELECT g, m FROM big WHERE k > 200"
        ));
        list.push(format!(
            "SELECT s FROM big {op} SELECT s FROM big WHERE k % 2 = 0"
        ));
        list.push(format!(
            "SELECT count(*) FROM (SELECT m FROM big {op} SELECT k FROM big) x"
        ));
    }
    list
}

/// Conditions that an index may answer.
fn scans() -> Vec<String> {
    let mut list = Vec::new();
    for test in lists::SCANS_TESTS {
        list.push(format!("SELECT k, g, s, m FROM big WHERE {test}"));
        list.push(format!(
            "SELECT k FROM big WHERE {test} ORDER BY k DESC LIMIT 3"
        ));
        list.push(format!(
            "SELECT count(*), max(s) FROM big WHERE NOT ({test})"
        ));
    }
    for target in [
        "min(k)",
        "max(k)",
        "min(g)",
        "max(g)",
        "min(m), max(m)",
        "max(s)",
        "min(k) FILTER (WHERE g = 3)",
    ] {
        list.push(format!("SELECT {target} FROM big"));
        list.push(format!("SELECT {target} FROM big WHERE g = 4 AND k > 100"));
    }
    for table in ["u", "times", "t"] {
        let column = if table == "times" { "tz" } else { "a" };
        for order in ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"] {
            list.push(format!(
                "SELECT {column}, id FROM {table} ORDER BY {column}{order}, id"
            ));
        }
    }
    list
}

fn logic() -> Vec<String> {
    let mut list = Vec::new();
    for test in lists::LOGIC_TESTS {
        list.push(format!("SELECT p, q, {test} AS x FROM bools"));
        list.push(format!("SELECT p, q FROM bools WHERE {test}"));
        list.push(format!("SELECT count(*) FROM bools x LEFT JOIN (SELECT p AS pp, q AS qq FROM bools) y ON x.p = y.pp AND ({})", test.replace(" q", " y.qq").replace("(q", "(y.qq").replace("[q", "[y.qq")));
    }
    list
}

fn casts() -> Vec<String> {
    let mut list = Vec::new();
    let columns = ["i2", "i4", "i8", "f4", "f8", "n", "m"];
    let types = lists::CASTS_TYPESS;
    for column in columns {
        for ty in types {
            for id in ["1", "3", "5", "6", "7", "8", "11"] {
                list.push(format!(
                    "SELECT {column}::{ty} AS x FROM nums WHERE id = {id}"
                ));
            }
        }
    }
    for text in lists::CASTS_TEXTS {
        for ty in lists::CASTS_TYS {
            list.push(format!(
                "SELECT {text}::{ty} AS x, ({text}::text)::{ty} AS y"
            ));
        }
    }
    list
}

fn arithmetic() -> Vec<String> {
    let mut list = Vec::new();
    let columns = ["i2", "i4", "i8", "f4", "f8", "n", "m"];
    for (i, left) in columns.iter().enumerate() {
        for (j, right) in columns.iter().enumerate() {
            for op in ["+", "-", "*", "/", "%", "=", "<", "<>"] {
                if op == "%" && (left.starts_with('f') || right.starts_with('f')) {
                    continue;
                }
                list.push(format!(
                    "SELECT id, {left} {op} {right} AS x FROM nums WHERE id IN (1, 2, 6, 10)"
                ));
                if (i + j + op.len()) % 3 == 0 {
                    list.push(format!(
                        "SELECT id, {left} {op} {right} AS x FROM nums WHERE id IN (7, 8, 9, 11)"
                    ));
                    list.push(format!(
                        "SELECT {left} {op} {right} AS x FROM nums WHERE id = 3"
                    ));
                    list.push(format!(
                        "SELECT {left} {op} {right} AS x FROM nums WHERE id = 5"
                    ));
                }
            }
        }
        for call in lists::ARITHMETIC_CALLS {
            for id in ["1", "2", "10"] {
                list.push(format!(
                    "SELECT {} AS x FROM nums WHERE id = {id}",
                    call.replace('X', left)
                ));
            }
            list.push(format!(
                "SELECT {} AS x FROM nums WHERE id = {}",
                call.replace('X', left),
                3 + (i + call.len()) % 7
            ));
        }
    }
    list
}

fn datetime() -> Vec<String> {
    let mut list = Vec::new();
    let columns = ["d", "tm", "ts", "tz", "iv"];
    for column in columns {
        for step in [
            "interval '1 month'",
            "interval '1 day'",
            "interval '36 hours'",
            "interval '-1 year 2 days 03:04:05.6'",
            "interval 'infinity'",
            "1",
            "time '01:02:03'",
        ] {
            list.push(format!(
                "SELECT id, {column} + {step} AS x FROM times WHERE id < 4 OR id > 6"
            ));
            list.push(format!(
                "SELECT id, {column} - {step} AS x FROM times WHERE id < 5 OR id > 6"
            ));
        }
        for other in columns {
            list.push(format!(
                "SELECT id, {column} - {other} AS x FROM times WHERE id IN (1, 2, 7, 8, 9)"
            ));
            list.push(format!("SELECT id, {column} < {other} AS x FROM times"));
        }
        for field in lists::DATETIME_FIELDS {
            list.push(format!(
                "SELECT id, extract({field} FROM {column}) AS x FROM times"
            ));
            list.push(format!(
                "SELECT id, date_part('{field}', {column}) AS x FROM times WHERE id <> 7"
            ));
            if !field.starts_with("timezone") && field != "julian" {
                list.push(format!(
                    "SELECT id, date_trunc('{field}', {column}) AS x FROM times"
                ));
            }
        }
        for pattern in lists::DATETIME_PATTERNS {
            list.push(format!(
                "SELECT id, to_char({column}, '{pattern}') AS x FROM times"
            ));
        }
        for ty in lists::DATETIME_TYS {
            list.push(format!(
                "SELECT id, {column}::{ty} AS x FROM times WHERE id NOT IN (5, 6)"
            ));
        }
        for zone in [
            "'UTC'",
            "'America/New_York'",
            "'+05:30'",
            "'EST'",
            "zone",
            "interval '-3 hours'",
            "'nosuch'",
        ] {
            list.push(format!(
                "SELECT id, {column} AT TIME ZONE {zone} AS x FROM times WHERE id <> 7"
            ));
        }
        list.push(format!("SELECT id, {column} AT LOCAL AS x FROM times"));
    }
    list
}
