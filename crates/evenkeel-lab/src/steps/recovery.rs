//! A crash, and recoveries over copies of what it left.

use std::path::Path;

use super::{Bench, MIB, known};
use crate::environment::{drop_caches, read_all, sync};
use crate::error::LabError;
use crate::plan::Recovery;
use crate::record::Row;
use crate::sample::Usage;
use crate::server::Server;
use crate::views;

impl Bench<'_> {
    pub(super) fn crash(&mut self) -> Result<(), LabError> {
        self.say("killing the server");
        let mut client = self.server()?.client()?;
        let log = views::log_position(&mut client);
        let log = log
            .zip(self.log_at_checkpoint)
            .map(|(now, then)| now - then);
        self.log_to_redo = log;
        self.crashed_at = views::insert_position(&mut client);
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        let data = server.data.clone();
        server.crash();
        self.context
            .note_text("# every process of the server is killed (SIGKILL)");
        let image = self.dir.join("image");
        std::fs::rename(&data, &image).map_err(LabError::file("keeping", &data))?;
        self.image = Some(image);
        Ok(())
    }

    pub(super) fn recover(&mut self, recovery: &Recovery) -> Result<Row, LabError> {
        if let Some(name) = recovery.needs.filter(|name| !self.subject.knows(name)) {
            let why = format!("{} has no such setting", self.subject.label());
            return Err(LabError::unavailable(name, why));
        }
        self.say(&format!("recovery, {}", recovery.label));
        let image = self.image.clone().ok_or_else(nothing_crashed)?;
        let data = self.dir.join("data");
        self.copy_of_crashed(&image, &data, recovery.cold)
            .inspect_err(|_| drop(std::fs::remove_dir_all(&data)))?;
        let mut settings = self.settings.clone();
        let own = recovery.settings.iter().map(|(n, v)| (*n, v.as_str()));
        settings.extend(known(self.subject, own).0);
        let server = self.launch(&data, &settings)?;
        let row = self.recovered(&recovery.label, &server);
        server.stop();
        std::fs::remove_dir_all(&data).map_err(LabError::file("removing", &data))?;
        Ok(row)
    }

    pub(super) fn restart(&mut self, label: &str) -> Result<Row, LabError> {
        self.say(&format!("recovery, {label}"));
        let image = self.image.take().ok_or_else(nothing_crashed)?;
        let data = self.dir.join("data");
        std::fs::rename(&image, &data).map_err(LabError::file("giving back", &image))?;
        self.context
            .note_text("# a server over the crashed directory itself");
        let server = self.launch(&data, &self.settings)?;
        let row = self.recovered(label, &server);
        self.server = Some(server);
        Ok(row)
    }

    /// A copy whose own write-back is over before the server starts.
    fn copy_of_crashed(&self, image: &Path, data: &Path, cold: bool) -> Result<(), LabError> {
        self.context.copy(image, data)?;
        self.context
            .note_text("# a server over a copy of the crashed directory, synced first");
        sync(self.context.work)?;
        if cold {
            self.context
                .note_text("# sync; echo 3 > /proc/sys/vm/drop_caches");
            return drop_caches();
        }
        self.context.note_text("# every file of it is read once");
        read_all(data).map(drop)
    }

    fn recovered(&self, label: &str, server: &Server) -> Row {
        let mut row = Row::new(label);
        Usage::of(server.pid(), server.group()).put(&mut row.figures);
        let mut put = |name: &str, value: f64| row.figures.insert(name.to_owned(), value);
        let ready = server.ready_after.as_secs_f64();
        put("ready_s", ready);
        let from = server.logged(REDO_STARTS).map(|at| at.as_secs_f64());
        let to = server.logged("redo done at").map(|at| at.as_secs_f64());
        if let Some((from, to)) = from.zip(to) {
            put("redo_s", to - from);
            put("after_redo_s", (ready - to).max(0.0));
        }
        let lines = server.log_lines();
        let redo = lines.iter().find_map(|(_, line)| redo_starts(line));
        if let Some(bytes) = distance(redo, self.crashed_at).or(self.log_to_redo) {
            put("log_mib", bytes / MIB);
        }
        if let Some(rate) = rate_before(&self.rows) {
            put("tps_before", rate);
        }
        if let Ok(mut client) = server.client() {
            row.counters = views::read(&mut client);
        }
        row
    }
}

fn nothing_crashed() -> LabError {
    LabError::Usage("nothing has crashed".to_owned())
}

/// The rate of the last load: the one that the crash ended.
fn rate_before(rows: &[Row]) -> Option<f64> {
    let rates = rows.iter().rev().map(|row| row.figures.get("tps"));
    rates.flatten().next().copied()
}

const REDO_STARTS: &str = "redo starts at ";

/// The position that a server's line about the start of redo names.
fn redo_starts(line: &str) -> Option<f64> {
    views::position(line.split_once(REDO_STARTS)?.1)
}

/// How much log there was from the redo point on. A position before it is not one of this log.
fn distance(redo: Option<f64>, crashed_at: Option<f64>) -> Option<f64> {
    let (redo, end) = redo.zip(crashed_at)?;
    (end >= redo).then_some(end - redo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_before_a_crash_is_that_of_the_last_load() {
        let mut rows = Vec::new();
        for (label, key, value) in [("a", "tps", 1.0), ("b", "tps", 2.0), ("c", "ready_s", 3.0)] {
            let mut row = Row::new(label);
            row.figures.insert(key.to_owned(), value);
            rows.push(row);
        }
        assert_eq!(rate_before(&rows), Some(2.0));
        assert_eq!(rate_before(&rows[2..]), None);
    }

    #[test]
    fn the_log_is_measured_from_the_redo_point_that_the_server_used() {
        let of = |line: &str| distance(redo_starts(line), Some(4_294_967_296.0));
        assert_eq!(of("LOG:  redo starts at 0/FFFFFF00"), Some(256.0));
        assert_eq!(
            of("INFO redo starts at 0/01000048"),
            Some(4_278_190_008.0),
            "of either server"
        );
        assert_eq!(of("redo starts at 1/1"), None);
        assert_eq!(of("redo done at 0/FFFFFF00"), None);
        assert_eq!(distance(Some(1.0), None), None);
    }
}
