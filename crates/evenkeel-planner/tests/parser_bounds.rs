//! No text makes the parser panic, recurse without bound or take more than linear time.

use std::time::{Duration, Instant};

use evenkeel_planner::parser::{Shape, measure, parse, parse_one};

fn state(text: &str) -> &'static str {
    parse(text).map_or_else(|error| error.state.0, |_| "00000")
}

#[test]
fn statements_within_the_bounds_are_parsed_and_dropped() {
    let any = vec!["a=1"; 20_000].join(" OR ");
    let list = vec!["(1,'a',-2.5)"; 20_000].join(",");
    for text in [
        format!("SELECT {}", vec!["1"; 5_000].join("+")),
        format!("DELETE FROM t WHERE {any}"),
        vec!["SELECT 1"; 1_900].join(" UNION ALL "),
        format!("INSERT INTO t VALUES {list}"),
        format!("SELECT {}1{}", "abs(".repeat(190), ")".repeat(190)),
        format!(
            "SELECT {}1{}",
            "CASE WHEN a THEN ".repeat(190),
            " END".repeat(190)
        ),
        format!("SELECT {} true", "NOT ".repeat(5_000)),
        format!("SELECT {} 1", "- ".repeat(5_000)),
        format!("SELECT 1{}", "::int".repeat(5_000)),
        format!("SELECT 1 {}", "+ NOT ".repeat(2_500) + "1"),
        format!("SELECT 1{}", " IS NULL".repeat(5_000)),
        format!("SELECT (a){}", ".b".repeat(5_000)),
        format!("SELECT 1 FROM t{}", " JOIN t ON true".repeat(900)),
        format!(
            "SELECT 1 FROM t{}{}",
            " JOIN t".repeat(900),
            " ON true".repeat(900)
        ),
        format!("SELECT {}{}", "ARRAY[".repeat(190), "]".repeat(190)),
        format!(
            "SELECT * FROM {}t{}",
            "(a JOIN ".repeat(190),
            " ON true)".repeat(190)
        ),
    ] {
        assert_eq!(state(&text), "00000", "{}", &text[..40]);
    }
}

#[test]
fn statements_beyond_the_bounds_are_refused() {
    for text in [
        format!("SELECT {}", "(".repeat(1_000_000)),
        format!("SELECT {}", "CASE WHEN 1 THEN ".repeat(10_000)),
        format!("SELECT {} true", "NOT ".repeat(100_000)),
        format!("SELECT {} 1", "- ".repeat(100_000)),
        format!("SELECT 1{}", "::int".repeat(100_000)),
        format!("SELECT 1{}", "+1".repeat(1_000_000)),
        format!("SELECT 1{}", " IS NULL".repeat(100_000)),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(100_000)),
        format!("SELECT 1 FROM t{}", ", t".repeat(100_000)),
        format!("SELECT 1 FROM t{}", " JOIN t ON true".repeat(100_000)),
        format!("SELECT a{}", "[1]".repeat(100_000)),
        format!("SELECT (a){}", ".b".repeat(100_000)),
        format!("SELECT 1::int{}", "[]".repeat(100_000)),
        format!("SELECT {}1{}", "(SELECT ".repeat(20), ")".repeat(20)),
        "1,".repeat(2_000_000),
    ] {
        assert_eq!(state(&text), "54001", "{}", &text[..40]);
    }
    assert_eq!(state(&format!("SELECT 1e{}", "9".repeat(9))), "22003");
}

