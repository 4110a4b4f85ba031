//! Certificates from an ACME server (RFC 8555), such as Let's Encrypt. The server proves that it has the domains on the TLS port
//! itself (TLS-ALPN-01), which the ACME server must reach as port 443.
//!
//! The account and the certificate are kept in a folder, so that a restart needs no new ones: ACME servers limit how many they issue.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use basalt_core::clock::Clock;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use super::{Certificates, Identity, TlsError};

/// Maximum time for the ACME server to check the domains, and to issue the certificate.
const ORDER_TIMEOUT: Duration = Duration::from_secs(90);
/// Time until the first retry; it doubles up to the maximum, within Let's Encrypt's five failures per hour.
const FIRST_RETRY: Duration = Duration::from_secs(60);
const LAST_RETRY: Duration = Duration::from_secs(3600);
/// Maximum time between checks of the clock, which may jump.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// How certificates are obtained.
#[derive(Clone, Debug)]
pub struct Acme {
    /// The domains of the certificate; not empty.
    pub domains: Vec<String>,
    /// Where the ACME server sends warnings.
    pub email: Option<String>,
    /// The URL of its directory.
    pub directory: String,
    /// PEM file with the CA of the directory, if the system does not trust it.
    pub ca: Option<PathBuf>,
    /// Keeps the account and the certificate.
    pub folder: PathBuf,
}

