//! Names as SQL spells them.

/// A name as SQL has to spell it.
pub fn quote_ident(name: &str) -> String {
    let plain = name.chars().enumerate().all(|(at, c)| {
        c.is_ascii_lowercase() || c == '_' || (at > 0 && (c.is_ascii_digit() || c == '$'))
    });
    if plain && !name.is_empty() && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// PostgreSQL's keywords that cannot be a column's name without quotes, or only some places.
fn is_reserved(name: &str) -> bool {
    const WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization \
        between bigint binary bit boolean both case cast char character check coalesce collate \
        collation column concurrently constraint create cross current_catalog current_date \
        current_role current_schema current_time current_timestamp current_user dec decimal \
        default deferrable desc distinct do else end except exists extract false fetch float for \
        foreign freeze from full grant greatest group grouping having ilike in initially inner \
        inout int integer intersect interval into is isnull join lateral leading least left like \
        limit localtime localtimestamp national natural nchar none normalize not notnull null \
        nullif numeric offset on only or order out outer overlaps overlay placing position \
        precision primary real references returning right row select session_user setof similar \
        smallint some substring symmetric system_user table tablesample then time timestamp to \
        trailing treat trim true union unique user using values varchar variadic verbose when \
        where window with xmlattributes ";
    WORDS.contains(&format!(" {name} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_only_where_sql_needs_it() {
        for (name, quoted) in [
            ("accounts", "accounts"),
            ("_x1$", "_x1$"),
            ("1x", "\"1x\""),
            ("Odd Name", "\"Odd Name\""),
            ("a\"b", "\"a\"\"b\""),
            ("order", "\"order\""),
            ("orders", "orders"),
        ] {
            assert_eq!(quote_ident(name), quoted);
        }
    }
}
