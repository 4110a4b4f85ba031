//! Configurations: PostgREST's variables for both servers.

/// One way to set up both servers.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) schema: Schema,
    /// Without `PGRST_`.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Whether writes are committed, so that each server needs its own database.
    pub(crate) commits: bool,
}

impl Configuration {
    /// That of requests without a profile.
    pub(crate) fn first_schema(&self) -> &'static str {
        let schemas =
            self.variables.iter().find(|(name, _)| *name == "DB_SCHEMAS").map_or("", |(_, value)| value);
        schemas.split(',').next().unwrap_or_default()
    }
}

/// The database's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    Harbour,
    Bazaar,
}

impl Schema {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Harbour => "harbour",
            Self::Bazaar => "bazaar",
        }
    }

    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Harbour => include_str!("schema.sql"),
            Self::Bazaar => include_str!("bazaar.sql"),
        }
    }
}

/// HS256, of nearly all of them.
const SECRET: (&str, &str) = ("JWT_SECRET", super::servers::SECRET);
const ANON: (&str, &str) = ("DB_ANON_ROLE", "anon");
const HARBOUR: (&str, &str) = ("DB_SCHEMAS", "harbour");
const ROLLBACK: (&str, &str) = ("DB_TX_END", "rollback-allow-override");

const fn harbour(name: &'static str, variables: &'static [(&'static str, &'static str)]) -> Configuration {
    Configuration { name, schema: Schema::Harbour, variables, commits: false }
}

/// As [`harbour`], but each server has its own database and transactions can commit.
const fn apart(name: &'static str, variables: &'static [(&'static str, &'static str)]) -> Configuration {
    Configuration { name, schema: Schema::Harbour, variables, commits: true }
}

/// All features on, all transactions rolled back.
pub(crate) static OPEN: Configuration = harbour(
    "open",
    &[
        SECRET,
        ANON,
        ROLLBACK,
        ("DB_SCHEMAS", "harbour,yard"),
        ("DB_EXTRA_SEARCH_PATH", "tools"),
        ("DB_AGGREGATES_ENABLED", "true"),
        ("DB_PLAN_ENABLED", "true"),
    ],
);

/// The same over the other schema.
pub(crate) static BAZAAR: Configuration = Configuration {
    name: "bazaar",
    schema: Schema::Bazaar,
    variables: &[
        SECRET,
        ANON,
        ROLLBACK,
        ("DB_SCHEMAS", "bazaar,annex"),
        ("DB_EXTRA_SEARCH_PATH", "tools"),
        ("DB_AGGREGATES_ENABLED", "true"),
        ("DB_PLAN_ENABLED", "true"),
    ],
    commits: false,
};

/// One schema, rows capped, nothing switched on, no anonymous role.
pub(crate) static STRICT: Configuration = harbour(
    "strict",
    &[
        SECRET,
        HARBOUR,
        ROLLBACK,
        ("DB_EXTRA_SEARCH_PATH", "tools"),
        ("DB_MAX_ROWS", "2"),
        ("DB_PRE_REQUEST", "tools.before_request"),
        ("OPENAPI_MODE", "disabled"),
        ("JWT_AUD", "harbour"),
        ("JWT_ROLE_CLAIM_KEY", ".app.roles[0]"),
        ("SERVER_TRACE_HEADER", "X-Trace"),
    ],
);

/// Rows capped on every level, nothing switched on.
pub(crate) static CAPPED: Configuration = Configuration {
    name: "capped",
    schema: Schema::Bazaar,
    variables: &[
        SECRET,
        ANON,
        ROLLBACK,
        ("DB_SCHEMAS", "bazaar"),
        ("DB_EXTRA_SEARCH_PATH", "tools"),
        ("DB_MAX_ROWS", "2"),
    ],
    commits: false,
};

