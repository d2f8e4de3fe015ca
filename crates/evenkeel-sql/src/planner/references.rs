//! The statements of foreign keys, and the keys by which the rows that they refer to are found.

use std::fmt::Write;

use evenkeel_expr::find_cast;
use evenkeel_expr::proc::CastContext;
use evenkeel_planner::ast::KeyAction;
use evenkeel_planner::quote::identifier;

use crate::catalog::{ColumnInfo, ForeignKeyInfo, IndexInfo, TableInfo};
use crate::error::{SqlError, SqlResult};
use crate::types::{Datum, SqlType};

/// How a column's values are compared with those of the column that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// They are of one type.
    Same,
    /// The types have operators for each other, which the index knows.
    Family,
    /// They are converted to the other's type.
    Converted,
}

fn family(ty: SqlType) -> Option<u8> {
    Some(match ty {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => 1,
        SqlType::Float4 | SqlType::Float8 => 2,
        SqlType::Date | SqlType::Timestamp(_) | SqlType::Timestamptz(_) => 3,
        SqlType::Text | SqlType::Varchar(_) | SqlType::Name => 4,
        _ => return None,
    })
}

/// How values of `child` are compared with those of `parent`; none if they cannot be, as in
/// PostgreSQL's `ATAddForeignKeyConstraint`.
pub fn compared(child: SqlType, parent: SqlType) -> Option<Compared> {
    if child.oid() == parent.oid() {
        return Some(Compared::Same);
    }
    if family(parent).is_some() && family(parent) == family(child) {
        return Some(Compared::Family);
    }
    let cast = find_cast(child, parent)?;
    (cast.context == CastContext::Implicit).then_some(Compared::Converted)
}

/// The key of values of the parent's columns in the index of the foreign key.
pub fn parent_key(
    key: &ForeignKeyInfo,
    parent: &TableInfo,
    values: &[Datum],
) -> SqlResult<Vec<u8>> {
    let index = index_of(key, parent)?;
    let ordered = index.columns.iter().map(|part| {
        let attnum = parent.columns.get(part.column?)?.attnum;
        let at = key.referenced.iter().position(|number| *number == attnum);
        at.and_then(|at| values.get(at)).cloned()
    });
    let ordered: Option<Vec<Datum>> = ordered.collect();
    let ordered = ordered.ok_or_else(|| SqlError::internal("an index that does not fit"))?;
    let mut bytes = Vec::new();
    index.key.encode_prefix(&ordered, &mut bytes)?;
    Ok(bytes)
}

/// As [`parent_key`], of values of the child's columns; none where it takes a statement to compare
/// them, or where no row can have them.
pub fn search_key(
    key: &ForeignKeyInfo,
    (child, parent): (&TableInfo, &TableInfo),
    values: &[Datum],
) -> SqlResult<Option<Vec<u8>>> {
    let mut converted = Vec::with_capacity(values.len());
    for ((own, other), value) in key.columns.iter().zip(&key.referenced).zip(values) {
        let (from, to) = (column(child, *own)?.ty, column(parent, *other)?.ty);
        if from.oid() == to.oid() {
            converted.push(value.clone());
            continue;
        }
        let number = match value {
            Datum::Int2(number) => i64::from(*number),
            Datum::Int4(number) => i64::from(*number),
            Datum::Int8(number) => *number,
            _ => return Ok(None),
        };
        let number = match to {
            SqlType::Int2 => i16::try_from(number).ok().map(Datum::Int2),
            SqlType::Int4 => i32::try_from(number).ok().map(Datum::Int4),
            SqlType::Int8 => Some(Datum::Int8(number)),
            _ => None,
        };
        match number {
            Some(number) => converted.push(number),
            None => return Ok(None),
        }
    }
    parent_key(key, parent, &converted).map(Some)
}

fn index_of<'t>(key: &ForeignKeyInfo, parent: &'t TableInfo) -> SqlResult<&'t IndexInfo> {
    let mut indexes = parent.indexes.iter();
    let index = indexes.find(|index| index.oid == key.index);
    let index = index.ok_or_else(|| SqlError::internal("a foreign key without its index"))?;
    Ok(index)
}

fn numbered(table: &TableInfo, attnum: i16) -> Option<&ColumnInfo> {
    table.columns.iter().find(|column| column.attnum == attnum)
}

fn column(table: &TableInfo, attnum: i16) -> SqlResult<&ColumnInfo> {
    let column = numbered(table, attnum);
    column.ok_or_else(|| SqlError::internal("a foreign key of a column that is not there"))
}

/// The texts of a foreign key's statements. Parameters are the values of its columns, in order.
pub struct KeyTexts<'k> {
    key: &'k ForeignKeyInfo,
    child: &'k TableInfo,
    parent: &'k TableInfo,
}

/// A column of each table.
struct Pair<'k> {
    child: &'k ColumnInfo,
    parent: &'k ColumnInfo,
}

