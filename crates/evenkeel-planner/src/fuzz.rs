//! Entry point of the fuzzer: the text of statements. No text may make the parser panic, or recurse
//! or allocate without a bound.

use crate::parser::parse;

/// Takes some bytes as the text of statements.
pub fn sql(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        // An error is an answer.
        let _ = parse(text);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_io::mutate::on_damaged;

    use super::*;

    const SEED: u64 = 0x0DD_BA11;

    #[test]
    fn damaged_statements_are_parsed_or_refused_without_panic() {
        let corpora = [
            include_str!("../tests/syntax.txt"),
            include_str!("../tests/commands.txt"),
        ];
        let lines = corpora.iter().flat_map(|corpus| corpus.lines());
        let statements = lines.filter_map(|line| line.rsplit('\t').next());
        let inputs: Vec<Vec<u8>> = statements.map(|text| text.as_bytes().to_vec()).collect();
        assert!(inputs.len() > 1500);
        on_damaged(SEED, 60_000, &inputs, sql);
    }
}
