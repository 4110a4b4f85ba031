use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::time::timeout;

use super::*;

const ONE: CpuPoolLimits =
    CpuPoolLimits { threads: 1, waiting: 16, waiting_per_identity: 1, keeps_headroom: false };
const A_MOMENT: Duration = Duration::from_millis(10);

fn pool(limits: CpuPoolLimits) -> CpuPool {
    CpuPool::new("test", limits, Priority::Low, Gauge::noop(), &TaskTracker::new())
}

fn client(name: &str) -> Identity {
    Identity::new(Some(name), "authenticated", None)
}

#[tokio::test]
async fn runtime_thread_stays_free() {
    let (release, released) = mpsc::channel();
    let pool = pool(ONE);
    let work = pool.run(Identity::SERVER, move |()| {
        let is_released: Result<(), _> = released.recv();
        (thread::current().id(), is_released.is_ok())
    });
    // On a single-threaded runtime, inline work would wait forever for the message sent below.
    let (done, ()) = tokio::join!(work, async { release.send(()).unwrap() });
    let (worker, is_released) = done.unwrap();
    assert!(is_released);
    assert_ne!(worker, thread::current().id());
}

#[tokio::test]
async fn full_queue_rejects_only_its_client() {
    let pool = pool(ONE);
    let (greedy, other) = (client("greedy"), client("other"));
    let first = pool.slot(greedy).unwrap();
    let permit = first.permit().await.unwrap();
    let second = pool.slot(greedy).unwrap();
    let mut waits = Box::pin(second.permit());
    assert!(timeout(A_MOMENT, &mut waits).await.is_err(), "the only thread is taken");
    let third = pool.slot(greedy).unwrap();
    assert!(matches!(third.permit().await, Err(CpuPoolError::QueueFull)));
    let others = pool.slot(other).unwrap();
    let mut others = Box::pin(others.permit());
    assert!(timeout(A_MOMENT, &mut others).await.is_err());
    // A caller that is dropped leaves the queue.
    drop(waits);
    let mut waits = Box::pin(third.permit());
    assert!(timeout(A_MOMENT, &mut waits).await.is_err());
    assert_eq!(first.run(permit, |()| 1).await.unwrap(), 1);
    // The other client requested a thread later, but holds none.
    let permit = others.await.unwrap();
    assert!(timeout(A_MOMENT, &mut waits).await.is_err());
    drop(permit);
    assert!(waits.await.is_ok());
}

#[tokio::test]
async fn started_work_keeps_its_permit_without_its_caller() {
    let limits = CpuPoolLimits { threads: 2, waiting: 1, waiting_per_identity: 3, ..ONE };
    let pool = pool(limits);
    let started = Arc::new(AtomicUsize::new(0));
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    for _ in 0..5 {
        let (started, released) = (Arc::clone(&started), Arc::clone(&released));
        let work = pool.run(Identity::SERVER, move |()| {
            started.fetch_add(1, Ordering::SeqCst);
            let _end = released.lock().map(|released| released.recv());
        });
        // The work starts, if it gets a permit, and its caller is dropped.
        assert!(timeout(Duration::ZERO, work).await.is_err());
    }
    assert_eq!(pool.permits.load().free, 0);
    assert_eq!(pool.tracker.len(), 2, "shutdown waits for started work");
    let (one, full) = (pool.slot(Identity::SERVER), pool.slot(Identity::SERVER));
    assert!(one.is_ok() && matches!(full, Err(CpuPoolError::QueueFull)));
    drop((one, release));
    pool.tracker.close();
    pool.tracker.wait().await;
    assert_eq!(started.load(Ordering::SeqCst), 2, "queued work never starts");
    assert!(pool.run(Identity::SERVER, |()| ()).await.is_ok());
}

#[tokio::test]
async fn panic_reaches_the_caller_and_frees_the_thread() {
    let pool = CpuPool::<Vec<u8>>::new("test", ONE, Priority::Normal, Gauge::noop(), &TaskTracker::new());
    let failed = pool.run(client("a"), |state| {
        state.push(1);
        panic!("as a bug would")
    });
    let Err(CpuPoolError::Panicked(payload)) = failed.await else { unreachable!() };
    assert_eq!(payload.downcast_ref(), Some(&"as a bug would"));
    assert_eq!(pool.run(client("a"), |state| state.len()).await.unwrap(), 0, "the state was reset");
}

#[tokio::test]
async fn threads_keep_state_and_end_with_the_pool() {
    let pool = Arc::new(CpuPool::<Option<mpsc::Sender<()>>>::new(
        "test",
        ONE,
        Priority::Normal,
        Gauge::noop(),
        &TaskTracker::new(),
    ));
    let (kept, ended) = mpsc::channel();
    pool.run(client("a"), move |state| *state = Some(kept)).await.unwrap();
    assert!(pool.run(client("a"), |state| state.is_some()).await.unwrap());
    let other = Arc::clone(&pool);
    drop(pool);
    assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Empty));
    drop(other);
    let ended = tokio::task::spawn_blocking(move || ended.recv_timeout(Duration::from_secs(10)));
    assert_eq!(ended.await.unwrap(), Err(mpsc::RecvTimeoutError::Disconnected));
}
