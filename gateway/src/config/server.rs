//! `[server]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, ListenPort, LongSecret, Time, Whole, fits, quote};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Value};
use basalt_core::{choice, settings};
use secrecy::SecretString;

use basalt_http::address::{IpRange, IpRanges, ListenHost};
use basalt_http::listener::HeadLimits;
use basalt_http::pace::Pace;

choice! {
    /// Whether people outside can reach this server.
    pub enum Mode {
        /// On this machine, for its developer: mailbox, card double, seeds, error detail.
        Development = "development",
        /// For others.
        Production = "production",
    }
}

choice! {
    /// The shape of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line, for collectors.
        Json = "json",
    }
}

settings! {
    /// `[server]`. Paths are absolute.
    #[derive(Clone, Debug)]
    pub struct Server in "server" with r {
        /// Address to listen on; `0.0.0.0` for every IPv4 network of the machine.
        host: ListenHost = Is("127.0.0.1");
        /// Port of the API and the app. Option `--port`.
        port: u16 as ListenPort = Is("8000");
        /// How browsers and mails reach this server: in links, signed URLs and the tokens' `iss`.
        public_url: BaseUrl = ByOr("`http://localhost:` and the port", "http://localhost:8000");
        /// Development has the mailbox, seeds, sign-up without confirmation and detailed errors; production has none of them.
        mode: Option<Mode> = By("`development` while `server.host` and `server.public_url` are this machine's own, else `production`");
        /// Whether requests need an API key.
        require_apikey: bool = Is("true");
        /// Whether `sb_secret_` keys and the legacy service_role key count when a browser brings them (told by `Sec-Fetch-Site` or `User-Agent`); they are refused with 401 otherwise.
        secret_keys_in_browsers: bool = Is("false");
        /// With `--only`: the path the service answers under; `""` for the root.
        prefix: Option<String> as Option<Prefix> = By("the service's own, such as `/rest/v1`");
        /// Addresses or blocks of proxies whose `X-Forwarded-*` headers count.
        trusted_proxies: Vec<IpRange> as IpRanges = Is("");
        /// Origins whose pages may call the API. `*` allows all, without credentials; a list is echoed, with credentials, and others get no CORS headers.
        cors_origins: Option<Vec<String>> as Origins = Is("*");
        /// A second port, with only `/live` (or `/health`), `/ready`, `/metrics` and, where REST runs, `/config` and `/schema_cache`. Keep it from the public.
        admin_port: Option<u16> = By("none");
        /// Address of the admin port.
        admin_host: ListenHost = ByOr("`server.host`", "127.0.0.1");
        /// A socket file to listen on instead of address and port.
        unix_socket: Option<PathBuf> = By("none");
        /// Who may connect to the socket file.
        unix_socket_mode: u32 as SocketMode = Is("660");
        /// Let several servers listen on the same port (`SO_REUSEPORT`), so that one can take over from another.
        reuse_port: bool = Is("false");
        /// At least 32 characters. Encrypts what is stored secret, and the passwords of our login roles derive from it.
        master_key: Option<SecretString> as Option<LongSecret> = By("generated, kept in the state folder"), secret;
        /// Folder of the built single-page app; `""` for none.
        app_dir: Option<PathBuf> = By("`app/dist`; none with `--only`");
        /// Secrets and, unless set apart, PostgreSQL's data and stored objects. Option `--data`.
        state_dir: PathBuf = Is(".basalt");
        /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or per module (`info,basalt_rest=debug`). One line per request: `info,basalt::access=info`.
        log: String as LogFilter = Is("info,basalt::access=off");
        /// `text` for people, `json` for collectors.
        log_format: LogFormat = Is("text");
        /// Whether `/metrics` answers.
        metrics: bool = Is("true");
        /// Connections open at once, or fewer where the system does not let this program open as many files (`ulimit -n`). The next ones are not refused: they wait in the system's queue until one ends.
        max_connections: usize as Whole<1, 1_000_000> = Is("16384");
        /// Requests of services in flight at once. The next ones are refused at once: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`).
        max_requests: usize as Whole<1, 1_000_000> = Is("4096");
        /// Bytes of request bodies in flight, of those over 64 KiB (of CSV: of all). A body that finds no room within `server.body_wait` is refused: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`). At least `rest.max_body_bytes`.
        body_memory: u64 as Bytes = Is("256MiB");
        /// How long a body whose length is known waits for room in `server.body_memory`; 0 for not at all. One of unknown length never waits.
        body_wait: Duration as Time = Is("2s");
        /// Bytes of answers in flight, of those over 64 KiB, from PostgreSQL to the last byte that the client takes. An answer that finds no room is refused at once: 503 `53000` with `Retry-After: 1`, unless it tells of a write. At least `database.max_row_bytes`.
        answer_memory: u64 as Bytes = Is("256MiB");
        /// A client that moves less than `server.min_rate` over this time, while we wait for nothing else, is given up: its body with 408 (REST `PGRST102`, auth `request_timeout`), its answer by closing the connection (HTTP/2: the stream).
        stall_timeout: Duration as Time<1000> = Is("30s");
        /// Bytes a second at which clients must send bodies and take answers; 0 asks for any progress at all.
        min_rate: u64 as Bytes = Is("1KiB");
        /// Request line and headers of one request together. Longer ones get 431 without a body, and the connection is closed (HTTP/2: the stream ends; it counts 32 bytes more for each header, and takes 72 KiB at most). On HTTP/1.1 a head that is whole by then may be up to twice as long. From `8KiB` to `16MiB`; a request target takes 65,534 bytes at most whatever this says (414).
        max_header_bytes: u32 as Bytes<8_192, 16_777_216> = Is("160KiB");
        /// Headers of one HTTP/1.1 request; more get 431, and the connection is closed. Over 100, each request costs two allocations more. HTTP/2 counts bytes alone.
        max_headers: usize as Whole<16, 1000> = Is("100");
        /// Requests in flight on one HTTP/2 connection. A client that begins more has those refused (`REFUSED_STREAM`), which it may repeat.
        max_streams: u32 as Whole<1, 10_000> = Is("256");
        /// A connection whose next request has not begun, or not sent its whole head, after this time is closed. Longer than the 60 s that load balancers keep theirs.
        idle_timeout: Duration as Time<1000> = Is("75s");
        /// How long requests in flight may take to end when the server stops; 0 for not at all. A second signal ends the wait. Writes that PostgreSQL has begun get 10 s more.
        shutdown_timeout: Duration as Time = Is("10s");
    }
}

