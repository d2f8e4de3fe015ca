//! Roman numerals.

const NUMERALS: [(u16, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// A number in Roman numerals; `None` for one that has none.
pub fn roman(number: i64) -> Option<String> {
    let mut rest = u16::try_from(number)
        .ok()
        .filter(|n| (1..4000).contains(n))?;
    let mut text = String::new();
    for (value, numeral) in NUMERALS {
        while rest >= value {
            text.push_str(numeral);
            rest -= value;
        }
    }
    Some(text)
}

/// The number of Roman numerals at the beginning of a text and their length, if they are well
/// formed.
pub fn read(text: &str) -> Option<(i64, usize)> {
    let length = text
        .bytes()
        .take_while(|byte| b"MDCLXVI".contains(&byte.to_ascii_uppercase()))
        .count();
    let numerals = text.get(..length)?.to_ascii_uppercase();
    let (mut rest, mut number) = (numerals.as_str(), 0_i64);
    for (value, numeral) in NUMERALS {
        while let Some(after) = rest.strip_prefix(numeral) {
            number += i64::from(value);
            rest = after;
        }
    }
    // Numerals are well formed only if they are the canonical form of their number.
    (roman(number)? == numerals).then_some((number, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerals_are_read_as_they_are_written() {
        for number in [1, 4, 14, 399, 1990, 3999] {
            let text = roman(number).unwrap();
            assert_eq!(read(&text), Some((number, text.len())));
        }
        assert_eq!(roman(4000), None);
        assert_eq!(read("IIII"), None);
        assert_eq!(read("abc"), None);
    }
}
