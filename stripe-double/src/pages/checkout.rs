//! `/c/pay/{session}`: the hosted checkout page.

use axum::response::Response;
use basalt_core::html::escape;
use http::StatusCode;

use super::{Field, Form, Page, alert, card_fields, message, redirect};
use crate::Double;
use crate::cards::{Behaviour, TypedCard};
use crate::json::date_text;
use crate::params::is_email;
use crate::state::{Buyer, Session, SessionStatus};

/// Why a form was rejected: an invalid field, or a failed payment.
#[derive(Default)]
struct Refusal<'a> {
    field: Option<(&'a str, &'a str)>,
    payment: Option<&'a str>,
}

/// The open session, or a page that explains why it cannot be paid.
fn open_session(double: &Double, id: &str) -> Result<Session, Box<Response>> {
    let session = double.lock().state.sessions.get(id).cloned();
    let gone = |text: &str| Box::new(message(double, StatusCode::NOT_FOUND, "Nothing to pay here", text));
    let Some(session) = session else {
        return Err(gone("This checkout does not exist. Go back to the site and choose a plan again."));
    };
    match session.status {
        SessionStatus::Open => Ok(session),
        SessionStatus::Expired => {
            Err(gone("This checkout has expired. Go back to the site and choose a plan again."))
        }
        // After a second click on Pay or the back button, the purchase stays valid.
        SessionStatus::Complete => Err(Box::new(already_paid(double, &session))),
    }
}

fn already_paid(double: &Double, session: &Session) -> Response {
    let main = format!(
        "<section class=\"card\"><h1>You are all done here</h1><p>This subscription has been paid for already.</p>\
         <p><a class=\"button\" href=\"{}\">Back to the site</a></p></section>",
        escape(&success_url(session))
    );
    Page { title: "Paid", main, status: StatusCode::OK, leads_to: Vec::new() }.respond(double)
}

fn success_url(session: &Session) -> String {
    session.success_url.replace("{CHECKOUT_SESSION_ID}", &session.id)
}

pub(super) fn show(double: &Double, id: &str) -> Response {
    match open_session(double, id) {
        Ok(session) => page(double, &session, &Form(std::collections::HashMap::new()), &Refusal::default()),
        Err(response) => *response,
    }
}

