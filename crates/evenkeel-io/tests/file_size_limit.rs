//! A limit of file sizes, which the system enforces by a signal unless that is ignored. In a
//! process of its own: the limit is the whole process's.

use evenkeel_io::{Disk, FileDisk, IoErrorKind, IoMethod, OpenOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_file_that_grows_beyond_the_limit_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(IoMethod::Sync);
    let path = dir.path().join("file");
    let file = disk.open(&path, OpenOptions::create_new()).unwrap();
    let usual = getrlimit(Resource::Fsize);
    let low = Rlimit {
        current: Some(8192),
        ..usual
    };
    setrlimit(Resource::Fsize, low).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    let refused = [file.allocate(0, 8193), file.write_all_at(&[1; 1], 8192)];
    // The limit would apply to the test's output as well, which may go to a file.
    setrlimit(Resource::Fsize, usual).unwrap();
    for error in refused {
        assert_eq!(error.unwrap_err().kind(), IoErrorKind::NoSpace);
    }
}
