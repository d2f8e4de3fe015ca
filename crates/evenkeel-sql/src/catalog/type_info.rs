//! A type that was created, as the catalog knows it.

use std::sync::Arc;

use evenkeel_engine::Tid;
use evenkeel_types::enums::{EnumLabel, EnumParts, EnumType, EnumValue};
use evenkeel_types::{ArrayValue, CreatedType};
use evenkeel_types::{DomainCheck, DomainParts, DomainType};

use super::Oid;
use super::fields::{Fields, damaged};
use crate::error::{SqlError, SqlResult};
use crate::quote::quote_ident;
use crate::types::{Datum, SqlType};

/// A type that was created. Never changes: another definition is another `TypeInfo`.
#[derive(Debug, Clone)]
pub struct TypeInfo {
    /// `pg_type.oid`
    pub oid: Oid,
    /// The oid of the type of its arrays.
    pub array_oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Name of its schema.
    pub schema: Arc<str>,
    /// Oid of its schema.
    pub schema_oid: Oid,
    /// The rest, by its kind.
    pub body: TypeBody,
    /// Its rows: its own, and those of its labels or its constraints.
    pub(crate) places: Vec<Tid>,
}

/// The kinds of types that are created.
#[derive(Debug, Clone)]
pub enum TypeBody {
    /// An enumerated type, by its labels in their order.
    Enum(Vec<EnumLabel>),
    /// A domain.
    Domain(DomainBody),
}

/// A domain.
#[derive(Debug, Clone)]
pub struct DomainBody {
    /// The type that it is over, with its modifier.
    pub base: SqlType,
    /// `typndims`
    pub dimensions: i32,
    /// DEFAULT, as SQL text.
    pub default: Option<Arc<str>>,
    /// Its NOT NULL constraint: oid and name.
    pub not_null: Option<(Oid, Arc<str>)>,
    /// Its CHECK constraints, by name.
    pub checks: Vec<DomainCheckInfo>,
}

/// A CHECK constraint of a domain.
#[derive(Debug, Clone)]
pub struct DomainCheckInfo {
    /// `pg_constraint.oid`
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// The condition, as SQL text with every cast.
    pub text: Arc<str>,
    /// The same with the parentheses that are needed.
    pub pretty: Arc<str>,
    /// `convalidated`
    pub validated: bool,
}

impl DomainBody {
    /// The oid of the constraint of a name.
    pub fn constraint(&self, name: &str) -> Option<Oid> {
        let not_null = self.not_null.iter().map(|(oid, name)| (name, *oid));
        let checks = self.checks.iter().map(|check| (&check.name, check.oid));
        let found = not_null.chain(checks).find(|(known, _)| ***known == *name);
        found.map(|(_, oid)| oid)
    }

    /// Whether it has a constraint of this oid.
    pub fn has_constraint(&self, wanted: Oid) -> bool {
        let not_null = self.not_null.iter().map(|(oid, _)| *oid);
        let mut all = not_null.chain(self.checks.iter().map(|check| check.oid));
        all.any(|oid| oid == wanted)
    }

    /// The names of its constraints.
    pub fn constraint_names(&self) -> impl Iterator<Item = &Arc<str>> {
        let not_null = self.not_null.iter().map(|(_, name)| name);
        not_null.chain(self.checks.iter().map(|check| &check.name))
    }
}

/// A value of a type under this definition: one of an earlier definition, or a stored place.
pub fn of_definition(value: Datum, ty: SqlType) -> Datum {
    let Some(ty) = ty.enumerated() else {
        return value;
    };
    let label = |position| Datum::Enum(EnumValue { ty, position });
    match &value {
        Datum::Int8(position) => label(*position),
        Datum::Enum(value) => label(value.position),
        Datum::Array(array) => {
            let element = |element: &Datum| of_definition(element.clone(), SqlType::Enum(ty));
            with_elements(array, element).unwrap_or(value)
        }
        _ => value,
    }
}

