//! PostgreSQL's own types and functions as far as this server has them: `data/types.txt` and
//! `data/procs.txt`, read once.

use std::sync::LazyLock;

/// A row of `pg_type`. Numbers and flags are kept as the words they are in the file.
#[derive(Debug, Clone)]
pub struct TypeDef {
    /// Oid.
    pub oid: u32,
    /// `typname`.
    pub name: &'static str,
    /// As `format_type` gives it.
    pub formatted: &'static str,
    words: Vec<&'static str>,
}

/// Columns of `pg_type` that the file has, in its order.
const TYPE_COLUMNS: [&str; 20] = [
    "oid",
    "typname",
    "typlen",
    "typbyval",
    "typtype",
    "typcategory",
    "typispreferred",
    "typelem",
    "typarray",
    "typalign",
    "typstorage",
    "typcollation",
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typsubscript",
    "typdelim",
];

impl TypeDef {
    /// Column names with their values as text.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        TYPE_COLUMNS.into_iter().zip(self.words.iter().copied())
    }

    /// One column's value as text.
    pub fn get(&self, column: &str) -> &'static str {
        self.columns()
            .find(|(name, _)| *name == column)
            .map_or("", |(_, value)| value)
    }
}

/// All types.
pub fn types() -> &'static [TypeDef] {
    static ALL: LazyLock<Vec<TypeDef>> = LazyLock::new(|| {
        lines(include_str!("data/types.txt"))
            .filter_map(type_def)
            .collect()
    });
    &ALL
}

/// A type by oid.
pub fn type_by_oid(oid: u32) -> Option<&'static TypeDef> {
    types().iter().find(|ty| ty.oid == oid)
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn type_def(line: &'static str) -> Option<TypeDef> {
    let mut words = line.splitn(TYPE_COLUMNS.len() + 1, ' ');
    let first: Vec<&str> = words.by_ref().take(TYPE_COLUMNS.len()).collect();
    Some(TypeDef {
        oid: first.first()?.parse().ok()?,
        name: first.get(1)?,
        formatted: words.next()?,
        words: first,
    })
}

/// A row of `pg_proc`.
#[derive(Debug, Clone)]
pub struct ProcDef {
    /// Oid.
    pub oid: u32,
    /// `proname`.
    pub name: &'static str,
    /// `prokind`.
    pub kind: &'static str,
    /// `provolatile`.
    pub volatility: &'static str,
    /// `proisstrict`.
    pub strict: bool,
    /// `proretset`.
    pub returns_set: bool,
    /// `prorettype`.
    pub return_type: u32,
    /// `proargtypes`, with blanks between the oids.
    pub arg_types: String,
    /// As `pg_get_function_result` gives it.
    pub result: &'static str,
    /// As `pg_get_function_arguments` gives it.
    pub arguments: &'static str,
}

/// All functions.
pub fn procs() -> &'static [ProcDef] {
    static ALL: LazyLock<Vec<ProcDef>> = LazyLock::new(|| {
        lines(include_str!("data/procs.txt"))
            .filter_map(proc_def)
            .collect()
    });
    &ALL
}

/// A function by oid.
pub fn proc_by_oid(oid: u32) -> Option<&'static ProcDef> {
    procs().iter().find(|proc| proc.oid == oid)
}

fn proc_def(line: &'static str) -> Option<ProcDef> {
    let (head, arguments) = line.split_once(" |")?;
    let mut words = head.splitn(9, ' ');
    let mut word = || words.next();
    Some(ProcDef {
        oid: word()?.parse().ok()?,
        name: word()?,
        kind: word()?,
        volatility: word()?,
        strict: word()? == "t",
        returns_set: word()? == "t",
        return_type: word()?.parse().ok()?,
        arg_types: word()?.trim_matches('-').replace(',', " "),
        result: word()?,
        arguments: arguments.trim_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SqlType;

    #[test]
    fn the_files_agree_with_the_types_of_this_server() {
        for ty in SqlType::all() {
            let def = type_by_oid(ty.oid()).unwrap_or_else(|| panic!("{ty:?} is missing"));
            assert_eq!(def.name, ty.type_name());
            assert_eq!(def.get("typlen"), ty.wire_len().to_string(), "{ty:?}");
        }
        assert_eq!(types().len(), lines(include_str!("data/types.txt")).count());
    }

    #[test]
    fn functions_have_signatures() {
        assert_eq!(procs().len(), lines(include_str!("data/procs.txt")).count());
        let named = |name: &str| procs().iter().find(|p| p.name == name);
        let upper = named("upper").map(|p| (p.result, p.arguments, p.arg_types.as_str()));
        assert_eq!(upper, Some(("text", "text", "25")));
        let now = named("now").map(|p| (p.result, p.arguments, p.arg_types.as_str()));
        assert_eq!(now, Some(("timestamp with time zone", "", "")));
    }
}