/// Why no certificate was obtained.
#[derive(Debug, thiserror::Error)]
enum AcmeError {
    #[error(transparent)]
    Protocol(#[from] instant_acme::Error),
    #[error(transparent)]
    Certificate(#[from] TlsError),
    #[error("cannot make a certificate for the challenge: {0}")]
    Challenge(#[from] rcgen::Error),
    #[error("cannot keep the certificate in {}: {source}", path.display())]
    Store { path: PathBuf, source: io::Error },
    #[error("the ACME server offers no TLS-ALPN-01 challenge for {0}")]
    NoChallenge(String),
    #[error("the ACME server could not verify {0}; it must reach this server on port 443 of each domain")]
    Refused(String),
}

impl Acme {
    /// Keeps a valid certificate in use: the stored one, and a new one when two thirds of its time have passed.
    #[expect(clippy::infinite_loop, reason = "the caller cancels it at shutdown")]
    pub async fn keep(self, certificates: Arc<Certificates>, clock: Clock) {
        let mut renew_at = match self.load() {
            Ok(Some(identity)) => use_identity(&certificates, identity),
            Ok(None) => i64::MIN,
            Err(error) => {
                tracing::warn!("cannot use the stored certificate: {error}");
                i64::MIN
            }
        };
        let mut retry = FIRST_RETRY;
        loop {
            let left = renew_at.saturating_sub(clock.unix_seconds());
            if let Ok(left @ 1..) = u64::try_from(left) {
                tokio::time::sleep(Duration::from_secs(left).min(CHECK_INTERVAL)).await;
                continue;
            }
            match self.renew(&certificates).await {
                Ok(identity) => {
                    retry = FIRST_RETRY;
                    renew_at = use_identity(&certificates, identity);
                    tracing::info!("obtained a certificate for {}", self.domains.join(", "));
                }
                Err(error) => {
                    tracing::error!(
                        "cannot obtain a certificate for {} from {}: {error}; trying again in {} minutes",
                        self.domains.join(", "),
                        self.directory,
                        retry.as_secs() / 60
                    );
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    }

    /// Obtains a certificate and stores it.
    async fn renew(&self, certificates: &Certificates) -> Result<Identity, AcmeError> {
        let account = self.account().await?;
        let names: Vec<Identifier> = self.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        let finished = self.finish(&mut order, certificates).await;
        certificates.challenges.lock().clear();
        let (key, chain) = finished?;
        let identity =
            Identity::from_pem(chain.as_bytes(), "the new certificate", key.as_bytes(), "its key")?;
        self.write(&self.certificate_file(), format!("{key}{chain}").as_bytes())?;
        Ok(identity)
    }

    /// Answers the challenges of an order. Returns key and chain.
    async fn finish(
        &self,
        order: &mut Order,
        certificates: &Certificates,
    ) -> Result<(String, String), AcmeError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let name = authorization.identifier().to_string();
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Invalid
                | AuthorizationStatus::Revoked
                | AuthorizationStatus::Expired
                | AuthorizationStatus::Deactivated => return Err(AcmeError::Refused(name)),
            }
            let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
                return Err(AcmeError::NoChallenge(name));
            };
            let answer = challenge_certificate(&name, challenge.key_authorization().digest().as_ref())?;
            certificates.challenges.lock().insert(name, Arc::new(answer));
            challenge.set_ready().await?;
        }
        let retries = RetryPolicy::new().timeout(ORDER_TIMEOUT);
        if order.poll_ready(&retries).await? != OrderStatus::Ready {
            return Err(AcmeError::Refused(self.domains.join(", ")));
        }
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&retries).await?;
        Ok((key, chain))
    }

    /// The stored account, or a new one.
    async fn account(&self) -> Result<Account, AcmeError> {
        let builder = match &self.ca {
            Some(ca) => Account::builder_with_root(ca)?,
            None => Account::builder()?,
        };
        let path = self.account_file();
        let stored =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice::<AccountCredentials>(&text).ok());
        if let Some(credentials) = stored {
            return Ok(builder.from_credentials(credentials).await?);
        }
        let contact: Vec<String> = self.email.iter().map(|address| format!("mailto:{address}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = builder.create(&new, self.directory.clone(), None).await?;
        let text = serde_json::to_vec(&credentials)
            .map_err(|error| AcmeError::Store { path: path.clone(), source: error.into() })?;
        self.write(&path, &text)?;
        Ok(account)
    }

    fn load(&self) -> Result<Option<Identity>, AcmeError> {
        let path = self.certificate_file();
        match fs::read(&path) {
            Ok(pem) => {
                let name = path.display().to_string();
                Ok(Some(Identity::from_pem(&pem, &name, &pem, &name)?))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(AcmeError::Store { path, source }),
        }
    }

    /// One per directory: an account of Let's Encrypt's test server is unknown to the real one.
    fn account_file(&self) -> PathBuf {
        self.folder.join(format!("account-{}.json", plain(&self.directory)))
    }

    /// One per directory and domains.
    fn certificate_file(&self) -> PathBuf {
        let domains = self.domains.join("+");
        self.folder.join(format!("{}-{}.pem", plain(&self.directory), plain(&domains)))
    }

    /// Replaces a private file in one step.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), AcmeError> {
        let fresh = path.with_extension("new");
        let write = || {
            fs::create_dir_all(&self.folder)?;
            let mut options = OpenOptions::new();
            let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&fresh, path)
        };
        write().map_err(|source| AcmeError::Store { path: path.to_path_buf(), source })
    }
}

/// Uses the certificate; returns when to renew it.
fn use_identity(certificates: &Certificates, identity: Identity) -> i64 {
    let (start, end) = (identity.not_before, identity.not_after);
    certificates.replace(identity);
    start.saturating_add(end.saturating_sub(start) / 3 * 2)
}

/// The certificate that answers a challenge; `digest` is that of the key authorization (RFC 8737 §3).
fn challenge_certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, AcmeError> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    // `from_der` would compare key and certificate, but its parser rejects the challenge's extension, which must be critical.
    let key = default_provider().key_provider.load_private_key(key).map_err(TlsError::from)?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

/// A name for files.
fn plain(text: &str) -> String {
    const MAX_BYTES: usize = 120;
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .take(MAX_BYTES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme(folder: &Path) -> Acme {
        Acme {
            domains: vec!["a.test".to_owned(), "b.test".to_owned()],
            email: None,
            // Nothing listens there.
            directory: "https://127.0.0.1:9/dir".to_owned(),
            ca: None,
            folder: folder.to_path_buf(),
        }
    }

    /// A certificate from `start` to `end`, in days since the Unix epoch.
    fn pem(start: i64, end: i64) -> String {
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        let time = |days| time::OffsetDateTime::from_unix_timestamp(days * 86_400).unwrap();
        (params.not_before, params.not_after) = (time(start), time(end));
        let key = KeyPair::generate().unwrap();
        format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    #[test]
    fn certificate_is_renewed_after_two_thirds() {
        let dir = tempfile::tempdir().unwrap();
        let acme = acme(dir.path());
        assert!(acme.load().unwrap().is_none());
        acme.write(&acme.certificate_file(), pem(20_000, 20_090).as_bytes()).unwrap();
        let identity = acme.load().unwrap().unwrap();
        assert_eq!(use_identity(&Certificates::default(), identity), 20_060 * 86_400);
    }

    #[tokio::test(start_paused = true)]
    async fn valid_certificate_is_used_without_asking_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let acme = acme(dir.path());
        acme.write(&acme.certificate_file(), pem(20_000, 20_090).as_bytes()).unwrap();
        let certificates = Arc::new(Certificates::default());
        let keeping =
            tokio::spawn(acme.clone().keep(Arc::clone(&certificates), Clock::fixed(20_030 * 86_400)));
        tokio::time::sleep(CHECK_INTERVAL * 3).await;
        assert!(certificates.current.load().is_some());
        assert!(!acme.account_file().exists(), "an account was made");
        keeping.abort();
    }

    #[test]
    fn challenge_certificate_carries_the_digest() {
        let made = challenge_certificate("a.test", &[7; 32]).unwrap();
        let leaf: &[u8] = made.cert.first().unwrap();
        assert!(leaf.windows(32).any(|window| window == [7; 32]));
    }

    #[test]
    fn other_domains_need_another_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let acme = acme(dir.path());
        acme.write(&acme.certificate_file(), pem(20_000, 20_090).as_bytes()).unwrap();
        let other = Acme { domains: vec!["a.test".to_owned()], ..acme };
        assert!(other.load().unwrap().is_none());
    }
}
