//! Decides which rows a subscriber may see without asking PostgreSQL, where its policies allow that.
//!
//! Before each batch, the policies of the table are read once per role, as that role and after the batch's
//! transactions are visible, so that a change of a policy, a role, a privilege or a function takes effect
//! from the next batch on, as for rows that PostgreSQL looks up. If all policies that apply are supported
//! (`policies/compile.rs`), they are evaluated on the streamed row. In any doubt PostgreSQL decides.
//!
//! A row is judged as the change left it, not as it is by now.

mod claims;
mod compile;
mod expression;
mod node_tree;
mod subselect;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::claims::Claims;
use basalt_pg::pool::ServicePool;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::time::Instant;

use super::decoder::Relation;
use super::identity::Identity;
use claims::ClaimValues;
use compile::{Attribute, ClaimFunction, Compiler, JoinedTable};
use expression::{BoundValues, Claim, Datum, Expr, Input, Kind, Parameters, RowValue, Undecided};
use subselect::{Found, Subselect};

/// Reads what decides about visibility of a table's rows for the current role, as JSON.
///
/// `settings`: whether settings, operators and casts are those under which the functions of `FUNCTIONS`
/// return the claims. `tables`: the table, and those that its policies read.
pub const QUERY: &str = "
    with wanted as (
      select $1::pg_catalog.oid as oid
      union
      select d.refobjid
      from pg_catalog.pg_policy p
      join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and d.objid = p.oid
        and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
      where p.polrelid = $1::pg_catalog.oid and p.polcmd in ('r', '*')
    )
    select pg_catalog.json_build_object(
      'settings', pg_catalog.current_setting('server_encoding') = 'UTF8'
        and pg_catalog.current_setting('row_security') = 'on'
        and pg_catalog.concat(
          pg_catalog.current_setting('request.jwt.claim.sub', true),
          pg_catalog.current_setting('request.jwt.claim.role', true),
          pg_catalog.current_setting('request.jwt.claim', true)) = ''
        and pg_catalog.strpos(pg_catalog.current_setting('search_path'), 'pg_') = 0
        and not exists (
          select from pg_catalog.pg_operator o
          where o.oprname = '->>' and o.oprleft = 'pg_catalog.jsonb'::pg_catalog.regtype and o.oid > 16383)
        and not exists (
          select from pg_catalog.pg_cast k
          where k.castsource = 'pg_catalog.text'::pg_catalog.regtype
            and k.casttarget in ('pg_catalog.uuid'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype)),
      'functions', (
        select pg_catalog.json_agg(
          pg_catalog.json_build_array(p.oid::pg_catalog.int8, p.proname, p.prosrc) order by p.oid)
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        join pg_catalog.pg_language l on l.oid = p.prolang
        where n.nspname = 'auth' and p.proname in ('uid', 'role', 'jwt') and p.pronargs = 0
          and l.lanname = 'sql' and p.prokind = 'f' and p.provolatile = 's' and not p.prosecdef
          and not p.proretset and p.prosqlbody is null and p.proconfig is null
          and p.prorettype = case p.proname
            when 'uid' then 'pg_catalog.uuid' when 'role' then 'pg_catalog.text' else 'pg_catalog.jsonb'
            end::pg_catalog.regtype
          and pg_catalog.has_function_privilege(p.oid, 'execute')),
      'tables', (
        select pg_catalog.json_agg(pg_catalog.json_build_object(
          'oid', c.oid::pg_catalog.int8, 'schema', n.nspname, 'name', c.relname,
          'may_select', pg_catalog.has_table_privilege(c.oid, 'select'),
          'may_look_up', pg_catalog.has_schema_privilege(n.oid, 'usage') and not exists (
            select from pg_catalog.pg_index i, pg_catalog.unnest(i.indkey::pg_catalog.int2[]) as k
            where i.indrelid = c.oid and i.indisprimary
              and not pg_catalog.has_column_privilege(c.oid, k, 'select')),
          'is_restricted', pg_catalog.row_security_active(c.oid),
          'attributes', (
            select pg_catalog.json_agg(
              pg_catalog.json_build_array(a.attnum, a.attname, a.atttypid::pg_catalog.int8, a.attgenerated <> '')
              order by a.attnum)
            from pg_catalog.pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
          'policies', (
            select pg_catalog.json_agg(
              pg_catalog.json_build_array(p.polpermissive, p.polqual::pg_catalog.text) order by p.oid)
            from pg_catalog.pg_policy p
            where p.polrelid = c.oid and p.polcmd in ('r', '*') and exists (
              select from pg_catalog.unnest(p.polroles) as r
              where case r when 0 then true else pg_catalog.pg_has_role(r, 'usage') end)))
          order by c.oid)
        from wanted w
        join pg_catalog.pg_class c on c.oid = w.oid
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace)
    )::pg_catalog.text";

/// The functions whose results are known, with their bodies: those of this server's schema `auth`, then the
/// ones of upstream. White space is insignificant: no literal in them contains any.
const FUNCTIONS: [(ClaimFunction, &str, &str); 6] = [
    (
        ClaimFunction::Uid,
        "uid",
        "select nullif( coalesce( nullif(current_setting('request.jwt.claim.sub', true), ''), \
         nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub' ), '' )::uuid",
    ),
    (
        ClaimFunction::Role,
        "role",
        "select nullif( coalesce( nullif(current_setting('request.jwt.claim.role', true), ''), \
         nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role' ), '' )::text",
    ),
    (
        ClaimFunction::Jwt,
        "jwt",
        "select coalesce( nullif(current_setting('request.jwt.claim', true), ''), \
         nullif(current_setting('request.jwt.claims', true), '') )::jsonb",
    ),
    (
        ClaimFunction::Uid,
        "uid",
        "select coalesce( nullif(current_setting('request.jwt.claim.sub', true), ''), \
         (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub') )::uuid",
    ),
    (
        ClaimFunction::Role,
        "role",
        "select coalesce( nullif(current_setting('request.jwt.claim.role', true), ''), \
         (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role') )::text",
    ),
    (
        ClaimFunction::Jwt,
        "jwt",
        "select coalesce( nullif(current_setting('request.jwt.claim', true), ''), \
         nullif(current_setting('request.jwt.claims', true), '') )::jsonb",
    ),
];

/// How long sub-selects are left to PostgreSQL after one has failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// How long unsupported policies are left to PostgreSQL before they are read again, in case they have changed.
const UNSUPPORTED_AGE: Duration = Duration::from_secs(5);

/// Whether a row is visible to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// A SELECT shows it.
    Visible,
    /// A SELECT does not show it.
    Hidden,
    /// PostgreSQL has to decide.
    Unknown,
}

