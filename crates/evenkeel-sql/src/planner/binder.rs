//! Names and types: SQL expressions and queries to DataFusion's, with PostgreSQL's meaning of
//! literals and parameters.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;

use super::source::{CatalogSource, TARGET};
use crate::catalog::{CatalogState, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::SessionVars;
use crate::pg_catalog;
use crate::types::SqlType;

/// What a statement is bound against.
pub struct Binder<'a> {
    state: &'a SessionState,
    view: &'a Arc<CatalogState>,
    vars: &'a Arc<SessionVars>,
    params: Mutex<Params>,
    found: Mutex<Found>,
}

/// Types of `$1`, `$2`, …: those the client gave, then those the statement tells.
#[derive(Debug, Default)]
struct Params {
    types: Vec<Option<SqlType>>,
}

/// What binding came across.
#[derive(Debug, Default)]
struct Found {
    tables: Vec<Arc<TableInfo>>,
    /// The table that `TARGET` stands for.
    target: Option<Arc<TableInfo>>,
    /// A source that holds its rows already: the plan may not be kept.
    bound_source: bool,
}

impl<'a> Binder<'a> {
    /// A binder for a statement with `param_count` parameters, of which the client gave
    /// `param_types`.
    pub fn new(
        state: &'a SessionState,
        view: &'a Arc<CatalogState>,
        vars: &'a Arc<SessionVars>,
        param_types: &[Option<SqlType>],
        param_count: usize,
    ) -> Binder<'a> {
        let mut types = param_types.to_vec();
        types.resize(param_count.max(types.len()), None);
        Binder {
            state,
            view,
            vars,
            params: Mutex::new(Params { types }),
            found: Mutex::default(),
        }
    }

    /// The functions and rules bound against.
    pub fn state(&self) -> &SessionState {
        self.state
    }

    /// The session's values that stable functions use.
    pub fn vars(&self) -> &Arc<SessionVars> {
        self.vars
    }

    /// The tables that were named so far.
    pub fn tables(&self) -> Vec<Arc<TableInfo>> {
        self.found.lock().tables.clone()
    }

    /// Makes the name `TARGET` stand for a table, with its hidden row id.
    pub fn set_target(&self, table: Arc<TableInfo>) {
        self.found.lock().target = Some(table);
    }

    /// Says that the statement holds a value of this moment.
    pub fn do_not_keep(&self) {
        self.found.lock().bound_source = true;
    }

    /// Whether a source was named whose rows belong to this moment.
    pub fn has_bound_source(&self) -> bool {
        self.found.lock().bound_source
    }

    /// The parameters' types; those that nothing told are text, as in PostgreSQL.
    pub fn param_types(&self) -> Vec<SqlType> {
        let params = self.params.lock();
        params
            .types
            .iter()
            .map(|ty| ty.unwrap_or(SqlType::Text))
            .collect()
    }

    /// The type of parameter `index` (from 0), if it is known.
    pub fn param_type(&self, index: usize) -> Option<SqlType> {
        self.params.lock().types.get(index).copied().flatten()
    }

    /// Gives parameter `index` (from 0) a type unless it has one; the type it then has.
    pub fn infer_param(&self, index: usize, ty: SqlType) -> SqlType {
        let mut params = self.params.lock();
        if params.types.len() <= index {
            params.types.resize(index + 1, None);
        }
        *params.types[index].get_or_insert(ty)
    }

    /// The table called `name`; 42P01 if there is none, 42501 if it is one of the system's.
    pub fn table(&self, name: &ast::ObjectName) -> SqlResult<Arc<TableInfo>> {
        let (schema, table) = split_name(name)?;
        let path = &self.vars.search_path;
        match self.view.resolve(schema.as_deref(), &table, path) {
            Some(info) => {
                self.found.lock().tables.push(Arc::clone(&info));
                Ok(info)
            }
            None => Err(self.no_such_table(schema.as_deref(), &table)),
        }
    }

    fn no_such_table(&self, schema: Option<&str>, table: &str) -> SqlError {
        let system = schema.unwrap_or("pg_catalog");
        if pg_catalog::provider(system, table, self.vars).is_some() {
            return SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{table}\" is a system catalog"),
            );
        }
        undefined_table(schema, table)
    }

    /// A DataFusion planner over this binder.
    pub fn sql_to_rel(&self) -> SqlToRel<'_, Binder<'a>> {
        SqlToRel::new_with_options(self, parser_options(self.state))
    }

    /// A planner context whose parameters have the types known so far.
    pub fn planner_context(&self) -> PlannerContext {
        let params = self.params.lock();
        let fields = params
            .types
            .iter()
            .map(|ty| Some(param_field(*ty)))
            .collect();
        PlannerContext::new().with_prepare_param_data_types(fields)
    }

    /// Binds one expression over the columns of `schema` and coerces it to PostgreSQL's types;
    /// parameters whose type shows are given it.
    pub fn expr(&self, sql: ast::Expr, schema: &DFSchema) -> SqlResult<Expr> {
        let mut context = self.planner_context();
        let expr = self.sql_to_rel().sql_to_expr(sql, schema, &mut context)?;
        self.coerce(expr, schema)
    }

    /// The coercion of [`Binder::expr`] alone.
    pub fn coerce(&self, expr: Expr, schema: &DFSchema) -> SqlResult<Expr> {
        let expr = expr.transform_up(|e| Ok(small_literal(e)))?.data;
        let mut rewriter = TypeCoercionRewriter::new(schema);
        let expr = expr.rewrite(&mut rewriter)?.data;
        Ok(expr.transform_up(|e| Ok(self.typed_param(e)))?.data)
    }

    /// A parameter under a cast that coercion put there is of the cast's type.
    pub(super) fn typed_param(&self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::Cast(Cast { expr: inner, field }) => match *inner {
                Expr::Placeholder(param) if is_untyped(&param) => {
                    let Some(index) = param_index(&param.id) else {
                        return Transformed::no(Expr::Placeholder(param));
                    };
                    let wanted = SqlType::from_arrow_field(&field);
                    let ty = self.infer_param(index, wanted);
                    let typed = Expr::Placeholder(Placeholder::new_with_field(
                        param.id,
                        Some(param_field(Some(ty))),
                    ));
                    if ty.arrow_type() == *field.data_type() {
                        return Transformed::yes(typed);
                    }
                    Transformed::yes(Expr::Cast(Cast {
                        expr: Box::new(typed),
                        field,
                    }))
                }
                other => Transformed::no(Expr::Cast(Cast {
                    expr: Box::new(other),
                    field,
                })),
            },
            other => Transformed::no(other),
        }
    }
}

