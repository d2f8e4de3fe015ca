//! The workload does what the proof is to cover.

use std::collections::BTreeSet;

use evenkeel_io::Outcome;

use crate::images::{Run, run};
use crate::keep::log;
use crate::schema::small;
use crate::watch::seed;

/// Operations of records, kinds of records, and numbers of a vacuum that are not all zero.
const WANTED: [&str; 29] = [
    "ABORT NOTIFY",
    "COMMIT NOTIFY",
    "FILE_CREATE",
    "FILE_DROP",
    "TRUNCATE",
    "btree CLEAR_FLAGS",
    "btree DELETE_ITEMS",
    "btree HALF_DEAD",
    "btree INSERT",
    "btree META",
    "btree NODE",
    "btree REMOVE_DOWNLINK",
    "btree SET_LEFT",
    "btree SET_RIGHT",
    "btree SPLIT_LEFT",
    "btree UNLINK",
    "heap INSERT",
    "heap MODIFY",
    "heap MULTI_INSERT",
    "heap PRUNE",
    "heap UPDATE",
    "status files dropped",
    "vacuum dead_items_removed",
    "vacuum index_entries_removed",
    "vacuum pages_removed",
    "vacuum pages_set_visible",
    "vacuum tuples_frozen",
    "vacuum tuples_recently_dead",
    "vm CHANGE",
];

/// Adds what a run's log and its vacuums show.
fn note(run: &Run, seen: &mut BTreeSet<String>) {
    let mut images = run.disk.images(0);
    while images.index() < images.end() {
        images.seek(images.index() + 60);
        let log = log(&images.image(Outcome::Everything, 0));
        for line in log.lines() {
            let words: Vec<_> = match line.strip_prefix('\t') {
                Some(part) => part.split(' ').take(2).collect(),
                None => line.split(", ").skip(4).take(1).collect(),
            };
            seen.insert(words.join(" "));
        }
    }
    if run
        .trace
        .iter()
        .any(|line| line.ends_with("dropped status files"))
    {
        seen.insert("status files dropped".into());
    }
    let vacuums = run.trace.iter();
    for stats in vacuums.filter_map(|line| line.split_once("VacuumStats { ")) {
        let fields = stats.1.trim_end_matches(" }").split(", ");
        for (name, value) in fields.filter_map(|field| field.split_once(": ")) {
            if value != "0" {
                seen.insert(format!("vacuum {name}"));
            }
        }
    }
}

#[test]
fn the_workload_reaches_every_kind_of_change() {
    let first = seed(20_260_822);
    let mut seen = BTreeSet::new();
    for round in 0..12 {
        let run = run(first + round, 300, &small()).unwrap_or_else(|error| panic!("{error}"));
        note(&run, &mut seen);
        if WANTED.iter().all(|wanted| seen.contains(*wanted)) {
            return;
        }
    }
    let missing = WANTED.iter().filter(|wanted| !seen.contains(**wanted));
    panic!("not reached: {:?}", missing.collect::<Vec<_>>());
}
