use super::*;

const MIB: usize = 1 << 20;

#[test]
fn a_session_that_passes_its_budget_is_refused_and_keeps_what_it_has() {
    let server = ServerMemory::new(64 * MIB);
    let session = server.session(4 * MIB);
    let mut held = Reservation::of(&session, 3 * MIB).unwrap();
    let error = held.grow(2 * MIB).unwrap_err();
    assert_eq!((error.budget, error.limit), (SESSION_BUDGET, 4 * MIB));
    assert_eq!(error.requested, 2 * MIB);
    assert_eq!((held.bytes(), session.used()), (3 * MIB, 3 * MIB));
    drop(held);
    assert_eq!(session.used(), 0);
    Reservation::of(&session, 4 * MIB).unwrap();
}

#[test]
fn a_large_session_leaves_the_last_of_the_servers_budget_to_small_ones() {
    let server = ServerMemory::new(64 * MIB);
    let (large, small) = (server.session(64 * MIB), server.session(64 * MIB));
    let mut hog = Reservation::new(&large);
    let error = loop {
        if let Err(error) = hog.grow(MIB) {
            break error;
        }
    };
    assert_eq!(error.budget, SERVER_BUDGET);
    assert!(hog.bytes() >= 55 * MIB, "{}", hog.bytes());
    let mut others = Reservation::new(&small);
    for _ in 0..3 {
        others.grow(MIB).unwrap();
    }
    assert!(others.grow(8 * MIB).is_err());
}

#[test]
fn a_session_gives_everything_back_when_it_ends() {
    let server = ServerMemory::new(64 * MIB);
    for _ in 0..100 {
        let session = server.session(usize::MAX);
        let _held = Reservation::of(&session, 40 * MIB).unwrap();
        session.reserve(100).unwrap();
    }
    assert_eq!(server.drawn(), 0);
}

#[test]
fn a_reservation_follows_what_it_stands_for_in_steps() {
    let server = ServerMemory::new(64 * MIB);
    let session = server.session(usize::MAX);
    let mut rows = Reservation::new(&session);
    for _ in 0..80 {
        rows.grow(100).unwrap();
    }
    assert_eq!((session.used(), server.drawn()), (0, 0));
    for _ in 0..10_000 {
        rows.grow(100).unwrap();
    }
    assert_eq!(rows.bytes(), 1_008_000);
    assert!(session.used() + LAG >= rows.bytes());
    assert!(server.drawn() < rows.bytes() + 2 * DRAWN_AT_ONCE);
    rows.shrink(1_000_000);
    assert!(session.used() <= rows.bytes() + LAG);
    assert!(server.drawn() <= 2 * DRAWN_AT_ONCE);
}

#[test]
fn numbers_that_no_memory_has_are_refused() {
    let server = ServerMemory::new(64 * MIB);
    let session = server.session(usize::MAX);
    let mut held = Reservation::of(&session, MIB).unwrap();
    assert!(held.grow(usize::MAX).is_err());
    assert!(session.reserve(usize::MAX - 10).is_err());
    assert_eq!(session.used(), MIB);
}
