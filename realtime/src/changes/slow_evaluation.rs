//! Evaluates a batch for subscribers in a slow lane: with more time, row by row and filter by filter, on a
//! dedicated connection, so that no other subscriber waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::evaluate::{FilterGroup, VisibleRows, filter_groups, filter_value};
use super::plan::{Plan, Recipient};
use super::slow_lanes::{LaneKey, SlowLane};
use super::subscriptions::Subscriber;
use super::visibility::{BUDGET, Lookup, SessionError, VisibilityCheck};
use super::worker::Worker;

/// Time limit for one batch in a slow lane.
const LIMIT: Duration = Duration::from_secs(4);

/// Why recipients did not receive changes they may be entitled to.
#[derive(Default)]
struct Failures {
    /// Indexes of recipients whose policies failed.
    policies: Vec<usize>,
    /// Message of the first policy failure.
    policy_error: Option<String>,
    /// Recipients of messages about failed filters.
    filters: Vec<(usize, String)>,
}

impl Worker {
    /// Queues the batch for these recipients in their slow lane.
    pub(super) fn evaluate_slowly(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
        key: LaneKey,
        lane: Arc<SlowLane>,
        recipients: Vec<usize>,
    ) {
        let slot = lane.enter().filter(|_| plan.reserve_slow_memory(&self.parts.slow_memory));
        let Some(slot) = slot else {
            let overflowed = recipients.iter().filter_map(|number| plan.recipients.get(*number));
            let overflowed: Vec<Arc<Subscriber>> = overflowed.map(|it| Arc::clone(&it.subscriber)).collect();
            return self.gap(&overflowed, "policy");
        };
        for recipient in recipients.iter().filter_map(|number| plan.recipients.get(*number)) {
            recipient.subscriber.outbox().mark_slow(recipient.first);
        }
        let (worker, plan) = (Arc::clone(self), Arc::clone(plan));
        let evaluation = async move {
            let _slot = slot;
            let _turn = lane.turn.lock().await;
            let _permit = worker.parts.evaluator.enter_slow_lane().await;
            let started = Instant::now();
            let outcome = worker.evaluate_lane(&plan, &recipients, started + LIMIT).await;
            let within_budget = started.elapsed() < BUDGET;
            match outcome {
                Ok(failures)
                    if failures.policies.is_empty() && failures.filters.is_empty() && within_budget =>
                {
                    worker.slow_lanes.promote(&key);
                }
                Ok(failures) => {
                    // Restarts the lane's minimum duration.
                    let lane = worker.slow_lanes.demote(&key);
                    if lane.may_notify() {
                        notify(&plan, &failures);
                    }
                }
                Err(error) => worker.force_resync(&plan, recipients.into_iter(), &error),
            }
        };
        let tracker = &self.parts.tracker;
        tracker.spawn(self.parts.shutdown.clone().run_until_cancelled_owned(evaluation));
    }

