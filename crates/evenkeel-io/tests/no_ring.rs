//! A process that may not use io_uring, as in a container: the refusal is the process's, so its
//! test has a process of its own.

use std::sync::Arc;

use evenkeel_io::{Disk, FileDisk, IoBuf, IoMethod, IoOp, OpenOptions};

/// Has the kernel refuse `io_uring_setup` to this thread and those that it starts, as the filters
/// of containers do.
fn forbid_rings(errno: i32) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The number of a system call is the first word of what a filter is shown.
    let mut filter = [
        step(load, 0, 0, 0),
        step(compare, 0, 1, libc::SYS_io_uring_setup as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the call takes numbers only.
    let forgone = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program is valid and lives until the call has read it.
    let set = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(
        (forgone, set),
        (0, 0),
        "{}",
        std::io::Error::last_os_error()
    );
}

fn has_rings() -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
        .any(|target| target.to_string_lossy().contains("io_uring"))
}

#[test]
fn a_process_that_may_not_use_rings_reads_all_the_same() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let refused = std::thread::spawn(move || {
            forbid_rings(errno);
            let dir = tempfile::tempdir().unwrap();
            let disk = FileDisk::new(IoMethod::IoUring { threads: 2 });
            assert!(!has_rings(), "made all the same");
            let path = dir.path().join("file");
            let file = disk.open(&path, OpenOptions::create()).unwrap();
            file.write_all_at(&[3; 5000], 0).unwrap();
            let mut queue = disk.queue(4);
            let read = |tag| IoOp::read(Arc::clone(&file), 0, vec![IoBuf::zeroed(5000)], tag);
            queue.submit((0..30).map(read).collect());
            let mut done = Vec::new();
            queue.wait(30, &mut done);
            assert_eq!(done.len(), 30);
            assert!(done.iter().all(|done| done.op.bufs[0][..] == [3; 5000]));
        });
        refused.join().unwrap();
    }
}
