//! Enumerated types: their definitions, which live as long as the process, and their values.
//!
//! A value is the label's sort position, a number with room between neighbours, so that labels
//! added later keep the order without a rewrite of rows (PostgreSQL's `pg_enum.enumsortorder`).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::error::{SqlState, TypeError, TypeResult};

/// Distance of neighbours in a new type.
pub const STRIDE: i64 = 1 << 32;
/// Bytes of the longest label.
pub const LABEL_LENGTH: usize = 63;

/// A label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumLabel {
    /// `pg_enum.oid`
    pub oid: u32,
    /// Its place in the order.
    pub position: i64,
    /// The label.
    pub label: Box<str>,
}

/// The parts of an enumerated type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumParts {
    /// `pg_type.oid`
    pub oid: u32,
    /// The oid of the type of its arrays.
    pub array_oid: u32,
    /// Its name as messages have it, quoted where it has to be.
    pub name: Box<str>,
    /// The name of the type of its arrays, the same way.
    pub array_name: Box<str>,
    /// The labels in their order.
    pub labels: Vec<EnumLabel>,
}

/// The definition of an enumerated type. One that changes is another definition of the same oid; a
/// value keeps that under which it was made.
pub struct EnumType {
    parts: EnumParts,
    number: u32,
}

/// The definitions that there were in this process. They are few, and none is ever freed: types
/// are copied into plans and values everywhere.
#[derive(Default)]
struct Definitions {
    all: Vec<&'static EnumType>,
    by_oid: HashMap<u32, Vec<&'static EnumType>>,
}

static DEFINITIONS: LazyLock<RwLock<Definitions>> = LazyLock::new(RwLock::default);

impl EnumType {
    /// The type of these parts, the same for the same parts.
    pub fn define(parts: EnumParts) -> &'static EnumType {
        let mut definitions = DEFINITIONS.write();
        let known = definitions.by_oid.get(&parts.oid).into_iter().flatten();
        if let Some(known) = known.copied().find(|known| known.parts == parts) {
            return known;
        }
        let number = u32::try_from(definitions.all.len()).unwrap_or(u32::MAX);
        let oid = parts.oid;
        let made: &'static EnumType = Box::leak(Box::new(EnumType { parts, number }));
        definitions.all.push(made);
        definitions.by_oid.entry(oid).or_default().push(made);
        made
    }

    /// The definition of a number that this process gave it, for values in temporary files.
    pub fn numbered(number: u32) -> Option<&'static EnumType> {
        DEFINITIONS.read().all.get(number as usize).copied()
    }

    /// See [`EnumType::numbered`].
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `pg_type.oid`
    pub fn oid(&self) -> u32 {
        self.parts.oid
    }

    /// The oid of the type of its arrays.
    pub fn array_oid(&self) -> u32 {
        self.parts.array_oid
    }

    /// Its name as messages have it.
    pub fn name(&'static self) -> &'static str {
        &self.parts.name
    }

    /// The name of the type of its arrays.
    pub fn array_name(&'static self) -> &'static str {
        &self.parts.array_name
    }

    /// The labels in their order.
    pub fn labels(&self) -> &[EnumLabel] {
        &self.parts.labels
    }

    /// Whether this is its name, which is not quoted.
    pub fn is_called(&self, name: &str) -> bool {
        let quoted = self.parts.name.strip_prefix('"');
        match quoted.and_then(|rest| rest.strip_suffix('"')) {
            Some(within) => within.replace("\"\"", "\"") == name,
            None => *self.parts.name == *name,
        }
    }

    /// The value of a label.
    ///
    /// # Errors
    /// 22P02 for a label that there is not.
    pub fn value(&'static self, label: &str) -> TypeResult<EnumValue> {
        let mut labels = self.parts.labels.iter();
        let found = labels.find(|known| *known.label == *label);
        let position = found.map(|found| found.position).ok_or_else(|| {
            let name = self.name();
            let message = format!("invalid input value for enum {name}: \"{label}\"");
            TypeError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?;
        Ok(EnumValue { ty: self, position })
    }

    /// The label of a position.
    pub fn label(&self, position: i64) -> Option<&EnumLabel> {
        let labels = &self.parts.labels;
        let at = labels.binary_search_by_key(&position, |label| label.position);
        at.ok().and_then(|at| labels.get(at))
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.parts.oid == other.parts.oid
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.oid.hash(state);
    }
}

impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.parts.name, self.parts.oid)
    }
}

/// A value of an enumerated type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnumValue {
    /// The type.
    pub ty: &'static EnumType,
    /// The label's place in the order.
    pub position: i64,
}

impl EnumValue {
    /// The label. One that the definition does not have is of a later one: its position is shown.
    pub fn text(&self) -> String {
        match self.ty.label(self.position) {
            Some(label) => label.label.to_string(),
            None => format!("{}:{}", self.ty.name(), self.position),
        }
    }
}

impl PartialOrd for EnumValue {
    fn partial_cmp(&self, other: &EnumValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EnumValue {
    fn cmp(&self, other: &EnumValue) -> Ordering {
        self.position.cmp(&other.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood(labels: &[&str]) -> &'static EnumType {
        let labels = (1..).zip(labels).map(|(n, label)| EnumLabel {
            oid: 100 + n,
            position: i64::from(n) * STRIDE,
            label: (*label).into(),
        });
        EnumType::define(EnumParts {
            oid: 99,
            array_oid: 98,
            name: "\"Mood\"".into(),
            array_name: "\"Mood\"[]".into(),
            labels: labels.collect(),
        })
    }

    #[test]
    fn a_definition_is_made_once_and_another_of_its_oid_is_the_same_type() {
        let (first, again) = (mood(&["sad", "ok"]), mood(&["sad", "ok"]));
        let more = mood(&["sad", "ok", "happy"]);
        assert_eq!(first.number(), again.number());
        assert_ne!(first.number(), more.number());
        assert_eq!(first, more);
        let found = first;
        assert!(EnumType::numbered(found.number()).is_some());
        assert_eq!(found.value("ok").map(|ok| ok.text()), Ok("ok".to_owned()));
        assert!(found.value("sad").unwrap() < found.value("ok").unwrap());
        let error = found.value("happy").unwrap_err();
        assert_eq!(
            &*error.message,
            "invalid input value for enum \"Mood\": \"happy\""
        );
        assert!(found.is_called("Mood") && !found.is_called("\"Mood\""));
    }
}
