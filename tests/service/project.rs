//! System migrations, project files and the app's policies on a real PostgreSQL; `BASALT_TEST_POSTGRES_BIN` selects another
//! version.

mod app_schema;
mod deleted_items;
mod external_database;
mod generated_types;
mod policies;
mod policy_check;
mod policy_mutations;
mod project_files;
mod schemas;
mod supabase_layout;
mod support;
mod system_migrations;
