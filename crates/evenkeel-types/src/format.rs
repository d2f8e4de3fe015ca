//! The two formats of a value on the wire.

/// The format of one value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Code 0.
    #[default]
    Text,
    /// Code 1.
    Binary,
}

impl Format {
    /// The format for a wire code; `None` for a code that does not exist.
    pub fn from_code(code: i16) -> Option<Format> {
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }

    /// The wire code.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }

    /// The format of item `index` under PostgreSQL's rule: no codes mean text for all, one
    /// code is meant for all.
    pub fn of(formats: &[Format], index: usize) -> Format {
        match formats {
            [] => Format::Text,
            [all] => *all,
            each => each.get(index).copied().unwrap_or_default(),
        }
    }
}
