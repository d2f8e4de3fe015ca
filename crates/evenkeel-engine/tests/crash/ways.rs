//! One crash, recovered in every way: by one thread and by many, before opening and while open,
//! in much memory and in little, at once and after being interrupted. The pages are the same, byte
//! for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_engine::{BlockNumber, Database, FileId};
use evenkeel_io::SimDisk;
use evenkeel_storage::page::CHECKSUM_OFFSET;
use evenkeel_storage::{Fork, RecoveryOpen, StorageConfig, StorageError, TornPageProtection};

use crate::images::{Run, image_at, over_images, run};
use crate::schema::{open, protected};
use crate::verify::{list_files, read_recovered};
use crate::watch::{fresh, number, seed};

/// Threads of redo, and when the database opens.
const WAYS: [(usize, RecoveryOpen); 6] = [
    (1, RecoveryOpen::AfterRedo),
    (2, RecoveryOpen::AfterRedo),
    (8, RecoveryOpen::AfterRedo),
    (1, RecoveryOpen::Immediate),
    (2, RecoveryOpen::Immediate),
    (8, RecoveryOpen::Immediate),
];

/// Memory of the lists of changes: for all of them, for their places in the log, for few pages.
const MEMORY: [u64; 3] = [0, 48 << 10, 12 << 10];

/// How recovery is interrupted before it runs to its end.
#[derive(Clone, Copy, Debug)]
enum Midway {
    Not,
    Killed,
    PowerFails(u64),
}

type Pages = BTreeMap<(u64, Fork, u32), Box<[u8]>>;

/// The pages of all data files as redo leaves them, before anything reads a row. Free-space maps
/// are hints and not logged.
fn pages(db: &Database) -> Result<Pages, String> {
    let text = |error: StorageError| error.to_string();
    db.store().wait_for_redo();
    let mut pages = Pages::new();
    for file in list_files(db)? {
        for fork in [Fork::Main, Fork::Vm] {
            let handle = db.pool().fork(FileId(file), fork).map_err(text)?;
            for block in 0..handle.len() {
                let page = handle.pin(BlockNumber(block)).map_err(text)?.write();
                let mut bytes: Box<[u8]> = page.bytes().as_slice().into();
                // Made when the page is written.
                bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].fill(0);
                // Room that no record speaks of is as long as what survives of the file.
                if bytes.iter().any(|byte| *byte != 0) {
                    pages.insert((file, fork, block), bytes);
                }
            }
        }
    }
    Ok(pages)
}

/// Recovers a copy of the image in one way.
fn recovered(
    image: &SimDisk,
    storage: &StorageConfig,
    (workers, recovery_open): (usize, RecoveryOpen),
    recovery_memory: u64,
    midway: Midway,
) -> Result<Database, String> {
    let storage = StorageConfig {
        recovery_memory,
        recovery_workers: workers,
        recovery_open,
        ..storage.clone()
    };
    let opened = |disk: &SimDisk| {
        let db = open(Arc::new(disk.clone()), storage.clone());
        db.map_err(|error| error.to_string())
    };
    let copy = image.process_crash();
    let db = opened(&copy)?;
    let rest = match midway {
        Midway::Not => return Ok(db),
        Midway::Killed => copy.process_crash(),
        Midway::PowerFails(seed) => copy.crash(seed),
    };
    drop(db);
    opened(&rest)
}

fn difference(found: &Pages, expected: &Pages) -> Option<String> {
    let (a, b) = (found.keys(), expected.keys());
    if !a.eq(b) {
        return Some(format!("{} pages, not {}", found.len(), expected.len()));
    }
    let differs = found.iter().find(|(page, bytes)| expected[page] != **bytes);
    differs.map(|((file, fork, block), bytes)| {
        let other = &expected[&(*file, *fork, *block)];
        let at = bytes.iter().zip(other.iter()).position(|(a, b)| a != b);
        format!("file {file}, {fork:?}, block {block} differs at byte {at:?}")
    })
}

/// The image at `index`, recovered in every way and once more after each kind of interruption.
fn check_ways(run: &Run, image: &SimDisk, index: u64, seed: u64) -> Result<(), String> {
    let mut first: Option<Pages> = None;
    for (number, way) in WAYS.into_iter().enumerate() {
        // Each way is interrupted in one of two images, by turns.
        let midway = match (index + number as u64) % 4 {
            0 => Midway::Killed,
            1 => Midway::PowerFails(seed),
            _ => Midway::Not,
        };
        let memory = MEMORY[(index as usize + number) % MEMORY.len()];
        let what = |error| format!("{way:?}, {memory} bytes, {midway:?}: {error}");
        let db = recovered(image, &run.storage, way, memory, midway).map_err(what)?;
        let found = pages(&db).map_err(what)?;
        match &first {
            Some(expected) => {
                if let Some(differs) = difference(&found, expected) {
                    return Err(what(differs));
                }
            }
            None => first = Some(found),
        }
        let state = read_recovered(&db).map_err(what)?;
        let history = &run.history;
        if history.created.is_some_and(|created| index >= created) {
            let state = state.ok_or_else(|| what("the catalog is gone".into()))?;
            history
                .place(&state, history.possible(index))
                .map_err(what)?;
        }
    }
    Ok(())
}

/// DUR-9.
#[test]
fn a_crash_is_recovered_to_the_same_pages_in_every_way() {
    let each = number("EVENKEEL_CRASH_IMAGES", 120) / 2;
    for protection in [
        TornPageProtection::DoubleWrite,
        TornPageProtection::FullPageWrites,
    ] {
        let mut next = seed(fresh());
        let mut checked = 0;
        while checked < each {
            let run = run(next, 250, &protected(protection));
            let run = run.unwrap_or_else(|error| panic!("{error}"));
            let count = (each - checked).min(2500);
            let images = over_images(&run, count, &|images, index, failure, _| {
                let (image, seed, what) = image_at(&run, images, index, failure);
                check_ways(&run, &image, index, seed).map_err(|error| format!("{what}: {error}"))
            });
            checked += images.unwrap_or_else(|error| panic!("{error}"));
            println!("seed {next}, {protection:?}: {checked} images");
            next = fresh();
        }
    }
}
