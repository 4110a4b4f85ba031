//! The `[server]` section.

use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, ListenPort, LongSecret, Time, Whole, fits, quote};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Value};
use basalt_core::{choice, settings};
use secrecy::SecretString;

use basalt_http::address::{IpRange, IpRanges, ListenHost};
use basalt_http::layers::bounds::HeadLimits;
use basalt_http::pace::Pace;

choice! {
    /// Whether the server runs for development or in production.
    pub enum Mode {
        /// For its developer on this machine: mailbox, Stripe double, seeds, detailed errors.
        Development = "development",
        /// For public use.
        Production = "production",
    }
}

choice! {
    /// The format of log lines.
    pub enum LogFormat {
        /// For terminals.
        Text = "text",
        /// One JSON object per line, for log collectors.
        Json = "json",
    }
}

settings! {
    /// The `[server]` settings. Paths are absolute.
    #[derive(Clone, Debug)]
    pub struct Server in "server" with r {
        /// Address to listen on; `0.0.0.0` for every IPv4 interface.
        host: ListenHost = Is("127.0.0.1");
        /// Port of the API and the app. Option `--port`.
        port: u16 as ListenPort = Is("8000");
        /// The public address of this server, used in links, signed URLs and the tokens' `iss`.
        public_url: BaseUrl = ByOr("`http://localhost:` and the port", "http://localhost:8000");
        /// Development has the mailbox, seeds, sign-up without confirmation and detailed errors; production does not.
        mode: Option<Mode> = By("`development` if `server.host` and `server.public_url` are loopback addresses, else `production`");
        /// Whether requests require an API key.
        require_apikey: bool = Is("true");
        /// Whether `sb_secret_` keys and the legacy service_role key are accepted from browsers (detected by `Sec-Fetch-Site` or `User-Agent`). If not, they are rejected with 401.
        secret_keys_in_browsers: bool = Is("false");
        /// With `--only`: the path of the service; `""` for the root.
        prefix: Option<String> as Option<Prefix> = By("the service's own, such as `/rest/v1`");
        /// Addresses or CIDR blocks of proxies whose `X-Forwarded-*` headers are trusted.
        trusted_proxies: Vec<IpRange> as IpRanges = Is("");
        /// Origins that may call the API from a browser. `*` allows all, without credentials. A listed origin is echoed, with credentials; others get no CORS headers.
        cors_origins: Option<Vec<String>> as Origins = Is("*");
        /// Certificate chain of the public port, PEM; with it, the port speaks HTTPS. Used again within 10 s of a change. Requires `tls_key`.
        tls_certificate: Option<PathBuf> = By("none");
        /// Private key of `tls_certificate`, PEM.
        tls_key: Option<PathBuf> = By("none");
        /// Domains for which to obtain a certificate by ACME; the public port speaks HTTPS then. The ACME server must reach it as port 443 of each domain.
        acme_domains: Vec<String> = Is("");
        /// Address to which the ACME server sends warnings.
        acme_email: Option<String> = By("none");
        /// The URL of the ACME server's directory. Using it means accepting its terms of service.
        acme_directory: String as BaseUrl = Is("https://acme-v02.api.letsencrypt.org/directory");
        /// The CA of `acme_directory`, PEM, if the system does not trust it.
        acme_ca: Option<PathBuf> = By("the system's CAs");
        /// A port that redirects to `public_url`, usually 80 beside TLS.
        redirect_port: Option<u16> = By("none");
        /// A second port that serves only `/live` (or `/health`), `/ready`, `/metrics` and, if REST runs, `/config` and `/schema_cache`. Do not expose it publicly.
        admin_port: Option<u16> = By("none");
        /// Address of the admin port.
        admin_host: ListenHost = ByOr("`server.host`", "127.0.0.1");
        /// A socket file to listen on instead of an address and port.
        unix_socket: Option<PathBuf> = By("none");
        /// Permissions of the socket file.
        unix_socket_mode: u32 as SocketMode = Is("660");
        /// Let several servers listen on the same port (`SO_REUSEPORT`), so that one can take over from another.
        reuse_port: bool = Is("false");
        /// At least 32 characters. Encrypts stored secrets; the passwords of Basalt's login roles derive from it.
        master_key: Option<SecretString> as Option<LongSecret> = By("generated, stored in the state folder"), secret;
        /// Folder of the built single-page app; `""` for none.
        app_dir: Option<PathBuf> = By("`app/dist`; none with `--only`");
        /// The state folder: secrets and, unless configured elsewhere, PostgreSQL's data and stored objects. Option `--data`.
        state_dir: PathBuf = Is(".basalt");
        /// Log filter: `error`, `warn`, `info`, `debug`, `trace`, or per module (`info,basalt_rest=debug`). One line per request: `info,basalt::access=info`.
        log: String as LogFilter = Is("info,basalt::access=off");
        /// `text` for terminals, `json` for log collectors.
        log_format: LogFormat = Is("text");
        /// Whether `/metrics` is served.
        metrics: bool = Is("true");
        /// Open connections, or fewer if the limit on open files (`ulimit -n`) requires it. Further connections are not rejected: they wait in the kernel's backlog until one closes.
        max_connections: usize as Whole<1, 1_000_000> = Is("16384");
        /// Requests to services in flight. Further requests are rejected immediately: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`).
        max_requests: usize as Whole<1, 1_000_000> = Is("4096");
        /// Bytes of request bodies in flight, counting bodies over 64 KiB (CSV: all). A body that gets no memory within `server.body_wait` is rejected: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`). At least `rest.max_body_bytes`.
        body_memory: u64 as Bytes = Is("256MiB");
        /// How long a body of known length waits for room in `server.body_memory`; 0 disables waiting. A body of unknown length never waits.
        body_wait: Duration as Time = Is("2s");
        /// Bytes of responses in flight, counting responses over 64 KiB, from PostgreSQL until the client has received the last byte. A response that gets no memory is rejected immediately: 503 `53000` with `Retry-After: 1`, except responses to writes. At least `database.max_row_bytes`.
        answer_memory: u64 as Bytes = Is("256MiB");
        /// A client that transfers less than `server.min_rate` over this time, while the server waits only for it, is disconnected: a body with 408 (REST `PGRST102`, auth `request_timeout`), a response by closing the connection (HTTP/2: the stream).
        stall_timeout: Duration as Time<1000> = Is("30s");
        /// Bytes per second at which clients must send bodies and read responses; 0 requires only some progress.
        min_rate: u64 as Bytes = Is("1KiB");
        /// Size of the request line and headers of one request. Larger requests get 431 without a body, and the connection is closed (HTTP/2: the stream ends; each header counts 32 bytes more, and the maximum is 72 KiB). On HTTP/1.1, headers that arrive completely at once may be up to twice as long. From `8KiB` to `16MiB`; a request target is always limited to 65,534 bytes (414).
        max_header_bytes: u32 as Bytes<8_192, 16_777_216> = Is("160KiB");
        /// Headers of one HTTP/1.1 request; more get 431, and the connection is closed. Values over 100 cost two more allocations per request. HTTP/2 limits bytes only.
        max_headers: usize as Whole<16, 1000> = Is("100");
        /// Requests in flight on one HTTP/2 connection. Further requests are rejected (`REFUSED_STREAM`), and the client may retry them.
        max_streams: u32 as Whole<1, 10_000> = Is("256");
        /// A connection is closed if its next request has not started, or its headers are incomplete, after this time. The default exceeds the 60 s for which load balancers keep idle connections.
        idle_timeout: Duration as Time<1000> = Is("75s");
        /// How long requests in flight may take to finish when the server stops; 0 disables the wait, and a second signal ends it. Writes that PostgreSQL has started get 10 s more.
        shutdown_timeout: Duration as Time = Is("10s");
    }
}

