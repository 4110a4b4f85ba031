//! Notifications of changes to an account (auth.md §3.21). Each is disabled by default. Mail limits do not apply, because a
//! notification may be the owner's only warning. Users without an address get none.
//!
//! If the hook `send_email` is enabled, it gets them: as jobs, written in the transaction of the change and run after its commit, so
//! that a hook that fails delays the notification and not the change (decision 0189).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use basalt_pg::jobs::{
    Completion, Done, Failure, Handler, Job, Metrics, Policy, Queue, Retention, Table, Worker, doubling,
};
use basalt_pg::pool::Tx;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::database::column;
use crate::emails::mailer::{Details, Email, Profile};
use crate::error::AuthError;
use crate::hook_types::HookKind;
use crate::hook_types::error::HookError;
use crate::origin::{Client, Origin};
use crate::state::Auth;
use crate::templates::kind::EmailKind;
use crate::users::{self, Object, row_missing};

/// Notified of new jobs.
pub(crate) const CHANNEL: &str = "basalt_hook_mails";
/// One attempt; the hook's own limits are shorter.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1800);
/// Over about six hours.
const ATTEMPTS: u32 = 20;
const CONCURRENCY: usize = 4;
/// How long abandoned notifications are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

static TABLE: Table = Table {
    name: "hook_mails",
    table: "basalt.hook_mails",
    channel: Some(CHANNEL),
    key: "id",
    key_type: "bigint",
    owner: None,
    kind: "kind",
    columns: "ip_address, input",
    listed: "user_id",
    order: "next_attempt_at, id",
    state: "case when next_attempt_at is null then 'dead' else 'queued' end",
    waiting: "next_attempt_at is not null",
    dead: "next_attempt_at is null",
    finished_at: "null::timestamptz",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Delete,
    on_retry: "",
    on_dead: "next_attempt_at = null",
    on_revive: "",
    failed_message: "the hook send_email did not take a notification",
    dead_message: "a notification for the hook send_email was given up; it is kept in basalt.hook_mails for a week",
    metrics: Metrics {
        done: "basalt_auth_hook_mails_sent_total",
        failed: "basalt_auth_hook_mails_failed_total",
        given_up: "basalt_auth_hook_mails_dead_total",
        waiting: "basalt_auth_hook_mails_waiting",
        dead: "basalt_auth_hook_mails_dead",
    },
};

/// A change to an account, whose profile has the new values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AccountChange<'a> {
    /// The password was changed or removed.
    Password,
    /// The address was changed. The notification goes to the old one.
    Email {
        old: &'a str,
    },
    Phone {
        old: &'a str,
    },
    /// A sign-in method was added.
    IdentityLinked {
        provider: &'a str,
    },
    IdentityUnlinked {
        provider: &'a str,
    },
    /// A second factor was added.
    FactorEnrolled {
        factor_type: &'a str,
    },
    FactorUnenrolled {
        factor_type: &'a str,
    },
}

impl<'a> AccountChange<'a> {
    const fn kind(self) -> EmailKind {
        match self {
            Self::Password => EmailKind::PasswordChanged,
            Self::Email { .. } => EmailKind::EmailChanged,
            Self::Phone { .. } => EmailKind::PhoneChanged,
            Self::IdentityLinked { .. } => EmailKind::IdentityLinked,
            Self::IdentityUnlinked { .. } => EmailKind::IdentityUnlinked,
            Self::FactorEnrolled { .. } => EmailKind::MfaFactorEnrolled,
            Self::FactorUnenrolled { .. } => EmailKind::MfaFactorUnenrolled,
        }
    }

