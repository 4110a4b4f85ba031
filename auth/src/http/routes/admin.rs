//! Extractors of the admin routes: the caller ([`Admin`]), then the user in the path ([`TargetUser`]).

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use uuid::Uuid;

use crate::database;
use crate::error::AuthError;
use crate::http::bearer::Bearer;
use crate::http::request::RequestContext;
use crate::sessions::{self, SessionLimits};
use crate::state::Auth;
use crate::users::{self, Account, User};

/// A request whose token has an admin role, such as the secret key's.
pub(crate) struct Admin {
    pub(crate) request: RequestContext,
    pub(crate) bearer: Bearer,
    /// The audit log's actor.
    pub(crate) actor: User,
}

impl FromRequestParts<Arc<Auth>> for Admin {
    type Rejection = AuthError;

    async fn from_request_parts(parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, AuthError> {
        let Ok(request) = RequestContext::from_request_parts(parts, auth).await;
        let bearer = Bearer::read(auth, &request)?;
        let actor = bearer.admin(auth, &request).await?;
        Ok(Self { request, bearer, actor })
    }
}

/// An admin request about the user in the path's `{id}`.
pub(crate) struct TargetUser {
    pub(crate) admin: Admin,
    pub(crate) account: Account,
}

impl FromRequestParts<Arc<Auth>> for TargetUser {
    type Rejection = AuthError;

    async fn from_request_parts(parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, AuthError> {
        let admin = Admin::from_request_parts(parts, auth).await?;
        let path = RawPathParams::from_request_parts(parts, auth).await;
        let path = path.map_err(|_not_utf8| AuthError::UserIdNotUuid)?;
        let id = path.iter().find(|(name, _)| *name == "id").map(|(_, id)| id).unwrap_or_default();
        let id = Uuid::try_parse(id).map_err(|_error| AuthError::UserIdNotUuid)?;
        let tx = auth.autocommit(&admin.request.origin).await?;
        let found = users::account(&tx, id).await;
        let account = database::finish(tx, found).await?.ok_or(AuthError::UserNotFound)?;
        Ok(Self { admin, account })
    }
}

impl Bearer {
    /// Authorises an admin and returns the audit log's actor. The token need not belong to a user: an API key acts as its role. If
    /// it names a session, the session must be valid and its user not banned.
    pub(crate) async fn admin(&self, auth: &Auth, request: &RequestContext) -> Result<User, AuthError> {
        if !self.is_admin(auth) {
            return Err(AuthError::NotAdmin);
        }
        let Some((user_id, session_id)) = self.named_session() else { return Ok(self.role_actor(auth)) };
        let tx = auth.autocommit(&request.origin).await?;
        let found = async {
            let details = sessions::find_details(&tx, session_id).await?;
            let details = details.filter(|details| details.session.user_id == user_id);
            let details = details.ok_or(AuthError::AdminSessionExpired)?;
            if details.session.oauth_client_id.is_some() {
                return Err(AuthError::ClientSessionRefused);
            }
            let now = auth.now();
            if details.account.user.is_banned(now) {
                return Err(AuthError::BannedBearer);
            }
            let has_factor = details.account.has_verified_factor();
            let limits = SessionLimits::new(&auth.config);
            let lives = details.session.check_life(limits, has_factor, &details.amr, now);
            if lives.is_err() || sessions::is_superseded(&tx, limits, &details.session).await? {
                return Err(AuthError::AdminSessionExpired);
            }
            Ok(details.account.user)
        }
        .await;
        database::finish(tx, found).await
    }
}
