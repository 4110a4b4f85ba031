//! `dev`: from a fresh clone to a running server with the app; and commands for the running server.
//!
//! Common causes of failures are checked first. The server's build needs the CPU and npm the network, so both run in parallel;
//! if one fails, the other is stopped. Unchanged parts are skipped: packages by lock file, the app by its sources, the server by cargo.
//!
//! The server runs together with a Stripe double (decision 0099), and with Vite if `--watch` is given. Without either, this process becomes the server.

use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::cargo_build::CargoBuild;
use crate::run::{self, Running};
use crate::server::{free_port, status};
use crate::stripe_double::{self, StripeDouble};
use crate::suite::{cargo, cargo_command};
use crate::{Arguments, node, postgres_extras, preflight, ui};

/// The cargo profile of `dev`, which is also a folder in the target folder (decision 0090).
pub(crate) const PROFILE: &str = "local";

/// Installs and builds what is missing, and starts the server.
pub(crate) fn dev(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    ui::note("Basalt: checking requirements");
    preflight::check_server(root, &arguments.passed)?;
    preflight::check(root, preflight::Build::Server)?;
    build(root)?;
    let basalt = server_program(root);
    let mut serve = Command::new(&basalt);
    serve.current_dir(root).arg("serve").args(&arguments.passed);
    let config = Effective::read(root, &basalt, &arguments.passed);
    let double =
        config.filter(Effective::needs_double).map(|config| double(&config, &mut serve)).transpose()?;
    let watches = arguments.has("--watch");
    if double.is_none() && !watches {
        ui::note(&run::line(&serve));
        return become_program(&mut serve);
    }
    let vite = watches.then(|| node::script(root, "app", "dev", &[]));
    side_by_side(root, &mut serve, double, vite, &arguments.passed)
}

/// The double's default port.
const DOUBLE_PORT: u16 = 12111;

/// The effective settings, as printed by `basalt config`.
struct Effective(String);

impl Effective {
    /// `None` for a faulty configuration: the server reports the faults.
    fn read(root: &Path, basalt: &Path, arguments: &[String]) -> Option<Self> {
        let mut command = Command::new(basalt);
        run::output(command.current_dir(root).arg("config").args(arguments)).map(Self)
    }

    fn get(&self, section: &str, key: &str) -> Option<&str> {
        let mut lines = self.0.lines().skip_while(|line| line.trim() != format!("[{section}]")).skip(1);
        let line = lines.by_ref().take_while(|line| !line.starts_with('[')).find_map(|line| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.strip_prefix(key)?.strip_prefix(" =").map(str::trim_start)
        })?;
        let value = match line.strip_prefix('"') {
            Some(text) => text.split('"').next()?,
            None => line.split(" #").next()?.trim(),
        };
        Some(value).filter(|value| !value.is_empty() && !value.starts_with('#'))
    }

    /// Whether this server has plans to sell and no Stripe account.
    fn needs_double(&self) -> bool {
        self.get("server", "mode") == Some("development")
            && self.get("functions", "builtin") == Some("true")
            && self.get("stripe", "secret_key").is_none()
            && self.get("stripe", "api_base").is_none()
    }
}

/// A Stripe double that starts once its server is ready.
struct WaitingDouble {
    double: StripeDouble,
    server: String,
    port: u16,
    state_file: PathBuf,
}

/// Configures the server for a new double.
fn double(config: &Effective, serve: &mut Command) -> Result<WaitingDouble> {
    let get = |key| {
        config.get("server", key).with_context(|| format!("the output of `basalt config` lacks server.{key}"))
    };
    let is_free = std::net::TcpListener::bind(("127.0.0.1", DOUBLE_PORT)).is_ok();
    let double = StripeDouble::new("localhost", if is_free { DOUBLE_PORT } else { free_port()? })?;
    serve.envs(double.settings());
    Ok(WaitingDouble {
        double,
        server: get("public_url")?.to_owned(),
        port: get("port")?.parse().context("server.port")?,
        state_file: Path::new(get("state_dir")?).join("stripe-double.json"),
    })
}

