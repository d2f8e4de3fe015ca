//! A view as the catalog describes it, and how that is written down.

use std::fmt::{Display, Write};
use std::sync::Arc;

use evenkeel_engine::Tid;

use super::Oid;
use crate::types::SqlType;

/// A column of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewColumn {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub ty: SqlType,
}

/// A column of a relation when a view was made over it. Later ones are not the view's.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceColumn {
    /// `attnum`
    pub attnum: i16,
    /// The name that it had.
    pub name: Arc<str>,
    /// Whether the view looks at it.
    pub used: bool,
}

/// A name in the text of a view that stands for a relation, whatever that is called now.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewReference {
    /// The schema that was said.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Where it begins in the text.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Whether an alias follows.
    pub aliased: bool,
    /// The relation.
    pub oid: Oid,
    /// Its columns.
    pub columns: Vec<ReferenceColumn>,
}

/// The settings under which constants in a view's text are read: those of the session that made it,
/// and the time then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadUnder {
    /// `TimeZone`
    pub time_zone: String,
    /// `DateStyle`
    pub date_style: String,
    /// `IntervalStyle`
    pub interval_style: String,
    /// The transaction's start, microseconds since 1970 UTC.
    pub now: i64,
}

/// A view. Never changes: another definition is another `ViewInfo`.
#[derive(Debug, Clone)]
pub struct ViewInfo {
    /// Oid.
    pub oid: Oid,
    /// Oid of its rule, which PostgreSQL's catalogs name where a view depends on something.
    pub rule: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Name of its schema.
    pub schema: Arc<str>,
    /// Oid of its schema.
    pub schema_oid: Oid,
    /// Columns.
    pub columns: Vec<ViewColumn>,
    /// Whether its columns have other names than those of its query.
    pub named: bool,
    /// The query as it was written.
    pub text: Arc<str>,
    /// How its constants are read.
    pub read_under: ReadUnder,
    /// The relations in it, in the order of the text.
    pub references: Vec<ViewReference>,
    /// The rows of its definition.
    pub(crate) places: Vec<Tid>,
}

impl ViewInfo {
    /// Whether its query names the relation.
    pub fn uses(&self, oid: Oid) -> bool {
        self.references.iter().any(|reference| reference.oid == oid)
    }

    /// Whether its query looks at the column of that number.
    pub fn uses_column(&self, oid: Oid, attnum: i16) -> bool {
        let of = self.references.iter().filter(|it| it.oid == oid);
        let mut columns = of.flat_map(|reference| &reference.columns);
        columns.any(|column| column.used && column.attnum == attnum)
    }

    /// The definition as one text.
    pub(super) fn encode(&self) -> String {
        let mut out = Writer::default();
        out.number(self.rule);
        out.text(&self.name);
        out.number(self.schema_oid);
        out.number(u8::from(self.named));
        out.text(&self.text);
        out.text(&self.read_under.time_zone);
        out.text(&self.read_under.date_style);
        out.text(&self.read_under.interval_style);
        out.number(self.read_under.now);
        out.number(self.columns.len());
        for column in &self.columns {
            out.text(&column.name);
            out.number(column.ty.oid());
            out.number(column.ty.typmod());
        }
        out.number(self.references.len());
        for reference in &self.references {
            out.number(u8::from(reference.schema.is_some()));
            out.text(reference.schema.as_deref().unwrap_or_default());
            out.text(&reference.name);
            out.number(reference.start);
            out.number(reference.end);
            out.number(u8::from(reference.aliased));
            out.number(reference.oid);
            out.number(reference.columns.len());
            for column in &reference.columns {
                out.number(column.attnum);
                out.text(&column.name);
                out.number(u8::from(column.used));
            }
        }
        out.0
    }

