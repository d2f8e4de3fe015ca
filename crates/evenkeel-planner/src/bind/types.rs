//! Properties of types that the rules of conversion ask for.

use evenkeel_expr::proc::ArgType;
use evenkeel_types::SqlType;

/// Whether two types are the same, modifiers apart.
pub(super) fn same(a: SqlType, b: SqlType) -> bool {
    a.oid() == b.oid()
}

/// As `format_type` names it, without modifier.
pub(super) fn name(ty: SqlType) -> &'static str {
    ty.without_modifier().base_name()
}

/// Whether the declared type stands for many.
pub(super) fn is_polymorphic(arg: ArgType) -> bool {
    !matches!(arg, ArgType::Is(_) | ArgType::Any | ArgType::Record)
}
