//! The ledger: pools of values by type, templates of expressions over them, and whole statements;
//! and the cases that follow from it.

use std::collections::{BTreeMap, BTreeSet};

const POOLS: &str = include_str!("ledger/values.txt");
const TEMPLATES: &str = include_str!("ledger/templates.txt");
const STATEMENTS: &str = include_str!("ledger/statements.txt");
/// The zones that groups marked `zones` are tried in.
const ZONES: [&str; 4] = [
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "America/Los_Angeles",
];

/// Values of one type.
#[derive(Debug)]
pub struct Pool {
    /// Its name in templates.
    pub name: &'static str,
    /// Its type's name.
    pub ty: &'static str,
    /// The values; `None` is NULL.
    pub values: Vec<Option<String>>,
    /// Whether its table holds text, for a type that one of the servers cannot store.
    pub as_text: bool,
}

impl Pool {
    /// The column `v` of the table that `alias` names, as a value of the pool's type.
    fn column(&self, alias: &str) -> String {
        match self.as_text {
            true => format!("({alias}.v)::{}", self.ty),
            false => format!("{alias}.v"),
        }
    }

    /// A value as its table takes it.
    pub fn stored(&self, at: usize) -> String {
        match (self.as_text, self.values.get(at)) {
            (true, Some(Some(value))) => format!("'{}'", value.replace('\'', "''")),
            (true, _) => "NULL".to_owned(),
            (false, _) => self.literal(at),
        }
    }

