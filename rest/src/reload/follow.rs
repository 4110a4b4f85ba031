//! The task that loads: when the service starts, until it succeeds; then for each notification, signal, lost connection
//! or request that found a change.

use std::time::Duration;

use basalt_pg::listen::Event;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RestHandle;

/// Loads start at least this far apart.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long the first load waits for the listener.
const LISTENER_PATIENCE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Loads, then follows `events` until `shutdown`.
pub(crate) async fn follow(
    handle: RestHandle,
    events: broadcast::Receiver<Event>,
    shutdown: CancellationToken,
) {
    shutdown.run_until_cancelled(Box::pin(follow_for_ever(&handle, events))).await;
    handle.0.progress.stop();
}

#[expect(clippy::infinite_loop, reason = "the caller ends it by its shutdown token")]
async fn follow_for_ever(handle: &RestHandle, mut events: broadcast::Receiver<Event>) {
    // The listener's first word is that it listens. A load that starts after that misses nothing; one that starts
    // before would have to be repeated.
    let _unheard = tokio::time::timeout(LISTENER_PATIENCE, events.recv()).await;
    let mut pause = FIRST_PAUSE;
    let mut open = true;
    loop {
        let turn = handle.0.turn.lock().await;
        // Everything that is waiting is answered by the load that starts now.
        while events.try_recv().is_ok() {}
        handle.0.forget_asked().await;
        let started = Instant::now();
        let loaded = handle.load().await;
        drop(turn);
        let retry_in = match loaded {
            Ok(()) => {
                pause = FIRST_PAUSE;
                None
            }
            Err(error) => {
                let kept = if handle.ready() { "; the old schema cache stays in use" } else { "" };
                tracing::warn!(%error, "the schema cache could not be loaded{kept}; trying again in {pause:?}");
                let retry_in = pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                Some(retry_in)
            }
        };
        let next_attempt = retry_in.map(|pause| Instant::now() + pause);
        handle.0.set_next_attempt(next_attempt);
        wait_for_reason(handle, &mut events, next_attempt, &mut open).await;
        tokio::time::sleep_until(started + DEBOUNCE).await;
    }
}

/// Returns when a load is wanted: by a notification, a signal or a request, after a lost connection, or because the last
/// one failed.
async fn wait_for_reason(
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
                Ok(event) if wants_reload(&event, &handle.0.base.load().config.channel) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The listener is gone: signals, requests and retries are left.
                Err(broadcast::error::RecvError::Closed) => *open = false,
            },
            () = handle.0.asked.notified() => return,
            () = &mut retry => return,
        }
    }
}

fn wants_reload(event: &Event, ours: &str) -> bool {
    match event {
        Event::Reconnected => true,
        Event::Notify { channel, payload } => {
            channel == ours && matches!(payload.as_str(), "" | "reload schema" | "reload config")
        }
    }
}
