//! Loads the schema cache: runs the catalog queries and builds the cache from their results (rest.md §4.3).
//!
//! Needs only the authenticator login and works on any database: the queries read only what every role may read. They
//! run with an empty search path, so that PostgreSQL qualifies all types and names in expressions.

pub mod builder_thread;
mod tables;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_pg::session::{Access, Answers, Isolation, Row, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Param;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::name::Name;
use super::relationships::{self, ComputedRelationship};
use super::routines::{Returns, Routine, RoutineParam, RowShape, Volatility};
use super::view_columns::{self, ViewTree};
use super::{MediaHandler, Parts, QualifiedName, Representations, SchemaCache};
use crate::config::{DATABASE_SETTINGS, RestConfig, Stored};
use crate::statement::array_literal;
use builder_thread::BuilderThread;
use tables::{Tables, Tallies};

/// Maximum duration of a load before it is cancelled and retried later.
const LOAD_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum duration of a fingerprint query, which a request waits for.
const FINGERPRINT_DEADLINE: Duration = Duration::from_secs(2);

/// Reason why a load failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A query failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A result does not have the shape that its query produces: a bug, or an unsupported PostgreSQL version.
    #[error("unexpected result of the catalog query for {query}: {source}")]
    Shape {
        /// Name of the query.
        query: &'static str,
        /// Parse error.
        source: serde_json::Error,
    },
    /// The load was abandoned because the server is shutting down.
    #[error("the server is shutting down")]
    Stopped,
}

/// Result of a load.
#[derive(Debug)]
pub struct Loaded {
    /// Configuration with the settings stored in the database applied, and warnings for the log.
    pub stored: Stored,
    /// The schema cache.
    pub cache: SchemaCache,
    /// Fingerprint of the catalog; see [`fingerprint`].
    pub fingerprint: String,
}

/// Reads the stored settings, then the catalog, each in one read-only transaction. `before` are the settings accepted
/// by the previous load; the cache is built on `builder`.
///
/// # Errors
/// A query failed or returned an unexpected result.
pub async fn load(
    base: &RestConfig,
    before: &HashMap<String, String>,
    sessions: &Sessions,
    builder: &BuilderThread,
) -> Result<Loaded, LoadError> {
    let settings = if base.database_settings { settings(base, sessions).await? } else { Vec::new() };
    let mut stored = base.with_database_settings(&settings, before);
    let (cache, missing, fingerprint) = load_cache(&stored.config, sessions, builder).await?;
    // Supabase's default configuration exposes it; it exists once pg_graphql does.
    for schema in missing.into_iter().filter(|schema| schema != "graphql_public") {
        stored.warnings.push(format!("exposed schema {schema:?} does not exist in the database"));
    }
    Ok(Loaded { stored, cache, fingerprint })
}

/// Text that changes with every change to relations, columns, constraints and functions; much cheaper than a load.
///
/// # Errors
/// The query failed.
pub async fn fingerprint(sessions: &Sessions) -> Result<String, LoadError> {
    let answers = sessions.run(scope(FINGERPRINT_DEADLINE), vec![statement(FINGERPRINT, &[])]).await?;
    Ok(fingerprint_text(answers.first()))
}

fn fingerprint_text(rows: Option<&Vec<Row>>) -> String {
    let text = rows.and_then(|rows| rows.first()).and_then(|row| row.text(0));
    text.unwrap_or_default().to_owned()
}

const FINGERPRINT: &str = include_str!("fingerprint.sql");

/// Properties of all functions, including those that requests cannot name: their part of the fingerprint, whether any
/// of them sets the claims, and whether a read, or a write through its triggers, may reach one that runs PREPARE
/// (docs/decisions/0050). Functions of Supabase and of this server do both, but in schemas that requests cannot
/// reach, and they execute no text supplied by callers.
///
/// PREPARE requires a volatile function that contains the word or executes dynamic text. A `BEGIN ATOMIC` body
/// contains only parsed queries, and its source text is empty.
const FUNCTIONS: &str = "\
select concat(count(*), '/', coalesce(sum(p.xmin::text::int8), 0)),
  bool_or(strpos(p.prosrc, 'request.jwt') > 0
    and p.prosrc ~* '(set_config\\s*\\(\\s*|\\mset\\s+((local|session)\\s+)?)[''\"]?request\\.jwt'
    and p.pronamespace is distinct from to_regnamespace('realtime')),
  bool_or(may_prepare and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)),
  bool_or(may_prepare and p.prorettype = 'trigger'::regtype)
