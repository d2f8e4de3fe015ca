//! `EXPLAIN`: a plan as text or JSON, in PostgreSQL's words.

use std::fmt::Write;

use crate::plan::{Detail, Node, NodeKind, Notes, Plan, RowChange, Subplan, SubplanUse};
use crate::relation::RelationKind;

/// How a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `COSTS`
    pub costs: bool,
    /// `TIMING`
    pub timing: bool,
}

impl Options {
    /// Neither costs nor times.
    pub const PLAIN: Options = Options {
        costs: false,
        timing: false,
    };
}

/// Measurements of an operator, per run where not said otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actual {
    /// Milliseconds until the first row.
    pub startup: f64,
    /// Milliseconds.
    pub total: f64,
    /// Rows.
    pub rows: f64,
    /// Rows that its filter left out.
    pub removed: f64,
    /// Searches of an index, and rows of the heap that a scan of an index alone looked at, in all
    /// runs.
    pub searches: u64,
    pub heap_rows: u64,
    /// Pages of the heap that a bitmap scan read, for certain rows of them and as a whole, in all
    /// runs.
    pub heap_blocks: [u64; 2],
    /// How often it ran.
    pub loops: u64,
    /// Of a MERGE the rows that it inserted, updated and deleted.
    pub merged: [u64; 3],
}

/// Measurements of the operators of a plan that has run.
pub type Ran<'a> = &'a dyn Fn(&Node) -> Actual;

/// Takes the bytes of a text that is about to be kept, or says why it may not be.
pub type Charge<'a, E> = &'a mut dyn FnMut(usize) -> Result<(), E>;

/// The lines of `FORMAT TEXT`. Each is indented by its depth, so those of a deep plan take memory
/// by the square of it.
///
/// # Errors
/// Those of `charge`.
pub fn text<E>(
    plan: &Plan,
    options: Options,
    ran: Option<Ran<'_>>,
    charge: Charge<'_, E>,
) -> Result<Vec<String>, E> {
    let mut writer = TextWriter {
        options,
        ran,
        lines: Vec::new(),
        charge,
    };
    writer.node(&plan.root, 0, "")?;
    let mut lines = std::mem::take(&mut writer.lines);
    let at = lines.iter().take_while(|line| !line.contains("->")).count();
    for (number, subplan) in plan.subplans.iter().enumerate() {
        writer.line(format!("  {}", subplan_name(number, subplan)))?;
        writer.node(&subplan.root, 4, "->  ")?;
    }
    lines.splice(at..at, writer.lines);
    Ok(lines)
}

fn subplan_name(number: usize, subplan: &Subplan) -> String {
    match (&subplan.kind, &subplan.name) {
        (SubplanUse::Cte, Some(name)) => format!("CTE {name}"),
        (SubplanUse::Once { .. }, _) => format!("InitPlan {}", number + 1),
        _ => format!("SubPlan {}", number + 1),
    }
}

/// An operator's name and the relation that it reads.
fn title(node: &Node, notes: &Notes) -> String {
    let mut title = notes.operation.unwrap_or(notes.node_type).to_owned();
    if let Some(join) = notes.join_type {
        title = match title.strip_suffix(" Join") {
            Some(method) => format!("{method} {join} Join"),
            None => format!("{title} {join} Join"),
        };
    }
    if notes.backward {
        title.push_str(" Backward");
    }
    if let Some(index) = &notes.index {
        let _ = write!(title, " using {}", crate::quote::identifier(index));
    }
    if let Some((name, alias)) = &notes.relation {
        let quoted = match node.kind {
            NodeKind::Values(_) => format!("\"{name}\""),
            _ => crate::quote::identifier(name),
        };
        let _ = write!(title, " on {quoted}");
        if alias != name && !alias.is_empty() {
            let _ = write!(title, " {}", crate::quote::identifier(alias));
        }
    }
    title
}

/// The work of a scan by an index of a table, in all runs.
fn index_counts(node: &Node, ran: Option<Ran<'_>>) -> Vec<(&'static str, u64)> {
    let Some(ran) = ran else {
        return Vec::new();
    };
    let searches = |ran: Actual| ("Index Searches", ran.searches);
    match &node.kind {
        NodeKind::IndexScan { only: true, .. } => {
            let ran = ran(node);
            vec![("Heap Fetches", ran.heap_rows), searches(ran)]
        }
        NodeKind::IndexScan { relation, .. } if relation.kind == RelationKind::Table => {
            vec![searches(ran(node))]
        }
        NodeKind::BitmapIndexScan { .. } => vec![searches(ran(node))],
        _ => Vec::new(),
    }
}

/// The pages that a bitmap scan read, by PostgreSQL's names for exact and lossy ones.
fn heap_blocks(node: &Node, ran: Option<Ran<'_>>) -> Option<[(&'static str, u64); 2]> {
    let NodeKind::BitmapHeapScan { .. } = node.kind else {
        return None;
    };
    let [exact, lossy] = ran?(node).heap_blocks;
    Some([("exact", exact), ("lossy", lossy)])
}

