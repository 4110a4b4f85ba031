//! The type [`SystemMigration`], this crate's own migrations, and the scripts that are not migrations because they
//! run repeatedly.

use aws_lc_rs::digest::{SHA256, digest};

/// One step of a service's schema. `sql` runs in a transaction with an empty search path, as the role that
/// [`super::apply`] is connected as; it may `set local role` to create objects owned by another role.
#[derive(Debug, Clone, Copy)]
pub struct SystemMigration {
    /// The service it belongs to: `core`, `auth`, `storage`, …
    pub service: &'static str,
    /// Counts from 1 within its service, without gaps. Zero marks a script that runs again whenever its text changes.
    pub version: u32,
    /// The name, as in the file's name.
    pub name: &'static str,
    /// The file's contents.
    pub sql: &'static str,
}

impl SystemMigration {
    /// Builds an entry of a service's migration list.
    #[must_use]
    pub const fn new(service: &'static str, version: u32, name: &'static str, sql: &'static str) -> Self {
        Self { service, version, name, sql }
    }

    /// SHA-256 of `sql` in lower-case hexadecimal. The text of an applied migration must never change.
    #[must_use]
    pub fn checksum(&self) -> String {
        sha256_hex(self.sql.as_bytes())
    }
}

/// SHA-256 in lower-case hexadecimal, as stored in `basalt.system_migrations` and `basalt.project_files`.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

/// This crate's migrations: schemas, the private schema `basalt`, the DDL triggers. [`super::apply`] runs them first.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("core", 1, "schemas", include_str!("../../migrations/0001_schemas.sql")),
    SystemMigration::new("core", 2, "basalt", include_str!("../../migrations/0002_basalt.sql")),
    DDL_WATCH,
    SystemMigration::new("core", 4, "mail_outbox", include_str!("../../migrations/0004_mail_outbox.sql")),
    SystemMigration::new("core", 5, "keys", include_str!("../../migrations/0005_keys.sql")),
    DDL_WATCH_MORE,
    ROW_SECURITY_GUARD,
    SystemMigration::new("core", 8, "extensions", include_str!("../../migrations/0008_extensions.sql")),
    SystemMigration::new(
        "core",
        9,
        "service_objects_guard",
        include_str!("../../migrations/0009_service_objects_guard.sql"),
    ),
    SystemMigration::new(
        "core",
        10,
        "service_grants",
        include_str!("../../migrations/0010_service_grants.sql"),
    ),
];

/// A superuser runs it again if the triggers are missing: the login that first applied it may not have been a
/// superuser.
pub(super) const DDL_WATCH: SystemMigration =
    SystemMigration::new("core", 3, "ddl_watch", include_str!("../../migrations/0003_ddl_watch.sql"));

/// The functions of the triggers: always runs again after [`DDL_WATCH`].
pub(super) const DDL_WATCH_MORE: SystemMigration = SystemMigration::new(
    "core",
    6,
    "ddl_watch_more",
    include_str!("../../migrations/0006_ddl_watch_more.sql"),
);

/// A superuser runs it again if its event trigger is missing, like [`DDL_WATCH`].
pub(super) const ROW_SECURITY_GUARD: SystemMigration = SystemMigration::new(
    "core",
    7,
    "row_security_guard",
    include_str!("../../migrations/0007_row_security_guard.sql"),
);

pub(super) const CLUSTER: SystemMigration =
    SystemMigration::new("cluster", 0, "roles", include_str!("../../migrations/cluster.sql"));

/// The roles that `cluster.sql` creates. The script's own list is authoritative; a test compares the two.
pub(super) const ROLES: &[&str] = &[
    "anon",
    "authenticated",
    "service_role",
    "authenticator",
    "supabase_admin",
    "supabase_auth_admin",
    "supabase_storage_admin",
    "supabase_realtime_admin",
    "dashboard_user",
    "postgres",
];

/// The default privileges on objects that the project's migrations create in `public` (DESIGN section 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Grants nothing, not even EXECUTE on functions to PUBLIC: `policies/` grants access explicitly.
    #[default]
    Basalt,
    /// Grants everything to the API roles, as older projects expect; row-level security protects the rows.
    Supabase,
    /// The privileges of a Supabase project with `[api] auto_expose_new_tables = false`.
    SupabaseUnexposed,
    /// Leaves the database's privileges as they are: the project belongs to another server.
    Untouched,
}

impl Layout {
    /// The script that sets the default privileges; `None` if they are left alone.
    pub(super) const fn script(self) -> Option<SystemMigration> {
        let (name, sql) = match self {
            Self::Untouched => return None,
            Self::Basalt => ("basalt", include_str!("../../migrations/default_privileges_basalt.sql")),
            Self::Supabase => ("supabase", include_str!("../../migrations/default_privileges_supabase.sql")),
            Self::SupabaseUnexposed => (
                "supabase_unexposed",
                include_str!("../../migrations/default_privileges_supabase_unexposed.sql"),
            ),
        };
        Some(SystemMigration::new("default_privileges", 0, name, sql))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.version).unwrap(), index + 1, "{}", migration.name);
        }
    }

    #[test]
    fn roles_match_the_cluster_script() {
        for role in ROLES {
            assert!(CLUSTER.sql.contains(&format!("('{role}',")), "{role}");
        }
        let listed = CLUSTER.sql.lines().filter(|line| line.contains("inherit', '{"));
        assert_eq!(listed.count(), ROLES.len());
    }
}
