//! Pages of an audience's users, by number or by cursor (auth.md §3.13), newest first by default. Rows without a time count as the
//! oldest. Both variants use the index `users_listed_idx`; only numbered pages count all users, which is slow for very many.

use basalt_core::convert::saturating;
use basalt_pg::pool::Tx;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{Account, belongings, user_columns};
use crate::database::{Window, column};
use crate::error::AuthError;

/// The listed users: `$1` audience, `$2` a LIKE pattern or null.
macro_rules! listed {
    () => {
        "coalesce(u.aud, '') = $1 and ($2::text is null or u.email like $2 \
         or u.raw_user_meta_data ->> 'full_name' ilike $2)"
    };
}

macro_rules! select {
    ($($rest:expr),*) => {
        concat!("select ", user_columns!(), ", ", belongings!(), " from auth.users u where ", listed!(), $($rest),*)
    };
}

macro_rules! time {
    () => {
        "coalesce(u.created_at, '-infinity'::timestamptz)"
    };
}

macro_rules! newest {
    () => {
        concat!(" order by ", time!(), " desc, u.id desc")
    };
}

macro_rules! oldest {
    () => {
        concat!(" order by ", time!(), ", u.id")
    };
}

/// Order by time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// One page, and the total number of users.
pub(crate) async fn page(
    tx: &Tx,
    audience: &str,
    filter: Option<&str>,
    window: Window,
    direction: Direction,
) -> Result<(Vec<Account>, i64), AuthError> {
    const NEWEST: &str = select!(newest!(), " limit $3 offset $4");
    const OLDEST: &str = select!(oldest!(), " limit $3 offset $4");
    const COUNT: &str = concat!("select count(*) as total from auth.users u where ", listed!());
    let statement = match direction {
        Direction::Ascending => OLDEST,
        Direction::Descending => NEWEST,
    };
    let Window { limit, offset } = window;
    let rows = async {
        tx.query(statement, &[&audience, &filter, &limit, &offset]).await.map_err(AuthError::querying)
    };
    let count = async { tx.query_one(COUNT, &[&audience, &filter]).await.map_err(AuthError::querying) };
    let (rows, count) = tokio::try_join!(rows, count)?;
    let accounts = rows.iter().map(Account::from_row).collect::<Result<Vec<_>, _>>()?;
    Ok((accounts, column(&count, "total")?))
}

/// The body's `pagination` in cursor mode.
#[derive(Debug, Serialize)]
pub(crate) struct Next {
    /// Start of the next page; null on the last.
    next_cursor: Option<String>,
    has_more: bool,
}

/// A position in the list: after this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    created_at: Option<Timestamp>,
    id: Uuid,
}

impl Cursor {
    /// Decodes [`Cursor::encode`]'s format; `None` if invalid.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (micros, id) = std::str::from_utf8(&bytes).ok()?.split_once('|')?;
        let created_at = match micros {
            "" => None,
            micros => Some(Timestamp::from_microsecond(micros.parse().ok()?).ok()?),
        };
        Some(Self { created_at, id: Uuid::try_parse(id).ok()? })
    }

    fn encode(self) -> String {
        let micros = self.created_at.map(|at| at.as_microsecond().to_string()).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(format!("{micros}|{}", self.id))
    }
}

/// At most `limit` users after `cursor`.
pub(crate) async fn after(
    tx: &Tx,
    audience: &str,
    filter: Option<&str>,
    cursor: Option<Cursor>,
    limit: i64,
    direction: Direction,
) -> Result<(Vec<Account>, Next), AuthError> {
    const NEWEST: &str = select!(newest!(), " limit $3");
    const OLDEST: &str = select!(oldest!(), " limit $3");
    const NEWEST_AFTER: &str = select!(
        " and (",
        time!(),
        ", u.id) < (coalesce($4::timestamptz, '-infinity'), $5)",
        newest!(),
        " limit $3"
    );
    const OLDEST_AFTER: &str = select!(
        " and (",
        time!(),
        ", u.id) > (coalesce($4::timestamptz, '-infinity'), $5)",
        oldest!(),
        " limit $3"
    );
    // One more than returned, to detect further pages.
    let wanted = limit.saturating_add(1);
    let rows = match (cursor, direction) {
        (None, Direction::Descending) => tx.query(NEWEST, &[&audience, &filter, &wanted]).await,
        (None, Direction::Ascending) => tx.query(OLDEST, &[&audience, &filter, &wanted]).await,
        (Some(Cursor { created_at, id }), direction) => {
            let statement = if direction == Direction::Descending { NEWEST_AFTER } else { OLDEST_AFTER };
            tx.query(statement, &[&audience, &filter, &wanted, &created_at, &id]).await
        }
    };
    let mut rows = rows.map_err(AuthError::querying)?;
    let shown = saturating::<usize>(limit);
    let has_more = rows.len() > shown;
    rows.truncate(shown);
    let accounts = rows.iter().map(Account::from_row).collect::<Result<Vec<_>, _>>()?;
    let next_cursor = accounts
        .last()
        .filter(|_last| has_more)
        .map(|last| Cursor { created_at: last.user.created_at, id: last.user.id }.encode());
    Ok((accounts, Next { next_cursor, has_more }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_and_rejects_other_text() {
        for created_at in [None, Timestamp::from_microsecond(1_767_225_600_123_456).ok()] {
            let cursor = Cursor { created_at, id: Uuid::from_u128(7) };
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }
        for text in ["", "x", "MQ", "!!", &URL_SAFE_NO_PAD.encode("1|x"), &URL_SAFE_NO_PAD.encode("x|y")] {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }
}
