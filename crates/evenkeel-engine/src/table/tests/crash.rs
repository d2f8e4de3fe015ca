//! What a table is after a crash.

use super::*;
use crate::table::InsertOptions;
use evenkeel_storage::BlockNumber;

fn change(f: &Fixture, round: usize) {
    f.commit(|txn| {
        for n in 0..20 {
            let key = format!("{:03}", (round * 7 + n * 3) % 100);
            let row = format!("{key}:{}", "r".repeat(50 + round * 5 % 200));
            txn.begin_statement().unwrap();
            match f.find(txn, key.as_bytes()) {
                None => {
                    f.insert(txn, &row).unwrap();
                }
                Some((tid, _)) if (round + n).is_multiple_of(9) => {
                    f.delete(txn, tid).unwrap();
                }
                Some((tid, _)) => {
                    f.update(txn, tid, &row).unwrap();
                }
            }
        }
    });
}

#[test]
fn committed_rows_survive_and_others_do_not() {
    let f = Fixture::new(2);
    for round in 0..30 {
        change(&f, round);
        if round % 10 == 5 {
            f.vacuum(&VacuumOptions {
                freeze: true,
                ..VacuumOptions::default()
            });
        }
    }
    let expected = f.committed();
    let mut lost = f.begin();
    f.insert(&mut lost, "lost:1").unwrap();
    f.db.store().log().flush_all().unwrap();
    for seed in 0..4 {
        let image = f.disk.crash(seed);
        let g = f.reopened(image);
        assert_eq!(g.committed(), expected, "seed {seed}");
        g.assert_sound();
        // The free-space map may be lost; inserts and vacuum find their way.
        for round in 30..40 {
            change(&g, round);
        }
        g.vacuum(&VacuumOptions::default());
        g.assert_sound();
    }
}

#[test]
fn redo_gives_the_pages_the_forward_path_made() {
    let f = Fixture::new(1);
    let mut rows = RowBatch::new();
    for n in 0..500 {
        rows.push(
            Tid::new(BlockNumber(0), 0),
            format!("{:03}:start", n % 1000).as_bytes(),
        );
    }
    f.commit(|txn| {
        block_on(f.table.insert_many(txn, &rows, &InsertOptions::default())).unwrap();
    });
    for round in 0..20 {
        change(&f, round);
    }
    f.vacuum(&VacuumOptions::default());
    f.db.store().log().flush_all().unwrap();
    let g = f.reopened(f.disk.crash(3));
    assert_eq!(g.table.blocks(), f.table.blocks());
    for block in (0..f.table.blocks()).map(BlockNumber) {
        let (a, b) = (
            f.table.heap().write(block).unwrap(),
            g.table.heap().write(block).unwrap(),
        );
        let (a, b) = (without_hints(a.bytes()), without_hints(b.bytes()));
        let differs = (0..a.len()).find(|at| a[*at] != b[*at]);
        assert_eq!(differs, None, "block {block}");
    }
}

/// The page without what is not logged.
fn without_hints(page: &[u8; 8192]) -> Vec<u8> {
    use evenkeel_storage::page::PageBuf;
    let mut copy = PageBuf::zeroed();
    copy.bytes_mut().copy_from_slice(page);
    copy.bytes_mut()[..4].fill(0);
    crate::heap::layout::mask_unlogged(&mut copy.page_mut());
    copy.bytes().to_vec()
}
