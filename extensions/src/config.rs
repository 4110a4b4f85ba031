//! The `[extensions]` section.

use std::time::Duration;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Time, Whole};

settings! {
    /// The `[extensions]` settings.
    #[derive(Clone, Debug)]
    pub struct ExtensionsConfig in "extensions" with r {
        /// The project's id on Supabase: requests of the database to `https://<id>.supabase.co` go to this server.
        project_ref: Option<String> = By("`project_id` of `supabase/config.toml`");
        /// Cron jobs that run at the same time, each on its own connection; further due jobs wait.
        cron_concurrency: usize as Whole<1, 100> = Is("8");
        /// Maximum duration of one run of a cron job; its backend is terminated then.
        cron_max_run_time: Duration as Time<1000> = Is("1h");
        /// How long finished runs are kept in `cron.job_run_details`.
        cron_retention: Duration as Time<1000> = Is("7d");
        /// Requests of `net.http_post` and database webhooks that are sent at the same time.
        net_concurrency: usize as Whole<1, 1000> = Is("64");
        /// Requests of the extension `http` that wait for their responses at the same time, each on the connection of its caller; further
        /// ones raise an error.
        http_concurrency: usize as Whole<1, 100> = ByOr("a quarter of `database.pool_size`", "3");
        /// How long responses are kept in `net._http_response`, and the calls of webhooks in `supabase_functions.hooks`.
        net_retention: Duration as Time<1000> = Is("6h");
        /// Largest response body that is stored or returned; a longer one is an error.
        net_max_response: usize as Bytes<1024> = Is("1MiB");
        /// Whether `net.http_post`, database webhooks and the extension `http` may reach private addresses and this machine, besides this server's own API.
        net_private_addresses: bool = Is("false");
    }
}
