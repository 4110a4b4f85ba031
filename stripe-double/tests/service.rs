//! The program itself: what it listens on, whom it answers, what it keeps.

#![expect(clippy::unwrap_used, reason = "helpers fail a test by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Program(Child, u16);

impl Program {
    fn start(state_file: &Path) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut child = Command::new(env!("CARGO_BIN_EXE_basalt-stripe-double"))
            .env_clear()
            .env("SUPABASE_SECRET_KEY", "sb_secret_x")
            .env("BASALT_STRIPE_WEBHOOK_SECRET", "whsec_x")
            .args(["--port", &port.to_string(), "--server", "http://127.0.0.1:1", "--exit-with-stdin"])
            .arg("--state-file")
            .arg(state_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(&format!("http://localhost:{port}")), "{line}");
        Self(child, port)
    }

    /// The status of a request with these headers.
    fn get(&self, path: &str, headers: &str) -> u16 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.1)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn only_programs_of_this_machine_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(&folder.path().join("state.json"));
    for (headers, status) in [
        ("Host: localhost:1\r\n", 200),
        ("Host: 127.0.0.1\r\n", 200),
        ("Host: evil.example\r\n", 404),
        ("Host: localhost\r\nX-Forwarded-For: 127.0.0.1\r\n", 404),
        ("Host: localhost\r\nForwarded: for=127.0.0.1\r\n", 404),
    ] {
        assert_eq!(program.get("/_control/state", headers), status, "{headers}");
    }
    let foreign = TcpStream::connect((Ipv4Addr::new(127, 0, 0, 2), program.1));
    assert!(foreign.is_err(), "it listens on 127.0.0.1 alone");
    end(program);
}

#[test]
fn it_ends_with_its_standard_input_and_keeps_its_state_private() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    end(Program::start(&state));
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
}

fn end(program: Program) {
    let Program(mut child, _) = program;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
