//! Short requests to a server on this machine, for `doctor` and `keys`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::{Config, ListenHost};

const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BYTES: u64 = 16 * 1024;

/// The address to connect to for `host`; a name is not resolved here.
pub(crate) const fn address(host: &ListenHost) -> IpAddr {
    match host {
        ListenHost::Address(address) => *address,
        ListenHost::Everywhere | ListenHost::Name(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ListenHost::EveryIpv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// The complete response to `GET path`, if a server responds.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let local = match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
    };
    let exchange = async {
        let mut stream = TcpStream::connect(local).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.take(MAX_BYTES).read_to_end(&mut response).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&response).into_owned())
    };
    tokio::time::timeout(TIMEOUT, exchange).await.ok()?.ok()
}

/// The address and publishable key of the Basalt server at the configured port, if it responds.
pub(crate) async fn app_config(config: &Config) -> Option<(String, String)> {
    if config.server.unix_socket.is_some() {
        return None;
    }
    let address = SocketAddr::new(address(&config.server.host), config.server.port);
    let response = get(address, "/app-config.json").await?;
    let (_head, body) = response.split_once("\r\n\r\n")?;
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let text = |name: &str| body.get(name)?.as_str().map(str::to_owned);
    Some((text("url")?, text("anonKey")?))
}