#[derive(Deserialize)]
struct Definition {
    settings: bool,
    functions: Option<Vec<(u32, String, String)>>,
    tables: Option<Vec<TableDefinition>>,
}

#[derive(Deserialize)]
struct TableDefinition {
    oid: u32,
    schema: String,
    name: String,
    may_select: bool,
    may_look_up: bool,
    is_restricted: bool,
    attributes: Option<Vec<(i16, String, u32, bool)>>,
    policies: Option<Vec<(bool, Option<String>)>>,
}

impl TableDefinition {
    fn columns(&self) -> Vec<Attribute> {
        let attributes = self.attributes.iter().flatten();
        let attribute = |(number, name, type_oid, is_generated): &(i16, String, u32, bool)| Attribute {
            number: *number,
            name: name.clone(),
            type_oid: *type_oid,
            is_generated: *is_generated,
        };
        attributes.map(attribute).collect()
    }

    fn into_joined(self) -> JoinedTable {
        let attributes = self.columns();
        let Self { schema, name, may_select, is_restricted, policies, .. } = self;
        let policies = is_restricted.then(|| policies.unwrap_or_default());
        JoinedTable { schema, name, may_select, policies, attributes }
    }
}

/// The claims of a subscriber, and the sub-selects that read them.
struct SubscriberValues<'a> {
    claims: ClaimValues<'a>,
    subselects: &'a [Subselect],
}

impl BoundValues for SubscriberValues<'_> {
    fn claim(&self, claim: &Claim) -> Result<Option<String>, Undecided> {
        self.claims.claim(claim)
    }

    fn parameters(&self, subselect: usize) -> Result<Parameters, Undecided> {
        self.subselects.get(subselect).ok_or(Undecided)?.parameters(&self.claims)
    }
}

type BoundByIdentity = HashMap<usize, (Arc<Identity>, Arc<BoundPolicies>)>;

