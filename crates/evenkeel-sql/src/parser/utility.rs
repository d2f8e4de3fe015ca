//! Our own grammar for transaction control, settings, COPY, VACUUM and the like.

use evenkeel_engine::Isolation;
use sqlparser::ast::{DataType, Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token};

use super::cursor::{self, Declare, Fetch};
use super::names::{ident_text, is_word, name};
use crate::protocol::CopyFormat;

type Parse<T> = Result<T, ParserError>;

/// The modes of BEGIN and SET TRANSACTION.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
}

/// A transaction command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionCommand {
    /// BEGIN, START TRANSACTION.
    Begin(TransactionModes),
    /// COMMIT, END; with AND CHAIN.
    Commit { chain: bool },
    /// ROLLBACK, ABORT; with AND CHAIN.
    Rollback { chain: bool },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE [SAVEPOINT].
    Release(String),
    /// ROLLBACK TO [SAVEPOINT].
    RollbackTo(String),
    /// SET TRANSACTION.
    SetTransaction(TransactionModes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetSession(TransactionModes),
}

/// A part of the text of a command, which another grammar reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it starts.
    pub from: Location,
    /// Where what follows it starts.
    pub to: Location,
}

/// EXPLAIN of the statement that starts at `at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    /// The options in their order, with their values, if they have some.
    pub options: Vec<(String, Option<String>)>,
    /// Where the statement starts.
    pub at: Location,
}

/// Source or target of COPY.
#[derive(Debug)]
pub enum CopyTarget {
    /// A table and the columns named.
    Table {
        name: ObjectName,
        columns: Vec<Ident>,
    },
    /// The result of the query that stands there.
    Query(Span),
}

/// The options of COPY, as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// FORMAT.
    pub format: CopyFormat,
    /// FREEZE.
    pub freeze: bool,
    /// DELIMITER.
    pub delimiter: Option<char>,
    /// NULL.
    pub null: Option<String>,
    /// HEADER.
    pub header: bool,
    /// QUOTE.
    pub quote: Option<char>,
    /// ESCAPE.
    pub escape: Option<char>,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            freeze: false,
            delimiter: None,
            null: None,
            header: false,
            quote: None,
            escape: None,
        }
    }
}

/// COPY.
#[derive(Debug)]
pub struct Copy {
    /// The table or query.
    pub target: CopyTarget,
    /// FROM STDIN, or else TO STDOUT.
    pub from: bool,
    /// The options.
    pub options: CopyOptions,
}

/// A table that VACUUM or ANALYZE names, with the columns to be analyzed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintainedTable {
    /// The table.
    pub name: ObjectName,
    /// Its columns; none for all.
    pub columns: Vec<String>,
}

/// The options of VACUUM and ANALYZE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VacuumFlags {
    /// FREEZE.
    pub freeze: bool,
    /// ANALYZE.
    pub analyze: bool,
    /// FULL: refused.
    pub full: bool,
    /// VERBOSE.
    pub verbose: bool,
    /// SKIP_LOCKED.
    pub skip_locked: bool,
    /// DISABLE_PAGE_SKIPPING.
    pub every_page: bool,
    /// TRUNCATE; `None`: as the table and `vacuum_truncate` say.
    pub truncate: Option<bool>,
    /// INDEX_CLEANUP; `None` for AUTO.
    pub index_cleanup: Option<bool>,
    /// BUFFER_USAGE_LIMIT, as given.
    pub buffer_usage_limit: Option<String>,
    /// ONLY_DATABASE_STATS: no table is vacuumed.
    pub no_tables: bool,
}

