//! A NATS server for one test: Debian's nats-server, which `cargo xtask` unpacks if it is not installed.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::ports::free_port;
use crate::process;

/// A NATS server, killed on drop.
#[derive(Debug)]
pub struct NatsServer {
    port: u16,
    process: Mutex<Option<Child>>,
}

impl NatsServer {
    /// Starts a server.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start() -> Self {
        let server = Self { port: free_port(), process: Mutex::default() };
        server.restart().await;
        server
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it.
    pub fn stop(&self) {
        if let Some(mut process) = self.process.lock().expect("no test fails here").take() {
            let _gone = process.kill().and_then(|()| process.wait());
        }
    }

    /// Starts it again on its port.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&self) {
        self.stop();
        let unpacked = process::checkout().join("target/nats/usr/sbin/nats-server");
        let program = if unpacked.is_file() { unpacked } else { "nats-server".into() };
        let process = Command::new(&program)
            .args(["--addr", "127.0.0.1", "--port", &self.port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; `cargo xtask service` installs it", program.display())
            });
        *self.process.lock().expect("no test fails here") = Some(process);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nats-server does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
    }
}