fn page(double: &Double, session: &Session, form: &Form, refusal: &Refusal<'_>) -> Response {
    let (known, now) = {
        let inner = double.lock();
        let customer = session.customer.as_deref().and_then(|id| inner.state.customers.get(id));
        (
            customer.and_then(|customer| customer.email.clone()).or_else(|| session.customer_email.clone()),
            double.now(&inner),
        )
    };
    let price = &session.price;
    let (amount, interval) = (escape(&price.amount_text()), price.interval.as_str());
    let first = price.interval.after(now, 1);
    let (due, terms, button) = match session.trial_days {
        Some(days) => (
            "$0.00".to_owned(),
            format!("{days} days free, then {amount} per {interval}."),
            "Start trial".to_owned(),
        ),
        None => (
            amount.clone(),
            format!("Renews on {} and then every {interval}, until canceled.", date_text(first)),
            format!("Pay {amount}"),
        ),
    };
    let back = session.cancel_url.as_deref().map_or_else(String::new, |url| {
        format!("<p class=\"back\"><a href=\"{}\">← Back</a></p>", escape(url))
    });
    let email = match &known {
        Some(email) => format!(
            "<div class=\"field\"><span class=\"label\">Email</span><p class=\"fixed\">{}</p></div>",
            escape(email)
        ),
        None => Field {
            name: "email",
            label: "Email",
            value: form.get("email"),
            attributes: "type=\"email\" autocomplete=\"email\" maxlength=\"512\" required",
            fault: refusal.field.filter(|(field, _)| *field == "email").map(|(_, text)| text),
        }
        .html(),
    };
    let name = Field {
        name: "name",
        label: "Name on card",
        value: form.get("name"),
        attributes: "autocomplete=\"off\" maxlength=\"200\" required",
        fault: refusal.field.filter(|(field, _)| *field == "name").map(|(_, text)| text),
    };
    let main = format!(
        "{back}<div class=\"columns\"><section class=\"summary\" aria-labelledby=\"what\">\
         <h1 id=\"what\">Subscribe to {plan}</h1>\
         <p class=\"amount\"><strong>{amount}</strong> <span>per {interval}</span></p>\
         <dl><div><dt>{plan}</dt><dd>{amount}</dd></div><div class=\"total\"><dt>Due today</dt><dd>{due}</dd></div></dl>\
         <p class=\"quiet\">{terms}</p></section>\
         <section class=\"card\" aria-labelledby=\"pay\"><h2 id=\"pay\">Pay with card</h2>{alert}\
         <form method=\"post\" action=\"{base}/c/pay/{id}\">{email}{card}{name}\
         <button type=\"submit\">{button}</button></form></section></div>",
        plan = escape(&price.product_name),
        alert = alert(refusal.payment),
        base = escape(double.base_path()),
        id = escape(&session.id),
        card = card_fields(form, refusal.field),
        name = name.html(),
    );
    let status = match (refusal.field, refusal.payment) {
        (None, None) => StatusCode::OK,
        (_, Some(_)) => StatusCode::PAYMENT_REQUIRED,
        (Some(_), None) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let leads_to = vec![session.success_url.as_str()];
    Page { title: "Checkout", main, status, leads_to }.respond(double)
}

pub(super) async fn pay(double: &Double, id: &str, form: &Form) -> Response {
    let session = match open_session(double, id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let (known, now) = {
        let inner = double.lock();
        let customer = session.customer.as_deref().and_then(|id| inner.state.customers.get(id));
        (
            customer.and_then(|customer| customer.email.clone()).or_else(|| session.customer_email.clone()),
            double.now(&inner),
        )
    };
    let email = known.unwrap_or_else(|| form.get("email").to_owned());
    let refused =
        |field, text| page(double, &session, form, &Refusal { field: Some((field, text)), payment: None });
    if !is_email(&email) {
        return refused("email", "Enter an email address such as name@example.org.");
    }
    let typed = TypedCard { number: form.get("number"), expiry: form.get("expiry"), cvc: form.get("cvc") };
    let (card, behaviour) = match typed.check(now) {
        Ok(card) => card,
        Err(fault) => return refused(fault.field, fault.message),
    };
    let name = form.get("name").chars().take(200).collect::<String>();
    if name.is_empty() {
        return refused("name", "Enter the name on the card.");
    }
    if let Some(decline) = behaviour.decline() {
        return page(double, &session, form, &Refusal { field: None, payment: Some(&decline.message) });
    }
    let buyer = Buyer { email, name };
    if behaviour == Behaviour::AsksToConfirm {
        double.with(|inner, _| {
            if let Some(session) = inner.state.sessions.get_mut(id) {
                session.confirming = Some((card, buyer));
            }
        });
        return ask_to_confirm(double, &session);
    }
    finish(double, &session, buyer, card).await
}

fn ask_to_confirm(double: &Double, session: &Session) -> Response {
    let main = format!(
        "<section class=\"card narrow\"><h1>Confirm this payment</h1>\
         <p>Your bank asks whether it is you who pays {} for {}.</p>\
         <form method=\"post\" action=\"{}/c/pay/{}/confirm\">\
         <button type=\"submit\" name=\"answer\" value=\"yes\">Confirm payment</button>\
         <button type=\"submit\" name=\"answer\" value=\"no\" class=\"second\">Refuse</button></form></section>",
        escape(&session.price.amount_text()),
        escape(&session.price.product_name),
        escape(double.base_path()),
        escape(&session.id)
    );
    let leads_to = vec![session.success_url.as_str()];
    Page { title: "Confirm payment", main, status: StatusCode::OK, leads_to }.respond(double)
}

pub(super) async fn confirm(double: &Double, id: &str, form: &Form) -> Response {
    let session = match open_session(double, id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let confirming =
        double.with(|inner, _| inner.state.sessions.get_mut(id).and_then(|it| it.confirming.take()));
    match confirming {
        Some((card, buyer)) if form.get("answer") == "yes" => finish(double, &session, buyer, card).await,
        _ => {
            let text =
                "We are unable to authenticate your payment method. Choose a different one and try again.";
            page(double, &session, form, &Refusal { field: None, payment: Some(text) })
        }
    }
}

async fn finish(double: &Double, session: &Session, buyer: Buyer, card: crate::cards::Card) -> Response {
    match double.pay(&session.id, buyer, card).await {
        Ok(()) => redirect(&success_url(session)),
        // Another click completed the purchase first.
        Err(_) => show(double, &session.id),
    }
}
