//! An enumerated type as the catalog knows it.

use std::sync::Arc;

use evenkeel_engine::Tid;
use evenkeel_types::ArrayValue;
use evenkeel_types::enums::{EnumLabel, EnumParts, EnumType, EnumValue};

use super::Oid;
use super::fields::Fields;
use crate::error::SqlResult;
use crate::quote::quote_ident;
use crate::types::{Datum, SqlType};

/// An enumerated type. Never changes: another definition is another `EnumInfo`.
#[derive(Debug, Clone)]
pub struct EnumInfo {
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
    /// Its labels in their order.
    pub labels: Vec<EnumLabel>,
    /// Its rows in `evenkeel_enum` and `pg_enum`.
    pub(crate) places: Vec<Tid>,
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

impl EnumInfo {
    /// The type by which values, columns and expressions know it.
    pub fn ty(&self) -> SqlType {
        SqlType::Enum(EnumType::define(EnumParts {
            oid: self.oid,
            array_oid: self.array_oid,
            name: quote_ident(&self.name).into(),
            array_name: format!("{}[]", quote_ident(&self.name)).into(),
            labels: self.labels.clone(),
        }))
    }

    /// `typname` of the type of its arrays.
    pub fn array_name(&self) -> String {
        format!("_{}", self.name)
    }

    /// Whether a type is this one, or that of its arrays.
    pub fn is_of(&self, ty: SqlType) -> bool {
        [self.oid, self.array_oid].contains(&ty.oid())
    }

    /// Its row in `evenkeel_enum`.
    pub(super) fn row(&self) -> Vec<Datum> {
        vec![
            Datum::Oid(self.oid),
            Datum::Oid(self.array_oid),
            (&*self.name).into(),
            Datum::Oid(self.schema_oid),
        ]
    }

    /// The rows of its labels in `pg_enum`.
    pub(super) fn label_rows(&self) -> impl Iterator<Item = Vec<Datum>> {
        self.labels.iter().map(|label| {
            vec![
                Datum::Oid(label.oid),
                Datum::Oid(self.oid),
                Datum::Int8(label.position),
                (&*label.label).into(),
            ]
        })
    }

    /// A row of `evenkeel_enum`, without labels and the name of its schema.
    pub(super) fn read(place: Tid, values: Vec<Datum>) -> SqlResult<EnumInfo> {
        let mut fields = Fields::new(values, "evenkeel_enum");
        Ok(EnumInfo {
            oid: fields.oid()?,
            array_oid: fields.oid()?,
            name: fields.text()?.into(),
            schema: Arc::from(""),
            schema_oid: fields.oid()?,
            labels: Vec::new(),
            places: vec![place],
        })
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
