//! Other processes, by what `/proc` says of them; see proc(5).

use std::path::{Path, PathBuf};

use crate::transfer::retry;

/// Waits to be delivered, in a mask of signals: SIGKILL, the ninth.
const KILL: u64 = 1 << 8;
/// Flags of a task that is about to be gone: it ends, or a signal ends it. From Linux's
/// `include/linux/sched.h`.
const ENDS: u64 = 0x4 | 0x400;

/// Whether a process that is neither dead nor about to be has a descriptor of the file. One that
/// may not be looked at is taken to have one.
pub(crate) fn has_open(process: u32, path: &Path) -> bool {
    let of = PathBuf::from(format!("/proc/{process}"));
    let Ok(file) = retry(|| rustix::fs::stat(path)) else {
        return true;
    };
    if retry(|| rustix::fs::stat(&of)).is_err() || is_ending(&of) {
        return false;
    }
    let Ok(open) = std::fs::read_dir(of.join("fd")) else {
        return true;
    };
    open.filter_map(Result::ok).any(|open| {
        let open = rustix::fs::stat(open.path());
        open.is_ok_and(|open| (open.st_dev, open.st_ino) == (file.st_dev, file.st_ino))
    })
}

/// Whether the process was killed, or is a zombie: its threads may still be in system calls that
/// cannot be interrupted.
fn is_ending(process: &Path) -> bool {
    let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
    let status = read("status");
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or_default()
    };
    if (mask("SigPnd:") | mask("ShdPnd:")) & KILL != 0 {
        return true;
    }
    let stat = read("stat");
    // Behind the name, which may have anything in it: the state is the third field of all, and
    // the flags are the ninth.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = fields.split_whitespace();
    let state = fields.next().unwrap_or_default();
    let flags: u64 = fields
        .nth(5)
        .and_then(|flags| flags.parse().ok())
        .unwrap_or_default();
    matches!(state, "Z" | "X") || flags & ENDS != 0
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_has_a_file_open_until_it_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        assert!(has_open(std::process::id(), &path));
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::from(file))
            .spawn()
            .unwrap();
        assert!(has_open(child.id(), &path));
        assert!(
            !has_open(std::process::id(), &path),
            "the child alone has it"
        );
        child.kill().unwrap();
        // At once, and as a zombie.
        assert!(!has_open(child.id(), &path));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!has_open(child.id(), &path));
        let id = child.id();
        child.wait().unwrap();
        assert!(!has_open(id, &path));
        assert!(has_open(id, Path::new("/no/such/file")), "unknown");
    }
}