    /// A value as a typed literal.
    pub fn literal(&self, at: usize) -> String {
        match self.values.get(at) {
            Some(Some(value)) => format!("'{}'::{}", value.replace('\'', "''"), self.ty),
            _ => format!("NULL::{}", self.ty),
        }
    }
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(&'static str),
    /// A value of a pool.
    Slot(&'static str),
    /// One of several words.
    Words(Vec<&'static str>),
}

/// An expression with slots.
#[derive(Debug)]
pub struct Template {
    /// The group it is reported in.
    pub group: &'static str,
    /// As it stands in the ledger.
    pub text: &'static str,
    zones: bool,
    aggregate: bool,
    parts: Vec<Part>,
}

/// Statements to run one after the other in one session.
#[derive(Debug)]
pub struct Script {
    /// Its subject, by which the ledger names it.
    pub name: &'static str,
    /// Its statements.
    pub statements: Vec<&'static str>,
}

/// All of it.
#[derive(Debug)]
pub struct Ledger {
    /// Pools by name.
    pub pools: BTreeMap<&'static str, Pool>,
    /// Templates in their order.
    pub templates: Vec<Template>,
    /// Scripts in their order.
    pub scripts: Vec<Script>,
}

/// How the values come to the expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// As literals.
    Constant,
    /// As parameters.
    Parameter,
    /// From tables.
    Column,
}

/// A statement to ask both servers.
#[derive(Debug)]
pub struct Case {
    /// The statement.
    pub sql: String,
    /// Pool and number of each parameter's value.
    pub params: Vec<(&'static str, usize)>,
    /// The session's zone.
    pub zone: &'static str,
    /// Where the values are.
    pub form: Form,
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(z % bound).unwrap_or(0)
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl Ledger {
    /// Reads the ledger.
    ///
    /// # Errors
    /// The line that makes no sense.
    pub fn read() -> Result<Ledger, String> {
        let mut pools = BTreeMap::new();
        let mut pool = None::<Pool>;
        for line in lines(POOLS) {
            if let Some(head) = line.strip_prefix('[') {
                let head = head.strip_suffix(']').unwrap_or(head);
                let (name, ty) = head.split_once(' ').unwrap_or((head, head));
                if let Some(done) = pool.take() {
                    pools.insert(done.name, done);
                }
                let values = Vec::new();
                pool = Some(Pool {
                    name,
                    ty,
                    values,
                    as_text: false,
                });
                continue;
            }
            let pool = pool.as_mut().ok_or_else(|| format!("no pool: {line}"))?;
            pool.values.push(value(line)?);
        }
        pools.extend(pool.map(|last| (last.name, last)));
        let templates = templates(TEMPLATES)?;
        for template in &templates {
            for part in &template.parts {
                if let Part::Slot(name) = part
                    && !pools.contains_key(name)
                {
                    return Err(format!("no pool {name}: {}", template.text));
                }
            }
        }
        Ok(Ledger {
            pools,
            templates,
            scripts: scripts(STATEMENTS)?,
        })
    }

    /// The cases of one template, the same for the same seed; at most `most` combinations of
    /// values, each in every form.
    pub fn cases(&self, template: &Template, seed: u64, most: usize) -> Vec<Case> {
        let mut random = Random(seed ^ hash(template.text));
        let sizes: Vec<usize> = template
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(_) => 1,
                Part::Slot(name) => self.pools.get(name).map_or(1, |pool| pool.values.len()),
                Part::Words(words) => words.len(),
            })
            .collect();
        let combinations = match template.aggregate {
            true => (0..most)
                .map(|_| sizes.iter().map(|_| 0).collect())
                .collect(),
            false => combinations(&sizes, most, &mut random),
        };
        let mut cases = Vec::new();
        for (number, choice) in combinations.iter().enumerate() {
            let zone = match template.zones {
                true => ZONES[number % ZONES.len()],
                false => ZONES[0],
            };
            if template.aggregate {
                cases.extend(self.aggregate(template, number, &mut random));
                continue;
            }
            for form in [Form::Constant, Form::Parameter, Form::Column] {
                cases.push(self.case(template, choice, zone, form));
            }
        }
        cases.sort_by_key(|case| case.zone);
        cases
    }

    fn case(&self, template: &Template, choice: &[usize], zone: &'static str, form: Form) -> Case {
        let (mut text, mut params) = (String::new(), Vec::new());
        let (mut tables, mut conditions) = (Vec::new(), Vec::new());
        for (part, &at) in template.parts.iter().zip(choice) {
            match part {
                Part::Text(words) => text.push_str(words),
                Part::Words(words) => text.push_str(words.get(at).copied().unwrap_or_default()),
                Part::Slot(name) => match form {
                    Form::Constant => {
                        let pool = self.pools.get(name);
                        text.push_str(&pool.map(|pool| pool.literal(at)).unwrap_or_default());
                    }
                    Form::Parameter => {
                        params.push((*name, at));
                        text.push_str(&format!("${}", params.len()));
                    }
                    Form::Column => {
                        let alias = format!("t{}", tables.len());
                        let pool = self.pools.get(name);
                        text.push_str(&pool.map(|pool| pool.column(&alias)).unwrap_or_default());
                        tables.push(format!("{} {alias}", table(name)));
                        conditions.push(format!("{alias}.id = {at}"));
                    }
                },
            }
        }
        let mut sql = format!("SELECT {text}");
        if !tables.is_empty() {
            let (tables, conditions) = (tables.join(", "), conditions.join(" AND "));
            sql.push_str(&format!(" FROM {tables} WHERE {conditions}"));
        }
        Case {
            sql,
            params,
            zone,
            form,
        }
    }

    /// An aggregate over some of the rows: first of none, then of NULL alone, then of all.
    fn aggregate(&self, template: &Template, number: usize, random: &mut Random) -> Vec<Case> {
        let slots: Vec<&'static str> = template
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Slot(name) => Some(*name),
                Part::Text(_) | Part::Words(_) => None,
            })
            .collect();
        let lengths = slots.iter().filter_map(|slot| self.pools.get(slot));
        let rows = lengths.map(|pool| pool.values.len()).min().unwrap_or(0);
        let chosen: Vec<usize> = match number {
            0 => Vec::new(),
            1 => vec![0],
            2 => (0..rows).collect(),
            _ => {
                let count = 1 + random.below(4);
                (0..count).map(|_| random.below(rows)).collect()
            }
        };
        [Form::Constant, Form::Column]
            .into_iter()
            .map(|form| {
                let (mut text, mut slot) = (String::new(), 0);
                for part in &template.parts {
                    match part {
                        Part::Text(words) => text.push_str(words),
                        Part::Words(words) => text.push_str(words.first().unwrap_or(&"")),
                        Part::Slot(name) => {
                            let pool = self.pools.get(name);
                            let stored = pool.map(|pool| pool.column(&format!("t{slot}")));
                            text.push_str(&match form {
                                Form::Column => stored.unwrap_or_default(),
                                Form::Constant | Form::Parameter => format!("c{slot}"),
                            });
                            slot += 1;
                        }
                    }
                }
                let source = match form {
                    Form::Column => stored_rows(&slots, &chosen),
                    Form::Constant | Form::Parameter => self.given_rows(&slots, &chosen),
                };
                Case {
                    sql: format!("SELECT {text} FROM {source}"),
                    params: Vec::new(),
                    zone: ZONES[0],
                    form,
                }
            })
            .collect()
    }

