//! Views: `pg_views`, `pg_rewrite`, `information_schema.views`, what hangs on them in `pg_class`,
//! `pg_attribute` and `pg_depend`, and their definitions.

use super::relation_rows::{attribute, class};
use super::rows::{Rows, flag, number, oid, text};
use super::sequences::depend;
use super::view::{CatalogView, Relation};
use crate::catalog::{ViewInfo, ViewReference};
use crate::error::SqlResult;
use crate::quote::quote_ident;
use crate::types::Datum;

/// Oid of `pg_class`.
const CLASS: u32 = 1259;
/// Oid of `pg_rewrite`.
const REWRITE: u32 = 2618;

/// `pg_class` rows.
pub fn classes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        let schema = (view.schema_oid, &*view.schema);
        let mut row = class(view.oid, &view.name, schema, "v");
        row.extend([
            ("reltuples", Datum::Float4(-1.0)),
            ("relnatts", number(view.columns.len())),
            ("relhasrules", flag(true)),
        ]);
        rows.push(row)?;
    }
    Ok(())
}

/// `pg_attribute` rows.
pub fn attributes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        for (at, column) in view.columns.iter().enumerate() {
            rows.push(attribute(view.oid, &column.name, at + 1, column.ty))?;
        }
    }
    Ok(())
}

/// `pg_rewrite`: the rule by which a view is read.
pub fn rules(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        rows.push([
            ("oid", oid(view.rule)),
            ("rulename", text("_RETURN")),
            ("ev_class", oid(view.oid)),
            ("ev_type", text("1")),
            ("ev_enabled", text("O")),
            ("is_instead", flag(true)),
            ("ev_qual", text("<>")),
            ("ev_action", text("<>")),
        ])?;
    }
    Ok(())
}

/// `pg_depend`: a rule on its view, and on the relations and the columns that the view looks at.
pub fn dependencies(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        let of = (REWRITE, view.rule);
        depend(rows, of, (view.oid, 0), CLASS, "i")?;
        let mut on = std::collections::BTreeSet::new();
        for reference in &view.references {
            let used = reference.columns.iter().filter(|column| column.used);
            let used: Vec<i32> = used.map(|column| i32::from(column.attnum)).collect();
            if used.is_empty() {
                on.insert((reference.oid, 0));
            }
            on.extend(used.into_iter().map(|column| (reference.oid, column)));
        }
        for on in on {
            depend(rows, of, on, CLASS, "n")?;
        }
    }
    Ok(())
}

/// `pg_views`
pub fn views(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        rows.push([
            ("schemaname", text(&*view.schema)),
            ("viewname", text(&*view.name)),
            ("viewowner", text(&snapshot.user)),
            ("definition", text(definition(snapshot, view))),
        ])?;
    }
    Ok(())
}

/// `information_schema.views`
pub fn information(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for view in snapshot.views.iter() {
        let no = || text("NO");
        rows.push([
            ("table_catalog", text(&snapshot.database)),
            ("table_schema", text(&*view.schema)),
            ("table_name", text(&*view.name)),
            ("view_definition", text(definition(snapshot, view))),
            ("check_option", text("NONE")),
            ("is_updatable", no()),
            ("is_insertable_into", no()),
            ("is_trigger_updatable", no()),
            ("is_trigger_deletable", no()),
            ("is_trigger_insertable_into", no()),
        ])?;
    }
    Ok(())
}

/// A view's query, as it was written but for the names of relations, which are those of now and
/// mean the same along the session's path. A relation whose columns were renamed or added to since
/// is written as a query of its own, by which it has the columns that the view was made over; and
/// so is all of it where the view has given its columns other names.
pub fn definition(snapshot: &CatalogView, view: &ViewInfo) -> String {
    let query = query(snapshot, view);
    if !view.named {
        return format!(" {query};");
    }
    let columns = view.columns.iter().map(|column| quote_ident(&column.name));
    let columns: Vec<String> = columns.collect();
    let name = quote_ident(&view.name);
    format!(" SELECT * FROM ({query}) {name}({});", columns.join(", "))
}

/// The query of a definition.
fn query(snapshot: &CatalogView, view: &ViewInfo) -> String {
    let mut out = String::new();
    let mut done = 0;
    for reference in &view.references {
        let (Some(before), true) = (
            view.text.get(done..reference.start),
            reference.start <= reference.end,
        ) else {
            continue;
        };
        out.push_str(before);
        out.push_str(&written(snapshot, reference));
        done = reference.end;
    }
    out.push_str(view.text.get(done..).unwrap_or_default());
    out
}

/// The columns of a relation: number and name.
fn columns_of(relation: &Relation<'_>) -> Vec<(i16, String)> {
    let numbered = |names: &mut dyn Iterator<Item = String>| (1..).zip(names).collect();
    match relation {
        Relation::Table(table) => {
            let columns = table.columns.iter();
            let named = columns.map(|column| (column.attnum, column.name.to_string()));
            named.collect()
        }
        Relation::View(view) => numbered(&mut view.columns.iter().map(|it| it.name.to_string())),
        Relation::System(def) => numbered(&mut def.columns.iter().map(|it| it.name.to_owned())),
        Relation::Sequence(_) | Relation::Index(..) => Vec::new(),
    }
}

fn written(snapshot: &CatalogView, reference: &ViewReference) -> String {
    let name = snapshot.relation_text(reference.oid);
    let Some(relation) = snapshot.relation(reference.oid) else {
        return name;
    };
    let now = columns_of(&relation);
    let then = |number: i16| {
        let mut columns = reference.columns.iter();
        columns.find(|column| column.attnum == number)
    };
    let is_same = now
        .iter()
        .all(|(number, name)| then(*number).is_some_and(|known| *known.name == **name));
    let alias = match reference.aliased {
        true => String::new(),
        false => format!(" {}", quote_ident(&reference.name)),
    };
    if is_same || now.is_empty() {
        return match relation.name() == reference.name {
            true => name,
            false => format!("{name}{alias}"),
        };
    }
    let columns = now.iter().filter_map(|(number, name)| {
        let known = then(*number)?;
        Some(match *known.name == **name {
            true => quote_ident(name),
            false => format!("{} AS {}", quote_ident(name), quote_ident(&known.name)),
        })
    });
    let columns: Vec<String> = columns.collect();
    format!("(SELECT {} FROM {name}){alias}", columns.join(", "))
}
