//! `functions`: the app's built-in functions, without and with a call to Stripe, and a burst of webhooks, for which this program acts as
//! Stripe and responds immediately; then TypeScript functions beside Deno alone.

mod burst;
mod stripe;
mod typescript;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use crate::basalt::{self, Basalt};
use crate::functions::stripe::Stripe;
use crate::http::{self, Connection, Load};
use crate::options::UnderTest;
use crate::process;
use crate::report::{self, median, megabytes, rounded};
use crate::token;

/// Users, each with a token: a function takes ten calls a minute of one.
const USERS: u64 = 2_000;
/// Calls of a user for a measurement; three rounds and a warm-up stay below the limit.
const CALLS: usize = 2;

/// Two built-in functions, a thousand webhooks at once, and TypeScript functions.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Connections of the calls, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Vec<u16>,
    /// Events of the burst.
    #[arg(long, default_value_t = 1_000)]
    events: u64,
    /// The output file.
    #[arg(long, default_value = "target/bench/functions.json")]
    json: PathBuf,
    #[command(flatten)]
    under_test: UnderTest,
}

/// The function called.
#[derive(Clone, Copy)]
enum Called {
    /// `cancel-subscription` of one that the caller does not have: who calls, may they, no call of Stripe.
    Refusal,
    /// `create-portal-session`: the same with one call of Stripe.
    Portal,
}

impl Called {
    const ALL: [Self; 2] = [Self::Refusal, Self::Portal];

    const fn name(self) -> &'static str {
        match self {
            Self::Refusal => "cancel-subscription, another's",
            Self::Portal => "create-portal-session",
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Refusal => 404,
            Self::Portal => 200,
        }
    }

    fn request(self, token: &str) -> Vec<u8> {
        let (path, body) = match self {
            Self::Refusal => ("cancel-subscription", r#"{"subscriptionId":"sub_of_another"}"#),
            Self::Portal => ("create-portal-session", "{}"),
        };
        format!(
            "POST /functions/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let stripe = Stripe::start().await?;
    let mut samples: Vec<(Called, u16, Load)> = Vec::new();
    let mut bursts = Vec::new();
    let (mut idle, mut busy, mut version) = (0, 0, String::new());
    for round in 1..=options.under_test.rounds {
        // A new server each time, because the functions are rate-limited per user.
        let mut basalt = Basalt::start_app(program, work, &stripe.settings()).await?;
        basalt.database_version.clone_into(&mut version);
        add_users(&basalt).await?;
        let tokens: Vec<String> =
            (0..USERS).map(|number| token::sign(&token::claims(&token::person_id(number)))).collect();
        idle = process::resident_bytes(basalt.running.pid());
        for called in Called::ALL {
            let requests: Rc<Vec<Vec<u8>>> =
                Rc::new(tokens.iter().map(|token| called.request(token)).collect());
            // The first calls open connections to PostgreSQL.
            calls(basalt.port, &requests, called.status(), 64, 1).await?;
            for &connections in &options.connections {
                let load = calls(basalt.port, &requests, called.status(), connections, CALLS).await?;
                samples.push((called, connections, load));
            }
        }
        bursts.push(burst::measure(&basalt, &stripe, options.events).await?);
        basalt.running.check()?;
        busy = process::resident_bytes(basalt.running.pid());
        report::print(&format!("round {round} of {} done", options.under_test.rounds));
    }
    report::print("\n                                                rate/s   p50 ms   p99 ms");
    let mut rows = Vec::new();
    for called in Called::ALL {
        for &connections in &options.connections {
            let of = |figure: fn(&Load) -> f64| {
                let own = samples.iter().filter(|row| row.0.name() == called.name() && row.1 == connections);
                median(own.map(|row| figure(&row.2)))
            };
            let (rate, p50, p99) =
                (of(Load::rate), of(|load| load.quantile_ms(0.5)), of(|load| load.quantile_ms(0.99)));
            let name = format!("{}, {connections} connections", called.name());
            report::print(&format!("{name:<46}  {rate:>6.0}  {p50:>7.2}  {p99:>7.2}"));
            rows.push(json!({
                "function": called.name(), "connections": connections,
                "per_second": rounded(rate), "p50_ms": rounded(p50), "p99_ms": rounded(p99),
            }));
        }
    }
    let burst = report::medians(&bursts);
    report::print(&format!("\n{} webhooks at once, 64 connections: {burst}", options.events));
    report::print(&format!(
        "server: {:.1} MB idle, {:.1} MB after the load",
        megabytes(idle),
        megabytes(busy)
    ));
    let typescript = typescript::measure(program, work).await?;
    let figures = json!({
        "circumstances": circumstances, "rounds": options.under_test.rounds, "postgresql": version,
        "resident_mb": { "idle": rounded(megabytes(idle)), "after": rounded(megabytes(busy)) },
        "functions": rows, "burst": burst, "typescript": typescript,
    });
    report::write(&options.json, &figures)
}

/// Accounts, each with a customer at Stripe.
async fn add_users(basalt: &Basalt) -> Result<()> {
    let users = format!(
        "insert into auth.users (id, aud, role, email, email_confirmed_at)
         select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'authenticated', 'authenticated',
           'bench' || n || '@example.org', now()
         from generate_series(0, {USERS} - 1) n;
         insert into public.stripe_customers (user_id, livemode, stripe_customer_id)
         select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, false, 'cus_' || n
         from generate_series(0, {USERS} - 1) n;
         analyze auth.users, public.stripe_customers"
    );
    basalt.database().await?.batch_execute(&users).await.context("cannot add the users")
}

/// Sends each request this many times, each on only one connection.
async fn calls(
    port: u16,
    requests: &Rc<Vec<Vec<u8>>>,
    status: u16,
    connections: u16,
    times: usize,
) -> Result<Load> {
    let local = LocalSet::new();
    local
        .run_until(async {
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for first in 0..usize::from(connections) {
                let requests = Rc::clone(requests);
                tasks.spawn_local(async move {
                    let mut connection = Connection::open(port).await?;
                    let mut taken = http::histogram()?;
                    let own = requests.iter().skip(first).step_by(connections.into());
                    for request in std::iter::repeat_n(own, times).flatten() {
                        let start = Instant::now();
                        let actual = connection.exchange(request).await?;
                        if actual != status {
                            bail!("{}", connection.response());
                        }
                        taken.record(u64::try_from(start.elapsed().as_nanos())?)?;
                    }
                    Ok(taken)
                });
            }
            let mut all = http::histogram()?;
            while let Some(result) = tasks.join_next().await {
                all.add(result??).context("histograms differ")?;
            }
            Ok(Load { times: all, elapsed: start.elapsed() })
        })
        .await
}

/// Milliseconds, for a report.
fn milliseconds(time: Duration) -> Value {
    rounded(time.as_secs_f64() * 1e3)
}