/// A command of our own grammar.
#[derive(Debug)]
pub enum Utility {
    /// Transaction control.
    Transaction(TransactionCommand),
    /// SET name = value; `None` for DEFAULT.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    /// RESET name; `None` for ALL.
    Reset(Option<String>),
    /// SHOW name; `all` for ALL.
    Show(String),
    /// DISCARD ALL and its parts.
    Discard(Keyword),
    /// PREPARE name (types) AS the statement that starts at `at`.
    Prepare {
        name: String,
        types: Vec<DataType>,
        at: Location,
    },
    /// EXECUTE name (values).
    Execute { name: String, args: Option<Span> },
    /// EXPLAIN.
    Explain(Explain),
    /// DEALLOCATE name; `None` for ALL.
    Deallocate(Option<String>),
    /// DECLARE.
    Declare(Declare),
    /// FETCH, MOVE.
    Fetch(Fetch),
    /// CLOSE name; `None` for ALL.
    Close(Option<String>),
    /// COPY.
    Copy(Box<Copy>),
    /// VACUUM of the tables named, or of all.
    Vacuum {
        flags: VacuumFlags,
        tables: Vec<MaintainedTable>,
    },
    /// ANALYZE of the tables named, or of all.
    Analyze {
        flags: VacuumFlags,
        tables: Vec<MaintainedTable>,
    },
    /// ALTER TABLE … RESET (…), which sqlparser does not know.
    ResetParameters {
        table: ObjectName,
        names: Vec<String>,
    },
    /// CHECKPOINT.
    Checkpoint,
    /// LOCK TABLE.
    LockTable {
        tables: Vec<ObjectName>,
        mode: String,
        nowait: bool,
    },
}

/// Parses a command of our own grammar; `None` (with nothing consumed) when the text begins
/// otherwise.
pub fn parse(parser: &mut Parser<'_>) -> Parse<Option<Utility>> {
    let Token::Word(word) = parser.peek_token().token else {
        return Ok(None);
    };
    if word.quote_style.is_some() {
        return Ok(None);
    }
    let verb = word.value.to_ascii_lowercase();
    let rest = match verb.as_str() {
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
            transaction_command
        }
        "set" | "reset" | "show" | "discard" => setting_command,
        "prepare" | "execute" | "deallocate" | "explain" => statement_command,
        "declare" | "fetch" | "move" | "close" => cursor_command,
        "copy" | "vacuum" | "analyze" | "analyse" | "checkpoint" | "lock" => table_command,
        "alter" => return parser.maybe_parse(reset_parameters),
        _ => return Ok(None),
    };
    parser.next_token();
    rest(parser, &verb).map(Some)
}

fn transaction_command(parser: &mut Parser<'_>, verb: &str) -> Parse<Utility> {
    Ok(Utility::Transaction(transaction(parser, verb)?))
}

fn setting_command(parser: &mut Parser<'_>, verb: &str) -> Parse<Utility> {
    Ok(match verb {
        "set" => set(parser)?,
        "reset" => {
            let name = setting_name(parser)?;
            Utility::Reset((name != "all").then_some(name))
        }
        "show" => Utility::Show(setting_name(parser)?),
        _ => Utility::Discard(parser.expect_one_of_keywords(&[
            Keyword::ALL,
            Keyword::PLANS,
            Keyword::SEQUENCES,
            Keyword::TEMP,
            Keyword::TEMPORARY,
        ])?),
    })
}

fn statement_command(parser: &mut Parser<'_>, verb: &str) -> Parse<Utility> {
    match verb {
        "prepare" => prepare(parser),
        "execute" => execute(parser),
        "explain" => explain(parser),
        _ => {
            optional(parser, &[Keyword::PREPARE]);
            Ok(Utility::Deallocate(all_or_name(parser)?))
        }
    }
}

fn cursor_command(parser: &mut Parser<'_>, verb: &str) -> Parse<Utility> {
    match verb {
        "declare" => cursor::declare(parser).map(Utility::Declare),
        "close" => Ok(Utility::Close(all_or_name(parser)?)),
        _ => cursor::fetch(parser, verb == "fetch").map(Utility::Fetch),
    }
}

fn table_command(parser: &mut Parser<'_>, verb: &str) -> Parse<Utility> {
    match verb {
        "copy" => Ok(Utility::Copy(Box::new(copy(parser)?))),
        "checkpoint" => Ok(Utility::Checkpoint),
        "lock" => lock_table(parser),
        _ => maintenance(parser, verb == "vacuum"),
    }
}

/// `ALL`, which is none, or a name.
fn all_or_name(parser: &mut Parser<'_>) -> Parse<Option<String>> {
    if parser.parse_keyword(Keyword::ALL) {
        return Ok(None);
    }
    name(parser).map(Some)
}

/// Skips one of these words if it comes next: SQL's noise words.
fn optional(parser: &mut Parser<'_>, words: &[Keyword]) {
    let _ = parser.parse_one_of_keywords(words);
}

