//! The steps themselves: what a [`SystemMigration`] is, those that core brings, and the scripts that are no migrations
//! because they are run again.

use aws_lc_rs::digest::{SHA256, digest};

/// One step of a service's own schema. `sql` runs in a transaction, with an empty search path, as the role that
/// [`super::apply`] is connected as; it may `set local role` to make its objects another's.
#[derive(Debug, Clone, Copy)]
pub struct SystemMigration {
    /// The crate it belongs to: `core`, `auth`, `storage`, …
    pub service: &'static str,
    /// Counts from 1 within its service, without holes. Zero is for scripts that are run again whenever their text
    /// changes.
    pub version: u32,
    /// As in the file's name.
    pub name: &'static str,
    /// The file.
    pub sql: &'static str,
}

impl SystemMigration {
    /// For the lists in the service crates.
    #[must_use]
    pub const fn new(service: &'static str, version: u32, name: &'static str, sql: &'static str) -> Self {
        Self { service, version, name, sql }
    }

    /// Lower-case hexadecimal SHA-256 of the text: an applied migration never changes again.
    #[must_use]
    pub fn checksum(&self) -> String {
        sha256_hex(self.sql.as_bytes())
    }
}

/// Lower-case hexadecimal SHA-256, as kept in `basalt.system_migrations` and `basalt.project_files`.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Core's own: schemas, the private schema `basalt`, the watch for DDL. [`super::apply`] puts them before all others.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("core", 1, "schemas", include_str!("../../migrations/0001_schemas.sql")),
    SystemMigration::new("core", 2, "basalt", include_str!("../../migrations/0002_basalt.sql")),
    DDL_WATCH,
    SystemMigration::new("core", 4, "mail_outbox", include_str!("../../migrations/0004_mail_outbox.sql")),
    SystemMigration::new("core", 5, "keys", include_str!("../../migrations/0005_keys.sql")),
    DDL_WATCH_MORE,
    ROW_SECURITY_GUARD,
];

/// Run again by a superuser when the triggers are missing: the login that applied it first may have been none.
pub(super) const DDL_WATCH: SystemMigration =
    SystemMigration::new("core", 3, "ddl_watch", include_str!("../../migrations/0003_ddl_watch.sql"));

/// What the triggers run: always run again after [`DDL_WATCH`].
pub(super) const DDL_WATCH_MORE: SystemMigration = SystemMigration::new(
    "core",
    6,
    "ddl_watch_more",
    include_str!("../../migrations/0006_ddl_watch_more.sql"),
);

/// Run again by a superuser when its event trigger is missing, as [`DDL_WATCH`].
pub(super) const ROW_SECURITY_GUARD: SystemMigration = SystemMigration::new(
    "core",
    7,
    "row_security_guard",
    include_str!("../../migrations/0007_row_security_guard.sql"),
);

pub(super) const CLUSTER: SystemMigration =
    SystemMigration::new("cluster", 0, "roles", include_str!("../../migrations/cluster.sql"));

/// The role names that `cluster.sql` makes. Its loop is the truth; a test compares.
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

/// What objects that the project's migrations make in `public` grant by themselves (DESIGN section 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Nothing, and functions are not for PUBLIC: `policies/` grants what it means to.
    #[default]
    Basalt,
    /// Everything to the API roles, as old projects rely on; row-level security is the fence.
    Supabase,
    /// A Supabase project with `[api] auto_expose_new_tables = false`.
    SupabaseUnexposed,
    /// Whatever the database has: its project belongs to another server.
    Untouched,
}

impl Layout {
    /// The script that sets the default privileges; none where they are left alone.
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
    fn versions_count_from_one_without_holes() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.version).unwrap(), index + 1, "{}", migration.name);
        }
    }

    #[test]
    fn every_role_of_the_script_is_checked_for() {
        for role in ROLES {
            assert!(CLUSTER.sql.contains(&format!("('{role}',")), "{role}");
        }
        let listed = CLUSTER.sql.lines().filter(|line| line.contains("inherit', '{"));
        assert_eq!(listed.count(), ROLES.len());
    }
}
