//! Rows with large values: which of them are compressed, and which go outside of the row.
//!
//! The order is that of PostgreSQL's `heap_toast_insert_or_update`: until the row is short enough
//! its longest values are compressed, then moved out, and those that should stay in the row are
//! compressed last and moved out only if the row fits no page otherwise.

use std::ops::Range;

use smallvec::SmallVec;

use super::tagged::{EXTERNAL_BYTES, MAX_VALUE, compressed, too_long};
use super::{END_SLOT, End, External, HAS_NULLS, HAS_TAGS, HEADER, Stored, fixed_width};
use crate::error::{TypeError, TypeResult};
use crate::identity::SqlType;

/// Rows that are longer have their long values compressed and moved out (PostgreSQL's
/// `TOAST_TUPLE_TARGET`).
pub const ROW_TARGET: usize = 2032;

/// The ways in which a column's values may be made to take less of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// Nothing.
    Plain,
    /// They are compressed, and moved out only if the row fits no page otherwise.
    Main,
    /// Both.
    #[default]
    Extended,
}

impl Storage {
    /// That of a type's columns, unless they say otherwise.
    pub fn of(ty: SqlType) -> Storage {
        match ty {
            SqlType::Numeric(_) => Storage::Main,
            _ if ty == SqlType::Name || ty.is_vector() || fixed_width(ty).is_some() => {
                Storage::Plain
            }
            _ => Storage::Extended,
        }
    }
}

#[derive(Debug)]
enum Form {
    /// These bytes of the row's values.
    Plain(Range<usize>),
    Compressed {
        raw: u32,
        block: Vec<u8>,
    },
    External(External),
}

/// A value of variable length.
#[derive(Debug)]
pub(super) struct Piece {
    /// Its number in bitmaps.
    pub number: usize,
    /// Its slot's offset.
    pub slot: usize,
    /// The ways in which it may be made to take less.
    pub storage: Storage,
    /// Whether keys of an index are made of it.
    pub indexed: bool,
    form: Form,
    /// Compressing it has not helped.
    incompressible: bool,
}

impl Piece {
    pub fn plain(end: &End, start: usize, indexed: &[usize]) -> Piece {
        Piece {
            number: end.number,
            slot: end.slot,
            storage: end.storage,
            indexed: indexed.contains(&end.column),
            form: Form::Plain(start..end.end),
            incompressible: false,
        }
    }

    /// A value that stays as it is in another version of the row.
    pub fn kept(&mut self, stored: Stored<'_>, values: &mut Vec<u8>) {
        self.form = match stored {
            Stored::Plain(bytes) => {
                let start = values.len();
                values.extend_from_slice(bytes);
                Form::Plain(start..values.len())
            }
            Stored::Compressed { raw, block } => Form::Compressed {
                raw,
                block: block.to_vec(),
            },
            Stored::External(external) => Form::External(external),
        };
    }
}

/// A row on its way into a table: its long values are not settled yet.
#[derive(Debug)]
pub struct LargeRow {
    /// Header, slots and the bitmap of NULLs, then the plain values.
    bytes: Vec<u8>,
    slots_end: usize,
    values_start: usize,
    /// The columns that the header counts.
    columns: usize,
    pieces: SmallVec<[Piece; 4]>,
}

/// The step of making a row shorter.
#[derive(Debug, Clone, Copy)]
enum Pass {
    Compress,
    Move,
    CompressMain,
    /// Anything that is left and in no index, as the row fits no page.
    MoveRest,
    /// Values of indexes that no key can hold, as the row still fits no page.
    MoveKeys,
}

impl LargeRow {
    pub(super) fn new(
        bytes: Vec<u8>,
        (slots_end, values_start): (usize, usize),
        columns: usize,
        pieces: SmallVec<[Piece; 4]>,
    ) -> LargeRow {
        LargeRow {
            bytes,
            slots_end,
            values_start,
            columns,
            pieces,
        }
    }

