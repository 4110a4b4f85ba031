//! The double of Stripe in a development server without a Stripe key: mounted beside the services, reached by the functions
//! over HTTP as Stripe is, with the project's plans as its prices.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use basalt_core::pool::ServicePool;
use basalt_core::seal::Sealer;
use basalt_core::service::{BodyMode, Cors, Fault, Service};
use basalt_core::session::SessionError;
use basalt_http::layers::Mount;
use basalt_http::layers::api_key::Gate;
use basalt_planning::StripeConfig;
use basalt_stripe_double::{Config as DoubleConfig, Double, Interval, PATH, Price, Prices};
use futures_util::future::{BoxFuture, FutureExt as _};
use http::StatusCode;
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::config::{Config, Only};
use crate::secrets::Secrets;

/// Longest body of a page or a call; the double limits them itself.
const BODY_BYTES: usize = 256 * 1024;
const DEADLINE: Duration = Duration::from_secs(60);
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
/// Any test key is good for it.
const KEY: &str = "sk_test_the_double_of_stripe";

/// Starts the double where a server has one; how the functions reach it, and where people do.
pub(crate) fn start(
    config: &Config,
    secrets: &Secrets,
    pool: &ServicePool,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> Option<(StripeConfig, Mount)> {
    let runs_functions = matches!(config.only, None | Some(Only::Functions));
    let is_wanted = config.functions.builtin
        && runs_functions
        && config.is_development()
        && !config.effective.iter().any(|effective| matches!(effective.setting.key, "stripe.secret_key" | "stripe.api_base") && effective.value.is_some())
        // It is reached over TCP.
        && config.server.unix_socket.is_none();
    if !is_wanted {
        return None;
    }
    let own = format!("http://localhost:{}", config.server.port);
    let url = |text: String| text.parse::<Url>().ok();
    let prefix = config.server.prefix.as_deref().unwrap_or("/functions/v1");
    // The same after a restart: events that wait are still ours.
    let secret = Sealer::new(secrets.master_key(), "double of Stripe");
    let secret = SecretString::from(format!("whsec_{}", secret.fingerprint()));
    let double = Double::new(DoubleConfig {
        base_url: url(format!("{}{PATH}", config.server.public_url))?,
        endpoint: url(format!("{own}{prefix}/stripe-webhook")),
        webhook_secret: secret.clone(),
        prices: Arc::new(Plans(pool.clone())),
        state_file: Some(config.server.state_dir.join("stripe-double.json")),
    });
    tracker.spawn(double.clone().run(shutdown.clone()));
    let stripe = StripeConfig {
        secret_key: Some(SecretString::from(KEY)),
        webhook_secret: Some(secret),
        api_base: format!("{own}{PATH}").parse().ok(),
    };
    Some((stripe, Mount::new(PATH, service(&double), Gate::Untouched)))
}

fn service(double: &Double) -> Service {
    Service {
        name: "stripe-double",
        prefix: PATH,
        router: double.router(),
        bodies: |_| BodyMode::Buffered,
        body_limit: BODY_BYTES,
        deadline: DEADLINE,
        compresses: false,
        cors: Cors { methods: "GET, POST, DELETE", expose: "", preflight_status: StatusCode::NO_CONTENT },
        // No page of another origin may call it.
        own_preflight: Some(Box::new(|_| true)),
        renderer: |_| Box::new(|fault| render(&fault)),
    }
}

fn render(fault: &Fault) -> Response {
    let (status, text) = match fault {
        Fault::NotFound => (StatusCode::NOT_FOUND, "There is no such page."),
        Fault::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "This page takes other methods."),
        Fault::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "The request is too large."),
        Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "The double of Stripe did not answer in time."),
        Fault::SlowBody => (StatusCode::REQUEST_TIMEOUT, "The request came too slowly."),
        Fault::BadRequest(_) => (StatusCode::BAD_REQUEST, "The request cannot be read."),
        Fault::Panic { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "The double of Stripe failed."),
        Fault::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "The server is overloaded."),
    };
    (status, text).into_response()
}

/// The project's plans.
struct Plans(ServicePool);

impl Prices for Plans {
    fn prices(&self) -> BoxFuture<'_, Result<Vec<Price>, String>> {
        async move { self.read().await.map_err(|error| error.to_string()) }.boxed()
    }
}

impl Plans {
    async fn read(&self) -> Result<Vec<Price>, SessionError> {
        const PLANS: &str = "\
select stripe_price_id, name, (price * 100)::bigint, \"interval\", active from public.subscription_plans limit 1000";
        let tx = self.0.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(PLANS, &[]).await;
        let price = |row: &tokio_postgres::Row| {
            Some(Price {
                id: row.try_get(0).ok()?,
                product_name: row.try_get(1).ok()?,
                unit_amount: row.try_get(2).ok()?,
                currency: "usd".to_owned(),
                interval: Interval::parse(row.try_get(3).ok()?)?,
                active: row.try_get(4).ok()?,
            })
        };
        Ok(tx.finish(rows).await?.iter().filter_map(price).collect())
    }
}
