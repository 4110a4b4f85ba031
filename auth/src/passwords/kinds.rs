//! Measures the kinds of stored password hashes at startup: a rejected sign-in costs as much as the slowest (decision 0054).

use std::time::Duration;

use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use tokio::time::{Instant, sleep};

use super::hasher::Hasher;

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(10);

/// Measures one hash of each kind, once the database is reachable.
pub(crate) async fn measure(hasher: Hasher, pool: ServicePool) {
    let samples = loop {
        match samples(&pool).await {
            Ok(samples) => break samples,
            Err(error) => tracing::debug!(%error, "cannot read the kinds of password hashes yet"),
        }
        sleep(PAUSE).await;
    };
    for stored in samples {
        hasher.measure(&stored).await;
    }
}

async fn samples(pool: &ServicePool) -> Result<Vec<String>, SessionError> {
    const SAMPLES: &str = "\
select min(u.encrypted_password) as sample
from auth.users u
where u.encrypted_password like '$%'
group by substring(u.encrypted_password from '^\\$(?:2[aby]\\$[0-9]+|argon2id?\\$[^$]*\\$[^$]*|fbscrypt\\$[^$]*,p=[0-9]+)')
limit 64";
    let tx = pool.autocommit(Instant::now() + LIMIT).await?;
    let rows = tx.query(SAMPLES, &[]).await;
    let rows = tx.finish(rows).await?;
    Ok(rows.iter().filter_map(|row| row.try_get("sample").ok()).collect())
}