    fn given_rows(&self, slots: &[&'static str], chosen: &[usize]) -> String {
        let row = |at: &usize| {
            let literals = slots.iter().filter_map(|slot| self.pools.get(slot));
            let literals: Vec<String> = literals.map(|pool| pool.literal(*at)).collect();
            format!("({})", literals.join(", "))
        };
        let rows: Vec<String> = match chosen {
            [] => vec![row(&0)],
            some => some.iter().map(row).collect(),
        };
        let names: Vec<String> = (0..slots.len()).map(|slot| format!("c{slot}")).collect();
        let none = if chosen.is_empty() {
            " WHERE false"
        } else {
            ""
        };
        format!("(VALUES {}) t({}){none}", rows.join(", "), names.join(", "))
    }
}

fn stored_rows(slots: &[&'static str], chosen: &[usize]) -> String {
    let ids: BTreeSet<usize> = chosen.iter().copied().collect();
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut source = String::new();
    for (at, slot) in slots.iter().enumerate() {
        match at {
            0 => source.push_str(&format!("{} t0", table(slot))),
            _ => source.push_str(&format!(" JOIN {} t{at} ON t0.id = t{at}.id", table(slot))),
        }
    }
    match ids.as_slice() {
        [] => format!("{source} WHERE t0.id < 0"),
        ids => format!("{source} WHERE t0.id IN ({})", ids.join(", ")),
    }
}

/// The table that holds a pool.
pub fn table(pool: &str) -> String {
    format!("pool_{pool}")
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// All choices where they are few; else some with every value once, and some at random.
fn combinations(sizes: &[usize], most: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let all = sizes
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    let nth = |mut number: usize| -> Vec<usize> {
        let digit = |size: &usize| {
            let digit = number % size;
            number /= size;
            digit
        };
        sizes.iter().map(digit).collect()
    };
    if let Some(all) = all.filter(|all| *all <= most) {
        return (0..all).map(nth).collect();
    }
    let mut chosen = BTreeSet::new();
    let widest = sizes.iter().copied().max().unwrap_or(1);
    for round in 0..widest.min(most) {
        chosen.insert(
            sizes
                .iter()
                .map(|size| {
                    if round < *size {
                        round
                    } else {
                        random.below(*size)
                    }
                })
                .collect::<Vec<usize>>(),
        );
    }
    let mut tries = 0;
    while chosen.len() < most && tries < most * 20 {
        chosen.insert(sizes.iter().map(|size| random.below(*size)).collect());
        tries += 1;
    }
    chosen.into_iter().collect()
}

/// `NULL`, or a value between quotes.
fn value(line: &str) -> Result<Option<String>, String> {
    if line == "NULL" {
        return Ok(None);
    }
    let inner = line
        .strip_prefix('\'')
        .and_then(|line| line.strip_suffix('\''))
        .ok_or_else(|| format!("neither NULL nor quoted: {line}"))?;
    Ok(Some(inner.replace("\\n", "\n")))
}

fn templates(text: &'static str) -> Result<Vec<Template>, String> {
    let (mut group, mut zones, mut aggregate) = ("", false, false);
    let mut templates = Vec::new();
    for line in lines(text) {
        if let Some(head) = line.strip_prefix('[') {
            let head = head.strip_suffix(']').unwrap_or(head);
            let mut words = head.split("; ");
            group = words.next().unwrap_or_default();
            let marks: Vec<&str> = words.collect();
            zones = marks.contains(&"zones");
            aggregate = marks.contains(&"aggregate");
            continue;
        }
        templates.push(Template {
            group,
            text: line,
            zones,
            aggregate,
            parts: parts(line)?,
        });
    }
    Ok(templates)
}

fn parts(mut rest: &'static str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (slot, after) = after
            .split_once('}')
            .ok_or_else(|| format!("a slot without an end: {rest}"))?;
        parts.push(Part::Text(before));
        parts.push(match slot.contains('|') {
            true => Part::Words(slot.split('|').collect()),
            false => Part::Slot(slot),
        });
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn scripts(text: &'static str) -> Result<Vec<Script>, String> {
    let mut scripts: Vec<Script> = Vec::new();
    for line in lines(text) {
        match line.strip_prefix('[') {
            Some(head) => scripts.push(Script {
                name: head.strip_suffix(']').unwrap_or(head),
                statements: Vec::new(),
            }),
            None => scripts
                .last_mut()
                .ok_or_else(|| format!("no script: {line}"))?
                .statements
                .push(line),
        }
    }
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_reads_and_its_names_are_one_each() {
        let ledger = Ledger::read().unwrap();
        assert!(!ledger.templates.is_empty() && !ledger.scripts.is_empty());
        let mut seen = BTreeSet::new();
        for template in &ledger.templates {
            assert!(seen.insert(template.text), "twice: {}", template.text);
        }
        for pool in ledger.pools.values() {
            assert_eq!(
                pool.values.first(),
                Some(&None),
                "{} begins with NULL",
                pool.name
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_cases() {
        let ledger = Ledger::read().unwrap();
        for template in &ledger.templates {
            let cases = |seed| -> Vec<String> {
                let cases = ledger.cases(template, seed, 12);
                cases.into_iter().map(|case| case.sql).collect()
            };
            assert_eq!(cases(7), cases(7));
        }
    }

    #[test]
    fn few_combinations_are_all_tried_and_many_have_every_value() {
        let mut random = Random(1);
        assert_eq!(combinations(&[2, 3], 6, &mut random).len(), 6);
        let some = combinations(&[5, 40, 7], 60, &mut random);
        assert_eq!(some.len(), 60);
        for value in 0..40 {
            assert!(some.iter().any(|choice| choice[1] == value), "{value}");
        }
    }

    #[test]
    fn a_template_becomes_three_forms() {
        let ledger = Ledger::read().unwrap();
        let template = Template {
            group: "g",
            text: "{int4}",
            zones: false,
            aggregate: false,
            parts: parts("abs({int4}) {+|-} 1").unwrap(),
        };
        let case = |form| ledger.case(&template, &[0, 1, 0, 1, 0], "UTC", form).sql;
        assert_eq!(case(Form::Parameter), "SELECT abs($1) - 1");
        assert!(case(Form::Constant).ends_with("::int4) - 1"));
        let column = "SELECT abs(t0.v) - 1 FROM pool_int4 t0 WHERE t0.id = 1";
        assert_eq!(case(Form::Column), column);
    }
}