impl Server {
    /// How large the head of a request may be.
    #[must_use]
    pub const fn heads(&self) -> HeadLimits {
        HeadLimits { bytes: self.max_header_bytes, headers: self.max_headers }
    }

    /// How slow clients may be with bodies and answers.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        Pace { window: self.stall_timeout, bytes_per_second: self.min_rate }
    }
}

/// `""`, or a path that starts with `/` and does not end with one.
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

/// Origins that may call; `*` alone is all of them, as `None`.
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
                let both = "names * and other origins: * already allows all, so keep one or the other";
                Err(InvalidValue::Because(both.to_owned()))
            };
        }
        let origin = |text: &String| {
            // Browsers send the origin without a path; a slash at the end would never match.
            let url = text.parse::<BaseUrl>().ok().filter(|url| url.url().path() == "/");
            url.map(|url| url.url().origin().ascii_serialization()).ok_or_else(|| {
                InvalidValue::Because(format!(
                    "has {text:?}, which is no origin: write https://app.example.org"
                ))
            })
        };
        Ok((Some(written.iter().map(origin).collect::<Result<_, _>>()?), shown))
    }
}

/// A filter of log lines, in `tracing_subscriber::EnvFilter`'s syntax.
struct LogFilter;

impl Kind<String> for LogFilter {
    fn expected() -> String {
        String::expected()
    }

    fn read(value: &Value, _: &Path) -> Result<(String, String), InvalidValue> {
        if let Some(Err(error)) = value.text().map(tracing_subscriber::EnvFilter::try_new) {
            let sentence = format!("is not a log filter ({error}): write info, or info,basalt_rest=debug");
            return Err(InvalidValue::Because(sentence));
        }
        fits(value.text().map(ToOwned::to_owned), |text| quote(text))
    }
}

/// Permissions of a socket, in octal.
struct SocketMode;

impl Kind<u32> for SocketMode {
    fn expected() -> String {
        "an octal number from 600 to 777, as a text: \"660\"".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(u32, String), InvalidValue> {
        let mode = value.text().and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
        let mode = mode.filter(|mode| (0o600..=0o777).contains(mode)).ok_or(InvalidValue::Kind)?;
        Ok((mode, quote(&format!("{mode:o}"))))
    }
}
