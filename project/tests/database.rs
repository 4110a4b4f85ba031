//! System migrations and project files on a real PostgreSQL. `BASALT_TEST_POSTGRES_BIN` chooses
//! another version.

#[path = "database/project_files.rs"]
mod project_files;
#[path = "database/schemas.rs"]
mod schemas;
#[path = "database/support.rs"]
mod support;
#[path = "database/system.rs"]
mod system;