    fn details(self, profile: Profile<'a>) -> Details<'a> {
        let none = Details::default();
        match self {
            Self::Password => none,
            Self::Email { old } => Details { old_email: old, new_email: profile.email, ..none },
            Self::Phone { old } => Details { old_phone: old, phone: profile.phone, ..none },
            Self::IdentityLinked { provider } | Self::IdentityUnlinked { provider } => {
                Details { provider, ..none }
            }
            Self::FactorEnrolled { factor_type } | Self::FactorUnenrolled { factor_type } => {
                Details { factor_type, ..none }
            }
        }
    }
}

/// Notifies the owner of the account `user_id` of a change, after the commit of `tx`.
pub(crate) async fn notify(
    tx: &Tx,
    auth: &Auth,
    origin: &Origin,
    (user_id, profile): (Uuid, Profile<'_>),
    change: AccountChange<'_>,
) -> Result<(), AuthError> {
    let to = if let AccountChange::Email { old } = change { old } else { profile.email };
    let (kind, details) = (change.kind(), change.details(profile));
    if to.is_empty() || auth.mailer.check_recipient(to).is_err() || !auth.mailer.is_enabled(kind) {
        return Ok(());
    }
    if auth.hooks.is_enabled(HookKind::SendEmail) {
        // Boxed: every flow that changes accounts contains this future.
        return Box::pin(enqueue(tx, auth, origin, user_id, kind, &details)).await;
    }
    auth.mailer.send(tx, &Email::notification(kind, profile, to, details)).await
}

async fn enqueue(
    tx: &Tx,
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    kind: EmailKind,
    details: &Details<'_>,
) -> Result<(), AuthError> {
    const ENQUEUE: &str = "\
insert into basalt.hook_mails (user_id, kind, ip_address, input) values ($1, $2, $3, $4)";
    const NOTIFY: &str = "select pg_catalog.pg_notify($1, '')";
    let account = users::account(tx, user_id).await?.ok_or_else(row_missing)?;
    let pairs = [
        ("token", ""),
        ("token_hash", ""),
        ("redirect_to", ""),
        ("email_action_type", action_type(kind)),
        ("site_url", &auth.config.external_url),
        ("token_new", ""),
        ("token_hash_new", ""),
        ("old_email", details.old_email),
        ("old_phone", details.old_phone),
        ("provider", details.provider),
        ("factor_type", details.factor_type),
    ];
    let data: Object = pairs.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let input = crate::hooks::email_input(&account, &data);
    let address = origin.client.address.to_string();
    tx.execute(ENQUEUE, &[&user_id, &kind.name(), &address, &input]).await.map_err(AuthError::querying)?;
    tx.execute(NOTIFY, &[&CHANNEL]).await.map_err(AuthError::querying)?;
    Ok(())
}

/// `email_action_type` of a notification.
const fn action_type(kind: EmailKind) -> &'static str {
    match kind {
        EmailKind::PasswordChanged => "password_changed_notification",
        EmailKind::EmailChanged => "email_changed_notification",
        EmailKind::PhoneChanged => "phone_changed_notification",
        EmailKind::IdentityLinked => "identity_linked_notification",
        EmailKind::IdentityUnlinked => "identity_unlinked_notification",
        EmailKind::MfaFactorEnrolled => "mfa_factor_enrolled_notification",
        EmailKind::MfaFactorUnenrolled => "mfa_factor_unenrolled_notification",
        EmailKind::Confirmation
        | EmailKind::Invite
        | EmailKind::MagicLink
        | EmailKind::Recovery
        | EmailKind::EmailChangeCurrent
        | EmailKind::EmailChangeNew
        | EmailKind::Reauthentication => "",
    }
}

/// The worker that gives queued notifications to the hook.
pub(crate) fn worker(auth: Arc<Auth>, tracker: TaskTracker) -> Arc<Worker<HookMails>> {
    let policy = Policy {
        concurrency: CONCURRENCY,
        pauses: doubling(FIRST_PAUSE, LONGEST_PAUSE, ATTEMPTS),
        time_limit: TIME_LIMIT,
        retention: vec![Retention { rows: "next_attempt_at is null", since: "created_at", keep: KEPT }],
    };
    Worker::new(Queue::new(auth.pool.clone(), &TABLE, None), HookMails(auth), policy, tracker)
}

/// Calls the hook for one notification. The hook may get a notification twice, if its answer is lost.
pub(crate) struct HookMails(Arc<Auth>);

impl Handler for HookMails {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let Self(auth) = self;
        let called = async {
            let (address, input): (String, Value) =
                (column(&job.row, "ip_address")?, column(&job.row, "input")?);
            let address = address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let client = Client { address, user_agent: String::new() };
            let origin = Origin { client, ..Origin::local(TIME_LIMIT) };
            auth.hooks.send_queued_email(&origin, auth.now(), input).await
        }
        .await;
        called.map(|()| Done::default()).map_err(|error| failure(&error))
    }
}

fn failure(error: &AuthError) -> Failure {
    let AuthError::Hook(hook) = error else { return Failure::transient(error.to_string()) };
    if let HookError::Rejected { status, message } = hook {
        // The message is the project's, and may contain personal data.
        return Failure {
            is_transient: status.is_server_error(),
            reason: format!("the hook rejected it with status {status}"),
            detail: message.clone(),
        };
    }
    Failure { is_transient: true, reason: hook.to_string(), detail: format!("{hook}: {}", hook.reason()) }
}