/// The field that stands for a parameter; one without a type is of DataFusion's Null type,
/// which coerces to whatever it meets.
pub fn param_field(ty: Option<SqlType>) -> FieldRef {
    match ty {
        Some(ty) => Arc::new(ty.arrow_field("", true)),
        None => Arc::new(Field::new("", DataType::Null, true)),
    }
}

/// Whether nothing has told this parameter's type yet.
pub fn is_untyped(param: &Placeholder) -> bool {
    param
        .field
        .as_ref()
        .is_none_or(|field| field.data_type().is_null())
}

/// Whether a date or time in text form names a moment relative to the present.
pub fn means_present(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"]
        .iter()
        .any(|word| lower.contains(word))
}

/// The number, from 0, of a `$1`-style parameter.
pub fn param_index(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// As in PostgreSQL an integer literal is an `integer` if it fits, and a `numeric` if it does
/// not fit a `bigint`; DataFusion has Int64, then UInt64.
pub fn small_literal(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(ScalarValue::UInt64(Some(value)), meta) => {
            let number = ScalarValue::Decimal128(Some(i128::from(value)), 20, 0);
            Transformed::yes(Expr::Literal(number, meta))
        }
        Expr::Literal(ScalarValue::Int64(Some(value)), meta) => match i32::try_from(value) {
            Ok(small) => Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(small)), meta)),
            Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(value)), meta)),
        },
        other => Transformed::no(other),
    }
}

/// How this crate configures DataFusion's SQL planner.
fn parser_options(state: &SessionState) -> ParserOptions {
    ParserOptions::from(&state.config_options().sql_parser)
}

/// A name's schema, if given, and last part, folded as PostgreSQL folds.
pub fn split_name(name: &ast::ObjectName) -> SqlResult<(Option<String>, String)> {
    let mut parts = Vec::with_capacity(2);
    for part in &name.0 {
        let ident = part
            .as_ident()
            .ok_or_else(|| SqlError::syntax("not a name"))?;
        parts.push(super::utility::ident_text(ident));
    }
    match parts.len() {
        1 => Ok((None, parts.remove(0))),
        2 => {
            let table = parts.remove(1);
            Ok((Some(parts.remove(0)), table))
        }
        3 => {
            let table = parts.remove(2);
            Ok((Some(parts.remove(1)), table))
        }
        _ => Err(SqlError::syntax(format!("improper relation name: {name}"))),
    }
}

/// 42P01.
pub fn undefined_table(schema: Option<&str>, table: &str) -> SqlError {
    let name = match schema {
        Some(schema) => format!("{schema}.{table}"),
        None => table.to_owned(),
    };
    SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}

impl ContextProvider for Binder<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        let schema = name.schema();
        let table = name.table();
        if table == TARGET
            && let Some(target) = self.found.lock().target.clone()
        {
            return Ok(Arc::new(CatalogSource::with_row_id(target)));
        }
        // As in PostgreSQL, pg_catalog is searched first unless the path places it.
        let system = match schema {
            Some(schema) => pg_catalog::provider(schema, table, self.vars),
            None => pg_catalog::provider("pg_catalog", table, self.vars),
        };
        if let Some(provider) = system {
            self.found.lock().bound_source = true;
            return Ok(provider_as_source(provider));
        }
        match self.view.resolve(schema, table, &self.vars.search_path) {
            Some(info) => {
                self.found.lock().tables.push(Arc::clone(&info));
                Ok(Arc::new(CatalogSource::new(info)))
            }
            None => Err(undefined_table(schema, table).into()),
        }
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> DfResult<Arc<dyn TableSource>> {
        let table = datafusion::datasource::cte_worktable::CteWorkTable::new(name, schema);
        Ok(provider_as_source(Arc::new(table)))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(PgTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state
            .higher_order_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// SQL's type names, as PostgreSQL has them.
#[derive(Debug)]
struct PgTypes;

impl TypePlanner for PgTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> DfResult<Option<FieldRef>> {
        let ty = SqlType::from_ast(sql_type)?;
        Ok(Some(Arc::new(ty.arrow_field("", true))))
    }
}

/// Downcasts a planning-time source to ours.
pub fn catalog_source(source: &Arc<dyn TableSource>) -> Option<&CatalogSource> {
    let any: &dyn Any = source.as_ref();
    any.downcast_ref::<CatalogSource>()
}
