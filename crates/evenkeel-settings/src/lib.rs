//! Settings: one table of all of them, the forms of their values, the files that give them, and
//! their reload while the server runs. See this crate's `README.md`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod configuration;
mod error;
mod file;
mod kind;
mod table;
mod units;

pub use configuration::{
    AUTO_FILE, Configuration, FILE, FileEntry, Given, Loaded, Source, settings_file,
};
pub use error::SettingError;
pub use kind::{Form, Kind};
pub use table::{Context, SERVER_VERSION, Setting, all, find};
pub use units::{Unit, boolean, parse_size};