from pg_catalog.pg_proc p
join pg_catalog.pg_language l on l.oid = p.prolang
cross join lateral (
  select p.provolatile = 'v'
    and p.pronamespace is distinct from to_regnamespace('realtime')
    and p.pronamespace is distinct from to_regnamespace('storage')
    and case
      when l.lanname in ('c', 'internal') then false
      when l.lanname in ('sql', 'plpgsql') then lower(p.prosrc collate \"C\") ~ 'execute|prepare'
      else true
    end
) as code (may_prepare)
where p.oid >= 16384";

/// Settings set by a pre-config function, followed by those stored for the login role, which take precedence.
async fn settings(base: &RestConfig, sessions: &Sessions) -> Result<Vec<(String, String)>, LoadError> {
    let stored = statement(include_str!("settings.sql"), &[]);
    let mut steps = vec![stored];
    if let Some(function) = &base.pre_config {
        steps.push(function.call());
        steps.push(statement(CURRENT_SETTINGS, &[&array_literal(&DATABASE_SETTINGS)]));
    }
    let mut answers = sessions.run(scope(LOAD_DEADLINE), steps).await?.into_iter();
    let stored: Vec<(String, String)> = one("settings", answers.next())?.unwrap_or_default();
    let mut settings: Vec<(String, String)> = one("current settings", answers.nth(1))?.unwrap_or_default();
    settings.extend(stored);
    Ok(settings)
}

const CURRENT_SETTINGS: &str = "\
select coalesce(json_agg(json_build_array(name, current_setting('pgrst.' || name, true))), '[]')::text
from unnest($1::text[]) as name
where nullif(current_setting('pgrst.' || name, true), '') is not null";

/// Loads the cache, the exposed schemas that do not exist, and the fingerprint.
async fn load_cache(
    config: &RestConfig,
    sessions: &Sessions,
    builder: &BuilderThread,
) -> Result<(SchemaCache, Vec<String>, String), LoadError> {
    let exposed = array_literal(&config.schemas);
    let reachable: Vec<String> = config.schemas.iter().chain(&config.extra_search_path).cloned().collect();
    let reachable = array_literal(&reachable);
    let steps = vec![
        statement(include_str!("roles.sql"), &[]),
        statement(include_str!("relations.sql"), &[]),
        statement(include_str!("types.sql"), &[]),
        statement(include_str!("columns.sql"), &[]),
        statement(include_str!("defaults.sql"), &[]),
        statement(include_str!("comments.sql"), &[]),
        statement(include_str!("constraints.sql"), &[]),
        statement(include_str!("views.sql"), &[&reachable]),
        statement(include_str!("computed.sql"), &[]),
        statement(include_str!("routines.sql"), &[&exposed]),
        statement(include_str!("representations.sql"), &[]),
        statement(include_str!("media.sql"), &[&exposed]),
        statement(SCHEMAS, &[&exposed]),
        statement(FUNCTIONS, &[]),
    ];
    let answers = sessions.run(scope(LOAD_DEADLINE), steps).await?;
    let config = config.clone();
    builder.run(move || build(&config, answers)).await.ok_or(LoadError::Stopped)?
}

/// Builds the cache from the query results, which are in the order of the statements.
fn build(config: &RestConfig, answers: Answers) -> Result<(SchemaCache, Vec<String>, String), LoadError> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next();
    let roles = one("roles", next())?.unwrap_or_default();
    let mut tally = Tallies::default();
    let mut tables = Tables::new(&next().unwrap_or_default(), &mut tally.relations)?;
    let types = many("types", next())?;
    let text_types = tables::text_types(&types);
    tables.columns(&next().unwrap_or_default(), types, &mut tally.columns);
    tables.defaults(&next().unwrap_or_default());
    tables.comments(&next().unwrap_or_default());
    let foreign_keys = tables.keys(&next().unwrap_or_default(), &mut tally.constraints);
    let views: Vec<ViewTree> = many("views", next())?;
    let computed: Vec<ComputedRelationship> = many("computed relationships", next())?;
    let routines: Vec<LoadedRoutine> = many("functions", next())?;
    let representations: Vec<LoadedRepresentation> = many("representations", next())?;
    let media_handlers: Vec<MediaHandler> = many("media handlers", next())?;
    let schemas: HashMap<String, Option<String>> = one("schemas", next())?.unwrap_or_default();
    let functions = next();
    let any_true = |column| functions.iter().flatten().any(|row| row.text(column) == Some("t"));
    let (rewrites_claims, may_prepare, triggers_may_prepare) = (any_true(1), any_true(2), any_true(3));
    let functions = fingerprint_text(functions.as_ref());
    let fingerprint = format!("{} {} {} {functions}", tally.relations, tally.constraints, tally.columns);
    let missing = config.schemas.iter().filter(|schema| !schemas.contains_key(*schema)).cloned().collect();

    let shown_columns = view_columns::shown_columns(&views, &tables);
    let mut relations = tables.into_relations();
    relationships::add_view_primary_keys(&mut relations, &shown_columns);
    let relationships =
        relationships::derive(foreign_keys, &computed, &relations, &shown_columns, &config.schemas);
    let cache = SchemaCache::from(Parts {
        relations,
        relationships,
        routines: routines
            .into_iter()
            .map(|routine| routine.into_routine(&config.hoisted_tx_settings))
            .collect(),
        roles,
        schema_comments: schemas.into_iter().filter_map(|(name, comment)| Some((name, comment?))).collect(),
        representations: representations_by_domain(representations),
        media_handlers,
        text_types,
        rewrites_claims,
        may_prepare,
        triggers_may_prepare,
    });
    Ok((cache, missing, fingerprint))
}

