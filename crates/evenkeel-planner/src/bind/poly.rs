//! Polymorphic arguments and results: `anyelement` and its kin.

use evenkeel_expr::proc::{ArgType, CastContext};
use evenkeel_types::{SqlState, SqlType};

use super::pathway::can_coerce;
use super::{common_type, types};
use crate::error::{PlanError, PlanResult};

/// Whether the arguments could be those of the declared types; nothing is an error.
pub(super) fn is_consistent(sources: &[SqlType], targets: &[ArgType]) -> bool {
    common_family(sources, targets).is_ok()
        && exact_family(sources, targets).is_ok_and(|family| family.check_plain().is_ok())
}

/// Types of a call after its polymorphic types are resolved.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The types of the arguments; `None` where any type is taken as it is.
    pub(super) args: Vec<Option<SqlType>>,
    /// The type of the result.
    pub(super) result: Option<SqlType>,
}

/// Types found so far for one family of polymorphic types.
#[derive(Debug, Default)]
struct Family {
    element: Option<SqlType>,
    array: Option<SqlType>,
    mentioned: bool,
    /// Whether the element type must be none of arrays.
    plain: bool,
    /// Whether the element type must be an enumerated one.
    labelled: bool,
}

impl Family {
    fn check_plain(&self) -> PlanResult<()> {
        match self.element {
            Some(array) if self.plain && array.element().is_some() => {
                let message = format!(
                    "type matched to anynonarray is an array type: {}",
                    types::name(array)
                );
                Err(mismatch(message))
            }
            other if self.labelled && !matches!(other, Some(SqlType::Enum(_))) => {
                let name = other.map_or("unknown", types::name);
                let message = format!("type matched to anyenum is not an enum type: {name}");
                Err(mismatch(message))
            }
            _ => Ok(()),
        }
    }

    /// The element type, which some argument must have decided.
    fn decided(self) -> PlanResult<Option<SqlType>> {
        if self.mentioned && self.element.is_none() {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(mismatch(message.to_owned()));
        }
        self.check_plain()?;
        Ok(self.element)
    }
}

/// The types that the declared ones stand for, with those of the given arguments.
///
/// # Errors
/// 42804 where arguments that must be alike are not, 42P18 where nothing decides.
pub(super) fn resolve(
    sources: &[SqlType],
    targets: &[ArgType],
    result: Option<ArgType>,
) -> PlanResult<Resolved> {
    let element = exact_family(sources, targets)?.decided()?;
    let common = common_family(sources, targets)?;
    let concrete = |arg: ArgType| -> PlanResult<Option<SqlType>> {
        Ok(match arg {
            ArgType::Is(ty) => Some(ty),
            ArgType::Record => Some(SqlType::Record),
            ArgType::Any => None,
            ArgType::AnyElement | ArgType::AnyNonArray | ArgType::AnyEnum => element,
            ArgType::AnyArray => element.map(array_type).transpose()?,
            ArgType::AnyCompatible => common,
            ArgType::AnyCompatibleArray => common.map(array_type).transpose()?,
        })
    };
    let args: PlanResult<Vec<_>> = targets.iter().map(|arg| concrete(*arg)).collect();
    Ok(Resolved {
        args: args?,
        result: result.map_or(Ok(None), concrete)?,
    })
}

fn array_type(element: SqlType) -> PlanResult<SqlType> {
    // An array of arrays is no type of its own.
    if let SqlType::Array(..) = element {
        return Ok(element);
    }
    element.array_of().ok_or_else(|| {
        let message = format!(
            "could not find array type for data type {}",
            types::name(element)
        );
        PlanError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

fn mismatch(message: String) -> PlanError {
    PlanError::new(SqlState::DATATYPE_MISMATCH, message)
}

/// The element type of `anyelement`, `anyarray`, `anynonarray` and `anyenum`, which must agree.
fn exact_family(sources: &[SqlType], targets: &[ArgType]) -> PlanResult<Family> {
    let mut family = Family::default();
    for (source, target) in sources.iter().zip(targets) {
        let (slot, word) = match target {
            ArgType::AnyElement | ArgType::AnyNonArray | ArgType::AnyEnum => {
                (&mut family.element, "anyelement")
            }
            ArgType::AnyArray => (&mut family.array, "anyarray"),
            _ => continue,
        };
        family.plain |= *target == ArgType::AnyNonArray;
        family.labelled |= *target == ArgType::AnyEnum;
        family.mentioned = true;
        if *source == SqlType::Unknown {
            continue;
        }
        let source = match target {
            ArgType::AnyArray => source.base().without_modifier(),
            _ => source.without_modifier(),
        };
        match slot {
            Some(known) if !types::same(*known, source) => {
                let detail = format!("{} versus {}", types::name(*known), types::name(source));
                let message = format!("arguments declared \"{word}\" are not all alike");
                return Err(mismatch(message).detail(detail));
            }
            _ => *slot = Some(source),
        }
    }
    let element = match (family.element, family.array) {
        (element, Some(array)) => {
            let Some(of_array) = array.element() else {
                let message = format!(
                    "argument declared anyarray is not an array but type {}",
                    types::name(array)
                );
                return Err(mismatch(message));
            };
            match element {
                Some(element) if !types::same(element, of_array) => {
                    let detail = format!("{} versus {}", types::name(array), types::name(element));
                    let message = "argument declared anyarray is not consistent with argument \
                                   declared anyelement";
                    return Err(mismatch(message.to_owned()).detail(detail));
                }
                _ => Some(of_array),
            }
        }
        (element, None) => element,
    };
    Ok(Family { element, ..family })
}

/// The common type of `anycompatible` and `anycompatiblearray`.
fn common_family(sources: &[SqlType], targets: &[ArgType]) -> PlanResult<Option<SqlType>> {
    let mut members = Vec::new();
    let mut mentioned = false;
    for (source, target) in sources.iter().zip(targets) {
        mentioned |= matches!(target, ArgType::AnyCompatible | ArgType::AnyCompatibleArray);
        match target {
            ArgType::AnyCompatible if *source != SqlType::Unknown => {
                members.push(source.without_modifier());
            }
            ArgType::AnyCompatibleArray if *source != SqlType::Unknown => {
                let Some(element) = source.element() else {
                    let message = format!(
                        "argument declared anycompatiblearray is not an array but type {}",
                        types::name(*source)
                    );
                    return Err(mismatch(message));
                };
                members.push(element);
            }
            _ => {}
        }
    }
    if !mentioned {
        return Ok(None);
    }
    let common = common_type::select_types(&members)
        .map_err(|_| mismatch("arguments of anycompatible family cannot be matched".into()))?;
    let fits = |ty: &SqlType| can_coerce(*ty, common, CastContext::Implicit);
    if !members.iter().all(fits) {
        let message = "arguments of anycompatible family cannot be cast to a common type";
        return Err(mismatch(message.into()));
    }
    Ok(Some(common))
}
