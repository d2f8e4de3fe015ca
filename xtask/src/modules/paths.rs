//! The paths in a stretch of source: `use` trees, types, expressions, the arguments of macros.

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};

/// A path as it is written: `crate::wal::Lsn`, `super::config`, `wal::open`.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub segments: Vec<String>,
    /// The name that `as` gives it.
    pub renamed: Option<String>,
    pub line: usize,
}

/// Every path of `tokens`, with `a::{b, c}` as two paths and `a::*` as `a`. A name that stands
/// alone is no path.
pub fn paths(tokens: TokenStream) -> Vec<Written> {
    let mut out = Vec::new();
    scan(tokens, &mut out);
    out
}

fn scan(tokens: TokenStream, out: &mut Vec<Written>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &tokens[..];
    while let Some((token, behind)) = rest.split_first() {
        rest = match token {
            TokenTree::Group(group) => {
                scan(group.stream(), out);
                behind
            }
            TokenTree::Ident(first) => path(&[], first, behind, out),
            // `::std::mem`, `<T as Trait>::f`: the first name is not one of this module.
            _ => match after_colons(rest) {
                Some([TokenTree::Ident(first), behind @ ..]) => {
                    path(&[], first, behind, &mut Vec::new())
                }
                _ => behind,
            },
        };
    }
}

/// Reads the path that goes on from `head` with `first`; returns the tokens behind it.
fn path<'a>(
    head: &[String],
    first: &Ident,
    mut rest: &'a [TokenTree],
    out: &mut Vec<Written>,
) -> &'a [TokenTree] {
    let mut segments = head.to_vec();
    segments.push(first.to_string());
    let mut is_glob = false;
    while let Some(behind) = after_colons(rest) {
        match behind {
            [TokenTree::Ident(next), behind @ ..] => {
                segments.push(next.to_string());
                rest = behind;
            }
            [TokenTree::Group(group), behind @ ..] if group.delimiter() == Delimiter::Brace => {
                branches(&segments, group.stream(), out);
                return behind;
            }
            [token, behind @ ..] => {
                is_glob = is_punct(token, '*'); // Otherwise `a::<T>`.
                rest = behind;
                break;
            }
            [] => break,
        }
    }
    if segments.len() < 2 && !is_glob {
        return rest;
    }
    if segments.last().is_some_and(|last| last == "self") {
        segments.pop();
    }
    let renamed = match rest {
        [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "as" => {
            rest = &rest[2..];
            Some(name.to_string())
        }
        _ => None,
    };
    out.push(Written {
        segments,
        renamed,
        line: first.span().start().line,
    });
    rest
}

/// The branches of `head::{…}`.
fn branches(head: &[String], tokens: TokenStream, out: &mut Vec<Written>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &tokens[..];
    while let Some((token, behind)) = rest.split_first() {
        rest = match token {
            TokenTree::Ident(first) => path(head, first, behind, out),
            _ => behind,
        };
        if is_punct(token, '*') {
            out.push(Written {
                segments: head.to_vec(),
                renamed: None,
                line: token.span().start().line,
            });
        }
    }
}

/// The tokens behind a `::` at the start of `tokens`.
fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [TokenTree::Punct(first), second, rest @ ..]
            if first.as_char() == ':'
                && first.spacing() == Spacing::Joint
                && is_punct(second, ':') =>
        {
            Some(rest)
        }
        _ => None,
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> Vec<String> {
        let tokens = source.parse().expect("the source has balanced brackets");
        let show = |path: Written| {
            let name = path.renamed.map(|name| format!(" as {name}"));
            path.segments.join("::") + &name.unwrap_or_default()
        };
        paths(tokens).into_iter().map(show).collect()
    }

    #[test]
    fn a_use_tree_is_one_path_for_each_leaf() {
        assert_eq!(
            shown("use crate::{a, b::{c as d, self}, e::*}; use super::f as g;"),
            [
                "crate::a",
                "crate::b::c as d",
                "crate::b",
                "crate::e",
                "super::f as g"
            ]
        );
    }

    #[test]
    fn paths_are_found_in_types_expressions_and_macros() {
        assert_eq!(
            shown("fn f(x: &crate::a::T) { b::<u8>(); log!(\"{}\", c::d(x.e)); $crate::m!() }"),
            ["crate::a::T", "c::d", "crate::m"]
        );
    }

    #[test]
    fn paths_from_outside_the_crate_are_left_out() {
        assert_eq!(shown("::std::mem::take(<T as Tr>::f::g)"), [""; 0]);
        assert_eq!(shown("let a: b = c;"), [""; 0]);
    }
}
