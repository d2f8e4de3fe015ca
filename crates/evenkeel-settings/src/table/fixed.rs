//! Settings that nothing changes, and those for compatibility.

use super::{Setting, internal, session, start};
use crate::kind::{Form, Kind};
use crate::units::Unit;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Version and Platform Compatibility / Previous PostgreSQL Versions",
        &[
            session(
                "quote_all_identifiers",
                Kind::Choice(&["off"]),
                "off",
                "whether names are quoted that need not be",
            ),
            session(
                "synchronize_seqscans",
                Kind::Bool,
                "on",
                "scans of a large table begin where another one is",
            ),
            session(
                "standard_conforming_strings",
                Kind::Choice(&["on"]),
                "on",
                "a backslash in a string literal is a backslash",
            )
            .reported(),
        ],
    ),
    (
        "Preset Options",
        &[
            internal(
                "atomic_page_writes",
                Kind::Bool,
                "off",
                "whether the device never tears a page, as found at the start",
            ),
            internal(
                "in_hot_standby",
                Kind::Bool,
                "off",
                "whether the server follows another",
            )
            .reported(),
            internal(
                "integer_datetimes",
                Kind::Bool,
                "on",
                "that times are counted in microseconds",
            )
            .reported(),
            internal(
                "is_superuser",
                Kind::Bool,
                "on",
                "whether the role may do everything",
            )
            .reported(),
            internal(
                "lc_collate",
                Kind::Text(Form::Any),
                "C",
                "strings are compared and classified by their bytes",
            ),
            internal(
                "lc_ctype",
                Kind::Text(Form::Any),
                "C",
                "strings are compared and classified by their bytes",
            ),
            internal(
                "max_identifier_length",
                Kind::Integer(63, 63, Unit::None),
                "63",
                "the longest name, in bytes",
            ),
            internal(
                "server_encoding",
                Kind::Text(Form::Any),
                "UTF8",
                "the character set of all stored text",
            )
            .reported(),
            internal(
                "server_version",
                Kind::Text(Form::Any),
                super::SERVER_VERSION,
                "the PostgreSQL version whose dialect this is",
            )
            .reported(),
            internal(
                "server_version_num",
                Kind::Integer(180_000, 180_000, Unit::None),
                "180000",
                "the PostgreSQL version whose dialect this is",
            ),
        ],
    ),
    (
        "Developer Options",
        &[
            start(
                "wal_consistency_checking",
                Kind::Bool,
                "off",
                "log what each change makes of its pages; recovery compares",
            ),
            start(
                "ignore_log_damage",
                Kind::Bool,
                "off",
                "open a database whose log is damaged, losing what follows the damage",
            ),
        ],
    ),
];