    async fn evaluate_lane(
        &self,
        plan: &Plan,
        recipients: &[usize],
        until: Instant,
    ) -> Result<Failures, SessionError> {
        let mut failures = Failures::default();
        let lookup = Lookup::new(&plan.table, &plan.keys);
        let mut by_identity: HashMap<usize, Vec<(usize, &Recipient)>> = HashMap::new();
        for number in recipients {
            let Some(recipient) = plan.recipients.get(*number) else { continue };
            by_identity
                .entry(Arc::as_ptr(&recipient.identity).addr())
                .or_default()
                .push((*number, recipient));
        }
        let mut visible_rows: Vec<VisibleRows> = Vec::new();
        for same_identity in by_identity.into_values() {
            let mut keys: Vec<usize> =
                same_identity.iter().flat_map(|(_, recipient)| recipient.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            let mut visible: Arc<[usize]> = Arc::default();
            if let Some((_, recipient)) = same_identity.first()
                && !keys.is_empty()
            {
                let check = VisibilityCheck { identity: Arc::clone(&recipient.identity), keys };
                let (keys, failure) = self.parts.evaluator.visible_slowly(&lookup, &check, until).await?;
                visible = keys.into();
                if let Some(failure) = failure {
                    failures.policy_error.get_or_insert(failure);
                    let restricted =
                        same_identity.iter().filter(|(_, recipient)| recipient.keys().next().is_some());
                    failures.policies.extend(restricted.map(|(number, _)| *number));
                }
            }
            visible_rows.extend(same_identity.into_iter().map(|(number, _)| (number, Arc::clone(&visible))));
        }
        for group in filter_groups(plan, visible_rows) {
            let passing = self.try_filters_slowly(plan, &group, until, &mut failures).await?;
            let decided = group.recipients.iter().filter_map(|(number, visible)| {
                let recipient = plan.recipients.get(*number)?;
                Some(plan.decided(recipient, visible, &|found, change| group.passes(found, change, &passing)))
            });
            self.release(decided.collect());
        }
        Ok(failures)
    }

    /// Which changes each filter passes, as (filter, change). Filters that fail, or for which no time is
    /// left, pass nothing.
    async fn try_filters_slowly(
        &self,
        plan: &Plan,
        group: &FilterGroup<'_>,
        until: Instant,
        failures: &mut Failures,
    ) -> Result<HashSet<(usize, usize)>, SessionError> {
        let mut passing = HashSet::new();
        for (number, (test, changes)) in group.filters.iter().enumerate() {
            let values: Vec<&str> =
                changes.iter().map(|change| filter_value(plan, test, *change).unwrap_or_default()).collect();
            let outcome = if Instant::now() < until {
                self.parts.evaluator.passing_slowly(&group.role, test, &values).await?
            } else {
                failures.filters.extend(messages(plan, group, number, "its filters take too long"));
                continue;
            };
            match outcome {
                Ok(indexes) => {
                    passing.extend(indexes.iter().filter_map(|index| Some((number, *changes.get(*index)?))));
                }
                Err(error) => failures.filters.extend(messages(plan, group, number, &error.message)),
            }
        }
        Ok(passing)
    }
}

/// Addresses `message` to the recipients that have this filter on a row visible to them: it may quote the
/// row's value.
fn messages<'a>(
    plan: &'a Plan,
    group: &'a FilterGroup<'_>,
    filter: usize,
    message: &'a str,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let affected = group.recipients.iter().filter(move |(number, visible)| {
        let deliveries = plan.recipients.get(*number).map(|it| it.deliveries.as_slice()).unwrap_or_default();
        let mut matches = deliveries.iter().filter(|it| it.is_visible(visible)).flat_map(|it| &it.matches);
        matches.any(|found| {
            let mut tests = found.unresolved.iter().filter_map(|index| found.binding.tests.get(*index));
            tests.any(|test| group.index_of(test) == Some(filter))
        })
    });
    affected.map(move |(number, _)| (*number, message.to_owned()))
}

/// Policy errors are only logged, not sent: their text may describe a row the subscriber may not see.
fn notify(plan: &Plan, failures: &Failures) {
    let table = format!("{}.{}", plan.relation.schema, plan.relation.name);
    let send = |number: usize, reason: &str| {
        if let Some(recipient) = plan.recipients.get(number) {
            recipient.subscriber.sink.failed(&format!("Changes of {table} could not be evaluated: {reason}"));
        }
    };
    for number in &failures.policies {
        send(*number, "a policy failed or took too long");
    }
    let mut notified = HashSet::new();
    for (number, message) in &failures.filters {
        if notified.insert(*number) {
            send(*number, message);
        }
    }
    let role = failures.policies.first().or(failures.filters.first().map(|(number, _)| number));
    let role = role.and_then(|number| plan.recipients.get(*number)).map(|recipient| &recipient.identity.role);
    let error = failures.policy_error.as_ref().or(failures.filters.first().map(|(_, message)| message));
    tracing::info!(
        role = role.map(|role| &**role),
        error,
        "policies or filters for changes of {table} failed or timed out"
    );
}
