//! Names the grant or policy that a `service_role` caller lacks (rest.md §7.1, ours).
//!
//! PostgreSQL reports what it denied, not how to allow it. A caller with the service key may read that from the
//! catalog anyway, so it is returned as the error's `hint`; other callers must not learn which objects exist or who
//! may access them. A missing grant is also logged once for the operator. The catalog is queried in a second
//! transaction under the login role, because the first one is aborted.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use basalt_core::identity::Identity;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::{Access, Isolation, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Param;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Object, RestError};
use crate::execute::ExecuteContext;
use crate::parse::prefer::{Representation, Resolution};
use crate::request::{Action, ApiRequest, RelationVerb};
use crate::statement::array_literal;

/// Role of service keys.
const SERVICE_ROLE: &str = "service_role";

/// Access to the catalog on behalf of one request.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) identity: Identity,
    pub(crate) deadline: Instant,
}

impl<'a> From<&ExecuteContext<'a>> for Catalog<'a> {
    fn from(context: &ExecuteContext<'a>) -> Self {
        Self { sessions: context.sessions, identity: context.identity, deadline: context.deadline }
    }
}

/// Removes names of objects that the caller may not access from the error. The catalog is queried only if the error
/// names any; if the query fails, all are removed.
pub(crate) async fn redact_unknown_names(
    catalog: Catalog<'_>,
    role: &str,
    mut error: RestError,
) -> RestError {
    let suggested = error.suggested_objects();
    if !suggested.is_empty() {
        let accessible: Vec<Object> =
            accessible_objects(catalog, role, &suggested).await.into_iter().cloned().collect();
        error.retain_objects(|object| accessible.contains(object));
    }
    error
}