/// The rows of its join by the actions of a MERGE.
fn merge_counts(node: &Node, ran: Option<Ran<'_>>) -> Vec<(&'static str, f64)> {
    let NodeKind::ModifyTable {
        child,
        change: RowChange::Merge(_),
        ..
    } = &node.kind
    else {
        return Vec::new();
    };
    let Some(ran) = ran else {
        return Vec::new();
    };
    let [inserted, updated, deleted] = ran(node).merged.map(|count| count as f64);
    let child = ran(child);
    let all = child.rows * child.loops as f64;
    vec![
        ("Inserted", inserted),
        ("Updated", updated),
        ("Deleted", deleted),
        ("Skipped", (all - inserted - updated - deleted).max(0.0)),
    ]
}

struct TextWriter<'a, E> {
    options: Options,
    ran: Option<Ran<'a>>,
    lines: Vec<String>,
    charge: Charge<'a, E>,
}

impl<E> TextWriter<'_, E> {
    fn line(&mut self, line: String) -> Result<(), E> {
        (self.charge)(line.len() + size_of::<String>())?;
        self.lines.push(line);
        Ok(())
    }

    /// The estimate and the measurements in parentheses.
    fn figures(&self, node: &Node) -> String {
        let mut figures = String::new();
        if self.options.costs {
            let estimate = node.estimate;
            let _ = write!(
                figures,
                "  (cost={:.2}..{:.2} rows={:.0} width={:.0})",
                estimate.startup, estimate.total, estimate.rows, estimate.bytes
            );
        }
        let Some(ran) = self.ran else { return figures };
        let actual = ran(node);
        if actual.loops == 0 {
            figures.push_str(" (never executed)");
            return figures;
        }
        figures.push_str(" (actual ");
        if self.options.timing {
            let _ = write!(figures, "time={:.3}..{:.3} ", actual.startup, actual.total);
        }
        let _ = write!(figures, "rows={:.2} loops={})", actual.rows, actual.loops);
        figures
    }

    fn node(&mut self, node: &Node, indent: usize, arrow: &str) -> Result<(), E> {
        // Nodes that only rearrange columns have no counterpart in PostgreSQL's plans.
        let Some(notes) = &node.notes else {
            for child in node.children() {
                self.node(child, indent, arrow)?;
            }
            return Ok(());
        };
        let title = title(node, notes);
        let figures = self.figures(node);
        self.line(format!("{:indent$}{arrow}{title}{figures}", ""))?;
        let inner = indent + if arrow.is_empty() { 2 } else { 6 };
        for (name, detail) in &notes.details {
            let text = match detail {
                Detail::Text(text) => text.clone(),
                Detail::List(items) => items.join(", "),
            };
            self.line(format!("{:inner$}{name}: {text}", ""))?;
            let removed = self.ran.map_or(0.0, |ran| ran(node).removed);
            if removed > 0.0 && matches!(*name, "Filter" | "Join Filter") {
                self.line(format!("{:inner$}Rows Removed by {name}: {removed:.0}", ""))?;
            }
        }
        if let Some(blocks) = heap_blocks(node, self.ran) {
            let blocks = blocks.iter().filter(|(_, count)| *count > 0);
            let blocks: Vec<String> = blocks
                .map(|(name, count)| format!(" {name}={count}"))
                .collect();
            if !blocks.is_empty() {
                self.line(format!("{:inner$}Heap Blocks:{}", "", blocks.concat()))?;
            }
        }
        for (name, count) in index_counts(node, self.ran) {
            self.line(format!("{:inner$}{name}: {count}", ""))?;
        }
        let counts = merge_counts(node, self.ran);
        let counts = counts.iter().filter(|(_, count)| *count > 0.0);
        let counts: Vec<String> = counts
            .map(|(name, count)| format!(" {}={count:.0}", name.to_ascii_lowercase()))
            .collect();
        if !counts.is_empty() {
            self.line(format!("{:inner$}Tuples:{}", "", counts.concat()))?;
        }
        let hashed = matches!(node.kind, NodeKind::HashJoin { .. });
        for (number, child) in node.children().into_iter().enumerate() {
            if hashed && number == 1 {
                let figures = self.figures(child);
                self.line(format!("{:inner$}->  Hash{figures}", ""))?;
                self.node(child, inner + 6, "->  ")?;
            } else {
                self.node(child, inner, "->  ")?;
            }
        }
        Ok(())
    }
}

