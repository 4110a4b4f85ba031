//! `/p/…`: the customer portal. A link works once and opens a visit of one hour.

use axum::response::Response;
use basalt_core::html::escape;
use http::StatusCode;

use super::{Form, Page, alert, card_fields, message, redirect};
use crate::billing::{self, Change};
use crate::cards::{Behaviour, TypedCard};
use crate::json::{date_text, status_text};
use crate::prices::{Price, amount_text};
use crate::state::{InvoiceStatus, Portal, Subscription};
use crate::{Double, new_id};

/// Validity of a link and of a visit, in seconds.
const HOUR: i64 = 3_600;

fn expired(double: &Double) -> Response {
    let text =
        "Billing links work once and for an hour. Go back to the site and open Billing Settings again.";
    message(double, StatusCode::NOT_FOUND, "This link has expired", text)
}

/// Opens the link created by `create-portal-session`.
pub(super) fn open(double: &Double, secret: &str) -> Response {
    let opened = double.with(|inner, now| {
        let id = inner.state.portals.iter().rev().find(|it| it.secret == secret).map(|it| it.id.clone())?;
        let portal = inner.state.portals.get_mut(&id)?;
        if portal.visit.is_some() || now - portal.created > HOUR {
            return None;
        }
        let visit = new_id("visit_");
        portal.visit = Some(visit.clone());
        Some((visit, portal.change.clone()))
    });
    let Some((visit, change)) = opened else { return expired(double) };
    let home = format!("{}/p/visit/{visit}", double.base_path());
    match change {
        Some(change) => redirect(&format!("{home}/{}/confirm", change.subscription)),
        None => redirect(&home),
    }
}

struct Visit {
    portal: Portal,
    subscriptions: Vec<Subscription>,
    now: i64,
    /// Path of the visit's first page.
    home: String,
}

impl Visit {
    fn find(double: &Double, visit: &str) -> Option<Self> {
        let inner = double.lock();
        let now = double.now(&inner);
        let portal = inner.state.portals.iter().rev().find(|it| it.visit.as_deref() == Some(visit))?.clone();
        // Moving the clock forward must not end a visit, because tests do that during visits.
        let home = format!("{}/p/visit/{visit}", double.base_path());
        let subscriptions =
            inner.state.subscriptions.iter().rev().filter(|it| it.customer == portal.customer);
        Some(Self { subscriptions: subscriptions.cloned().collect(), portal, now, home })
    }

    /// A subscription of the visit's customer.
    fn subscription(&self, id: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|it| it.id == id && !it.status.has_ended())
    }

    fn return_link(&self) -> String {
        let url = self.portal.return_url.as_deref();
        url.map_or_else(String::new, |url| {
            format!("<p class=\"back\"><a href=\"{}\">← Return to the site</a></p>", escape(url))
        })
    }

    fn page(&self, double: &Double, title: &str, main: &str) -> Response {
        let main = format!("{}{main}", self.return_link());
        let leads_to = self.portal.change.as_ref().and_then(|change| change.redirect.as_deref());
        Page { title, main, status: StatusCode::OK, leads_to: leads_to.into_iter().collect() }.respond(double)
    }
}

pub(super) fn show(double: &Double, visit: &str) -> Response {
    let Some(visit) = Visit::find(double, visit) else { return expired(double) };
    let mut main = "<h1>Billing</h1>".to_owned();
    let (running, ended): (Vec<_>, Vec<_>) =
        visit.subscriptions.iter().partition(|it| !it.status.has_ended());
    if running.is_empty() {
        main.push_str("<section class=\"card\"><h2>No current subscription</h2><p>Choose a plan on the site to subscribe.</p></section>");
    }
    for it in running {
        main.push_str(&current(&visit.home, it));
    }
    for it in ended {
        main.push_str(&format!(
            "<section class=\"card\"><h2>{}</h2><p class=\"badge quiet\">{}</p><p>Ended on {}.</p></section>",
            escape(&it.price.product_name),
            status_text(it.status),
            date_text(it.ended_at.unwrap_or(it.created))
        ));
    }
    main.push_str(&invoices(double, &visit.portal.customer));
    visit.page(double, "Billing", &main)
}

