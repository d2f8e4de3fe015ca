//! `json_agg`, `json_object_agg` and those of `jsonb`.

use std::collections::HashSet;

use evenkeel_types::{Datum, JsonbBuilder, SqlState, SqlType, TypeError, TypeResult, escape_json};

use crate::call::Session;
use crate::json::{As, Out, Tree, add_key, add_value, becomes_null, null_key, put_value, text_of};
use crate::proc::{Accumulator, AggregateTypes, ArgType, Proc};

use super::rows::aggregate;

/// Differences of the aggregates from one another.
#[derive(Debug, Clone, Copy)]
struct Way {
    object: bool,
    /// NULL values are left out.
    strict: bool,
    /// Names come once.
    unique: bool,
}

const fn array(strict: bool) -> Way {
    Way {
        object: false,
        strict,
        unique: false,
    }
}

const fn object(strict: bool, unique: bool) -> Way {
    Way {
        object: true,
        strict,
        unique,
    }
}

const JSON: ArgType = ArgType::Is(SqlType::Json);
const JSONB: ArgType = ArgType::Is(SqlType::Jsonb);
const VALUE: &[ArgType] = &[ArgType::AnyElement];
const PAIR: &[ArgType] = &[ArgType::Any, ArgType::Any];

macro_rules! texts {
    ($($oid:literal $name:literal $args:ident $way:expr;)*) => {
        [$(Proc {
            volatility: crate::proc::Volatility::Stable,
            ..aggregate($oid, $name, $args, JSON, |types| Box::new(Text::new(types, $way)))
        },)*]
    };
}

macro_rules! trees {
    ($($oid:literal $name:literal $args:ident $mode:ident $way:expr;)*) => {
        [$(Proc {
            volatility: crate::proc::Volatility::$mode,
            ..aggregate($oid, $name, $args, JSONB, |types| Box::new(Binary::new(types, $way)))
        },)*]
    };
}

pub(super) static OF_JSON: [Proc; 6] = texts! {
    3175 "json_agg" VALUE array(false);
    6276 "json_agg_strict" VALUE array(true);
    3197 "json_object_agg" PAIR object(false, false);
    6280 "json_object_agg_strict" PAIR object(true, false);
    6281 "json_object_agg_unique" PAIR object(false, true);
    6282 "json_object_agg_unique_strict" PAIR object(true, true);
};

pub(super) static OF_JSONB: [Proc; 6] = trees! {
    3267 "jsonb_agg" VALUE Stable array(false);
    6284 "jsonb_agg_strict" VALUE Stable array(true);
    3270 "jsonb_object_agg" PAIR Immutable object(false, false);
    6288 "jsonb_object_agg_strict" PAIR Immutable object(true, false);
    6289 "jsonb_object_agg_unique" PAIR Immutable object(false, true);
    6290 "jsonb_object_agg_unique_strict" PAIR Immutable object(true, true);
};

/// The arguments' types, and the names so far.
#[derive(Debug, Clone)]
struct Common {
    way: Way,
    types: Vec<SqlType>,
    keys: HashSet<String>,
    key_bytes: usize,
}

fn wrong_arguments() -> TypeError {
    TypeError::internal("an aggregate of JSON has other arguments")
}

impl Common {
    fn new(types: &AggregateTypes<'_>, way: Way) -> Common {
        Common {
            way,
            types: types.args.to_vec(),
            keys: HashSet::new(),
            key_bytes: 0,
        }
    }

    fn type_of(&self, at: usize) -> SqlType {
        self.types.get(at).copied().unwrap_or(SqlType::Text)
    }

    /// The name, which is not NULL, and the value.
    fn pair<'a>(&self, args: &'a [Datum]) -> TypeResult<(Option<&'a Datum>, &'a Datum)> {
        match args {
            [value] if !self.way.object => Ok((None, value)),
            [key, value] if self.way.object => Ok((Some(key), value)),
            _ => Err(wrong_arguments()),
        }
    }

    /// Whether a row is left out. Its name counts, if names come once.
    fn is_out(&self, value: &Datum) -> bool {
        self.way.strict && value.is_null()
    }

    /// False if this name was there.
    fn is_new(&mut self, key: &Datum, session: &dyn Session) -> TypeResult<bool> {
        if !self.way.unique {
            return Ok(true);
        }
        let key = text_of(key, self.type_of(0), session)?.into_owned();
        self.key_bytes += key.len() + size_of::<String>() * 2;
        Ok(self.keys.insert(key))
    }
}