impl WaitingDouble {
    /// Starts the double if the server is ready.
    fn start_when_ready(&mut self, root: &Path, arguments: &[String]) -> Result<()> {
        if self.double.is_started() || status(self.port, "GET", "/ready") != Some(200) {
            return Ok(());
        }
        let basalt = server_program(root);
        let mut keys = Command::new(&basalt);
        let keys = run::output(keys.current_dir(root).arg("keys").args(arguments)).unwrap_or_default();
        let key = keys.lines().find_map(|line| line.strip_prefix("SUPABASE_SECRET_KEY="));
        let key = key.context("the output of `basalt keys` lacks the secret key")?;
        self.double.start(&basalt, &self.server, key, &self.state_file, None)
    }
}

/// The server's program, built by `dev`.
fn server_program(root: &Path) -> PathBuf {
    target(root).join(PROFILE).join("basalt")
}

/// Builds the server and the app in parallel; if one fails, stops the other, so that the error is reported at once.
fn build(root: &Path) -> Result<()> {
    let folder = root.join("target/xtask");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let log = folder.join("app-build.log");
    std::thread::scope(|scope| {
        let mut app = Some(scope.spawn(|| {
            node::install(root, Some(&log))?;
            postgres_extras::install_if_possible(root);
            build_app(root, Some(&log))
        }));
        if !server_program(root).is_file() {
            ui::note("building the server: about five minutes on two cores the first time");
        }
        let arguments = ["build", "--profile", PROFILE, "-p", "basalt", "-p", stripe_double::PROGRAM];
        let mut server = CargoBuild::start(root, "building the server", &arguments)?;
        let mut is_server_done = false;
        while !is_server_done || app.is_some() {
            is_server_done = is_server_done || server.is_done().context("cannot build the server")?;
            if let Some(ended) = app.take_if(|app| app.is_finished()) {
                let result = ended.join().unwrap_or_else(|_| Err(anyhow!("the app's build panicked")));
                result.inspect_err(|_| ui::print(&std::fs::read_to_string(&log).unwrap_or_default()))?;
            }
            run::pause(Duration::from_millis(20));
        }
        ui::note("server and app are up to date");
        Ok(())
    })
}

/// Builds the app unless it is up to date. With `quiet_log`, Vite's output goes to this file instead of the terminal.
pub(crate) fn build_app(root: &Path, quiet_log: Option<&Path>) -> Result<()> {
    let stamp = root.join("target/xtask/app.stamp");
    let fingerprint = fingerprint(root)?;
    let built = root.join("app/dist/index.html").is_file();
    if built && std::fs::read_to_string(&stamp).is_ok_and(|old| old == fingerprint) {
        return Ok(());
    }
    ui::note("building the app");
    let mut command = node::script(root, "app", "build", &[]);
    if let Some(log) = quiet_log {
        let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
    }
    run::run(&mut command).context("cannot build the app")?;
    std::fs::write(&stamp, fingerprint).with_context(|| format!("cannot write {}", stamp.display()))?;
    ui::note("building the app: done");
    Ok(())
}

/// A hash of the paths, sizes and times of the app's sources and the lock file.
fn fingerprint(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    sources(&root.join("app"), &mut files)?;
    files.push(root.join("package-lock.json"));
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        let data = std::fs::metadata(file)
            .with_context(|| format!("cannot read the metadata of {}", file.display()))?;
        hasher.write(file.as_os_str().as_encoded_bytes());
        hasher.write_u64(data.len());
        hasher.write_i64(data.mtime());
        hasher.write_i64(data.mtime_nsec());
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    const NOT_SOURCES: [&str; 5] = ["node_modules", "dist", "e2e", "test-results", "playwright-report"];
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            files.push(entry.path());
        } else if !NOT_SOURCES.iter().any(|name| entry.file_name() == *name) {
            sources(&entry.path(), files)?;
        }
    }
    Ok(())
}

/// Runs the server with a Stripe double, Vite or both; if the server or Vite ends, the others are stopped.
fn side_by_side(
    root: &Path,
    serve: &mut Command,
    mut double: Option<WaitingDouble>,
    vite: Option<Command>,
    arguments: &[String],
) -> Result<ExitCode> {
    ui::note(&run::line(serve));
    let mut server = Running::spawn(serve)?;
    let mut vite = vite.map(|mut vite| Running::spawn(&mut vite)).transpose()?;
    loop {
        match server.try_wait()? {
            // Stopped with Ctrl-C.
            Some(status) if status.success() => return Ok(ExitCode::SUCCESS),
            Some(status) => bail!("the server ended ({status})"),
            None => {}
        }
        if let Some(vite) = &mut vite
            && let Some(status) = vite.try_wait()?
        {
            bail!("Vite ended ({status})");
        }
        if let Some(double) = &mut double {
            double.start_when_ready(root, arguments)?;
        }
        run::pause(Duration::from_millis(100));
    }
}

