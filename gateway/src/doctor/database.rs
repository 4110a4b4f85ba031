//! Checks of a reachable PostgreSQL: version, rights of the login, poolers in front of it, clock, connections, secrets, demo
//! accounts. Read-only. Uses the simple protocol where a pooler may be in front, because such a pooler breaks prepared
//! statements.

use std::time::Duration;

use basalt_backup::runs::{self, Kind, LastRuns};
use basalt_backup::{BackupError, archive};
use basalt_core::clock::Clock;
use basalt_core::convert::saturating;
use basalt_pg::database::Database;
use basalt_pg::system_migrations::check_release;
use basalt_project::Project;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Report, servers};
use crate::config::{Config, DatabaseUrl, Mode, Only};
use crate::database_setup;
use crate::secrets::Secrets;

const PATIENCE: Duration = Duration::from_secs(15);
/// REST accepts tokens up to this long before and after their validity (rest.md 3.15); the other services do not.
const LEEWAY_MS: i64 = 30_000;
/// Connections outside of the pools: LISTEN, and a replication stream.
const OTHER_CONNECTIONS: usize = 2;

/// Runs every check that one login allows.
pub(super) async fn examine(
    database: &Database,
    config: &Config,
    secrets: Option<&Secrets>,
    clock: &Clock,
    report: &mut Report,
) {
    let work = async {
        let Some(client) = connect("database", database, report).await else { return };
        let checks = async {
            version(&client, report).await?;
            pooler(database, report).await?;
            rights(&client, config, report).await?;
            connections(&client, config, report).await?;
            clock_skew(&client, clock, report).await?;
            if config.only == Some(Only::Rest) {
                rest_alone(&client, config, report).await?;
            } else {
                instance(&client, secrets, report).await?;
                row_security(&client, report).await?;
                release(&client, report).await;
                if !config.is_guest() {
                    project(&client, config, report).await;
                }
                if config.only.is_none() {
                    backups(&client, config, clock, report).await;
                }
                servers::examine(&client, config, report).await?;
                if config.only.is_none_or(|only| only == Only::Realtime) {
                    replication(&client, report).await?;
                }
            }
            if config.mode == Mode::Production {
                leftover_demo_accounts(&client, config, report).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        if let Err(error) = checks.await {
            report.fail("database", format!("connection lost during the checks: {error}"));
        }
    };
    // Boxed because the future is large and would be part of the command's.
    if tokio::time::timeout(PATIENCE, Box::pin(work)).await.is_err() {
        report.fail(
            "database",
            format!(
                "no response within {} seconds: check the network and the server's load",
                PATIENCE.as_secs()
            ),
        );
    }
}

/// Checks that a configured login can connect.
pub(super) async fn examine_login(subject: &'static str, url: &DatabaseUrl, report: &mut Report) {
    match Database::from_url(url.expose_secret()) {
        Ok(database) => {
            if connect(subject, &database, report).await.is_some() {
                report.ok(subject, format!("{} accepts the login", database.describe()));
            }
        }
        Err(error) => report.fail(subject, error.to_string()),
    }
}

async fn connect(subject: &'static str, database: &Database, report: &mut Report) -> Option<Client> {
    let address = database.describe();
    match tokio::time::timeout(PATIENCE, database.connect()).await {
        Ok(Ok(client)) => Some(client),
        Ok(Err(error)) => {
            report.fail(subject, format!("PostgreSQL at {address} {}", database_setup::explain(&error)));
            None
        }
        Err(_elapsed) => {
            report.fail(subject, format!("PostgreSQL at {address} does not respond: check host and port"));
            None
        }
    }
}

/// The columns of the first row, as text.
async fn row(client: &Client, sql: &str) -> Result<Vec<Option<String>>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let first = messages.into_iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        Some(row)
    });
    Ok(first.map_or_else(Vec::new, |row| {
        (0..row.len()).map(|column| row.get(column).map(ToOwned::to_owned)).collect()
    }))
}

