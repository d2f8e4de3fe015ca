//! Statements that are made systematically: operators and functions over every pair of types, and
//! the clauses of queries.

/// A column of every type, and literals.
const VALUES: [&str; 26] = [
    "b", "i2", "i4", "i8", "f4", "f8", "n", "n2", "t", "v", "v5", "c", "d", "tm", "ts", "tz",
    "tz3", "iv", "u", "by", "nm", "o", "ai", "at", "'1'", "NULL",
];

const TYPES: [&str; 24] = [
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "numeric(5,1)",
    "text",
    "varchar",
    "varchar(4)",
    "char(2)",
    "date",
    "time",
    "timestamp",
    "timestamp(2)",
    "timestamptz",
    "interval",
    "uuid",
    "bytea",
    "name",
    "oid",
    "int[]",
    "text[]",
];

const OPERATORS: [&str; 14] = [
    "+", "-", "*", "/", "%", "=", "<>", "<", ">=", "||", "~~", "~", "&", "@>",
];

const UNARY: [&str; 15] = [
    "abs",
    "lower",
    "length",
    "round",
    "sqrt",
    "ceil",
    "date_trunc",
    "to_char",
    "md5",
    "upper",
    "count",
    "sum",
    "avg",
    "max",
    "array_length",
];

const BINARY: [&str; 12] = [
    "round",
    "power",
    "mod",
    "left",
    "to_char",
    "date_trunc",
    "date_part",
    "strpos",
    "repeat",
    "concat",
    "nullif",
    "array_append",
];

fn operators(list: &mut Vec<String>) {
    for (i, left) in VALUES.iter().enumerate() {
        for (j, right) in VALUES.iter().enumerate() {
            // Each pair with some of the operators, so that all meet all.
            for (k, op) in OPERATORS.iter().enumerate() {
                if (i * 7 + j * 3 + k) % 11 == 0 {
                    list.push(format!("SELECT {left} {op} {right} FROM kinds"));
                }
            }
        }
    }
    for value in VALUES {
        for op in ["-", "+", "@", "~", "|/", "!!"] {
            if (value.len() + op.len()) % 2 == 0 {
                list.push(format!("SELECT {op} {value} FROM kinds"));
            }
        }
    }
}

fn casts(list: &mut Vec<String>) {
    for (i, value) in VALUES.iter().enumerate() {
        for (j, ty) in TYPES.iter().enumerate() {
            if (i + j) % 2 == 0 {
                list.push(format!("SELECT CAST({value} AS {ty}) FROM kinds"));
            }
        }
    }
    for ty in TYPES {
        list.push(format!("SELECT $1::{ty}, '1'::{ty}"));
        list.push(format!(
            "SELECT NULL::{ty} AS x, CASE WHEN true THEN NULL::{ty} END"
        ));
    }
}

fn functions(list: &mut Vec<String>) {
    for (i, value) in VALUES.iter().enumerate() {
        for (j, name) in UNARY.iter().enumerate() {
            if (i + j) % 3 == 0 {
                list.push(format!("SELECT {name}({value}) FROM kinds"));
            }
        }
        for (j, name) in BINARY.iter().enumerate() {
            for (k, other) in VALUES.iter().enumerate() {
                if (i * 5 + j * 3 + k) % 13 == 0 {
                    list.push(format!("SELECT {name}({value}, {other}) FROM kinds"));
                }
            }
        }
    }
}

fn common_types(list: &mut Vec<String>) {
    for (i, left) in VALUES.iter().enumerate() {
        for (j, right) in VALUES.iter().enumerate() {
            match (i * 3 + j) % 17 {
                0 => list.push(format!("SELECT coalesce({left}, {right}) FROM kinds")),
                1 => list.push(format!(
                    "SELECT CASE WHEN b THEN {left} ELSE {right} END FROM kinds"
                )),
                2 => list.push(format!(
                    "SELECT {left} FROM kinds UNION SELECT {right} FROM kinds"
                )),
                3 => list.push(format!("SELECT ARRAY[{left}, {right}] FROM kinds")),
                4 => list.push(format!("SELECT greatest({left}, {right}) FROM kinds")),
                5 => list.push(format!(
                    "SELECT 1 FROM kinds WHERE {left} IN ({right}, NULL, i4)"
                )),
                6 => list.push(format!(
                    "SELECT {left} BETWEEN {right} AND {left} FROM kinds"
                )),
                7 => list.push(format!("SELECT {left} IS DISTINCT FROM {right} FROM kinds")),
                8 => list.push(format!(
                    "SELECT {left} = ANY (SELECT {right} FROM kinds) FROM kinds"
                )),
                9 => list.push(format!("SELECT nullif({left}, {right}) FROM kinds")),
                _ => {}
            }
        }
    }
}

