//! The messages of VACUUM and ANALYZE VERBOSE, in PostgreSQL's words.

use std::fmt::Write;

use super::analyze::AnalyzeReport;
use super::vacuum::VacuumReport;

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 {
        100.0
    } else {
        part as f64 * 100.0 / of as f64
    }
}

/// The report of a vacuum. `what` says how it came about, as in `finished vacuuming`.
pub fn vacuumed(database: &str, what: &str, report: &VacuumReport) -> String {
    let (stats, table) = (&report.stats, &report.table);
    let mut text = format!(
        "{what} \"{database}.{}.{}\": index scans: {}\n",
        table.schema, table.name, stats.index_rounds
    );
    let all = u64::from(stats.pages) + u64::from(stats.pages_removed);
    let scanned = percent(u64::from(stats.pages_scanned), all);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "pages: {} removed, {} remain, {} scanned ({scanned:.2}% of total), 0 eagerly scanned",
        stats.pages_removed, stats.pages, stats.pages_scanned,
    );
    let _ = writeln!(
        text,
        "tuples: {} removed, {} remain, {} are dead but not yet removable",
        stats.tuples_removed, stats.tuples_kept, stats.tuples_recently_dead
    );
    let _ = writeln!(
        text,
        "removable cutoff: {}, which was {} XIDs old when operation ended",
        stats.removal_cutoff, report.ids_passed
    );
    if let Some((now, before)) = report.frozen {
        let ahead = now - before;
        let _ = writeln!(
            text,
            "new relfrozenxid: {now}, which is {ahead} XIDs ahead of previous value"
        );
    }
    let _ = writeln!(
        text,
        "frozen: {} pages from table ({:.2}% of total) had {} tuples frozen",
        stats.pages_frozen,
        percent(u64::from(stats.pages_frozen), all),
        stats.tuples_frozen
    );
    let _ = writeln!(
        text,
        "visibility map: {} pages set all-visible, {} pages set all-frozen",
        stats.pages_set_visible, stats.pages_set_frozen
    );
    indexes(&mut text, report, all);
    buffers(&mut text, report);
    text
}

fn indexes(text: &mut String, report: &VacuumReport, all: u64) {
    let stats = &report.stats;
    let (need, count, what) = match (stats.dead_items_left, stats.index_rounds) {
        (0, 0) => ("not needed", 0, "removed"),
        (0, _) => ("needed", stats.dead_items_removed, "removed"),
        (left, _) => ("bypassed", left, "left"),
    };
    let _ = writeln!(
        text,
        "index scan {need}: {} pages from table ({:.2}% of total) had {count} dead item \
         identifiers {what}",
        stats.dead_pages,
        percent(u64::from(stats.dead_pages), all.max(1)),
    );
    for index in &stats.indexes {
        let name = report.table.indexes.get(index.index);
        let name = name.map_or("?", |index| &index.name);
        let _ = writeln!(
            text,
            "index \"{name}\": pages: {} in total, {} newly deleted, {} currently deleted, {} \
             reusable",
            index.pages, index.pages_deleted, index.pages_deleted, index.pages_free
        );
    }
}

fn buffers(text: &mut String, report: &VacuumReport) {
    const PAGE_MB: f64 = 8192.0 / (1024.0 * 1024.0);
    let (hits, reads, dirtied) = report.stats.buffers;
    let seconds = report.took.as_secs_f64();
    let rate = |pages: u64| pages as f64 * PAGE_MB / seconds.max(1e-6);
    if !report.stats.delayed.is_zero() {
        let millis = report.stats.delayed.as_secs_f64() * 1e3;
        let _ = writeln!(text, "delay time: {millis:.3} ms");
    }
    let _ = writeln!(
        text,
        "avg read rate: {:.3} MB/s, avg write rate: {:.3} MB/s",
        rate(reads),
        rate(dirtied)
    );
    let _ = writeln!(
        text,
        "buffer usage: {hits} hits, {reads} reads, {dirtied} dirtied"
    );
    let log = report.stats.log;
    let _ = writeln!(
        text,
        "WAL usage: {} records, {} full page images, {} bytes",
        log.records, log.images, log.bytes
    );
    let _ = write!(text, "system usage: elapsed: {seconds:.2} s");
}

/// The report of an analyze.
pub fn analyzed(report: &AnalyzeReport) -> String {
    let sample = &report.sample;
    format!(
        "\"{}\": scanned {} of {} pages, containing {} live rows and {} dead rows; {} rows in \
         sample, {} estimated total rows",
        report.table.name,
        sample.blocks_sampled,
        sample.blocks,
        sample.live_sampled,
        sample.dead_sampled,
        report.rows,
        sample.live()
    )
}