/// Opens psql on the database of the server started by `dev`.
pub(crate) fn psql(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut keys = Command::new(server_program(root));
    keys.current_dir(root).arg("keys");
    let text =
        run::output(&mut keys).context("the server has not been built; run `cargo xtask dev` first")?;
    let url = database_url(&text).context(
        "the output of `basalt keys` has no database URL; start the server with `cargo xtask dev` first",
    )?;
    let psql = program_of_postgres("psql")
        .context("psql was not found; to install it, run `sudo apt-get install -y postgresql-client`")?;
    become_program(Command::new(psql).arg(url).args(arguments))
}

/// The first PostgreSQL URL in the output of `basalt keys` (`NAME=URL` lines).
fn database_url(keys: &str) -> Option<&str> {
    let urls = keys.lines().filter_map(|line| line.split_once('=').map(|(_, value)| value));
    urls.into_iter().find(|value| value.starts_with("postgres://") || value.starts_with("postgresql://"))
}

/// A PostgreSQL client program from `PATH` or Debian's folders, newest version first.
fn program_of_postgres(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> =
            versions.flatten().map(|version| version.path().join("bin")).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev());
    }
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Builds and runs the benchmarks.
pub(crate) fn bench(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    node::install(root, None)?;
    ui::note("cargo build --release: server and load generator");
    cargo(root, &["build", "--release", "-p", "basalt", "-p", "basalt-bench"])?;
    let mut command = Command::new(target(root).join("release/basalt-bench"));
    command.current_dir(root).args(arguments);
    if arguments.is_empty() {
        command.arg("rest");
    }
    become_program(&mut command)
}

/// Regenerates the generated files in `docs/`.
pub(crate) fn gen_docs(root: &Path) -> Result<ExitCode> {
    ui::note("writing docs/CONFIG.md, docs/ERRORS.md and docs/METRICS.md");
    // With this variable, the tests that compare the files write them instead.
    let tests = ["test", "-p", "basalt", "--lib", "document_is_up_to_date"];
    run::run(cargo_command(root).args(tests).env("BASALT_TEST_BLESS", "1"))?;
    Ok(ExitCode::SUCCESS)
}

/// Regenerates the app's types from its migrations, on a test database.
pub(crate) fn gen_types(root: &Path) -> Result<ExitCode> {
    node::install(root, None)?;
    ui::note("writing app/src/lib/database.types.ts");
    // With this variable, the test that compares the file writes it instead.
    let test = ["test", "-p", "basalt", "--test", "service", "app_types_match_its_schema"];
    run::run(cargo_command(root).args(test).env("BASALT_TEST_BLESS", "1"))?;
    Ok(ExitCode::SUCCESS)
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Replaces this process; returns only on failure.
fn become_program(command: &mut Command) -> Result<ExitCode> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{}`", run::line(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_effective_settings_by_section() {
        let text = "# File: x\n\n[server]\nport = 8000        # default\npublic_url = \"http://localhost:8000\"   # default\nmode = \"development\" # default\n\n\
                    [functions]\nbuiltin = true   # basalt.toml:6\n\n[stripe]\n# secret_key =   # not set\n# webhook_secret = (set)  # X\n# api_base =  # not set: Stripe's\n";
        let config = Effective(text.to_owned());
        assert_eq!(config.get("server", "port"), Some("8000"));
        assert_eq!(config.get("server", "public_url"), Some("http://localhost:8000"));
        assert_eq!(config.get("stripe", "webhook_secret"), Some("(set)"));
        assert_eq!((config.get("stripe", "secret_key"), config.get("stripe", "port")), (None, None));
        assert!(config.needs_double());
        let with_key = Effective(text.replace("# secret_key =  ", "# secret_key = (set)"));
        assert!(!with_key.needs_double());
    }
}