fn transaction(parser: &mut Parser<'_>, verb: &str) -> Parse<TransactionCommand> {
    Ok(match verb {
        "savepoint" => TransactionCommand::Savepoint(name(parser)?),
        "release" => {
            optional(parser, &[Keyword::SAVEPOINT]);
            TransactionCommand::Release(name(parser)?)
        }
        "begin" => {
            optional(parser, &[Keyword::WORK, Keyword::TRANSACTION]);
            TransactionCommand::Begin(modes(parser)?)
        }
        "start" => {
            parser.expect_keyword(Keyword::TRANSACTION)?;
            TransactionCommand::Begin(modes(parser)?)
        }
        "commit" | "end" => {
            optional(parser, &[Keyword::WORK, Keyword::TRANSACTION]);
            TransactionCommand::Commit {
                chain: chain(parser)?,
            }
        }
        _ => {
            optional(parser, &[Keyword::WORK, Keyword::TRANSACTION]);
            if parser.parse_keyword(Keyword::TO) {
                optional(parser, &[Keyword::SAVEPOINT]);
                TransactionCommand::RollbackTo(name(parser)?)
            } else {
                TransactionCommand::Rollback {
                    chain: chain(parser)?,
                }
            }
        }
    })
}

fn chain(parser: &mut Parser<'_>) -> Parse<bool> {
    if !parser.parse_keyword(Keyword::AND) {
        return Ok(false);
    }
    let no = parser.parse_keyword(Keyword::NO);
    parser.expect_keyword(Keyword::CHAIN)?;
    Ok(!no)
}

fn modes(parser: &mut Parser<'_>) -> Parse<TransactionModes> {
    let mut modes = TransactionModes::default();
    loop {
        if parser.parse_keyword(Keyword::ISOLATION) {
            parser.expect_keyword(Keyword::LEVEL)?;
            modes.isolation = Some(isolation(parser)?);
        } else if parser.parse_keyword(Keyword::READ) {
            let only = parser.expect_one_of_keywords(&[Keyword::ONLY, Keyword::WRITE])?;
            modes.read_only = Some(only == Keyword::ONLY);
        } else if parser.parse_keyword(Keyword::NOT) {
            parser.expect_keyword(Keyword::DEFERRABLE)?;
        } else if parser.parse_keyword(Keyword::DEFERRABLE) {
            // Deferrable matters to SERIALIZABLE only.
        } else {
            return Ok(modes);
        }
        let _ = parser.consume_token(&Token::Comma);
    }
}

fn isolation(parser: &mut Parser<'_>) -> Parse<Isolation> {
    if parser.parse_keyword(Keyword::SERIALIZABLE) {
        return Ok(Isolation::Serializable);
    }
    if parser.parse_keyword(Keyword::REPEATABLE) {
        parser.expect_keyword(Keyword::READ)?;
        return Ok(Isolation::RepeatableRead);
    }
    parser.expect_keyword(Keyword::READ)?;
    // As in PostgreSQL, READ UNCOMMITTED is READ COMMITTED.
    parser.expect_one_of_keywords(&[Keyword::COMMITTED, Keyword::UNCOMMITTED])?;
    Ok(Isolation::ReadCommitted)
}

fn set(parser: &mut Parser<'_>) -> Parse<Utility> {
    let scope = parser.parse_one_of_keywords(&[Keyword::SESSION, Keyword::LOCAL]);
    if parser.parse_keyword(Keyword::TRANSACTION) {
        let modes = modes(parser)?;
        return Ok(Utility::Transaction(TransactionCommand::SetTransaction(
            modes,
        )));
    }
    if scope == Some(Keyword::SESSION) && is_word(parser, "characteristics") {
        parser.next_token();
        parser.expect_keyword(Keyword::AS)?;
        parser.expect_keyword(Keyword::TRANSACTION)?;
        let modes = modes(parser)?;
        return Ok(Utility::Transaction(TransactionCommand::SetSession(modes)));
    }
    let local = scope == Some(Keyword::LOCAL);
    if parser.parse_keyword(Keyword::TIME) {
        parser.expect_keyword(Keyword::ZONE)?;
        let default = parser.parse_one_of_keywords(&[Keyword::DEFAULT, Keyword::LOCAL]);
        let value = if default.is_some() {
            None
        } else {
            Some(setting_value(parser)?)
        };
        return Ok(Utility::Set {
            name: "timezone".into(),
            value,
            local,
        });
    }
    if is_word(parser, "names") {
        parser.next_token();
        let value = Some(setting_value(parser)?);
        return Ok(Utility::Set {
            name: "client_encoding".into(),
            value,
            local,
        });
    }
    let name = setting_name(parser)?;
    if !parser.consume_token(&Token::Eq) {
        parser.expect_keyword(Keyword::TO)?;
    }
    if parser.parse_keyword(Keyword::DEFAULT) {
        return Ok(Utility::Set {
            name,
            value: None,
            local,
        });
    }
    let mut value = setting_value(parser)?;
    while parser.consume_token(&Token::Comma) {
        value.push_str(", ");
        value.push_str(&setting_value(parser)?);
    }
    Ok(Utility::Set {
        name,
        value: Some(value),
        local,
    })
}

