//! An S3-compatible server: moto, which keeps buckets in memory. `cargo xtask` installs it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use tokio::sync::OnceCell;

use crate::http::Request;
use crate::ports::free_port;
use crate::process;

/// Serves until its standard input closes, which happens when the test process ends for any reason.
const PROGRAM: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=int(sys.argv[1]), verbose=False)
server.start()
print('ready', flush=True)
sys.stdin.read()
";

/// The S3-compatible server of this test process.
#[derive(Debug)]
pub struct S3Server {
    port: u16,
    buckets: AtomicU32,
    /// The process waits for the end of its standard input.
    _process: Child,
}

impl S3Server {
    /// The server, started on first use.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn get() -> &'static Self {
        static SERVER: OnceCell<S3Server> = OnceCell::const_new();
        SERVER.get_or_init(|| async { Self::start() }).await
    }

    fn start() -> Self {
        let port = free_port();
        let python = process::checkout().join("target/moto/bin/python");
        let mut process = Command::new(&python)
            .args(["-c", PROGRAM, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; `cargo xtask service` installs it", python.display())
            });
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        let _bytes = BufReader::new(output).read_line(&mut line).expect("its output can be read");
        assert_eq!(line, "ready\n", "the S3 server starts");
        Self { port, buckets: AtomicU32::new(0), _process: process }
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Creates a bucket and returns its name.
    ///
    /// # Panics
    /// If the server does not create it.
    pub async fn bucket(&self) -> String {
        let name = format!("bucket-{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        let _made = Request::new(Method::PUT, format!("{}/{name}", self.url())).send().await.expect(200);
        name
    }
}
