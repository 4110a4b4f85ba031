//! `basalt policies check`: what usually goes wrong with rights, found in the catalog of a database that the project is
//! applied to.

mod expression;

use std::collections::BTreeSet;
use std::fmt;

use basalt_pg::system_migrations::unprotected_tables;
use tokio_postgres::{Client, Transaction};

use crate::error::ProjectError;
use crate::folder::Files;
use crate::{Project, migrate};
use expression::Expression;

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A table of an exposed schema or of a service without row-level security.
    TableWithoutRls,
    /// A policy for PUBLIC: it names no role.
    PolicyWithoutRole,
    /// A function of the request that is called for each row.
    CallPerRow,
    /// A column that a policy looks rows up by, without an index.
    UnindexedColumn,
    /// A security definer function without its own `search_path`.
    FunctionWithoutSearchPath,
    /// A view of an exposed schema that runs with its owner's rights.
    ViewOfItsOwner,
    /// Rights in the database that are not those of the policy files.
    Drift,
    /// A policy that can never allow anything.
    NeverHolds,
}

impl Rule {
    /// The word in brackets behind each finding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TableWithoutRls => "table-without-rls",
            Self::PolicyWithoutRole => "policy-without-role",
            Self::CallPerRow => "call-per-row",
            Self::UnindexedColumn => "unindexed-column",
            Self::FunctionWithoutSearchPath => "function-without-search-path",
            Self::ViewOfItsOwner => "view-without-security-invoker",
            Self::Drift => "drift",
            Self::NeverHolds => "never-holds",
        }
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The table, view or function, with its schema.
    pub place: String,
    /// The kind.
    pub rule: Rule,
    /// What is wrong, why it matters, what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.place, self.message, self.rule.name())
    }
}

/// A table's right, in words.
type Right = (String, String);

impl Project {
    /// Looks for faults in the rights of a database. `exposed` are the schemas that the REST API serves. For the comparison with the policy files,
    /// these run in a transaction that is rolled back: their tables are locked for that moment.
    ///
    /// # Errors
    /// A policy file cannot be read or is refused, another transaction holds a table for over five seconds, or the
    /// connection breaks.
    pub async fn check_policies(
        &self,
        client: &mut Client,
        exposed: &[String],
    ) -> Result<Vec<Finding>, ProjectError> {
        let files = Files::read(self.dir())?;
        let owner: String = client.query_one("select basalt.project_owner()::text", &[]).await?.try_get(0)?;
        let mut findings = Vec::new();
        relations(client, exposed, &mut findings).await?;
        functions(client, &owner, &mut findings).await?;
        let stated: Vec<String> = files.policies.iter().map(migrate::policy_table).collect();
        policies(client, exposed, &stated, &mut findings).await?;
        drift(client, &owner, &files, exposed, &stated, &mut findings).await?;
        findings.sort();
        Ok(findings)
    }
}

async fn relations(
    client: &Client,
    exposed: &[String],
    findings: &mut Vec<Finding>,
) -> Result<(), ProjectError> {
    for row in client.query(include_str!("policy_check/relations.sql"), &[&exposed]).await? {
        let (rule, message) = if row.try_get("is_table")? {
            let message = "has no row-level security, so every granted row is readable: add `alter table … enable row level security` to its policy file";
            (Rule::TableWithoutRls, message)
        } else {
            let message = "runs with its owner's rights, past the policies of its tables: create it `with (security_invoker = true)`";
            (Rule::ViewOfItsOwner, message)
        };
        findings.push(Finding { place: row.try_get("name")?, rule, message: message.to_owned() });
    }
    for place in unprotected_tables(client).await? {
        let message = "belongs to a service and has no row-level security, so every granted row is readable: restart the server or run `basalt migrate`, which enable it";
        findings.push(Finding { place, rule: Rule::TableWithoutRls, message: message.to_owned() });
    }
    Ok(())
}

async fn functions(client: &Client, owner: &str, findings: &mut Vec<Finding>) -> Result<(), ProjectError> {
    for row in client.query(include_str!("policy_check/functions.sql"), &[&owner]).await? {
        findings.push(Finding {
            place: row.try_get("name")?,
            rule: Rule::FunctionWithoutSearchPath,
            message: "is security definer and uses the caller's search_path, which may lead to the caller's tables: add `set search_path = ''`".to_owned(),
        });
    }
    Ok(())
}

