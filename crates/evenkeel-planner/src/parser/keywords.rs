//! The keywords of PostgreSQL 18, as `pg_get_keywords()` lists them.

/// Where a keyword may stand for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    /// Any name.
    Unreserved,
    /// Any name but that of a function or type.
    ColumnName,
    /// The name of a function or type only.
    TypeOrFunction,
    /// No name but a label after AS.
    Reserved,
}

use Category::{ColumnName, Reserved, TypeOrFunction, Unreserved};

macro_rules! keywords {
    ($($text:literal $name:ident $category:ident $bare:literal;)*) => {
        /// A keyword.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub(super) enum Kw { $($name,)* }

        const KEYWORDS: &[(&str, Kw, Category, bool)] = &[
            $(($text, Kw::$name, $category, $bare),)*
        ];
    };
}

impl Kw {
    /// The keyword that `word` is in any case.
    pub(super) fn of(word: &[u8]) -> Option<Kw> {
        if word.len() > LONGEST {
            return None;
        }
        let mut place = hash(word);
        loop {
            let index = TABLE[place & MASK];
            if index == EMPTY {
                return None;
            }
            let (text, keyword, ..) = KEYWORDS[index as usize];
            if text.as_bytes().eq_ignore_ascii_case(word) {
                return Some(keyword);
            }
            place += 1;
        }
    }

    /// In lower case.
    pub(super) fn text(self) -> &'static str {
        KEYWORDS[self as usize].0
    }

    /// Where it may stand for a name.
    pub(super) fn category(self) -> Category {
        KEYWORDS[self as usize].2
    }

    /// Whether it may be the label of a column without AS.
    pub(super) fn is_bare_label(self) -> bool {
        KEYWORDS[self as usize].3
    }
}

const LONGEST: usize = {
    let mut longest = 0;
    let mut index = 0;
    while index < KEYWORDS.len() {
        if KEYWORDS[index].0.len() > longest {
            longest = KEYWORDS[index].0.len();
        }
        index += 1;
    }
    longest
};

const MASK: usize = 2047;
const EMPTY: u16 = u16::MAX;

/// Open addressing; a quarter full, so that a probe ends soon.
static TABLE: [u16; MASK + 1] = {
    let mut table = [EMPTY; MASK + 1];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let mut place = hash(KEYWORDS[index].0.as_bytes());
        while table[place & MASK] != EMPTY {
            place += 1;
        }
        table[place & MASK] = index as u16;
        index += 1;
    }
    table
};

const fn hash(word: &[u8]) -> usize {
    let mut hash: u32 = 0;
    let mut index = 0;
    while index < word.len() {
        hash = (hash ^ (word[index] | 0x20) as u32).wrapping_mul(0x0100_0193);
        index += 1;
    }
    (hash ^ (hash >> 15)) as usize
}