/// Writes last, on either schema.
pub(crate) static COMMITTED: [Configuration; 2] = [
    Configuration {
        name: "committed-harbour",
        schema: Schema::Harbour,
        variables: &[
            SECRET,
            ANON,
            HARBOUR,
            ("DB_EXTRA_SEARCH_PATH", "tools"),
            ("DB_TX_END", "commit-allow-override"),
        ],
        commits: true,
    },
    Configuration {
        name: "committed-bazaar",
        schema: Schema::Bazaar,
        variables: &[
            SECRET,
            ANON,
            ("DB_SCHEMAS", "bazaar"),
            ("DB_EXTRA_SEARCH_PATH", "tools"),
            ("DB_AGGREGATES_ENABLED", "true"),
        ],
        commits: true,
    },
];

/// Each turns something else; all are asked the same questions.
pub(crate) static OTHERS: [Configuration; 12] = [
    Configuration {
        name: "defaults",
        schema: Schema::Harbour,
        variables: &[SECRET, ANON, HARBOUR],
        commits: true,
    },
    apart("rollback", &[SECRET, ANON, HARBOUR, ("DB_TX_END", "rollback")]),
    apart("no-secret", &[ANON, HARBOUR, ROLLBACK]),
    apart("no-anonymous", &[SECRET, HARBOUR, ROLLBACK, ("DB_AGGREGATES_ENABLED", "true")]),
    apart(
        "base64-secret",
        &[
            ("JWT_SECRET", "YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBjaGFyYWN0ZXJz"),
            ("JWT_SECRET_IS_BASE64", "true"),
            ("JWT_AUD", "harbour"),
            ("JWT_ROLE_CLAIM_KEY", ".app.\"a role\""),
            ANON,
            HARBOUR,
            ROLLBACK,
        ],
    ),
    apart(
        "key-set",
        &[
            (
                "JWT_SECRET",
                r#"{"keys":[{"kty":"oct","k":"b25lIHNlY3JldCBvZiBhdCBsZWFzdCB0aGlydHktdHdvIGNoYXJhY3RlcnM","kid":"one"},{"kty":"oct","k":"YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBjaGFyYWN0ZXJz"}]}"#,
            ),
            ANON,
            HARBOUR,
            ROLLBACK,
        ],
    ),
    apart(
        "openapi",
        &[
            SECRET,
            ANON,
            ("DB_SCHEMAS", "yard,harbour"),
            ROLLBACK,
            ("OPENAPI_MODE", "ignore-privileges"),
            ("OPENAPI_SERVER_PROXY_URI", "https://api.harbour.test:8443/base"),
            ("OPENAPI_SECURITY_ACTIVE", "true"),
        ],
    ),
    apart("root-spec", &[SECRET, ANON, HARBOUR, ROLLBACK, ("DB_ROOT_SPEC", "harbour.root_document")]),
    apart(
        "origins",
        &[
            SECRET,
            ANON,
            HARBOUR,
            ROLLBACK,
            ("SERVER_CORS_ALLOWED_ORIGINS", "http://one.test, https://two.test:8443"),
        ],
    ),
    apart(
        "timing",
        &[
            SECRET,
            ANON,
            HARBOUR,
            ROLLBACK,
            ("SERVER_TIMING_ENABLED", "true"),
            ("SERVER_TRACE_HEADER", "X-Trace"),
            ("DB_PLAN_ENABLED", "true"),
        ],
    ),
    apart(
        "pre-request",
        &[SECRET, ANON, HARBOUR, ROLLBACK, ("DB_PRE_REQUEST", "tools.before_request"), ("DB_MAX_ROWS", "3")],
    ),
    apart(
        "settings",
        &[
            SECRET,
            ANON,
            HARBOUR,
            ROLLBACK,
            ("DB_EXTRA_SEARCH_PATH", "yard, tools"),
            ("DB_HOISTED_TX_SETTINGS", "statement_timeout"),
            ("APP_SETTINGS_FLAG", "hoisted, \"quoted\""),
            ("DB_PREPARED_STATEMENTS", "false"),
        ],
    ),
];
