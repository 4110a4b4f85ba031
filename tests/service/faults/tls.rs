//! The public port with TLS: a certificate from files, and one from an ACME server. Under a service manager.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Cluster, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(90);

/// A server process in a folder of its own.
struct Server {
    dir: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts `basalt serve` with these settings and waits until it is ready.
    async fn start(port: u16, settings: &[(&str, String)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Basalt::command(dir.path());
        command
            .arg("serve")
            .env("BASALT_SERVER_STATE_DIR", "state")
            .env("BASALT_SERVER_PORT", port.to_string())
            .env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir())
            .envs(settings.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut output = String::new();
        while !output.contains("is ready") {
            assert!(reader.read_line(&mut output).unwrap() > 0, "it ended: {output}");
        }
        // Its log must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::stderr()));
        Self { dir, port, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// The certificate of a new connection, and the response to `GET path`.
    async fn get(
        &self,
        name: &str,
        root: &CertificateDer<'static>,
        path: &str,
    ) -> std::io::Result<(CertificateDer<'static>, String)> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let leaf = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok((leaf, text))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _ended = self.child.wait();
    }
}

/// Waits until `attempt` succeeds.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

type Ca = CertifiedIssuer<'static, KeyPair>;

fn new_ca() -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for `names` and its key; returns the certificate.
fn issue(ca: &Ca, names: &[&str], certificate: &Path, key_file: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = CertificateParams::new(names).unwrap().signed_by(&key, ca).unwrap();
    fs::write(certificate, made.pem()).unwrap();
    fs::write(key_file, key.serialize_pem()).unwrap();
    made.der().clone()
}

#[tokio::test]
async fn certificate_files_are_served_and_reloaded() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let ca = new_ca();
    let first = issue(&ca, &["basalt.test"], &certificate, &key);
    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let redirect = free_port();
    let server = Server::start(
        free_port(),
        &[
            ("BASALT_SERVER_TLS_CERTIFICATE", certificate.display().to_string()),
            ("BASALT_SERVER_TLS_KEY", key.display().to_string()),
            ("BASALT_SERVER_REDIRECT_PORT", redirect.to_string()),
            ("BASALT_SERVER_PUBLIC_URL", "https://basalt.test".to_owned()),
            ("NOTIFY_SOCKET", dir.path().join("notify").display().to_string()),
        ],
    )
    .await;
    let mut state = [0; 32];
    let length = manager.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1");

    let root = ca.der().clone();
    let (leaf, answer) = server.get("basalt.test", &root, "/health").await.unwrap();
    assert!(leaf == first && answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(server.get("other.test", &root, "/health").await.is_err(), "a name that the certificate lacks");

    // Plain HTTP is redirected on its own port.
    let mut plain = TcpStream::connect(("127.0.0.1", redirect)).await.unwrap();
    plain.write_all(b"GET /rest/v1/x?y=z HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    plain.read_to_string(&mut text).await.unwrap();
    assert!(
        text.starts_with("HTTP/1.1 308") && text.contains("location: https://basalt.test/rest/v1/x?y=z\r\n"),
        "{text}"
    );

    // Under a service manager SIGHUP reloads; the connection above shows that the server survives it.
    let second = issue(&ca, &["basalt.test"], &certificate, &key);
    server.signal(Signal::HUP);
    until("the new certificate is served", async || {
        let (leaf, _) = server.get("basalt.test", &root, "/health").await.ok()?;
        (leaf == second).then_some(())
    })
    .await;
    server.signal(Signal::TERM);
    let length = manager.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"STOPPING=1");
}

/// A process that is killed at the end of a test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Programs of the ACME test server, which `cargo xtask nightly` builds.
fn pebble(program: &str) -> Command {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/pebble/bin");
    let mut command = Command::new(dir.join(program));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Requires Pebble: `cargo xtask nightly`.
#[tokio::test]
#[ignore = "builds a Go program"]
async fn acme_certificate_is_obtained_and_renewed() {
    if !Path::new(pebble("pebble").get_program()).exists() {
        println!("Pebble is not built: install Go and run `cargo xtask nightly`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    let ca = new_ca();
    fs::write(path("ca.pem"), ca.pem()).unwrap();
    issue(&ca, &["localhost"], &path("pebble.pem"), &path("pebble.key"));
    let [directory, management, dns, dns_management, port] = std::array::from_fn(|_| free_port());
    let config = serde_json::json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{directory}"),
        "managementListenAddress": format!("127.0.0.1:{management}"),
        "certificate": path("pebble.pem"), "privateKey": path("pebble.key"),
        "httpPort": 1, "tlsPort": port,
        // Renewed after 20 seconds.
        "profiles": { "default": { "description": "short", "validityPeriod": 30 } },
    }});
    fs::write(path("pebble.json"), config.to_string()).unwrap();
    let _dns = Killed(
        pebble("pebble-challtestsrv")
            .args([
                "-defaultIPv4",
                "127.0.0.1",
                "-defaultIPv6",
                "",
                "-http01",
                "",
                "-https01",
                "",
                "-tlsalpn01",
                "",
                "-doh",
                "",
            ])
            .args([
                "-dnsserver",
                &format!("127.0.0.1:{dns}"),
                "-management",
                &format!("127.0.0.1:{dns_management}"),
            ])
            .spawn()
            .expect("Pebble is built by `cargo xtask nightly`"),
    );
    let _pebble = Killed(
        pebble("pebble")
            .arg("-config")
            .arg(path("pebble.json"))
            .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
            .env("PEBBLE_VA_NOSLEEP", "1")
            // Every server must cope with rejected nonces.
            .env("PEBBLE_WFE_NONCEREJECT", "20")
            .spawn()
            .unwrap(),
    );
    until("Pebble listens", async || TcpStream::connect(("127.0.0.1", directory)).await.ok()).await;
    let server = Server::start(
        port,
        &[
            ("BASALT_SERVER_ACME_DOMAINS", "one.basalt.test,two.basalt.test".to_owned()),
            ("BASALT_SERVER_ACME_EMAIL", "admin@basalt.test".to_owned()),
            ("BASALT_SERVER_ACME_DIRECTORY", format!("https://localhost:{directory}/dir")),
            ("BASALT_SERVER_ACME_CA", path("ca.pem").display().to_string()),
        ],
    )
    .await;
    let root = pebble_root(management, &ca).await;
    let first = until("a certificate for both domains", async || {
        let (leaf, _) = server.get("one.basalt.test", &root, "/health").await.ok()?;
        let (same, answer) = server.get("two.basalt.test", &root, "/health").await.ok()?;
        (same == leaf && answer.starts_with("HTTP/1.1 200")).then_some(leaf)
    })
    .await;
    for entry in fs::read_dir(server.dir.path().join("state/acme")).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "only the server may read keys");
    }
    until("the certificate is renewed", async || {
        let (leaf, _) = server.get("one.basalt.test", &root, "/health").await.ok()?;
        (leaf != first).then_some(())
    })
    .await;
}

/// The root certificate of Pebble, from its management port.
async fn pebble_root(management: u16, ca: &Ca) -> CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", management)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(b"GET /roots/0 HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    CertificateDer::from_pem_slice(&answer).unwrap()
}