/// The objects that the role may access.
async fn accessible_objects<'a>(catalog: Catalog<'_>, role: &str, objects: &[&'a Object]) -> Vec<&'a Object> {
    let list =
        |part: fn(&Object) -> &str| array_literal(&objects.iter().map(|o| part(o)).collect::<Vec<_>>());
    let params = [role, &list(|o| &o.schema), &list(|o| &o.name), &list(|o| &o.kind)];
    let found = query_catalog(catalog, include_str!("rights/visible.sql"), &params).await;
    let numbers = found.and_then(|row| row.into_iter().next()?).unwrap_or_default();
    let numbers = numbers.split(',').filter_map(|number| number.parse::<usize>().ok());
    numbers.filter_map(|number| objects.get(number.checked_sub(1)?).copied()).collect()
}

/// Parses the columns named in PostgreSQL's hint (`Perhaps you meant to reference the column "a.b"`) into the objects
/// that they may denote. PostgreSQL chooses them without regard to privileges. Empty if the hint cannot be parsed.
fn hinted_columns(hint: &str, schema: &str) -> Vec<Object> {
    let parts: Vec<&str> = hint.split('"').collect();
    let names: Vec<&str> = parts.iter().skip(1).step_by(2).copied().collect();
    if !matches!(parts.len(), 3 | 5) || !names.iter().all(|name| name.contains('.')) {
        return Vec::new();
    }
    let dots =
        names.into_iter().flat_map(|name| name.match_indices('.').map(move |(at, _)| name.split_at(at)));
    dots.flat_map(|(relation, column)| {
        let column = column.get(1..).unwrap_or_default();
        column_kinds(relation).into_iter().map(move |kind| Object::new(schema, column, kind))
    })
    .collect()
}

/// Possible object kinds for a column of `relation`, which may be a relation or the alias of an embed or junction.
fn column_kinds(relation: &str) -> Vec<String> {
    let column_of = |relation: &str| format!("column of {relation}");
    match relation.rsplit_once('_') {
        Some((base, number)) if number.parse::<u64>().is_ok() => {
            if base.len() > MAX_UNTRUNCATED_ALIAS_BYTES {
                return vec!["column".to_owned()];
            }
            let junction = base.strip_suffix("_junction").unwrap_or(base);
            vec![column_of(relation), column_of(base), column_of(junction)]
        }
        _ => vec![column_of(relation)],
    }
}

/// Aliases are truncated at a character boundary within 50 bytes; a shorter one is certainly complete.
const MAX_UNTRUNCATED_ALIAS_BYTES: usize = 46;

/// Adds the missing grant or policy to the error as its hint, if it can be determined.
pub(crate) async fn explain(context: &ExecuteContext<'_>, mut error: RestError) -> RestError {
    if let RestError::Session(SessionError::Postgres(denial)) = &mut error
        && denial.code == "42501"
        && denial.hint.is_none()
    {
        let is_trusted = context.caller.role == SERVICE_ROLE;
        let is_new = is_first_occurrence(context, denial);
        if is_trusted || is_new {
            let hint = hint(context, denial).await;
            if let Some(Hint::Grant(grant)) = hint.as_ref().filter(|_| is_new) {
                let role = &context.caller.role;
                tracing::warn!("{} for role {role}; if it should have access, run: {grant}", denial.message);
            }
            denial.hint = hint.filter(|_| is_trusted).map(Hint::into_text);
        }
    }
    if let RestError::Session(SessionError::Postgres(failure)) = &mut error
        && failure.code == "42703"
        && !failure.is_nested
        && let Some(hint) = &failure.hint
    {
        let columns = hinted_columns(hint, &context.api.schema);
        let hinted: Vec<&Object> = columns.iter().collect();
        let accessible = accessible_objects(context.into(), &context.caller.role, &hinted).await;
        if hinted.is_empty() || accessible.len() < hinted.len() {
            failure.hint = None;
        }
    }
    error
}

/// Maximum number of distinct missing grants that are logged.
const MAX_LOGGED_GRANTS: usize = 1024;

/// Whether this missing privilege occurs for the first time since the start, so that it is logged once rather than
/// per request.
fn is_first_occurrence(context: &ExecuteContext<'_>, denial: &PgError) -> bool {
    static LOGGED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(Denied::Privilege { name, .. }) = Denied::parse(&denial.message) else { return false };
    let privileges = privileges(context.api, name).join(",");
    let occurrence =
        format!("{} {} {privileges} {}", context.caller.role, context.api.schema, denial.message);
    let mut logged = LOGGED.lock();
    logged.len() < MAX_LOGGED_GRANTS && logged.insert(occurrence)
}

/// What the caller lacks.
enum Hint {
    /// The GRANT statement that would allow the request.
    Grant(String),
    /// A sentence about the policies of the relation.
    Policy(String),
}

impl Hint {
    fn into_text(self) -> String {
        match self {
            Self::Grant(grant) => format!("Grant the required privileges to the current role with: {grant}"),
            Self::Policy(text) => text,
        }
    }
}

/// Determines what the caller lacks. `None` also if the catalog cannot be queried; the caller then gets the error
/// without a hint.
async fn hint(context: &ExecuteContext<'_>, denial: &PgError) -> Option<Hint> {
    let denied = Denied::parse(&denial.message)?;
    let schemas: Vec<&str> = std::iter::once(context.api.schema.as_str())
        .chain(context.snapshot.config.extra_search_path.iter().map(String::as_str))
        .collect();
    match denied {
        Denied::Privilege { kind, name } => {
            let needed = array_literal(&privileges(context.api, name));
            let role = context.caller.role.as_str();
            let params = [kind, name, role, &needed, ALL_PRIVILEGES, &array_literal(&schemas)];
            let grant = query_catalog(context.into(), include_str!("rights/grants.sql"), &params).await?;
            Some(Hint::Grant(grant.first()?.as_deref()?.to_owned()))
        }
        // Only the service role may see policies.
        Denied::Row { .. } if context.caller.role != SERVICE_ROLE => None,
        Denied::Row { relation, is_update } => {
            let commands = if is_update { vec!["UPDATE"] } else { privileges(context.api, relation) };
            let params = [relation, SERVICE_ROLE, &array_literal(&commands), &array_literal(&schemas)];
            let found = query_catalog(context.into(), include_str!("rights/policies.sql"), &params).await?;
            let mut columns = found.into_iter();
            let (relation, lacking, policies) = (columns.next()??, columns.next()?, columns.next()?);
            policy_hint(&relation, commands.first()?, lacking, policies).map(Hint::Policy)
        }
    }
}

fn policy_hint(
    relation: &str,
    first: &str,
    lacking: Option<String>,
    policies: Option<String>,
) -> Option<String> {
    match lacking {
        Some(command) => {
            let clause = if command == "INSERT" { "WITH CHECK" } else { "USING" };
            Some(format!(
                "No policy on {relation} lets {SERVICE_ROLE} {command}. Create one with: CREATE POLICY \
                 {SERVICE_ROLE}_{} ON {relation} FOR {command} TO {SERVICE_ROLE} {clause} (true); or let the role pass \
                 all policies with: ALTER ROLE {SERVICE_ROLE} BYPASSRLS;",
                command.to_lowercase()
            ))
        }
        None => Some(format!(
            "The policies on {relation} for {first} do not let {SERVICE_ROLE} write this row: {}.",
            policies?
        )),
    }
}

const ALL_PRIVILEGES: &str = "{SELECT,INSERT,UPDATE,DELETE}";

/// Privileges that the request needs on a relation, the most specific first.
fn privileges(request: &ApiRequest, relation: &str) -> Vec<&'static str> {
    let Action::Relation { name, verb } = &request.action else { return Vec::new() };
    if name != relation {
        // The relation is embedded, or used by a view, function or trigger.
        return vec!["SELECT"];
    }
    let prefer = &request.prefer;
    let returns_rows =
        matches!(prefer.representation, Some(Representation::Full | Representation::HeadersOnly));
    let has_filters = !request.query.filters.is_empty() || !request.query.logic.is_empty();
    let select = |is_read: bool| is_read.then_some("SELECT");
    match verb {
        RelationVerb::Read { .. } => vec!["SELECT"],
        RelationVerb::Insert => {
            let merges = prefer.resolution == Some(Resolution::MergeDuplicates);
            let update = merges.then_some("UPDATE");
            let reads = returns_rows || prefer.resolution.is_some();
            ["INSERT"].into_iter().chain(update).chain(select(reads)).collect()
        }
        RelationVerb::Put => vec!["INSERT", "UPDATE", "SELECT"],
        RelationVerb::Update => ["UPDATE"].into_iter().chain(select(returns_rows || has_filters)).collect(),
        RelationVerb::Delete => ["DELETE"].into_iter().chain(select(returns_rows || has_filters)).collect(),
    }
}

