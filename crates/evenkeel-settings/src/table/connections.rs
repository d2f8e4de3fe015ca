//! Settings of connections.

use super::{Setting, reload, start};
use crate::kind::{Form, Kind};
use crate::units::Unit;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Connections and Authentication / Connection Settings",
        &[
            start(
                "port",
                Kind::Integer(0, 65_535, Unit::None),
                "5432",
                "TCP port on 127.0.0.1",
            ),
            start(
                "unix_socket_directories",
                Kind::Text(Form::Any),
                "/tmp",
                "directory of the Unix socket, or ''",
            ),
            start(
                "max_connections",
                Kind::Integer(1, 100_000, Unit::None),
                "1000",
                "sessions at once",
            ),
        ],
    ),
    (
        "Connections and Authentication / Authentication",
        &[reload(
            "authentication_timeout",
            Kind::Integer(1, 600, Unit::Seconds),
            "1min",
            "time to complete start-up",
        )],
    ),
];
