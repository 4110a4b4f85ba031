//! The caller of a function: a signed-in user whose account exists and is not banned, possibly an administrator.

use std::borrow::Cow;
use std::sync::Arc;

use basalt_core::bearer::bearer_token;
use basalt_core::claims::Claims;
use basalt_core::identity::Identity;
use basalt_pg::session::{Access, Answers, Isolation, Row, Scope, SessionError, Statement};
use basalt_pg::sql::Param;
use http::request::Parts;
use tokio::time::Instant;
use uuid::Uuid;

use crate::STATEMENT_LIMIT;
use crate::app::App;
use crate::refusal::Refusal;

/// The caller's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// `None` for accounts with only a phone number.
    pub(crate) email: Option<String>,
    /// `organization_name` or `name` in its metadata.
    pub(crate) name: Option<String>,
    /// Whether the address is confirmed, by mail or automatically.
    pub(crate) is_confirmed: bool,
    /// Whether the owner used a code or link mailed to the address, or an administrator confirmed it.
    pub(crate) is_proven: bool,
}

/// A signed-in user.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) id: Uuid,
    pub(crate) account: Account,
    claims: Arc<Claims>,
}

const AS_SERVICE: [(Cow<'static, str>, &str); 3] = [
    (Cow::Borrowed("role"), "service_role"),
    (Cow::Borrowed("search_path"), "public, extensions"),
    (Cow::Borrowed("statement_timeout"), "10s"),
];

fn statement(text: &'static str, params: Vec<Param>) -> Statement {
    Statement { text: text.into(), params }
}

impl Caller {
    /// Authenticates the user of the request's token.
    ///
    /// # Errors
    /// 401 for a token without a user, such as an API key.
    pub(crate) async fn user(app: &App, parts: &Parts) -> Result<Self, Refusal> {
        Ok(Self::find(app, parts, false).await?.0)
    }

    /// Authenticates the administrator of the request's token.
    ///
    /// # Errors
    /// 401 as for [`Caller::user`]; 403 if the user is not an administrator.
    pub(crate) async fn admin(app: &App, parts: &Parts) -> Result<Self, Refusal> {
        match Self::find(app, parts, true).await? {
            (caller, true) => Ok(caller),
            (_, false) => Err(Refusal::forbidden("Administrators only")),
        }
    }

    async fn find(app: &App, parts: &Parts, checks_admin: bool) -> Result<(Self, bool), Refusal> {
        const ACCOUNT: &str = "\
select email, is_banned, name, is_confirmed, functions.has_proven_address($1::uuid) from functions.account($1::uuid)";
        const BECOME: &str = "\
select pg_catalog.set_config('role', 'authenticated', true), pg_catalog.set_config('request.jwt.claims', $1, true)";
        const IS_ADMIN: &str = "select public.is_admin()";
        let (id, claims) = user_claims(app, parts).ok_or_else(Refusal::not_authenticated)?;
        let mut steps = vec![statement(ACCOUNT, vec![id.to_string().into()])];
        if checks_admin {
            steps.push(statement(BECOME, vec![claims.as_text().into()]));
            steps.push(statement(IS_ADMIN, Vec::new()));
        }
        let settings = AS_SERVICE.map(|(name, value)| (name, value.to_owned())).into();
        let answers = app.sessions.run(scope(id, settings, Access::ReadOnly), steps).await?;
        let row = answers.first().and_then(|rows| rows.first()).ok_or_else(Refusal::not_authenticated)?;
        if row.text(1) != Some("f") {
            return Err(Refusal::not_authenticated());
        }
        let text = |column| row.text(column).filter(|text| !text.is_empty()).map(str::to_owned);
        let account = Account {
            email: text(0),
            name: text(2),
            is_confirmed: row.text(3) == Some("t"),
            is_proven: row.text(4) == Some("t"),
        };
        let is_admin = answers.get(2).and_then(|rows| rows.first()?.text(0)) == Some("t");
        Ok((Self { id, account, claims }, is_admin))
    }

    /// Runs statements as the user, subject to policies, in one transaction.
    pub(crate) async fn read(
        &self,
        app: &App,
        statements: Vec<(&'static str, Vec<Param>)>,
    ) -> Result<Answers, SessionError> {
        let settings = [
            ("role", "authenticated"),
            ("search_path", "public, extensions"),
            ("statement_timeout", "10s"),
            ("request.jwt.claims", self.claims.as_text()),
            ("request.jwt.claim.sub", &self.id.to_string()),
        ];
        let settings = settings.map(|(name, value)| (Cow::Borrowed(name), value.to_owned())).into();
        let steps = statements.into_iter().map(|(text, params)| statement(text, params)).collect();
        app.sessions.run(scope(self.id, settings, Access::ReadOnly), steps).await
    }
}

/// The first row of the statement at `index`.
pub(crate) fn row(answers: &Answers, index: usize) -> Option<&Row> {
    answers.get(index)?.first()
}

fn scope(user: Uuid, settings: Vec<(Cow<'static, str>, String)>, access: Access) -> Scope {
    Scope {
        identity: Identity::new(Some(&user.to_string()), "authenticated", None),
        access,
        isolation: Isolation::default(),
        settings,
        may_prepare: true,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + STATEMENT_LIMIT,
    }
}

fn user_claims(app: &App, parts: &Parts) -> Option<(Uuid, Arc<Claims>)> {
    let claims = app.keys.verify(bearer_token(&parts.headers)?.trim()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in an f64")]
    let now = app.clock.unix_seconds() as f64;
    let is_early = claims.seconds("nbf").ok()?.is_some_and(|nbf| nbf > now);
    // Every user's token has an `exp`.
    let is_late = claims.seconds("exp").ok()?.is_none_or(|exp| exp <= now);
    if is_early || is_late || claims.role() != Some("authenticated") {
        return None;
    }
    Some((Uuid::parse_str(claims.sub()?).ok()?, claims))
}
