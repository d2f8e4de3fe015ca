//! SQL against a database in this process: by example from files (`tests/slt`), and with several
//! sessions at once.

mod altering;
mod catalogs;
mod concurrency;
mod copying;
mod databases;
mod domains;
mod enums;
mod files;
mod foreign_keys;
mod harness;
mod maintenance;
mod notify;
mod prepared;
mod reindex;
mod schemas;
mod statistics;
mod system_columns;
mod temporary;
mod texts;
mod unique_keys;
