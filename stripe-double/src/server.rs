//! Serves the double on a socket, for programs on this machine only.

use std::io;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::extract::connect_info::IntoMakeServiceWithConnectInfo;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Router, extract};
use basalt_http::local_only;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Double;

/// Serves the double and delivers its webhooks until `shutdown`.
///
/// # Errors
/// The listener fails.
pub async fn serve(double: Double, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
    let service = service(&double);
    let served = axum::serve(listener, service).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let served = async {
        let served = served.await;
        // Deliveries stop together with the listener.
        shutdown.cancel();
        served
    };
    let (served, ()) = tokio::join!(served, double.run(shutdown.clone()));
    served
}

fn service(double: &Double) -> IntoMakeServiceWithConnectInfo<Router, SocketAddr> {
    double.router().layer(middleware::from_fn(admit)).into_make_service_with_connect_info()
}

/// Rejects requests from other machines, and from pages with other host names (decision 0084).
async fn admit(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: extract::Request<Body>,
    next: Next,
) -> Response {
    match local_only::refusal(peer.ip(), &request, &[]) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}
