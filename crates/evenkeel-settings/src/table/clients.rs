//! Defaults of sessions.

use super::{Setting, internal, session};
use crate::kind::{Form, Kind};
use crate::units::Unit;

const MOST: i64 = i32::MAX as i64;
const LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "info", "warning", "error",
];
const ISOLATION: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Client Connection Defaults / Statement Behavior",
        &[
            session(
                "check_function_bodies",
                Kind::Bool,
                "on",
                "whether bodies of functions are checked",
            )
            .vacuous("functions cannot be defined"),
            session(
                "default_toast_compression",
                Kind::Choice(&["pglz", "lz4"]),
                "pglz",
                "how large values are compressed",
            )
            .vacuous("large values are compressed in one way"),
            session(
                "idle_session_timeout",
                Kind::Integer(0, MOST, Unit::Milliseconds),
                "0",
                "longest wait for the client between transactions, 0: no limit",
            ),
            session(
                "restrict_nonsystem_relation_kind",
                Kind::Text(Form::Any),
                "",
                "kinds of relations that may not be read",
            )
            .vacuous("views are read in one way"),
            session(
                "transaction_timeout",
                Kind::Integer(0, 0, Unit::Milliseconds),
                "0",
                "longest time a transaction may take, 0: no limit",
            ),
            session(
                "xmloption",
                Kind::Choice(&["content", "document"]),
                "content",
                "whether an xml value is a document or content",
            )
            .vacuous("there is no xml"),
            session(
                "bytea_output",
                Kind::Choice(&["escape", "hex"]),
                "hex",
                "how binary strings are written",
            ),
            session(
                "client_min_messages",
                Kind::Choice(LEVELS),
                "notice",
                "the least important messages that the client gets",
            ),
            session(
                "default_table_access_method",
                Kind::Choice(&["heap"]),
                "heap",
                "what new tables are stored as",
            ),
            session(
                "default_tablespace",
                Kind::Text(Form::Any),
                "",
                "where new relations are stored",
            ),
            session(
                "default_transaction_deferrable",
                Kind::Bool,
                "off",
                "what transactions are that do not say otherwise",
            ),
            session(
                "default_transaction_isolation",
                Kind::Choice(ISOLATION),
                "read committed",
                "the isolation of transactions that name none",
            ),
            session(
                "default_transaction_read_only",
                Kind::Bool,
                "off",
                "whether transactions that do not say so only read",
            )
            .reported(),
            session(
                "idle_in_transaction_session_timeout",
                Kind::Integer(0, MOST, Unit::Milliseconds),
                "0",
                "longest wait for the client within a transaction, 0: no limit",
            ),
            session(
                "lock_timeout",
                Kind::Integer(0, MOST, Unit::Milliseconds),
                "0",
                "longest wait for a lock, 0: no limit",
            ),
            session(
                "role",
                Kind::Choice(&["none"]),
                "none",
                "the role whose rights count",
            )
            .not_in_files(),
            session(
                "row_security",
                Kind::Bool,
                "on",
                "whether row policies hold",
            )
            .vacuous("there are no row policies"),
            session(
                "search_path",
                Kind::Text(Form::Any),
                "\"$user\", public",
                "the schemas that names without one are looked up in",
            )
            .reported(),
            internal(
                "session_authorization",
                Kind::Text(Form::Any),
                "",
                "the role that logged in",
            )
            .reported(),
            session(
                "statement_timeout",
                Kind::Integer(0, MOST, Unit::Milliseconds),
                "0",
                "longest time a statement may take, 0: no limit",
            ),
            internal(
                "transaction_deferrable",
                Kind::Bool,
                "off",
                "a property of the present transaction",
            )
            .not_in_files(),
            session(
                "transaction_isolation",
                Kind::Choice(ISOLATION),
                "read committed",
                "a property of the present transaction",
            )
            .not_in_files(),
            session(
                "transaction_read_only",
                Kind::Bool,
                "off",
                "a property of the present transaction",
            )
            .not_in_files(),
        ],
    ),
    (
        "Client Connection Defaults / Locale and Formatting",
        &[
            session(
                "client_encoding",
                Kind::Text(Form::Encoding),
                "UTF8",
                "the client's character set",
            )
            .reported()
            .not_in_files(),
            session(
                "DateStyle",
                Kind::Text(Form::DateStyle),
                "ISO, MDY",
                "how dates are written, and in which order their fields are read",
            )
            .reported(),
            session(
                "extra_float_digits",
                Kind::Integer(-15, 3, Unit::None),
                "1",
                "digits of floats: above 0 the fewest that read back the same",
            ),
            session(
                "IntervalStyle",
                Kind::Choice(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
                "postgres",
                "how intervals are written",
            )
            .reported(),
            session(
                "lc_messages",
                Kind::Text(Form::Any),
                "C",
                "the locale of messages and formats",
            )
            .ignored("texts are in English"),
            session(
                "lc_monetary",
                Kind::Text(Form::Any),
                "C",
                "the locale of messages and formats",
            )
            .ignored("texts are in English"),
            session(
                "lc_numeric",
                Kind::Text(Form::Any),
                "C",
                "the locale of messages and formats",
            )
            .ignored("texts are in English"),
            session(
                "lc_time",
                Kind::Text(Form::Any),
                "C",
                "the locale of messages and formats",
            )
            .ignored("texts are in English"),
            session(
                "TimeZone",
                Kind::Text(Form::TimeZone),
                "UTC",
                "the zone that times are read and written in",
            )
            .reported(),
        ],
    ),
    (
        "Lock Management",
        &[session(
            "deadlock_timeout",
            Kind::Integer(1, MOST, Unit::Milliseconds),
            "1s",
            "how long a wait lasts before it is looked at for a deadlock",
        )],
    ),
    (
        "Reporting and Logging / What to Log",
        &[
            session(
                "application_name",
                Kind::Text(Form::Any),
                "",
                "the client's name for itself, shown in pg_stat_activity",
            )
            .reported()
            .not_in_files(),
            session(
                "log_statement",
                Kind::Choice(&["none", "ddl", "mod", "all"]),
                "none",
                "statements that are logged",
            )
            .ignored("statements are not logged"),
        ],
    ),
];
