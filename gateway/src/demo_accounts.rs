//! Finds the seed's demo accounts, whose passwords are public; a production start and `basalt doctor` warn about them.

use std::path::Path;

use tokio_postgres::Client;

/// The accounts of the project's `seed.sql` that still exist. In production, anyone can sign in to them.
///
/// # Errors
/// The database fails.
pub(crate) async fn find(client: &Client, project_dir: &Path) -> Result<Vec<String>, tokio_postgres::Error> {
    let seed = std::fs::read_to_string(project_dir.join("seed.sql")).unwrap_or_default();
    let addresses = mail_addresses(&seed);
    let row = client.query_one("select to_regclass('auth.users') is not null", &[]).await?;
    if addresses.is_empty() || !row.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let rows = client
        .query("select email::text from auth.users where email = any($1) order by email", &[&addresses])
        .await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Quoted strings that look like mail addresses.
fn mail_addresses(sql: &str) -> Vec<String> {
    let mut found: Vec<String> = sql
        .split('\'')
        .filter(|text| {
            let named =
                text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
            named && text.len() <= 254 && !text.contains(|c: char| c.is_whitespace() || c == '%' || c == '"')
        })
        .map(str::to_ascii_lowercase)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_mail_addresses_in_seed() {
        let seed = "-- demo: x@y.z\nvalues ('demo@basalt.local', 'it''s'), ('Maya@basalt.local', 'a @ b.c') where email like '%@basalt.local'";
        assert_eq!(mail_addresses(seed), ["demo@basalt.local", "maya@basalt.local"]);
    }
}