/// A use of a parameter in every place that may decide its type.
fn parameters(list: &mut Vec<String>) {
    for value in VALUES {
        list.push(format!("SELECT {value} FROM kinds WHERE {value} = $1"));
        list.push(format!("SELECT coalesce($1, {value}) FROM kinds"));
        list.push(format!("SELECT 1 FROM kinds WHERE {value} IN ($1, $2)"));
        list.push(format!("SELECT 1 FROM kinds WHERE {value} = ANY ($1)"));
    }
}

fn joins(list: &mut Vec<String>) {
    let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
    let tables = ["emp", "dept", "ord", "pair"];
    for kind in kinds {
        for left in tables {
            for right in tables {
                if left != right {
                    list.push(format!("SELECT * FROM {left} {kind} {right} USING (id)"));
                    list.push(format!("SELECT * FROM {left} NATURAL {kind} {right}"));
                }
            }
        }
        list.push(format!(
            "SELECT id, name FROM emp {kind} dept USING (id, name)"
        ));
        list.push(format!(
            "SELECT j.* FROM (emp e {kind} dept d USING (id)) AS j"
        ));
        list.push(format!(
            "SELECT e.id, d.id FROM (emp e {kind} dept d USING (id)) AS j"
        ));
        list.push(format!(
            "SELECT u.*, e.name FROM emp e {kind} dept d USING (id) AS u"
        ));
        list.push(format!(
            "SELECT * FROM emp e {kind} LATERAL (SELECT e.id AS z) s ON true"
        ));
        list.push(format!(
            "SELECT id FROM emp e {kind} dept d ON e.dept_id = d.id"
        ));
        list.push(format!("SELECT 1 FROM emp e {kind} dept d ON e.salary"));
    }
}

/// Clauses combined with select lists.
fn clauses(list: &mut Vec<String>) {
    let targets = [
        "dept_id",
        "dept_id, count(*)",
        "dept_id AS d, sum(salary)",
        "name",
        "*",
        "count(*)",
        "dept_id + 1",
        "id, name, count(*)",
        "max(id) + dept_id",
        "DISTINCT dept_id",
        "DISTINCT ON (dept_id) id",
        "row_number() OVER (ORDER BY id)",
        "emp",
        "emp.*, 1 AS one",
    ];
    let rest = [
        "",
        "GROUP BY dept_id",
        "GROUP BY id",
        "GROUP BY 1",
        "GROUP BY d",
        "ORDER BY 1",
        "ORDER BY dept_id",
        "ORDER BY dept_id, id DESC NULLS LAST",
        "ORDER BY count(*)",
        "GROUP BY dept_id HAVING count(*) > 1",
        "GROUP BY ROLLUP (dept_id, name)",
        "LIMIT 1",
        "HAVING true",
        "GROUP BY dept_id + 1",
        "ORDER BY salary + 1 LIMIT $1 OFFSET 2",
        "WHERE salary > 10 ORDER BY hired",
        "FOR UPDATE",
        "WINDOW w AS (PARTITION BY dept_id)",
    ];
    for target in targets {
        for clause in rest {
            list.push(
                format!("SELECT {target} FROM emp {clause}")
                    .trim_end()
                    .to_owned(),
            );
        }
    }
}

/// All of them.
pub fn all() -> Vec<String> {
    let mut list = Vec::new();
    operators(&mut list);
    casts(&mut list);
    functions(&mut list);
    common_types(&mut list);
    parameters(&mut list);
    joins(&mut list);
    clauses(&mut list);
    list
}
