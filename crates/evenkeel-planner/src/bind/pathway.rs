//! Which conversions are possible in a context.

use evenkeel_expr::proc::{CastContext, CastMethod};
use evenkeel_types::SqlType;

use super::{tables, types};

/// How one type becomes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pathway {
    /// Not at all.
    None,
    /// The same bits.
    Relabel,
    /// By a cast.
    Convert,
    /// By the text forms.
    InOut,
}

/// How `source` becomes `target` where casts of `context` are allowed.
pub(super) fn pathway(target: SqlType, source: SqlType, context: CastContext) -> Pathway {
    if types::same(target, source) {
        return Pathway::Relabel;
    }
    // A domain is what the type is that it is over.
    let (target, source) = (target.base(), source.base());
    if types::same(target, source) || types::same(target.storage(), source.storage()) {
        return Pathway::Relabel;
    }
    if let Some(cast) = tables::find_cast(source, target) {
        if context < cast.context {
            return Pathway::None;
        }
        return match cast.method {
            CastMethod::Binary => Pathway::Relabel,
            CastMethod::Convert => Pathway::Convert,
            CastMethod::InOut => Pathway::InOut,
        };
    }
    if !target.is_vector()
        && let (Some(to), Some(from)) = (target.element(), source.element())
        && pathway(to, from, context) != Pathway::None
    {
        return Pathway::Convert;
    }
    let by_text = (context >= CastContext::Assignment && tables::category(target) == 'S')
        || (context >= CastContext::Explicit && tables::category(source) == 'S');
    if by_text {
        Pathway::InOut
    } else {
        Pathway::None
    }
}

/// Whether a value of `source` can become one of `target`.
pub(super) fn can_coerce(source: SqlType, target: SqlType, context: CastContext) -> bool {
    types::same(source, target)
        || source == SqlType::Unknown
        || pathway(target, source, context) != Pathway::None
}
