//! Return addresses for Stripe's pages. Only pages of the app are allowed (functions.md 3.11); otherwise an attacker could choose them.

use super::Fields;
use crate::app::App;
use crate::refusal::Refusal;

const MAX_BYTES: usize = 2048;

/// The URL in a field, or the app's page `default` if the field is missing.
///
/// # Errors
/// The URL is not a page of the app.
pub(super) fn return_url(app: &App, fields: &Fields, name: &str, default: &str) -> Result<String, Refusal> {
    if !fields.has(name) {
        return Ok(format!("{}{default}", app.site_url));
    }
    let url = fields.optional(name).filter(|url| url.len() <= MAX_BYTES && (app.is_page)(url));
    url.map(str::to_owned).ok_or_else(|| Refusal::bad_request(format!("Invalid {name}")))
}