/// A setting's name in lower case, dotted for an extension's, with the two-word spellings of
/// the standard.
fn setting_name(parser: &mut Parser<'_>) -> Parse<String> {
    if parser.parse_keywords(&[Keyword::TIME, Keyword::ZONE]) {
        return Ok("timezone".into());
    }
    if parser.parse_keywords(&[Keyword::TRANSACTION, Keyword::ISOLATION, Keyword::LEVEL]) {
        return Ok("transaction_isolation".into());
    }
    let mut text = parser.parse_identifier()?.value.to_ascii_lowercase();
    while parser.consume_token(&Token::Period) {
        text.push('.');
        text.push_str(&parser.parse_identifier()?.value.to_ascii_lowercase());
    }
    Ok(text)
}

fn setting_value(parser: &mut Parser<'_>) -> Parse<String> {
    let sign = if parser.consume_token(&Token::Minus) {
        "-"
    } else {
        let _ = parser.consume_token(&Token::Plus);
        ""
    };
    let token = parser.next_token();
    match token.token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
        Token::Word(word) => Ok(word.value),
        Token::Number(number, _) => Ok(format!("{sign}{number}")),
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(text),
        _ => parser.expected("a value", token),
    }
}

fn prepare(parser: &mut Parser<'_>) -> Parse<Utility> {
    let name = name(parser)?;
    let mut types = Vec::new();
    if parser.consume_token(&Token::LParen) {
        types = parser.parse_comma_separated(Parser::parse_data_type)?;
        parser.expect_token(&Token::RParen)?;
    }
    parser.expect_keyword(Keyword::AS)?;
    let at = parser.peek_token_ref().span.start;
    while parser.peek_token_ref().token != Token::EOF {
        parser.next_token();
    }
    Ok(Utility::Prepare { name, types, at })
}

fn execute(parser: &mut Parser<'_>) -> Parse<Utility> {
    let name = name(parser)?;
    let args = match parser.consume_token(&Token::LParen) {
        true => Some(parenthesised(parser)?),
        false => None,
    };
    Ok(Utility::Execute { name, args })
}

/// The rest of what a parenthesis has opened, and the one that closes it.
fn parenthesised(parser: &mut Parser<'_>) -> Parse<Span> {
    let from = parser.peek_token_ref().span.start;
    let mut open = 0_usize;
    loop {
        let token = parser.next_token();
        match token.token {
            Token::LParen => open += 1,
            Token::RParen if open == 0 => {
                let to = token.span.start;
                return Ok(Span { from, to });
            }
            Token::RParen => open -= 1,
            Token::EOF => return parser.expected(")", token),
            _ => {}
        }
    }
}

fn explain(parser: &mut Parser<'_>) -> Parse<Utility> {
    let mut options = Vec::new();
    if parser.peek_token_ref().token == Token::LParen && !is_query(&parser.peek_nth_token(1).token)
    {
        parser.next_token();
        options = parser.parse_comma_separated(explain_option)?;
        parser.expect_token(&Token::RParen)?;
    } else {
        for words in [["analyze", "analyse"].as_slice(), &["verbose"]] {
            if words.iter().any(|word| is_word(parser, word)) {
                parser.next_token();
                options.extend(words.first().map(|word| ((*word).to_owned(), None)));
            }
        }
    }
    let first = parser.peek_token_ref();
    let at = first.span.start;
    if first.token == Token::EOF {
        return parser.expected("a statement", parser.peek_token());
    }
    while parser.peek_token_ref().token != Token::EOF {
        parser.next_token();
    }
    Ok(Utility::Explain(Explain { options, at }))
}

