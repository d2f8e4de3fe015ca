//! The blanks at the end of a `character(n)`.

/// The string without the blanks at its end, as comparisons and casts of a `character(n)` see it.
#[inline]
pub fn without_blanks(mut text: &str) -> &str {
    // Eight at a time: a `character(n)` may be mostly blanks.
    while let Some((front, [b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' '])) =
        text.as_bytes().split_last_chunk::<8>()
    {
        text = &text[..front.len()];
    }
    text.trim_end_matches(' ')
}

/// The blanks that a string needs to have `length` characters.
pub(crate) fn missing_blanks(text: &str, length: u32) -> usize {
    let characters = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    (length as usize).saturating_sub(characters)
}

/// The string with blanks up to `length` characters.
pub(crate) fn padded(text: &str, length: u32) -> String {
    let blanks = missing_blanks(text, length);
    let mut out = String::with_capacity(text.len() + blanks);
    out.push_str(text);
    out.extend(std::iter::repeat_n(' ', blanks));
    out
}
