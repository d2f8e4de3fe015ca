//! A `jsonb` made piece by piece.

use super::value::{
    ARRAY, FALSE, Jsonb, JsonbRef, NULL, NUMBER, OBJECT, STRING, TRUE, WIDE_ARRAY, WIDE_OBJECT,
    compare_keys,
};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::numeric::{self, Numeric};

/// Most bytes of a string, and of the elements of an array or object: PostgreSQL's.
const MAX_PART: usize = 0x0fff_ffff;

/// An array or object that is open.
#[derive(Debug, Clone)]
struct Frame {
    object: bool,
    /// Place of its first byte.
    start: usize,
    /// The number of places before its own.
    places: usize,
}

/// Makes a `jsonb`: each value is appended, arrays and objects are opened and ended.
#[derive(Debug, Default, Clone)]
pub struct JsonbBuilder {
    out: Vec<u8>,
    frames: Vec<Frame>,
    /// The places of the open frames, those of each behind one another.
    places: Vec<u32>,
}

fn too_large(message: String) -> TypeError {
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

impl JsonbBuilder {
    /// An empty builder.
    pub fn new() -> JsonbBuilder {
        JsonbBuilder::default()
    }

    /// The number of arrays and objects that are open.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.out.capacity()
            + self.frames.capacity() * size_of::<Frame>()
            + self.places.capacity() * size_of::<u32>()
    }

    /// The next byte's place in the innermost frame.
    fn place(&self) -> TypeResult<u32> {
        let start = self.frames.last().map_or(0, |frame| frame.start);
        let object = self.frames.last().is_some_and(|frame| frame.object);
        let place = self.out.len() - start;
        u32::try_from(place)
            .ok()
            .filter(|_| place <= MAX_PART)
            .ok_or_else(|| {
                let of = if object { "object" } else { "array" };
                too_large(format!(
                    "total size of jsonb {of} elements exceeds the maximum of {MAX_PART} bytes"
                ))
            })
    }

    /// Remembers the end of a value.
    fn ended(&mut self) -> TypeResult<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let place = self.place()?;
        self.places.push(place);
        Ok(())
    }

    fn scalar(&mut self, payload: &[u8], tag: u8) -> TypeResult<()> {
        self.out.extend_from_slice(payload);
        self.out.push(tag);
        self.ended()
    }

    /// Appends `null`.
    ///
    /// # Errors
    /// 54000.
    pub fn null(&mut self) -> TypeResult<()> {
        self.scalar(&[], NULL)
    }

    /// Appends a boolean.
    ///
    /// # Errors
    /// 54000.
    pub fn bool(&mut self, value: bool) -> TypeResult<()> {
        self.scalar(&[], if value { TRUE } else { FALSE })
    }

    /// Appends a number, which is finite.
    ///
    /// # Errors
    /// 54000.
    pub fn number(&mut self, value: &Numeric) -> TypeResult<()> {
        numeric::encode(value, &mut self.out);
        self.scalar(&[], NUMBER)
    }

    /// Appends a string.
    ///
    /// # Errors
    /// 54000.
    pub fn string(&mut self, text: &str) -> TypeResult<()> {
        if text.len() > MAX_PART {
            let detail = format!(
                "Due to an implementation restriction, jsonb strings cannot exceed {MAX_PART} \
                 bytes."
            );
            let message = "string too long to represent as jsonb string";
            return Err(too_large(message.to_owned()).detail(detail));
        }
        self.scalar(text.as_bytes(), STRING)
    }

    /// Appends a copy of a value.
    ///
    /// # Errors
    /// 54000.
    pub fn value(&mut self, value: JsonbRef<'_>) -> TypeResult<()> {
        self.out.extend_from_slice(value.bytes());
        self.ended()
    }

    fn begin(&mut self, object: bool) -> TypeResult<()> {
        self.place()?;
        self.frames.push(Frame {
            object,
            start: self.out.len(),
            places: self.places.len(),
        });
        Ok(())
    }

    /// Opens an array.
    ///
    /// # Errors
    /// 54000.
    pub fn begin_array(&mut self) -> TypeResult<()> {
        self.begin(false)
    }

    /// Opens an object.
    ///
    /// # Errors
    /// 54000.
    pub fn begin_object(&mut self) -> TypeResult<()> {
        self.begin(true)
    }

    /// Appends a field's name; its value follows. Of fields with one name the last counts.
    ///
    /// # Errors
    /// 54000.
    pub fn key(&mut self, key: &str) -> TypeResult<()> {
        let start = self.place()?;
        self.out.extend_from_slice(key.as_bytes());
        let end = self.place()?;
        self.places.extend([start, end]);
        Ok(())
    }

    /// Appends a field.
    ///
    /// # Errors
    /// 54000.
    pub fn field(&mut self, key: &str, value: JsonbRef<'_>) -> TypeResult<()> {
        self.key(key)?;
        self.value(value)
    }

    /// Ends the innermost array or object.
    ///
    /// # Errors
    /// 54000.
    pub fn end(&mut self) -> TypeResult<()> {
        let size = self.place()?;
        let Some(frame) = self.frames.pop() else {
            return Err(TypeError::internal("no array or object is open"));
        };
        let mut places = self.places.split_off(frame.places);
        let columns = if frame.object { 3 } else { 1 };
        if frame.object {
            self.order_fields(&frame, &mut places);
        }
        let count = places.len() / columns;
        let wide = size > u32::from(u16::MAX) || count > usize::from(u16::MAX);
        places.push(u32::try_from(count).unwrap_or(u32::MAX));
        for place in places {
            match u16::try_from(place) {
                Ok(place) if !wide => self.out.extend_from_slice(&place.to_le_bytes()),
                _ => self.out.extend_from_slice(&place.to_le_bytes()),
            }
        }
        self.out.push(match (frame.object, wide) {
            (false, false) => ARRAY,
            (false, true) => WIDE_ARRAY,
            (true, false) => OBJECT,
            (true, true) => WIDE_OBJECT,
        });
        self.ended()
    }

    /// Orders the fields of an object by their names, and leaves out those whose name comes again.
    fn order_fields(&mut self, frame: &Frame, places: &mut Vec<u32>) {
        let data = &self.out[frame.start..];
        let mut fields: Vec<[u32; 3]> = places
            .chunks_exact(3)
            .map(|field| [field[0], field[1], field[2]])
            .collect();
        let key = |field: &[u32; 3]| {
            data.get(field[0] as usize..field[1] as usize)
                .unwrap_or_default()
        };
        let ordered = |fields: &[[u32; 3]]| {
            fields
                .windows(2)
                .all(|pair| compare_keys(key(&pair[0]), key(&pair[1])).is_lt())
        };
        if ordered(&fields) {
            return;
        }
        fields.sort_by(|a, b| compare_keys(key(a), key(b)));
        // Of equal names the last one stays: the sort is stable.
        let mut kept: Vec<[u32; 3]> = Vec::with_capacity(fields.len());
        for field in fields {
            match kept.last_mut() {
                Some(last) if key(last) == key(&field) => *last = field,
                _ => kept.push(field),
            }
        }
        // The bytes are laid out anew, so that equal values have equal bytes.
        let mut ordered = Vec::with_capacity(data.len());
        places.clear();
        for field in &kept {
            let length = |from: u32, to: u32| to - from;
            let start = ordered.len() as u32;
            let bytes = data.get(field[0] as usize..field[2] as usize);
            ordered.extend_from_slice(bytes.unwrap_or_default());
            let value = start + length(field[0], field[1]);
            places.extend([start, value, value + length(field[1], field[2])]);
        }
        self.out.truncate(frame.start);
        self.out.extend_from_slice(&ordered);
    }

    /// The value.
    ///
    /// # Errors
    /// XX000 when an array or object is open.
    pub fn finish(self) -> TypeResult<Jsonb> {
        if !self.frames.is_empty() || self.out.is_empty() {
            return Err(TypeError::internal("a jsonb is not complete"));
        }
        Ok(Jsonb::from_bytes(self.out.into_boxed_slice()))
    }
}
