//! Links that stop a kind of mail about a plan. They are signed rather than stored: they work for as long as the person is on the team,
//! without signing in, and for nothing else.

use aws_lc_rs::hmac;
use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;
use tokio::time::Instant;
use tokio_postgres::Row;
use uuid::Uuid;

use super::MailKind;
use crate::STATEMENT_LIMIT;

const KEY: &str = "select key from functions.link_keys where purpose = 'stop plan mails'";
/// The ids of person and plan, and the kind.
const CLAIM_BYTES: usize = 33;

/// What a link stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopLink {
    pub(crate) person: Uuid,
    pub(crate) plan: Uuid,
    pub(crate) kind: MailKind,
}

/// The key that signs links.
pub(crate) struct Key(hmac::Key);

fn from_row(row: &Row) -> Result<Key, SessionError> {
    let bytes: Vec<u8> = row.try_get(0).map_err(|error| SessionError::Unavailable(error.to_string()))?;
    Ok(Key(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
}

/// Reads the key in a transaction.
pub(super) async fn key(tx: &Tx) -> Result<Key, SessionError> {
    from_row(&tx.query_one(KEY, &[]).await?)
}

/// Reads the key.
pub(crate) async fn read_key(system: &ServicePool) -> Result<Key, SessionError> {
    let tx = system.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let row = tx.query_one(KEY, &[]).await;
    from_row(&tx.finish(row).await?)
}

impl Key {
    /// The token of a link.
    pub(crate) fn sign(&self, StopLink { person, plan, kind }: StopLink) -> String {
        let mut bytes = Vec::with_capacity(CLAIM_BYTES + 32);
        bytes.extend_from_slice(person.as_bytes());
        bytes.extend_from_slice(plan.as_bytes());
        bytes.extend(
            MailKind::ALL.iter().zip(0..).filter(|(known, _)| **known == kind).map(|(_, number)| number),
        );
        let signature = hmac::sign(&self.0, &bytes);
        bytes.extend_from_slice(signature.as_ref());
        hex::encode(bytes)
    }

    /// What a token stops; `None` unless this key signed it.
    pub(crate) fn verify(&self, token: &str) -> Option<StopLink> {
        let bytes = hex::decode(token).ok()?;
        let (claim, signature) = bytes.split_at_checked(CLAIM_BYTES)?;
        hmac::verify(&self.0, claim, signature).ok()?;
        let (person, rest) = claim.split_at_checked(16)?;
        let (plan, kind) = rest.split_at_checked(16)?;
        Some(StopLink {
            person: Uuid::from_slice(person).ok()?,
            plan: Uuid::from_slice(plan).ok()?,
            kind: *MailKind::ALL.get(usize::from(*kind.first()?))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_token_is_rejected() {
        let key = Key(hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]));
        let other = Key(hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]));
        for kind in MailKind::ALL {
            let link = StopLink { person: Uuid::from_u128(1), plan: Uuid::from_u128(2), kind };
            let token = key.sign(link);
            assert_eq!(key.verify(&token), Some(link));
            assert_eq!(other.verify(&token), None);
            for position in 0..token.len() {
                let mut changed = token.clone().into_bytes();
                changed[position] = if changed[position] == b'0' { b'1' } else { b'0' };
                let changed = String::from_utf8(changed).unwrap();
                assert!(changed == token || key.verify(&changed).is_none(), "{position}");
            }
        }
        for forged in ["", "00", "x", &"0".repeat(66), &"0".repeat(130), "é"] {
            assert_eq!(key.verify(forged), None, "{forged}");
        }
    }
}
