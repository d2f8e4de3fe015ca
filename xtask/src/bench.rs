//! `cargo xtask bench`: evenkeel beside PostgreSQL 18, on this machine, in the same run.
//!
//! The subjects take turns and each figure is a median, since machines drift; what counts is
//! the ratio. Both run with fsync on, checksums on and 1 GiB of buffers.

use crate::{clients, run};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Options {
    seconds: u32,
    rounds: usize,
    scale: u32,
    clients: u32,
    protocol: String,
    names: Vec<String>,
}

struct Subject {
    name: &'static str,
    port: u16,
    server: Child,
}

impl Drop for Subject {
    fn drop(&mut self) {
        let pid = self.server.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            if matches!(self.server.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.server.kill();
    }
}

/// (name, pgbench's arguments)
const WORKLOADS: [(&str, &[&str]); 4] = [
    ("select", &["-S"]),
    ("simple", &["-N"]),
    ("tpcb", &[]),
    ("simple-1-client", &["-N", "-c", "1", "-j", "1"]),
];

pub fn bench(args: &[String]) -> Result<(), String> {
    let options = parse(args)?;
    let pg_bin = clients::postgres_18()?;
    build_server()?;
    let work = run::target_dir().join("bench");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).map_err(|e| format!("creating {}: {e}", work.display()))?;
    let subjects = [
        start_postgres(&pg_bin, &work)?,
        start_evenkeel(&pg_bin, &work)?,
    ];
    println!("{}", header(&options));
    load(&options, &pg_bin, &subjects)?;
    for (name, arguments) in WORKLOADS {
        if options.names.is_empty() || options.names.iter().any(|n| n == name) {
            workload(&options, &pg_bin, &subjects, name, arguments)?;
        }
    }
    Ok(())
}

fn header(options: &Options) -> String {
    format!(
        "scale {}, {} clients, -M {}, {} rounds of {} s, medians\n\
         | workload | PostgreSQL 18 | evenkeel | ratio |\n| --- | --- | --- | --- |",
        options.scale, options.clients, options.protocol, options.rounds, options.seconds
    )
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        seconds: 20,
        rounds: 3,
        scale: 100,
        clients: 8,
        protocol: "prepared".to_owned(),
        names: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .cloned()
                .ok_or_else(|| format!("{arg} needs a value"))
        };
        let number = |text: String| {
            text.parse()
                .map_err(|_| format!("{arg}: not a number: {text}"))
        };
        match arg.as_str() {
            "--seconds" => options.seconds = number(value()?)?,
            "--rounds" => options.rounds = number(value()?)? as usize,
            "--scale" => options.scale = number(value()?)?,
            "--clients" => options.clients = number(value()?)?,
            "--protocol" => options.protocol = value()?,
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn build_server() -> Result<(), String> {
    run::check(
        "building",
        run::cargo().args(["build", "--release", "--package", "evenkeel"]),
    )
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("no free port: {e}"))?;
    listener
        .local_addr()
        .map(|a| a.port())
        .map_err(|e| format!("no free port: {e}"))
}

/// PostgreSQL refuses to run as root: then it runs as the user `postgres`.
fn as_postgres_user(program: &Path) -> Command {
    if run::is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
            .arg(program);
        command
    } else {
        Command::new(program)
    }
}

fn start_postgres(pg_bin: &Path, work: &Path) -> Result<Subject, String> {
    let data = postgres_directory(work)?;
    let mut initdb = as_postgres_user(&pg_bin.join("initdb"));
    initdb
        .args([
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            "--pgdata",
        ])
        .arg(&data);
    run::output("initdb", &mut initdb)?;
    let port = free_port()?;
    let mut command = as_postgres_user(&pg_bin.join("postgres"));
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    for setting in [
        "shared_buffers=1GB",
        "unix_socket_directories=/tmp",
        "max_connections=600",
    ] {
        command.args(["-c", setting]);
    }
    let log = std::fs::File::create(work.join("postgresql.log")).map_err(|e| e.to_string())?;
    let server = command
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|e| e.to_string())?;
    let subject = Subject {
        name: "PostgreSQL 18",
        port,
        server,
    };
    wait_ready(pg_bin, &subject)?;
    Ok(subject)
}

