//! Access to the database from other machines: with TLS and a SCRAM password only, and never as one of the server's own
//! logins. Without it, PostgreSQL listens on the loopback address.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::account::Account;
use crate::data_dirs::DataDirs;
use crate::error::EmbeddedError;
use crate::extensions::write_with_mode;

/// The address to listen on, with the files of its certificate.
#[derive(Clone, Debug)]
pub struct Remote {
    /// An address of this machine, or an unspecified one for all.
    pub address: IpAddr,
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

const CERTIFICATE_FILE: &str = "server.crt";
const KEY_FILE: &str = "server.key";
const HBA_FILE: &str = "pg_hba.conf";

/// The first matching line decides, and no matching line means a refusal. The server's own logins are for the server.
const HBA: &str = "\
# Written by Basalt at each start.
local    all          all                                                       scram-sha-256
local    replication  all                                                       scram-sha-256
host     all          all                                         127.0.0.1/32  scram-sha-256
host     replication  all                                         127.0.0.1/32  scram-sha-256
hostssl  all          supabase_admin,supabase_auth_admin,authenticator  all     reject
hostssl  all          all                                         all           scram-sha-256
";

impl Remote {
    /// Writes the files that PostgreSQL reads: copies that belong to its user, in a folder that only it can enter.
    pub(super) fn write_files(&self, dirs: &DataDirs, account: &Account) -> Result<(), EmbeddedError> {
        for (source, name) in [(&self.certificate, CERTIFICATE_FILE), (&self.key, KEY_FILE)] {
            let content = fs::read(source).map_err(|error| EmbeddedError::io("read", source, error))?;
            let path = dirs.run_dir.join(name);
            write_with_mode(&path, &content, 0o600)?;
            account.give(&path)?;
        }
        let path = dirs.run_dir.join(HBA_FILE);
        write_with_mode(&path, HBA.as_bytes(), 0o600)?;
        account.give(&path)
    }

    /// The settings of PostgreSQL's command line.
    pub(super) fn settings(&self, dirs: &DataDirs) -> Vec<(String, String)> {
        // All IPv4 addresses include the loopback one, which could not be bound twice.
        let addresses = match self.address {
            IpAddr::V4(address) if address.is_unspecified() || address.is_loopback() => address.to_string(),
            IpAddr::V4(_) | IpAddr::V6(_) => format!("127.0.0.1,{}", self.address),
        };
        let path = |name: &str| dirs.run_dir.join(name).display().to_string();
        [
            ("listen_addresses", addresses),
            ("ssl", "on".to_owned()),
            ("ssl_cert_file", path(CERTIFICATE_FILE)),
            ("ssl_key_file", path(KEY_FILE)),
            ("hba_file", path(HBA_FILE)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
