//! The confirmation page (`auth.mailer_confirm_links`, decision 0010). Mail scanners that open links get the page; the code is
//! used only when the user presses the button.

use axum::response::{Html, IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

/// No scripts and no external resources. Without `form-action`, which browsers would also apply to the redirect.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

const STYLE: &str = "\
body{margin:0;min-height:100vh;display:grid;place-items:center;background:#fafafa;color:#18181b;\
font:16px/1.5 system-ui,sans-serif}\
main{max-width:24rem;padding:2rem;text-align:center}\
h1{font-size:1.25rem;margin:0 0 .5rem}\
button{margin-top:1rem;padding:.625rem 1.5rem;border:0;border-radius:.5rem;background:#18181b;color:#fafafa;\
font:inherit;cursor:pointer}\
@media(prefers-color-scheme:dark){body{background:#18181b;color:#fafafa}button{background:#fafafa;color:#18181b}}";

/// The page. The button submits `fields` to the same URL.
pub(super) fn page(fields: &[(&str, &str)]) -> Response {
    let hidden: String = fields
        .iter()
        .map(|(name, value)| format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value)))
        .collect();
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\"><title>Continue</title><style>{STYLE}</style></head>\
         <body><main><h1>Almost there</h1><p>Press the button to finish what you started by e-mail.</p>\
         <form method=\"get\">{hidden}<button autofocus>Continue</button></form></main></body></html>"
    );
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(html)).into_response()
}

/// Escapes an attribute's value.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_attribute_values() {
        assert_eq!(escape("\"><script>&"), "&quot;&gt;&lt;script&gt;&amp;");
    }
}