keywords! {
    "abort" Abort Unreserved true;
    "absent" Absent Unreserved true;
    "absolute" Absolute Unreserved true;
    "access" Access Unreserved true;
    "action" Action Unreserved true;
    "add" Add Unreserved true;
    "admin" Admin Unreserved true;
    "after" After Unreserved true;
    "aggregate" Aggregate Unreserved true;
    "all" All Reserved true;
    "also" Also Unreserved true;
    "alter" Alter Unreserved true;
    "always" Always Unreserved true;
    "analyse" Analyse Reserved true;
    "analyze" Analyze Reserved true;
    "and" And Reserved true;
    "any" Any Reserved true;
    "array" Array Reserved false;
    "as" As Reserved false;
    "asc" Asc Reserved true;
    "asensitive" Asensitive Unreserved true;
    "assertion" Assertion Unreserved true;
    "assignment" Assignment Unreserved true;
    "asymmetric" Asymmetric Reserved true;
    "at" At Unreserved true;
    "atomic" Atomic Unreserved true;
    "attach" Attach Unreserved true;
    "attribute" Attribute Unreserved true;
    "authorization" Authorization TypeOrFunction true;
    "backward" Backward Unreserved true;
    "before" Before Unreserved true;
    "begin" Begin Unreserved true;
    "between" Between ColumnName true;
    "bigint" Bigint ColumnName true;
    "binary" Binary TypeOrFunction true;
    "bit" Bit ColumnName true;
    "boolean" Boolean ColumnName true;
    "both" Both Reserved true;
    "breadth" Breadth Unreserved true;
    "by" By Unreserved true;
    "cache" Cache Unreserved true;
    "call" Call Unreserved true;
    "called" Called Unreserved true;
    "cascade" Cascade Unreserved true;
    "cascaded" Cascaded Unreserved true;
    "case" Case Reserved true;
    "cast" Cast Reserved true;
    "catalog" Catalog Unreserved true;
    "chain" Chain Unreserved true;
    "char" Char ColumnName false;
    "character" Character ColumnName false;
    "characteristics" Characteristics Unreserved true;
    "check" Check Reserved true;
    "checkpoint" Checkpoint Unreserved true;
    "class" Class Unreserved true;
    "close" Close Unreserved true;
    "cluster" Cluster Unreserved true;
    "coalesce" Coalesce ColumnName true;
    "collate" Collate Reserved true;
    "collation" Collation TypeOrFunction true;
    "column" Column Reserved true;
    "columns" Columns Unreserved true;
    "comment" Comment Unreserved true;
    "comments" Comments Unreserved true;
    "commit" Commit Unreserved true;
    "committed" Committed Unreserved true;
    "compression" Compression Unreserved true;
    "concurrently" Concurrently TypeOrFunction true;
    "conditional" Conditional Unreserved true;
    "configuration" Configuration Unreserved true;
    "conflict" Conflict Unreserved true;
    "connection" Connection Unreserved true;
    "constraint" Constraint Reserved true;
    "constraints" Constraints Unreserved true;
    "content" Content Unreserved true;
    "continue" Continue Unreserved true;
    "conversion" Conversion Unreserved true;
    "copy" Copy Unreserved true;
    "cost" Cost Unreserved true;
    "create" Create Reserved false;
    "cross" Cross TypeOrFunction true;
    "csv" Csv Unreserved true;
    "cube" Cube Unreserved true;
    "current" Current Unreserved true;
    "current_catalog" CurrentCatalog Reserved true;
    "current_date" CurrentDate Reserved true;
    "current_role" CurrentRole Reserved true;
    "current_schema" CurrentSchema TypeOrFunction true;
    "current_time" CurrentTime Reserved true;
    "current_timestamp" CurrentTimestamp Reserved true;
    "current_user" CurrentUser Reserved true;
    "cursor" Cursor Unreserved true;
    "cycle" Cycle Unreserved true;
    "data" Data Unreserved true;
    "database" Database Unreserved true;
    "day" Day Unreserved false;
    "deallocate" Deallocate Unreserved true;
    "dec" Dec ColumnName true;
    "decimal" Decimal ColumnName true;
    "declare" Declare Unreserved true;
    "default" Default Reserved true;
    "defaults" Defaults Unreserved true;
    "deferrable" Deferrable Reserved true;
    "deferred" Deferred Unreserved true;
    "definer" Definer Unreserved true;
    "delete" Delete Unreserved true;
    "delimiter" Delimiter Unreserved true;
    "delimiters" Delimiters Unreserved true;
    "depends" Depends Unreserved true;
    "depth" Depth Unreserved true;
    "desc" Desc Reserved true;
    "detach" Detach Unreserved true;
    "dictionary" Dictionary Unreserved true;
    "disable" Disable Unreserved true;
    "discard" Discard Unreserved true;
    "distinct" Distinct Reserved true;
    "do" Do Reserved true;
    "document" Document Unreserved true;
    "domain" Domain Unreserved true;
    "double" Double Unreserved true;
    "drop" Drop Unreserved true;
    "each" Each Unreserved true;
    "else" Else Reserved true;
    "empty" Empty Unreserved true;
    "enable" Enable Unreserved true;
    "encoding" Encoding Unreserved true;
    "encrypted" Encrypted Unreserved true;
    "end" End Reserved true;
    "enforced" Enforced Unreserved true;
    "enum" Enum Unreserved true;
    "error" Error Unreserved true;
    "escape" Escape Unreserved true;
    "event" Event Unreserved true;
    "except" Except Reserved false;
    "exclude" Exclude Unreserved true;
    "excluding" Excluding Unreserved true;
    "exclusive" Exclusive Unreserved true;
    "execute" Execute Unreserved true;
    "exists" Exists ColumnName true;
    "explain" Explain Unreserved true;
    "expression" Expression Unreserved true;
    "extension" Extension Unreserved true;
    "external" External Unreserved true;
    "extract" Extract ColumnName true;
    "false" False Reserved true;
    "family" Family Unreserved true;
    "fetch" Fetch Reserved false;
    "filter" Filter Unreserved false;
    "finalize" Finalize Unreserved true;
    "first" First Unreserved true;
    "float" Float ColumnName true;
    "following" Following Unreserved true;
    "for" For Reserved false;
    "force" Force Unreserved true;
    "foreign" Foreign Reserved true;
    "format" Format Unreserved true;
    "forward" Forward Unreserved true;
    "freeze" Freeze TypeOrFunction true;
    "from" From Reserved false;
    "full" Full TypeOrFunction true;
    "function" Function Unreserved true;
    "functions" Functions Unreserved true;
    "generated" Generated Unreserved true;
    "global" Global Unreserved true;
    "grant" Grant Reserved false;
    "granted" Granted Unreserved true;
    "greatest" Greatest ColumnName true;
    "group" Group Reserved false;
    "grouping" Grouping ColumnName true;
    "groups" Groups Unreserved true;
    "handler" Handler Unreserved true;
    "having" Having Reserved false;
    "header" Header Unreserved true;
    "hold" Hold Unreserved true;
    "hour" Hour Unreserved false;
    "identity" Identity Unreserved true;
    "if" If Unreserved true;
    "ilike" Ilike TypeOrFunction true;
    "immediate" Immediate Unreserved true;
    "immutable" Immutable Unreserved true;
    "implicit" Implicit Unreserved true;
    "import" Import Unreserved true;
    "in" In Reserved true;
    "include" Include Unreserved true;
    "including" Including Unreserved true;
    "increment" Increment Unreserved true;
    "indent" Indent Unreserved true;
    "index" Index Unreserved true;
    "indexes" Indexes Unreserved true;
    "inherit" Inherit Unreserved true;
    "inherits" Inherits Unreserved true;
    "initially" Initially Reserved true;
    "inline" Inline Unreserved true;
    "inner" Inner TypeOrFunction true;
    "inout" Inout ColumnName true;
    "input" Input Unreserved true;
    "insensitive" Insensitive Unreserved true;
    "insert" Insert Unreserved true;
    "instead" Instead Unreserved true;
    "int" Int ColumnName true;
    "integer" Integer ColumnName true;
    "intersect" Intersect Reserved false;
    "interval" Interval ColumnName true;
    "into" Into Reserved false;
    "invoker" Invoker Unreserved true;
    "is" Is TypeOrFunction true;
    "isnull" Isnull TypeOrFunction false;
    "isolation" Isolation Unreserved true;
    "join" Join TypeOrFunction true;
    "json" Json ColumnName true;
    "json_array" JsonArray ColumnName true;
    "json_arrayagg" JsonArrayagg ColumnName true;
    "json_exists" JsonExists ColumnName true;
    "json_object" JsonObject ColumnName true;
    "json_objectagg" JsonObjectagg ColumnName true;
    "json_query" JsonQuery ColumnName true;
    "json_scalar" JsonScalar ColumnName true;
    "json_serialize" JsonSerialize ColumnName true;
    "json_table" JsonTable ColumnName true;
    "json_value" JsonValue ColumnName true;
    "keep" Keep Unreserved true;
    "key" Key Unreserved true;
    "keys" Keys Unreserved true;
    "label" Label Unreserved true;
    "language" Language Unreserved true;
    "large" Large Unreserved true;
    "last" Last Unreserved true;
    "lateral" Lateral Reserved true;
    "leading" Leading Reserved true;
    "leakproof" Leakproof Unreserved true;
    "least" Least ColumnName true;
    "left" Left TypeOrFunction true;
    "level" Level Unreserved true;
    "like" Like TypeOrFunction true;
    "limit" Limit Reserved false;
    "listen" Listen Unreserved true;
    "load" Load Unreserved true;
    "local" Local Unreserved true;
    "localtime" Localtime Reserved true;
    "localtimestamp" Localtimestamp Reserved true;
    "location" Location Unreserved true;
    "lock" Lock Unreserved true;
    "locked" Locked Unreserved true;
    "logged" Logged Unreserved true;
    "mapping" Mapping Unreserved true;
    "match" Match Unreserved true;
    "matched" Matched Unreserved true;
    "materialized" Materialized Unreserved true;
    "maxvalue" Maxvalue Unreserved true;
    "merge" Merge Unreserved true;
    "merge_action" MergeAction ColumnName true;
    "method" Method Unreserved true;
    "minute" Minute Unreserved false;
    "minvalue" Minvalue Unreserved true;
    "mode" Mode Unreserved true;
    "month" Month Unreserved false;
    "move" Move Unreserved true;
    "name" Name Unreserved true;
    "names" Names Unreserved true;
    "national" National ColumnName true;
    "natural" Natural TypeOrFunction true;
    "nchar" Nchar ColumnName true;
    "nested" Nested Unreserved true;
    "new" New Unreserved true;
    "next" Next Unreserved true;
    "nfc" Nfc Unreserved true;
    "nfd" Nfd Unreserved true;
    "nfkc" Nfkc Unreserved true;
    "nfkd" Nfkd Unreserved true;
    "no" No Unreserved true;
    "none" None ColumnName true;
    "normalize" Normalize ColumnName true;
    "normalized" Normalized Unreserved true;
    "not" Not Reserved true;
    "nothing" Nothing Unreserved true;
    "notify" Notify Unreserved true;
    "notnull" Notnull TypeOrFunction false;
    "nowait" Nowait Unreserved true;
    "null" Null Reserved true;
    "nullif" Nullif ColumnName true;
    "nulls" Nulls Unreserved true;
    "numeric" Numeric ColumnName true;
    "object" Object Unreserved true;
    "objects" Objects Unreserved true;
    "of" Of Unreserved true;
    "off" Off Unreserved true;
    "offset" Offset Reserved false;
    "oids" Oids Unreserved true;
    "old" Old Unreserved true;
    "omit" Omit Unreserved true;
    "on" On Reserved false;
    "only" Only Reserved true;
    "operator" Operator Unreserved true;
    "option" Option Unreserved true;
    "options" Options Unreserved true;
    "or" Or Reserved true;
    "order" Order Reserved false;
    "ordinality" Ordinality Unreserved true;
    "others" Others Unreserved true;
    "out" Out ColumnName true;
    "outer" Outer TypeOrFunction true;
    "over" Over Unreserved false;
    "overlaps" Overlaps TypeOrFunction false;
    "overlay" Overlay ColumnName true;
    "overriding" Overriding Unreserved true;
    "owned" Owned Unreserved true;
    "owner" Owner Unreserved true;
    "parallel" Parallel Unreserved true;
    "parameter" Parameter Unreserved true;
    "parser" Parser Unreserved true;
    "partial" Partial Unreserved true;
    "partition" Partition Unreserved true;
    "passing" Passing Unreserved true;
    "password" Password Unreserved true;
    "path" Path Unreserved true;
    "period" Period Unreserved true;
    "placing" Placing Reserved true;
    "plan" Plan Unreserved true;
    "plans" Plans Unreserved true;
    "policy" Policy Unreserved true;
    "position" Position ColumnName true;
    "preceding" Preceding Unreserved true;
    "precision" Precision ColumnName false;
    "prepare" Prepare Unreserved true;
    "prepared" Prepared Unreserved true;
    "preserve" Preserve Unreserved true;
    "primary" Primary Reserved true;
    "prior" Prior Unreserved true;
    "privileges" Privileges Unreserved true;
    "procedural" Procedural Unreserved true;
    "procedure" Procedure Unreserved true;
    "procedures" Procedures Unreserved true;
    "program" Program Unreserved true;
    "publication" Publication Unreserved true;
    "quote" Quote Unreserved true;
    "quotes" Quotes Unreserved true;
    "range" Range Unreserved true;
    "read" Read Unreserved true;
    "real" Real ColumnName true;
    "reassign" Reassign Unreserved true;
    "recursive" Recursive Unreserved true;
    "ref" Ref Unreserved true;
    "references" References Reserved true;
    "referencing" Referencing Unreserved true;
    "refresh" Refresh Unreserved true;
    "reindex" Reindex Unreserved true;
    "relative" Relative Unreserved true;
    "release" Release Unreserved true;
    "rename" Rename Unreserved true;
    "repeatable" Repeatable Unreserved true;
    "replace" Replace Unreserved true;
    "replica" Replica Unreserved true;
    "reset" Reset Unreserved true;
    "restart" Restart Unreserved true;
    "restrict" Restrict Unreserved true;
    "return" Return Unreserved true;
    "returning" Returning Reserved false;
    "returns" Returns Unreserved true;
    "revoke" Revoke Unreserved true;
    "right" Right TypeOrFunction true;
    "role" Role Unreserved true;
    "rollback" Rollback Unreserved true;
    "rollup" Rollup Unreserved true;
    "routine" Routine Unreserved true;
    "routines" Routines Unreserved true;
    "row" Row ColumnName true;
    "rows" Rows Unreserved true;
    "rule" Rule Unreserved true;
    "savepoint" Savepoint Unreserved true;
    "scalar" Scalar Unreserved true;
    "schema" Schema Unreserved true;
    "schemas" Schemas Unreserved true;
    "scroll" Scroll Unreserved true;
    "search" Search Unreserved true;
    "second" Second Unreserved false;
    "security" Security Unreserved true;
    "select" Select Reserved true;
    "sequence" Sequence Unreserved true;
    "sequences" Sequences Unreserved true;
    "serializable" Serializable Unreserved true;
    "server" Server Unreserved true;
    "session" Session Unreserved true;
    "session_user" SessionUser Reserved true;
    "set" Set Unreserved true;
    "setof" Setof ColumnName true;
    "sets" Sets Unreserved true;
    "share" Share Unreserved true;
    "show" Show Unreserved true;
    "similar" Similar TypeOrFunction true;
    "simple" Simple Unreserved true;
    "skip" Skip Unreserved true;
    "smallint" Smallint ColumnName true;
    "snapshot" Snapshot Unreserved true;
    "some" Some Reserved true;
    "source" Source Unreserved true;
    "sql" Sql Unreserved true;
    "stable" Stable Unreserved true;
    "standalone" Standalone Unreserved true;
    "start" Start Unreserved true;
    "statement" Statement Unreserved true;
    "statistics" Statistics Unreserved true;
    "stdin" Stdin Unreserved true;
    "stdout" Stdout Unreserved true;
    "storage" Storage Unreserved true;
    "stored" Stored Unreserved true;
    "strict" Strict Unreserved true;
    "string" String Unreserved true;
    "strip" Strip Unreserved true;
    "subscription" Subscription Unreserved true;
    "substring" Substring ColumnName true;
    "support" Support Unreserved true;
    "symmetric" Symmetric Reserved true;
    "sysid" Sysid Unreserved true;
    "system" System Unreserved true;
    "system_user" SystemUser Reserved true;
    "table" Table Reserved true;
    "tables" Tables Unreserved true;
    "tablesample" Tablesample TypeOrFunction true;
    "tablespace" Tablespace Unreserved true;
    "target" Target Unreserved true;
    "temp" Temp Unreserved true;
    "template" Template Unreserved true;
    "temporary" Temporary Unreserved true;
    "text" Text Unreserved true;
    "then" Then Reserved true;
    "ties" Ties Unreserved true;
    "time" Time ColumnName true;
    "timestamp" Timestamp ColumnName true;
    "to" To Reserved false;
    "trailing" Trailing Reserved true;
    "transaction" Transaction Unreserved true;
    "transform" Transform Unreserved true;
    "treat" Treat ColumnName true;
    "trigger" Trigger Unreserved true;
    "trim" Trim ColumnName true;
    "true" True Reserved true;
    "truncate" Truncate Unreserved true;
    "trusted" Trusted Unreserved true;
    "type" Type Unreserved true;
    "types" Types Unreserved true;
    "uescape" Uescape Unreserved true;
    "unbounded" Unbounded Unreserved true;
    "uncommitted" Uncommitted Unreserved true;
    "unconditional" Unconditional Unreserved true;
    "unencrypted" Unencrypted Unreserved true;
    "union" Union Reserved false;
    "unique" Unique Reserved true;
    "unknown" Unknown Unreserved true;
    "unlisten" Unlisten Unreserved true;
    "unlogged" Unlogged Unreserved true;
    "until" Until Unreserved true;
    "update" Update Unreserved true;
    "user" User Reserved true;
    "using" Using Reserved true;
    "vacuum" Vacuum Unreserved true;
    "valid" Valid Unreserved true;
    "validate" Validate Unreserved true;
    "validator" Validator Unreserved true;
    "value" Value Unreserved true;
    "values" Values ColumnName true;
    "varchar" Varchar ColumnName true;
    "variadic" Variadic Reserved true;
    "varying" Varying Unreserved false;
    "verbose" Verbose TypeOrFunction true;
    "version" Version Unreserved true;
    "view" View Unreserved true;
    "views" Views Unreserved true;
    "virtual" Virtual Unreserved true;
    "volatile" Volatile Unreserved true;
    "when" When Reserved true;
    "where" Where Reserved false;
    "whitespace" Whitespace Unreserved true;
    "window" Window Reserved false;
    "with" With Reserved false;
    "within" Within Unreserved false;
    "without" Without Unreserved false;
    "work" Work Unreserved true;
    "wrapper" Wrapper Unreserved true;
    "write" Write Unreserved true;
    "xml" Xml Unreserved true;
    "xmlattributes" Xmlattributes ColumnName true;
    "xmlconcat" Xmlconcat ColumnName true;
    "xmlelement" Xmlelement ColumnName true;
    "xmlexists" Xmlexists ColumnName true;
    "xmlforest" Xmlforest ColumnName true;
    "xmlnamespaces" Xmlnamespaces ColumnName true;
    "xmlparse" Xmlparse ColumnName true;
    "xmlpi" Xmlpi ColumnName true;
    "xmlroot" Xmlroot ColumnName true;
    "xmlserialize" Xmlserialize ColumnName true;
    "xmltable" Xmltable ColumnName true;
    "year" Year Unreserved false;
    "yes" Yes Unreserved true;
    "zone" Zone Unreserved true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (text, keyword, ..) in KEYWORDS {
            assert_eq!(Kw::of(text.as_bytes()), Some(*keyword));
            assert_eq!(Kw::of(text.to_uppercase().as_bytes()), Some(*keyword));
            assert_eq!(keyword.text(), *text);
        }
        for other in ["", "selec", "selects", "a", "_", "É", "current_dat\u{ff}"] {
            assert_eq!(Kw::of(other.as_bytes()), None, "{other}");
        }
    }
}
