//! The user that a provider reports, from each provider's format to one set of claims (auth.md §3.16).
//!
//! An address counts as verified only if the provider says so, or verifies every address itself: a verified address signs in to
//! an existing account.

use serde_json::{Value, json};

use crate::users::Object;

/// Claims of OpenID Connect that are stored.
const STANDARD: [&str; 15] = [
    "iss",
    "name",
    "family_name",
    "given_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "updated_at",
];

/// A user of a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExternalUser {
    /// The provider's id of the user.
    pub(crate) subject: String,
    /// Not normalised.
    pub(crate) email: Option<String>,
    pub(crate) is_email_verified: bool,
    /// What is stored with identity and user.
    pub(crate) claims: Object,
}

impl ExternalUser {
    /// Adds the claims about the address and the older names of claims; leaves out what is empty.
    fn new(subject: String, email: Option<&str>, is_email_verified: bool, claims: Value) -> Self {
        let mut claims = match claims {
            Value::Object(claims) => claims,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Object::new()
            }
        };
        let email = email.filter(|email| !email.is_empty()).map(str::to_owned);
        let alias = |claims: &mut Object, old: &str, new: &str| {
            if let (false, Some(value)) = (claims.contains_key(old), claims.get(new)) {
                claims.insert(old.to_owned(), value.clone());
            }
        };
        alias(&mut claims, "full_name", "name");
        alias(&mut claims, "avatar_url", "picture");
        alias(&mut claims, "picture", "avatar_url");
        claims.insert("sub".to_owned(), subject.clone().into());
        claims.insert("provider_id".to_owned(), subject.clone().into());
        if let Some(email) = &email {
            claims.insert("email".to_owned(), email.clone().into());
        }
        claims.insert("email_verified".to_owned(), (email.is_some() && is_email_verified).into());
        claims.insert("phone_verified".to_owned(), false.into());
        claims.retain(|_name, value| !value.is_null() && value.as_str() != Some(""));
        Self { subject, is_email_verified: email.is_some() && is_email_verified, email, claims }
    }
}

/// The text of a member, also of a number.
fn text(user: &Value, pointer: &str) -> Option<String> {
    match user.pointer(pointer)? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether a member is true, in any of the notations in use.
fn is_true(user: &Value, pointer: &str) -> bool {
    match user.pointer(pointer) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text == "true" || text == "1",
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| number != 0),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
    }
}

fn standard_claims(user: &Value) -> Value {
    let pairs = STANDARD.iter().filter_map(|name| Some(((*name).to_owned(), user.get(*name)?.clone())));
    Value::Object(pairs.collect())
}

/// What conversions need besides the user.
pub(super) struct Context<'a> {
    /// The base address.
    pub(super) base: &'a str,
    /// JSON from the second URL; null without one.
    pub(super) emails: &'a Value,
}

/// OpenID Connect.
pub(super) fn openid(user: &Value, _context: &Context<'_>) -> Option<ExternalUser> {
    let email = text(user, "/email");
    let mut claims = standard_claims(user);
    if let (Some(claims), Some(domain)) = (claims.as_object_mut(), user.get("hd")) {
        claims.insert("custom_claims".to_owned(), json!({ "hd": domain }));
    }
    Some(ExternalUser::new(text(user, "/sub")?, email.as_deref(), is_true(user, "/email_verified"), claims))
}

/// Apple's ID token has no name: Apple posts it once, to the callback.
pub(super) fn apple(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    openid(user, context)
}

/// A tenant can put any address into its tokens. It counts as verified if Microsoft says that the tenant owns its domain, or if
/// the operator has chosen the tenant.
pub(super) fn azure(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let is_shared =
        ["/common", "/organizations", "/consumers"].iter().any(|tenant| context.base.ends_with(tenant));
    let email = text(user, "/email");
    let is_verified = is_true(user, "/xms_edov") || (!is_shared && user.get("xms_edov").is_none());
    let mut claims = standard_claims(user);
    if let (Some(claims), Some(tenant)) = (claims.as_object_mut(), user.get("tid")) {
        claims.insert("custom_claims".to_owned(), json!({ "tid": tenant }));
    }
    Some(ExternalUser::new(text(user, "/sub")?, email.as_deref(), is_verified, claims))
}

