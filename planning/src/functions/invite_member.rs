//! `invite-member`: sends the link of an invitation that the app has stored in `plan_members` (functions.md 3.19).
//!
//! Only the plan and the address are taken from the body: with any other field, a signed-in user could send mail with arbitrary text and
//! links from our domain. The sender's address must be confirmed, and rate limits apply per sender and per recipient across plans (decision 0083).
//!
//! The link has a token of its own, which proves the recipient's address (decision 0140). Each attempt is recorded, so that the app can show
//! invitations whose mail was not delivered.

use std::sync::Arc;

use axum::body::Body;
use basalt_mail::{Author, Message};
use basalt_pg::session::SessionError;
use basalt_pg::sql::Param;
use http::StatusCode;
use http::request::Parts;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::caller::row;
use super::template::{Values, render};
use super::{Answer, Caller, fields, is_email, ok};
use crate::STATEMENT_LIMIT;
use crate::app::App;
use crate::layout::one_line;
use crate::mailer::{Delivery, MailError, PLAN_INVITATION};
use crate::refusal::Refusal;

/// A stored invitation.
struct Invitation {
    member_id: Uuid,
    email: String,
    role: String,
    plan_title: String,
}

pub(crate) async fn invite_member(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let email = fields.required("email")?;
    if !is_email(email) {
        return Err(Refusal::bad_request("Please enter a valid email address"));
    }
    let plan =
        Uuid::parse_str(fields.required("planId")?).map_err(|_| Refusal::bad_request("Invalid planId"))?;
    let invitation = find(&app, &caller, plan, email).await?;
    let attempt = Attempt::begin(&app, invitation.member_id).await?;
    let attempt = attempt.ok_or_else(|| Refusal::not_found("No pending invitation for this address"))?;
    let origin = fields.optional("inviteUrl").and_then(|url| app.origin(url));
    let origin = origin.unwrap_or_else(|| app.site_url.clone());
    let sent = async {
        if !may_send(&app, &caller).await? {
            return Err(Refusal::forbidden("Confirm your e-mail address first"));
        }
        let rates = &app.rates;
        rates.invite_by_user.take(caller.id.to_string())?;
        rates.invite_by_user_daily.take(caller.id.to_string())?;
        rates.invite_by_plan.take(plan.to_string())?;
        rates.invite_by_recipient.take(recipient_key(email))?;
        let message = message(&app, &caller, plan, &invitation, &attempt, &origin).await?;
        app.mailer.enqueue(&message).await.map_err(refusal)
    };
    let mail = match sent.await {
        Ok(mail) => mail,
        Err(refused) => {
            attempt.record(&app, None, Some(&refused.message)).await?;
            return Err(refused);
        }
    };
    attempt.record(&app, Some(mail.id), None).await?;
    match mail.delivery().await {
        Ok(Delivery::Accepted(id)) => ok(&json!({"success": true, "id": id})),
        Ok(Delivery::Queued) => ok(&json!({"success": true, "queued": true})),
        Err(error) => Err(refusal(error)),
    }
}

/// An attempt to mail an invitation, recorded in the database.
struct Attempt {
    id: i64,
    /// The token in the link. Only its hash is stored.
    token: Uuid,
    expires_at: Timestamp,
}

impl Attempt {
    /// Renews an expired invitation. `None` if it was accepted or withdrawn meanwhile.
    async fn begin(app: &App, member: Uuid) -> Result<Option<Self>, SessionError> {
        const BEGIN: &str = "select attempt_id, token, expires_at from public.begin_invitation_mail($1)";
        let tx = app.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let row = tx.query_opt(BEGIN, &[&member]).await;
        let Some(row) = tx.finish(row).await? else { return Ok(None) };
        let invalid = |error: tokio_postgres::Error| SessionError::Unavailable(error.to_string());
        Ok(Some(Self {
            id: row.try_get(0).map_err(invalid)?,
            token: row.try_get(1).map_err(invalid)?,
            expires_at: row.try_get(2).map_err(invalid)?,
        }))
    }

    async fn record(&self, app: &App, mail: Option<i64>, refusal: Option<&str>) -> Result<(), SessionError> {
        const NOTE: &str = "select public.note_invitation_mail($1, $2, $3)";
        let tx = app.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let noted = tx.query_opt(NOTE, &[&self.id, &mail, &refusal]).await;
        tx.finish(noted).await.map(drop)
    }

    /// Whole days until the invitation expires, at least 1.
    fn days_left(&self, now: Timestamp) -> i64 {
        const DAY_SECONDS: i64 = 24 * 3600;
        let seconds = self.expires_at.as_second() - now.as_second();
        ((seconds + DAY_SECONDS / 2) / DAY_SECONDS).max(1)
    }
}

/// Whether the caller has proven ownership of their address. Automatic confirmation is no proof; it suffices only while mail stays in the
/// development mailbox.
async fn may_send(app: &App, caller: &Caller) -> Result<bool, Refusal> {
    let account = &caller.account;
    let needs_proof = app.confirms_without_mail && app.mailer.sends_mail().await.map_err(refusal)?;
    Ok(account.is_confirmed && (account.is_proven || !needs_proof))
}

/// One key for spellings that most providers deliver to the same mailbox: any case, with or without `+tag`.
fn recipient_key(email: &str) -> String {
    let email = email.to_lowercase();
    let Some((local, domain)) = email.split_once('@') else { return email };
    let mailbox = local.split('+').next().filter(|mailbox| !mailbox.is_empty()).unwrap_or(local);
    format!("{mailbox}@{domain}")
}

