//! Functions that make uuids: PostgreSQL's own and those of `uuid-ossp`.

use uuid::Uuid;

use super::define::{Call, PgFunction, Result};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType};

fn v4(_: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Uuid(Uuid::new_v4().into_bytes()))
}

fn v7(_: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Uuid(Uuid::now_v7().into_bytes()))
}

/// A node id made of random bits, marked as such by the multicast bit, so that no hardware
/// address leaves the server.
fn v1(_: &Call<'_>) -> SqlResult<Datum> {
    let random = Uuid::new_v4();
    let mut node = [0u8; 6];
    node.copy_from_slice(&random.as_bytes()[..6]);
    node[0] |= 1;
    Ok(Datum::Uuid(Uuid::now_v1(&node).into_bytes()))
}

fn nil(_: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Uuid([0; 16]))
}

pub(super) fn functions() -> Vec<PgFunction> {
    let ty = SqlType::Uuid;
    vec![
        PgFunction::nullary("gen_random_uuid", ty, Result::EveryRow, v4)
            .also(&["uuidv4", "uuid_generate_v4"]),
        PgFunction::nullary("uuidv7", ty, Result::EveryRow, v7),
        PgFunction::nullary("uuid_generate_v1", ty, Result::EveryRow, v1)
            .also(&["uuid_generate_v1mc"]),
        PgFunction::nullary("uuid_nil", ty, Result::Immutable, nil),
    ]
}
