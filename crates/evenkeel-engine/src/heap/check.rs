//! The structure of a heap page: what a check of the database names as damage, what redo keeps,
//! and what an operation leaves behind.

use evenkeel_storage::page::{PAGE_SIZE, PageRead};

use super::layout::*;

/// Verifies the bounds of the header, that tuples lie where they may, and that none overlap. Redo
/// keeps this whatever a part says.
pub fn check_bounds(page: &impl PageRead) -> Result<(), String> {
    let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
    if lower < LINE_POINTERS || lower > upper || upper > PAGE_SIZE {
        return Err(format!("bounds {lower} and {upper}"));
    }
    let mut spans = Vec::new();
    for slot in 1..=page.slots() {
        if page.line_pointer(slot).state != LpState::Normal {
            continue;
        }
        let Some((offset, length)) = page.tuple_at(slot) else {
            return Err(format!("slot {slot} points outside the page"));
        };
        if offset < upper {
            return Err(format!("slot {slot} points below the tuples"));
        }
        spans.push((offset, offset + length, slot));
    }
    spans.sort_unstable();
    match spans.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(format!("slots {} and {} overlap", pair[0].2, pair[1].2)),
        None => Ok(()),
    }
}

/// Verifies line pointers and that tuples lie where they may, without overlap.
pub fn check_layout(page: &impl PageRead) -> Result<(), String> {
    check_bounds(page)?;
    let mut unused = 0;
    for slot in 1..=page.slots() {
        let lp = page.line_pointer(slot);
        match lp.state {
            LpState::Redirect if lp.offset == 0 || lp.offset > page.slots() => {
                return Err(format!("slot {slot} redirects to slot {}", lp.offset));
            }
            LpState::Unused => unused += 1,
            LpState::Normal | LpState::Redirect | LpState::Dead => {}
        }
    }
    if usize::from(page.u16_at(SPARE)) != unused {
        return Err(format!(
            "{} unused slots counted, {unused} there",
            page.u16_at(SPARE)
        ));
    }
    Ok(())
}

/// Whether a page was sound before a change: one that was damaged already is no fault of the
/// change. Known in builds with debug assertions alone.
#[derive(Clone, Copy)]
pub(crate) struct Sound(bool);

impl Sound {
    /// Looks at the page before the change.
    #[inline]
    pub(crate) fn before(page: &impl PageRead) -> Sound {
        Sound(cfg!(debug_assertions) && (page.is_new() || is_sound(page)))
    }

    /// Asserts that the change has left a sound page.
    #[inline]
    pub(crate) fn assert_after(self, page: &impl PageRead) {
        debug_assert!(
            !self.0 || is_sound(page),
            "a change spoiled a heap page: {:?}",
            check_layout(page)
        );
    }
}

fn is_sound(page: &impl PageRead) -> bool {
    page.is_heap() && check_layout(page).is_ok()
}
