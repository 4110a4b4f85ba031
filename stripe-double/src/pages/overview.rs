//! `/`: an overview of the double's state, and its clock.

use axum::response::Response;
use basalt_core::html::escape;
use http::StatusCode;

use super::{Form, Page, message, redirect};
use crate::Double;
use crate::json::{date_text, status_text};

const DAY: i64 = 86_400;

pub(super) fn show(double: &Double) -> Response {
    let base = escape(double.base_path());
    let inner = double.lock();
    let subscriptions: String = inner
        .state
        .subscriptions
        .iter()
        .rev()
        .take(50)
        .map(|it| {
            let customer =
                inner.state.customers.get(&it.customer).and_then(|customer| customer.email.clone());
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&customer.unwrap_or_else(|| it.customer.clone())),
                escape(&it.price.product_name),
                status_text(it.status),
                date_text(it.cancel_at.or(it.ended_at).unwrap_or(it.period_end))
            )
        })
        .collect();
    let events: String = inner
        .state
        .events
        .iter()
        .rev()
        .take(50)
        .map(|event| {
            let delivered = if event.delivered { "yes" } else { "no" };
            format!(
                "<tr><td>{}</td><td><code>{}</code></td><td>{delivered}</td></tr>",
                escape(&event.kind),
                escape(&event.id)
            )
        })
        .collect();
    let table = |title: &str, heads: &[&str], rows: String| {
        if rows.is_empty() {
            return format!(
                "<section class=\"card\"><h2>{title}</h2><p class=\"quiet\">None yet.</p></section>"
            );
        }
        let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
        format!(
            "<section class=\"card\"><h2>{title}</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><thead><tr>{heads}</tr></thead>\
             <tbody>{rows}</tbody></table></div></section>"
        )
    };
    let moves: String = [(1, "A day"), (7, "A week"), (31, "A month"), (366, "A year")]
        .iter()
        .map(|(days, text)| {
            format!("<button type=\"submit\" name=\"days\" value=\"{days}\" class=\"second\">{text}</button>")
        })
        .collect();
    let main = format!(
        "<h1>Test payments</h1><section class=\"card\"><h2>Clock</h2><p>It is <strong>{}</strong> here. Move on by:</p>\
         <form method=\"post\" action=\"{base}/clock\" class=\"actions\">{moves}</form></section>{}{}",
        date_text(double.now(&inner)),
        table("Subscriptions", &["Customer", "Plan", "Status", "Until"], subscriptions),
        table("Events", &["Type", "Id", "Delivered"], events),
    );
    drop(inner);
    Page { title: "Overview", main, status: StatusCode::OK, leads_to: Vec::new() }.respond(double)
}

pub(super) fn move_clock(double: &Double, form: &Form) -> Response {
    let days = form.get("days").parse::<i64>().unwrap_or_default();
    let moved =
        double.with(|inner, now| double.advance(inner, now, now.saturating_add(days.saturating_mul(DAY))));
    match moved {
        Ok(()) => redirect(&format!("{}/", double.base_path())),
        Err(text) => message(double, StatusCode::BAD_REQUEST, "Clock", text),
    }
}
