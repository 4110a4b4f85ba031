//! The kinds of API keys.

/// The kind of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyKind {
    /// `sb_publishable_…`: may be published.
    Publishable,
    /// `sb_secret_…`: for servers only.
    Secret,
    /// A JWT that is used as the bearer token itself.
    Legacy,
}

impl ApiKeyKind {
    /// The kind's name, as stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publishable => "publishable",
            Self::Secret => "secret",
            Self::Legacy => "legacy",
        }
    }

    /// Parses a kind that the database may contain: not `legacy`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Publishable, Self::Secret].into_iter().find(|kind| kind.as_str() == name)
    }

    /// Prefix of the kind's keys.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Publishable => "sb_publishable_",
            Self::Secret => "sb_secret_",
            Self::Legacy => "",
        }
    }

    /// The role of requests with such a key, unless its row names another.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Self::Publishable | Self::Legacy => "anon",
            Self::Secret => "service_role",
        }
    }
}
