//! The web pages: checkout, customer portal, and an overview. Rendered on the server without scripts, marked as
//! test mode. As at Stripe, the random parts of the links grant access; there are no cookies.

mod checkout;
mod overview;
mod portal;

use std::collections::HashMap;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::html::escape;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, StatusCode};
use url::Url;

use crate::Double;

const STYLE: &str = include_str!("pages/style.css");

/// The app's logo: three basalt columns.
const LOGO: &str = "<svg viewBox=\"0 0 32 32\" width=\"32\" height=\"32\" aria-hidden=\"true\" focusable=\"false\">\
    <rect width=\"32\" height=\"32\" rx=\"8\" fill=\"#0f5c55\"/><path fill=\"#9fd8cb\" d=\"M8.5 17.2 12 19.2v6.3H5v-6.3z\"/>\
    <path fill=\"#d5f0e8\" d=\"M16 11.2l3.5 2v12.3h-7V13.2z\"/><path fill=\"#f5b860\" d=\"M23.5 5.2l3.5 2v18.3h-7V7.2z\"/></svg>";

/// The fields of a submitted form.
struct Form(HashMap<String, String>);

impl Form {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }
}

/// One page.
struct Page<'a> {
    title: &'a str,
    /// The content of `main`, as HTML.
    main: String,
    status: StatusCode,
    /// Targets of redirects after a form of the page, which browsers check against `form-action` too.
    leads_to: Vec<&'a str>,
}

pub(crate) async fn answer(double: &Double, request: Request<Body>, path: &[&str]) -> Response {
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref method => method.clone(),
    };
    if method == Method::GET && matches!(path, ["style.css"]) {
        return guarded(
            ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response(),
            "default-src 'none'",
        );
    }
    let is_own =
        request.headers().get("sec-fetch-site").is_none_or(|site| matches!(site.as_bytes(), b"same-origin"));
    if method == Method::POST && !is_own {
        return message(
            double,
            StatusCode::FORBIDDEN,
            "Forbidden",
            "This action is only available from the page itself.",
        );
    }
    let form = match method {
        Method::POST => match crate::body(request).await {
            Some(body) => Form(url::form_urlencoded::parse(&body).into_owned().collect()),
            None => {
                return message(double, StatusCode::PAYLOAD_TOO_LARGE, "Too long", "The form is too long.");
            }
        },
        _ => Form(HashMap::new()),
    };
    match (method.as_str(), path) {
        ("GET", [""]) => overview::show(double),
        ("POST", ["clock"]) => overview::move_clock(double, &form),
        ("GET", ["c", "pay", session]) => checkout::show(double, session),
        ("POST", ["c", "pay", session]) => checkout::pay(double, session, &form).await,
        ("POST", ["c", "pay", session, "confirm"]) => checkout::confirm(double, session, &form).await,
        ("GET", ["p", "session", secret]) => portal::open(double, secret),
        ("GET", ["p", "visit", visit]) => portal::show(double, visit),
        ("GET", ["p", "visit", visit, subscription, action]) => {
            portal::ask(double, visit, subscription, action).await
        }
        ("POST", ["p", "visit", visit, subscription, action]) => {
            portal::act(double, visit, subscription, action, &form).await
        }
        _ => message(double, StatusCode::NOT_FOUND, "Page not found", "There is nothing at this address."),
    }
}

