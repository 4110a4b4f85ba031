//! The migrations of schema `auth`, which users' SQL depends on. `basalt_pg::system_migrations` runs them.

use basalt_pg::system_migrations::SystemMigration;

/// All migrations, oldest first.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("auth", 1, "schema", include_str!("../migrations/0001_schema.sql")),
    SystemMigration::new("auth", 2, "accounts", include_str!("../migrations/0002_accounts.sql")),
    SystemMigration::new(
        "auth",
        3,
        "factors_and_providers",
        include_str!("../migrations/0003_factors_and_providers.sql"),
    ),
    SystemMigration::new("auth", 4, "rights", include_str!("../migrations/0004_rights.sql")),
    SystemMigration::new("auth", 5, "lists", include_str!("../migrations/0005_lists.sql")),
    SystemMigration::new(
        "auth",
        6,
        "one_time_attempts",
        include_str!("../migrations/0006_one_time_attempts.sql"),
    ),
    SystemMigration::new("auth", 7, "totp_steps", include_str!("../migrations/0007_totp_steps.sql")),
    SystemMigration::new("auth", 8, "recovery_codes", include_str!("../migrations/0008_recovery_codes.sql")),
    SystemMigration::new("auth", 9, "hook_mails", include_str!("../migrations/0009_hook_mails.sql")),
];
