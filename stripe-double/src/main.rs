//! The program: a Stripe double on its own port, for a Basalt server on this machine.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use basalt_stripe_double::{Config, Double, PlanPrices, serve};
use clap::Parser;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Simulates Stripe for a Basalt server on this machine: API, checkout page, customer portal and signed webhooks. No money moves.
#[derive(Debug, Parser)]
#[command(name = "basalt-stripe-double", version)]
struct Arguments {
    /// Port on 127.0.0.1.
    #[arg(long, value_name = "N", default_value_t = 12111)]
    port: u16,
    /// Address of the Basalt server that sells the plans and receives the webhooks.
    #[arg(long, value_name = "URL", env = "SUPABASE_URL", default_value = "http://localhost:8000")]
    server: Url,
    /// Secret API key of that server, as printed by `basalt keys`; used to read the prices of its plans.
    #[arg(long, value_name = "KEY", env = "SUPABASE_SECRET_KEY", hide_env_values = true)]
    server_key: SecretString,
    /// Secret that signs the webhooks; must be the server's `stripe.webhook_secret`.
    #[arg(long, value_name = "SECRET", env = "BASALT_STRIPE_WEBHOOK_SECRET", hide_env_values = true)]
    webhook_secret: SecretString,
    /// Host name in the addresses of its pages; must refer to this machine.
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    host: String,
    /// File that stores the state across restarts.
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Exits when standard input is closed, which happens when the parent process ends.
    #[arg(long)]
    exit_with_stdin: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(tracing::Level::INFO).init();
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(io::stderr(), "basalt-stripe-double: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let Arguments { port, server, server_key, webhook_secret, host, state_file, exit_with_stdin } = arguments;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen on port {port}: {error}; choose another with --port"),
        )
    })?;
    let own = format!("http://{host}:{port}");
    let below = |path: &str| format!("{}{path}", server.as_str().trim_end_matches('/'));
    let invalid =
        |name: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{name} does not make a URL"));
    let double = Double::new(Config {
        base_url: own.parse().map_err(|_| invalid("--host"))?,
        endpoint: Some(below("/functions/v1/stripe-webhook").parse().map_err(|_| invalid("--server"))?),
        webhook_secret,
        prices: Arc::new(PlanPrices::new(
            below("/rest/v1").parse().map_err(|_| invalid("--server"))?,
            server_key,
        )),
        state_file,
    });
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone()));
    if exit_with_stdin {
        let at_end = shutdown.clone();
        // In a separate thread, because reading standard input cannot be cancelled.
        std::thread::spawn(move || {
            let _bytes = io::copy(&mut io::stdin().lock(), &mut io::sink());
            at_end.cancel();
        });
    }
    // Ignore a closed standard output.
    let _closed = writeln!(
        io::stdout(),
        "test payments: {own}\n\
         settings of the server: stripe.api_base = \"http://127.0.0.1:{port}\", stripe.secret_key = any sk_test_…, stripe.webhook_secret = the same secret"
    );
    serve(double, listener, shutdown).await
}

async fn cancel_on_signal(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    shutdown.cancel();
}
