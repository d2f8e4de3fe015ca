//! Short names for the types in signatures.

#![allow(missing_docs)]

use evenkeel_types::SqlType;

use crate::proc::ArgType;

pub const BOOL: ArgType = ArgType::Is(SqlType::Bool);
pub const INT2: ArgType = ArgType::Is(SqlType::Int2);
pub const INT4: ArgType = ArgType::Is(SqlType::Int4);
pub const INT8: ArgType = ArgType::Is(SqlType::Int8);
pub const FLOAT4: ArgType = ArgType::Is(SqlType::Float4);
pub const FLOAT8: ArgType = ArgType::Is(SqlType::Float8);
pub const NUMERIC: ArgType = ArgType::Is(SqlType::Numeric(None));
pub const TEXT: ArgType = ArgType::Is(SqlType::Text);
pub const VARCHAR: ArgType = ArgType::Is(SqlType::Varchar(None));
pub const BPCHAR: ArgType = ArgType::Is(SqlType::Char(None));
pub const DATE: ArgType = ArgType::Is(SqlType::Date);
pub const TIME: ArgType = ArgType::Is(SqlType::Time(None));
pub const TIMETZ: ArgType = ArgType::Is(SqlType::Timetz(None));
pub const TIMESTAMP: ArgType = ArgType::Is(SqlType::Timestamp(None));
pub const TIMESTAMPTZ: ArgType = ArgType::Is(SqlType::Timestamptz(None));
pub const INTERVAL: ArgType = ArgType::Is(SqlType::Interval(None));
pub const UUID: ArgType = ArgType::Is(SqlType::Uuid);
pub const JSON: ArgType = ArgType::Is(SqlType::Json);
pub const JSONB: ArgType = ArgType::Is(SqlType::Jsonb);
pub const BYTEA: ArgType = ArgType::Is(SqlType::Bytea);
pub const NAME: ArgType = ArgType::Is(SqlType::Name);
pub const OID: ArgType = ArgType::Is(SqlType::Oid);
pub const CHAR: ArgType = ArgType::Is(SqlType::InternalChar);
pub const REGCLASS: ArgType = ArgType::Is(SqlType::Regclass);
pub const REGTYPE: ArgType = ArgType::Is(SqlType::Regtype);
pub const REGNAMESPACE: ArgType = ArgType::Is(SqlType::Regnamespace);
pub const REGROLE: ArgType = ArgType::Is(SqlType::Regrole);
pub const REGPROC: ArgType = ArgType::Is(SqlType::Regproc);
pub const OIDVECTOR: ArgType = ArgType::Is(SqlType::OidVector);
pub const TID: ArgType = ArgType::Is(SqlType::Tid);
pub const XID: ArgType = ArgType::Is(SqlType::Xid);
pub const CID: ArgType = ArgType::Is(SqlType::Cid);
pub const XID8: ArgType = ArgType::Is(SqlType::Xid8);
pub const VOID: ArgType = ArgType::Is(SqlType::Void);
pub const TEXTS: ArgType = ArgType::Is(SqlType::TEXT_ARRAY);
pub const NAMES: ArgType = ArgType::Is(SqlType::array(&SqlType::Name));
pub const INT4S: ArgType = ArgType::Is(SqlType::array(&SqlType::Int4));
pub const RECORD: ArgType = ArgType::Record;
pub const ANY: ArgType = ArgType::Any;
pub const ANYCOMPATIBLE: ArgType = ArgType::AnyCompatible;
pub const ANYCOMPATIBLEARRAY: ArgType = ArgType::AnyCompatibleArray;
pub const ANYELEMENT: ArgType = ArgType::AnyElement;
pub const ANYARRAY: ArgType = ArgType::AnyArray;
pub const ANYENUM: ArgType = ArgType::AnyEnum;
pub const ANYNONARRAY: ArgType = ArgType::AnyNonArray;
