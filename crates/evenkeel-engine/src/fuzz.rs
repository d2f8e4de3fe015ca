//! Entry points for fuzzing: whatever the bytes are, each returns. The tests call them with
//! damaged copies of what a log really held, the `fuzz` package with libFuzzer's.

use evenkeel_storage::page::{PAGE_SIZE, PageBuf};
use evenkeel_storage::wal::record::FieldReader;
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, FileId, Fork, Lsn, PageId, PartFlags,
};

/// In the place of an operation: the data is an offset (u16) and bytes that the page holds from
/// there on.
pub const DAMAGE: u16 = u16::MAX;

/// Appends a step of [`redo`] to its input.
pub fn push_step(input: &mut Vec<u8>, op: u16, flags: PartFlags, data: &[u8]) {
    input.extend_from_slice(&op.to_le_bytes());
    input.push(flags.0);
    // A part's data is at most a page and some.
    input.extend_from_slice(&(data.len() as u16).to_le_bytes());
    input.extend_from_slice(data);
}

/// Runs redo on one page, beginning with a page of zeroes. `input` is a series of steps
///
/// ```text
/// op u16 | flags u8 | length u16 | data
/// ```
/// each a part of a log record or damage to the page. After each the page is read as a check of
/// the database reads it. Returns how many parts were applied and how many refused.
pub fn redo(input: &[u8]) -> (u32, u32) {
    let mut page = PageBuf::zeroed();
    let mut steps = FieldReader::new(input);
    let (mut applied, mut refused) = (0, 0);
    for lsn in 1.. {
        let Ok((op, flags, data)) = next_step(&mut steps) else {
            break;
        };
        if op == DAMAGE {
            damage(&mut page, data);
            continue;
        }
        if flags.contains(PartFlags::INIT) {
            page.page_mut().zero();
        }
        let page_id = PageId {
            file: FileId(20_000),
            fork: Fork::Main,
            block: BlockNumber(1),
        };
        let lsn = Lsn(lsn * 8);
        let cx = ApplyContext { lsn, page_id };
        match crate::rmgr::redo::apply(op, &mut page.page_mut(), data, &cx) {
            Ok(()) => applied += 1,
            Err(ApplyError(reason)) => {
                assert!(!reason.is_empty());
                refused += 1;
            }
        }
        page.page_mut().set_lsn(lsn);
        let _ = crate::btree::redo::check_node(&page.page_mut());
    }
    crate::rmgr::redo::mask(&mut page.page_mut());
    (applied, refused)
}

fn next_step<'a>(steps: &mut FieldReader<'a>) -> Result<(u16, PartFlags, &'a [u8]), ApplyError> {
    let (op, flags) = (steps.u16()?, PartFlags(steps.u8()?));
    let len = usize::from(steps.u16()?);
    // The last step may be cut short: its data is, too.
    let len = len.min(steps.rest().len());
    Ok((op, flags, steps.take(len)?))
}

fn damage(page: &mut PageBuf, data: &[u8]) {
    if let Some((offset, bytes)) = data.split_first_chunk::<2>() {
        let start = usize::from(u16::from_le_bytes(*offset)) % PAGE_SIZE;
        let end = PAGE_SIZE.min(start + bytes.len());
        page.bytes_mut()[start..end].copy_from_slice(&bytes[..end - start]);
    }
}
