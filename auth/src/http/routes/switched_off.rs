//! Routes of features that are not implemented ([`Feature`]). They respond as upstream does with the feature disabled, because
//! clients distinguish that from a missing route. As upstream, they first check the caller and the path.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodFilter, on};

use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::http::routes::admin::Admin;
use crate::state::Auth;

/// Routes that always return their feature's error; those below `/admin/` only to admins.
const OFF: &[(Feature, &str, MethodFilter)] = {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    const PUT: MethodFilter = MethodFilter::PUT;
    const DELETE: MethodFilter = MethodFilter::DELETE;
    &[
        (Feature::SAML, "/sso", POST), // signInWithSSO
        (Feature::SAML, "/sso/saml/metadata", GET),
        (Feature::SAML, "/sso/saml/acs", POST),
        (Feature::SAML, "/admin/sso/providers", GET.or(POST)),
        (Feature::SAML, "/admin/sso/providers/{id}", GET.or(PUT).or(DELETE)),
    ]
};

/// All routes of disabled features.
pub(crate) fn router() -> Router<Arc<Auth>> {
    OFF.iter().fold(Router::new(), |router, &(feature, path, methods)| {
        let off = AuthError::SwitchedOff;
        router.route(
            path,
            if path.starts_with("/admin/") {
                on(methods, move |_admin: Admin| async move { off(feature) })
            } else {
                on(methods, move || async move { off(feature) })
            },
        )
    })
}
