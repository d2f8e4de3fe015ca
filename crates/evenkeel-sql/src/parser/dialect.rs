//! PostgreSQL's dialect, parsed in bounded time.
//!
//! The parser tries several readings of a text, one after the other, and its readings of nested
//! calls try again what is inside: the time doubles with each level. PostgreSQL's dialect has one
//! such reading that succeeds (an argument that is named by an expression), which this dialect
//! does not take; what is left are texts that fail, and those run out of [`Steps`].

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// PostgreSQL's dialect, but for names of arguments that are expressions (`json_object('a': 1)`).
#[derive(Debug)]
pub struct Postgres;

const INNER: PostgreSqlDialect = PostgreSqlDialect {};

/// How often a token may begin an expression. A text that parses needs one or two.
const READINGS_PER_TOKEN: usize = 16;
/// For texts of few tokens.
const READINGS_AT_LEAST: usize = 4096;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Limits how often the parser begins to read an expression on this thread, until it is dropped.
pub struct Steps(usize);

impl Steps {
    /// The limit for a text of so many tokens.
    pub fn of(tokens: usize) -> Steps {
        let limit = tokens.saturating_mul(READINGS_PER_TOKEN) + READINGS_AT_LEAST;
        Steps(LEFT.replace(limit))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        LEFT.set(self.0);
    }
}

macro_rules! as_inner {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            INNER.$name()
        })*
    };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, _parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match LEFT.get().checked_sub(1) {
            Some(left) => {
                LEFT.set(left);
                None
            }
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        INNER.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        INNER.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        INNER.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        INNER.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        INNER.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        INNER.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        INNER.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        INNER.prec_value(precedence)
    }

    as_inner! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}
