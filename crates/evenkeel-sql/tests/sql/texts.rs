//! Texts that nobody would write: whatever a client sends is read in bounded time, or refused, and
//! never ends the process. A short run of the fuzzer's target, from printed seeds.

use std::time::{Duration, Instant};

use evenkeel_sql::parser::{lexer, parse};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{open, run, session};

/// Words that the parser treats in ways of their own.
const WORDS: &[&str] = &[
    "select",
    "from",
    "where",
    "and",
    "or",
    "not",
    "case",
    "when",
    "then",
    "else",
    "end",
    "union",
    "all",
    "with",
    "recursive",
    "as",
    "in",
    "exists",
    "between",
    "is",
    "null",
    "like",
    "cast",
    "interval",
    "date",
    "array",
    "any",
    "coalesce",
    "position",
    "substring",
    "trim",
    "extract",
    "overlay",
    "row",
    "values",
    "insert",
    "into",
    "update",
    "set",
    "delete",
    "explain",
    "prepare",
    "declare",
    "copy",
    "order",
    "by",
    "group",
    "limit",
    "join",
    "on",
    "lateral",
    "t",
    "a",
    "b",
    "count",
    "abs",
    "int",
    "text",
    "numeric",
    "over",
    "filter",
    "distinct",
    "collate",
    "at",
];
const SYMBOLS: &[&str] = &[
    "(",
    "(",
    "(",
    ")",
    ")",
    "[",
    "]",
    ",",
    ";",
    "+",
    "-",
    "*",
    "/",
    "::",
    "||",
    "=",
    "<",
    ">",
    ".",
    "$1",
    "$2",
    "$99999999999",
    "1",
    "2.5",
    "1e5",
    "9999999999999999999999",
    "'x'",
    "''",
    "E'\\n'",
    "$$q$$",
    "\"q\"",
    "--\n",
    "/* */",
    "'",
    "\"",
    "\u{e4}",
    "\u{1f600}",
    "@",
    "#",
    "{",
    "}",
    "\\",
];

fn text(random: &mut StdRng) -> String {
    let mut text = String::new();
    let length = random.random_range(1..400);
    while text.len() < length {
        let all = if random.random_bool(0.5) {
            WORDS
        } else {
            SYMBOLS
        };
        let piece = all[random.random_range(0..all.len())];
        // Now and then a run of one thing, which is what deep trees are made of.
        let runs = if random.random_bool(0.05) { 60 } else { 1 };
        for _ in 0..runs {
            text.push_str(piece);
            text.push(' ');
        }
    }
    text
}

/// Every statement of a text is parsed or refused.
fn read(text: &str) {
    for range in lexer::split(text) {
        drop(parse::parse(&text[range]));
    }
}

#[test]
fn any_text_is_parsed_or_refused_in_bounded_time() {
    for seed in 0..3000 {
        let mut random = StdRng::seed_from_u64(seed);
        let text = text(&mut random);
        let began = Instant::now();
        read(&text);
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "seed {seed}: {took:?} for {text}"
        );
    }
}

#[tokio::test]
async fn any_text_leaves_its_session_usable() {
    let engine = open();
    let mut session = session(&engine);
    run(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)")
        .await
        .unwrap();
    for seed in 10_000..10_400 {
        let mut random = StdRng::seed_from_u64(seed);
        let text = text(&mut random);
        println!("seed {seed}: {text}");
        let _ = run(&mut session, &text).await;
        let _ = run(&mut session, "ROLLBACK").await;
        let (rows, _) = run(&mut session, "SELECT 1").await.unwrap();
        assert_eq!(rows, ["1"], "seed {seed}: {text}");
    }
}