/// The policies of one table for one role.
pub struct RolePolicies {
    /// The result of [`QUERY`] that they were compiled from.
    text: String,
    read_at: Instant,
    access: Access,
    /// Names and types of the columns, in order, and whether they are generated: not all of those are streamed.
    attributes: Vec<Attribute>,
    /// Conditions by address of the identity, which the entry keeps alive.
    bound: Mutex<BoundByIdentity>,
    /// When a sub-select last failed.
    failed_at: Mutex<Option<Instant>>,
}

enum Access {
    /// Row security does not apply to the role.
    All,
    Condition {
        expr: Expr,
        subselects: Vec<Subselect>,
        columns: Vec<(String, Kind)>,
    },
    Unsupported,
}

/// The values of a row that the policies read.
#[derive(Debug)]
pub struct Row<'a>(Vec<RowValue<'a>>);

/// What the sub-selects of policies find for a batch.
#[derive(Debug, Default)]
pub struct SubselectResults(Vec<Found>);

/// The policies with the claims of one subscriber.
#[derive(Debug)]
pub struct BoundPolicies(Bound);

#[derive(Debug)]
enum Bound {
    Known(bool),
    Condition(Expr),
    Unsupported,
}

impl RolePolicies {
    /// Compiles the result of [`QUERY`] for the table with this object id.
    #[must_use]
    pub fn compile(oid: u32, text: String) -> Self {
        let definition = serde_json::from_str::<Definition>(&text).ok();
        let (access, attributes) = definition
            .and_then(|definition| compile(oid, definition))
            .unwrap_or((Access::Unsupported, Vec::new()));
        let read_at = Instant::now();
        Self { text, read_at, access, attributes, bound: Mutex::default(), failed_at: Mutex::default() }
    }

    pub(super) const fn is_supported(&self) -> bool {
        !matches!(self.access, Access::Unsupported)
    }

    /// Whether PostgreSQL evaluates the policies for now, whatever they are. Reading them for each batch would
    /// be wasted.
    pub(super) fn are_left_to_postgres(&self) -> bool {
        !self.is_supported() && self.read_at.elapsed() < UNSUPPORTED_AGE
    }

    pub(super) fn is_compiled_from(&self, text: &str) -> bool {
        self.text == text
    }

    /// Whether rows of this relation can be judged. Its columns must be those that the policies were compiled
    /// for: otherwise a name may mean another column by now.
    #[must_use]
    pub fn applies_to(&self, relation: &Relation) -> bool {
        let generated = |name: &str| self.attributes.iter().any(|it| it.is_generated && it.name == name);
        let described = relation.columns.iter().filter(|column| !generated(&column.name));
        let described = described.map(|column| (&column.name, column.type_oid));
        let streamed = self.attributes.iter().filter(|attribute| !attribute.is_generated);
        self.is_supported() && described.eq(streamed.map(|attribute| (&attribute.name, attribute.type_oid)))
    }