    /// The view that a text describes, with no name of its schema yet; `None` if it makes no sense.
    pub(super) fn decode(
        oid: Oid,
        text: &str,
        places: Vec<Tid>,
        type_of: &dyn Fn(Oid, i32) -> Option<SqlType>,
    ) -> Option<ViewInfo> {
        let mut from = Reader(text);
        let (rule, name) = (from.number()?, from.text()?.into());
        let (schema_oid, named) = (from.number()?, from.flag()?);
        let text = from.text()?.into();
        let read_under = ReadUnder {
            time_zone: from.text()?.to_owned(),
            date_style: from.text()?.to_owned(),
            interval_style: from.text()?.to_owned(),
            now: from.number()?,
        };
        let columns = from.list(|from| {
            let (name, ty, typmod) = (from.text()?.into(), from.number()?, from.number()?);
            let ty = type_of(ty, typmod)?;
            Some(ViewColumn { name, ty })
        })?;
        let references = from.list(|from| {
            let (qualified, schema) = (from.flag()?, from.text()?);
            Some(ViewReference {
                schema: qualified.then(|| schema.to_owned()),
                name: from.text()?.to_owned(),
                start: from.number()?,
                end: from.number()?,
                aliased: from.flag()?,
                oid: from.number()?,
                columns: from.list(|from| {
                    Some(ReferenceColumn {
                        attnum: from.number()?,
                        name: from.text()?.into(),
                        used: from.flag()?,
                    })
                })?,
            })
        })?;
        from.0.is_empty().then(|| ViewInfo {
            oid,
            rule,
            name,
            schema: Arc::from(""),
            schema_oid,
            columns,
            named,
            text,
            read_under,
            references,
            places,
        })
    }
}

/// Texts, each behind its length.
#[derive(Default)]
struct Writer(String);

impl Writer {
    fn text(&mut self, text: &str) {
        let _ = write!(self.0, "{}:{text}", text.len());
    }

    fn number(&mut self, number: impl Display) {
        self.text(&number.to_string());
    }
}

struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    fn text(&mut self) -> Option<&'t str> {
        let (len, rest) = self.0.split_once(':')?;
        let (text, rest) = rest.split_at_checked(len.parse().ok()?)?;
        self.0 = rest;
        Some(text)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.text()? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// As many as are said; each takes some bytes, so that there are no more than the text has.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> ViewInfo {
        let column = |attnum, name: &str, used| ReferenceColumn {
            attnum,
            name: name.into(),
            used,
        };
        ViewInfo {
            oid: 20_000,
            rule: 20_001,
            name: "v: 1".into(),
            schema: "".into(),
            schema_oid: 2200,
            columns: vec![ViewColumn {
                name: "größe".into(),
                ty: SqlType::Int4,
            }],
            named: true,
            text: "SELECT 12:3 FROM \"t\"".into(),
            read_under: ReadUnder {
                time_zone: "UTC".into(),
                date_style: "ISO, MDY".into(),
                interval_style: "postgres".into(),
                now: -1,
            },
            references: vec![ViewReference {
                schema: Some("public".into()),
                name: "t".into(),
                start: 17,
                end: 20,
                aliased: false,
                oid: 19_000,
                columns: vec![column(1, "a", true), column(3, "", false)],
            }],
            places: Vec::new(),
        }
    }

    #[test]
    fn a_view_is_read_as_it_was_written() {
        let view = view();
        let read =
            ViewInfo::decode(view.oid, &view.encode(), Vec::new(), &SqlType::from_oid).unwrap();
        assert_eq!(format!("{read:?}"), format!("{view:?}"));
        assert!(read.uses_column(19_000, 1) && !read.uses_column(19_000, 3));
    }

    #[test]
    fn a_damaged_definition_is_refused() {
        let whole = view().encode();
        for (end, _) in whole.char_indices() {
            assert!(ViewInfo::decode(1, &whole[..end], Vec::new(), &SqlType::from_oid).is_none());
        }
        for text in [
            "9999999999999999999:",
            "5:ab",
            "1:x1:y",
            &format!("{whole}1:x"),
        ] {
            assert!(
                ViewInfo::decode(1, text, Vec::new(), &SqlType::from_oid).is_none(),
                "{text}"
            );
        }
    }
}