/// 22030
fn duplicate(key: Option<&str>) -> TypeError {
    let message = match key {
        Some(key) => {
            let mut shown = Vec::new();
            escape_json(key, &mut shown);
            let shown = String::from_utf8_lossy(&shown).into_owned();
            format!("duplicate JSON object key value: {shown}")
        }
        None => "duplicate JSON object key value".to_owned(),
    };
    TypeError::new(SqlState::DUPLICATE_JSON_OBJECT_KEY_VALUE, message)
}

/// A `json` that grows.
#[derive(Debug, Clone)]
struct Text {
    common: Common,
    text: Option<Vec<u8>>,
}

impl Text {
    fn new(types: &AggregateTypes<'_>, way: Way) -> Text {
        Text {
            common: Common::new(types, way),
            text: None,
        }
    }

    fn append(
        &self,
        out: &mut Out<'_>,
        key: Option<&Datum>,
        value: &Datum,
        session: &dyn Session,
    ) -> TypeResult<()> {
        let common = &self.common;
        let first = out.text.len() == if common.way.object { 2 } else { 1 };
        if !first {
            out.put(", ");
        }
        let ty = common.type_of(usize::from(key.is_some()));
        if let Some(key) = key {
            put_value(out, key, common.type_of(0), As::Key, session)?;
            out.put(" : ");
        } else if !first && matches!(value, Datum::Array(_) | Datum::Record(_)) {
            out.put("\n ");
        }
        put_value(out, value, ty, As::Value, session)
    }

    fn end(text: Option<Vec<u8>>, object: bool) -> Datum {
        let Some(mut text) = text else {
            return Datum::Null;
        };
        text.extend_from_slice(if object { b" }" } else { b"]" });
        String::from_utf8(text).unwrap_or_default().into()
    }
}

impl Accumulator for Text {
    fn add(&mut self, args: &[Datum], session: &dyn Session) -> TypeResult<()> {
        let object = self.common.way.object;
        let start = if object { "{ " } else { "[" };
        let text = self.text.get_or_insert_with(|| start.into());
        let text = std::mem::take(text);
        let (key, value) = self.common.pair(args)?;
        if let Some(key) = key {
            if key.is_null() {
                return Err(null_key());
            }
            if !self.common.is_new(key, session)? {
                let key = text_of(key, self.common.type_of(0), session)?;
                return Err(duplicate(Some(&key)));
            }
        }
        let mut out = Out::resume(session, text);
        if !self.common.is_out(value) {
            self.append(&mut out, key, value, session)?;
        }
        self.text = Some(out.text);
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Text::end(self.text.clone(), self.common.way.object))
    }

    fn finish(self: Box<Self>, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Text::end(self.text, self.common.way.object))
    }

    fn bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + self.common.key_bytes + text
    }
}

/// A `jsonb` that grows.
#[derive(Clone)]
struct Binary {
    common: Common,
    builder: Option<JsonbBuilder>,
}

impl Binary {
    fn new(types: &AggregateTypes<'_>, way: Way) -> Binary {
        Binary {
            common: Common::new(types, way),
            builder: None,
        }
    }

    fn end(builder: Option<JsonbBuilder>) -> TypeResult<Datum> {
        let Some(mut builder) = builder else {
            return Ok(Datum::Null);
        };
        builder.end()?;
        builder.finish().map(Datum::Jsonb)
    }
}

impl Accumulator for Binary {
    fn add(&mut self, args: &[Datum], session: &dyn Session) -> TypeResult<()> {
        let mut builder = match self.builder.take() {
            Some(builder) => builder,
            None => {
                let mut builder = JsonbBuilder::new();
                match self.common.way.object {
                    true => builder.begin_object()?,
                    false => builder.begin_array()?,
                }
                builder
            }
        };
        let (key, value) = self.common.pair(args)?;
        if let Some(key) = key {
            if key.is_null() {
                let message = "field name must not be null";
                return Err(TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            if !self.common.is_new(key, session)? {
                return Err(duplicate(None));
            }
        }
        let ty = self.common.type_of(usize::from(key.is_some()));
        let is_out = match key {
            Some(_) => self.common.way.strict && becomes_null(value, ty),
            None => self.common.is_out(value),
        };
        if !is_out {
            let mut tree = Tree::resume(session, builder);
            if let Some(key) = key {
                add_key(&mut tree, key, self.common.type_of(0), session)?;
            }
            add_value(&mut tree, value, ty, session, 0)?;
            builder = tree.builder;
        }
        self.builder = Some(builder);
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Binary::end(self.builder.clone())
    }

    fn finish(self: Box<Self>, _session: &dyn Session) -> TypeResult<Datum> {
        Binary::end(self.builder)
    }

    fn bytes(&self) -> usize {
        let builder = self.builder.as_ref().map_or(0, JsonbBuilder::bytes);
        size_of::<Self>() + self.common.key_bytes + builder
    }
}