pub(super) fn refusal(error: MailError) -> Refusal {
    match error {
        MailError::NotConfigured => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "E-mail sending is not configured")
        }
        MailError::Refused(failure) => {
            let message = format!("The e-mail could not be sent: {}", failure.reason);
            Refusal::new(StatusCode::BAD_GATEWAY, message)
        }
        MailError::Database(error) => error.into(),
        MailError::Settings(error) => {
            tracing::warn!(error, "cannot read the e-mail settings");
            Refusal::unavailable()
        }
    }
}

/// The invitation, if the caller's rights allow them to see it.
async fn find(app: &App, caller: &Caller, plan: Uuid, email: &str) -> Result<Invitation, Refusal> {
    const PLAN: &str = "\
select p.title, public.get_user_plan_role(p.id, $2::uuid) from public.plans p where p.id = $1::uuid";
    // Only owners and managers see invitations. An expired one is renewed when its mail is begun.
    const INVITATION: &str = "\
select m.id, m.email, m.role
from public.plan_members m
where m.plan_id = $1::uuid and lower(m.email) = lower($2) and not m.invite_accepted
  and m.invite_token is not null";
    let plan = Param::from(plan.to_string());
    let steps = vec![
        (PLAN, vec![plan.clone(), caller.id.to_string().into()]),
        (INVITATION, vec![plan, email.into()]),
    ];
    let answers = caller.read(app, steps).await?;
    let visible = row(&answers, 0)
        .ok_or_else(|| Refusal::not_found("Could not find the specified plan. It may have been deleted."))?;
    let own_role = visible.text(1);
    if !matches!(own_role, Some("owner" | "manager")) {
        return Err(Refusal::forbidden("Only owners and managers can invite members"));
    }
    let missing = || Refusal::not_found("No pending invitation for this address");
    let invited = row(&answers, 1).ok_or_else(missing)?;
    let text = |column| invited.text(column).map(str::to_owned).ok_or_else(missing);
    let invitation = Invitation {
        member_id: text(0)?.parse().map_err(|_not_a_uuid| missing())?,
        email: text(1)?,
        role: text(2)?,
        plan_title: visible.text(0).unwrap_or_default().to_owned(),
    };
    if invitation.role == "owner" && own_role != Some("owner") {
        return Err(Refusal::forbidden("Only owners can invite owners"));
    }
    Ok(invitation)
}

async fn message(
    app: &App,
    caller: &Caller,
    plan: Uuid,
    invitation: &Invitation,
    attempt: &Attempt,
    origin: &str,
) -> Result<Message, Refusal> {
    let template = app.setting("invite_email_template").await?;
    let part = |name: &str| {
        let text = template.as_ref().and_then(|template| template.get(name)).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    let settings = app.setting("email_resend").await?;
    let site = settings.as_ref().and_then(|value| value.get("fromName")).and_then(Value::as_str);
    let site = site.filter(|name| !name.trim().is_empty()).unwrap_or(&app.name);
    let address = caller.account.email.as_deref().unwrap_or_default();
    let inviter = inviter_name(caller.account.name.as_deref(), address);
    let values = Values {
        plan_title: &invitation.plan_title,
        inviter_email: address,
        role: &invitation.role,
        invite_url: &format!("{origin}/invite?token={}&plan={plan}", attempt.token),
        inviter: &inviter,
        recipient: &invitation.email,
        app_name: site,
        days_left: attempt.days_left(app.clock.now()),
    };
    let rendered = render(part("subject"), part("body"), &values);
    let day = app.clock.now().strftime("%Y-%m-%d");
    let author = (!address.is_empty()).then(|| Author {
        sender_name: one_line(&format!("{inviter} via {site}")),
        reply_to: address.to_owned(),
    });
    Ok(Message {
        kind: PLAN_INVITATION,
        to: invitation.email.clone(),
        subject: rendered.subject,
        html: rendered.html,
        text: rendered.text,
        // Each attempt has a link of its own, and the provider rejects a key with another content.
        idempotency_key: Some(format!("invite/{}/{day}/{}", invitation.member_id, attempt.id)),
        author,
        unsubscribe_url: None,
    })
}

/// The sender's name as recipients see it: the account's, unless it could pass for an address or a link.
fn inviter_name(name: Option<&str>, address: &str) -> String {
    const MAX_CHARS: usize = 60;
    let name = name.map(|name| one_line(name).trim().to_owned());
    let name = name.filter(|name| !name.is_empty() && !name.contains(['@', '/', '<', '>', ':', '"']));
    name.map_or_else(|| address.to_owned(), |name| name.chars().take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_looks_like_an_address_is_not_shown() {
        assert_eq!(inviter_name(Some(" Riverside\r\nTrust "), "ada@example.org"), "Riverside  Trust");
        for name in [None, Some(""), Some("bank@example.com"), Some("https://evil.example"), Some("a <b>")] {
            assert_eq!(inviter_name(name, "ada@example.org"), "ada@example.org", "{name:?}");
        }
        assert_eq!(inviter_name(Some(&"x".repeat(80)), "a@b.org").len(), 60);
    }

    #[test]
    fn days_left_are_rounded() {
        let attempt =
            Attempt { id: 1, token: Uuid::nil(), expires_at: Timestamp::from_second(14 * 86_400).unwrap() };
        let days = |seconds| attempt.days_left(Timestamp::from_second(seconds).unwrap());
        assert_eq!((days(2), days(2 * 86_400), days(14 * 86_400 - 60)), (14, 12, 1));
    }

    #[test]
    fn spellings_of_one_mailbox_share_a_key() {
        for email in ["bob@example.org", "BOB@Example.org", "bob+1@example.org", "Bob+a+b@example.org"] {
            assert_eq!(recipient_key(email), "bob@example.org", "{email}");
        }
        assert_eq!(recipient_key("+1@example.org"), "+1@example.org");
    }
}