async fn policies(
    client: &Client,
    exposed: &[String],
    stated: &[String],
    findings: &mut Vec<Finding>,
) -> Result<(), ProjectError> {
    let columns = client.query(include_str!("policy_check/columns.sql"), &[]).await?;
    for row in client.query(include_str!("policy_check/policies.sql"), &[]).await? {
        let (schema, table): (String, String) = (row.try_get("schema")?, row.try_get("table")?);
        let place = format!("{schema}.{table}");
        if !exposed.contains(&schema) && !stated.contains(&place) {
            continue;
        }
        let (relation, name): (u32, String) = (row.try_get("relation")?, row.try_get("name")?);
        let mut find = |rule, message: String| {
            findings.push(Finding {
                place: place.clone(),
                rule,
                message: format!("policy \"{name}\" {message}"),
            });
        };
        let command: String = row.try_get("command")?;
        if row.try_get("is_for_everyone")? {
            find(Rule::PolicyWithoutRole, "names no role, so it holds for visitors too: add `to authenticated` or the roles that it is for".to_owned());
        }
        let roles: Vec<String> = row.try_get("roles")?;
        if !row.try_get::<_, bool>("has_privilege")? {
            let what = if command == "ALL" { "any command".to_owned() } else { command.clone() };
            find(
                Rule::NeverHolds,
                format!(
                    "never holds: {} may not {what} the table; grant it, or drop the policy",
                    roles.join(", ")
                ),
            );
        }
        let mut missing = BTreeSet::new();
        for text in ["using_text", "check_text"] {
            let Some(text): Option<String> = row.try_get(text)? else { continue };
            if text == "false" {
                find(
                    Rule::NeverHolds,
                    "never holds: its condition is false; drop it, since what no policy allows is refused"
                        .to_owned(),
                );
            }
            let expression = Expression::read(&text);
            for call in expression.calls_per_row() {
                find(
                    Rule::CallPerRow,
                    format!(
                        "calls {call}() for each row: write `(select {call}())`, which PostgreSQL evaluates once per statement"
                    ),
                );
            }
            if command == "INSERT" {
                continue;
            }
            for column in &columns {
                let is_mine = column.try_get::<_, u32>("relation")? == relation
                    && column.try_get::<_, String>("policy")? == name;
                let column_name: String = column.try_get("column")?;
                if is_mine && !column.try_get::<_, bool>("is_indexed")? && expression.looks_up(&column_name) {
                    missing.insert((column.try_get::<_, String>("table")?, column_name));
                }
            }
        }
        for (table, column) in missing {
            find(
                Rule::UnindexedColumn,
                format!("looks rows up by {table}.{column}, which no index begins with: create one"),
            );
        }
    }
    Ok(())
}

/// Applies the policy files and looks what that changed; then takes it back.
async fn drift(
    client: &mut Client,
    owner: &str,
    files: &Files,
    exposed: &[String],
    stated: &[String],
    findings: &mut Vec<Finding>,
) -> Result<(), ProjectError> {
    let transaction = migrate::begin(client, owner).await?;
    transaction.batch_execute("set local lock_timeout = '5s'").await?;
    let is_state = rights(&transaction, exposed, stated).await?;
    for file in &files.policies {
        migrate::run_policy_file(&transaction, file).await?;
    }
    let would_be = rights(&transaction, exposed, stated).await?;
    transaction.rollback().await?;

    let mut find = |(table, right): &Right, message: String| {
        let message = message.replace("{right}", right);
        findings.push(Finding { place: table.clone(), rule: Rule::Drift, message });
    };
    for right in is_state.difference(&would_be) {
        find(
            right,
            "the database has, and the policy file has not: {right}; `basalt policies apply` removes it"
                .to_owned(),
        );
    }
    for right in would_be.difference(&is_state) {
        find(
            right,
            "the policy file has, and the database has not: {right}; `basalt policies apply` adds it"
                .to_owned(),
        );
    }
    // A table without a file keeps what it has: nothing states its rights.
    for right in is_state.iter().filter(|right| would_be.contains(*right) && !stated.contains(&right.0)) {
        find(
            right,
            format!(
                "no file states its rights ({{right}}): write policies/{}.sql",
                migrate::policy_stem(&right.0)
            ),
        );
    }
    Ok(())
}

async fn rights(
    transaction: &Transaction<'_>,
    exposed: &[String],
    stated: &[String],
) -> Result<BTreeSet<Right>, ProjectError> {
    let rows = transaction.query(include_str!("policy_check/rights.sql"), &[&exposed, &stated]).await?;
    rows.iter().map(|row| Ok((row.try_get("table")?, row.try_get("right")?))).collect()
}
