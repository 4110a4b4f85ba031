//! Scopes, and the claims about a user that each of them releases.

use serde_json::{Map, Value};

use crate::users::{Object, User};

/// All scopes, in documented order.
pub(crate) const SCOPES: [&str; 5] = ["openid", "profile", "email", "phone", "offline_access"];

/// The scope of a request without any.
const DEFAULT: &str = "email";

/// Claims of the discovery documents.
pub(crate) const CLAIMS: [&str; 14] = [
    "sub",
    "iss",
    "aud",
    "exp",
    "iat",
    "nonce",
    "name",
    "picture",
    "preferred_username",
    "updated_at",
    "email",
    "email_verified",
    "phone_number",
    "phone_number_verified",
];

/// A set of scopes, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scopes(Vec<String>);

impl Scopes {
    /// Parses the requested scopes; `None` if one is unknown. No scope means the default.
    pub(crate) fn request(text: &str) -> Option<Self> {
        let scopes = Self::stored(text);
        if scopes.0.is_empty() {
            return Some(Self(vec![DEFAULT.to_owned()]));
        }
        scopes.0.iter().all(|scope| SCOPES.contains(&scope.as_str())).then_some(scopes)
    }

    /// Parses a column, which may contain scopes that only another server knows.
    pub(crate) fn stored(text: &str) -> Self {
        let mut scopes: Vec<String> = Vec::new();
        for scope in text.split_ascii_whitespace() {
            if !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
        Self(scopes)
    }

    pub(crate) fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        other.0.iter().all(|scope| self.contains(scope))
    }

    /// These scopes and then those of `other`.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::stored(&format!("{self} {other}"))
    }

    pub(crate) fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The claims about the user that the scopes release, besides `sub`.
    pub(crate) fn claims(&self, user: &User) -> Object {
        let mut claims = Map::new();
        let mut insert = |name: &str, value: Value| {
            if !value.is_null() && value != "" {
                claims.insert(name.to_owned(), value);
            }
        };
        if self.contains("email") && !user.email.is_empty() {
            insert("email", user.email.as_str().into());
            insert("email_verified", user.email_confirmed_at.is_some().into());
        }
        if self.contains("phone") && !user.phone.is_empty() {
            insert("phone_number", format!("+{}", user.phone).into());
            insert("phone_number_verified", user.phone_confirmed_at.is_some().into());
        }
        if self.contains("profile") {
            let metadata = |names: &[&str]| {
                let found = names.iter().find_map(|name| user.user_metadata.get(*name)?.as_str());
                found.map_or(Value::Null, Value::from)
            };
            insert("name", metadata(&["full_name", "name"]));
            insert("picture", metadata(&["picture", "avatar_url"]));
            insert("preferred_username", metadata(&["preferred_username", "user_name"]));
            insert("updated_at", user.updated_at.map_or(Value::Null, |at| at.as_second().into()));
        }
        claims
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn unknown_scopes_are_rejected_and_none_means_email() {
        assert_eq!(Scopes::request("openid  openid email").unwrap().to_string(), "openid email");
        assert_eq!(Scopes::request(" ").unwrap().to_string(), "email");
        assert_eq!(Scopes::request("openid admin"), None);
    }

    #[test]
    fn union_and_containment() {
        let (few, many) = (Scopes::stored("email"), Scopes::stored("openid email"));
        assert!(many.contains_all(&few) && !few.contains_all(&many));
        assert_eq!(few.union(&many).to_string(), "email openid");
    }

    #[test]
    fn each_scope_releases_its_claims() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut user = User::blank(Uuid::nil(), now);
        user.email = "ada@example.org".to_owned();
        user.phone = "49301".to_owned();
        user.phone_confirmed_at = Some(now);
        user.user_metadata = json!({ "name": "Ada", "avatar_url": "" }).as_object().unwrap().clone();
        let claims = |scopes: &str| Value::Object(Scopes::stored(scopes).claims(&user));
        assert_eq!(claims("openid offline_access"), json!({}));
        assert_eq!(claims("email"), json!({ "email": "ada@example.org", "email_verified": false }));
        assert_eq!(claims("phone"), json!({ "phone_number": "+49301", "phone_number_verified": true }));
        assert_eq!(claims("profile"), json!({ "name": "Ada", "updated_at": 1000 }));
    }
}
