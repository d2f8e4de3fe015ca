//! Functions that PostgreSQL has not, or has with types that there are not here: expressions of the
//! catalog (`pg_node_tree`), privileges (`aclitem`), and places in the log (`pg_lsn`)
//! are texts. The session answers them. Those of the extension
//! `uuid-ossp` are here too.

use super::procs;
use super::types::{BOOL, CHAR, INT8, NUMERIC, OID, TEXT, TEXTS, TIMESTAMPTZ, UUID};
use crate::{system, uuids};

procs! {
    16001 volatile evenkeel_zero_damaged_page(TEXT, TEXT, INT8) -> TEXT = system::ask;
    16002 volatile evenkeel_discard_damage(TEXT, TEXT, INT8) -> TEXT = system::ask;
    16015 volatile evenkeel_rebuild_damaged_page(TEXT, TEXT, INT8) -> TEXT = system::ask;
    16007 volatile pg_current_wal_lsn() -> TEXT = system::ask;
    16008 volatile pg_current_wal_insert_lsn() -> TEXT = system::ask;
    16009 volatile pg_current_wal_flush_lsn() -> TEXT = system::ask;
    16010 volatile pg_last_wal_receive_lsn() -> TEXT = system::ask;
    16011 volatile pg_last_wal_replay_lsn() -> TEXT = system::ask;
    16012 pure pg_wal_lsn_diff(TEXT, TEXT) -> NUMERIC = system::ask;
    16004 stable pg_get_expr(TEXT, OID) -> TEXT = system::ask;
    16005 stable pg_get_expr(TEXT, OID, BOOL) -> TEXT = system::ask;
    16006 pure acldefault(CHAR, OID) -> TEXTS = system::ask;
    16013 volatile pg_xact_commit_timestamp(TEXT) -> TIMESTAMPTZ = system::ask;
    16020 volatile uuid_generate_v1() -> UUID = uuids::version1;
    16021 volatile uuid_generate_v1mc() -> UUID = uuids::version1;
    16022 volatile uuid_generate_v4() -> UUID = uuids::version4;
    16023 pure uuid_nil() -> UUID = uuids::nil;
    16024 pure uuid_ns_dns() -> UUID = uuids::namespace_dns;
    16025 pure uuid_ns_url() -> UUID = uuids::namespace_url;
    16026 pure uuid_ns_oid() -> UUID = uuids::namespace_oid;
    16027 pure uuid_ns_x500() -> UUID = uuids::namespace_x500;
}
