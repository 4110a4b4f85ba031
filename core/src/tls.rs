//! TLS for outgoing connections.

/// A client that checks certificates against the system's roots. Database connections use it too, although libpq does not
/// check certificates for `sslmode=require` and `prefer`: a login travels over them.
#[must_use]
pub fn client_config() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // A system store may hold certificates that rustls refuses; the others are still usable.
        if let Err(error) = roots.add(certificate) {
            tracing::debug!(%error, "a system certificate is unusable");
        }
    }
    rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}