/// The document of `FORMAT JSON`; `times` are shown behind the plan. It is indented as the text is.
///
/// # Errors
/// Those of `charge`.
pub fn json<E>(
    plan: &Plan,
    options: Options,
    ran: Option<Ran<'_>>,
    times: &[(&'static str, f64)],
    charge: Charge<'_, E>,
) -> Result<String, E> {
    let mut writer = JsonWriter {
        options,
        ran,
        out: String::from("[\n  {\n    \"Plan\": "),
        charge,
    };
    writer.node(&plan.root, 4, &plan.subplans)?;
    let mut out = writer.out;
    for (name, millis) in times {
        let _ = write!(out, ",\n    {}: {millis:.3}", quoted(name));
    }
    out.push_str("\n  }\n]");
    Ok(out)
}

struct JsonWriter<'a, E> {
    options: Options,
    ran: Option<Ran<'a>>,
    out: String,
    charge: Charge<'a, E>,
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other if other < ' ' => {
                let _ = write!(out, "\\u{:04x}", other as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

impl<E> JsonWriter<'_, E> {
    fn fields<'n>(&self, node: &Node, notes: &'n Notes) -> Vec<(&'n str, String)> {
        let mut fields: Vec<(&str, String)> = vec![("Node Type", quoted(notes.node_type))];
        if let Some(operation) = notes.operation {
            fields.push(("Operation", quoted(operation)));
        }
        if let Some(join) = notes.join_type {
            fields.push(("Join Type", quoted(join)));
        } else if matches!(
            node.kind,
            NodeKind::NestedLoop { .. } | NodeKind::HashJoin { .. }
        ) {
            fields.push(("Join Type", quoted("Inner")));
        }
        if notes.index.is_some() {
            let direction = if notes.backward {
                "Backward"
            } else {
                "Forward"
            };
            fields.push(("Scan Direction", quoted(direction)));
        }
        if let Some(index) = &notes.index {
            fields.push(("Index Name", quoted(index)));
        }
        if let Some((name, alias)) = &notes.relation {
            fields.push(("Relation Name", quoted(name)));
            fields.push(("Alias", quoted(alias)));
        }
        if self.options.costs {
            let estimate = node.estimate;
            fields.push(("Startup Cost", format!("{:.2}", estimate.startup)));
            fields.push(("Total Cost", format!("{:.2}", estimate.total)));
            fields.push(("Plan Rows", format!("{:.0}", estimate.rows)));
            fields.push(("Plan Width", format!("{:.0}", estimate.bytes)));
        }
        if let Some(ran) = self.ran {
            fields.extend(self.actual(&ran(node)));
        }
        for (name, detail) in &notes.details {
            let value = match detail {
                Detail::Text(text) => quoted(text),
                Detail::List(items) => {
                    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                    format!("[{}]", items.join(", "))
                }
            };
            fields.push((name, value));
        }
        for (name, count) in heap_blocks(node, self.ran).into_iter().flatten() {
            let name = match name {
                "exact" => "Exact Heap Blocks",
                _ => "Lossy Heap Blocks",
            };
            fields.push((name, count.to_string()));
        }
        for (name, count) in index_counts(node, self.ran) {
            fields.push((name, count.to_string()));
        }
        for (name, count) in merge_counts(node, self.ran) {
            let name = match name {
                "Inserted" => "Tuples Inserted",
                "Updated" => "Tuples Updated",
                "Deleted" => "Tuples Deleted",
                _ => "Tuples Skipped",
            };
            fields.push((name, format!("{count:.0}")));
        }
        fields
    }

    fn actual(&self, actual: &Actual) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        if self.options.timing {
            fields.push(("Actual Startup Time", format!("{:.3}", actual.startup)));
            fields.push(("Actual Total Time", format!("{:.3}", actual.total)));
        }
        fields.push(("Actual Rows", format!("{:.2}", actual.rows)));
        fields.push(("Actual Loops", actual.loops.to_string()));
        if actual.removed > 0.0 {
            fields.push(("Rows Removed by Filter", format!("{:.0}", actual.removed)));
        }
        fields
    }

    fn put(&mut self, text: &str) -> Result<(), E> {
        (self.charge)(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn node(&mut self, node: &Node, indent: usize, subplans: &[Subplan]) -> Result<(), E> {
        let Some(notes) = &node.notes else {
            if let Some(child) = node.children().first() {
                return self.node(child, indent, subplans);
            }
            return self.put("{}");
        };
        let fields = self.fields(node, notes);
        let inner = indent + 2;
        let fields = fields.iter();
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{:inner$}{}: {value}", "", quoted(name)))
            .collect();
        self.put("{\n")?;
        self.put(&fields.join(",\n"))?;
        let mut children: Vec<&Node> = node.children();
        children.extend(subplans.iter().map(|subplan| &subplan.root));
        if !children.is_empty() {
            self.put(&format!(",\n{:inner$}\"Plans\": [\n", ""))?;
            for (number, child) in children.into_iter().enumerate() {
                if number > 0 {
                    self.put(",\n")?;
                }
                self.put(&format!("{:width$}", "", width = inner + 2))?;
                self.node(child, inner + 2, &[])?;
            }
            self.put(&format!("\n{:inner$}]", ""))?;
        }
        self.put(&format!("\n{:indent$}}}", ""))
    }
}
