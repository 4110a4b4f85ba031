use std::time::Duration;

use tokio::time::timeout;

use super::*;

const RULES: BudgetRules =
    BudgetRules { waiting_per_identity: 8, keeps_headroom: false, serves_larger_alone: true };
const SERVER: Identity = Identity::SERVER;

fn budget(limit: u64) -> ByteBudget {
    ByteBudget::new(limit, RULES, Gauge::noop())
}

fn answers(limit: u64) -> AnswerMemory {
    AnswerMemory::new(limit, Counter::noop())
}

#[tokio::test(start_paused = true)]
async fn holder_waits_for_memory() {
    let budget = budget(8000);
    let first = budget.try_take(SERVER, 5000).unwrap();
    assert!(budget.try_take(SERVER, 5000).is_none());
    let waiting = timeout(Duration::from_secs(1), budget.take(SERVER, 5000));
    assert!(waiting.await.is_err());
    let (taken, ()) = tokio::join!(budget.take(SERVER, 5000), async { drop(first) });
    assert_eq!((taken.unwrap().bytes(), budget.in_use()), (5000, 5000));
}

#[tokio::test]
async fn larger_holder_takes_all_or_nothing() {
    let budget = budget(8000);
    let mut all = budget.take(SERVER, 1 << 20).await.unwrap();
    assert_eq!((all.bytes(), budget.in_use()), (8000, 8000));
    assert!(all.try_grow(1), "it holds the whole budget");
    assert!(budget.try_take(SERVER, 1).is_none());
    drop(all);
    let strict = BudgetRules { serves_larger_alone: false, ..RULES };
    let budget = ByteBudget::new(8000, strict, Gauge::noop());
    assert!(budget.try_take(SERVER, 8001).is_none());
    assert!(budget.take(SERVER, 8001).await.is_err());
    assert!(budget.try_take(SERVER, 8000).is_some());
}

#[test]
fn share_grows_within_the_budget() {
    let budget = budget(1000);
    let (mut first, mut second) = (budget.empty_share(SERVER), budget.empty_share(SERVER));
    assert!(first.try_grow(400) && first.try_grow_to(500) && first.try_grow_to(300));
    assert!(second.try_grow(500) && !second.try_grow(1));
    assert_eq!((first.bytes(), second.bytes(), budget.in_use()), (500, 500, 1000));
    drop(first);
    assert!(second.try_grow(1));
    assert_eq!(budget.in_use(), 501);
}

#[test]
fn released_bytes_make_up_for_forced_ones() {
    let budget = budget(1000);
    let first = budget.try_take(SERVER, 900).unwrap();
    let mut forced = budget.try_take(SERVER, 100).unwrap();
    forced.force_to(700);
    assert_eq!((forced.bytes(), budget.in_use()), (700, 1600));
    drop(first);
    assert!(budget.try_take(SERVER, 400).is_none());
    assert!(budget.try_take(SERVER, 300).is_some());
    drop(forced);
    assert_eq!(budget.in_use(), 0);
    assert!(budget.try_take(SERVER, 1000).is_some());
}

#[test]
fn headroom_leaves_memory_for_other_clients() {
    let rules = BudgetRules { keeps_headroom: true, ..RULES };
    let budget = ByteBudget::new(96 << 20, rules, Gauge::noop());
    let take = |name: &str| {
        let client = Identity::new(Some(name), "authenticated", None);
        std::iter::from_fn(|| budget.try_take(client, 8 << 20)).collect::<Vec<_>>()
    };
    let (greedy, other) = (take("greedy"), take("other"));
    assert_eq!((greedy.len(), other.len()), (8, 3));
}

#[test]
fn response_counts_until_its_last_slice() {
    let memory = answers(100_000);
    let small = memory.keep(Bytes::from(vec![1; FREE_BYTES])).unwrap();
    let large = memory.keep(Bytes::from(vec![1; 80_000])).unwrap();
    assert_eq!((small.len(), memory.budget().in_use()), (FREE_BYTES, 80_000));
    assert_eq!(memory.keep(large.slice(..70_000)), None);
    let last = large.slice(79_999..);
    drop(large);
    assert_eq!((memory.budget().in_use(), last.len()), (80_000, 1));
    drop(last);
    assert_eq!(memory.budget().in_use(), 0);
}

#[test]
fn rows_count_in_steps_until_body_is_dropped() {
    let (memory, step) = (answers(200_000), u64::try_from(FREE_BYTES).unwrap());
    let mut rows = ResponseReservation::default();
    assert!(rows.has_room(50_000, &memory, false));
    assert!(rows.add(50_000).is_none(), "small responses are free");
    assert!(rows.has_room(50_000, &memory, false));
    let lease = rows.add(50_000).unwrap();
    // The same row arrives in pieces.
    assert!(rows.has_room(20_000, &memory, false) && rows.has_room(20_000, &memory, false));
    assert_eq!(memory.budget().in_use(), 2 * step);
    let body = lease.keep_counted(Bytes::from(vec![1; 150_000]));
    drop((rows, lease));
    assert_eq!(memory.budget().in_use(), 150_000);
    drop(body);
    assert_eq!(memory.budget().in_use(), 0);
}

#[test]
fn rows_beyond_the_limit_fail_except_after_a_write() {
    let memory = answers(100_000);
    let (mut first, mut second) = (ResponseReservation::default(), ResponseReservation::default());
    assert!(first.has_room(90_000, &memory, false), "the row fits, although a step would not");
    assert!(!second.has_room(70_000, &memory, false));
    assert_eq!(memory.budget().in_use(), 90_000, "a failed reservation takes nothing");
    assert!(second.has_room(70_000, &memory, true));
    assert_eq!(memory.budget().in_use(), 160_000);
    drop(second);
    assert!(first.has_room(100_000, &memory, false));
    assert!(!first.has_room(100_001, &memory, false));
    drop(first);
    assert_eq!(memory.budget().in_use(), 0);
}

#[test]
fn body_lease_ends_with_the_last_slice() {
    let budget = budget(1000);
    let lease = ByteLease::from(budget.empty_share(SERVER));
    assert!(lease.grow(900));
    assert!(!lease.fresh().grow(101) && lease.fresh().grow(100));
    let bytes = lease.keep(Bytes::from_static(b"abc"));
    drop(lease);
    let slice = bytes.slice(1..2);
    drop(bytes);
    assert_eq!(budget.in_use(), 900);
    drop(slice);
    assert_eq!(budget.in_use(), 0);
}