#[test]
fn the_shape_is_that_of_the_text() {
    let shape = |text: &str| -> Shape { measure(text).unwrap().shape() };
    let flat = shape("select f(1), f(2), f(3), case when a then b end, array[1]");
    assert!(flat.depth < 6 && flat.tokens == 27, "{flat:?}");
    assert!(flat.is_small() && flat.shallow().is_ok());
    // An END that is not a CASE's, and more closed than opened.
    assert!(shape("end end ) ) ]").depth < 6);
    for text in [
        format!("select {}1", "1 + ".repeat(70)),
        format!("select {}'1'", "interval ".repeat(70)),
        format!("select {}1{}", "(".repeat(70), ")".repeat(70)),
        format!("select 'a {}", "(".repeat(70)),
        format!("select 1a {}", "(".repeat(70)),
    ] {
        let deep = shape(&text);
        assert!(deep.depth >= 70 && !deep.is_small(), "{text} {deep:?}");
        assert_eq!(deep.shallow().unwrap_err().state.0, "54001");
    }
    let chain = format!("select {}1", "1, ".repeat(70));
    assert!(shape(&chain).shallow().is_ok() && !shape(&chain).is_small());
    assert!(shape(&"interval '1', ".repeat(70)).depth < 6);
}

#[test]
fn a_text_has_as_many_statements_as_its_semicolons_part() {
    let count = |text: &str| parse(text).unwrap().len();
    assert_eq!(count(""), 0);
    assert_eq!(count(" ;; -- nothing\n"), 0);
    assert_eq!(count("SELECT 1; SELECT 2;"), 2);
    assert_eq!(
        count("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3"),
        2
    );
    let function = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; \
        SELECT CASE WHEN a THEN b END; END; COMMIT";
    assert_eq!(count(function), 2);
    let text = " SELECT 1 ; /* c */ VACUUM t ;";
    let ranges: Vec<&str> = parse(text)
        .unwrap()
        .into_iter()
        .map(|parsed| &text[parsed.range])
        .collect();
    assert_eq!(ranges, ["SELECT 1", "VACUUM t"]);
    assert!(parse_one(";").unwrap().is_none());
    assert_eq!(
        parse_one("SELECT 1; SELECT 2").unwrap_err().state.0,
        "42601"
    );
}

/// xorshift, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn no_text_panics() {
    let seed = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(1, |now| now.as_nanos() as u64)
        | 1;
    println!("seed {seed}");
    let mut random = Random(seed);
    let corpus = std::fs::read_to_string("tests/syntax.txt").unwrap();
    let words: Vec<&str> = corpus.split_whitespace().collect();
    let pieces = "'\"$\\/*-+.eExXuU&nNbB0123456789_é\u{1F600}\u{0}(),;:[]<>=!@#%^|`?~{} \n\t";
    let pieces: Vec<char> = pieces.chars().collect();
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            if random.below(3) == 0 {
                text.push(pieces[random.below(pieces.len())]);
            } else {
                text.push_str(words[random.below(words.len())]);
                text.push(' ');
            }
        }
        if let Err(error) = parse(&text)
            && let Some(at) = error.at
        {
            assert!(text.is_char_boundary(at.0 as usize), "{text:?} {error:?}");
        }
    }
}

#[test]
fn time_is_linear_in_the_length() {
    let shapes: [fn(usize) -> String; 8] = [
        |n| format!("SELECT {}", vec!["a=1"; n].join(" OR ")),
        |n| format!("INSERT INTO t VALUES {}", vec!["(1,'a',-2.5)"; n].join(",")),
        |n| format!("SELECT {}", "'a'\n".repeat(n)),
        |n| format!("SELECT {}", "/*".repeat(n)),
        |n| format!("SELECT {}", "$a".repeat(n)),
        |n| format!("SELECT E'{}'", "\\u0041''".repeat(n)),
        |n| "SELECT 1;".repeat(n),
        |n| format!("SELECT {}", "+".repeat(n)),
    ];
    for (index, shape) in shapes.iter().enumerate() {
        let time = |n: usize| {
            let text = shape(n);
            let mut least = Duration::MAX;
            for _ in 0..3 {
                let start = Instant::now();
                let _ = std::hint::black_box(parse(&text));
                least = least.min(start.elapsed());
            }
            least.max(Duration::from_micros(500))
        };
        let (short, long) = (time(10_000), time(80_000));
        assert!(
            long < short * 40,
            "shape {index}: {short:?}, eight times as long {long:?}"
        );
    }
}