/// Whether a query in parentheses may begin so.
fn is_query(token: &Token) -> bool {
    let verbs = ["select", "with", "values", "table"];
    match token {
        Token::LParen => true,
        Token::Word(word) => verbs
            .iter()
            .any(|verb| word.value.eq_ignore_ascii_case(verb)),
        _ => false,
    }
}

fn explain_option(parser: &mut Parser<'_>) -> Parse<(String, Option<String>)> {
    let name = parser.parse_identifier()?.value.to_ascii_lowercase();
    let ends = matches!(parser.peek_token_ref().token, Token::Comma | Token::RParen);
    let value = if ends {
        None
    } else {
        Some(setting_value(parser)?)
    };
    Ok((name, value))
}

fn copy(parser: &mut Parser<'_>) -> Parse<Copy> {
    let target = if parser.consume_token(&Token::LParen) {
        CopyTarget::Query(parenthesised(parser)?)
    } else {
        let name = parser.parse_object_name(false)?;
        let mut columns = Vec::new();
        if parser.consume_token(&Token::LParen) {
            columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        CopyTarget::Table { name, columns }
    };
    let from = parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? == Keyword::FROM;
    let wanted = if from {
        Keyword::STDIN
    } else {
        Keyword::STDOUT
    };
    if parser
        .parse_one_of_keywords(&[Keyword::STDIN, Keyword::STDOUT])
        .is_none()
    {
        return parser.expected(&format!("{wanted:?}"), parser.peek_token());
    }
    optional(parser, &[Keyword::WITH]);
    let options = copy_options(parser)?;
    Ok(Copy {
        target,
        from,
        options,
    })
}

fn copy_options(parser: &mut Parser<'_>) -> Parse<CopyOptions> {
    let mut options = CopyOptions::default();
    if parser.consume_token(&Token::LParen) {
        loop {
            copy_option(parser, &mut options)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
        return Ok(options);
    }
    // The spelling of before PostgreSQL 9.0.
    while matches!(parser.peek_token_ref().token, Token::Word(_)) {
        copy_option(parser, &mut options)?;
    }
    Ok(options)
}

fn copy_option(parser: &mut Parser<'_>, options: &mut CopyOptions) -> Parse<()> {
    let token = parser.next_token();
    let Token::Word(word) = &token.token else {
        return parser.expected("an option of COPY", token);
    };
    match word.value.to_ascii_lowercase().as_str() {
        "format" => options.format = copy_format(parser)?,
        "csv" => options.format = CopyFormat::Csv,
        "freeze" => options.freeze = boolean(parser)?,
        "header" => options.header = boolean(parser)?,
        "delimiter" | "delimiters" => options.delimiter = Some(one_character(parser)?),
        "quote" => options.quote = Some(one_character(parser)?),
        "escape" => options.escape = Some(one_character(parser)?),
        "null" => {
            optional(parser, &[Keyword::AS]);
            options.null = Some(parser.parse_literal_string()?);
        }
        "encoding" => {
            let encoding = parser.parse_literal_string()?;
            if !matches!(
                encoding.to_ascii_lowercase().as_str(),
                "utf8" | "utf-8" | "unicode"
            ) {
                return parser.expected("ENCODING 'UTF8'", token);
            }
        }
        _ => return parser.expected("an option of COPY", token),
    }
    Ok(())
}

fn copy_format(parser: &mut Parser<'_>) -> Parse<CopyFormat> {
    let token = parser.next_token();
    let text = match &token.token {
        Token::Word(word) => word.value.to_ascii_lowercase(),
        Token::SingleQuotedString(text) => text.clone(),
        _ => String::new(),
    };
    match text.as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        _ => parser.expected("text or csv", token),
    }
}

fn one_character(parser: &mut Parser<'_>) -> Parse<char> {
    optional(parser, &[Keyword::AS]);
    let token = parser.peek_token();
    let text = parser.parse_literal_string()?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if one.is_ascii() => Ok(one),
        _ => parser.expected("a single one-byte character", token),
    }
}

/// An optional boolean after an option's name; absent means true.
fn boolean(parser: &mut Parser<'_>) -> Parse<bool> {
    let token = parser.peek_token();
    let text = match &token.token {
        Token::Word(word) => word.value.to_ascii_lowercase(),
        Token::Number(number, _) => number.clone(),
        Token::SingleQuotedString(text) => text.to_ascii_lowercase(),
        _ => return Ok(true),
    };
    let value = match text.as_str() {
        "true" | "on" | "1" => true,
        "false" | "off" | "0" => false,
        _ => return Ok(true),
    };
    parser.next_token();
    Ok(value)
}