async fn number(client: &Client, sql: &str) -> Result<i64, tokio_postgres::Error> {
    let value = row(client, sql).await?.into_iter().next().flatten();
    Ok(value.and_then(|text| text.parse().ok()).unwrap_or_default())
}

async fn version(client: &Client, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    let number = number(client, "select current_setting('server_version_num')").await?;
    let text = format!("PostgreSQL {}.{}", number / 10_000, number % 10_000);
    if (15..=18).contains(&(number / 10_000)) {
        report.ok("database", format!("{text} responds"));
    } else {
        report.fail("database", format!("{text}: Basalt supports 15 to 18"));
    }
    Ok(())
}

/// Behind a transaction pooler, two open connections share a backend, or one changes its backend. Basalt uses prepared
/// statements and LISTEN, which both belong to one backend.
async fn pooler(database: &Database, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    const BACKEND: &str = "select pg_backend_pid()";
    let (Ok(one), Ok(two)) = (database.connect().await, database.connect().await) else { return Ok(()) };
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push((number(&one, BACKEND).await?, number(&two, BACKEND).await?));
    }
    let stable = seen.windows(2).all(|pair| matches!(pair, [before, after] if before == after));
    if stable && seen.iter().all(|(one, two)| one != two) {
        report.ok("pooler", "none, or one in session mode");
    } else {
        report.fail(
            "pooler",
            "a transaction pooler is in front of PostgreSQL: prepared statements, LISTEN and cancel requests need a dedicated \
             connection; use PostgreSQL's own port, or the pooler's session mode",
        );
    }
    Ok(())
}

/// Checks the rights of the `database.url` login, and reports what does not work without them (DESIGN section 12).
async fn rights(client: &Client, config: &Config, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    let subject = "rights";
    let found = row(
        client,
        "select current_user, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, \
         has_database_privilege(current_database(), 'create'), quote_ident(current_database()), quote_ident(current_user) \
         from pg_roles where rolname = current_user",
    )
    .await?;
    let mut columns = found.into_iter().map(Option::unwrap_or_default);
    let login = columns.next().unwrap_or_default();
    let mut has = || columns.next().is_some_and(|column| column == "t");
    let (superuser, create_role, create_db, bypass, create_schema) = (has(), has(), has(), has(), has());
    let (this_database, quoted) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
    if config.only == Some(Only::Rest) {
        if superuser || bypass {
            report.warn(
                subject,
                format!("{login} bypasses row-level security; a request that failed to switch roles would bypass it too: use a login without BYPASSRLS"),
            );
        } else {
            report.ok(subject, format!("{login} is subject to row-level security"));
        }
        return Ok(());
    }
    if superuser {
        report.ok(subject, format!("{login} is a superuser"));
        return Ok(());
    }
    report.warn(
        subject,
        format!(
            "{login} is not a superuser: event triggers cannot be created, so run NOTIFY pgrst, 'reload schema' after your own DDL; \
             Supabase projects whose migrations need a superuser fail"
        ),
    );
    for (granted, attribute, loss) in [
        (create_role, "CREATEROLE", "Basalt cannot create the roles anon, authenticated and service_role"),
        (create_db, "CREATEDB", "tests cannot create databases"),
        (bypass, "BYPASSRLS", "service_role cannot be granted BYPASSRLS"),
    ] {
        if !granted {
            let sentence = format!("{login} lacks {attribute}: {loss}; run: alter role {quoted} {attribute}");
            // CREATEDB matters only to tests; without the others the server does not work.
            if attribute == "CREATEDB" {
                report.warn(subject, sentence)
            } else {
                report.fail(subject, sentence)
            }
        }
    }
    if !create_schema {
        let remedy = format!("run: grant create on database {this_database} to {quoted}");
        report.fail(subject, format!("{login} cannot create schemas in this database: {remedy}"));
    }
    Ok(())
}

