//! `evenkeel lab answers`: every function, operator, cast and aggregate of a ledger, over NULL and
//! extreme values as constants, parameters and columns, asked of PostgreSQL 18 and of evenkeel.
//!
//! The ledger and the list of accepted differences are the files in `ledger/`.

mod compare;
mod ledger;
mod report;
mod wire;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::Client;
use crate::error::LabError;
use crate::server::Server;
use crate::subject::{Settings, Subject, enterable_dir};

use compare::difference;
use ledger::{Case, Form, Ledger, Script, Template};
use report::Report;
use wire::Outcome;

const ACCEPTED: &str = include_str!("ledger/accepted.txt");
const PATIENCE: Duration = Duration::from_secs(60);

/// One run.
pub struct Inquiry<'a> {
    /// PostgreSQL 18.
    pub reference: Box<dyn Subject>,
    /// The program under test.
    pub subject: Box<dyn Subject>,
    /// Parts of the names of the groups to run; none means all.
    pub groups: &'a [String],
    /// Chooses among combinations.
    pub seed: u64,
    /// Most combinations of a template's values.
    pub combinations: usize,
    /// Where the servers' data goes.
    pub work: &'a Path,
    /// Where all differences go.
    pub all: Option<&'a Path>,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

/// A server and a session on it.
struct Side {
    server: Server,
    client: Client,
    zone: &'static str,
}

impl Side {
    fn start(
        subject: &dyn Subject,
        data: &Path,
        interrupted: &AtomicBool,
    ) -> Result<Side, LabError> {
        let port = free_port()?;
        subject.create(data)?;
        let settings = Settings::new();
        let server = Server::start(subject, data, port, &settings, None, PATIENCE, interrupted)?;
        let client = server.client()?;
        let zone = "";
        Ok(Side {
            server,
            client,
            zone,
        })
    }

    /// Begins a session anew.
    fn renew(&mut self) -> Result<(), LabError> {
        self.server.alive()?;
        self.client = self.server.client()?;
        self.zone = "";
        Ok(())
    }

    fn ask(&mut self, sql: &str) -> Outcome {
        wire::simple(&mut self.client, sql)
    }

    fn ask_in_zone(&mut self, case: &Case, params: &[(u32, Option<&str>)]) -> Outcome {
        if self.zone != case.zone {
            self.ask(&format!("SET TimeZone = '{}'", case.zone));
            self.zone = case.zone;
        }
        match case.form {
            Form::Parameter => wire::extended(&mut self.client, &case.sql, params),
            Form::Constant | Form::Column => self.ask(&case.sql),
        }
    }
}

fn free_port() -> Result<u16, LabError> {
    let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    any.map(|address| address.port())
        .map_err(|error| LabError::unavailable("a free port", error.to_string()))
}

/// The two servers and the pools' types.
struct Pair {
    reference: Side,
    subject: Side,
    oids: BTreeMap<&'static str, u32>,
}

