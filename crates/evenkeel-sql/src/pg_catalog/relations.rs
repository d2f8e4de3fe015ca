//! The shape of PostgreSQL's catalogs: `data/relations.txt`, read once.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::SqlType;

/// A column of a catalog.
#[derive(Debug, Clone)]
pub struct ColumnDef {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub ty: SqlType,
    /// NOT NULL.
    pub not_null: bool,
}

/// A relation of PostgreSQL's own.
#[derive(Debug, Clone)]
pub struct RelationDef {
    /// Oid.
    pub oid: u32,
    /// `pg_catalog` or `information_schema`.
    pub schema: &'static str,
    /// Name.
    pub name: &'static str,
    /// `relkind`: `r` or `v`.
    pub kind: &'static str,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Position of a column.
    positions: HashMap<&'static str, usize>,
}

impl RelationDef {
    /// Position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.positions.get(column).copied()
    }
}

/// All of them, in the order of the file.
pub fn all() -> &'static [RelationDef] {
    static ALL: LazyLock<Vec<RelationDef>> =
        LazyLock::new(|| parse(include_str!("data/relations.txt")));
    &ALL
}

/// One of them.
pub fn find(schema: &str, name: &str) -> Option<&'static RelationDef> {
    // By name alone first, so that the key need not live as long as the map.
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static RelationDef>>> =
        LazyLock::new(|| {
            let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
            all()
                .iter()
                .for_each(|r| by_name.entry(r.name).or_default().push(r));
            by_name
        });
    BY_NAME
        .get(name)?
        .iter()
        .find(|relation| relation.schema == schema)
        .copied()
}

/// One of them by oid.
pub fn by_oid(oid: u32) -> Option<&'static RelationDef> {
    all().iter().find(|relation| relation.oid == oid)
}

fn parse(text: &'static str) -> Vec<RelationDef> {
    let mut relations: Vec<RelationDef> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(columns) = line.strip_prefix(' ') {
            if let Some(last) = relations.last_mut() {
                last.columns
                    .extend(columns.split_whitespace().filter_map(column));
            }
        } else if let Some(relation) = header(line) {
            relations.push(relation);
        }
    }
    relations.iter_mut().for_each(finish);
    relations
}

fn header(line: &'static str) -> Option<RelationDef> {
    let mut words = line.split(' ');
    Some(RelationDef {
        oid: words.next()?.parse().ok()?,
        schema: words.next()?,
        name: words.next()?,
        kind: words.next()?,
        columns: Vec::new(),
        positions: HashMap::new(),
    })
}

fn column(word: &'static str) -> Option<ColumnDef> {
    let (word, not_null) = match word.strip_suffix('!') {
        Some(word) => (word, true),
        None => (word, false),
    };
    let (name, ty) = word.split_once(':')?;
    Some(ColumnDef {
        name,
        ty: type_named(ty)?,
        not_null,
    })
}

/// The types that occur, by the names that the file has for them.
fn type_named(name: &str) -> Option<SqlType> {
    if let Some(element) = name.strip_suffix("[]") {
        return type_named(element)?.array_of();
    }
    Some(match name {
        "bool" => SqlType::Bool,
        "bytea" => SqlType::Bytea,
        "char" => SqlType::InternalChar,
        "float4" => SqlType::Float4,
        "float8" => SqlType::Float8,
        "int2" => SqlType::Int2,
        "int2vector" => SqlType::Int2Vector,
        "int4" => SqlType::Int4,
        "int8" => SqlType::Int8,
        "interval" => SqlType::Interval(None),
        "name" => SqlType::Name,
        "numeric" => SqlType::Numeric(None),
        "oid" => SqlType::Oid,
        "oidvector" => SqlType::OidVector,
        "regproc" => SqlType::Regproc,
        "regtype" => SqlType::Regtype,
        "text" => SqlType::Text,
        "timestamptz" => SqlType::Timestamptz(None),
        "xid" => SqlType::Xid,
        "varchar" => SqlType::Varchar(None),
        _ => return None,
    })
}

fn finish(relation: &mut RelationDef) {
    relation.positions = relation
        .columns
        .iter()
        .enumerate()
        .map(|(i, c)| (c.name, i))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_file_is_understood() {
        let text = include_str!("data/relations.txt");
        let words = text
            .lines()
            .filter(|line| line.starts_with(' '))
            .map(|line| line.split_whitespace().count())
            .sum::<usize>();
        let headers = text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(all().len(), headers.count());
        assert_eq!(all().iter().map(|r| r.columns.len()).sum::<usize>(), words);
        assert_eq!(find("pg_catalog", "pg_class").map(|r| r.oid), Some(1259));
        let class = by_oid(1259).and_then(|r| r.position("relname"));
        assert_eq!(class, Some(1));
    }
}
