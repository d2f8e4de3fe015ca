//! A file system that is really full: statements fail with 53100, nothing acknowledged is lost,
//! readers go on, and writers do as soon as there is room again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel_tests::server::{TestServer, client_runtime};
use tokio_postgres::{Client, NoTls};

const SIZE: &str = "size=192m";
const ROOM: u64 = 24 << 20;
const SETTINGS: [&str; 4] = [
    "shared_buffers=8MB",
    "wal_buffers=1MB",
    "max_wal_size=48MB",
    "min_wal_size=32MB",
];

/// A small file system in memory, unmounted in the end.
struct Small(PathBuf);

impl Small {
    fn mount(dir: &Path) -> Option<Small> {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", SIZE, "none"])
            .arg(dir)
            .output();
        let is_mounted = mount.is_ok_and(|out| out.status.success());
        is_mounted.then(|| Small(dir.to_owned()))
    }

    fn free(&self) -> u64 {
        let out = Command::new("df")
            .args(["--output=avail", "-B1"])
            .arg(&self.0)
            .output()
            .expect("df");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let last = text.lines().last().map(str::trim);
        last.and_then(|free| free.parse().ok()).expect("a number")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
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

#[test]
fn a_full_disk_stops_writers_and_they_resume_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(dir.path()) else {
        eprintln!("SKIPPED: mounting a file system is not permitted here");
        return;
    };
    let data = dir.path().join("data");
    let ballast = dir.path().join("ballast");
    let server = TestServer::start(&data, &SETTINGS);
    server.psql("CREATE TABLE t (a int8, b text)").ok();
    server.psql("CHECKPOINT").ok();
    let size = small.free().saturating_sub(ROOM);
    let filled = std::fs::write(&ballast, vec![1; usize::try_from(size).unwrap()]);
    filled.expect("the ballast fits");
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
    let server = TestServer::start(&data, &SETTINGS);
    let found = server.psql("SELECT count(*) FROM t").ok();
    assert_eq!(found.trim(), total.to_string());
    assert!(server.stop().success());
}