fn maintenance(parser: &mut Parser<'_>, vacuum: bool) -> Parse<Utility> {
    let mut flags = VacuumFlags::default();
    if parser.consume_token(&Token::LParen) {
        loop {
            maintenance_option(parser, &mut flags)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else {
        for (word, flag) in [
            ("full", &mut flags.full),
            ("freeze", &mut flags.freeze),
            ("verbose", &mut flags.verbose),
        ] {
            if is_word(parser, word) {
                parser.next_token();
                *flag = true;
            }
        }
        if vacuum && (is_word(parser, "analyze") || is_word(parser, "analyse")) {
            parser.next_token();
            flags.analyze = true;
        }
    }
    let mut tables = Vec::new();
    if !matches!(parser.peek_token_ref().token, Token::EOF | Token::SemiColon) {
        tables = parser.parse_comma_separated(|parser| {
            let name = parser.parse_object_name(false)?;
            let mut columns = Vec::new();
            if parser.consume_token(&Token::LParen) {
                let names = parser.parse_comma_separated(Parser::parse_identifier)?;
                columns = names.iter().map(ident_text).collect();
                parser.expect_token(&Token::RParen)?;
            }
            Ok(MaintainedTable { name, columns })
        })?;
    }
    Ok(if vacuum {
        Utility::Vacuum { flags, tables }
    } else {
        Utility::Analyze { flags, tables }
    })
}

/// PROCESS_MAIN, PROCESS_TOAST, PARALLEL and SKIP_DATABASE_STATS tune machinery that is not here:
/// they are read and have no effect.
fn maintenance_option(parser: &mut Parser<'_>, flags: &mut VacuumFlags) -> Parse<()> {
    let token = parser.next_token();
    let Token::Word(word) = &token.token else {
        return parser.expected("an option", token);
    };
    match word.value.to_ascii_lowercase().as_str() {
        "full" => flags.full = boolean(parser)?,
        "freeze" => flags.freeze = boolean(parser)?,
        "verbose" => flags.verbose = boolean(parser)?,
        "analyze" | "analyse" => flags.analyze = boolean(parser)?,
        "skip_locked" => flags.skip_locked = boolean(parser)?,
        "disable_page_skipping" => flags.every_page = boolean(parser)?,
        "only_database_stats" => flags.no_tables = boolean(parser)?,
        "truncate" => flags.truncate = Some(boolean(parser)?),
        "index_cleanup" => {
            let auto = is_word(parser, "auto");
            if auto {
                parser.next_token();
            }
            flags.index_cleanup = if auto { None } else { Some(boolean(parser)?) };
        }
        "buffer_usage_limit" => flags.buffer_usage_limit = Some(setting_value(parser)?),
        "process_main" | "process_toast" | "skip_database_stats" => {
            boolean(parser)?;
        }
        "parallel" => {
            setting_value(parser)?;
        }
        _ => return parser.expected("an option", token),
    }
    Ok(())
}

/// `ALTER TABLE [IF EXISTS] [ONLY] name RESET (parameter, …)`.
fn reset_parameters(parser: &mut Parser<'_>) -> Parse<Utility> {
    parser.expect_keyword(Keyword::ALTER)?;
    parser.expect_keyword(Keyword::TABLE)?;
    optional(parser, &[Keyword::ONLY]);
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword(Keyword::RESET)?;
    parser.expect_token(&Token::LParen)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_token(&Token::RParen)?;
    let names = names.iter().map(ident_text).collect();
    Ok(Utility::ResetParameters { table, names })
}

fn lock_table(parser: &mut Parser<'_>) -> Parse<Utility> {
    optional(parser, &[Keyword::TABLE]);
    optional(parser, &[Keyword::ONLY]);
    let tables = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let mut mode = String::from("access exclusive");
    if parser.parse_keyword(Keyword::IN) {
        mode.clear();
        while !is_word(parser, "mode") {
            let word = parser.parse_identifier()?;
            if !mode.is_empty() {
                mode.push(' ');
            }
            mode.push_str(&word.value.to_ascii_lowercase());
        }
        parser.next_token();
    }
    let nowait = parser.parse_keyword(Keyword::NOWAIT);
    Ok(Utility::LockTable {
        tables,
        mode,
        nowait,
    })
}