/// A directory that the user `postgres` can reach, whoever runs this.
fn postgres_directory(work: &Path) -> Result<PathBuf, String> {
    let data = PathBuf::from(format!(
        "/tmp/evenkeel-bench-postgresql-{}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(&data).map_err(|e| format!("creating {}: {e}", data.display()))?;
    let mut chown = Command::new("chown");
    let _ = chown
        .arg("postgres")
        .arg(&data)
        .stderr(Stdio::null())
        .status();
    std::fs::write(
        work.join("postgresql.directory"),
        data.display().to_string(),
    )
    .map_err(|e| e.to_string())?;
    Ok(data)
}

fn start_evenkeel(pg_bin: &Path, work: &Path) -> Result<Subject, String> {
    let port = free_port()?;
    let log = std::fs::File::create(work.join("evenkeel.log")).map_err(|e| e.to_string())?;
    let server = Command::new(run::target_dir().join("release/evenkeel"))
        .arg("serve")
        .arg(work.join("evenkeel"))
        .args(["--port", &port.to_string(), "-c", "shared_buffers=1GB"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|e| format!("starting evenkeel: {e}"))?;
    let subject = Subject {
        name: "evenkeel",
        port,
        server,
    };
    wait_ready(pg_bin, &subject)?;
    Ok(subject)
}

fn client(pg_bin: &Path, program: &str, subject: &Subject) -> Command {
    let mut command = Command::new(pg_bin.join(program));
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &subject.port.to_string(),
        "-U",
        "postgres",
    ]);
    command.env("PGDATABASE", "postgres");
    command
}

fn wait_ready(pg_bin: &Path, subject: &Subject) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut probe = client(pg_bin, "psql", subject);
        match run::output(subject.name, probe.args(["-Atc", "select 1"])) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > deadline => return Err(e),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn load(options: &Options, pg_bin: &Path, subjects: &[Subject; 2]) -> Result<(), String> {
    let rounds = if options.names.iter().any(|n| n == "load") {
        options.rounds
    } else {
        1
    };
    let mut seconds: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds {
        for (subject, seconds) in subjects.iter().zip(&mut seconds) {
            let mut init = client(pg_bin, "pgbench", subject);
            init.args(["-i", "-q", "-s", &options.scale.to_string()]);
            let start = Instant::now();
            run::output("pgbench -i", &mut init)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let [pg, ours] = seconds.map(median);
    println!("| load | {pg:.1} s | {ours:.1} s | {:.2} |", pg / ours);
    Ok(())
}

fn workload(
    options: &Options,
    pg_bin: &Path,
    subjects: &[Subject; 2],
    name: &str,
    arguments: &[&str],
) -> Result<(), String> {
    let mut tps: [Vec<f64>; 2] = Default::default();
    for _ in 0..options.rounds {
        for (subject, tps) in subjects.iter().zip(&mut tps) {
            let mut pgbench = client(pg_bin, "pgbench", subject);
            pgbench.args([
                "-n",
                "-M",
                &options.protocol,
                "-T",
                &options.seconds.to_string(),
            ]);
            pgbench
                .args(["-c", &options.clients.to_string(), "-j", "2"])
                .args(arguments);
            let text = run::output("pgbench", &mut pgbench)?;
            tps.push(rate(&text).ok_or_else(|| format!("pgbench printed no rate:\n{text}"))?);
        }
    }
    let [pg, ours] = tps.map(median);
    println!(
        "| {name} | {pg:.0} tps | {ours:.0} tps | {:.2} |",
        ours / pg
    );
    Ok(())
}

fn rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("tps = "))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
