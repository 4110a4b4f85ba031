//! `basalt functions …`: creates, lists and calls TypeScript functions, loads their modules, and shows their messages.

use std::fs;
use std::io::{self, Read as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use basalt_core::http_client::{HttpClient, Outgoing, Reach};
use basalt_functions::{inspect, message_files};
use clap::{Args, Subcommand, ValueEnum};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::keys;
use super::terminal::table;
use crate::config::Config;
use crate::function_facts;
use crate::secrets::Secrets;

const TEMPLATE: &str = include_str!("functions/index.ts");

/// The subcommands of `basalt functions`.
#[derive(Debug, Subcommand)]
pub(super) enum FunctionsCommand {
    /// Creates a function with an example.
    New {
        /// A letter followed by letters, digits, - and _.
        name: String,
    },
    /// Lists the functions and whether they can run.
    List,
    /// Starts the server with functions only; as `basalt serve --only functions`.
    Serve,
    /// Downloads the modules that functions import, for a server in production, which uses only these.
    Cache,
    /// Shows the messages of functions.
    Logs(Logs),
    /// Calls a function of the running server.
    Invoke(Invoke),
}

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// Only those of this function.
    name: Option<String>,
    /// Waits for further messages.
    #[arg(long, short)]
    follow: bool,
}

/// Which key a call has.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Anon,
    ServiceRole,
}

#[derive(Debug, Args)]
pub(super) struct Invoke {
    /// The name, with an optional path and query: `hello/path?x=1`.
    name: String,
    /// The method.
    #[arg(long, short = 'X', default_value = "POST")]
    method: Method,
    /// The body; `-` reads standard input.
    #[arg(long, short = 'd')]
    body: Option<String>,
    /// `Name: value`.
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,
    /// Whose key authorizes the call.
    #[arg(long, value_enum, default_value = "anon")]
    role: Role,
}

/// Runs a subcommand other than `serve`.
pub(super) async fn run(config: &Config, command: FunctionsCommand) -> anyhow::Result<ExitCode> {
    match command {
        FunctionsCommand::New { name } => create(config, &name)?,
        FunctionsCommand::List => return list(config).await,
        FunctionsCommand::Cache => return cache(config).await,
        FunctionsCommand::Logs(logs) => show_logs(config, &logs).await?,
        FunctionsCommand::Invoke(invoke) => return call(config, invoke).await,
        FunctionsCommand::Serve => bail!("use `basalt serve --only functions`"),
    }
    Ok(ExitCode::SUCCESS)
}