pub(super) fn with_elements(array: &ArrayValue, f: impl Fn(&Datum) -> Datum) -> Option<Datum> {
    let elements = array.elements().iter().map(f).collect();
    let array = ArrayValue::new(array.dimensions(), elements).ok()?;
    Some(Datum::Array(Arc::new(array)))
}

fn in_type(check: &DomainCheckInfo) -> DomainCheck {
    DomainCheck {
        name: (&*check.name).into(),
        text: (&*check.text).into(),
    }
}

impl TypeInfo {
    /// The type by which values, columns and expressions know it.
    pub fn ty(&self) -> SqlType {
        let name = quote_ident(&self.name);
        let array_name = format!("{name}[]").into();
        match &self.body {
            TypeBody::Enum(labels) => SqlType::Enum(EnumType::define(EnumParts {
                oid: self.oid,
                array_oid: self.array_oid,
                name: name.into(),
                array_name,
                labels: labels.clone(),
            })),
            TypeBody::Domain(body) => SqlType::Domain(DomainType::define(DomainParts {
                oid: self.oid,
                array_oid: self.array_oid,
                name: name.into(),
                array_name,
                schema: (&*self.schema).into(),
                base: body.base,
                base_definition: body.base.created().map(CreatedType::number),
                not_null: body.not_null.is_some(),
                default: body.default.as_deref().map(Into::into),
                checks: body.checks.iter().map(in_type).collect(),
            })),
        }
    }