/// Checks the requirements of row changes: `wal_level`, the REPLICATION attribute, a free slot, and published tables.
async fn replication(client: &Client, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    let subject = "realtime";
    let found = row(
        client,
        "select current_setting('wal_level'), (select rolsuper or rolreplication from pg_roles where rolname = current_user), \
         current_setting('max_replication_slots')::integer - (select count(*) from pg_replication_slots), \
         current_setting('max_wal_senders')::integer - (select count(*) from pg_stat_activity where backend_type = 'walsender'), \
         (select count(*) from pg_publication_tables where pubname = 'supabase_realtime'), \
         (select count(*) from pg_publication where pubname = 'supabase_realtime'), \
         quote_ident(current_user), \
         (select string_agg(quote_literal(slot_name), ', ') from pg_replication_slots where not active and not temporary), \
         (select count(*) from pg_replication_slots where database = current_database() and slot_name like 'basalt\\_realtime\\_%')",
    )
    .await?;
    let column = |index: usize| found.get(index).cloned().flatten().unwrap_or_default();
    let count = |index: usize| column(index).parse::<i64>().unwrap_or(0);
    let mut is_fine = true;
    let mut warn = |report: &mut Report, sentence: String| {
        is_fine = false;
        report.warn(subject, sentence);
    };
    if column(0) != "logical" {
        let level = column(0);
        warn(
            report,
            format!(
                "wal_level is {level}, so clients receive no row changes: set wal_level = logical and restart PostgreSQL"
            ),
        );
    }
    if column(1) != "t" {
        let login = column(6);
        warn(
            report,
            format!(
                "{login} lacks REPLICATION, so clients receive no row changes; run: alter role {login} replication"
            ),
        );
    }
    // A running server already uses one of each.
    if count(8) == 0 && (count(2) < 1 || count(3) < 1) {
        let sentence = "no replication slot or WAL sender is free, so clients receive no row changes: raise max_replication_slots and max_wal_senders, or drop unused slots";
        warn(report, sentence.to_owned());
    }
    if !column(7).is_empty() {
        let slots = column(7);
        warn(
            report,
            format!(
                "inactive replication slots retain the write-ahead log: {slots}; if they are unused, drop them with pg_drop_replication_slot(…)"
            ),
        );
    }
    if count(5) == 0 {
        warn(
            report,
            "the publication supabase_realtime is missing; the server creates it at startup".to_owned(),
        );
    }
    if is_fine {
        let (tables, slots) = (count(4), count(8));
        report.ok(subject, format!("{tables} tables are published; {slots} servers are streaming changes"));
    }
    Ok(())
}

async fn connections(
    client: &Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    let subject = "connections";
    let most = number(client, "select current_setting('max_connections')").await?;
    let reserved = number(client, "select current_setting('superuser_reserved_connections')").await?;
    let theirs = number(
        client,
        "select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name not like 'basalt%'",
    )
    .await?;
    let database = &config.database;
    let pools = match config.only {
        Some(Only::Rest) => database.pool_size,
        _ => database.connections(),
    };
    let ours = saturating::<i64>(pools + OTHER_CONNECTIONS);
    let free = most - reserved - theirs;
    let text = format!("{ours} for this server, {free} free of {most}");
    if ours > most - reserved {
        report.fail(
            subject,
            format!("{text}: lower database.pool_size, or raise PostgreSQL's max_connections"),
        );
    } else if ours > free {
        report.warn(
            subject,
            format!("{text}: other clients use the rest; under load, requests will wait or fail with 504"),
        );
    } else {
        report.ok(subject, text);
    }
    Ok(())
}

