//! Tells systemd when the server is ready and when it stops (`Type=notify`, sd_notify(3)).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Whether a service manager started this program and waits for notifications.
pub(crate) fn is_present() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty())
}

/// Sends a state such as `READY=1`, if a service manager waits for it.
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return };
    if let Err(error) = send(path.as_bytes(), state) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// Sends to a socket file, or to the abstract socket that `@name` means.
fn send(path: &[u8], state: &str) -> io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(path)))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_socket_receive_the_state() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("basalt-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}").into_bytes()),
        ];
        for (socket, address) in sockets {
            send(&address, "READY=1").unwrap();
            let mut buffer = [0; 16];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
        assert!(send(b"/nowhere/at/all", "READY=1").is_err());
    }
}
