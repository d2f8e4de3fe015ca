//! One test or more for each of the README's rules about the simulated disk.

mod content;
mod examples;
mod faults;
mod images;
mod model;
mod names;
mod time;

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::disk::Disk;
use crate::file::{File, OpenOptions};

/// A disk with the durable directory `d`.
fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("d")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    disk
}

fn open(disk: &SimDisk, path: &str) -> Arc<dyn File> {
    disk.open(Path::new(path), OpenOptions::create()).unwrap()
}

/// A file whose entry and content are durable.
fn durable(disk: &SimDisk, path: &str, content: &[u8]) -> Arc<dyn File> {
    let file = open(disk, path);
    file.write_all_at(content, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    file
}

fn exists(disk: &SimDisk, path: &str) -> bool {
    disk.exists(Path::new(path)).unwrap()
}

fn content(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk
        .open(Path::new(path), OpenOptions::read_only())
        .unwrap();
    let mut bytes = vec![0xAA; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The content that a direct read finds in a file, whose length is rounded up to whole blocks.
fn direct_content(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk
        .open(Path::new(path), OpenOptions::read_only().direct(true))
        .unwrap();
    let len = usize::try_from(file.len().unwrap()).unwrap();
    let mut buf = crate::AlignedBuf::zeroed(len.next_multiple_of(4096));
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), len);
    buf[..len].to_vec()
}
