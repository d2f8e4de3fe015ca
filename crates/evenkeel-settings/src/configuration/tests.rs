use super::*;
use evenkeel_io::SimDisk;
use std::sync::atomic::AtomicU64;

fn directory() -> &'static Path {
    Path::new("/data")
}

fn disk() -> Arc<SimDisk> {
    let disk = SimDisk::new(5);
    disk.create_dir_all(directory()).expect("made");
    disk.sync_dir(Path::new("/")).expect("synced");
    Arc::new(disk)
}

fn write(disk: &SimDisk, text: &str) {
    evenkeel_io::write_whole(disk, &directory().join(FILE), text.as_bytes()).expect("written");
}

fn open(disk: &Arc<SimDisk>, given: &[(&str, &str)]) -> Result<Configuration, SettingError> {
    let given = given.iter();
    let given = given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(disk);
    Configuration::open(disk, directory(), given.collect())
}

fn value(configuration: &Configuration, name: &str) -> (String, &'static str) {
    let loaded = configuration.loaded();
    let given = loaded.get(name).expect("known");
    (given.value.to_string(), given.source.name())
}

/// SET-2.
#[test]
fn the_command_line_overrides_alter_system_which_overrides_the_file() {
    let disk = disk();
    write(
        &disk,
        "work_mem = 1MB\njit = on\nwork_mem = 2MB\napp.x = 'a b'\n",
    );
    let text = "work_mem = '3MB'\n";
    evenkeel_io::write_whole(&*disk, &directory().join(AUTO_FILE), text.as_bytes()).expect("made");
    let from_files = open(&disk, &[]).expect("sound");
    assert_eq!(
        value(&from_files, "work_mem"),
        ("3072".into(), "configuration file")
    );
    assert_eq!(
        value(&from_files, "jit"),
        ("on".into(), "configuration file")
    );
    assert_eq!(value(&from_files, "app.x").0, "a b");
    assert_eq!(value(&from_files, "fsync"), ("on".into(), "default"));
    let overridden = open(&disk, &[("Work_Mem", "4MB")]).expect("sound");
    assert_eq!(
        value(&overridden, "work_mem"),
        ("4096".into(), "command line")
    );
    let entries = overridden.file_entries().expect("read");
    assert!(
        entries
            .iter()
            .all(|e| e.applied != e.content.as_ref().unwrap().0.contains("mem"))
    );
}

#[test]
fn a_start_names_every_error_of_the_files_and_the_command_line() {
    let disk = disk();
    write(&disk, "work_mem = 1kB\n\nport 5 5\nserver_version = 19\n");
    let error = open(&disk, &[("shared_bufers", "1")]).expect_err("errors");
    let SettingError::Several(lines) = &error else {
        panic!("{error:?}");
    };
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines[0].starts_with("/data/evenkeel.conf:1: 1 kB is outside"),
        "{lines:?}"
    );
    assert!(
        lines[1].ends_with("evenkeel.conf:3: syntax error"),
        "{lines:?}"
    );
    assert!(
        lines[2].ends_with("parameter \"server_version\" cannot be changed"),
        "{lines:?}"
    );
    assert_eq!(
        lines[3],
        "unrecognized configuration parameter \"shared_bufers\""
    );
}

/// SET-3.
#[test]
fn a_reload_applies_what_is_sound_and_leaves_what_needs_a_start() {
    let disk = disk();
    write(&disk, "checkpoint_timeout = 30s\nport = 5433\n");
    let configuration = open(&disk, &[("wal_writer_delay", "20ms")]).expect("sound");
    let told = Arc::new(AtomicU64::new(0));
    let (listener, name) = (Arc::clone(&told), "checkpoint_timeout");
    configuration.on_load(move |loaded| {
        listener.store(loaded.time(name).as_secs(), Ordering::Relaxed);
    });
    write(
        &disk,
        "checkpoint_timeout = 2min\nport = 5434\nwork_mem = 0\nwal_writer_delay = 30ms\n",
    );
    let entries = configuration.file_entries().expect("read");
    let states: Vec<_> = entries
        .iter()
        .map(|e| (e.applied, e.error.as_deref()))
        .collect();
    assert_eq!(states[0], (true, None));
    assert_eq!(states[1], (false, Some("setting could not be applied")));
    assert!(
        !states[2].0
            && states[2]
                .1
                .expect("refused")
                .contains("outside the valid range")
    );
    assert_eq!(states[3], (false, None));
    configuration.reload().expect("read");
    assert_eq!(told.load(Ordering::Relaxed), 120);
    assert_eq!(configuration.generation(), 1);
    assert_eq!(value(&configuration, "port").0, "5433");
    assert!(
        configuration
            .loaded()
            .get("port")
            .expect("known")
            .pending_restart
    );
    assert_eq!(value(&configuration, "work_mem").1, "default");
    assert_eq!(
        value(&configuration, "wal_writer_delay"),
        ("20".into(), "command line")
    );
    write(&disk, "");
    configuration.reload().expect("read");
    assert_eq!(
        value(&configuration, "checkpoint_timeout"),
        ("300".into(), "default")
    );
}