    /// The values of a row that the policies read.
    ///
    /// `value` returns the value at a position of the relation, in PostgreSQL's text format: `None` if it was
    /// not streamed, `Some(None)` for NULL.
    pub fn row<'a>(&self, relation: &Relation, value: impl Fn(usize) -> Option<Option<&'a str>>) -> Row<'a> {
        let Access::Condition { columns, .. } = &self.access else { return Row(Vec::new()) };
        let value = |(name, kind): &(String, Kind)| {
            let position = relation.columns.iter().position(|column| column.name == *name);
            match position.and_then(&value) {
                None => Err(Undecided),
                Some(None) => Ok(None),
                Some(Some(text)) => Datum::from_printed(*kind, text).map(Some),
            }
        };
        Row(columns.iter().map(value).collect())
    }

    /// The policies with these claims.
    #[must_use]
    pub fn bind_claims(&self, claims: &Claims) -> BoundPolicies {
        BoundPolicies(match &self.access {
            Access::All => Bound::Known(true),
            Access::Condition { expr, subselects, .. } => {
                match expr.bind(&SubscriberValues { claims: ClaimValues::new(claims), subselects }) {
                    Ok(expr) => Bound::from(expr),
                    Err(Undecided) => Bound::Unsupported,
                }
            }
            Access::Unsupported => Bound::Unsupported,
        })
    }

    /// Runs the policies' sub-selects for the rows of a batch. Their results are missing if they failed within
    /// the last minute.
    pub async fn find(
        &self,
        pool: &ServicePool,
        rows: &[Row<'_>],
        bound: impl Iterator<Item = &Arc<BoundPolicies>> + Clone,
    ) -> SubselectResults {
        let Access::Condition { subselects, .. } = &self.access else { return SubselectResults::default() };
        let is_failing = self.failed_at.lock().is_some_and(|at| at.elapsed() < FAILURE_PAUSE);
        if subselects.is_empty() || is_failing {
            return SubselectResults::default();
        }
        let mut all = Vec::with_capacity(subselects.len());
        for (index, subselect) in subselects.iter().enumerate() {
            let mut parameters = Vec::new();
            for bound in bound.clone() {
                if let Bound::Condition(expr) = &bound.0 {
                    expr.parameters(index, &mut parameters);
                }
            }
            match subselect.run(pool, rows, parameters.into_iter()).await {
                Ok(found) => all.push(found),
                Err(error) => {
                    tracing::info!(
                        %error,
                        "a sub-select of policies could not be evaluated for all subscribers at once; \
                         for a minute, PostgreSQL evaluates it for each"
                    );
                    *self.failed_at.lock() = Some(Instant::now());
                    return SubselectResults::default();
                }
            }
        }
        SubselectResults(all)
    }

    /// Like [`Self::bind_claims`], kept for the next batch. `identities` is their number in use.
    pub(super) fn bind(&self, identity: &Arc<Identity>, identities: usize) -> Arc<BoundPolicies> {
        let key = Arc::as_ptr(identity).addr();
        let mut bound = self.bound();
        if let Some((_, policies)) = bound.get(&key) {
            return Arc::clone(policies);
        }
        let policies = Arc::new(self.bind_claims(&identity.claims));
        // Clean up once unused entries may outnumber the others.
        if bound.len() > 2 * identities + 64 {
            bound.retain(|_, (identity, _)| Arc::strong_count(identity) > 1);
        }
        bound.insert(key, (Arc::clone(identity), Arc::clone(&policies)));
        policies
    }

    fn bound(&self) -> MutexGuard<'_, BoundByIdentity> {
        self.bound.lock()
    }
}

impl From<Expr> for Bound {
    fn from(expr: Expr) -> Self {
        match expr.constant() {
            Some(holds) => Self::Known(holds),
            None => Self::Condition(expr),
        }
    }
}

impl BoundPolicies {
    /// Whether the row with this number in its batch is visible.
    #[must_use]
    pub fn judge(&self, number: usize, row: &Row<'_>, results: &SubselectResults) -> Visibility {
        let exists = |index: usize, parameters: &Parameters| {
            results.0.get(index).ok_or(Undecided)?.exists(number, parameters)
        };
        let holds = match &self.0 {
            Bound::Known(holds) => Ok(*holds),
            Bound::Condition(expr) => expr.holds(Input { values: &row.0, exists: &exists }),
            Bound::Unsupported => Err(Undecided),
        };
        match holds {
            Ok(true) => Visibility::Visible,
            Ok(false) => Visibility::Hidden,
            Err(Undecided) => Visibility::Unknown,
        }
    }
}

fn compile(oid: u32, definition: Definition) -> Option<(Access, Vec<Attribute>)> {
    let Definition { settings, functions, tables } = definition;
    let (mut own, joined): (Vec<_>, Vec<_>) =
        tables.unwrap_or_default().into_iter().partition(|table| table.oid == oid);
    let own = own.pop()?;
    if !settings || !own.may_look_up {
        return None;
    }
    let attributes = own.columns();
    if !own.is_restricted {
        return Some((Access::All, attributes));
    }
    let functions = functions.unwrap_or_default();
    let functions = functions.iter().filter_map(|(oid, name, body)| Some((*oid, known(name, body)?)));
    let functions: HashMap<u32, ClaimFunction> = functions.collect();
    let joined = joined.into_iter().map(|table| (table.oid, table.into_joined())).collect();
    let mut compiler = Compiler::new(&attributes, &functions, &joined);
    let expr = compiler.policies(&own.policies.unwrap_or_default())?;
    let Compiler { columns, subselects, .. } = compiler;
    let columns =
        columns.into_iter().filter_map(|(index, kind)| Some((attributes.get(index)?.name.clone(), kind)));
    Some((Access::Condition { expr, columns: columns.collect(), subselects }, attributes))
}

fn known(name: &str, body: &str) -> Option<ClaimFunction> {
    let words = || body.split_ascii_whitespace();
    let found = FUNCTIONS.iter().find(|(_, known, text)| *known == name && words().eq(text.split(' ')));
    found.map(|(function, ..)| *function)
}