impl Page<'_> {
    fn respond(self, double: &Double) -> Response {
        let base = escape(double.base_path());
        let title = escape(self.title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title} – test payments</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <link rel=\"stylesheet\" href=\"{base}/style.css\">\n</head>\n<body>\n\
             <header>\n<p class=\"test\"><strong>Test mode.</strong> No money moves. Never type a real card number.</p>\n\
             <p class=\"brand\">{LOGO}<span>Basalt</span></p>\n</header>\n<main>\n{}\n</main>\n\
             <footer>A local double of Stripe, for development. Not Stripe.</footer>\n</body>\n</html>\n",
            self.main
        );
        let mut policy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; \
                          frame-ancestors 'none'; form-action 'self'"
            .to_owned();
        for url in self.leads_to {
            if let Ok(url) = Url::parse(url) {
                policy.push(' ');
                policy.push_str(&url.origin().ascii_serialization());
            }
        }
        let response = (self.status, [(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response();
        guarded(response, &policy)
    }
}

/// A page with a single message.
fn message(double: &Double, status: StatusCode, title: &str, text: &str) -> Response {
    let main = format!("<section class=\"card\"><h1>{}</h1><p>{}</p></section>", escape(title), escape(text));
    Page { title, main, status, leads_to: Vec::new() }.respond(double)
}

fn redirect(to: &str) -> Response {
    let Ok(to) = HeaderValue::from_str(to) else { return StatusCode::BAD_REQUEST.into_response() };
    guarded((StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response(), "default-src 'none'")
}

fn guarded(mut response: Response, policy: &str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = HeaderValue::from_str(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// A form field with its label and, if its value is invalid, an error.
struct Field<'a> {
    name: &'a str,
    label: &'a str,
    value: &'a str,
    /// Additional attributes, as HTML.
    attributes: &'a str,
    fault: Option<&'a str>,
}

impl Field<'_> {
    fn html(&self) -> String {
        let (name, label, value) = (self.name, escape(self.label), escape(self.value));
        let (state, fault) = match self.fault {
            Some(text) => (
                format!(" aria-invalid=\"true\" aria-describedby=\"{name}-fault\" autofocus"),
                format!("<p class=\"fault\" id=\"{name}-fault\">{}</p>", escape(text)),
            ),
            None => (String::new(), String::new()),
        };
        format!(
            "<div class=\"field {name}\"><label for=\"{name}\">{label}</label>\
             <input id=\"{name}\" name=\"{name}\" value=\"{value}\" {}{state}>{fault}</div>",
            self.attributes
        )
    }
}

/// The fields of a card, with test numbers as suggestions. `fault` is the name of a field and its error.
fn card_fields(form: &Form, fault: Option<(&str, &str)>) -> String {
    let of = |name: &str| fault.filter(|(field, _)| *field == name).map(|(_, text)| text);
    let grouped = |number: &str| {
        let digits: Vec<char> = number.chars().collect();
        digits.chunks(4).map(|four| four.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
    };
    let mut options = String::new();
    let mut rows = String::new();
    for (number, _, _, does) in crate::cards::CARDS {
        let (number, does) = (grouped(number), escape(does));
        options.push_str(&format!("<option value=\"{number}\">{does}</option>"));
        rows.push_str(&format!("<tr><td><code>{number}</code></td><td>{does}</td></tr>"));
    }
    let number = Field {
        name: "number",
        label: "Card number",
        value: form.get("number"),
        attributes: "list=\"cards\" inputmode=\"numeric\" autocomplete=\"off\" maxlength=\"23\" required \
                     placeholder=\"4242 4242 4242 4242\"",
        fault: of("number"),
    };
    let expiry = Field {
        name: "expiry",
        label: "Expiry (MM/YY)",
        value: form.get("expiry"),
        attributes: "inputmode=\"numeric\" autocomplete=\"off\" maxlength=\"9\" required placeholder=\"12 / 34\"",
        fault: of("expiry"),
    };
    let cvc = Field {
        name: "cvc",
        label: "Security code",
        value: "",
        attributes: "inputmode=\"numeric\" autocomplete=\"off\" maxlength=\"4\" required placeholder=\"123\"",
        fault: of("cvc"),
    };
    format!(
        "{}<datalist id=\"cards\">{options}</datalist><div class=\"pair\">{}{}</div>\
         <details><summary>Test cards</summary><p>Any date to come and any three digits go with them.</p>\
         <table><thead><tr><th scope=\"col\">Number</th><th scope=\"col\">The card …</th></tr></thead>\
         <tbody>{rows}</tbody></table></details>",
        number.html(),
        expiry.html(),
        cvc.html()
    )
}

/// An error message above a form.
fn alert(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("<p class=\"alert\" role=\"alert\">{}</p>", escape(text)))
}
