//! Evaluates a batch for subscribers that exceeded their budget before, or whose policies or filters failed: with more time, row by
//! row and filter by filter, by a connection of their own. Nobody else waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::evaluate::{Seen, Trial, trials, value_of};
use super::plan::{Addressee, Plan};
use super::subscriptions::Subscriber;
use super::suspects::{Subject, Suspect};
use super::visibility::{BUDGET, Lookup, Question, SessionError};
use super::worker::Worker;

/// For one batch of a suspect.
const LIMIT: Duration = Duration::from_secs(4);

/// Why subscribers did not get what they may be entitled to.
#[derive(Default)]
struct Failures {
    /// Places of addressees whose policies failed.
    policies: Vec<usize>,
    /// The first failure of a policy.
    policy_error: Option<String>,
    /// Messages about filters.
    filters: Vec<(usize, String)>,
}

impl Worker {
    /// Evaluates the batch for these addressees as soon as it is the suspect's turn.
    pub(super) fn set_aside(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
        subject: Subject,
        suspect: Arc<Suspect>,
        addressees: Vec<usize>,
    ) {
        let place = suspect.enter().filter(|_| plan.reserve_aside(&self.parts.aside));
        let Some(place) = place else {
            let behind = addressees.iter().filter_map(|number| plan.addressees.get(*number));
            let behind: Vec<Arc<Subscriber>> = behind.map(|it| Arc::clone(&it.subscriber)).collect();
            return self.gap(&behind, "policy");
        };
        let (worker, plan) = (Arc::clone(self), Arc::clone(plan));
        let evaluation = async move {
            let _place = place;
            let _turn = suspect.turn.lock().await;
            let _permit = worker.parts.judge.enter_aside().await;
            let began = Instant::now();
            let outcome = worker.evaluate_aside(&plan, &addressees, began + LIMIT).await;
            let within_budget = began.elapsed() < BUDGET;
            match outcome {
                Ok(failures)
                    if failures.policies.is_empty() && failures.filters.is_empty() && within_budget =>
                {
                    worker.suspects.clear(&subject);
                }
                Ok(failures) => {
                    // Since now.
                    let suspect = worker.suspects.accuse(&subject);
                    if suspect.may_notify() {
                        notify(&plan, &failures);
                    }
                }
                Err(error) => worker.force_resync(&plan, addressees.into_iter(), &error),
            }
        };
        let tracker = &self.parts.tracker;
        tracker.spawn(self.parts.shutdown.clone().run_until_cancelled_owned(evaluation));
    }

    async fn evaluate_aside(
        &self,
        plan: &Plan,
        addressees: &[usize],
        until: Instant,
    ) -> Result<Failures, SessionError> {
        let mut failures = Failures::default();
        let lookup = Lookup::new(&plan.table, &plan.keys);
        let mut by_identity: HashMap<usize, Vec<(usize, &Addressee)>> = HashMap::new();
        for number in addressees {
            let Some(addressee) = plan.addressees.get(*number) else { continue };
            by_identity
                .entry(Arc::as_ptr(&addressee.identity).addr())
                .or_default()
                .push((*number, addressee));
        }
        let mut seen: Vec<Seen> = Vec::new();
        for of_identity in by_identity.into_values() {
            let mut keys: Vec<usize> =
                of_identity.iter().flat_map(|(_, addressee)| addressee.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            let mut visible: Arc<[usize]> = Arc::default();
            if let Some((_, addressee)) = of_identity.first()
                && !keys.is_empty()
            {
                let question = Question { identity: Arc::clone(&addressee.identity), keys };
                let (keys, failure) = self.parts.judge.visible_aside(&lookup, &question, until).await?;
                visible = keys.into();
                if let Some(failure) = failure {
                    failures.policy_error.get_or_insert(failure);
                    let restricted =
                        of_identity.iter().filter(|(_, addressee)| addressee.keys().next().is_some());
                    failures.policies.extend(restricted.map(|(number, _)| *number));
                }
            }
            seen.extend(of_identity.into_iter().map(|(number, _)| (number, Arc::clone(&visible))));
        }
        for trial in trials(plan, seen) {
            let passing = self.try_aside(plan, &trial, until, &mut failures).await?;
            let decided = trial.addressees.iter().filter_map(|(number, visible)| {
                let addressee = plan.addressees.get(*number)?;
                Some(plan.decided(addressee, visible, &|found, change| trial.passes(found, change, &passing)))
            });
            self.release(decided.collect());
        }
        Ok(failures)
    }

    /// Which changes each filter passes. Filters that fail, or for which no time is left, pass nothing.
    async fn try_aside(
        &self,
        plan: &Plan,
        trial: &Trial<'_>,
        until: Instant,
        failures: &mut Failures,
    ) -> Result<HashSet<(usize, usize)>, SessionError> {
        let mut passing = HashSet::new();
        for (number, (test, changes)) in trial.filters.iter().enumerate() {
            let values: Vec<&str> =
                changes.iter().map(|change| value_of(plan, test, *change).unwrap_or_default()).collect();
            let outcome = if Instant::now() < until {
                self.parts.judge.passing_aside(&trial.role, test, &values).await?
            } else {
                failures.filters.extend(messages(plan, trial, number, "its filters take too long"));
                continue;
            };
            match outcome {
                Ok(places) => {
                    passing.extend(places.iter().filter_map(|place| Some((number, *changes.get(*place)?))));
                }
                Err(error) => failures.filters.extend(messages(plan, trial, number, &error.message)),
            }
        }
        Ok(passing)
    }
}

/// A message for the addressees that have this filter on a row they may see: it may quote the row.
fn messages<'a>(
    plan: &'a Plan,
    trial: &'a Trial<'_>,
    filter: usize,
    message: &'a str,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let concerned = trial.addressees.iter().filter(move |(number, visible)| {
        let deliveries = plan.addressees.get(*number).map(|it| it.deliveries.as_slice()).unwrap_or_default();
        let mut matches = deliveries.iter().filter(|it| it.is_visible(visible)).flat_map(|it| &it.matches);
        matches.any(|found| {
            let mut tests = found.asks.iter().filter_map(|ask| found.bound.tests.get(*ask));
            tests.any(|test| trial.place(test) == Some(filter))
        })
    });
    concerned.map(move |(number, _)| (*number, message.to_owned()))
}

/// The text of a policy's error stays in the log: it may be about a row that the subscriber may not see.
fn notify(plan: &Plan, failures: &Failures) {
    let table = format!("{}.{}", plan.relation.schema, plan.relation.name);
    let send = |number: usize, reason: &str| {
        if let Some(addressee) = plan.addressees.get(number) {
            addressee.subscriber.sink.failed(&format!("Changes of {table} could not be evaluated: {reason}"));
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
    let role = role.and_then(|number| plan.addressees.get(*number)).map(|addressee| &addressee.identity.role);
    let error = failures.policy_error.as_ref().or(failures.filters.first().map(|(_, message)| message));
    tracing::info!(
        role = role.map(|role| &**role),
        error,
        "policies or filters on changes of {table} failed or took too long"
    );
}
