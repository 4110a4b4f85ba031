//! Sub-selects in policies, evaluated once for all subscribers of a batch.
//!
//! `exists (select …)` on tables is run for all distinct rows and subscribers in one statement, with the
//! tables' own policies as conditions. The statement is built from the compiled expressions, runs with the
//! rights of the server, and fails if row security would still apply.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use basalt_pg::sql::{Param, Sql};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

use super::super::types::push_array_literal;
use super::Row;
use super::claims::ClaimValues;
use super::expression::{
    BooleanTest, Cast, Claim, Comparison, Datum, Expr, Input, Kind, Parameters, Undecided,
};

/// Time limit of a statement.
const LIMIT: Duration = Duration::from_millis(500);
/// Most pairs of a row and a subscriber per statement: PostgreSQL may look up each of them.
const MAX_PAIRS: usize = 50_000;

/// `exists (select from tables where condition)`.
#[derive(Clone, Debug)]
pub(super) struct Subselect {
    tables: Vec<(String, String)>,
    condition: Expr,
    /// Values of the row: index in the policies' columns.
    columns: Vec<(usize, Kind)>,
    /// Values of the subscriber.
    claims: Vec<(Expr, Kind)>,
}

/// For which rows and subscribers a sub-select finds something.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Number of a row's values, by change; `None` if a value was not streamed.
    rows: Vec<Option<usize>>,
    subscribers: HashMap<Parameters, usize>,
    pairs: HashSet<(usize, usize)>,
}

impl Found {
    pub(super) fn exists(&self, change: usize, parameters: &Parameters) -> Result<bool, Undecided> {
        let row = self.rows.get(change).copied().flatten().ok_or(Undecided)?;
        let subscriber = self.subscribers.get(parameters).ok_or(Undecided)?;
        Ok(self.pairs.contains(&(row, *subscriber)))
    }
}

impl Subselect {
    /// `None` if the condition cannot be written as SQL.
    pub(super) fn new(tables: Vec<(String, String)>, condition: Expr) -> Option<Self> {
        let mut subselect = Self { tables, condition, columns: Vec::new(), claims: Vec::new() };
        let condition = subselect.condition.clone();
        subselect.collect(&condition);
        subselect.sql(&condition, Kind::Bool)?;
        Some(subselect)
    }

    /// Collects the values of row and subscriber in the condition.
    fn collect(&mut self, expr: &Expr) {
        if !expr.reads_columns() {
            if let (false, Some(kind)) = (matches!(expr, Expr::Constant(_)), kind_of(expr))
                && !self.claims.iter().any(|(known, _)| known == expr)
            {
                self.claims.push((expr.clone(), kind));
            }
            return;
        }
        match expr {
            Expr::Column(index, kind) if !self.columns.iter().any(|(known, _)| known == index) => {
                self.columns.push((*index, *kind));
            }
            Expr::Column(..) | Expr::Joined(..) | Expr::Exists(..) | Expr::Constant(_) | Expr::Claim(_) => {}
            Expr::Cast(inner, _) | Expr::Not(inner) | Expr::IsNull(inner) | Expr::Is(_, inner) => {
                self.collect(inner);
            }
            Expr::Compare(_, left, right) | Expr::Distinct(left, right) => {
                self.collect(left);
                self.collect(right);
            }
            Expr::Among(_, _, left, items) => {
                self.collect(left);
                items.iter().for_each(|item| self.collect(item));
            }
            Expr::And(items) | Expr::Or(items) => items.iter().for_each(|item| self.collect(item)),
        }
    }

    /// The subscriber's values.
    pub(super) fn parameters(&self, claims: &ClaimValues<'_>) -> Result<Parameters, Undecided> {
        let nothing = Input { values: &[], exists: &|_, _| Err(Undecided) };
        let value = |(expr, _): &(Expr, Kind)| {
            let bound = expr.bind(claims)?;
            Ok(bound.evaluate(nothing)?.as_ref().map(printed))
        };
        self.claims.iter().map(value).collect()
    }

