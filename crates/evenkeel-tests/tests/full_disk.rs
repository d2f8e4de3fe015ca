//! A file system that is really full: statements fail with 53100, nothing acknowledged is lost,
//! readers go on, and writers do as soon as there is room again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel_io::skip;
use evenkeel_tests::server::{TestServer, client_runtime};
use tokio_postgres::{Client, NoTls};

/// The file systems: what `mkfs` calls them, and how large they are. Those that are copied on write
/// or keep much for themselves are larger.
const KINDS: [(&str, u64); 4] = [("tmpfs", 192), ("ext4", 256), ("xfs", 384), ("btrfs", 512)];
const ROOM: u64 = 24 << 20;
const SETTINGS: [&str; 4] = [
    "shared_buffers=8MB",
    "wal_buffers=1MB",
    "max_wal_size=48MB",
    "min_wal_size=32MB",
];

/// A small file system of some kind, unmounted in the end.
struct Small {
    at: PathBuf,
    /// A directory in it, by a name outside: the server's log is beside it, and is to be read.
    data: PathBuf,
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let out = Command::new(program).args(args).env("PATH", path).output();
    let out = out.map_err(|error| format!("{program}: {error}"))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        )),
    }
}

impl Small {
    /// Mounts it at `dir`; the reason, if this machine cannot.
    fn mount(dir: &Path, kind: &str, megabytes: u64) -> Result<Small, String> {
        let at = dir.join("mounted");
        std::fs::create_dir(&at).unwrap();
        let (at, image) = (at.display().to_string(), dir.join("image"));
        if kind == "tmpfs" {
            let size = format!("size={megabytes}m");
            run("mount", &["-t", kind, "-o", &size, "none", &at])?;
        } else {
            let file = std::fs::File::create(&image).unwrap();
            file.set_len(megabytes << 20).unwrap();
            let image = image.display().to_string();
            run(&format!("mkfs.{kind}"), &["-q", &image])?;
            run("mount", &["-o", "loop", &image, &at])?;
        }
        let small = Small {
            at: at.into(),
            data: dir.join("data"),
        };
        let inside = small.at.join("data");
        std::fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink(inside, &small.data).unwrap();
        Ok(small)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

async fn count(client: &Client) -> i64 {
    let rows = client.query_one("SELECT count(*) FROM t", &[]).await;
    rows.expect("readers go on").get(0)
}

/// Inserts until the disk is full; answers how many rows were acknowledged.
async fn fill(client: &Client) -> i64 {
    const ROWS: i64 = 500;
    let mut acknowledged = 0;
    loop {
        let insert = format!(
            "INSERT INTO t SELECT {acknowledged} + g, repeat('x', 600) \
             FROM generate_series(1, {ROWS}) g"
        );
        match client.batch_execute(&insert).await {
            Ok(()) => acknowledged += ROWS,
            Err(error) => {
                let code = error.code().map(tokio_postgres::error::SqlState::code);
                assert_eq!(code, Some("53100"), "{error:?}");
                return acknowledged;
            }
        }
        assert!(acknowledged < 1_000_000, "the disk never filled");
    }
}

/// Runs `test` on a file system of each kind that this machine can make.
fn on_each(name: &str, test: impl Fn(&Small)) {
    for (kind, megabytes) in KINDS {
        let dir = tempfile::tempdir().unwrap();
        match Small::mount(dir.path(), kind, megabytes) {
            Ok(small) => {
                eprintln!("{name} on {kind}");
                test(&small);
            }
            Err(reason) => skip(&format!("{name} on {kind}"), &reason),
        }
    }
}

/// Leaves so much room; answers the file that takes the rest.
fn leave(small: &Small, room: u64) -> PathBuf {
    let allocate = |file: &Path, at: u64, len: u64| {
        let (at, len) = (at.to_string(), len.to_string());
        let args = ["-o", &at, "-l", &len, &file.display().to_string()];
        run("fallocate", &args).is_ok()
    };
    let (ballast, kept) = (small.at.join("ballast"), small.at.join("room"));
    assert!(allocate(&kept, 0, room), "no room for the test");
    let (mut len, mut step) = (0, 64 << 20);
    while step >= 1 << 20 {
        match allocate(&ballast, len, step) {
            true => len += step,
            false => step /= 2,
        }
    }
    std::fs::remove_file(&kept).unwrap();
    ballast
}

/// Takes every byte that there is.
fn take_all(small: &Small) {
    // Where not even an empty file can be made there is nothing to take.
    let Ok(mut file) = std::fs::File::create(small.at.join("rest")) else {
        return;
    };
    for size in [1 << 20, 64 << 10, 4096, 512] {
        let zeroes = vec![1; size];
        while std::io::Write::write_all(&mut file, &zeroes).is_ok() && file.sync_all().is_ok() {}
    }
}

#[test]
fn a_full_disk_stops_writers_and_they_resume_when_there_is_room() {
    on_each("a full disk stops writers", |small| {
        let data = &small.data;
        let server = TestServer::start(data, &SETTINGS);
        server.psql("CREATE TABLE t (a int8, b text)").ok();
        server.psql("CHECKPOINT").ok();
        let ballast = leave(small, ROOM);
        let total = client_runtime().block_on(async {
            let (writer, reader) = (connect(&server.url()).await, connect(&server.url()).await);
            let acknowledged = fill(&writer).await;
            assert!(acknowledged > 0);
            assert_eq!(count(&reader).await, acknowledged, "nothing by half");
            assert_eq!(count(&writer).await, acknowledged, "the session goes on");
            std::fs::remove_file(&ballast).unwrap();
            let begun = Instant::now();
            let insert = "INSERT INTO t SELECT -g, 'more' FROM generate_series(1, 2000) g";
            while let Err(error) = writer.batch_execute(insert).await {
                assert!(begun.elapsed() < Duration::from_secs(120), "{error:?}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(count(&reader).await, acknowledged + 2000);
            acknowledged + 2000
        });
        assert!(!server.log().contains("poisoned"), "{}", server.log());
        server.kill();
        let server = TestServer::start(data, &SETTINGS);
        let found = server.psql("SELECT count(*) FROM t").ok();
        assert_eq!(found.trim(), total.to_string());
        assert!(server.stop().success());
    });
}

/// A server on a full disk stops with status 0, starts, is killed, starts again, and answers.
#[test]
fn a_server_stops_and_starts_while_the_disk_is_full() {
    on_each(
        "a server stops and starts while the disk is full",
        |small| {
            let data = &small.data;
            let server = TestServer::start(data, &SETTINGS);
            server.psql("CREATE TABLE t (a int8, b text)").ok();
            leave(small, ROOM);
            let acknowledged = client_runtime().block_on(async {
                let writer = connect(&server.url()).await;
                let acknowledged = fill(&writer).await;
                take_all(small);
                // Checkpoints go on, and overwrite what is there.
                for _ in 0..3 {
                    let _ = writer
                        .batch_execute("UPDATE t SET a = a WHERE a < 100")
                        .await;
                    writer
                        .batch_execute("CHECKPOINT")
                        .await
                        .expect("pages go home");
                }
                acknowledged
            });
            let mut there = acknowledged;
            let mut check = |server: &TestServer| {
                let found = server.psql("SELECT count(*) FROM t").ok();
                assert_eq!(found.trim(), there.to_string());
                // A recovery may have left a segment of the log that is not needed any more.
                loop {
                    let more = server.psql(
                        "INSERT INTO t SELECT g, repeat('x', 600) FROM generate_series(1, 5000) g",
                    );
                    if !more.stderr.is_empty() {
                        assert!(more.stderr.contains("disk full"), "{}", more.stderr);
                        break;
                    }
                    let tag = more.ok();
                    let rows = tag.trim().rsplit(' ').next().map(str::parse::<i64>);
                    there += rows.expect("a tag").expect("a number of rows");
                }
                assert!(!server.log().contains("poisoned"), "{}", server.log());
            };
            check(&server);
            assert!(server.stop().success(), "a clean end on a full disk");
            let server = TestServer::start(data, &SETTINGS);
            check(&server);
            server.kill();
            let server = TestServer::start(data, &SETTINGS);
            check(&server);
            assert!(
                server.stop().success(),
                "a clean end after a recovery on a full disk"
            );
        },
    );
}
