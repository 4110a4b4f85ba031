//! Rows of recovery codes: one factor of type `recovery_code` per user, and the hashes of its codes in `basalt.recovery_codes`.
//! Callers lock the user first.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::codes::one_time::code_hash;
use crate::database::column;
use crate::error::AuthError;

/// The factor type.
pub(crate) const RECOVERY_CODE: &str = "recovery_code";
/// Codes of a set.
const COUNT: usize = 10;
const LENGTH: usize = 16;
/// 32 characters, so that five random bits choose one without bias. No `i`, `l`, `o` and `u`, which are easily misread.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// New codes of 80 random bits.
pub(crate) fn generate() -> Vec<String> {
    let character = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).copied().map_or('0', char::from);
    (0..COUNT).map(|_index| random::bytes::<LENGTH>().iter().map(character).collect()).collect()
}

/// A typed code in canonical form: lower case, without spaces and dashes.
fn canonical(code: &str) -> String {
    let is_kept = |c: &char| !c.is_whitespace() && *c != '-';
    code.chars().filter(is_kept).flat_map(char::to_lowercase).collect()
}

fn hash(factor_id: Uuid, code: &str) -> String {
    code_hash(&factor_id.to_string(), &canonical(code))
}

/// Inserts the factor, which is verified at once, and returns its id.
pub(crate) async fn insert_factor(
    tx: &Tx,
    user_id: Uuid,
    friendly_name: &str,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    const INSERT: &str = "\
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at)
values ($1, $2, $3, 'recovery_code', 'verified', $4, $4)";
    let id = random::uuid();
    tx.execute(INSERT, &[&id, &user_id, &friendly_name, &now]).await?;
    Ok(id)
}

/// Replaces the codes of a factor.
pub(crate) async fn replace(
    tx: &Tx,
    factor_id: Uuid,
    codes: &[String],
    now: Timestamp,
) -> Result<(), AuthError> {
    const DELETE: &str = "delete from basalt.recovery_codes where factor_id = $1";
    const INSERT: &str = "\
insert into basalt.recovery_codes (factor_id, code_hash) select $1, h.hash from unnest($2::text[]) as h (hash)";
    const TOUCH: &str = "update auth.mfa_factors set updated_at = $2 where id = $1";
    let hashes: Vec<String> = codes.iter().map(|code| hash(factor_id, code)).collect();
    tx.execute(DELETE, &[&factor_id]).await?;
    tx.execute(INSERT, &[&factor_id, &hashes]).await?;
    tx.execute(TOUCH, &[&factor_id, &now]).await?;
    Ok(())
}

/// The number of codes, and of those that are unused.
pub(crate) async fn count(tx: &Tx, factor_id: Uuid) -> Result<(i64, i64), AuthError> {
    const NUMBERS: &str = "\
select count(*) as total, count(*) filter (where c.used_at is null) as remaining
from basalt.recovery_codes c
where c.factor_id = $1";
    let row = tx.query_one(NUMBERS, &[&factor_id]).await.map_err(AuthError::querying)?;
    Ok((column(&row, "total")?, column(&row, "remaining")?))
}

/// Whether the code is one of the factor's unused codes.
pub(crate) async fn is_unused(tx: &Tx, factor_id: Uuid, code: &str) -> Result<bool, AuthError> {
    const FIND: &str = "\
select from basalt.recovery_codes c where c.factor_id = $1 and c.code_hash = $2 and c.used_at is null";
    let row = tx.query_opt(FIND, &[&factor_id, &hash(factor_id, code)]).await;
    Ok(row.map_err(AuthError::querying)?.is_some())
}

/// Uses a code. `false` if it is not an unused code of the factor.
pub(crate) async fn use_code(
    tx: &Tx,
    factor_id: Uuid,
    code: &str,
    now: Timestamp,
) -> Result<bool, AuthError> {
    const USE: &str = "\
update basalt.recovery_codes set used_at = $3 where factor_id = $1 and code_hash = $2 and used_at is null";
    Ok(tx.execute(USE, &[&factor_id, &hash(factor_id, code), &now]).await? > 0)
}

/// The recovery codes of a user who has no other verified factor: they must not remain alone.
pub(crate) async fn sole_factor(tx: &Tx, user_id: Uuid) -> Result<Option<Uuid>, AuthError> {
    const FIND: &str = "\
select f.id
from auth.mfa_factors f
where f.user_id = $1 and f.factor_type = 'recovery_code'
  and not exists (
    select from auth.mfa_factors o
    where o.user_id = $1 and o.status = 'verified' and o.factor_type <> 'recovery_code'
  )";
    let row = tx.query_opt(FIND, &[&user_id]).await.map_err(AuthError::querying)?;
    row.map(|row| column(&row, "id")).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_canonical() {
        let codes = generate();
        assert_eq!(codes.len(), COUNT);
        let distinct: std::collections::HashSet<_> = codes.iter().collect();
        assert_eq!(distinct.len(), COUNT);
        for code in &codes {
            assert_eq!(code.len(), LENGTH);
            assert_eq!(canonical(code), *code);
        }
    }

    #[test]
    fn case_spaces_and_dashes_do_not_matter() {
        let id = random::uuid();
        assert_eq!(hash(id, " K4M9-X7QP 2AB8-HT3Z\n"), hash(id, "k4m9x7qp2ab8ht3z"));
        assert_ne!(hash(id, "k4m9x7qp2ab8ht3z"), hash(random::uuid(), "k4m9x7qp2ab8ht3z"));
    }
}
