//! The task that loads the schema cache: at the start, until it succeeds; then after each notification, signal, lost
//! connection, or request that detected a change.

use std::time::Duration;

use basalt_pg::listen::Event;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RestHandle;

/// Minimum interval between the starts of two loads.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Time that the first load waits for the listener to connect.
const LISTENER_WAIT: Duration = Duration::from_millis(500);
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(32);

/// Loads the schema cache, then reloads it on `events` until `shutdown`.
pub(crate) async fn follow(
    handle: RestHandle,
    events: broadcast::Receiver<Event>,
    shutdown: CancellationToken,
) {
    shutdown.run_until_cancelled(Box::pin(run(&handle, events))).await;
    handle.0.progress.stop();
}

#[expect(clippy::infinite_loop, reason = "the caller cancels it by its shutdown token")]
async fn run(handle: &RestHandle, mut events: broadcast::Receiver<Event>) {
    // The listener's first event reports that it is connected. A load that starts afterwards misses no change; an
    // earlier one would have to be repeated.
    let _connected = tokio::time::timeout(LISTENER_WAIT, events.recv()).await;
    let mut backoff = MIN_BACKOFF;
    let mut open = true;
    loop {
        let guard = handle.0.load_lock.lock().await;
        // The load that starts now covers all pending events.
        while events.try_recv().is_ok() {}
        handle.0.clear_reload_request().await;
        let started = Instant::now();
        let loaded = handle.load().await;
        drop(guard);
        let retry_in = match loaded {
            Ok(()) => {
                backoff = MIN_BACKOFF;
                None
            }
            Err(error) => {
                let kept = if handle.ready() { "; keeping the previous one" } else { "" };
                tracing::warn!(%error, "could not load the schema cache{kept}; retrying in {backoff:?}");
                let retry_in = backoff;
                backoff = (backoff * 2).min(MAX_BACKOFF);
                Some(retry_in)
            }
        };
        let next_attempt = retry_in.map(|backoff| Instant::now() + backoff);
        handle.0.set_next_attempt(next_attempt);
        wait_for_trigger(handle, &mut events, next_attempt, &mut open).await;
        tokio::time::sleep_until(started + DEBOUNCE).await;
    }
}

/// Returns when a reload is due: after a notification, signal, request or lost connection, or to retry a failed load.
async fn wait_for_trigger(
    handle: &RestHandle,
    events: &mut broadcast::Receiver<Event>,
    next_attempt: Option<Instant>,
    open: &mut bool,
) {
    let retry = async {
        match next_attempt {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(retry);
    loop {
        tokio::select! {
            event = events.recv(), if *open => match event {
                Ok(event) if triggers_reload(&event, &handle.0.base.load().config.channel) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The listener has stopped; signals, requests and retries still trigger loads.
                Err(broadcast::error::RecvError::Closed) => *open = false,
            },
            () = handle.0.reload_requested.notified() => return,
            () = &mut retry => return,
        }
    }
}

fn triggers_reload(event: &Event, ours: &str) -> bool {
    match event {
        Event::Reconnected => true,
        Event::Notify { channel, payload } => {
            channel == ours && matches!(payload.as_str(), "" | "reload schema" | "reload config")
        }
    }
}
