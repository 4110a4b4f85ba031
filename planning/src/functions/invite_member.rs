//! `invite-member`: sends the link of an invitation that the app has stored in `plan_members` (functions.md 3.19).
//!
//! Only the plan and the address are taken from the body: with any other field, a signed-in user could send mail with arbitrary text and
//! links from our domain. The sender's address must be confirmed, and rate limits apply per sender and per recipient across plans (decision 0083).

use std::sync::Arc;

use axum::body::Body;
use basalt_mail::Message;
use basalt_pg::sql::Param;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use uuid::Uuid;

use super::caller::row;
use super::template::{Values, render};
use super::{Answer, Caller, fields, is_email, ok};
use crate::app::App;
use crate::mailer::{Delivery, MailError, PLAN_INVITATION};
use crate::refusal::Refusal;

/// A stored invitation.
struct Invitation {
    member_id: String,
    email: String,
    role: String,
    token: String,
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
    if !may_send(&app, &caller).await? {
        return Err(Refusal::forbidden("Confirm your e-mail address first"));
    }
    let rates = &app.rates;
    rates.invite_by_user.take(caller.id.to_string())?;
    rates.invite_by_user_daily.take(caller.id.to_string())?;
    rates.invite_by_plan.take(plan.to_string())?;
    rates.invite_by_recipient.take(recipient_key(email))?;

    let origin = fields.optional("inviteUrl").and_then(|url| app.origin(url));
    let origin = origin.unwrap_or_else(|| app.site_url.clone());
    let message = message(&app, &caller, plan, &invitation, &origin).await?;
    match app.mailer.enqueue(&message).await {
        Ok(Delivery::Accepted(id)) => ok(&json!({"success": true, "id": id})),
        Ok(Delivery::Queued) => ok(&json!({"success": true, "queued": true})),
        Err(error) => Err(refusal(error)),
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
    // Only owners and managers see invitations; a token is valid for 14 days.
    const INVITATION: &str = "\
select m.id, m.email, m.role, m.invite_token
from public.plan_members m
where m.plan_id = $1::uuid and lower(m.email) = lower($2) and not m.invite_accepted
  and m.invite_token is not null and m.created_at > now() - interval '14 days'";
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
        member_id: text(0)?,
        email: text(1)?,
        role: text(2)?,
        token: text(3)?,
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
    origin: &str,
) -> Result<Message, Refusal> {
    let template = app.setting("invite_email_template").await?;
    let part = |name: &str| {
        let text = template.as_ref().and_then(|template| template.get(name)).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    let values = Values {
        plan_title: &invitation.plan_title,
        inviter_email: caller.account.email.as_deref().unwrap_or_default(),
        role: &invitation.role,
        invite_url: &format!("{origin}/invite?token={}&plan={plan}", invitation.token),
    };
    let rendered = render(part("subject"), part("body"), &values);
    let day = app.clock.now().strftime("%Y-%m-%d");
    Ok(Message {
        kind: PLAN_INVITATION,
        to: invitation.email.clone(),
        subject: rendered.subject,
        html: rendered.html,
        text: rendered.text,
        idempotency_key: Some(format!("invite/{}/{day}", invitation.member_id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_mailbox_share_a_key() {
        for email in ["bob@example.org", "BOB@Example.org", "bob+1@example.org", "Bob+a+b@example.org"] {
            assert_eq!(recipient_key(email), "bob@example.org", "{email}");
        }
        assert_eq!(recipient_key("+1@example.org"), "+1@example.org");
    }
}
