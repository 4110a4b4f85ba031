//! Prints keys for `basalt keys`.

use std::io::{self, Write};

use basalt_core::keys::ApiKeys;
use basalt_storage::S3ProtocolConfig;
use secrecy::ExposeSecret;

/// Writes the server's URL and API keys as an environment file: `basalt keys > .env`. Includes secrets.
///
/// # Errors
/// Writing to `out` fails.
pub fn print_keys(url: &str, keys: &ApiKeys, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# For browsers and apps: createClient(SUPABASE_URL, SUPABASE_ANON_KEY); policies control access."
    )?;
    writeln!(out, "SUPABASE_URL={url}")?;
    writeln!(out, "SUPABASE_ANON_KEY={}", keys.anon)?;
    writeln!(out, "SUPABASE_PUBLISHABLE_KEY={}", keys.publishable)?;
    writeln!(out, "# For servers only: these bypass every policy.")?;
    writeln!(out, "SUPABASE_SERVICE_ROLE_KEY={}", keys.service.expose_secret())?;
    writeln!(out, "SUPABASE_SECRET_KEY={}", keys.secret.expose_secret())
}

/// Writes the S3 key pair, if there is one, under the variable names of the Supabase CLI.
///
/// # Errors
/// Writing to `out` fails.
pub fn print_s3_keys(url: &str, protocol: &S3ProtocolConfig, out: &mut impl Write) -> io::Result<()> {
    let (Some(id), Some(secret)) = (&protocol.access_key_id, &protocol.secret_access_key) else {
        return Ok(());
    };
    writeln!(out, "# For S3 clients on servers only: this pair bypasses every policy.")?;
    writeln!(out, "STORAGE_S3_URL={url}/storage/v1/s3")?;
    writeln!(out, "S3_PROTOCOL_REGION={}", protocol.region)?;
    writeln!(out, "S3_PROTOCOL_ACCESS_KEY_ID={id}")?;
    writeln!(out, "S3_PROTOCOL_ACCESS_KEY_SECRET={}", secret.expose_secret())
}