async fn clock_skew(
    client: &Client,
    clock: &Clock,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    let before = clock.now().as_millisecond();
    let theirs = number(client, "select (extract(epoch from clock_timestamp()) * 1000)::bigint").await?;
    let after = clock.now().as_millisecond();
    // The database read its clock between our two readings, so the round trip does not count as skew.
    let skew = if theirs < before { before - theirs } else { (theirs - after).max(0) };
    let text = format!("{skew} ms difference from the database");
    if skew > LEEWAY_MS {
        report.fail("clock", format!("{text}: tokens will be rejected as expired or not yet valid; enable time synchronisation (NTP) on both machines"));
    } else if skew > 2_000 {
        report.warn("clock", format!("{text}: enable time synchronisation (NTP) on both machines"));
    } else {
        report.ok("clock", text);
    }
    Ok(())
}

async fn instance(
    client: &Client,
    secrets: Option<&Secrets>,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    let subject = "instance";
    if row(client, "select to_regclass('basalt.instance')").await?.into_iter().next().flatten().is_none() {
        report.ok(subject, "a new database; the first start creates its schemas");
        return Ok(());
    }
    let stored = row(client, "select fingerprint from basalt.instance").await?.into_iter().next().flatten();
    match (stored, secrets) {
        (None, _) => report.ok(subject, "no server has claimed this database yet"),
        (Some(_), None) => report.fail(
            subject,
            "this database was set up by a server with other secrets, and there are none here: copy that server's secrets.json into the state \
             folder, or set server.master_key, jwt.secret and jwt.keys to the same values",
        ),
        (Some(stored), Some(secrets)) => {
            let differences = secrets.differences(&stored);
            if differences.is_empty() {
                report.ok(subject, "the secrets match the database");
            } else {
                report.fail(subject, crate::secrets::SecretsError::OtherInstance(differences).to_string());
            }
        }
    }
    Ok(())
}

/// Checks the services' tables; a database without their schemas passes.
async fn row_security(client: &Client, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    let subject = "row security";
    let unprotected = basalt_pg::system_migrations::unprotected_tables(client).await?;
    if unprotected.is_empty() {
        report.ok(subject, "enabled on every service table");
    } else {
        let tables = unprotected.join(", ");
        report.fail(
            subject,
            format!("disabled on {tables}, so every granted row is readable: restart the server or run `basalt migrate` to enable it"),
        );
    }
    let displaced = basalt_pg::system_migrations::displaced_tables(client).await?;
    if !displaced.is_empty() {
        let tables: Vec<String> = displaced.into_iter().map(|(table, _)| table).collect();
        let tables = tables.join(", ");
        report.fail(
            "table owners",
            format!("{tables} belong to another role than their service, which can switch off their policies: restart the server or run `basalt migrate` to restore the owner"),
        );
    }
    let missing = basalt_pg::system_migrations::missing_grants(client).await?;
    if !missing.is_empty() {
        let grants: Vec<String> = missing
            .iter()
            .take(5)
            .map(|missing| format!("{} on {}", missing.grant, missing.object))
            .collect();
        report.fail(
            "grants",
            format!(
                "{} grants of the services are missing, such as {}: restart the server or run `basalt migrate` to restore them",
                missing.len(),
                grants.join(", ")
            ),
        );
    }
    Ok(())
}

/// Whether a newer release has used the database.
async fn release(client: &Client, report: &mut Report) {
    const SUBJECT: &str = "release";
    match check_release(client, &database_setup::service_migrations()).await {
        Ok(()) => report.ok(SUBJECT, "no newer release has used this database"),
        Err(error) => report.fail(SUBJECT, error.to_string()),
    }
}

