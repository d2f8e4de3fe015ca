//! Arrays and vectors in the text form in which the catalog has them: `{a,"b c",NULL}` and
//! `1 2 3`.

/// The items; NULL items are `None`. Text that is not an array is a vector.
pub fn parse(text: &str) -> Vec<Option<String>> {
    match text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        Some(inner) => parse_items(inner),
        None => text
            .split_whitespace()
            .map(|word| Some(word.to_owned()))
            .collect(),
    }
}

fn parse_items(inner: &str) -> Vec<Option<String>> {
    let mut items = Vec::new();
    if inner.is_empty() {
        return items;
    }
    let (mut item, mut quoted, mut inside) = (String::new(), false, false);
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                inside = !inside;
                quoted = true;
            }
            '\\' => item.extend(chars.next()),
            ',' if !inside => {
                items.push(finish_item(std::mem::take(&mut item), quoted));
                quoted = false;
            }
            c => item.push(c),
        }
    }
    items.push(finish_item(item, quoted));
    items
}

fn finish_item(item: String, quoted: bool) -> Option<String> {
    (quoted || !item.eq_ignore_ascii_case("null")).then_some(item)
}

/// The array's text.
pub fn format<'a>(items: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let items: Vec<String> = items.into_iter().map(format_item).collect();
    format!("{{{}}}", items.join(","))
}

fn format_item(item: Option<&str>) -> String {
    let Some(item) = item else {
        return "NULL".to_owned();
    };
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace();
    if !item.is_empty() && !item.eq_ignore_ascii_case("null") && !item.contains(special) {
        return item.to_owned();
    }
    format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_array_reads_back() {
        let items = ["a", "b c", "", "null", "x\"y\\z", "{1,2}"];
        let text = format(items.iter().map(|item| Some(*item)).chain([None]));
        assert_eq!(text, r#"{a,"b c","","null","x\"y\\z","{1,2}",NULL}"#);
        let back = parse(&text);
        assert_eq!(back.len(), 7);
        assert!(back.iter().zip(items).all(|(a, b)| a.as_deref() == Some(b)));
        assert_eq!(back[6], None);
        assert!(parse("{}").is_empty());
        assert_eq!(parse("1 2"), [Some("1".to_owned()), Some("2".to_owned())]);
    }
}