fn create(config: &Config, name: &str) -> anyhow::Result<()> {
    if !basalt_functions::is_name(name) {
        bail!("{name:?} is not a name for a function: use a letter followed by letters, digits, - and _");
    }
    let path = config.functions.dir.join(name).join("index.ts");
    if path.exists() {
        bail!("{} exists already", path.display());
    }
    let dir = config.functions.dir.join(name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    fs::write(&path, TEMPLATE).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(io::stdout(), "created {}", path.display())?;
    writeln!(io::stdout(), "call it: basalt functions invoke {name} --body '{{\"name\": \"Ada\"}}'")?;
    Ok(())
}

async fn list(config: &Config) -> anyhow::Result<ExitCode> {
    let functions = inspect(&config.functions, &function_facts::facts(config, None), false).await;
    let rows: Vec<Vec<String>> = functions
        .iter()
        .map(|function| {
            let state = match (&function.problem, function.is_enabled) {
                (_, false) => "disabled",
                (Some(_), true) => "cannot run",
                (None, true) => "ready",
            };
            let token = if function.verify_jwt { "yes" } else { "no" };
            vec![
                function.name.clone(),
                state.to_owned(),
                token.to_owned(),
                function.entry.display().to_string(),
            ]
        })
        .collect();
    io::stdout().write_all(table(&["NAME", "STATE", "VERIFY_JWT", "FILE"], &rows).as_bytes())?;
    if let Some(problem) = functions.iter().find_map(|function| function.problem.as_ref()) {
        writeln!(io::stderr(), "basalt: {problem}")?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

async fn cache(config: &Config) -> anyhow::Result<ExitCode> {
    let mut facts = function_facts::facts(config, None);
    // As in development, where a missing module is downloaded.
    facts.is_development = true;
    let functions = inspect(&config.functions, &facts, true).await;
    let mut code = ExitCode::SUCCESS;
    for function in functions.iter().filter(|function| function.is_enabled) {
        match &function.problem {
            None => writeln!(io::stdout(), "{}: its modules are in the cache", function.name)?,
            Some(problem) => {
                code = ExitCode::FAILURE;
                writeln!(io::stderr(), "basalt: {}: {problem}", function.name)?;
            }
        }
    }
    Ok(code)
}

async fn show_logs(config: &Config, logs: &Logs) -> anyhow::Result<()> {
    const POLL: Duration = Duration::from_millis(300);
    let [current, previous] = message_files(&config.server.state_dir);
    let mut out = io::stdout();
    if let Ok(text) = fs::read_to_string(&previous) {
        print_messages(&text, logs, &mut out)?;
    }
    let mut shown = 0;
    loop {
        let text = fs::read_to_string(&current).unwrap_or_default();
        // The file was replaced by a new one.
        if text.len() < shown {
            shown = 0;
        }
        // Up to the end of the last complete line.
        let end = text.rfind('\n').map_or(shown, |end| end + 1);
        print_messages(text.get(shown..end).unwrap_or_default(), logs, &mut out)?;
        shown = end;
        if !logs.follow {
            return Ok(());
        }
        sleep(POLL).await;
    }
}

fn print_messages(text: &str, logs: &Logs, out: &mut impl Write) -> io::Result<()> {
    for line in text.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let field = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
        if logs.name.as_ref().is_none_or(|name| name == field("function")) {
            let (at, function, level) = (field("at"), field("function"), field("level"));
            writeln!(out, "{at} {level:<5} {function} [{}] {}", field("request_id"), field("message"))?;
        }
    }
    out.flush()
}

async fn call(config: &Config, invoke: Invoke) -> anyhow::Result<ExitCode> {
    const RESPONSE_BYTES: usize = 64 << 20;
    let secrets = Secrets::load(config)?;
    let in_force = keys::in_force(config, &secrets).await;
    let base = keys::server_url(config, &secrets, &in_force).await;
    let url = format!("{}/functions/v1/{}", base.trim_end_matches('/'), invoke.name);
    let _checked: Uri = url.parse().with_context(|| format!("{:?} is not a path", invoke.name))?;
    let url = url.parse().with_context(|| format!("{:?} is not a path", invoke.name))?;
    let key = match invoke.role {
        Role::Anon => in_force.anon.clone(),
        Role::ServiceRole => in_force.service.expose_secret().to_owned(),
    };
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))?);
    let body = match invoke.body.as_deref() {
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
        Some(text) => text.as_bytes().to_vec(),
        None => Vec::new(),
    };
    if !body.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for header in &invoke.headers {
        let (name, value) =
            header.split_once(':').with_context(|| format!("{header:?} is not `Name: value`"))?;
        headers.insert(HeaderName::try_from(name.trim())?, HeaderValue::try_from(value.trim())?);
    }
    let limit = config.functions.idle_timeout + Duration::from_secs(30);
    let outgoing =
        Outgoing { method: invoke.method, url: &url, headers, body: body.into(), limit: RESPONSE_BYTES };
    let answered = HttpClient::new(Reach::Anywhere).send(outgoing, Instant::now() + limit).await;
    let answer = answered.with_context(|| format!("cannot call {base}: is the server running?"))?;
    let mut out = io::stdout();
    out.write_all(&answer.body)?;
    out.flush()?;
    writeln!(io::stderr(), "\n{}", answer.status)?;
    Ok(if answer.status.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