pub(super) fn bitbucket(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let emails =
        context.emails.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let primary = emails.iter().find(|email| is_true(email, "/is_primary")).or(emails.first());
    let email = primary.and_then(|email| text(email, "/email"));
    let is_verified = primary.is_some_and(|email| is_true(email, "/is_confirmed"));
    let claims = json!({
        "iss": context.base,
        "name": user.get("display_name"),
        "avatar_url": user.pointer("/links/avatar/href"),
    });
    Some(ExternalUser::new(text(user, "/uuid")?, email.as_deref(), is_verified, claims))
}

pub(super) fn discord(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let id = text(user, "/id")?;
    let avatar = text(user, "/avatar").map(|hash| {
        let extension = if hash.starts_with("a_") { "gif" } else { "png" };
        format!("https://cdn.discordapp.com/avatars/{id}/{hash}.{extension}")
    });
    let name = match (text(user, "/username"), text(user, "/discriminator")) {
        (Some(name), Some(discriminator)) => Some(format!("{name}#{discriminator}")),
        (name, None) => name,
        (None, Some(_)) => None,
    };
    let claims = json!({
        "iss": context.base,
        "name": name,
        "full_name": user.get("username"),
        "avatar_url": avatar,
        "custom_claims": { "global_name": user.get("global_name") },
    });
    Some(ExternalUser::new(id, text(user, "/email").as_deref(), is_true(user, "/verified"), claims))
}

/// Facebook reports confirmed addresses only.
pub(super) fn facebook(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let claims = json!({
        "iss": context.base,
        "name": user.get("name"),
        "given_name": user.get("first_name"),
        "family_name": user.get("last_name"),
        "picture": user.pointer("/picture/data/url"),
    });
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), true, claims))
}

/// Figma requires a confirmed address.
pub(super) fn figma(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let claims =
        json!({ "iss": context.base, "name": user.get("handle"), "avatar_url": user.get("img_url") });
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), true, claims))
}

/// The address comes from the list of addresses: the profile may show an unconfirmed one.
pub(super) fn github(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let emails = context.emails.as_array().map(Vec::as_slice).unwrap_or_default();
    let primary = emails.iter().find(|email| is_true(email, "/primary")).or(emails.first());
    let email = primary.and_then(|email| text(email, "/email"));
    let is_verified = primary.is_some_and(|email| is_true(email, "/verified"));
    let claims = json!({
        "iss": "https://api.github.com",
        "name": user.get("name"),
        "user_name": user.get("login"),
        "preferred_username": user.get("login"),
        "avatar_url": user.get("avatar_url"),
    });
    Some(ExternalUser::new(text(user, "/id")?, email.as_deref(), is_verified, claims))
}

pub(super) fn gitlab(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let claims = json!({
        "iss": context.base,
        "name": user.get("name"),
        "user_name": user.get("username"),
        "avatar_url": user.get("avatar_url"),
    });
    let is_verified = text(user, "/confirmed_at").is_some();
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), is_verified, claims))
}

pub(super) fn kakao(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let is_verified =
        is_true(user, "/kakao_account/is_email_valid") && is_true(user, "/kakao_account/is_email_verified");
    let claims = json!({
        "iss": context.base,
        "name": user.pointer("/kakao_account/profile/nickname"),
        "preferred_username": user.pointer("/kakao_account/profile/nickname"),
        "avatar_url": user.pointer("/kakao_account/profile/profile_image_url"),
    });
    let email = text(user, "/kakao_account/email");
    Some(ExternalUser::new(text(user, "/id")?, email.as_deref(), is_verified, claims))
}

/// Notion requires a confirmed address.
pub(super) fn notion(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let owner = user.pointer("/bot/owner/user")?;
    let claims = json!({
        "iss": context.base, "name": owner.get("name"), "avatar_url": owner.get("avatar_url")
    });
    Some(ExternalUser::new(text(owner, "/id")?, text(owner, "/person/email").as_deref(), true, claims))
}

/// Spotify does not verify addresses.
pub(super) fn spotify(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let claims = json!({
        "iss": context.base, "name": user.get("display_name"), "avatar_url": user.pointer("/images/0/url")
    });
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), false, claims))
}

/// Twitch reports confirmed addresses only.
pub(super) fn twitch(answer: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let user = answer.pointer("/data/0")?;
    let claims = json!({
        "iss": context.base,
        "name": user.get("login"),
        "nickname": user.get("display_name"),
        "slug": user.get("login"),
        "avatar_url": user.get("profile_image_url"),
    });
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), true, claims))
}

