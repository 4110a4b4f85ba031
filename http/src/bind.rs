//! Listening sockets: TCP on one address, on all addresses or on those of a host name, or a Unix socket.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use crate::address::ListenHost;

/// Length of the accept queue; the system may limit it further.
const BACKLOG: u32 = 4096;

/// Reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct BindError {
    /// Address or socket path.
    pub address: String,
    /// Cause and remedy.
    pub reason: String,
}

/// A client connection over TCP or a Unix socket.
pub type Stream = Either<TcpStream, UnixStream>;

/// A listening socket.
pub enum Listening {
    /// TCP port.
    Tcp(TcpListener),
    /// Unix socket, whose file is removed on drop.
    Unix(UnixListener, PathBuf),
}

impl Listening {
    /// Listens on `port` of `host`.
    ///
    /// # Errors
    /// The name cannot be resolved, or the address cannot be bound; the error names the remedy.
    pub async fn tcp(host: &ListenHost, port: u16, reuse_port: bool) -> Result<Self, BindError> {
        let addresses = addresses(host, port).await.map_err(|error| BindError {
            address: format!("{host}:{port}"),
            reason: format!("cannot resolve the host name: {error}; correct server.host"),
        })?;
        let only_v6 = *host == ListenHost::EveryIpv6;
        let mut failure = None;
        // The first address that can be bound is used; a machine may lack IPv6, for example.
        for address in addresses {
            match listen(address, only_v6, reuse_port) {
                Ok(listener) => return Ok(Self::Tcp(listener)),
                Err(error) => failure = failure.or(Some((address, error))),
            }
        }
        let (address, error) = failure.unwrap_or_else(|| {
            ((Ipv4Addr::UNSPECIFIED, port).into(), io::Error::from(io::ErrorKind::AddrNotAvailable))
        });
        Err(BindError { address: address.to_string(), reason: advice(&error, port) })
    }

    /// Listens on a Unix socket whose file has these permissions. A stale file left by a killed server is replaced.
    ///
    /// # Errors
    /// The path is not a socket, another server listens on it, or it cannot be created.
    pub async fn unix(path: &Path, mode: u32) -> Result<Self, BindError> {
        let failed = |reason: String| BindError { address: path.display().to_string(), reason };
        match std::fs::symlink_metadata(path) {
            Err(_none) => {}
            Ok(found) if !found.file_type().is_socket() => {
                return Err(failed(
                    "the path exists and is not a socket; choose another server.unix_socket".to_owned(),
                ));
            }
            Ok(_socket) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(failed(
                        "another program is listening on it; stop that program or choose another server.unix_socket"
                            .to_owned(),
                    ));
                }
                std::fs::remove_file(path).map_err(|error| failed(error.to_string()))?;
            }
        }
        let listener = UnixListener::bind(path).map_err(|error| {
            failed(format!("{error}; check that the directory exists and is writable by this user"))
        })?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(|error| failed(format!("cannot set its permissions: {error}")))?;
        Ok(Self::Unix(listener, path.to_path_buf()))
    }

    /// The bound port, which the system chooses if the configured one is 0.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix(..) => None,
        }
    }

    /// Accepts the next connection and returns its peer; for a Unix socket that is this machine.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Responses are written in full, so Nagle's algorithm would only delay them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set TCP_NODELAY");
                }
                Ok((Either::Left(stream), peer))
            }
            Self::Unix(listener, _) => {
                let (stream, _unnamed) = listener.accept().await?;
                Ok((Either::Right(stream), (Ipv4Addr::LOCALHOST, 0).into()))
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // The file may already be gone or belong to another server; the next start handles both.
            let _gone = std::fs::remove_file(path);
        }
    }
}

async fn addresses(host: &ListenHost, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(match host {
        ListenHost::Address(address) => vec![SocketAddr::new(*address, port)],
        ListenHost::Everywhere => {
            vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
        }
        ListenHost::EveryIpv6 => vec![(Ipv6Addr::UNSPECIFIED, port).into()],
        ListenHost::Name(name) => tokio::net::lookup_host((name.as_str(), port)).await?.collect(),
    })
}

fn listen(address: SocketAddr, only_v6: bool, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if address.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, only_v6)?;
    }
    // Lets a restarted server bind while connections of the previous one are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(reuse_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is non-exhaustive; other kinds need no advice")]
fn advice(error: &io::Error, port: u16) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "port {port} is in use by another program; stop that program or choose another port with --port N"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("no permission to use port {port}; choose a port above 1023 with --port N")
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address; correct server.host".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_kind_of_host_can_be_bound() {
        for (host, by_v4, by_v6) in [
            (ListenHost::Everywhere, true, true),
            (ListenHost::EveryIpv6, false, true),
            (ListenHost::Address(Ipv4Addr::UNSPECIFIED.into()), true, false),
            (ListenHost::Name("localhost".to_owned()), true, true),
        ] {
            let has_v6 = listen((Ipv6Addr::LOCALHOST, 0).into(), true, false).is_ok();
            if host == ListenHost::EveryIpv6 && !has_v6 {
                continue;
            }
            let listening = Listening::tcp(&host, 0, false).await.unwrap();
            let port = listening.port().unwrap();
            let v4 = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok();
            let v6 = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.is_ok();
            if matches!(host, ListenHost::Name(_)) {
                assert!(v4 || v6, "{host}");
            } else {
                assert_eq!((v4, v6), (by_v4, by_v6 && has_v6), "{host}");
            }
        }
        let nowhere = Listening::tcp(&ListenHost::Name("host.invalid".to_owned()), 0, false).await;
        assert!(nowhere.is_err_and(|error| error.to_string().contains("cannot resolve")));
    }

    #[tokio::test]
    async fn port_is_shared_only_with_reuse_port() {
        let host = ListenHost::Address(Ipv4Addr::LOCALHOST.into());
        let first = Listening::tcp(&host, 0, true).await.unwrap();
        let port = first.port().unwrap();
        assert!(Listening::tcp(&host, port, true).await.is_ok());
        assert!(
            Listening::tcp(&host, port, false)
                .await
                .is_err_and(|error| error.to_string().contains("--port N"))
        );
    }

    #[tokio::test]
    async fn socket_file_has_mode_and_is_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgrst.sock");
        let listening = Listening::unix(&path, 0o640).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(
            Listening::unix(&path, 0o640)
                .await
                .is_err_and(|error| error.to_string().contains("another program"))
        );
        drop(listening);
        assert!(!path.exists());
        // A stale file, as a killed server leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && Listening::unix(&path, 0o660).await.is_ok());
        std::fs::write(&path, "a file").unwrap();
        assert!(
            Listening::unix(&path, 0o660)
                .await
                .is_err_and(|error| error.to_string().contains("not a socket"))
        );
    }
}
