//! Settings of vacuum.

use super::{Setting, reload, session, start};
use crate::kind::Kind;
use crate::units::Unit;

const MOST: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Vacuuming / Automatic Vacuuming",
        &[
            reload(
                "autovacuum",
                Kind::Bool,
                "on",
                "vacuum and analyze tables by themselves",
            ),
            reload(
                "autovacuum_naptime",
                Kind::Integer(1, 2_147_483, Unit::Seconds),
                "1min",
                "time between two looks at the tables",
            ),
            start(
                "autovacuum_max_workers",
                Kind::Integer(1, 64, Unit::None),
                "3",
                "tables vacuumed by themselves at once",
            ),
            reload(
                "autovacuum_vacuum_threshold",
                Kind::Integer(0, MOST, Unit::None),
                "50",
                "dead rows that make a vacuum due, besides the scale factor",
            ),
            reload(
                "autovacuum_vacuum_max_threshold",
                Kind::Integer(-1, MOST, Unit::None),
                "100000000",
                "dead rows that make a vacuum due in any table, -1: no number does",
            ),
            reload(
                "autovacuum_vacuum_scale_factor",
                Kind::Real(0.0, 100.0, Unit::None),
                "0.2",
                "dead rows as a share of all, added to the threshold",
            ),
            reload(
                "autovacuum_vacuum_insert_threshold",
                Kind::Integer(-1, MOST, Unit::None),
                "1000",
                "rows inserted that make a vacuum due, -1: inserts do not",
            ),
            reload(
                "autovacuum_vacuum_insert_scale_factor",
                Kind::Real(0.0, 100.0, Unit::None),
                "0.2",
                "rows inserted as a share of those not frozen, added to the threshold",
            ),
            reload(
                "autovacuum_analyze_threshold",
                Kind::Integer(0, MOST, Unit::None),
                "50",
                "rows changed that make an analyze due, besides the scale factor",
            ),
            reload(
                "autovacuum_analyze_scale_factor",
                Kind::Real(0.0, 100.0, Unit::None),
                "0.1",
                "rows changed as a share of all, added to the threshold",
            ),
            start(
                "autovacuum_freeze_max_age",
                Kind::Integer(100_000, 2_000_000_000, Unit::None),
                "200000000",
                "age of the oldest id, in ids, at which a table is frozen",
            ),
            reload(
                "autovacuum_vacuum_cost_delay",
                Kind::Real(0.0, 100.0, Unit::Milliseconds),
                "2ms",
                "sleep of an automatic vacuum at its cost limit, 0: none",
            ),
            reload(
                "autovacuum_vacuum_cost_limit",
                Kind::Integer(-1, 10_000, Unit::None),
                "-1",
                "cost that all automatic vacuums together may run up between sleeps, -1: 200",
            ),
        ],
    ),
    (
        "Vacuuming / Cost-Based Vacuum Delay",
        &[
            session(
                "vacuum_cost_delay",
                Kind::Real(0.0, 100.0, Unit::Milliseconds),
                "0",
                "sleep of VACUUM and ANALYZE at the cost limit, 0: none",
            ),
            session(
                "vacuum_cost_limit",
                Kind::Integer(1, 10_000, Unit::None),
                "200",
                "cost at which VACUUM and ANALYZE sleep",
            ),
            session(
                "vacuum_cost_page_dirty",
                Kind::Integer(0, 10_000, Unit::None),
                "20",
                "cost of changing a page",
            ),
            session(
                "vacuum_cost_page_hit",
                Kind::Integer(0, 10_000, Unit::None),
                "1",
                "cost of a page found in memory",
            ),
            session(
                "vacuum_cost_page_miss",
                Kind::Integer(0, 10_000, Unit::None),
                "2",
                "cost of a page that is read",
            ),
        ],
    ),
    (
        "Vacuuming / Default Behavior",
        &[session(
            "vacuum_truncate",
            Kind::Bool,
            "on",
            "whether VACUUM gives empty pages at the end back",
        )],
    ),
    (
        "Vacuuming / Freezing",
        &[
            session(
                "vacuum_freeze_min_age",
                Kind::Integer(0, 1_000_000_000, Unit::None),
                "50000000",
                "age at which VACUUM freezes a row, in ids",
            ),
            session(
                "vacuum_freeze_table_age",
                Kind::Integer(0, 2_000_000_000, Unit::None),
                "150000000",
                "age at which VACUUM looks at all pages not frozen, in ids",
            ),
        ],
    ),
];
