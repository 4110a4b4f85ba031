//! Where people are sent back to: pages of the app only (functions.md 3.11). Otherwise our mails and Stripe's pages would lead
//! anywhere an attacker likes.

use super::{Fields, Refusal};
use crate::Functions;

const MOST_BYTES: usize = 2048;

/// The URL of a field, else the app's page `usual`.
///
/// # Errors
/// It is no page of the app.
pub(super) fn return_url(
    functions: &Functions,
    fields: &Fields,
    name: &str,
    usual: &str,
) -> Result<String, Refusal> {
    if !fields.has(name) {
        return Ok(format!("{}{usual}", functions.site_url));
    }
    let url = fields.optional(name).filter(|url| url.len() <= MOST_BYTES && (functions.is_page)(url));
    url.map(str::to_owned).ok_or_else(|| Refusal::bad_request(format!("Invalid {name}")))
}