/// Age and result of the last backup and verification, and the log that waits for the archive.
async fn backups(client: &Client, config: &Config, clock: &Clock, report: &mut Report) {
    const SUBJECT: &str = "backup";
    const OLD: SignedDuration = SignedDuration::from_hours(48);
    let settings = &config.backup;
    let checked = async {
        let backup = runs::last(client, Kind::Backup).await?;
        let verified = runs::last(client, Kind::Verify).await?;
        Ok::<_, BackupError>((backup, verified, archive::waiting(client).await?))
    };
    let (backup, verified, waiting) = match checked.await {
        Ok(checked) => checked,
        Err(error) => return report.fail(SUBJECT, error.to_string()),
    };
    if settings.target.is_none() && backup.is_none() {
        if config.mode == Mode::Development {
            return;
        }
        return report.warn(SUBJECT, "no backup was ever made: set backup.target and backup.schedule, or run `basalt backup --to FOLDER`");
    }
    let age = |at: Timestamp| clock.now().duration_since(at);
    match backup.as_ref().map(|last| (last.succeeded_at, &last.error)) {
        Some((_, Some(error))) => report.fail(SUBJECT, format!("the last backup failed: {error}")),
        Some((Some(at), None)) if settings.schedule.is_some() && age(at) > OLD => {
            report.warn(
                SUBJECT,
                format!("the last backup is {} hours old; check backup.schedule", age(at).as_hours()),
            );
        }
        Some((Some(at), None)) => {
            report.ok(SUBJECT, format!("the last backup was made {} UTC", at.strftime("%Y-%m-%d %H:%M")))
        }
        Some((None, None)) | None => report.warn(SUBJECT, "no backup was made yet: run `basalt backup`"),
    }
    if let Some(LastRuns { error: Some(error), .. }) = verified {
        report.fail(SUBJECT, format!("the last verification failed: {error}"));
    }
    if let Some((bytes, status)) = waiting
        && (bytes > settings.max_kept_log / 2 || status == "lost")
    {
        report.fail(
            SUBJECT,
            format!(
                "{} MiB of the log wait to be archived, of at most {} MiB (backup.max_kept_log): make the target reachable, or point-in-time \
                 recovery gets a gap",
                bytes >> 20,
                settings.max_kept_log >> 20
            ),
        );
    }
}

/// Whether the project's files can be applied.
async fn project(client: &Client, config: &Config, report: &mut Report) {
    const SUBJECT: &str = "project";
    let checked = async {
        let project = Project::open(&config.project.dir)?;
        match &config.project.supabase {
            Some(settings) => project.check_supabase(client, settings).await,
            None => project.check(client).await,
        }
    };
    match checked.await {
        Ok((applied, 0)) => report.ok(SUBJECT, format!("{applied} migrations are applied")),
        Ok((applied, new)) => {
            report.ok(SUBJECT, format!("{applied} migrations are applied; the next start applies {new}"))
        }
        Err(error) => report.fail(SUBJECT, error.to_string()),
    }
}

/// Checks that the role and schemas of `--only rest` exist.
async fn rest_alone(
    client: &Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    for schema in &config.rest.schemas {
        let sql = format!("select count(*) from pg_namespace where nspname = {}", quoted(schema));
        if number(client, &sql).await? == 0 {
            report
                .fail("rest", format!("schema {schema} does not exist: create it, or correct rest.schemas"));
        }
    }
    if let Some(role) = &config.rest.anon_role {
        let name = quoted(role);
        let sql = format!(
            "select count(*) from pg_roles where rolname = {name} and pg_has_role(current_user, oid, 'member')"
        );
        if number(client, &sql).await? == 0 {
            let problem = format!(
                "requests without a token run as {role}, which does not exist or is not granted to this login"
            );
            report.fail(
                "rest",
                format!(
                    "{problem}: create role {role} nologin; grant {role} to the login; or set rest.anon_role"
                ),
            );
        }
    }
    Ok(())
}

async fn leftover_demo_accounts(
    client: &Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    let found = crate::demo_accounts::find(client, &config.project.dir).await?;
    if !found.is_empty() {
        let names = found.join(", ");
        report.fail(
            "demo accounts",
            format!(
                "{names} can still sign in with the public password from seed.sql: delete these accounts"
            ),
        );
    }
    Ok(())
}
