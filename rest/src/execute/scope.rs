//! Sets up the transaction: access mode, isolation and settings (rest.md §3.16).

use std::borrow::Cow;

use basalt_pg::session::{Access, Scope};
use http::HeaderMap;
use http::header::COOKIE;
use serde_json::{Map, Value};

use super::ExecuteContext;
use crate::config::{RequestSetting, RestConfig};
use crate::plan::{self, Common};
use crate::request::Action;

/// Access mode, isolation and settings, in the order of rest.md §3.16. The role's own settings precede `SET ROLE`,
/// because the role may not be allowed to set them itself.
pub(super) fn scope(context: &ExecuteContext<'_>, common: &Common) -> Scope {
    let caller = context.caller;
    let role = context.snapshot.cache.role(&caller.role);
    let isolation = common
        .isolation
        .or_else(|| role.and_then(|role| role.isolation.as_deref()).map(plan::isolation))
        .unwrap_or_default();
    let mut settings: Vec<(Cow<'static, str>, String)> = Vec::with_capacity(12);
    settings.push(("search_path".into(), search_path(&context.api.schema, &context.snapshot.config)));
    for (name, value) in role.into_iter().flat_map(|role| &role.settings) {
        settings.push((name.clone().into(), value.clone()));
    }
    settings.push(("role".into(), caller.role.clone()));
    settings.push(("request.jwt.claims".into(), caller.claims.clone()));
    // An empty value is ignored by `auth.uid()`, and clears any value of a previous request.
    settings.push(("request.jwt.claim.sub".into(), subject(context).unwrap_or_default().to_owned()));
    for property in &context.snapshot.config.request_settings {
        settings.push(match property {
            RequestSetting::Method => ("request.method".into(), context.api.method.as_str().to_owned()),
            RequestSetting::Path => ("request.path".into(), context.api.path.clone()),
            RequestSetting::Headers => {
                ("request.headers".into(), basalt_pg::request_settings::headers_json(context.headers))
            }
            RequestSetting::Cookies => ("request.cookies".into(), cookies_json(context.headers)),
        });
    }
    if let Some(zone) = &context.api.prefer.timezone {
        settings.push(("timezone".into(), zone.clone()));
    }
    for (name, value) in &common.settings {
        settings.push((name.clone().into(), value.clone()));
    }
    for (name, value) in &context.snapshot.config.app_settings {
        settings.push((format!("app.settings.{name}").into(), value.clone()));
    }
    let cache = &context.snapshot.cache;
    // A call always counts as able to PREPARE: its function may have been replaced since the cache was loaded.
    let may_prepare = matches!(context.api.action, Action::Call { .. })
        || cache.may_prepare
        || (common.access == Access::ReadWrite && cache.triggers_may_prepare);
    Scope {
        identity: context.identity,
        access: common.access,
        isolation,
        settings,
        may_prepare,
        savepoints: false,
        // Embedded rows can multiply the result, and need that memory themselves.
        room_for_values: !common.embeds,
        deadline: context.deadline,
    }
}

/// Value of `request.jwt.claim.sub`, which `auth.uid()` reads before it parses the claims. As a column default it
/// runs once per row.
///
/// `None` if the caller's claims may be replaced during the request, by the called function, the pre-request
/// function, or any function known to do so; `sub` must then come from the new claims.
fn subject<'a>(context: &'a ExecuteContext<'_>) -> Option<&'a str> {
    let is_relation = matches!(context.api.action, Action::Relation { .. });
    let subject = context.caller.subject.as_deref()?;
    let may_change = context.snapshot.config.pre_request.is_some() || context.snapshot.cache.rewrites_claims;
    (is_relation && !may_change && !subject.contains('\0')).then_some(subject)
}

fn search_path(schema: &str, config: &RestConfig) -> String {
    let mut path = String::new();
    for name in std::iter::once(schema).chain(config.extra_search_path.iter().map(String::as_str)) {
        if !path.is_empty() {
            path.push_str(", ");
        }
        basalt_pg::sql::push_quoted(&mut path, name, '"');
    }
    path
}

fn cookies_json(headers: &HeaderMap) -> String {
    if !headers.contains_key(COOKIE) {
        return "{}".to_owned();
    }
    let mut shown = Map::new();
    for header in headers.get_all(COOKIE) {
        let text = String::from_utf8_lossy(header.as_bytes());
        for pair in text.split(';').map(str::trim_start).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            shown.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    }
    Value::Object(shown).to_string()
}
