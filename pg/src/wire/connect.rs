//! Opens connections: tries hosts in turn, negotiates TLS, logs in. Cancel requests take the same route.
//!
//! The login itself (SCRAM, MD5, clear text, channel binding) is done by the driver, which borrows the stream; both
//! halves of its client are dropped once the server is ready. The handling of `hosts`, `target_session_attrs` and
//! socket options is reimplemented here, because the driver applies it only to sockets that it owns.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use basalt_core::error::with_cause;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Config, NoTls};

use super::stream::{AlreadyEncrypted, BorrowedStream, Encrypted, Stream};
use super::{Connection, Limits};
use crate::database::Database;
use crate::pg_error::DriverError;

/// `SSLRequest` of the protocol: length and code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Statements, in a session that is reset between requests.
    Statements,
    /// A replication stream: replication commands and simple queries.
    Replication,
}

/// Address of a server.
#[derive(Clone, Debug)]
enum Address {
    Tcp { address: SocketAddr, hostname: Option<String> },
    Unix(PathBuf),
}

/// Cancels what a connection is running.
#[derive(Clone)]
pub(crate) struct Canceller {
    database: Database,
    address: Address,
    is_encrypted: bool,
    token: CancelToken,
}

impl Canceller {
    /// Sends the request and waits until its own connection is closed; only then can it no longer affect a later
    /// statement. Returns `Ok(false)` if that is unknown, so that the caller discards the connection. The caller sets
    /// the timeout.
    pub(crate) async fn cancel(&self) -> Result<bool, DriverError> {
        let mut stream = dial(&self.database, &self.address, self.is_encrypted).await?;
        if self.is_encrypted {
            self.token.cancel_query_raw(BorrowedStream::new(&mut stream), AlreadyEncrypted).await?;
        } else {
            self.token.cancel_query_raw(&mut stream, NoTls).await?;
        }
        // The server closes the connection once the signal is sent; over TLS it does so without close_notify.
        let mut answer = [0_u8; 1];
        Ok(match stream.read(&mut answer).await {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        })
    }
}

impl Connection {
    /// Opens a connection with the login of `database`, to the first host that accepts it. As in libpq,
    /// `connect_timeout` applies to each host in total, so that a host that accepts the connection but does not
    /// respond does not block the next one.
    pub(crate) async fn open(database: &Database, limits: &Limits) -> Result<Self, DriverError> {
        Self::open_as(database, limits, Purpose::Statements).await
    }

    /// Opens a connection for a purpose.
    pub(super) async fn open_as(
        database: &Database,
        limits: &Limits,
        purpose: Purpose,
    ) -> Result<Self, DriverError> {
        let mut failure = DriverError::Connection("no host to connect to".to_owned());
        let limit = database.connect_limit();
        for address in addresses(database.config()).await? {
            match tokio::time::timeout(limit, open_at(database, address, limits, purpose)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failure = error,
                Err(_elapsed) => failure = unreachable(&io::ErrorKind::TimedOut.into()),
            }
        }
        Err(failure)
    }
}

impl Connection {
    /// Queries the process id of the backend.
    pub(crate) async fn backend(&mut self) -> Result<i32, DriverError> {
        let rows = self.simple_query("select pg_catalog.pg_backend_pid()").await?;
        self.backend = rows.first().and_then(|row| row.text(0)?.parse().ok());
        self.backend.ok_or_else(|| DriverError::Connection("the backend has no process id".to_owned()))
    }

    /// Closes the connection instead of returning it to the pool, whatever the result of the next batch. Returns the
    /// process id of its backend, if known.
    pub(crate) const fn retire(&mut self) -> Option<i32> {
        self.is_retired = true;
        self.backend
    }

    /// Marks the login as possibly dropped; [`Connection::has_login`] checks it before the next request.
    pub(crate) const fn suspect(&mut self) {
        self.is_suspect = true;
    }

    /// Whether the login still exists. A session outlives its role, and is then rejected for everything, even if a
    /// role of that name is created again. Costs nothing unless the login is suspect.
    pub(crate) async fn has_login(&mut self) -> bool {
        if self.is_suspect {
            // Fails if the role no longer exists.
            self.is_suspect = self.simple_query("select session_user").await.is_err();
        }
        !self.is_suspect
    }
}