const SCHEMAS: &str = "\
select coalesce(json_object_agg(nspname, obj_description(oid, 'pg_namespace')), '{}')::text
from pg_catalog.pg_namespace
where nspname = any ($1::text[])";

fn scope(limit: Duration) -> Scope {
    Scope {
        identity: Identity::SERVER,
        access: Access::ReadOnly,
        // All queries use one snapshot, so that a concurrent migration is seen completely or not at all.
        isolation: Isolation::RepeatableRead,
        settings: vec![
            ("search_path".into(), String::new()),
            // The patterns in these queries depend on this setting, which the database or login may have changed.
            ("standard_conforming_strings".into(), "on".to_owned()),
            // The login's own timeout is meant for requests; a large catalog may take longer.
            ("statement_timeout".into(), "0".to_owned()),
            // JIT compilation of these queries takes several times longer than running them on a small catalog.
            ("jit".into(), "off".to_owned()),
            // Parallel workers would repeat much of the work, at the expense of requests.
            ("max_parallel_workers_per_gather".into(), "0".to_owned()),
        ],
        may_prepare: false,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + limit,
    }
}

fn statement(text: &'static str, params: &[&str]) -> Statement {
    Statement { text: Arc::from(text), params: params.iter().map(|&value| Param::from(value)).collect() }
}

/// Parses a result with one JSON value per row.
fn many<T: DeserializeOwned>(query: &'static str, rows: Option<Vec<Row>>) -> Result<Vec<T>, LoadError> {
    rows.unwrap_or_default().iter().map(|row| json(query, row.text(0).unwrap_or_default())).collect()
}

fn json<T: DeserializeOwned>(query: &'static str, text: &str) -> Result<T, LoadError> {
    serde_json::from_str(text).map_err(|source| LoadError::Shape { query, source })
}

/// Parses a result of a single JSON value.
fn one<T: DeserializeOwned>(query: &'static str, rows: Option<Vec<Row>>) -> Result<Option<T>, LoadError> {
    Ok(many(query, rows)?.pop())
}

/// A function as returned by `routines.sql`.
#[derive(Debug, Deserialize)]
struct LoadedRoutine {
    name: QualifiedName,
    params: Vec<RoutineParam>,
    set: bool,
    void: bool,
    composite: bool,
    row_type: QualifiedName,
    media: Option<String>,
    volatility: String,
    config: Vec<String>,
    comment: Option<String>,
}

impl LoadedRoutine {
    fn into_routine(self, hoisted: &[String]) -> Routine {
        let mut isolation = None;
        let mut settings = Vec::new();
        for (name, value) in self.config.iter().filter_map(|entry| entry.split_once('=')) {
            if name == "default_transaction_isolation" {
                // This becomes part of BEGIN rather than a setting, so it applies whatever the list contains, as in
                // PostgREST.
                isolation = Some(value.to_owned());
            } else if hoisted.iter().any(|known| known == name) {
                settings.push((name.to_owned(), value.to_owned()));
            }
        }
        let row = if self.void {
            RowShape::Void
        } else if self.composite {
            RowShape::Composite(self.row_type)
        } else {
            RowShape::Scalar
        };
        Routine {
            name: self.name,
            params: self.params,
            returns: Returns { set: self.set, row, media: self.media },
            volatility: match self.volatility.as_str() {
                "i" => Volatility::Immutable,
                "s" => Volatility::Stable,
                _ => Volatility::Volatile,
            },
            isolation,
            settings,
            comment: self.comment,
        }
    }
}

/// A cast as returned by `representations.sql`.
#[derive(Debug, Deserialize)]
struct LoadedRepresentation {
    domain: Name,
    direction: Direction,
    function: QualifiedName,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    ToJson,
    FromJson,
    FromText,
}

fn representations_by_domain(loaded: Vec<LoadedRepresentation>) -> Representations {
    let mut found = Representations::default();
    for LoadedRepresentation { domain, direction, function } in loaded {
        let map = match direction {
            Direction::ToJson => &mut found.to_json,
            Direction::FromJson => &mut found.from_json,
            Direction::FromText => &mut found.from_text,
        };
        map.insert(domain, function);
    }
    found
}
