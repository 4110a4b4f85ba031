//! TLS for outgoing connections.

/// Client configuration that verifies certificates against the system's root store. Database connections use it even
/// for `sslmode=require` and `prefer`, where libpq skips verification, because a login is sent over them.
#[must_use]
pub fn client_config() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // A system store may contain certificates that rustls rejects; the others are still usable.
        if let Err(error) = roots.add(certificate) {
            tracing::debug!(%error, "ignoring an unusable system certificate");
        }
    }
    rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}