    /// The labels of an enumerated type in their order.
    pub fn labels(&self) -> &[EnumLabel] {
        match &self.body {
            TypeBody::Enum(labels) => labels,
            TypeBody::Domain(_) => &[],
        }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// XX000 for a domain.
    pub(super) fn labels_mut(&mut self) -> SqlResult<&mut Vec<EnumLabel>> {
        match &mut self.body {
            TypeBody::Enum(labels) => Ok(labels),
            TypeBody::Domain(_) => Err(SqlError::internal("a domain has no labels")),
        }
    }

    /// The rest of a domain.
    pub fn domain(&self) -> Option<&DomainBody> {
        match &self.body {
            TypeBody::Domain(body) => Some(body),
            TypeBody::Enum(_) => None,
        }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// XX000 for an enumerated type.
    pub fn domain_mut(&mut self) -> SqlResult<&mut DomainBody> {
        match &mut self.body {
            TypeBody::Domain(body) => Ok(body),
            TypeBody::Enum(_) => Err(SqlError::internal("an enumerated type is no domain")),
        }
    }

    /// Whether it is a domain directly over a type, or over its arrays.
    pub fn is_over(&self, base: &TypeInfo) -> bool {
        self.domain().is_some_and(|body| base.is_of(body.base))
    }

    /// Whether it is a domain.
    pub fn is_domain(&self) -> bool {
        self.domain().is_some()
    }

    /// `typname` of the type of its arrays.
    pub fn array_name(&self) -> String {
        format!("_{}", self.name)
    }

    /// Whether a type is this one, or that of its arrays.
    pub fn is_of(&self, ty: SqlType) -> bool {
        [self.oid, self.array_oid].contains(&ty.oid())
    }

    /// Its row in `evenkeel_enum` or `evenkeel_domain`.
    pub(super) fn row(&self) -> Vec<Datum> {
        let mut row = vec![
            Datum::Oid(self.oid),
            Datum::Oid(self.array_oid),
            (&*self.name).into(),
            Datum::Oid(self.schema_oid),
        ];
        if let TypeBody::Domain(body) = &self.body {
            let default = body.default.as_deref();
            row.extend([
                Datum::Oid(body.base.oid()),
                Datum::Int4(body.base.typmod()),
                Datum::Int4(body.dimensions),
                default.map_or(Datum::Null, Datum::from),
            ]);
        }
        row
    }

    /// The rows of a domain's constraints in `evenkeel_domain_constraint`.
    pub(super) fn constraint_rows(&self) -> Vec<Vec<Datum>> {
        let Some(body) = self.domain() else {
            return Vec::new();
        };
        let not_null = body.not_null.iter().map(|(oid, name)| {
            vec![
                Datum::Oid(*oid),
                (&**name).into(),
                Datum::Oid(self.oid),
                Datum::Null,
                Datum::Null,
                Datum::Bool(true),
            ]
        });
        let checks = body.checks.iter().map(|check| {
            vec![
                Datum::Oid(check.oid),
                (&*check.name).into(),
                Datum::Oid(self.oid),
                (&*check.text).into(),
                (&*check.pretty).into(),
                Datum::Bool(check.validated),
            ]
        });
        not_null.chain(checks).collect()
    }

    /// The rows of its labels in `pg_enum`.
    pub(super) fn label_rows(&self) -> impl Iterator<Item = Vec<Datum>> {
        self.labels().iter().map(|label| {
            vec![
                Datum::Oid(label.oid),
                Datum::Oid(self.oid),
                Datum::Int8(label.position),
                (&*label.label).into(),
            ]
        })
    }

    /// A row of `evenkeel_enum`, without labels and the name of its schema.
    pub(super) fn read(place: Tid, values: Vec<Datum>) -> SqlResult<TypeInfo> {
        let mut fields = Fields::new(values, "evenkeel_enum");
        Ok(TypeInfo {
            oid: fields.oid()?,
            array_oid: fields.oid()?,
            name: fields.text()?.into(),
            schema: Arc::from(""),
            schema_oid: fields.oid()?,
            body: TypeBody::Enum(Vec::new()),
            places: vec![place],
        })
    }

    /// A row of `evenkeel_domain`, without constraints and the name of its schema; `type_of` knows
    /// the type that it is over.
    pub(super) fn read_domain(
        place: Tid,
        values: Vec<Datum>,
        type_of: impl Fn(Oid, i32) -> Option<SqlType>,
    ) -> SqlResult<TypeInfo> {
        let mut fields = Fields::new(values, "evenkeel_domain");
        let (oid, array_oid) = (fields.oid()?, fields.oid()?);
        let (name, schema_oid) = (fields.text()?.into(), fields.oid()?);
        let (base, typmod) = (fields.oid()?, fields.int4()?);
        let base = type_of(base, typmod);
        let body = DomainBody {
            base: base.ok_or_else(|| damaged("evenkeel_domain"))?,
            dimensions: fields.int4()?,
            default: fields.text_or_null()?.map(Into::into),
            not_null: None,
            checks: Vec::new(),
        };
        Ok(TypeInfo {
            oid,
            array_oid,
            name,
            schema: Arc::from(""),
            schema_oid,
            body: TypeBody::Domain(body),
            places: vec![place],
        })
    }

    /// Takes a row of `evenkeel_domain_constraint`, whose domain this is.
    pub(super) fn read_constraint(&mut self, place: Tid, mut fields: Fields) -> SqlResult<()> {
        let TypeBody::Domain(body) = &mut self.body else {
            return Err(damaged("evenkeel_domain_constraint"));
        };
        let (oid, name) = (fields.oid()?, Arc::from(fields.text()?));
        fields.oid()?;
        match (fields.text_or_null()?, fields.text_or_null()?) {
            (Some(text), Some(pretty)) => body.checks.push(DomainCheckInfo {
                oid,
                name,
                text: text.into(),
                pretty: pretty.into(),
                validated: fields.bool()?,
            }),
            _ => body.not_null = Some((oid, name)),
        }
        self.places.push(place);
        Ok(())
    }

    /// A row of `pg_enum`: the type's oid, and the label.
    pub(super) fn read_label(values: Vec<Datum>) -> SqlResult<(Oid, EnumLabel)> {
        let mut fields = Fields::new(values, "pg_enum");
        let (oid, of) = (fields.oid()?, fields.oid()?);
        let label = EnumLabel {
            oid,
            position: fields.int8()?,
            label: fields.text()?.into(),
        };
        Ok((of, label))
    }
}