fn current(home: &str, it: &Subscription) -> String {
    let when = match it.cancel_at {
        Some(at) => format!("Ends on <strong>{}</strong>. It will not renew.", date_text(at)),
        None => format!("Renews on <strong>{}</strong>.", date_text(it.period_end)),
    };
    let link = |action: &str, text: &str, class: &str| {
        format!("<a class=\"button {class}\" href=\"{home}/{}/{action}\">{text}</a>", escape(&it.id))
    };
    let end = match it.cancel_at {
        Some(_) => format!(
            "<form method=\"post\" action=\"{home}/{}/renew\"><button type=\"submit\">Don't cancel</button></form>",
            escape(&it.id)
        ),
        None => link("cancel", "Cancel plan", "danger"),
    };
    format!(
        "<section class=\"card\"><h2>{}</h2><p class=\"amount\"><strong>{}</strong> <span>per {}</span></p>\
         <p class=\"badge\">{}</p><p>{when}</p><p>Paid with {}.</p><div class=\"actions\">{}{}{end}</div></section>",
        escape(&it.price.product_name),
        escape(&it.price.amount_text()),
        it.price.interval.as_str(),
        status_text(it.status),
        escape(&it.card.text()),
        link("plans", "Change plan", ""),
        link("card", "Change card", "second"),
    )
}