    /// Runs the sub-select for these rows and subscribers.
    ///
    /// # Errors
    /// PostgreSQL rejected the statement, perhaps because row security applies to the server itself, or did
    /// not respond in time.
    pub(super) async fn run(
        &self,
        pool: &ServicePool,
        rows: &[Row<'_>],
        parameters: impl Iterator<Item = Parameters>,
    ) -> Result<Found, SessionError> {
        let mut found = Found::default();
        let mut numbers: HashMap<Vec<Option<String>>, usize> = HashMap::new();
        for row in rows {
            let number = self.row_values(row).ok().map(|values| {
                let next = numbers.len();
                *numbers.entry(values).or_insert(next)
            });
            found.rows.push(number);
        }
        for parameters in parameters {
            let next = found.subscribers.len();
            found.subscribers.entry(parameters).or_insert(next);
        }
        if numbers.is_empty() || found.subscribers.is_empty() {
            return Ok(found);
        }
        let rows = numbers.iter().map(|(values, number)| (values.as_slice(), *number)).collect::<Vec<_>>();
        let subscribers = found.subscribers.iter().map(|(values, number)| (&**values, *number));
        let subscribers = subscribers.collect::<Vec<_>>();
        let statements = rows.chunks((MAX_PAIRS / subscribers.len()).max(1));
        let statements = statements.map(|rows| self.statement(rows, &subscribers).map(Sql::render));
        let Some(statements) = statements.collect::<Option<Vec<_>>>() else {
            return Err(SessionError::Unavailable("a sub-select could not be written".to_owned()));
        };
        let tx = pool.begin(Instant::now() + 2 * LIMIT).await?;
        let read = async {
            // A generic plan would assume ten rows and ten subscribers.
            let settings = "select pg_catalog.set_config('row_security', 'off', true), \
                            pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true), \
                            pg_catalog.set_config('statement_timeout', $1, true)";
            tx.execute(settings, &[&LIMIT.as_millis().to_string()]).await?;
            let mut answers = Vec::new();
            for (text, params) in &statements {
                let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
                answers.extend(tx.query(text, &params).await?);
            }
            Ok::<_, SessionError>(answers)
        };
        let answers = read.await;
        for answer in tx.finish(answers).await? {
            let unexpected = |error| SessionError::Unavailable(format!("unexpected row: {error}"));
            let row: i64 = answer.try_get(0).map_err(unexpected)?;
            let subscribers: Vec<i64> = answer.try_get(1).map_err(unexpected)?;
            let pairs = subscribers.into_iter().filter_map(|subscriber| {
                Some((usize::try_from(row).ok()?, usize::try_from(subscriber).ok()?))
            });
            found.pairs.extend(pairs);
        }
        Ok(found)
    }

    fn row_values(&self, row: &Row<'_>) -> Result<Vec<Option<String>>, Undecided> {
        let value = |(index, _): &(usize, Kind)| match row.0.get(*index) {
            Some(Ok(value)) => Ok(value.as_ref().map(printed)),
            Some(Err(Undecided)) | None => Err(Undecided),
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns the number of each row with those of the subscribers for which something is found.
    fn statement(
        &self,
        rows: &[(&[Option<String>], usize)],
        subscribers: &[(&[Option<String>], usize)],
    ) -> Option<Sql> {
        let tables = self.tables.iter().enumerate().map(|(index, (schema, name))| {
            Sql::qualified(schema, name).then(Sql::catalog(format!(" as m{index}")))
        });
        let statement = Sql::text("select r.n, pg_catalog.array_agg(s.n) from ")
            .then(unnest('r', rows, &self.columns))
            .then(Sql::text(", "))
            .then(unnest('s', subscribers, &self.claims))
            .then(Sql::text(" where exists (select from "))
            .then(Sql::join(tables, ", "))
            .then(Sql::text(" where "))
            .then(self.sql(&self.condition, Kind::Bool)?)
            .then(Sql::text(") group by r.n"));
        Some(statement)
    }

    /// The expression in SQL, as a value of this kind.
    fn sql(&self, expr: &Expr, kind: Kind) -> Option<Sql> {
        if !expr.reads_columns() {
            if let Expr::Constant(value) = expr {
                let value = Param::from(value.as_ref().map(printed));
                return Some(Sql::param(value).then(cast_to(kind)));
            }
            let index = self.claims.iter().position(|(known, _)| known == expr)?;
            return Some(Sql::catalog(format!("s.v{index}")));
        }
        let all = |items: &[Expr], kind: Kind| {
            items.iter().map(|item| self.sql(item, kind)).collect::<Option<Vec<_>>>()
        };
        let between = |items: Vec<Sql>, separator| {
            Sql::text("(").then(Sql::join(items, separator)).then(Sql::text(")"))
        };
        Some(match expr {
            Expr::Column(index, _) => {
                let index = self.columns.iter().position(|(known, _)| known == index)?;
                Sql::catalog(format!("r.v{index}"))
            }
            Expr::Joined(table, name, _) => Sql::catalog(format!("m{table}.")).then(Sql::ident(name)),
            Expr::Constant(_) | Expr::Claim(_) | Expr::Exists(..) | Expr::Cast(..) => return None,
            Expr::Compare(comparison, left, right) => {
                let kind = kind_of(left).or_else(|| kind_of(right))?;
                let items = vec![self.sql(left, kind)?, self.sql(right, kind)?];
                between(items, symbol(*comparison))
            }
            Expr::Distinct(left, right) => {
                let kind = kind_of(left).or_else(|| kind_of(right))?;
                between(vec![self.sql(left, kind)?, self.sql(right, kind)?], " is distinct from ")
            }
            Expr::Among(comparison, is_any, left, items) => {
                let kind = kind_of(left).or_else(|| items.iter().find_map(kind_of))?;
                if items.is_empty() {
                    return None;
                }
                let left = self.sql(left, kind)?;
                let items = all(items, kind)?;
                let compared = items
                    .into_iter()
                    .map(|item| left.clone().then(Sql::text(symbol(*comparison))).then(item));
                between(compared.collect(), if *is_any { " or " } else { " and " })
            }
            Expr::And(items) => between(all(items, Kind::Bool)?, " and "),
            Expr::Or(items) => between(all(items, Kind::Bool)?, " or "),
            Expr::Not(inner) => Sql::text("(not ").then(self.sql(inner, Kind::Bool)?).then(Sql::text(")")),
            Expr::IsNull(inner) => {
                let inner = self.sql(inner, kind_of(inner)?)?;
                Sql::text("(").then(inner).then(Sql::text(" is null)"))
            }
            Expr::Is(test, inner) => {
                let test = match test {
                    BooleanTest::True => " is true)",
                    BooleanTest::False => " is false)",
                    BooleanTest::Unknown => " is unknown)",
                };
                Sql::text("(").then(self.sql(inner, Kind::Bool)?).then(Sql::text(test))
            }
        })
    }
}

/// `rows from (unnest(…), …) as alias(n, v0, v1, …)`, from one array per column.
fn unnest<T>(alias: char, rows: &[(&[Option<String>], usize)], columns: &[(T, Kind)]) -> Sql {
    let mut numbers = String::new();
    let texts: Vec<String> = rows.iter().map(|(_, number)| number.to_string()).collect();
    push_array_literal(&mut numbers, texts.iter().map(|text| Some(text.as_str())));
    let number = Sql::param(numbers).then(Sql::text("::pg_catalog.int8[]"));
    let arrays = columns.iter().enumerate().map(|(index, (_, kind))| {
        let mut literal = String::new();
        push_array_literal(&mut literal, rows.iter().map(|(values, _)| values.get(index)?.as_deref()));
        Sql::param(literal).then(cast_to(*kind)).then(Sql::text("[]"))
    });
    let names = (0..columns.len()).map(|index| Sql::catalog(format!(", v{index}")));
    // `unnest` with several arguments is a syntax of its own, which a qualified name does not have.
    let unnested = |array: Sql| Sql::text("pg_catalog.unnest(").then(array).then(Sql::text(")"));
    Sql::text("rows from (")
        .then(Sql::join(std::iter::once(number).chain(arrays).map(unnested), ", "))
        .then(Sql::catalog(format!(") as {alias}(n")))
        .then(Sql::join(names, ""))
        .then(Sql::text(")"))
}

fn cast_to(kind: Kind) -> Sql {
    Sql::text(match kind {
        Kind::Bool => "::pg_catalog.bool",
        Kind::Int => "::pg_catalog.int8",
        Kind::Text | Kind::Json => "::pg_catalog.text",
        Kind::Uuid => "::pg_catalog.uuid",
    })
}

const fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => " operator(pg_catalog.=) ",
        Comparison::Ne => " operator(pg_catalog.<>) ",
        Comparison::Lt => " operator(pg_catalog.<) ",
        Comparison::Le => " operator(pg_catalog.<=) ",
        Comparison::Gt => " operator(pg_catalog.>) ",
        Comparison::Ge => " operator(pg_catalog.>=) ",
    }
}

/// `None` for constants, whose kind is that of the other operand.
const fn kind_of(expr: &Expr) -> Option<Kind> {
    match expr {
        Expr::Constant(_) => None,
        Expr::Column(_, kind) | Expr::Joined(_, _, kind) => Some(*kind),
        Expr::Claim(Claim::Uid) | Expr::Cast(_, Cast::Uuid) => Some(Kind::Uuid),
        Expr::Claim(Claim::Role | Claim::Path(_)) | Expr::Cast(_, Cast::Text) => Some(Kind::Text),
        Expr::Cast(_, Cast::Int(..)) => Some(Kind::Int),
        Expr::Cast(_, Cast::Bool)
        | Expr::Exists(..)
        | Expr::Compare(..)
        | Expr::Distinct(..)
        | Expr::Among(..)
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::Is(..) => Some(Kind::Bool),
    }
}

/// A value as PostgreSQL accepts it.
fn printed(value: &Datum<'_>) -> String {
    match value {
        Datum::Bool(value) => value.to_string(),
        Datum::Int(value) => value.to_string(),
        Datum::Text(text) => text.to_string(),
    }
}
