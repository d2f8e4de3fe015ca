//! Memory that is touched ahead of use.

use std::time::Instant;

use super::*;
use crate::buffer::touch::{CHUNK, LEAST, TouchAhead};
use crate::buffer::{BufferPool, PoolCore};
use crate::ids::FrameId;

/// Frames whose memory the process has, by what the system says of the arena's mapping.
fn touched(pool: &BufferPool) -> usize {
    let first = pool.core().arena().page(FrameId(0)).addr().get();
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let mut is_arena = false;
    for line in maps.lines() {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let bounds = head.split_once('-').and_then(|(from, to)| {
            let parse = |text| usize::from_str_radix(text, 16).ok();
            Some(parse(from)?..parse(to)?)
        });
        match bounds {
            Some(bounds) => is_arena = bounds.contains(&first),
            None if is_arena && head == "Rss:" => {
                let kilobytes = rest.trim().trim_end_matches(" kB").trim();
                return kilobytes.parse::<usize>().expect("a number") * 1024 / PAGE_SIZE;
            }
            None => {}
        }
    }
    panic!("the arena is mapped");
}

fn wait_for(pool: &BufferPool, frames: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while touched(pool) < frames {
        assert!(Instant::now() < deadline, "{} of {frames}", touched(pool));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn write(core: &PoolCore, id: FrameId, byte: u8) {
    // SAFETY: the frame was taken by this test, which alone uses it.
    unsafe { core.arena().page(id).as_mut() }.fill(byte);
}

#[test]
fn as_much_memory_is_touched_as_is_wanted() {
    let (pool, _) = open_pool(&SimDisk::new(30), 2 * LEAST + 77);
    let core = pool.core();
    if std::thread::available_parallelism().is_ok_and(|count| count.get() == 1) {
        let test = "as_much_memory_is_touched_as_is_wanted";
        evenkeel_io::skip(test, "one processor, on which nothing is touched ahead");
        return;
    }
    // Before, and while memory is touched.
    let mut taken: Vec<FrameId> = Vec::new();
    let mut take = |count: usize| {
        for _ in 0..count {
            let id = core.try_take_frame().expect("a free frame");
            write(core, id, id.0 as u8);
            taken.push(id);
        }
    };
    take(CHUNK / 2);
    let touching = TouchAhead::start(core);
    touching.want(LEAST);
    take(LEAST / 2);
    wait_for(&pool, LEAST);
    std::thread::sleep(Duration::from_millis(20));
    assert!(touched(&pool) <= LEAST + CHUNK, "{}", touched(&pool));
    // More than there is: to the end, which is not that of a chunk.
    touching.want(usize::MAX);
    take(LEAST);
    wait_for(&pool, 2 * LEAST + 77);
    drop(touching);
    for id in taken {
        // SAFETY: as for `write`.
        let page = unsafe { core.arena().page(id).as_ref() };
        assert!(page.iter().all(|byte| *byte == id.0 as u8), "{id:?}");
    }
}

#[test]
fn a_small_pool_is_not_touched_ahead() {
    let (pool, _) = open_pool(&SimDisk::new(31), LEAST - 1);
    let touching = TouchAhead::start(pool.core());
    touching.want(LEAST);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(touched(&pool), 0);
}

#[test]
fn touching_ends_when_it_is_no_longer_wanted() {
    let (pool, _) = open_pool(&SimDisk::new(32), 4 * LEAST);
    let core = std::sync::Arc::downgrade(pool.core());
    let touching = TouchAhead::start(pool.core());
    touching.want(usize::MAX);
    drop(touching);
    drop(pool);
    assert!(core.upgrade().is_none());
}