    /// Bytes of the values, for the memory budget.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn stored<'r>(&'r self, piece: &'r Piece) -> Stored<'r> {
        match &piece.form {
            Form::Plain(range) => Stored::Plain(self.bytes.get(range.clone()).unwrap_or_default()),
            Form::Compressed { raw, block } => Stored::Compressed { raw: *raw, block },
            Form::External(external) => Stored::External(*external),
        }
    }

    fn len(&self) -> usize {
        let stored = self.pieces.iter().map(|piece| self.stored(piece));
        let tagged = self.is_tagged();
        let values: usize = stored.map(|stored| stored.row_len()).sum();
        let bitmap = if tagged { self.columns.div_ceil(8) } else { 0 };
        self.values_start + bitmap + values
    }

    fn is_tagged(&self) -> bool {
        let mut forms = self.pieces.iter().map(|piece| &piece.form);
        forms.any(|form| !matches!(form, Form::Plain(_)))
    }

    /// The next value that a pass is to do something to: the longest.
    fn next(&self, pass: Pass, longest_key: usize) -> Option<usize> {
        let wanted = |piece: &Piece| {
            let storage = piece.storage;
            let plain = matches!(piece.form, Form::Plain(_));
            let inside = !matches!(piece.form, Form::External(_));
            let stored = self.stored(piece);
            let movable = inside && stored.row_len() > EXTERNAL_BYTES && storage != Storage::Plain;
            match pass {
                Pass::Compress => plain && !piece.incompressible && storage == Storage::Extended,
                // A value that an index may have to hold stays in, if it can.
                Pass::Move => {
                    let short = piece.indexed || stored.raw_len() <= longest_key;
                    movable && storage != Storage::Main && !short
                }
                Pass::CompressMain => plain && !piece.incompressible && storage == Storage::Main,
                Pass::MoveRest => movable && !piece.indexed,
                Pass::MoveKeys => movable && stored.raw_len() > longest_key,
            }
        };
        let pieces = self.pieces.iter().enumerate();
        let wanted = pieces.filter(|(_, piece)| wanted(piece));
        let longest = wanted.max_by_key(|(_, piece)| self.stored(piece).row_len());
        longest
            .filter(|(_, piece)| self.stored(piece).row_len() > EXTERNAL_BYTES)
            .map(|(at, _)| at)
    }

    /// The values that are to be moved out until the row has at most `most` bytes: compresses, and
    /// hands the next one over, which [`LargeRow::moved`] then answers. None: the row is as short
    /// as it can be. Values that a key of `longest_key` bytes can hold stay inside as long as the
    /// row fits, those of indexes in any case: an index's key is made of the row alone. Longer ones
    /// of indexes stay as long as the row fits.
    ///
    /// # Errors
    /// 54000 for a value that is too long.
    pub fn next_to_move(&mut self, most: usize, longest_key: usize) -> TypeResult<Option<ToMove>> {
        for piece in &self.pieces {
            let length = self.stored(piece).raw_len();
            if length > MAX_VALUE {
                return Err(too_long(length));
            }
        }
        let passes = [
            (Pass::Compress, ROW_TARGET),
            (Pass::Move, ROW_TARGET),
            (Pass::CompressMain, ROW_TARGET),
            (Pass::MoveRest, most),
            (Pass::MoveKeys, most),
        ];
        for (pass, target) in passes {
            while self.len() > target.min(most) {
                let Some(at) = self.next(pass, longest_key) else {
                    break;
                };
                match pass {
                    Pass::Compress | Pass::CompressMain => self.compress(at)?,
                    Pass::Move | Pass::MoveRest | Pass::MoveKeys => return Ok(Some(ToMove(at))),
                }
            }
        }
        Ok(None)
    }

    fn compress(&mut self, at: usize) -> TypeResult<()> {
        let stored = self.pieces.get(at).map(|piece| self.stored(piece));
        let Some(Stored::Plain(bytes)) = stored else {
            return Err(TypeError::internal("a value that is no longer plain"));
        };
        let form = compressed(bytes).map(|block| Form::Compressed {
            raw: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            block,
        });
        let piece = &mut self.pieces[at];
        match form {
            Some(form) => piece.form = form,
            None => piece.incompressible = true,
        }
        Ok(())
    }

    /// The bytes that are to be kept outside.
    pub fn to_move(&self, at: &ToMove) -> &[u8] {
        match self.pieces.get(at.0).map(|piece| self.stored(piece)) {
            Some(Stored::Plain(bytes) | Stored::Compressed { block: bytes, .. }) => bytes,
            _ => &[],
        }
    }

    /// The value is kept outside under this id.
    pub fn moved(&mut self, at: &ToMove, id: u64) {
        let Some(piece) = self.pieces.get(at.0) else {
            return;
        };
        let stored = self.stored(piece);
        let kept = self.to_move(at).len();
        let external = External {
            id,
            // Both are below `MAX_VALUE`.
            stored: kept as u32,
            raw: stored.raw_len() as u32,
            compressed: matches!(stored, Stored::Compressed { .. }),
        };
        self.pieces[at.0].form = Form::External(external);
    }

    /// The row's bytes.
    ///
    /// # Errors
    /// 54000 if it is too long for one.
    pub fn finish(&self, out: &mut Vec<u8>) -> TypeResult<()> {
        out.clear();
        out.reserve(self.len());
        out.extend_from_slice(self.bytes.get(..self.values_start).unwrap_or_default());
        if self.is_tagged() {
            let bitmap = out.len();
            out.resize(bitmap + self.columns.div_ceil(8), 0);
            for piece in &self.pieces {
                if !matches!(piece.form, Form::Plain(_)) {
                    out[bitmap + piece.number / 8] |= 1 << (piece.number % 8);
                }
            }
            out[HEADER - 1] |= (HAS_TAGS >> 8) as u8;
        }
        debug_assert_eq!(
            out[HEADER - 1] & (HAS_NULLS >> 8) as u8 != 0,
            self.values_start > self.slots_end,
            "a bitmap of NULLs without its bit"
        );
        let values_start = out.len();
        for piece in &self.pieces {
            self.stored(piece).put(out);
            let end = out.len() - values_start;
            super::put_end(out, piece.slot, end)?;
        }
        debug_assert!(END_SLOT <= self.slots_end, "slots without room");
        Ok(())
    }
}

/// A value that is to be moved out of its row.
#[derive(Debug)]
pub struct ToMove(usize);
