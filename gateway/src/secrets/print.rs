//! `basalt keys`.

use std::io::{self, Write};

use basalt_core::keys::ApiKeys;
use secrecy::ExposeSecret;

use crate::config::Config;

/// Writes URL and API keys as an environment file: `basalt keys > .env`. Secrets are shown.
///
/// # Errors
/// Writing to `out` fails.
pub fn print_keys(config: &Config, keys: &ApiKeys, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# For browsers and apps: createClient(SUPABASE_URL, SUPABASE_ANON_KEY); policies decide what they may do."
    )?;
    writeln!(out, "SUPABASE_URL={}", config.server.public_url)?;
    writeln!(out, "SUPABASE_ANON_KEY={}", keys.anon)?;
    writeln!(out, "SUPABASE_PUBLISHABLE_KEY={}", keys.publishable)?;
    writeln!(out, "# For servers only: these bypass every policy.")?;
    writeln!(out, "SUPABASE_SERVICE_ROLE_KEY={}", keys.service.expose_secret())?;
    writeln!(out, "SUPABASE_SECRET_KEY={}", keys.secret.expose_secret())
}