impl Inquiry<'_> {
    /// Asks both, prints the differences, and fails if there are any that are not accepted.
    ///
    /// # Errors
    /// When a server does not run; when there are differences.
    pub fn run(&self) -> Result<(), LabError> {
        let mut ledger = Ledger::read().map_err(LabError::Usage)?;
        let accepted = compare::accepted(ACCEPTED).map_err(LabError::Usage)?;
        let dir = tempfile::Builder::new()
            .prefix("evenkeel-answers-")
            .tempdir_in(self.work)
            .map_err(LabError::file("making a directory in", self.work))?;
        enterable_dir(dir.path())?;
        let start = |subject: &dyn Subject, name| {
            Side::start(subject, &dir.path().join(name), self.interrupted)
        };
        let mut pair = Pair {
            reference: start(self.reference.as_ref(), "reference")?,
            subject: start(self.subject.as_ref(), "subject")?,
            oids: BTreeMap::new(),
        };
        pair.prepare(&mut ledger)?;
        println!("seed {}", self.seed);
        let mut report = Report::new(accepted);
        for template in &ledger.templates {
            if self.wanted(template.group) {
                self.template(&ledger, template, &mut pair, &mut report)?;
            }
        }
        for script in &ledger.scripts {
            if self.wanted(script.name) {
                self.script(script, &mut pair, &mut report)?;
            }
        }
        if let Some(path) = self.all {
            let written =
                File::create(path).and_then(|mut file| file.write_all(report.all().as_bytes()));
            written.map_err(LabError::file("writing", path))?;
        }
        print!("{}", report.text(self.groups.is_empty()));
        match report.is_clean() {
            true => Ok(()),
            false => Err(LabError::Usage("the answers differ".to_owned())),
        }
    }

    fn wanted(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|part| group.contains(part.as_str()))
    }

    fn go_on(&self) -> Result<(), LabError> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(LabError::Interrupted),
            false => Ok(()),
        }
    }

    fn template(
        &self,
        ledger: &Ledger,
        template: &Template,
        pair: &mut Pair,
        report: &mut Report,
    ) -> Result<(), LabError> {
        self.go_on()?;
        for case in ledger.cases(template, self.seed, self.combinations) {
            let params: Vec<(u32, Option<&str>)> = case
                .params
                .iter()
                .map(|(pool, at)| {
                    let value = ledger.pools.get(pool).and_then(|pool| pool.values.get(*at));
                    let oid = pair.oids.get(pool).copied().unwrap_or(0);
                    (oid, value.and_then(Option::as_deref))
                })
                .collect();
            let reference = pair.reference.ask_in_zone(&case, &params);
            let subject = pair.subject.ask_in_zone(&case, &params);
            let statement = describe(&case, &params);
            report.note(
                template.group,
                template.text,
                &reference,
                &subject,
                statement,
                difference(&reference, &subject, false),
            );
            pair.renew_lost(&reference, &subject)?;
        }
        Ok(())
    }

    fn script(
        &self,
        script: &Script,
        pair: &mut Pair,
        report: &mut Report,
    ) -> Result<(), LabError> {
        self.go_on()?;
        pair.reference.renew()?;
        pair.subject.renew()?;
        for sql in &script.statements {
            let reference = pair.reference.ask(sql);
            let subject = pair.subject.ask(sql);
            let ordered = sql.to_ascii_lowercase().contains("order by");
            let kind = difference(&reference, &subject, ordered);
            let statement = (*sql).to_owned();
            report.note(
                "statements",
                script.name,
                &reference,
                &subject,
                statement,
                kind,
            );
            pair.renew_lost(&reference, &subject)?;
        }
        Ok(())
    }
}

impl Pair {
    /// Makes the pools' tables on both servers, and learns the types' oids.
    fn prepare(&mut self, ledger: &mut Ledger) -> Result<(), LabError> {
        for pool in ledger.pools.values_mut() {
            let oid = format!("SELECT '{}'::regtype::oid", pool.ty);
            let oid = self.reference.client.number(&oid).unwrap_or_default();
            // An oid is exact in a float.
            self.oids.insert(pool.name, oid as u32);
            let table = ledger::table(pool.name);
            let make = |ty| format!("CREATE TABLE {table} (id int4 PRIMARY KEY, v {ty})");
            pool.as_text = matches!(self.subject.ask(&make(pool.ty)), Outcome::Error { .. });
            match pool.as_text {
                true => {
                    self.subject.client.ask(&make("text"))?;
                    self.reference.client.ask(&make("text"))?;
                }
                false => {
                    self.reference.client.ask(&make(pool.ty))?;
                }
            }
            for at in 0..pool.values.len() {
                let value = pool.stored(at);
                let insert = format!("INSERT INTO {table} VALUES ({at}, {value})");
                self.reference.client.ask(&insert)?;
                // A value that evenkeel refuses shows where it is asked for.
                self.subject.ask(&insert);
            }
        }
        Ok(())
    }

    fn renew_lost(&mut self, reference: &Outcome, subject: &Outcome) -> Result<(), LabError> {
        if matches!(reference, Outcome::Lost(_)) {
            self.reference.renew()?;
        }
        if matches!(subject, Outcome::Lost(_)) {
            self.subject.renew()?;
        }
        Ok(())
    }
}

/// A case as a reader can repeat it.
fn describe(case: &Case, params: &[(u32, Option<&str>)]) -> String {
    let mut text = case.sql.clone();
    if !params.is_empty() {
        let values: Vec<String> = params
            .iter()
            .map(|(_, value)| value.map_or("NULL".to_owned(), |value| format!("'{value}'")))
            .collect();
        text.push_str(&format!("  with {}", values.join(", ")));
    }
    if case.zone != "UTC" {
        text.push_str(&format!("  in {}", case.zone));
    }
    text
}
