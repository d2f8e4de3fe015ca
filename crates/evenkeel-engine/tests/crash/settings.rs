//! The same operations under different settings give the same content.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use evenkeel_io::{Disk, FileDisk, IoMethod, SimDisk};
use evenkeel_storage::{StorageConfig, TornPageProtection};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::model::Rows;
use crate::schema::{open_at, small};
use crate::verify::read_recovered;
use crate::watch::{fresh, guarded, seed};
use crate::workload::Driver;

type Logical = BTreeMap<u64, (bool, Rows)>;

/// Content that the operations leave, as read after reopening.
fn content(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    storage: &StorageConfig,
    seed: u64,
) -> Result<Logical, String> {
    let text = |error: evenkeel_engine::EngineError| error.to_string();
    let db = open_at(Arc::clone(disk), dir, storage.clone()).map_err(text)?;
    let random = StdRng::seed_from_u64(seed);
    let mut driver = Driver::create(db, Arc::new(|| 0), random).map_err(text)?;
    for _ in 0..400 {
        driver.turn().map_err(text)?;
    }
    driver.finish().map_err(text)?;
    let expected = driver.history.last().clone();
    drop(driver);
    let db = open_at(Arc::clone(disk), dir, storage.clone()).map_err(text)?;
    let found = read_recovered(&db)?.ok_or("nothing is there")?;
    if found != expected {
        return Err(found.difference(&expected));
    }
    Ok(found.logical())
}

/// DUR-5.
#[test]
fn settings_change_no_content() {
    let seed = seed(fresh());
    let mut first: Option<Logical> = None;
    for frames in [16, 64, 4096] {
        for torn_page_protection in [
            TornPageProtection::DoubleWrite,
            TornPageProtection::FullPageWrites,
            TornPageProtection::Off,
        ] {
            let storage = StorageConfig {
                shared_buffers: frames * 8192,
                torn_page_protection,
                ..small()
            };
            let place = tempfile::tempdir().expect("a directory for temporary files");
            let disks: [(&str, Arc<dyn Disk>); 4] = [
                ("simulated", Arc::new(SimDisk::new(seed))),
                ("synchronous", Arc::new(FileDisk::new(IoMethod::Sync))),
                (
                    "worker",
                    Arc::new(FileDisk::new(IoMethod::Worker { threads: 2 })),
                ),
                (
                    "rings",
                    Arc::new(FileDisk::new(IoMethod::IoUring { threads: 2 })),
                ),
            ];
            for (name, disk) in disks {
                let dir = match name {
                    "simulated" => Path::new("data").to_owned(),
                    _ => place.path().join(name),
                };
                let what =
                    format!("seed {seed}, {frames} frames, {torn_page_protection:?}, {name}");
                let found = guarded(&what, || content(&disk, &dir, &storage, seed));
                let found = found.unwrap_or_else(|error| panic!("{error}"));
                assert!(
                    first.get_or_insert_with(|| found.clone()) == &found,
                    "{what}"
                );
            }
        }
    }
}