impl Server {
    /// Limits on request headers.
    #[must_use]
    pub const fn heads(&self) -> HeadLimits {
        HeadLimits { bytes: self.max_header_bytes, headers: self.max_headers }
    }

    /// Whether the public port speaks HTTPS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.tls_certificate.is_some() || !self.acme_domains.is_empty()
    }

    /// The minimum transfer rate of clients.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        Pace { window: self.stall_timeout, bytes_per_second: self.min_rate }
    }
}

/// `""`, or a path that starts with `/` and does not end with `/`.
struct Prefix;

impl Kind<String> for Prefix {
    fn expected() -> String {
        String::expected()
    }

    fn read(value: &Value, _: &Path) -> Result<(String, String), InvalidValue> {
        let text = value.text().ok_or(InvalidValue::Kind)?;
        let prefix = text.trim_end_matches('/');
        let clean = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
        if !(prefix.is_empty() || prefix.starts_with('/')) || prefix.contains("//") || !clean {
            return Err(InvalidValue::Because("must be \"\" or a path such as /rest/v1".to_owned()));
        }
        Ok((prefix.to_owned(), quote(text)))
    }
}

/// Allowed CORS origins; `None` allows all (`*`).
struct Origins;

impl Kind<Option<Vec<String>>> for Origins {
    fn expected() -> String {
        <Vec<String>>::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Option<Vec<String>>, String), InvalidValue> {
        let (written, shown) = <Vec<String>>::read(value, base)?;
        if written.iter().any(|origin| origin == "*") {
            return if written.len() == 1 {
                Ok((None, shown))
            } else {
                let both = "lists * and other origins: * already allows all, so use one or the other";
                Err(InvalidValue::Because(both.to_owned()))
            };
        }
        let origin = |text: &String| {
            // Browsers send an origin without a path, so one with a trailing slash would never match.
            let url = text.parse::<BaseUrl>().ok().filter(|url| url.url().path() == "/");
            url.map(|url| url.url().origin().ascii_serialization()).ok_or_else(|| {
                InvalidValue::Because(format!(
                    "has {text:?}, which is not an origin: use a value such as https://app.example.org"
                ))
            })
        };
        Ok((Some(written.iter().map(origin).collect::<Result<_, _>>()?), shown))
    }
}

/// A log filter in the syntax of `tracing_subscriber::EnvFilter`.
struct LogFilter;

impl Kind<String> for LogFilter {
    fn expected() -> String {
        String::expected()
    }

    fn read(value: &Value, _: &Path) -> Result<(String, String), InvalidValue> {
        if let Some(Err(error)) = value.text().map(tracing_subscriber::EnvFilter::try_new) {
            let sentence =
                format!("is not a log filter ({error}): use a value such as info, or info,basalt_rest=debug");
            return Err(InvalidValue::Because(sentence));
        }
        fits(value.text().map(ToOwned::to_owned), |text| quote(text))
    }
}

/// Permissions of a socket file, in octal.
struct SocketMode;

impl Kind<u32> for SocketMode {
    fn expected() -> String {
        "an octal number from 600 to 777, as a string: \"660\"".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(u32, String), InvalidValue> {
        let mode = value.text().and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
        let mode = mode.filter(|mode| (0o600..=0o777).contains(mode)).ok_or(InvalidValue::Kind)?;
        Ok((mode, quote(&format!("{mode:o}"))))
    }
}
