//! Scratch.
use basalt_core::system_migrations::*;
use secrecy::SecretString;
async fn connect(port: u16, db: &str, user: &str, password: &str) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    if password.is_empty() {
        config.host_path("/tmp/schema/sock");
    } else {
        config.host("127.0.0.1");
    }
    config.port(port).user(user).dbname(db).password(password);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
fn settings(layout: Layout) -> MigrationSettings {
    MigrationSettings {
        passwords: vec![
            ("authenticator", SecretString::from("pw1")),
            ("supabase_auth_admin", SecretString::from("pw2")),
            ("postgres", SecretString::from("pw3")),
        ],
        layout,
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn all() {
    for port in [5515, 5516, 5517, 5518] {
        let mut admin = connect(port, "postgres", "supabase_admin", "").await;
        for n in 0..4 {
            admin.batch_execute(&format!("drop database if exists race{n}")).await.unwrap();
            admin.batch_execute(&format!("create database race{n}")).await.unwrap();
        }
        let mut tasks = Vec::new();
        for n in 0..8 {
            tasks.push(tokio::spawn(async move {
                let mut c = connect(port, &format!("race{}", n % 4), "supabase_admin", "").await;
                apply(&mut c, &[], &settings(Layout::Supabase)).await
            }));
        }
        for t in tasks {
            let r = t.await.unwrap();
            println!("{port} {:?}", r.unwrap().applied);
        }
        let start = std::time::Instant::now();
        let r = apply(&mut admin, &[], &settings(Layout::Basalt)).await.unwrap();
        println!("{port} {r:?} {:?}", start.elapsed());
        let start = std::time::Instant::now();
        let r = apply(&mut admin, &[], &settings(Layout::Basalt)).await.unwrap();
        println!("{port} again {r:?} {:?}", start.elapsed());
        assert!(r.applied.is_empty() && r.passwords_set.is_empty());
        admin.batch_execute("drop database if exists clone").await.unwrap();
        admin.batch_execute("create database clone template race0").await.unwrap();
        let mut c = connect(port, "clone", "supabase_admin", "").await;
        let r = apply(&mut c, &[], &settings(Layout::Supabase)).await.unwrap();
        println!("clone {r:?}");
        drop(c);
    }
}
