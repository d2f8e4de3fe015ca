//! What a plan knows of a table before it is bound to a snapshot.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{Expr, TableSource};

use crate::catalog::TableInfo;
use crate::types::SqlType;

/// Name of the hidden column with a row's place; no SQL text can name it.
pub const ROW_ID: &str = "\u{1}row";

/// Name that stands for the table a planned UPDATE or DELETE changes.
pub const TARGET: &str = "\u{1}target";

/// A table of the catalog, by definition only: a kept plan holds no snapshot (planner rule 2).
#[derive(Debug)]
pub struct CatalogSource {
    table: Arc<TableInfo>,
    schema: SchemaRef,
    row_id: bool,
}

impl CatalogSource {
    /// The table's columns.
    pub fn new(table: Arc<TableInfo>) -> CatalogSource {
        let schema = Arc::new(table_schema(&table));
        CatalogSource {
            table,
            schema,
            row_id: false,
        }
    }

    /// The table's columns and the hidden row id behind them.
    pub fn with_row_id(table: Arc<TableInfo>) -> CatalogSource {
        let mut fields = table_schema(&table).fields.to_vec();
        fields.push(Arc::new(Field::new(ROW_ID, DataType::Int64, false)));
        CatalogSource {
            table,
            schema: Arc::new(Schema::new(fields)),
            row_id: true,
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableInfo> {
        &self.table
    }

    /// Whether the hidden row id is among the columns.
    pub fn has_row_id(&self) -> bool {
        self.row_id
    }
}

impl TableSource for CatalogSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The Arrow schema of a table's columns.
pub fn table_schema(table: &TableInfo) -> Schema {
    let fields: Vec<Field> = table
        .columns
        .iter()
        .map(|column| column.ty.arrow_field(&*column.name, !column.not_null))
        .collect();
    Schema::new(fields)
}

/// `generate_series(start, stop[, step])` over integers: one column, its arguments still
/// expressions so that a kept plan takes parameters.
#[derive(Debug)]
pub struct SeriesSource {
    /// start, stop and perhaps step.
    pub args: Vec<Expr>,
    /// `Int4` or `Int8`.
    pub ty: SqlType,
    schema: SchemaRef,
}

impl SeriesSource {
    /// A series of values of type `ty` in a column called `column`.
    pub fn new(args: Vec<Expr>, ty: SqlType, column: &str) -> SeriesSource {
        let schema = Arc::new(Schema::new(vec![ty.arrow_field(column, false)]));
        SeriesSource { args, ty, schema }
    }
}

impl TableSource for SeriesSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