/// SET-4.
#[test]
fn alter_system_is_durable_checked_and_taken_back() {
    let disk = disk();
    let configuration = open(&disk, &[]).expect("sound");
    configuration
        .alter(Some(("timezone", Some("Europe/Berlin"))))
        .expect("written");
    configuration
        .alter(Some(("search_path", Some("it's, \"b\\\""))))
        .expect("written");
    let survived = Arc::new(disk.crash(1));
    let again = open(&survived, &[]).expect("sound");
    assert_eq!(value(&again, "TimeZone").0, "Europe/Berlin");
    assert_eq!(value(&again, "search_path").0, "it's, \"b\\\"");
    for (name, bad) in [
        ("work_mem", "1kB"),
        ("nonsense", "1"),
        ("server_version", "19"),
        ("search_path", "a\nport = 1"),
    ] {
        configuration
            .alter(Some((name, Some(bad))))
            .expect_err(name);
    }
    configuration
        .alter(Some(("TimeZone", None)))
        .expect("written");
    configuration.reload().expect("read");
    assert_eq!(value(&configuration, "TimeZone").1, "default");
    assert_eq!(value(&configuration, "search_path").1, "configuration file");
    configuration.alter(None).expect("written");
    configuration.reload().expect("read");
    assert_eq!(value(&configuration, "search_path").1, "default");
    let without = Configuration::default();
    assert_eq!(
        without.alter(None).expect_err("no file"),
        SettingError::NoFile
    );
}

#[test]
fn values_found_at_the_start_outlive_a_reload() {
    let disk = disk();
    let configuration = open(&disk, &[]).expect("sound");
    configuration.settle("max_server_memory", "512");
    assert_eq!(
        value(&configuration, "max_server_memory"),
        ("512".into(), "override")
    );
    configuration.reload().expect("read");
    assert_eq!(
        value(&configuration, "max_server_memory"),
        ("512".into(), "override")
    );
}

#[test]
fn a_new_file_sets_nothing_and_takes_every_default_it_names() {
    let disk = disk();
    write(&disk, &settings_file("# "));
    let commented = open(&disk, &[]).expect("sound");
    assert!(
        commented
            .loaded()
            .values()
            .all(|(_, given)| given.source == Source::Default)
    );
    write(&disk, &settings_file(""));
    let taken = open(&disk, &[]).expect("sound");
    for (name, given) in commented.loaded().values() {
        assert_eq!(
            taken.loaded().get(name).expect("known").value,
            given.value,
            "{name}"
        );
    }
}

/// SET-7.
#[test]
fn a_value_without_effect_says_so_wherever_it_is_given() {
    let sentence = |name: &str| {
        let value = if name == "jit" { "on" } else { "all" };
        let setting = find(name).expect("known");
        setting.without_effect(value).expect("it has none")
    };
    let disk = disk();
    write(&disk, "jit = on\nwork_mem = 2MB\n");
    let configuration = open(&disk, &[("log_statement", "all")]).expect("sound");
    let told: Vec<String> = configuration.loaded().without_effect().collect();
    assert_eq!(told, [sentence("jit"), sentence("log_statement")]);
    let answer = |change| configuration.alter(Some(change)).expect("taken");
    assert_eq!(answer(("jit", Some("on"))), Some(sentence("jit")));
    assert_eq!(answer(("jit", Some("off"))), None);
    assert_eq!(answer(("jit", None)), None);
    assert_eq!(answer(("work_mem", Some("1MB"))), None);
}
