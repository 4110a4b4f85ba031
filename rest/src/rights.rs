//! Which grant or policy a `service_role` caller is missing (rest.md §7.1, ours).
//!
//! PostgreSQL says what it refused and not what would help. A caller with the service key may read that from the catalog
//! anyway and gets it as the error's `hint`; other callers learn nothing of what exists and who may use it. A missing grant is also logged,
//! once, for the operator. The catalog
//! is asked in a second transaction, under the login role, because the first one is aborted.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use basalt_core::identity::Identity;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::{Access, Isolation, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Param;
use tokio::time::Instant;

use crate::error::{Object, RestError};
use crate::execute::ExecuteContext;
use crate::parse::prefer::{Representation, Resolution};
use crate::request::{Action, ApiRequest, RelationVerb};
use crate::statement::array_literal;

/// The role of the service keys.
const SERVICE_ROLE: &str = "service_role";

/// Access to the catalog for one request.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) identity: Identity,
    pub(crate) deadline: Instant,
}

/// The error, without names of what the caller may not use. The catalog is queried only if the error names something;
/// when the query fails, no name is returned.
pub(crate) async fn redact_unknown_names(
    catalog: Catalog<'_>,
    role: &str,
    mut error: RestError,
) -> RestError {
    let told = error.told();
    if !told.is_empty() {
        let shown: Vec<Object> = visible(catalog, role, &told).await.into_iter().cloned().collect();
        error.tell_only(|object| shown.contains(object));
    }
    error
}

