//! The table of all settings, by PostgreSQL's categories.

mod clients;
mod connections;
mod fixed;
mod log;
mod queries;
mod resources;
mod vacuum;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::error::SettingError;
use crate::kind::Kind;

/// When a setting can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Never.
    Internal,
    /// When the server starts.
    Start,
    /// When the configuration is loaded again.
    Reload,
    /// In a session, whose beginning value the configuration gives.
    Session,
}

impl Context {
    /// Its name in `pg_settings`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Start => "postmaster",
            Context::Reload => "sighup",
            Context::Session => "user",
        }
    }
}

/// Whether the values of a setting make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Full,
    /// None can: there is nothing that it would concern.
    Vacuous(&'static str),
    /// The default only says how things are.
    Ignored(&'static str),
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Its name, as `pg_settings` has it.
    pub name: &'static str,
    /// Type and range of its values.
    pub kind: Kind,
    /// Its value when nothing sets it, as it could be written in a file.
    pub default: &'static str,
    /// When it can change.
    pub context: Context,
    /// Its effect.
    pub effect: &'static str,
    /// Clients are told of its changes.
    pub is_reported: bool,
    in_files: bool,
    used: Use,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: &'static str,
    context: Context,
) -> Setting {
    Setting {
        name,
        kind,
        default,
        context,
        effect,
        is_reported: false,
        in_files: !matches!(context, Context::Internal),
        used: Use::Full,
    }
}

/// The PostgreSQL version whose dialect this is.
pub const SERVER_VERSION: &str = "18.0";

macro_rules! contexts {
    ($($function:ident $context:ident;)*) => {
        $(const fn $function(
            name: &'static str,
            kind: Kind,
            default: &'static str,
            effect: &'static str,
        ) -> Setting {
            setting(name, kind, default, effect, Context::$context)
        })*
    };
}

contexts! {
    internal Internal;
    start Start;
    reload Reload;
    session Session;
}

impl Setting {
    const fn reported(self) -> Setting {
        Setting {
            is_reported: true,
            ..self
        }
    }

    const fn not_in_files(self) -> Setting {
        Setting {
            in_files: false,
            ..self
        }
    }

    const fn vacuous(self, why: &'static str) -> Setting {
        Setting {
            used: Use::Vacuous(why),
            ..self
        }
    }

    const fn ignored(self, why: &'static str) -> Setting {
        Setting {
            used: Use::Ignored(why),
            ..self
        }
    }

    /// Its category in `pg_settings`.
    #[must_use]
    pub fn category(&self) -> &'static str {
        let of = groups().find(|(_, settings)| settings.iter().any(|s| s.name == self.name));
        of.map_or("", |(category, _)| category)
    }

    /// Whether a configuration file, the command line or `ALTER SYSTEM` may give it.
    #[must_use]
    pub fn is_configurable(&self) -> bool {
        self.in_files
    }

    /// Whether it is worth a line in a list of settings to choose.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.used == Use::Full
    }

    /// The value in its canonical form: that of `pg_settings.setting`.
    ///
    /// # Errors
    /// When the value is not of the setting's form or out of its range.
    pub fn canonical(&self, value: &str) -> Result<String, SettingError> {
        self.kind.canonical(self.name, value)
    }

    /// As [`canonical`](Self::canonical), for a session whose current value stays in the parts that
    /// the new one does not name.
    ///
    /// # Errors
    /// As for [`canonical`](Self::canonical).
    pub fn canonical_after(&self, value: &str, current: &str) -> Result<String, SettingError> {
        self.kind.canonical_after(self.name, value, current)
    }

    /// The default in its canonical form.
    #[must_use]
    pub fn boot(&self) -> String {
        self.canonical(self.default).unwrap_or_default()
    }

    /// A canonical value as SHOW writes it, with a unit.
    #[must_use]
    pub fn shown(&self, value: &str) -> String {
        self.kind.shown(value)
    }

    /// That this canonical value has no effect, and why, if it has none that it should have.
    #[must_use]
    pub fn without_effect(&self, value: &str) -> Option<String> {
        match self.used {
            Use::Ignored(why) if value != self.boot() => {
                Some(format!("setting \"{}\" has no effect: {why}", self.name))
            }
            _ => None,
        }
    }

    /// Its description: the effect, or why it has none.
    #[must_use]
    pub fn description(&self) -> String {
        match self.used {
            Use::Full => self.effect.to_owned(),
            Use::Vacuous(why) | Use::Ignored(why) => {
                format!("{}; accepted without effect: {why}", self.effect)
            }
        }
    }
}

fn groups() -> impl Iterator<Item = (&'static str, &'static [Setting])> {
    let files: [&[(&str, &[Setting])]; 7] = [
        connections::SETTINGS,
        resources::SETTINGS,
        log::SETTINGS,
        vacuum::SETTINGS,
        queries::SETTINGS,
        clients::SETTINGS,
        fixed::SETTINGS,
    ];
    files.into_iter().flatten().copied()
}

/// Every setting, by category.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    groups().flat_map(|(_, settings)| settings)
}

/// The setting of a name, in upper or lower case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    static BY_NAME: OnceLock<HashMap<String, &'static Setting>> = OnceLock::new();
    let names = BY_NAME.get_or_init(|| {
        let named = |setting: &'static Setting| (setting.name.to_ascii_lowercase(), setting);
        all().map(named).collect()
    });
    match names.get(name) {
        Some(setting) => Some(setting),
        None => names.get(&name.to_ascii_lowercase()).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SET-1.
    #[test]
    fn every_setting_has_one_row_a_default_of_its_form_and_an_effect() {
        let mut names: Vec<String> = all().map(|s| s.name.to_ascii_lowercase()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for setting in all() {
            let boot = setting.canonical(setting.default);
            let boot = boot.unwrap_or_else(|error| panic!("{}: {error}", setting.name));
            let shown = setting.shown(&boot);
            assert_eq!(setting.canonical(&shown).unwrap(), boot, "{}", setting.name);
            assert!(!setting.effect.is_empty(), "{}", setting.name);
            assert!(!setting.category().is_empty(), "{}", setting.name);
            assert_eq!(find(&setting.name.to_uppercase()), Some(setting));
        }
    }

    #[test]
    fn values_are_checked_in_postgresqls_words() {
        let refused = |name: &str, value: &str| {
            let error = find(name).unwrap().canonical(value).unwrap_err();
            (error.to_string(), error.hint().unwrap_or("").to_owned())
        };
        assert_eq!(
            refused("work_mem", "1kB").0,
            "1 kB is outside the valid range for parameter \"work_mem\" (64 kB .. 2147483647 kB)"
        );
        assert_eq!(
            refused("statement_timeout", "soon"),
            (
                "invalid value for parameter \"statement_timeout\": \"soon\"".to_owned(),
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \
                 \"d\"."
                    .to_owned()
            )
        );
        assert_eq!(
            refused("bytea_output", "hexe").1,
            "Available values: escape, hex."
        );
        assert_eq!(
            refused("enable_sort", "perhaps").0,
            "parameter \"enable_sort\" requires a Boolean value"
        );
        assert_eq!(
            refused("vacuum_cost_delay", "101").0,
            "101 ms is outside the valid range for parameter \"vacuum_cost_delay\" \
             (0 ms .. 100 ms)"
        );
    }

    #[test]
    fn a_value_without_effect_says_so() {
        let jit = find("jit").unwrap();
        assert!(jit.without_effect("on").is_some() && jit.without_effect("off").is_none());
        let work_mem = find("work_mem").unwrap();
        assert!(work_mem.without_effect("1024").is_none());
    }
}
