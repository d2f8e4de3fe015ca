//! The machine under the servers: a slow disk, a cold page cache, free space, what it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::error::LabError;

const BLKIO: &str = "/sys/fs/cgroup/blkio";
const SLOW_DISK: &str = "the slow disk";

/// A cgroup-v1 `blkio` group: it counts what its processes themselves send to the disk, and can
/// limit how many writes a second they may.
#[derive(Debug)]
pub struct DiskGroup {
    dir: PathBuf,
    device: String,
}

impl DiskGroup {
    /// Makes a group for the disk under `work`.
    ///
    /// # Errors
    /// Why this machine has none: not root, no cgroup-v1 `blkio`, no block device under `work`.
    pub fn create(work: &Path, name: &str) -> Result<DiskGroup, LabError> {
        DiskGroup::create_in(Path::new(BLKIO), work, name)
    }

    fn create_in(hierarchy: &Path, work: &Path, name: &str) -> Result<DiskGroup, LabError> {
        let missing = |why: String| LabError::unavailable(SLOW_DISK, why);
        if !rustix::process::geteuid().is_root() {
            return Err(missing("needs root, to limit a control group".to_owned()));
        }
        if !hierarchy.join("blkio.throttle.write_iops_device").exists() {
            let why = format!("{} is no cgroup-v1 blkio hierarchy", hierarchy.display());
            return Err(missing(why));
        }
        let device = whole_disk(work)
            .ok_or_else(|| missing(format!("{} lies on no block device", work.display())))?;
        let dir = hierarchy.join(format!("evenkeel-lab-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).map_err(LabError::file("creating", &dir))?;
        Ok(DiskGroup { dir, device })
    }

    /// Puts a process, and all it forks from now on, into the group.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&self, pid: Pid) -> Result<(), LabError> {
        let file = self.dir.join("cgroup.procs");
        fs::write(&file, pid.as_raw_nonzero().to_string()).map_err(LabError::file("writing", &file))
    }

    /// Limits the group to `iops` writes a second.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn limit_writes(&self, iops: u32) -> Result<(), LabError> {
        let file = self.dir.join("blkio.throttle.write_iops_device");
        fs::write(&file, format!("{} {iops}", self.device))
            .map_err(|e| LabError::unavailable(SLOW_DISK, format!("{}: {e}", file.display())))
    }

    /// Bytes that the group's processes have themselves written to the disk (by syncs and direct
    /// I/O; what the kernel writes back later counts for nobody).
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        let text = fs::read_to_string(self.dir.join("blkio.throttle.io_service_bytes")).ok()?;
        let prefix = format!("{} Write ", self.device);
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        // A group that has written nothing has no line.
        line.map_or(Some(0), |number| number.trim().parse().ok())
    }
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        // A group is removed when its last process has been reaped; one that stays is empty.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// `major:minor` of the disk that holds `path`; of a partition, its disk.
fn whole_disk(path: &Path) -> Option<String> {
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !sys.exists() {
        return None;
    }
    if sys.join("partition").exists() {
        let disk = fs::canonicalize(&sys).ok()?.parent()?.join("dev");
        return Some(fs::read_to_string(disk).ok()?.trim().to_owned());
    }
    Some(format!("{major}:{minor}"))
}

/// Sends everything written to the file system of `dir` to its disk.
///
/// # Errors
/// When it cannot.
pub fn sync(dir: &Path) -> Result<(), LabError> {
    let file = fs::File::open(dir).map_err(LabError::file("opening", dir))?;
    rustix::fs::syncfs(&file).map_err(|e| LabError::file("syncing", dir)(e.into()))
}

/// Reads every file below `dir`, so that the page cache holds them as far as there is room; how
/// many bytes they have.
///
/// # Errors
/// When one cannot be read.
pub fn read_all(dir: &Path) -> Result<u64, LabError> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).map_err(LabError::file("listing", dir))? {
        let path = entry.map_err(LabError::file("listing", dir))?.path();
        if path.is_dir() {
            sum += read_all(&path)?;
        } else if path.is_file() {
            let read = fs::File::open(&path)
                .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
            sum += read.map_err(LabError::file("reading", &path))?;
        }
    }
    Ok(sum)
}

/// Empties the kernel's page cache.
///
/// # Errors
/// When this is not root, or the kernel refuses.
pub fn drop_caches() -> Result<(), LabError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::unavailable("the cold cache", "needs root"));
    }
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|e| LabError::unavailable("the cold cache", e.to_string()))
}

/// Fails when the file system of `dir` has less than `needed` megabytes free.
///
/// # Errors
/// [`LabError::NoSpace`], or that `dir` cannot be looked at.
pub fn require_space(dir: &Path, needed: u64) -> Result<(), LabError> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| LabError::file("looking at", dir)(e.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
    if free < needed {
        return Err(LabError::NoSpace {
            dir: dir.to_owned(),
            needed,
            free,
        });
    }
    Ok(())
}

/// Facts about the machine, for the report.
#[must_use]
pub fn machine(work: &Path) -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut machine = BTreeMap::new();
    let mut put = |name: &str, value: String| {
        if !value.trim().is_empty() {
            machine.insert(name.to_owned(), value.trim().to_owned());
        }
    };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_default();
    put("processor", format!("{processors} × {model}"));
    if let Some(kilobytes) = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
    {
        put("memory", format!("{:.1} GiB", kilobytes / 1_048_576.0));
    }
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put(
        "system",
        field_after(&read("/etc/os-release"), "PRETTY_NAME=").unwrap_or_default(),
    );
    put(
        "file system",
        mount_of(work, &read("/proc/self/mountinfo")).unwrap_or_default(),
    );
    put("other load at the start", read("/proc/loadavg"));
    machine
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn field_after(text: &str, prefix: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
    Some(line.trim_matches('"').to_owned())
}

/// Type, device and options of the mount that holds `dir`.
fn mount_of(dir: &Path, mounts: &str) -> Option<String> {
    let dir = fs::canonicalize(dir).ok()?;
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(point), Some(options)) = (left.get(4), left.get(5)) else {
            continue;
        };
        let ([kind, device, ..], true) = (right.as_slice(), dir.starts_with(point)) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|(length, _)| point.len() >= *length)
        {
            best = Some((point.len(), format!("{kind} on {device} ({options})")));
        }
    }
    best.map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_blkio_hierarchy_the_slow_disk_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let reason = DiskGroup::create_in(dir.path(), dir.path(), "t")
            .unwrap_err()
            .reason();
        assert!(reason.starts_with("the slow disk: "), "{reason}");
        assert!(!reason.contains('\n'));
    }

    #[test]
    fn a_directory_is_read_to_its_last_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("one"), [0; 10]).unwrap();
        fs::write(dir.path().join("below/two"), [0; 7]).unwrap();
        sync(dir.path()).unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), 17);
    }

    #[test]
    fn a_disk_without_room_is_named_with_both_sizes() {
        let dir = tempfile::tempdir().unwrap();
        require_space(dir.path(), 0).unwrap();
        let reason = require_space(dir.path(), u64::MAX >> 20)
            .unwrap_err()
            .reason();
        assert!(reason.contains("MB free, and this needs"), "{reason}");
    }

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      31 27 0:9 / /proc ro,relatime - proc proc rw";
        let root = mount_of(Path::new("/usr"), mounts).unwrap();
        assert_eq!(root, "ext4 on /dev/vda (rw)");
        let proc = mount_of(Path::new("/proc/1"), mounts).unwrap();
        assert_eq!(proc, "proc on proc (ro,relatime)");
    }
}