/// What PostgreSQL denied, parsed from the message because no other field contains it.
#[derive(Debug, PartialEq, Eq)]
enum Denied<'a> {
    /// A privilege on an object.
    Privilege { kind: &'a str, name: &'a str },
    /// A row, by the policies of a relation.
    Row { relation: &'a str, is_update: bool },
}

impl<'a> Denied<'a> {
    fn parse(message: &'a str) -> Option<Self> {
        const KINDS: [&str; 7] =
            ["table", "view", "materialized view", "foreign table", "sequence", "schema", "function"];
        if let Some(object) = message.strip_prefix("permission denied for ") {
            return KINDS.into_iter().find_map(|kind| {
                let name = object.strip_prefix(kind)?.strip_prefix(' ')?;
                Some(Self::Privilege { kind, name })
            });
        }
        let policies = message.strip_prefix("new row violates row-level security policy ")?;
        let (which, relation) = policies.split_once("for table \"")?;
        Some(Self::Row {
            relation: relation.strip_suffix('"')?,
            is_update: which.contains("(USING expression)"),
        })
    }
}

/// Runs a statement over the catalog and returns its first row.
async fn query_catalog(
    catalog: Catalog<'_>,
    text: &'static str,
    params: &[&str],
) -> Option<Vec<Option<String>>> {
    let scope = Scope {
        identity: catalog.identity,
        access: Access::ReadOnly,
        isolation: Isolation::ReadCommitted,
        // With an empty search path PostgreSQL qualifies every name.
        settings: vec![("search_path".into(), String::new())],
        deadline: catalog.deadline,
        may_prepare: false,
        savepoints: false,
        room_for_values: false,
    };
    let params = params.iter().map(|&param| Param::from(param)).collect();
    let answers =
        catalog.sessions.run(scope, vec![Statement { text: Arc::from(text), params }]).await.ok()?;
    let row = answers.first()?.first()?;
    Some((0..3).map(|column| row.text(column).map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed() {
        for (message, denied) in [
            (
                "permission denied for table My \"odd\" table",
                Some(Denied::Privilege { kind: "table", name: "My \"odd\" table" }),
            ),
            (
                "permission denied for materialized view m",
                Some(Denied::Privilege { kind: "materialized view", name: "m" }),
            ),
            ("permission denied to set role \"x\"", None),
            (
                "new row violates row-level security policy \"p\" (USING expression) for table \"t\"",
                Some(Denied::Row { relation: "t", is_update: true }),
            ),
            (
                "new row violates row-level security policy for table \"t\"",
                Some(Denied::Row { relation: "t", is_update: false }),
            ),
            ("permission denied for language c", None),
            ("must be owner of table t", None),
        ] {
            assert_eq!(Denied::parse(message), denied, "{message}");
        }
    }
}
