//! Settings that plans are chosen by.

use super::{Setting, session};
use crate::kind::Kind;
use crate::units::Unit;

const MOST: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Query Tuning / Planner Method Configuration",
        &[
            session(
                "enable_bitmapscan",
                Kind::Bool,
                "on",
                "whether the planner reads rows that indexes find in the order of the table",
            ),
            session(
                "enable_hashagg",
                Kind::Bool,
                "on",
                "whether the planner groups by hashing",
            ),
            session(
                "enable_hashjoin",
                Kind::Bool,
                "on",
                "whether the planner joins by hashing",
            ),
            session(
                "enable_indexonlyscan",
                Kind::Bool,
                "on",
                "whether the planner takes rows from the keys of indexes alone",
            ),
            session(
                "enable_indexscan",
                Kind::Bool,
                "on",
                "whether the planner reads tables by indexes",
            ),
            session(
                "enable_material",
                Kind::Bool,
                "on",
                "whether the planner keeps an inner side's rows for further runs",
            ),
            session(
                "enable_memoize",
                Kind::Bool,
                "on",
                "whether the planner keeps an inner side's rows by its parameters",
            ),
            session(
                "enable_nestloop",
                Kind::Bool,
                "on",
                "whether the planner joins by nested loops",
            ),
            session(
                "enable_seqscan",
                Kind::Bool,
                "on",
                "whether the planner reads whole tables",
            ),
            session("enable_sort", Kind::Bool, "on", "whether the planner sorts"),
        ],
    ),
    (
        "Query Tuning / Planner Cost Constants",
        &[
            session(
                "cpu_index_tuple_cost",
                Kind::Real(0.0, f64::MAX, Unit::None),
                "0.005",
                "what the planner reckons an index entry to cost",
            ),
            session(
                "cpu_operator_cost",
                Kind::Real(0.0, f64::MAX, Unit::None),
                "0.0025",
                "what the planner reckons an operator or function to cost",
            ),
            session(
                "cpu_tuple_cost",
                Kind::Real(0.0, f64::MAX, Unit::None),
                "0.01",
                "what the planner reckons a row to cost",
            ),
            session(
                "effective_cache_size",
                Kind::Integer(1, MOST, Unit::Pages),
                "4GB",
                "memory that the planner expects to hold pages read before",
            ),
            session(
                "random_page_cost",
                Kind::Real(0.0, f64::MAX, Unit::None),
                "4",
                "what the planner reckons a page to cost that is read by itself",
            ),
            session(
                "seq_page_cost",
                Kind::Real(0.0, f64::MAX, Unit::None),
                "1",
                "what the planner reckons a page to cost that is read after another",
            ),
        ],
    ),
    (
        "Query Tuning / Genetic Query Optimizer",
        &[session(
            "geqo_threshold",
            Kind::Integer(2, 12, Unit::None),
            "11",
            "from so many relations on, joins are not tried in every order",
        )],
    ),
    (
        "Query Tuning / Other Planner Options",
        &[
            session(
                "default_statistics_target",
                Kind::Integer(1, 10_000, Unit::None),
                "100",
                "how many values ANALYZE keeps of a column; 300 times as many rows are sampled",
            ),
            session(
                "jit",
                Kind::Bool,
                "off",
                "whether expressions are compiled to machine code",
            )
            .ignored("nothing is compiled to machine code"),
        ],
    ),
];
