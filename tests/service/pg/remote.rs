//! `database.listen`: the embedded PostgreSQL for other machines. A connection to this machine's own address stands for
//! one: the exception for the server itself is 127.0.0.1.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use basalt_testkit::{Basalt, Cluster, free_port};

/// Why the login fails.
async fn refusal(address: SocketAddr, login: &str, mode: &str) -> String {
    let url = format!("postgresql://{login}:wrong@{address}/postgres?sslmode={mode}");
    let database = Database::from_url(&url).map(|database| database.without_certificate_checks());
    match database {
        Ok(database) => match database.connect().await {
            Ok(_) => "accepted".to_owned(),
            Err(DriverError::Postgres(error)) => format!("{} {}", error.code, error.message),
            Err(DriverError::Connection(text)) => text,
        },
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn other_machines_need_tls_and_a_password() {
    let dir = Cluster::get().await.fresh_dir("certificate");
    let arguments = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-days",
        "2",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ];
    let made = Command::new("openssl").args(arguments).current_dir(&dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = free_port();
    // No packet is sent: the kernel only chooses the address.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    probe.connect("192.0.2.1:9").expect("this machine has a network address");
    let address = SocketAddr::new(probe.local_addr().unwrap().ip(), port);
    let server = Basalt::builder()
        .embedded()
        .expect_log("pg_hba.conf")
        .expect_log("password authentication failed")
        .config("database.port", &port.to_string())
        .config("database.listen", "0.0.0.0")
        .config("database.tls_certificate", &dir.join("cert.pem").display().to_string())
        .config("database.tls_key", &dir.join("key.pem").display().to_string())
        .start()
        .await;
    let plain = refusal(address, "postgres", "disable").await;
    assert!(plain.starts_with("28000 no pg_hba.conf entry") && plain.contains("no encryption"), "{plain}");
    let encrypted = refusal(address, "postgres", "require").await;
    assert!(encrypted.starts_with("28P01"), "SCRAM decides: {encrypted}");
    for login in ["supabase_admin", "authenticator", "supabase_auth_admin"] {
        let own = refusal(address, login, "require").await;
        assert!(own.starts_with("28000 pg_hba.conf rejects connection"), "{login}: {own}");
    }
    server.get("/rest/v1/").apikey(server.secret_key()).send().await.expect(200);
}