impl Pair<'_> {
    /// `parent = child`
    fn equal(&self, parent: &str, child: &str) -> String {
        match compared(self.child.ty, self.parent.ty) {
            Some(Compared::Converted) => {
                format!("{parent} = CAST({child} AS {})", self.parent.ty.base_name())
            }
            _ => format!("{parent} = {child}"),
        }
    }

    fn child(&self, of: &str) -> String {
        format!("{of}.{}", identifier(&self.child.name))
    }

    fn parent(&self, of: &str) -> String {
        format!("{of}.{}", identifier(&self.parent.name))
    }
}

fn name_of(table: &TableInfo) -> String {
    format!("{}.{}", identifier(&table.schema), identifier(&table.name))
}

impl<'k> KeyTexts<'k> {
    /// Those of a foreign key between these tables.
    pub fn new(key: &'k ForeignKeyInfo, child: &'k TableInfo, parent: &'k TableInfo) -> Self {
        KeyTexts { key, child, parent }
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'k>> {
        let (child, parent) = (self.child, self.parent);
        let pairs = self.key.columns.iter().zip(&self.key.referenced);
        pairs.filter_map(move |(own, other)| {
            Some(Pair {
                child: numbered(child, *own)?,
                parent: numbered(parent, *other)?,
            })
        })
    }

    /// The row that a child's values refer to, locked.
    pub fn parent_row(&self) -> String {
        let pairs = self.pairs().enumerate();
        let equal = pairs.map(|(n, pair)| pair.equal(&pair.parent("x"), &format!("${}", n + 1)));
        format!(
            "SELECT 1 FROM {} x WHERE {} FOR KEY SHARE OF x",
            name_of(self.parent),
            equal.collect::<Vec<_>>().join(" AND ")
        )
    }

    /// The condition that a child refers to the parent's values.
    fn refers(&self) -> String {
        let pairs = self.pairs().enumerate();
        let equal = pairs.map(|(n, pair)| pair.equal(&format!("${}", n + 1), &pair.child("x")));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    /// A child of the parent's values, locked.
    pub fn child_row(&self) -> String {
        format!(
            "SELECT 1 FROM {} x WHERE {} LIMIT 1 FOR KEY SHARE OF x",
            name_of(self.child),
            self.refers()
        )
    }

    /// ON DELETE CASCADE
    pub fn delete_children(&self) -> String {
        format!(
            "DELETE FROM {} x WHERE {}",
            name_of(self.child),
            self.refers()
        )
    }

    /// ON UPDATE CASCADE; the new values are behind the old ones.
    pub fn update_children(&self) -> String {
        let count = self.key.columns.len();
        let set = self.pairs().enumerate().map(|(n, pair)| {
            let name = identifier(&pair.child.name);
            format!("{name} = ${}", count + n + 1)
        });
        self.update(&set.collect::<Vec<_>>())
    }

    /// SET NULL, SET DEFAULT: of some columns only, `on_delete`.
    pub fn set_children(&self, action: KeyAction, on_delete: bool) -> String {
        let value = match action {
            KeyAction::SetDefault => "DEFAULT",
            _ => "NULL",
        };
        let columns = match on_delete && !self.key.set_columns.is_empty() {
            true => &self.key.set_columns,
            false => &self.key.columns,
        };
        let columns = columns.iter();
        let columns = columns.filter_map(|attnum| numbered(self.child, *attnum));
        let set = columns.map(|column| format!("{} = {value}", identifier(&column.name)));
        self.update(&set.collect::<Vec<_>>())
    }

    fn update(&self, set: &[String]) -> String {
        format!(
            "UPDATE {} x SET {} WHERE {}",
            name_of(self.child),
            set.join(", "),
            self.refers()
        )
    }

    /// The values of children that refer to nothing, or mix NULLs with values under MATCH FULL.
    pub fn orphans(&self) -> String {
        let pairs: Vec<Pair<'_>> = self.pairs().collect();
        let list = |make: &dyn Fn(&Pair<'_>) -> String, between: &str| {
            pairs.iter().map(make).collect::<Vec<_>>().join(between)
        };
        let equal = list(
            &|pair| pair.equal(&pair.parent("pk"), &pair.child("fk")),
            " AND ",
        );
        let given = |pair: &Pair<'_>| format!("{} IS NOT NULL", pair.child("fk"));
        let given = list(&given, if self.key.full { " OR " } else { " AND " });
        let mut text = format!("SELECT {}", list(&|pair| pair.child("fk"), ", "));
        let _ = write!(
            text,
            " FROM {} fk LEFT JOIN {} pk ON {equal} WHERE {} IS NULL AND ({given}) LIMIT 1",
            name_of(self.child),
            name_of(self.parent),
            pairs
                .first()
                .map_or_else(String::new, |pair| pair.parent("pk")),
        );
        text
    }
}
