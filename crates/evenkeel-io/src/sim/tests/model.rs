//! Random operations against a plain model of one file.

use super::*;
use crate::error::OpKind;
use crate::sim::rng::Rng;

const SECTOR: usize = 512;

/// Contents that a file may have: the one now, and every one since the last successful sync.
struct Model {
    now: Vec<u8>,
    possible: Vec<Vec<u8>>,
}

impl Model {
    fn changed(&mut self) {
        self.possible.push(self.now.clone());
    }

    fn step(&mut self, rng: &mut Rng, disk: &SimDisk, file: &dyn File) {
        let offset = rng.index(12_000);
        let len = 1 + rng.index(6_000);
        match rng.below(12) {
            0..6 => {
                let bytes: Vec<u8> = (0..len).map(|_| 1 + rng.next_u64() as u8 % 255).collect();
                file.write_all_at(&bytes, offset as u64).unwrap();
                self.now.resize(self.now.len().max(offset + len), 0);
                self.now[offset..offset + len].copy_from_slice(&bytes);
            }
            6 => {
                file.set_len(offset as u64).unwrap();
                self.now.resize(offset, 0);
            }
            7 => {
                file.allocate(offset as u64, len as u64).unwrap();
                self.now.resize(self.now.len().max(offset + len), 0);
            }
            8 => {
                disk.inject(Fault::nth(1, FaultKind::Short).on(OpKind::Read));
            }
            _ => {
                file.sync_data().unwrap();
                self.possible.clear();
            }
        }
        self.changed();
    }

    /// Whether a sector of an image is one of those that were there since the last sync.
    fn allows(&self, image: &[u8]) -> bool {
        let lengths: Vec<usize> = self.possible.iter().map(Vec::len).collect();
        let sector_of = |content: &[u8], at: usize, len: usize| {
            let mut sector = vec![0; len];
            let from = at.min(content.len());
            let to = (at + len).min(content.len());
            sector[..to - from].copy_from_slice(&content[from..to]);
            sector
        };
        lengths.contains(&image.len())
            && image.chunks(SECTOR).enumerate().all(|(number, sector)| {
                let at = number * SECTOR;
                self.possible
                    .iter()
                    .any(|content| sector_of(content, at, sector.len()) == sector)
            })
    }
}

#[test]
fn reads_are_exact_and_images_hold_only_what_was_written() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = disk();
        let file = durable(&disk, "d/f", &[]);
        let mut model = Model {
            now: Vec::new(),
            possible: vec![Vec::new()],
        };
        for step in 0..60 {
            model.step(&mut rng, &disk, &*file);
            assert_eq!(content(&disk, "d/f"), model.now, "seed {seed}, step {step}");
            assert_eq!(
                direct_content(&disk, "d/f"),
                model.now,
                "seed {seed}, step {step}"
            );
            for outcome in Outcome::ALL {
                let image = content(&disk.crash_with(outcome, rng.next_u64()), "d/f");
                assert!(
                    model.allows(&image),
                    "seed {seed}, step {step}, {outcome:?}"
                );
            }
        }
        let settled = disk.crash_with(Outcome::Everything, 0);
        assert_eq!(content(&settled, "d/f"), model.now, "seed {seed}");
    }
}

#[test]
fn after_failed_syncs_the_disk_still_holds_only_what_was_synced() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = disk();
        let file = durable(&disk, "d/f", &[0xFF; 20_000]);
        let mut cached = vec![0xFF; 20_000];
        for step in 0..40u8 {
            let block = rng.index(4);
            let bytes = [step; 4096];
            file.write_all_at(&bytes, (block * 4096) as u64).unwrap();
            cached[block * 4096..][..4096].copy_from_slice(&bytes);
            if rng.chance(2) {
                disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::SyncData));
                file.sync_data().unwrap_err();
            } else if rng.chance(2) {
                file.sync_data().unwrap();
            }
            assert_eq!(content(&disk, "d/f"), cached, "seed {seed}, step {step}");
            // With all that is unsynced, a crash leaves what a direct read finds.
            let image = disk.crash_with(Outcome::Everything, 0);
            assert_eq!(
                content(&image, "d/f"),
                direct_content(&disk, "d/f"),
                "seed {seed}"
            );
            let dropped = disk.process_crash();
            dropped.drop_caches();
            assert_eq!(
                content(&dropped, "d/f"),
                direct_content(&disk, "d/f"),
                "seed {seed}"
            );
        }
    }
}