/// The operator configured the connection, whose identity provider vouches for addresses.
pub(super) fn workos(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let name = [text(user, "/first_name"), text(user, "/last_name")];
    let name: Vec<String> = name.into_iter().flatten().collect();
    let claims = json!({
        "iss": context.base,
        "name": name.join(" "),
        "custom_claims": {
            "connection_id": user.get("connection_id"), "organization_id": user.get("organization_id")
        },
    });
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), true, claims))
}

pub(super) fn zoom(user: &Value, context: &Context<'_>) -> Option<ExternalUser> {
    let name = [text(user, "/first_name"), text(user, "/last_name")];
    let name: Vec<String> = name.into_iter().flatten().collect();
    let claims = json!({ "iss": context.base, "name": name.join(" "), "avatar_url": user.get("pic_url") });
    let is_verified = is_true(user, "/verified");
    Some(ExternalUser::new(text(user, "/id")?, text(user, "/email").as_deref(), is_verified, claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(base: &'static str, emails: &'static Value) -> Context<'static> {
        Context { base, emails }
    }

    static NONE: Value = Value::Null;

    #[test]
    fn openid_claims_keep_standard_names_and_add_the_older_ones() {
        let user = json!({
            "sub": "42", "iss": "https://issuer.test", "email": "ada@example.org", "email_verified": true,
            "name": "Ada", "picture": "https://a.test/p.png", "aud": "x", "at_hash": "y", "given_name": ""
        });
        let user = openid(&user, &context("", &NONE)).unwrap();
        assert_eq!((user.subject.as_str(), user.is_email_verified), ("42", true));
        assert_eq!(
            Value::Object(user.claims),
            json!({
                "iss": "https://issuer.test", "sub": "42", "provider_id": "42", "email": "ada@example.org",
                "email_verified": true, "phone_verified": false, "name": "Ada", "full_name": "Ada",
                "picture": "https://a.test/p.png", "avatar_url": "https://a.test/p.png"
            })
        );
    }

    #[test]
    fn users_without_subject_are_rejected() {
        assert_eq!(openid(&json!({ "email": "ada@example.org" }), &context("", &NONE)), None);
        assert_eq!(openid(&json!({ "sub": "" }), &context("", &NONE)), None);
    }

    #[test]
    fn github_takes_the_primary_address_of_the_list() {
        static EMAILS: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
            json!([
                { "email": "old@example.org", "primary": false, "verified": true },
                { "email": "ada@example.org", "primary": true, "verified": false }
            ])
        });
        let user = json!({ "id": 7, "login": "ada", "email": "shown@example.org" });
        let user = github(&user, &context("https://github.com", &EMAILS)).unwrap();
        assert_eq!((user.subject.as_str(), user.email.as_deref()), ("7", Some("ada@example.org")));
        assert!(!user.is_email_verified);
        assert_eq!(user.claims["user_name"], "ada");
    }

    #[test]
    fn azure_trusts_addresses_of_owned_domains_or_a_chosen_tenant() {
        let is_verified =
            |base: &'static str, user: Value| azure(&user, &context(base, &NONE)).unwrap().is_email_verified;
        let (common, own) = ("https://login.test/common", "https://login.test/9f0c");
        let user = |edov: Value| json!({ "sub": "1", "email": "a@b.org", "xms_edov": edov });
        let plain = || json!({ "sub": "1", "email": "a@b.org" });
        assert!(!is_verified(common, plain()));
        assert!(is_verified(own, plain()));
        assert!(is_verified(common, user(json!(true))));
        assert!(is_verified(common, user(json!("1"))));
        assert!(!is_verified(own, user(json!(false))));
    }

    #[test]
    fn providers_that_do_not_verify_report_unverified_addresses() {
        let spotify = spotify(&json!({ "id": "a", "email": "a@b.org" }), &context("", &NONE)).unwrap();
        assert!(!spotify.is_email_verified);
        let discord =
            discord(&json!({ "id": "a", "email": "a@b.org", "verified": false }), &context("", &NONE))
                .unwrap();
        assert!(!discord.is_email_verified);
        let no_address = facebook(&json!({ "id": "a" }), &context("", &NONE)).unwrap();
        assert_eq!((no_address.email, no_address.is_email_verified), (None, false));
    }
}
