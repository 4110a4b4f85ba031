//! `basalt policies check`: finds common mistakes in grants and policies, from the catalog of a database with the project
//! applied.

mod expression;

use std::collections::BTreeSet;
use std::fmt;

use basalt_pg::system_migrations::{displaced_tables, missing_grants, unprotected_tables};
use tokio_postgres::{Client, Transaction};

use crate::error::ProjectError;
use crate::folder::Files;
use crate::{Project, migrate};
use expression::Expression;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A table in an exposed schema or of a service has no row-level security.
    TableWithoutRls,
    /// A policy names no role, so it applies to PUBLIC.
    PolicyWithoutRole,
    /// A policy calls a function per row although its result is constant within a request.
    CallPerRow,
    /// A policy searches rows by a column without an index.
    UnindexedColumn,
    /// A SECURITY DEFINER function has no `search_path` of its own.
    FunctionWithoutSearchPath,
    /// A view in an exposed schema runs with its owner's rights.
    OwnerRightsView,
    /// Grants or policies in the database differ from the policy files.
    Drift,
    /// A policy that never allows anything.
    NeverAllows,
    /// An object of a service has another owner, or lacks a grant of the service.
    ServiceObject,
}

impl Rule {
    /// The rule's name, printed in brackets after each finding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TableWithoutRls => "table-without-rls",
            Self::PolicyWithoutRole => "policy-without-role",
            Self::CallPerRow => "call-per-row",
            Self::UnindexedColumn => "unindexed-column",
            Self::FunctionWithoutSearchPath => "function-without-search-path",
            Self::OwnerRightsView => "view-without-security-invoker",
            Self::Drift => "drift",
            Self::NeverAllows => "never-holds",
            Self::ServiceObject => "service-object",
        }
    }
}

/// A problem found by the check.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The table, view or function, with its schema.
    pub object: String,
    /// The rule that was violated.
    pub rule: Rule,
    /// The problem, its effect and the remedy.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.object, self.message, self.rule.name())
    }
}

/// A table with one of its grants or policies, as text.
type Right = (String, String);

impl Project {
    /// Checks the grants and policies of a database. `exposed` are the schemas that the REST API serves. To compare the database with the policy files,
    /// these are applied in a transaction that is rolled back, which briefly locks their tables.
    ///
    /// # Errors
    /// A policy file cannot be read or applied, another transaction locks a table for more than five seconds, or the
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
        // A project without policy files keeps its policies in migrations.
        if !files.policies.is_empty() {
            drift(client, &owner, &files, exposed, &stated, &mut findings).await?;
        }
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
            let message = "runs with its owner's rights and bypasses the policies of its tables: create it `with (security_invoker = true)`";
            (Rule::OwnerRightsView, message)
        };
        findings.push(Finding { object: row.try_get("name")?, rule, message: message.to_owned() });
    }
    for object in unprotected_tables(client).await? {
        let message = "belongs to a service and has no row-level security, so every granted row is readable: restart the server or run `basalt migrate` to enable it";
        findings.push(Finding { object, rule: Rule::TableWithoutRls, message: message.to_owned() });
    }
    for (object, _) in displaced_tables(client).await? {
        let message = "belongs to another role than its service, which can switch off its policies: restart the server or run `basalt migrate` to restore the owner";
        findings.push(Finding { object, rule: Rule::ServiceObject, message: message.to_owned() });
    }
    for missing in missing_grants(client).await? {
        let message = format!(
            "lacks a grant of its service ({}): restart the server or run `basalt migrate` to restore it",
            missing.grant
        );
        findings.push(Finding { object: missing.object, rule: Rule::ServiceObject, message });
    }
    Ok(())
}

async fn functions(client: &Client, owner: &str, findings: &mut Vec<Finding>) -> Result<(), ProjectError> {
    for row in client.query(include_str!("policy_check/functions.sql"), &[&owner]).await? {
        findings.push(Finding {
            object: row.try_get("name")?,
            rule: Rule::FunctionWithoutSearchPath,
            message: "is SECURITY DEFINER and uses the caller's search_path, so names may resolve to the caller's tables: add `set search_path = ''`".to_owned(),
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
        let object = format!("{schema}.{table}");
        if !exposed.contains(&schema) && !stated.contains(&object) {
            continue;
        }
        let (relation, name): (u32, String) = (row.try_get("relation")?, row.try_get("name")?);
        let mut find = |rule, message: String| {
            findings.push(Finding {
                object: object.clone(),
                rule,
                message: format!("policy \"{name}\" {message}"),
            });
        };
        let command: String = row.try_get("command")?;
        if row.try_get("is_for_everyone")? {
            find(Rule::PolicyWithoutRole, "names no role, so it also applies to anonymous requests: add `to authenticated` or the intended roles".to_owned());
        }
        let roles: Vec<String> = row.try_get("roles")?;
        if !row.try_get::<_, bool>("has_privilege")? {
            let what = if command == "ALL" { "any command".to_owned() } else { command.clone() };
            find(
                Rule::NeverAllows,
                format!(
                    "never allows anything: {} lacks the privilege for {what} on the table; grant it, or drop the policy",
                    roles.join(", ")
                ),
            );
        }
        let mut missing = BTreeSet::new();
        for text in ["using_text", "check_text"] {
            let Some(text): Option<String> = row.try_get(text)? else { continue };
            if text == "false" {
                find(
                    Rule::NeverAllows,
                    "never allows anything: its condition is false; drop it, because access without a policy is denied anyway"
                        .to_owned(),
                );
            }
            let expression = Expression::parse(&text);
            for call in expression.calls_per_row() {
                find(
                    Rule::CallPerRow,
                    format!(
                        "calls {call}() for each row: use `(select {call}())`, which PostgreSQL evaluates once per statement"
                    ),
                );
            }
            if command == "INSERT" {
                continue;
            }
            for column in &columns {
                let is_of_policy = column.try_get::<_, u32>("relation")? == relation
                    && column.try_get::<_, String>("policy")? == name;
                let column_name: String = column.try_get("column")?;
                if is_of_policy
                    && !column.try_get::<_, bool>("is_indexed")?
                    && expression.searches_by(&column_name)
                {
                    missing.insert((column.try_get::<_, String>("table")?, column_name));
                }
            }
        }
        for (table, column) in missing {
            find(
                Rule::UnindexedColumn,
                format!(
                    "searches rows by {table}.{column}, but no index starts with this column: create one"
                ),
            );
        }
    }
    Ok(())
}

/// Applies the policy files, compares grants and policies before and after, and rolls back.
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
    let current = rights(&transaction, exposed, stated).await?;
    for file in &files.policies {
        migrate::run_policy_file(&transaction, file).await?;
    }
    let expected = rights(&transaction, exposed, stated).await?;
    transaction.rollback().await?;

    let mut find = |(table, right): &Right, message: String| {
        let message = message.replace("{right}", right);
        findings.push(Finding { object: table.clone(), rule: Rule::Drift, message });
    };
    for right in current.difference(&expected) {
        find(
            right,
            "only in the database, not in the policy file: {right}; `basalt policies apply` removes it"
                .to_owned(),
        );
    }
    for right in expected.difference(&current) {
        find(
            right,
            "only in the policy file, not in the database: {right}; `basalt policies apply` adds it"
                .to_owned(),
        );
    }
    // Tables without a policy file keep their grants and policies.
    for right in current.iter().filter(|right| expected.contains(*right) && !stated.contains(&right.0)) {
        find(
            right,
            format!("no policy file defines {{right}}: add policies/{}.sql", migrate::policy_stem(&right.0)),
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