fn invoices(double: &Double, customer: &str) -> String {
    let inner = double.lock();
    let invoices = inner.state.invoices.iter().rev().filter(|invoice| invoice.customer == customer).take(24);
    let rows: String = invoices
        .map(|invoice| {
            let status = if invoice.status == InvoiceStatus::Paid { "Paid" } else { "Open" };
            format!(
                "<tr><td>{}</td><td>{}</td><td>{status}</td><td>{}</td></tr>",
                date_text(invoice.created),
                escape(&amount_text(invoice.amount, &invoice.price.currency)),
                escape(&invoice.price.product_name)
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"card\"><h2>Invoices</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Invoices\"><table><thead><tr><th scope=\"col\">Date</th>\
         <th scope=\"col\">Amount</th><th scope=\"col\">Status</th><th scope=\"col\">Plan</th></tr></thead>\
         <tbody>{rows}</tbody></table></div></section>"
    )
}

/// The page that asks for confirmation of an action.
pub(super) async fn ask(double: &Double, visit: &str, subscription: &str, action: &str) -> Response {
    let Some(visit) = Visit::find(double, visit) else { return expired(double) };
    let Some(it) = visit.subscription(subscription) else { return redirect(&visit.home) };
    match action {
        "cancel" => {
            let main = format!(
                "<section class=\"card narrow\"><h1>Cancel {}</h1><p>It stays available until <strong>{}</strong>, and then ends.</p>\
                 <form method=\"post\"><button type=\"submit\" class=\"danger\">Cancel plan</button></form>\
                 <p class=\"again\"><a href=\"{}\">Go back</a></p></section>",
                escape(&it.price.product_name),
                date_text(it.period_end),
                visit.home
            );
            visit.page(double, "Cancel plan", &main)
        }
        "card" => ask_for_card(double, &visit, None, None, &Form(std::collections::HashMap::new())),
        "plans" => match double.0.config.prices.prices().await {
            Ok(prices) => list_plans(double, &visit, it, &prices),
            Err(_) => message(
                double,
                StatusCode::SERVICE_UNAVAILABLE,
                "Plans",
                "The plans cannot be loaded. Try again.",
            ),
        },
        "confirm" => match visit.portal.change.as_ref().filter(|change| change.subscription == it.id) {
            Some(change) => confirm_change(double, &visit, it, &change.price),
            None => redirect(&visit.home),
        },
        _ => redirect(&visit.home),
    }
}

fn ask_for_card(
    double: &Double,
    visit: &Visit,
    field: Option<(&str, &str)>,
    payment: Option<&str>,
    form: &Form,
) -> Response {
    let main = format!(
        "<section class=\"card narrow\"><h1>Change card</h1>{}<form method=\"post\">{}\
         <button type=\"submit\">Save card</button></form><p class=\"again\"><a href=\"{}\">Go back</a></p></section>",
        alert(payment),
        card_fields(form, field),
        visit.home
    );
    visit.page(double, "Change card", &main)
}

fn list_plans(double: &Double, visit: &Visit, it: &Subscription, prices: &[Price]) -> Response {
    let mut main = "<h1>Change plan</h1>".to_owned();
    for price in prices.iter().filter(|price| price.active) {
        let choice = if price.id == it.price.id {
            "<p class=\"badge\">Current plan</p>".to_owned()
        } else {
            format!(
                "<form method=\"post\"><input type=\"hidden\" name=\"price\" value=\"{}\">\
                 <button type=\"submit\">Switch to {}</button></form>",
                escape(&price.id),
                escape(&price.product_name)
            )
        };
        main.push_str(&format!(
            "<section class=\"card\"><h2>{}</h2><p class=\"amount\"><strong>{}</strong> <span>per {}</span></p>{choice}</section>",
            escape(&price.product_name),
            escape(&price.amount_text()),
            price.interval.as_str()
        ));
    }
    main.push_str(&format!("<p class=\"again\"><a href=\"{}\">Go back</a></p>", visit.home));
    visit.page(double, "Change plan", &main)
}

fn confirm_change(double: &Double, visit: &Visit, it: &Subscription, price: &Price) -> Response {
    let main = format!(
        "<section class=\"card narrow\"><h1>Confirm your new plan</h1>\
         <dl><div><dt>Now: {}</dt><dd>{} per {}</dd></div><div class=\"total\"><dt>New: {}</dt><dd>{} per {}</dd></div></dl>\
         <p>Paid with {}.</p><form method=\"post\"><button type=\"submit\">Confirm</button></form></section>",
        escape(&it.price.product_name),
        escape(&it.price.amount_text()),
        it.price.interval.as_str(),
        escape(&price.product_name),
        escape(&price.amount_text()),
        price.interval.as_str(),
        escape(&it.card.text())
    );
    visit.page(double, "Confirm plan", &main)
}

/// Handles a form of the portal.
pub(super) async fn act(
    double: &Double,
    visit: &str,
    subscription: &str,
    action: &str,
    form: &Form,
) -> Response {
    let Some(visit) = Visit::find(double, visit) else { return expired(double) };
    let Some(it) = visit.subscription(subscription) else { return redirect(&visit.home) };
    let id = it.id.as_str();
    match action {
        // Under flexible billing the portal sets the date and does not change `cancel_at_period_end`.
        "cancel" => {
            let change = Change::CancelAt(Some(it.period_end));
            double.with(|inner, now| billing::update(inner, now, id, |it| billing::apply(it, now, &change)));
        }
        "renew" => {
            double.with(|inner, now| {
                billing::update(inner, now, id, |it| billing::apply(it, now, &Change::CancelAt(None)))
            });
        }
        "card" => {
            let typed =
                TypedCard { number: form.get("number"), expiry: form.get("expiry"), cvc: form.get("cvc") };
            match typed.check(visit.now) {
                Err(fault) => {
                    return ask_for_card(double, &visit, Some((fault.field, fault.message)), None, form);
                }
                Ok((_, Behaviour::Declines(_, _, text))) => {
                    return ask_for_card(double, &visit, None, Some(text), form);
                }
                Ok((card, _)) => double.with(|inner, now| billing::replace_card(inner, now, id, card)),
            }
        }
        "plans" => {
            let prices = double.0.config.prices.prices().await.unwrap_or_default();
            let price = prices.into_iter().find(|price| price.id == form.get("price") && price.active);
            if let Some(price) = price {
                double.with(|inner, now| billing::change_price(inner, now, id, price));
            }
        }
        "confirm" => {
            if let Some(change) = visit.portal.change.clone().filter(|change| change.subscription == id) {
                double.with(|inner, now| billing::change_price(inner, now, id, change.price));
                if let Some(url) = change.redirect {
                    return redirect(&url);
                }
            }
        }
        _ => {}
    }
    redirect(&visit.home)
}
