use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::task::noop_waker;
use proptest::prelude::*;

use super::*;

fn identity(number: u8) -> Identity {
    Identity::new(Some(&number.to_string()), "authenticated", None)
}

fn share(permits: usize, keeps_headroom: bool) -> FairShare {
    FairShare::new(Limits { permits, waiting_per_identity: 8, keeps_headroom, flood_share: None })
}

type Acquiring = Pin<Box<dyn Future<Output = Result<FairPermit, AcquireError>>>>;

fn acquire(share: &FairShare, identity: Identity) -> Acquiring {
    acquire_many(share, identity, 1)
}

fn acquire_many(share: &FairShare, identity: Identity, permits: usize) -> Acquiring {
    let share = share.clone();
    Box::pin(async move { share.acquire_many(identity, permits).await })
}

fn poll(acquiring: &mut Acquiring) -> Option<Result<FairPermit, AcquireError>> {
    match acquiring.as_mut().poll(&mut Context::from_waker(&noop_waker())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Takes as many permits as the identity may have.
fn take_all(share: &FairShare, identity: Identity) -> Vec<FairPermit> {
    std::iter::from_fn(|| share.try_acquire(identity)).collect()
}

#[test]
fn headroom_is_left_for_newcomers() {
    for (permits, alone, second) in [(1, 1, 0), (2, 2, 0), (3, 2, 1), (10, 7, 2), (15, 10, 4), (48, 32, 11)] {
        let share = share(permits, true);
        let first = take_all(&share, identity(1));
        let newcomer = take_all(&share, identity(2));
        assert_eq!((first.len(), newcomer.len()), (alone, second), "of {permits}");
    }
    assert_eq!(take_all(&share(10, false), identity(1)).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn flood_is_held_back_while_others_are_active() {
    let limits = Limits { permits: 6, waiting_per_identity: 8, keeps_headroom: false, flood_share: Some(1) };
    let share = FairShare::new(limits);
    drop(share.try_acquire(identity(2)));
    let mut held = take_all(&share, identity(1));
    assert_eq!(held.len(), 6, "as many requests as permits are no flood");
    let mut flood: Vec<Acquiring> = (0..8).map(|_| acquire(&share, identity(1))).collect();
    assert!(flood.iter_mut().all(|acquiring| poll(acquiring).is_none()));
    held.truncate(1);
    assert_eq!(share.load().free, 5);
    drop(share.try_acquire(identity(3)).unwrap());
    // Without other activity for a second, the flood gets every permit.
    tokio::time::advance(ACTIVE_FOR).await;
    held.clear();
    let served = flood.iter_mut().filter_map(poll).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(served.len(), 6);
}

#[test]
fn holders_of_fewest_permits_are_served_first() {
    let share = share(4, false);
    let mut held = take_all(&share, identity(1));
    let mut waiting: Vec<(u8, Acquiring)> = Vec::new();
    for number in [1, 1, 1, 2, 2, 2, 3] {
        let mut acquiring = acquire(&share, identity(number));
        assert!(poll(&mut acquiring).is_none());
        waiting.push((number, acquiring));
    }
    let mut served = Vec::new();
    let mut granted = Vec::new();
    for _ in 0..7 {
        // Identity 1 returns its four permits first; then the oldest permits of the others are returned.
        drop(if held.is_empty() { granted.remove(0) } else { held.remove(0) });
        let index = waiting.iter_mut().position(|(_, acquiring)| match poll(acquiring) {
            Some(permit) => {
                granted.push(permit.unwrap());
                true
            }
            None => false,
        });
        served.push(waiting.remove(index.unwrap()).0);
    }
    // The newcomers get one each; then it alternates.
    assert_eq!(served, [2, 3, 1, 2, 1, 2, 1]);
}

#[test]
fn request_for_many_permits_is_not_overtaken() {
    let share = share(6, false);
    let first = share.try_acquire_many(identity(1), 4).unwrap();
    let mut many = acquire_many(&share, identity(2), 5);
    assert!(poll(&mut many).is_none());
    // Two permits are free, but taking them would starve the request that waits for five.
    let mut one = acquire(&share, identity(3));
    assert!(poll(&mut one).is_none());
    drop(first);
    let many = poll(&mut many).unwrap().unwrap();
    let one = poll(&mut one).unwrap().unwrap();
    assert_eq!(share.load().free, 0);
    drop((many, one));
    // When it leaves, the requests behind it are served.
    let _first = share.try_acquire_many(identity(1), 4).unwrap();
    let mut many = acquire_many(&share, identity(2), 5);
    let mut one = acquire(&share, identity(3));
    assert!(poll(&mut many).is_none() && poll(&mut one).is_none());
    drop(many);
    assert!(poll(&mut one).unwrap().is_ok());
}

#[test]
fn full_queue_rejects_only_its_identity() {
    let share = share(1, true);
    let _held = share.try_acquire(identity(1)).unwrap();
    let mut queued: Vec<Acquiring> = (0..8).map(|_| acquire(&share, identity(1))).collect();
    assert!(queued.iter_mut().all(|acquiring| poll(acquiring).is_none()));
    assert_eq!(poll(&mut acquire(&share, identity(1))).unwrap().unwrap_err(), AcquireError::QueueFull);
    assert!(poll(&mut acquire(&share, identity(2))).is_none());
    queued.pop();
    assert!(poll(&mut acquire(&share, identity(1))).is_none(), "a waiting position must have become free");
}

#[test]
fn closing_fails_waiters_and_newcomers() {
    let share = share(1, true);
    let held = share.try_acquire(identity(1)).unwrap();
    let mut waiting = acquire(&share, identity(2));
    assert!(poll(&mut waiting).is_none());
    share.close();
    assert_eq!(poll(&mut waiting).unwrap().unwrap_err(), AcquireError::Closed);
    drop(held);
    assert_eq!(poll(&mut acquire(&share, identity(1))).unwrap().unwrap_err(), AcquireError::Closed);
    assert!(share.shared.lock().identities.is_empty());
}

#[test]
fn forgotten_permits_come_back_with_add_permit() {
    let share = share(2, false);
    share.try_acquire(identity(1)).unwrap().forget();
    let held = share.try_acquire(identity(1)).unwrap();
    let mut waiting = acquire(&share, identity(1));
    assert!(poll(&mut waiting).is_none());
    share.add_permit();
    assert!(poll(&mut waiting).unwrap().is_ok());
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contended_permits_are_never_lost() {
    let share = FairShare::new(Limits {
        permits: 3,
        waiting_per_identity: 1000,
        keeps_headroom: true,
        flood_share: None,
    });
    let tasks = (0..64_u64).map(|task| {
        let share = share.clone();
        tokio::spawn(async move {
            for round in 0..200_u64 {
                let acquiring = share.acquire(identity(u8::try_from(task % 7).unwrap()));
                // A third of the requests leave while they wait, or just as they are served.
                let limit =
                    std::time::Duration::from_micros(if (task + round) % 3 == 0 { 20 } else { 60_000_000 });
                if let Ok(permit) = tokio::time::timeout(limit, acquiring).await {
                    let _permit = permit.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    for task in futures_util::future::join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(share.load(), Load { free: 3, waiting: 0, waiting_identities: 0 });
    assert!(share.shared.lock().identities.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Requests this many permits for an identity.
    Acquire(u8, usize),
    /// Polls all waiters.
    Poll,
    /// Drops the waiter at this index, whether or not it has been served.
    Leave(usize),
    Return(usize),
    Forget(usize),
    Add,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..4, 1_usize..4).prop_map(|(client, permits)| Step::Acquire(client, permits)),
        3 => Just(Step::Poll),
        2 => any::<usize>().prop_map(Step::Leave),
        4 => any::<usize>().prop_map(Step::Return),
        1 => any::<usize>().prop_map(Step::Forget),
        1 => Just(Step::Add),
    ]
}

/// Asserts that every waiter that can be served has been, and that the counts match the permits that exist.
fn check(share: &FairShare, total: usize) {
    let state = share.shared.lock();
    let held: usize = state.identities.values().map(|usage| usage.held).sum();
    assert_eq!(held + state.free, total);
    let waiting: usize = state.identities.values().map(|usage| usage.waiters.len()).sum();
    assert_eq!(waiting, state.waiting);
    for (identity, usage) in &state.identities {
        let queued = state.queue.contains(&(usage.held, usage.turn, *identity));
        assert_eq!(queued, !usage.waiters.is_empty());
        assert!(usage.held > 0 || queued, "an idle identity must be removed");
        assert!(usage.waiters.len() <= share.shared.limits.waiting_per_identity);
    }
    if let Some((held, _, identity)) = state.next_in_queue(&share.shared.limits) {
        let permits = state.identities[&identity].waiters[0].permits;
        assert!(!may_take(held, permits, state.free, &share.shared.limits), "a waiter must have been served");
    }
    assert_eq!(
        state.queue.len(),
        state.identities.values().filter(|usage| !usage.waiters.is_empty()).count()
    );
}

proptest! {
    #[test]
    fn permits_are_conserved_in_any_order_of_events(
        permits in 0_usize..6,
        keeps_headroom: bool,
        flood_share in proptest::option::of(1_usize..3),
        steps in proptest::collection::vec(any_step(), 0..120),
    ) {
        // Time stands still, so that every identity stays active.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let _guard = runtime.enter();
        let share = FairShare::new(Limits { permits, waiting_per_identity: 8, keeps_headroom, flood_share });
        let mut total = permits;
        let mut waiting: Vec<(u8, u32, Acquiring)> = Vec::new();
        let mut held = Vec::new();
        let mut last_served = [0_u32; 4];
        for (number, step) in (1_u32..).zip(steps) {
            match step {
                Step::Acquire(client, permits) => {
                    let mut acquiring = acquire_many(&share, identity(client), permits);
                    match poll(&mut acquiring) {
                        Some(Ok(permit)) => held.push(permit),
                        Some(Err(error)) => prop_assert_eq!(error, AcquireError::QueueFull),
                        None => waiting.push((client, number, acquiring)),
                    }
                }
                Step::Poll => {
                    let mut left = Vec::new();
                    for (client, number, mut acquiring) in waiting {
                        if let Some(permit) = poll(&mut acquiring) {
                            held.push(permit.unwrap());
                            let last = &mut last_served[usize::from(client)];
                            prop_assert!(*last < number, "served out of order");
                            *last = number;
                        } else {
                            left.push((client, number, acquiring));
                        }
                    }
                    waiting = left;
                }
                Step::Leave(index) if !waiting.is_empty() => {
                    let index = index % waiting.len();
                    drop(waiting.remove(index));
                }
                Step::Return(index) if !held.is_empty() => {
                    let index = index % held.len();
                    drop(held.swap_remove(index));
                }
                Step::Forget(index) if !held.is_empty() => {
                    let index = index % held.len();
                    let permit = held.swap_remove(index);
                    total -= permit.permits;
                    permit.forget();
                }
                Step::Add => {
                    share.add_permit();
                    total += 1;
                }
                Step::Leave(_) | Step::Return(_) | Step::Forget(_) => {}
            }
            check(&share, total);
        }
        drop((waiting, held));
        prop_assert_eq!(share.load(), Load { free: total, waiting: 0, waiting_identities: 0 });
        prop_assert!(share.shared.lock().identities.is_empty());
    }
}
