//! The grammar of cursors: DECLARE, FETCH, MOVE, CLOSE.

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token};

use super::names::{is_word, name};

type Parse<T> = Result<T, ParserError>;

/// DECLARE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declare {
    /// The cursor's name.
    pub name: String,
    /// SCROLL.
    pub scroll: bool,
    /// WITH HOLD.
    pub hold: bool,
    /// BINARY.
    pub binary: bool,
    /// Where the query starts.
    pub at: Location,
}

/// Which rows FETCH wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// So many of the next ones; 0 is the row at hand again, fewer are backward.
    Forward(i64),
    /// All that follow.
    ForwardAll,
    /// All before, backward.
    BackwardAll,
    /// The row of this number, from the end if negative.
    Absolute(i64),
    /// The row so many behind the one at hand.
    Relative(i64),
}

/// FETCH or MOVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor's name.
    pub name: String,
    /// Which rows.
    pub direction: Direction,
    /// FETCH, or else MOVE.
    pub rows: bool,
}

/// Skips words up to one that is not among these; those that were there.
fn words(parser: &mut Parser<'_>, known: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(word) = known.iter().find(|word| is_word(parser, word)) {
        parser.next_token();
        found.push((*word).to_owned());
    }
    found
}

/// Behind DECLARE.
pub fn declare(parser: &mut Parser<'_>) -> Parse<Declare> {
    let name = name(parser)?;
    let options = words(
        parser,
        &["binary", "asensitive", "insensitive", "no", "scroll"],
    );
    parser.expect_keyword(Keyword::CURSOR)?;
    let mut hold = false;
    if let Some(with) = parser.parse_one_of_keywords(&[Keyword::WITH, Keyword::WITHOUT]) {
        parser.expect_keyword(Keyword::HOLD)?;
        hold = with == Keyword::WITH;
    }
    parser.expect_keyword(Keyword::FOR)?;
    let at = parser.peek_token_ref().span.start;
    while parser.peek_token_ref().token != Token::EOF {
        parser.next_token();
    }
    let has = |word: &str| options.iter().any(|option| option == word);
    Ok(Declare {
        name,
        scroll: has("scroll") && !has("no"),
        hold,
        binary: has("binary"),
        at,
    })
}

/// Behind FETCH or MOVE.
pub fn fetch(parser: &mut Parser<'_>, rows: bool) -> Parse<Fetch> {
    let direction = direction(parser)?;
    let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
    let name = name(parser)?;
    Ok(Fetch {
        name,
        direction,
        rows,
    })
}

fn direction(parser: &mut Parser<'_>) -> Parse<Direction> {
    const ONE_WORD: [(&str, Direction); 5] = [
        ("next", Direction::Forward(1)),
        ("prior", Direction::Forward(-1)),
        ("first", Direction::Absolute(1)),
        ("last", Direction::Absolute(-1)),
        ("all", Direction::ForwardAll),
    ];
    if let Some((_, direction)) = ONE_WORD.iter().find(|(word, _)| is_word(parser, word)) {
        parser.next_token();
        return Ok(*direction);
    }
    for (word, backward) in [("forward", false), ("backward", true)] {
        if is_word(parser, word) {
            parser.next_token();
            return some_or_all(parser, backward);
        }
    }
    if is_word(parser, "absolute") {
        parser.next_token();
        return number(parser).map(Direction::Absolute);
    }
    if is_word(parser, "relative") {
        parser.next_token();
        return number(parser).map(Direction::Relative);
    }
    if starts_number(parser) {
        return number(parser).map(Direction::Forward);
    }
    Ok(Direction::Forward(1))
}

fn some_or_all(parser: &mut Parser<'_>, backward: bool) -> Parse<Direction> {
    if parser.parse_keyword(Keyword::ALL) {
        return Ok(if backward {
            Direction::BackwardAll
        } else {
            Direction::ForwardAll
        });
    }
    let count = if starts_number(parser) {
        number(parser)?
    } else {
        1
    };
    Ok(Direction::Forward(if backward { -count } else { count }))
}

fn starts_number(parser: &Parser<'_>) -> bool {
    matches!(
        parser.peek_token_ref().token,
        Token::Number(..) | Token::Minus | Token::Plus
    )
}

fn number(parser: &mut Parser<'_>) -> Parse<i64> {
    let negative = parser.consume_token(&Token::Minus);
    let _ = parser.consume_token(&Token::Plus);
    let number = parser.parse_literal_uint()?;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    Ok(if negative { -number } else { number })
}
