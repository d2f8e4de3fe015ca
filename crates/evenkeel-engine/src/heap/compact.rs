//! Moving the tuples of a page together.

use evenkeel_storage::ApplyError;
use evenkeel_storage::page::{PAGE_SIZE, PageMut, PageRead};
use smallvec::{SmallVec, smallvec};

use super::layout::*;

/// Offset and length of tuple space that no line pointer leads to; the length is a multiple of 8.
type Hole = (usize, usize);

/// Tuple spaces that are given up.
pub(super) type Holes = SmallVec<[Hole; 8]>;

/// The tuple spaces of those slots that have one.
pub(super) fn spaces(page: &impl PageRead, slots: impl Iterator<Item = u16>) -> Holes {
    let extents = slots.filter_map(|slot| page.tuple_at(slot));
    extents
        .map(|(offset, length)| (offset, align8(length)))
        .collect()
}

/// Slides the tuples to the page's end, in the order in which they lie, and fills the space that
/// they leave with zeroes. `freed`: the holes that the caller has made, which are all that most
/// pages have. Others are found by a sort of the tuples.
///
/// # Errors
/// When tuples overlap, or lie outside the page's tuple space.
pub(super) fn compact(page: &mut PageMut<'_>, mut freed: Holes) -> Result<(), ApplyError> {
    let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
    if !(LINE_POINTERS..=upper).contains(&lower) || upper > PAGE_SIZE {
        return refuse(format!("bounds {lower} and {upper} of the page's tuples"));
    }
    let live = space_of_tuples(pointers(page), upper)?;
    let known: usize = freed.iter().map(|(_, length)| length).sum();
    if live + known != PAGE_SIZE - upper {
        freed = find_holes(pointers(page), upper)?;
    }
    close(page, &mut freed, upper);
    Ok(())
}

/// The words of the line pointers.
fn pointers<'p>(page: &'p PageMut<'_>) -> &'p [u8] {
    let end = LINE_POINTERS + usize::from(page.slots()) * LINE_POINTER_SIZE;
    &page.bytes()[LINE_POINTERS..end]
}

