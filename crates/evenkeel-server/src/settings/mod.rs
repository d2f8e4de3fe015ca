//! The settings as each layer of the server takes them: the engine and storage, the SQL layer,
//! the wire.

mod memory;

use std::path::PathBuf;

use evenkeel_engine::Config;
use evenkeel_io::IoMethod;
use evenkeel_settings::{Configuration, Loaded};
use evenkeel_storage::{RecoveryOpen, StorageConfig, TornPageProtection, Tuning};

use crate::config::ServerConfig;

/// Workers for page writes, of the cleaner and of a checkpoint, beside those for reads ahead.
const IO_WRITERS: usize = 32;

/// How the engine and storage are opened.
#[must_use]
pub fn database_config(loaded: &Loaded) -> Config {
    Config {
        storage: storage_config(loaded),
        track_commit_timestamp: loaded.is_on("track_commit_timestamp"),
        ..Config::default()
    }
}

fn storage_config(loaded: &Loaded) -> StorageConfig {
    let direct = |what: &str| {
        loaded
            .text("io_direct")
            .split(", ")
            .any(|part| part == what)
    };
    let tuning = tuning(loaded);
    StorageConfig {
        shared_buffers: loaded.bytes("shared_buffers"),
        wal_buffers: loaded.bytes("wal_buffers"),
        max_wal_size: tuning.max_wal_size,
        min_wal_size: tuning.min_wal_size,
        checkpoint_timeout: tuning.checkpoint_timeout,
        checkpoint_completion_target: tuning.checkpoint_completion_target,
        checkpoint_warning: tuning.checkpoint_warning,
        max_recovery_time: tuning.max_recovery_time,
        wal_writer_delay: tuning.wal_writer_delay,
        checkpoint_flush_after: loaded.bytes("checkpoint_flush_after"),
        bgwriter_flush_after: loaded.bytes("bgwriter_flush_after"),
        vacuum_buffer_usage_limit: loaded.bytes("vacuum_buffer_usage_limit"),
        effective_io_concurrency: loaded.count("effective_io_concurrency"),
        maintenance_io_concurrency: loaded.count("maintenance_io_concurrency"),
        io_combine_limit: loaded.bytes("io_combine_limit"),
        io_slow_threshold: loaded.time("io_slow_threshold"),
        io_direct_data: direct("data"),
        io_direct_wal: direct("wal"),
        fsync: loaded.is_on("fsync"),
        torn_page_protection: match loaded.text("torn_page_protection") {
            "off" => TornPageProtection::Off,
            "full_page_writes" => TornPageProtection::FullPageWrites,
            _ => TornPageProtection::DoubleWrite,
        },
        wal_compression: loaded.text("wal_compression") != "off",
        wal_consistency_checking: loaded.is_on("wal_consistency_checking"),
        recovery_open: match loaded.text("recovery_open") {
            "after_redo" => RecoveryOpen::AfterRedo,
            _ => RecoveryOpen::Immediate,
        },
        recovery_workers: loaded.count("recovery_workers"),
        recovery_memory: memory::of_recovery(loaded),
        recovery_prefetch: loaded.text("recovery_prefetch") != "off",
        ignore_log_damage: loaded.is_on("ignore_log_damage"),
        ..StorageConfig::default()
    }
}

/// The part of storage's settings that follows a reload.
#[must_use]
pub fn tuning(loaded: &Loaded) -> Tuning {
    Tuning {
        max_wal_size: loaded.bytes("max_wal_size"),
        min_wal_size: loaded.bytes("min_wal_size"),
        checkpoint_timeout: loaded.time("checkpoint_timeout"),
        checkpoint_completion_target: loaded.real("checkpoint_completion_target"),
        checkpoint_warning: loaded.time("checkpoint_warning"),
        max_recovery_time: loaded.time("max_recovery_time"),
        wal_writer_delay: loaded.time("wal_writer_delay"),
    }
}

/// Where and how the server listens.
#[must_use]
pub fn server_config(loaded: &Loaded) -> ServerConfig {
    let directory = loaded.text("unix_socket_directories");
    ServerConfig {
        port: u16::try_from(loaded.integer("port")).unwrap_or_default(),
        socket_directory: (!directory.is_empty()).then(|| PathBuf::from(directory)),
        max_connections: loaded.count("max_connections"),
        authentication_timeout: loaded.time("authentication_timeout"),
        ..ServerConfig::default()
    }
}

/// How files are read and written.
#[must_use]
pub fn io_method(loaded: &Loaded) -> IoMethod {
    let depths = ["effective_io_concurrency", "maintenance_io_concurrency"];
    let reads: usize = depths.iter().map(|name| loaded.count(name)).sum();
    let threads = match loaded.count("io_max_workers") {
        0 => reads + IO_WRITERS,
        most => most,
    };
    match loaded.text("io_method") {
        "sync" => IoMethod::Sync,
        "io_uring" => IoMethod::IoUring { threads },
        _ => IoMethod::Worker { threads },
    }
}

/// The memory budgets of the server and of a session, in bytes, which are shown from then on:
/// those that nothing sets follow from what the machine, or the container, has.
#[must_use]
pub fn settle_memory(configuration: &Configuration) -> (usize, usize) {
    let (server, session) = memory::settle(configuration);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (size(server), size(session))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(given: &[(&str, &str)]) -> std::sync::Arc<Loaded> {
        Configuration::of(given).expect("sound").loaded()
    }

    /// SET-5.
    #[test]
    fn the_tables_defaults_are_those_of_the_layers() {
        let loaded = of(&[]);
        let (ours, theirs) = (database_config(&loaded), Config::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        let (ours, theirs) = (server_config(&loaded), ServerConfig::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn units_are_postgresqls() {
        let loaded = of(&[
            ("shared_buffers", "1GB"),
            ("max_wal_size", "2048"),
            ("checkpoint_timeout", "30"),
            ("wal_writer_delay", "1500us"),
            ("io_direct", "data"),
        ]);
        let storage = database_config(&loaded).storage;
        assert_eq!(storage.shared_buffers, 1 << 30);
        assert_eq!(storage.max_wal_size, 2 << 30);
        assert_eq!(storage.checkpoint_timeout, Duration::from_secs(30));
        // Rounded to the setting's unit, as PostgreSQL does.
        assert_eq!(storage.wal_writer_delay, Duration::from_millis(2));
        assert!(storage.io_direct_data && !storage.io_direct_wal);
        let pages = database_config(&of(&[("shared_buffers", "16384")])).storage;
        assert_eq!(pages.shared_buffers, 128 << 20);
    }

    #[test]
    fn there_are_io_workers_for_the_depths_of_reading_ahead() {
        let workers = |threads| IoMethod::Worker { threads };
        assert_eq!(io_method(&of(&[])), workers(16 + 16 + IO_WRITERS));
        let deeper = ("maintenance_io_concurrency", "100");
        assert_eq!(io_method(&of(&[deeper])), workers(16 + 100 + IO_WRITERS));
        assert_eq!(
            io_method(&of(&[deeper, ("io_max_workers", "3")])),
            workers(3)
        );
        assert_eq!(io_method(&of(&[("io_method", "sync")])), IoMethod::Sync);
        let ring = [("io_method", "io_uring"), ("io_max_workers", "3")];
        assert_eq!(io_method(&of(&ring)), IoMethod::IoUring { threads: 3 });
        assert!(Configuration::of(&[("io_max_workers", "1001")]).is_err());
    }
}