/// Those of the objects that the role may use.
async fn visible<'a>(catalog: Catalog<'_>, role: &str, objects: &[&'a Object]) -> Vec<&'a Object> {
    let list =
        |part: fn(&Object) -> &str| array_literal(&objects.iter().map(|o| part(o)).collect::<Vec<_>>());
    let params = [role, &list(|o| &o.schema), &list(|o| &o.name), &list(|o| &o.kind)];
    let found = ask(catalog, include_str!("rights/visible.sql"), &params).await;
    let numbers = found.and_then(|row| row.into_iter().next()?).unwrap_or_default();
    let numbers = numbers.split(',').filter_map(|number| number.parse::<usize>().ok());
    numbers.filter_map(|number| objects.get(number.checked_sub(1)?).copied()).collect()
}

/// The columns that PostgreSQL's hint names, `Perhaps you meant to reference the column "a.b"`, as the objects they may be:
/// it looks at columns, not at who may read them. Empty where that cannot be told.
fn hinted(hint: &str, schema: &str) -> Vec<Object> {
    let parts: Vec<&str> = hint.split('"').collect();
    let names: Vec<&str> = parts.iter().skip(1).step_by(2).copied().collect();
    if !matches!(parts.len(), 3 | 5) || !names.iter().all(|name| name.contains('.')) {
        return Vec::new();
    }
    let dots =
        names.into_iter().flat_map(|name| name.match_indices('.').map(move |(at, _)| name.split_at(at)));
    dots.flat_map(|(relation, column)| {
        let column = column.get(1..).unwrap_or_default();
        kinds(relation).into_iter().map(move |kind| Object::new(schema, column, kind))
    })
    .collect()
}

/// The kinds of a column of what the statement calls so: a relation, or the alias of an embed or of a junction.
fn kinds(relation: &str) -> Vec<String> {
    let of = |relation: &str| format!("column of {relation}");
    match relation.rsplit_once('_') {
        Some((base, number)) if number.parse::<u64>().is_ok() => {
            if base.len() > SURELY_WHOLE {
                return vec!["column".to_owned()];
            }
            let junction = base.strip_suffix("_junction").unwrap_or(base);
            vec![of(relation), of(base), of(junction)]
        }
        _ => vec![of(relation)],
    }
}

/// Aliases are cut at 50 bytes, behind a whole character.
const SURELY_WHOLE: usize = 46;

/// The error, with what the caller lacks as its hint where that can be told.
pub(crate) async fn explain(context: &ExecuteContext<'_>, mut error: RestError) -> RestError {
    if let RestError::Session(SessionError::Postgres(refusal)) = &mut error
        && refusal.code == "42501"
        && refusal.hint.is_none()
    {
        let is_trusted = context.caller.role == SERVICE_ROLE;
        let is_new = is_first(context, refusal);
        if is_trusted || is_new {
            let hint = hint(context, refusal).await;
            if let Some(Hint::Grant(grant)) = hint.as_ref().filter(|_| is_new) {
                let role = &context.caller.role;
                tracing::info!("{} for role {role}; if it should have access, run: {grant}", refusal.message);
            }
            refusal.hint = hint.filter(|_| is_trusted).map(Hint::into_text);
        }
    }
    if let RestError::Session(SessionError::Postgres(failure)) = &mut error
        && failure.code == "42703"
        && !failure.is_nested
        && let Some(hint) = &failure.hint
    {
        let columns = hinted(hint, &context.api.schema);
        let asked: Vec<&Object> = columns.iter().collect();
        let shown = visible(context.catalog(), &context.caller.role, &asked).await;
        if asked.is_empty() || shown.len() < asked.len() {
            failure.hint = None;
        }
    }
    error
}

/// Missing grants that were logged; more are not.
const LOGGED_GRANTS: usize = 1024;

/// Whether this lack of a privilege has not been met since the start: it is logged once, not for each request.
fn is_first(context: &ExecuteContext<'_>, refusal: &PgError) -> bool {
    static MET: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(Refused::Privilege { name, .. }) = Refused::read(&refusal.message) else { return false };
    let privileges = privileges(context.api, name).join(",");
    let met = format!("{} {} {privileges} {}", context.caller.role, context.api.schema, refusal.message);
    let mut all = MET.lock().unwrap_or_else(PoisonError::into_inner);
    all.len() < LOGGED_GRANTS && all.insert(met)
}

/// What the caller lacks.
enum Hint {
    /// The statement that grants it.
    Grant(String),
    /// A sentence about policies.
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

/// `None` too when the catalog cannot be asked: the refusal itself is the answer then.
async fn hint(context: &ExecuteContext<'_>, refusal: &PgError) -> Option<Hint> {
    let refused = Refused::read(&refusal.message)?;
    let schemas: Vec<&str> = std::iter::once(context.api.schema.as_str())
        .chain(context.snapshot.config.extra_search_path.iter().map(String::as_str))
        .collect();
    match refused {
        Refused::Privilege { kind, name } => {
            let wanted = array_literal(&privileges(context.api, name));
            let role = context.caller.role.as_str();
            let params = [kind, name, role, &wanted, ALL_PRIVILEGES, &array_literal(&schemas)];
            let grant = ask(context.catalog(), include_str!("rights/grants.sql"), &params).await?;
            Some(Hint::Grant(grant.first()?.as_deref()?.to_owned()))
        }
        // Its words are for the service role alone, and so are the names of policies.
        Refused::Row { .. } if context.caller.role != SERVICE_ROLE => None,
        Refused::Row { relation, is_update } => {
            let commands = if is_update { vec!["UPDATE"] } else { privileges(context.api, relation) };
            let params = [relation, SERVICE_ROLE, &array_literal(&commands), &array_literal(&schemas)];
            let found = ask(context.catalog(), include_str!("rights/policies.sql"), &params).await?;
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

/// What the request does with a relation, most telling first.
fn privileges(request: &ApiRequest, relation: &str) -> Vec<&'static str> {
    let Action::Relation { name, verb } = &request.action else { return Vec::new() };
    if name != relation {
        // Embedded, or used by a view, a function or a trigger.
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

/// What PostgreSQL refused, read from its message: there is no other field that says it.
#[derive(Debug, PartialEq, Eq)]
enum Refused<'a> {
    /// A privilege on an object.
    Privilege { kind: &'a str, name: &'a str },
    /// A row, by the policies of a relation.
    Row { relation: &'a str, is_update: bool },
}

impl<'a> Refused<'a> {
    fn read(message: &'a str) -> Option<Self> {
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

/// The first row of a statement over the catalog.
async fn ask(catalog: Catalog<'_>, text: &'static str, params: &[&str]) -> Option<Vec<Option<String>>> {
    let scope = Scope {
        identity: catalog.identity,
        access: Access::ReadOnly,
        isolation: Isolation::ReadCommitted,
        // Nothing is visible without its schema, so that every name comes out with it.
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
    fn messages_are_read() {
        for (message, refused) in [
            (
                "permission denied for table My \"odd\" table",
                Some(Refused::Privilege { kind: "table", name: "My \"odd\" table" }),
            ),
            (
                "permission denied for materialized view m",
                Some(Refused::Privilege { kind: "materialized view", name: "m" }),
            ),
            ("permission denied to set role \"x\"", None),
            (
                "new row violates row-level security policy \"p\" (USING expression) for table \"t\"",
                Some(Refused::Row { relation: "t", is_update: true }),
            ),
            (
                "new row violates row-level security policy for table \"t\"",
                Some(Refused::Row { relation: "t", is_update: false }),
            ),
            ("permission denied for language c", None),
            ("must be owner of table t", None),
        ] {
            assert_eq!(Refused::read(message), refused, "{message}");
        }
    }
}