/// Addresses of all hosts, in the order in which they are tried.
async fn addresses(config: &Config) -> Result<Vec<Address>, DriverError> {
    let (hosts, host_addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(host_addresses.len());
    let mut found = Vec::with_capacity(count);
    let mut failure = None;
    for index in 0..count {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let hostname = match hosts.get(index) {
            Some(Host::Tcp(name)) => Some(name.clone()),
            Some(Host::Unix(folder)) => {
                found.push(Address::Unix(folder.join(format!(".s.PGSQL.{port}"))));
                continue;
            }
            None => None,
        };
        if let Some(ip) = host_addresses.get(index) {
            found.push(Address::Tcp { address: SocketAddr::new(*ip, port), hostname });
            continue;
        }
        match tokio::net::lookup_host((hostname.as_deref().unwrap_or_default(), port)).await {
            Ok(resolved) => {
                found.extend(resolved.map(|address| Address::Tcp { address, hostname: hostname.clone() }))
            }
            Err(error) => failure = Some(unreachable(&error)),
        }
    }
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random && found.len() > 1 {
        let first = usize::from(basalt_core::random::bytes::<1>()[0]) % found.len();
        found.rotate_left(first);
    }
    match failure {
        Some(failure) if found.is_empty() => Err(failure),
        _ => Ok(found),
    }
}

async fn open_at(
    database: &Database,
    address: Address,
    limits: &Limits,
    purpose: Purpose,
) -> Result<Connection, DriverError> {
    let mut config = database.config().clone();
    let mut stream = dial(database, &address, true).await?;
    let is_encrypted = stream.is_encrypted();
    let borrowed = match purpose {
        Purpose::Statements => BorrowedStream::new(&mut stream),
        Purpose::Replication => BorrowedStream::with_parameter(&mut stream, b"replication\0database\0"),
    };
    let token = if is_encrypted {
        // "Direct": the driver must not request TLS again.
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        config.connect_raw(borrowed, AlreadyEncrypted).await?.0.cancel_token()
    } else {
        config.ssl_mode(SslMode::Disable);
        config.connect_raw(borrowed, NoTls).await?.0.cancel_token()
    };
    let canceller = Canceller { database: database.clone(), address, is_encrypted, token };
    let mut connection = Connection::new(stream, canceller, limits.clone());
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        let rows = connection.simple_query("show transaction_read_only").await?;
        let is_read_only = rows.first().and_then(|row| row.text(0)) == Some("on");
        let wants_read_only = config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly;
        if is_read_only != wants_read_only {
            let fault = if is_read_only {
                "the database does not allow writes"
            } else {
                "the database allows writes"
            };
            return Err(DriverError::Connection(fault.to_owned()));
        }
    }
    // A replication connection does not support prepared statements.
    if purpose == Purpose::Statements {
        connection.prepare_session().await?;
    }
    Ok(connection)
}

/// Opens a socket to `address`, encrypted according to the configuration if `may_encrypt`.
async fn dial(database: &Database, address: &Address, may_encrypt: bool) -> Result<Stream, DriverError> {
    let config = database.config();
    let socket = async {
        match address {
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            Address::Tcp { address, .. } => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                keep_alive(config, &stream)?;
                Ok(Stream::Tcp(stream))
            }
        }
    };
    let stream = socket.await.map_err(|error| unreachable(&error))?;
    match (stream, address) {
        (Stream::Tcp(stream), Address::Tcp { hostname, .. })
            if may_encrypt && config.get_ssl_mode() != SslMode::Disable =>
        {
            encrypt(database, stream, hostname.as_deref()).await
        }
        (stream, _) => Ok(stream),
    }
}

fn keep_alive(config: &Config, stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    if let Some(limit) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(*limit))?;
    }
    if config.get_keepalives() {
        let mut options = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            options = options.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            options = options.with_retries(retries);
        }
        socket.set_tcp_keepalive(&options)?;
    }
    Ok(())
}

async fn encrypt(
    database: &Database,
    mut stream: TcpStream,
    hostname: Option<&str>,
) -> Result<Stream, DriverError> {
    let config = database.config();
    if config.get_ssl_negotiation() == SslNegotiation::Postgres {
        let mut answer = [0_u8; 1];
        stream.write_all(&SSL_REQUEST).await.map_err(|error| unreachable(&error))?;
        stream.read_exact(&mut answer).await.map_err(|error| unreachable(&error))?;
        if answer != *b"S" {
            return if config.get_ssl_mode() == SslMode::Require {
                Err(DriverError::Connection("the server does not support TLS".to_owned()))
            } else {
                Ok(Stream::Tcp(stream))
            };
        }
    }
    let refused = |error: &(dyn std::error::Error + 'static)| {
        DriverError::Connection(format!("TLS with the database failed: {}", with_cause(error)))
    };
    let hostname = hostname.ok_or_else(|| DriverError::Connection("TLS needs a host name".to_owned()))?;
    let mut tls = database.tls().clone();
    let connector = <_ as MakeTlsConnect<TcpStream>>::make_tls_connect(&mut tls, hostname)
        .map_err(|error| refused(&error))?;
    let encrypted: Encrypted = connector.connect(stream).await.map_err(|error| refused(&error))?;
    Ok(Stream::Tls(Box::new(encrypted)))
}

/// Worded like the driver's errors for the pools that use it.
fn unreachable(error: &io::Error) -> DriverError {
    DriverError::Connection(format!("error connecting to server: {error}"))
}