fn words(pointers: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let words = pointers.chunks_exact(LINE_POINTER_SIZE);
    words.map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// The space that tuples take, which all lie between `upper` and the page's end. Without branches:
/// it is asked at every pruning, in redo as well.
fn space_of_tuples(pointers: &[u8], upper: usize) -> Result<usize, ApplyError> {
    let (mut sum, mut first, mut end, mut faults) = (0, u32::MAX, 0, 0);
    for word in words(pointers) {
        let lp = LinePointer::decode(word);
        let is_tuple = u32::from(lp.state == LpState::Normal);
        let (offset, length) = (u32::from(lp.offset), u32::from(lp.length));
        let size = (length + 7) & !7;
        sum += is_tuple * size;
        end = end.max(is_tuple * (offset + size));
        first = first.min(offset | is_tuple.wrapping_sub(1));
        faults |= is_tuple & u32::from(offset % 8 != 0 || length < TUPLE_HEADER as u32);
    }
    if faults != 0 || (first as usize) < upper || end as usize > PAGE_SIZE {
        return refuse(format!("a tuple outside {upper} to {PAGE_SIZE}"));
    }
    Ok(sum as usize)
}

/// The holes between tuples, all of which lie between `upper` and the page's end.
fn find_holes(pointers: &[u8], upper: usize) -> Result<Holes, ApplyError> {
    let tuples = words(pointers).filter_map(|word| LinePointer::decode(word).tuple_space());
    let mut tuples: SmallVec<[Hole; 256]> = tuples.collect();
    tuples.sort_unstable();
    let mut holes: Holes = smallvec![];
    let mut end = upper;
    for (offset, size) in tuples {
        match offset.checked_sub(end) {
            Some(0) => {}
            Some(hole) => holes.push((end, hole)),
            None => return refuse(format!("the tuple at {offset} overlaps another")),
        }
        end = offset + size;
    }
    if end < PAGE_SIZE {
        holes.push((end, PAGE_SIZE - end));
    }
    Ok(holes)
}

/// Closes holes, which lie between `upper` and the page's end and do not overlap.
fn close(page: &mut PageMut<'_>, holes: &mut Holes, upper: usize) {
    holes.sort_unstable();
    let slots = usize::from(page.slots());
    let end = LINE_POINTERS + slots * LINE_POINTER_SIZE;
    for &(hole, length) in holes.iter() {
        // In ascending order: a tuple below one hole stays below the next.
        for pointer in page.bytes_mut()[LINE_POINTERS..end].chunks_exact_mut(LINE_POINTER_SIZE) {
            let word = u32::from_le_bytes([pointer[0], pointer[1], pointer[2], pointer[3]]);
            let lp = LinePointer::decode(word);
            let moves = lp.state == LpState::Normal && usize::from(lp.offset) < hole;
            // The offset is in the lowest bits, and has room for what is below PAGE_SIZE.
            let moved = word + u32::from(moves) * length as u32;
            pointer.copy_from_slice(&moved.to_le_bytes());
        }
    }
    let mut shift = 0;
    for at in (0..holes.len()).rev() {
        let (hole, length) = holes[at];
        shift += length;
        let below = at.checked_sub(1).map(|below| holes[below]);
        let start = below.map_or(upper, |(below, length)| below + length);
        page.bytes_mut().copy_within(start..hole, start + shift);
    }
    page.bytes_mut()[upper..upper + shift].fill(0);
    page.set_upper((upper + shift) as u16);
}

fn refuse<T>(reason: String) -> Result<T, ApplyError> {
    Err(ApplyError::new(reason))
}

#[cfg(test)]
mod tests {
    use evenkeel_storage::page::PageBuf;

    use super::*;

    /// A page of these tuples, each filled with the number of its slot.
    fn page_of(tuples: &[(usize, usize)]) -> PageBuf {
        let mut page = PageBuf::zeroed();
        let mut bytes = page.page_mut();
        init(&mut bytes);
        bytes.set_lower((LINE_POINTERS + tuples.len() * LINE_POINTER_SIZE) as u16);
        let mut upper = PAGE_SIZE;
        for (slot, &(offset, length)) in (1..).zip(tuples) {
            let lp = LinePointer::normal(offset as u16, length as u16);
            put_line_pointer(&mut bytes, slot, lp);
            bytes.bytes_mut()[offset..offset + align8(length)].fill(slot as u8);
            upper = upper.min(offset);
        }
        bytes.set_upper(upper as u16);
        page
    }

    /// Tuples in an order of their own, one below the other.
    fn tuples(order: [usize; 8]) -> Vec<(usize, usize)> {
        let lengths = [40, 33, 64, 120, 29, 500, 48, 31];
        let mut tuples = vec![(0, 0); lengths.len()];
        let mut end = PAGE_SIZE;
        for slot in order {
            end -= align8(lengths[slot]);
            tuples[slot] = (end, lengths[slot]);
        }
        tuples
    }

    const ORDERS: [[usize; 8]; 3] = [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [7, 6, 5, 4, 3, 2, 1, 0],
        [3, 0, 7, 1, 5, 2, 6, 4],
    ];

    #[test]
    fn known_holes_and_holes_that_are_found_give_the_same_page() {
        for order in ORDERS {
            for gone in 0_u32..256 {
                let slots = || (1..=8).filter(|slot| gone >> (slot - 1) & 1 == 1);
                let mut page = page_of(&tuples(order));
                let freed = spaces(&page.page_mut(), slots());
                for slot in slots() {
                    put_line_pointer(&mut page.page_mut(), slot, LinePointer::UNUSED);
                }
                let (mut known, mut found) = (page.clone(), page);
                compact(&mut known.page_mut(), freed).unwrap();
                compact(&mut found.page_mut(), Holes::new()).unwrap();
                assert!(known.bytes() == found.bytes(), "{order:?}, {gone:b}");
                let page = known.page_mut();
                let mut end = PAGE_SIZE;
                for slot in order.iter().map(|slot| *slot as u16 + 1) {
                    let Some((offset, length)) = page.tuple_at(slot) else {
                        assert!(slots().any(|gone| gone == slot));
                        continue;
                    };
                    assert_eq!(
                        offset + align8(length),
                        end,
                        "in the order in which they lay"
                    );
                    let bytes = page.slice(offset..offset + length);
                    assert!(bytes.iter().all(|byte| *byte == slot as u8));
                    end = offset;
                }
                assert_eq!(usize::from(page.upper()), end);
                let free = page.slice(usize::from(page.lower())..end);
                assert!(free.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn pages_that_are_not_sound_are_refused_and_left_alone() {
        let sound = tuples(ORDERS[0]);
        let refused = |change: &dyn Fn(&mut PageMut<'_>)| {
            let mut page = page_of(&sound);
            change(&mut page.page_mut());
            let before = page.clone();
            let result = compact(&mut page.page_mut(), Holes::new());
            assert!(before.bytes() == page.bytes());
            result.is_err()
        };
        assert!(!refused(&|_| ()));
        let pointer = |offset, length| {
            move |page: &mut PageMut<'_>| {
                put_line_pointer(page, 3, LinePointer::normal(offset, length));
            }
        };
        assert!(refused(&pointer(sound[1].0 as u16, 40)), "overlapping");
        assert!(refused(&pointer(8160, 64)), "beyond the end");
        assert!(refused(&pointer(64, 64)), "below upper");
        assert!(refused(&pointer(8004, 64)), "not aligned");
        assert!(refused(&pointer(8000, 3)), "too short");
        assert!(refused(&|page| page.set_upper(16)), "upper below lower");
        assert!(refused(&|page| page.set_lower(8000)), "lower above upper");
    }
}
