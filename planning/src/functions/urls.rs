//! Addresses that Stripe's pages return to: pages of the app only (functions.md 3.11). Otherwise an attacker could choose them.

use super::Fields;
use crate::app::App;
use crate::refusal::Refusal;

const MAX_BYTES: usize = 2048;

/// The URL of a field, else the app's page `usual`.
///
/// # Errors
/// It is not a page of the app.
pub(super) fn return_url(app: &App, fields: &Fields, name: &str, usual: &str) -> Result<String, Refusal> {
    if !fields.has(name) {
        return Ok(format!("{}{usual}", app.site_url));
    }
    let url = fields.optional(name).filter(|url| url.len() <= MAX_BYTES && (app.is_page)(url));
    url.map(str::to_owned).ok_or_else(|| Refusal::bad_request(format!("Invalid {name}")))
}
