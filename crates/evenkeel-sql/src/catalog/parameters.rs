//! Storage parameters of tables: `WITH (…)`, `ALTER TABLE … SET (…)`, `reloptions`.

use std::collections::BTreeMap;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// Type and range of a parameter's values.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Int(i64, i64),
    Real(f64, f64),
}

const COUNT: Kind = Kind::Int(0, i32::MAX as i64);
const SHARE: Kind = Kind::Real(0.0, 100.0);

/// The parameters besides `fillfactor`, which the engine has as a number of its own.
const KNOWN: &[(&str, Kind)] = &[
    ("autovacuum_analyze_scale_factor", SHARE),
    ("autovacuum_analyze_threshold", COUNT),
    ("autovacuum_enabled", Kind::Bool),
    (
        "autovacuum_freeze_max_age",
        Kind::Int(100_000, 2_000_000_000),
    ),
    ("autovacuum_freeze_min_age", Kind::Int(0, 1_000_000_000)),
    ("autovacuum_freeze_table_age", Kind::Int(0, 2_000_000_000)),
    ("autovacuum_vacuum_cost_delay", Kind::Real(-1.0, 100.0)),
    ("autovacuum_vacuum_cost_limit", Kind::Int(-1, 10_000)),
    ("autovacuum_vacuum_insert_scale_factor", SHARE),
    (
        "autovacuum_vacuum_insert_threshold",
        Kind::Int(-1, i32::MAX as i64),
    ),
    (
        "autovacuum_vacuum_max_threshold",
        Kind::Int(-1, i32::MAX as i64),
    ),
    ("autovacuum_vacuum_scale_factor", SHARE),
    ("autovacuum_vacuum_threshold", COUNT),
    ("parallel_workers", Kind::Int(0, 1024)),
    ("vacuum_truncate", Kind::Bool),
];

/// The parameters that were declared for a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageParameters(BTreeMap<&'static str, String>);

impl StorageParameters {
    /// Sets a parameter.
    ///
    /// # Errors
    /// 22023 for a name or a value that is none.
    pub fn set(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let invalid = |message| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        let Some((name, kind)) = known else {
            return Err(invalid(format!("unrecognized parameter \"{name}\"")));
        };
        let bounds = |low: String, high: String| {
            let message = format!("value {value} out of bounds for option \"{name}\"");
            let detail = format!("Valid values are between \"{low}\" and \"{high}\".");
            invalid(message).detail(detail)
        };
        let canonical = match *kind {
            Kind::Bool => match value.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => "true".to_owned(),
                "off" | "false" | "no" | "0" => "false".to_owned(),
                _ => {
                    let message = format!("invalid value for boolean option \"{name}\": {value}");
                    return Err(invalid(message));
                }
            },
            Kind::Int(low, high) => {
                let number: i64 = value.parse().map_err(|_| {
                    invalid(format!(
                        "invalid value for integer option \"{name}\": {value}"
                    ))
                })?;
                if !(low..=high).contains(&number) {
                    return Err(bounds(low.to_string(), high.to_string()));
                }
                number.to_string()
            }
            Kind::Real(low, high) => {
                let number: f64 = value.parse().map_err(|_| {
                    let what = "invalid value for floating point option";
                    invalid(format!("{what} \"{name}\": {value}"))
                })?;
                if !(low..=high).contains(&number) {
                    return Err(bounds(format!("{low:.6}"), format!("{high:.6}")));
                }
                value.to_owned()
            }
        };
        self.0.insert(name, canonical);
        Ok(())
    }

    /// Goes back to the default.
    pub fn reset(&mut self, name: &str) {
        self.0.remove(name);
    }

    fn get<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name)?.parse().ok()
    }

    /// The value of a whole number.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)
    }

    /// The value of a real number.
    pub fn real(&self, name: &str) -> Option<f64> {
        self.get(name)
    }

    /// The value of a Boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)
    }

    /// As `name=value`, by name.
    pub fn items(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(name, value)| format!("{name}={value}"))
    }

    /// As it is stored: NULL when nothing was declared.
    pub(super) fn to_datum(&self) -> Datum {
        if self.0.is_empty() {
            return Datum::Null;
        }
        Datum::Text(self.items().collect::<Vec<_>>().join(","))
    }

    /// From its stored form; `None` if that makes no sense.
    pub(super) fn from_stored(text: Option<&str>) -> Option<StorageParameters> {
        let mut parameters = StorageParameters::default();
        for item in text.into_iter().flat_map(|text| text.split(',')) {
            let (name, value) = item.split_once('=')?;
            parameters.set(name, value).ok()?;
        }
        Some(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_being_stored_and_bad_ones_are_refused() {
        let mut parameters = StorageParameters::default();
        parameters.set("autovacuum_enabled", "off").unwrap();
        parameters
            .set("autovacuum_vacuum_scale_factor", "0.05")
            .unwrap();
        parameters.set("autovacuum_vacuum_threshold", "7").unwrap();
        assert_eq!(parameters.flag("autovacuum_enabled"), Some(false));
        assert_eq!(
            parameters.real("autovacuum_vacuum_scale_factor"),
            Some(0.05)
        );
        assert_eq!(parameters.int("autovacuum_vacuum_threshold"), Some(7));
        assert_eq!(parameters.int("autovacuum_analyze_threshold"), None);
        let Datum::Text(stored) = parameters.to_datum() else {
            panic!("nothing stored");
        };
        assert_eq!(
            StorageParameters::from_stored(Some(&stored)).unwrap(),
            parameters
        );
        let refused = [("nonsense", "1"), ("autovacuum_enabled", "2")];
        for (name, value) in refused.into_iter().chain([
            ("autovacuum_vacuum_threshold", "-1"),
            ("autovacuum_vacuum_scale_factor", "101"),
            ("autovacuum_vacuum_scale_factor", "x"),
        ]) {
            let error = parameters.set(name, value).unwrap_err();
            assert_eq!(error.sqlstate, SqlState::INVALID_PARAMETER_VALUE, "{name}");
        }
        parameters.reset("autovacuum_enabled");
        assert_eq!(parameters.flag("autovacuum_enabled"), None);
        assert_eq!(StorageParameters::from_stored(Some("a")), None);
    }
}
