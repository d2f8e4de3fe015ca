//! Small files that a crash leaves whole or not at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::IoResult;
use crate::file::OpenOptions;

/// Writes a file that has all of `bytes` or, should the process or the machine stop on the way,
/// what was there before. It is durable when this returns.
///
/// # Errors
/// Those of the disk; the file is then as it was.
pub fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> IoResult<()> {
    let temporary = temporary(path);
    let file = disk.open(&temporary, OpenOptions::create().truncate())?;
    let named = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.sync_all())
        .and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = named {
        // The space counts more than the reason why removing it might fail too.
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
}

/// A name beside the file, hidden, which means nothing.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}
