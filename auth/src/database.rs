//! Reading rows and ending transactions, for every module that has statements.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Json};

use crate::error::AuthError;

/// One page of a list, as a statement's `limit` and `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

/// One column of a row.
///
/// # Errors
/// The table differs from what our migrations create.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, AuthError> {
    row.try_get(name).map_err(|error| AuthError::Internal(format!("column {name}: {error}")))
}

/// A JSON column that one of our own statements built.
pub(crate) fn json_column<T: DeserializeOwned>(row: &Row, name: &str) -> Result<T, AuthError> {
    let Json(value) = column::<Json<T>>(row, name)?;
    Ok(value)
}

/// A timestamp in PostgreSQL's precision.
pub(crate) fn in_microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// [`Tx::finish`] with a fixed error type, so that `?` in an `async` block infers it.
pub(crate) fn finish<T>(tx: Tx, result: Result<T, AuthError>) -> impl Future<Output = Result<T, AuthError>> {
    tx.finish(result)
}
