//! TLS on the public port, with a certificate from files, which is loaded again when they change, or from an ACME server ([`acme`]).

pub mod acme;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode as _;

/// The protocol in which an ACME server asks for the certificate that answers its challenge (RFC 8737).
const ACME_PROTOCOL: &[u8] = b"acme-tls/1";
/// Maximum time of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between checks of the files.
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check that the server's user may read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content is not PEM, or has no certificate or key.
    #[error("{what} is not usable: {reason}")]
    Content {
        /// The file or its kind.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The certificate belongs to another key, or the library rejects them.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// A certificate chain with its key, and the time in which it is valid.
#[derive(Debug)]
pub struct Identity {
    key: CertifiedKey,
    not_before: i64,
    not_after: i64,
}

impl Identity {
    /// Reads two PEM files.
    ///
    /// # Errors
    /// A file cannot be read, or they do not belong together.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_path_buf(), source })
        };
        Self::from_pem(
            &read(certificate)?,
            &certificate.display().to_string(),
            &read(key)?,
            &key.display().to_string(),
        )
    }

    fn from_pem(chain: &[u8], chain_name: &str, key: &[u8], key_name: &str) -> Result<Self, TlsError> {
        let unusable = |what: &str, reason: String| TlsError::Content { what: what.to_owned(), reason };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(chain_name, error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(key_name, error.to_string()))?;
        let Some(leaf) = chain.first() else {
            return Err(unusable(chain_name, "it contains no certificate".to_owned()));
        };
        let parsed = x509_cert::Certificate::from_der(leaf)
            .map_err(|error| unusable(chain_name, error.to_string()))?;
        let validity = parsed.tbs_certificate.validity;
        let seconds = |time: x509_cert::time::Time| {
            i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
        };
        Ok(Self {
            not_before: seconds(validity.not_before),
            not_after: seconds(validity.not_after),
            key: CertifiedKey::from_der(chain, key, &default_provider())?,
        })
    }

    /// End of its validity, in seconds since the Unix epoch.
    #[must_use]
    pub const fn not_after(&self) -> i64 {
        self.not_after
    }
}

/// The certificate in use, and those that answer challenges.
#[derive(Debug, Default)]
pub struct Certificates {
    current: ArcSwapOption<CertifiedKey>,
    /// By domain. Held for single operations only.
    challenges: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl Certificates {
    /// Uses this certificate for new connections.
    pub fn replace(&self, identity: Identity) {
        #[expect(clippy::cast_precision_loss, reason = "seconds are exact for 285 million years")]
        metrics::gauge!("basalt_tls_certificate_expiry_seconds").set(identity.not_after as f64);
        self.current.store(Some(Arc::new(identity.key)));
    }

    /// The acceptor of connections.
    ///
    /// # Errors
    /// The library lacks a protocol version, which does not happen.
    pub fn acceptor(self: &Arc<Self>) -> Result<Acceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = [b"h2", b"http/1.1".as_slice(), ACME_PROTOCOL].map(<[u8]>::to_vec).to_vec();
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_challenge = hello.alpn().is_some_and(|mut names| names.any(|name| name == ACME_PROTOCOL));
        if is_challenge {
            return self.challenges.lock().get(hello.server_name()?).cloned();
        }
        self.current.load_full()
    }
}

/// Accepts TLS connections. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// The encrypted stream; `None` for an ACME server, which only looks at the certificate.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<Option<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.0.accept(stream)).await??;
        let is_challenge = stream.get_ref().1.alpn_protocol() == Some(ACME_PROTOCOL);
        Ok((!is_challenge).then_some(stream))
    }
}

/// The certificate's files.
#[derive(Clone, Debug)]
pub struct Files {
    /// `server.tls_certificate`.
    pub certificate: PathBuf,
    /// `server.tls_key`.
    pub key: PathBuf,
}

impl Files {
    /// Uses the files again when they change, or when `reload` is notified. Files that cannot be used are logged once, and the
    /// current certificate stays.
    #[expect(clippy::infinite_loop, reason = "the caller cancels it at shutdown")]
    pub async fn watch(self, certificates: Arc<Certificates>, reload: Arc<Notify>) {
        let mut seen = self.stamps();
        loop {
            let _elapsed = tokio::time::timeout(FILE_INTERVAL, reload.notified()).await;
            let stamps = self.stamps();
            if stamps == seen {
                continue;
            }
            seen = stamps;
            match Identity::from_files(&self.certificate, &self.key) {
                Ok(identity) => {
                    certificates.replace(identity);
                    tracing::info!("using the changed certificate in {}", self.certificate.display());
                }
                Err(error) => tracing::error!("keeping the current certificate: {error}"),
            }
        }
    }

    /// What changes when a file is replaced or written.
    fn stamps(&self) -> [Option<(u64, u64, i64, i64)>; 2] {
        use std::os::unix::fs::MetadataExt as _;
        [&self.certificate, &self.key].map(|path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pair(dir: &Path, name: &str) -> Files {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let files = Files { certificate: dir.join("cert.pem"), key: dir.join("key.pem") };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn mismatched_pair_is_rejected() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, second) = (write_pair(one.path(), "a.test"), write_pair(other.path(), "a.test"));
        assert!(Identity::from_files(&first.certificate, &first.key).is_ok());
        let error = Identity::from_files(&first.certificate, &second.key).unwrap_err();
        assert!(matches!(error, TlsError::Pair(_)), "{error}");
        let error = Identity::from_files(&first.key, &first.key).unwrap_err().to_string();
        assert!(error.contains("it contains no certificate"), "{error}");
        let missing = first.key.with_file_name("missing");
        let error = Identity::from_files(&missing, &first.key).unwrap_err().to_string();
        assert!(error.contains("may read it"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_used_and_unusable_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = write_pair(dir.path(), "a.test");
        let certificates = Arc::new(Certificates::default());
        certificates.replace(Identity::from_files(&files.certificate, &files.key).unwrap());
        let leaf = || certificates.current.load().as_ref().unwrap().cert[0].clone();
        let first = leaf();
        let watching = tokio::spawn(files.clone().watch(Arc::clone(&certificates), Arc::default()));
        tokio::time::sleep(FILE_INTERVAL * 2).await;
        assert_eq!(leaf(), first);
        std::fs::write(&files.key, "half of a key").unwrap();
        tokio::time::sleep(FILE_INTERVAL * 2).await;
        assert_eq!(leaf(), first);
        write_pair(dir.path(), "b.test");
        tokio::time::sleep(FILE_INTERVAL * 2).await;
        assert_ne!(leaf(), first);
        watching.abort();
    }
}
