//! Evaluates a planned batch: first which subscribers may see its rows, then whose filters those rows pass.
//! Decisions for one subscriber are released without waiting for the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::{join, join_all};

use super::filter::Test;
use super::order::Decided;
use super::plan::{Addressee, Plan};
use super::subscriptions::{Identity, Match, Subscriber};
use super::suspects::Subject;
use super::visibility::{FilterCheck, GROUP, Lookup, Question, SessionError};
use super::worker::Worker;

/// Filters of one account in a statement. More are evaluated aside.
const MOST_FILTERS: usize = 32;

/// The evaluations a batch needs. Recipients are given by index.
#[derive(Default)]
pub(super) struct Work {
    /// Each group is evaluated in one transaction.
    groups: Vec<Group>,
    /// Recipients that may see all their changes.
    unrestricted: Vec<usize>,
    /// Whether one of the unrestricted recipients has filters that PostgreSQL evaluates.
    has_filters: bool,
}

/// Visibility checks of subscribers with one role.
struct Group {
    questions: Vec<Question>,
    addressees: Vec<Vec<usize>>,
}

/// An addressee, and the keys that it may see.
pub(super) type Seen = (usize, Arc<[usize]>);

impl Work {
    /// Minimum number of concurrent transactions.
    pub(super) fn transactions(&self) -> usize {
        self.groups.len() + usize::from(self.has_filters)
    }
}

/// The filters of one account that PostgreSQL evaluates.
pub(super) struct Trial<'a> {
    pub(super) account: Arc<str>,
    pub(super) role: Arc<str>,
    pub(super) addressees: Vec<Seen>,
    /// Each with the changes that it is about.
    pub(super) filters: Vec<(&'a Test, Vec<usize>)>,
}

impl Trial<'_> {
    pub(super) fn place(&self, test: &Test) -> Option<usize> {
        self.filters.iter().position(|(known, _)| **known == *test)
    }

    /// Whether a binding's filters pass a change. `passing` contains (filter, change).
    pub(super) fn passes(&self, found: &Match, change: usize, passing: &HashSet<(usize, usize)>) -> bool {
        let mut tests = found.asks.iter().filter_map(|ask| found.bound.tests.get(*ask));
        tests.all(|test| self.place(test).is_some_and(|filter| passing.contains(&(filter, change))))
    }
}

impl Worker {
    /// Groups the subscribers of a batch, and sets suspects aside.
    pub(super) fn divide(self: &Arc<Self>, plan: &Arc<Plan>) -> Work {
        let has_suspects = !self.suspects.is_empty();
        let mut work = Work::default();
        let mut aside: HashMap<Subject, Vec<usize>> = HashMap::new();
        let mut asked: HashMap<*const Identity, (Question, Vec<usize>)> = HashMap::new();
        for (number, addressee) in plan.addressees.iter().enumerate() {
            if has_suspects && let Some(subject) = self.suspected(addressee) {
                aside.entry(subject).or_default().push(number);
                continue;
            }
            if addressee.keys().next().is_none() {
                work.has_filters |= addressee.has_filters(&[]);
                work.unrestricted.push(number);
                continue;
            }
            let (question, numbers) = asked.entry(Arc::as_ptr(&addressee.identity)).or_insert_with(|| {
                (Question { identity: Arc::clone(&addressee.identity), keys: Vec::new() }, Vec::new())
            });
            question.keys.extend(addressee.keys());
            numbers.push(number);
        }
        for (question, _) in asked.values_mut() {
            question.keys.sort_unstable();
            question.keys.dedup();
        }
        let mut by_role: HashMap<Arc<str>, Vec<(Question, Vec<usize>)>> = HashMap::new();
        for asked in asked.into_values() {
            by_role.entry(Arc::clone(&asked.0.identity.role)).or_default().push(asked);
        }
        for mut asked in by_role.into_values() {
            while !asked.is_empty() {
                let rest = asked.split_off(asked.len().min(GROUP));
                let (questions, addressees) = std::mem::replace(&mut asked, rest).into_iter().unzip();
                work.groups.push(Group { questions, addressees });
            }
        }
        for (subject, addressees) in aside {
            if let Some(suspect) = self.suspects.get(&subject) {
                self.set_aside(plan, subject, suspect, addressees);
            }
        }
        work
    }

    /// What the addressee is evaluated aside for.
    fn suspected(&self, addressee: &Addressee) -> Option<Subject> {
        let policies = Subject::Policies(addressee.identity.account());
        if addressee.keys().next().is_some() && self.suspects.get(&policies).is_some() {
            return Some(policies);
        }
        let all: Vec<usize> = addressee.keys().collect();
        let filters = Subject::Filters(addressee.subscriber.account(&addressee.identity));
        let is_suspect = self.suspects.get(&filters).is_some() && addressee.has_filters(&all);
        is_suspect.then_some(filters)
    }

    pub(super) async fn evaluate(self: &Arc<Self>, plan: &Arc<Plan>, work: Work) {
        let Work { groups, unrestricted, has_filters: _ } = work;
        let nothing: Arc<[usize]> = Arc::default();
        let unrestricted = unrestricted.into_iter().map(|number| (number, Arc::clone(&nothing))).collect();
        let groups = groups.into_iter().map(|group| self.evaluate_group(plan, group));
        let _done = join(join_all(groups), self.settle(plan, unrestricted)).await;
        plan.leave_queue();
    }

    async fn evaluate_group(self: &Arc<Self>, plan: &Arc<Plan>, group: Group) {
        let Group { questions, addressees } = group;
        let lookup = Lookup::new(&plan.table, &plan.keys);
        match self.parts.judge.visible(&lookup, &questions).await {
            Ok(outcomes) => {
                let mut seen: Vec<Seen> = Vec::new();
                for ((outcome, question), numbers) in outcomes.into_iter().zip(&questions).zip(addressees) {
                    match outcome {
                        Some(visible) => {
                            let visible: Arc<[usize]> = visible.into();
                            seen.extend(numbers.into_iter().map(|number| (number, Arc::clone(&visible))));
                        }
                        None => self.accuse(plan, Subject::Policies(question.identity.account()), numbers),
                    }
                }
                self.settle(plan, seen).await;
            }
            Err(error) => self.force_resync(plan, addressees.into_iter().flatten(), &error),
        }
    }

    /// Decides for subscribers whose filters are answered already, and has PostgreSQL evaluate those of the others.
    async fn settle(self: &Arc<Self>, plan: &Arc<Plan>, seen: Vec<Seen>) {
        let of = |number: usize| plan.addressees.get(number);
        let (asking, answered): (Vec<Seen>, Vec<Seen>) = seen.into_iter().partition(|(number, visible)| {
            of(*number).is_some_and(|addressee| addressee.has_filters(visible))
        });
        let decided = answered.iter().filter_map(|(number, visible)| {
            // No change that it may see has such filters.
            Some(plan.decided(of(*number)?, visible, &|_, _| true))
        });
        self.release(decided.collect());
        if asking.is_empty() {
            return;
        }
        let mut by_role: HashMap<Arc<str>, Vec<Trial<'_>>> = HashMap::new();
        for trial in trials(plan, asking) {
            if trial.filters.len() > MOST_FILTERS {
                let numbers = trial.addressees.iter().map(|(number, _)| *number).collect();
                self.accuse(plan, Subject::Filters(Arc::clone(&trial.account)), numbers);
            } else {
                by_role.entry(Arc::clone(&trial.role)).or_default().push(trial);
            }
        }
        let groups =
            by_role.iter().flat_map(|(role, trials)| trials.chunks(GROUP).map(move |group| (role, group)));
        let _done = join_all(groups.map(|(role, group)| self.try_filters(plan, role, group))).await;
    }

    async fn try_filters(self: &Arc<Self>, plan: &Arc<Plan>, role: &str, trials: &[Trial<'_>]) {
        let checks: Vec<Vec<FilterCheck<'_>>> = trials.iter().map(|trial| checks_of(plan, trial)).collect();
        let numbers =
            |trial: &Trial<'_>| trial.addressees.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        let outcomes = match self.parts.judge.passing(role, &checks).await {
            Ok(outcomes) => outcomes,
            Err(error) => return self.force_resync(plan, trials.iter().flat_map(numbers), &error),
        };
        let mut decided = Vec::new();
        for (outcome, trial) in outcomes.into_iter().zip(trials) {
            match outcome {
                Some(passing) => decided.extend(decide(plan, trial, &passing)),
                None => self.accuse(plan, Subject::Filters(Arc::clone(&trial.account)), numbers(trial)),
            }
        }
        self.release(decided);
    }

    /// Releases decided changes in order.
    pub(super) fn release(&self, decided: Vec<Decided>) {
        let count: usize = decided.iter().map(|decided| decided.changes.len()).sum();
        metrics::counter!("basalt_realtime_changes_delivered_total").increment(count as u64);
        let overflowed = self.parts.sequencer.decide(decided);
        self.gap(&overflowed, "order");
    }

    /// These subscribers exceeded their budget, or an evaluation of theirs failed.
    fn accuse(self: &Arc<Self>, plan: &Arc<Plan>, subject: Subject, addressees: Vec<usize>) {
        let suspect = self.suspects.accuse(&subject);
        self.set_aside(plan, subject, suspect, addressees);
    }

    /// PostgreSQL did not respond: these recipients rejoin.
    pub(super) fn force_resync(
        &self,
        plan: &Plan,
        addressees: impl Iterator<Item = usize>,
        error: &SessionError,
    ) {
        let lost = addressees.filter_map(|number| plan.addressees.get(number));
        let lost: Vec<Arc<Subscriber>> = lost.map(|addressee| Arc::clone(&addressee.subscriber)).collect();
        self.gap(&lost, "database");
        tracing::info!(
            %error,
            "changes of {}.{} could not be evaluated; {} channels join again",
            plan.relation.schema,
            plan.relation.name,
            lost.len()
        );
    }

    pub(super) fn gap(&self, subscribers: &[Arc<Subscriber>], reason: &'static str) {
        if !subscribers.is_empty() {
            self.parts.registry.gap_subscribers(subscribers);
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => reason).increment(1);
        }
    }
}

/// The filters that are left, by account and role: equal ones of an account are one.
pub(super) fn trials(plan: &Plan, asking: Vec<Seen>) -> Vec<Trial<'_>> {
    let mut places: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    let mut trials: Vec<Trial<'_>> = Vec::new();
    for (number, visible) in asking {
        let Some(addressee) = plan.addressees.get(number) else { continue };
        let account = addressee.subscriber.account(&addressee.identity);
        let role = Arc::clone(&addressee.identity.role);
        let place = *places.entry((Arc::clone(&account), Arc::clone(&role))).or_insert_with(|| {
            trials.push(Trial { account, role, addressees: Vec::new(), filters: Vec::new() });
            trials.len() - 1
        });
        let Some(trial) = trials.get_mut(place) else { continue };
        for delivery in addressee.deliveries.iter().filter(|delivery| delivery.is_visible(&visible)) {
            let asks = delivery
                .matches
                .iter()
                .flat_map(|found| found.asks.iter().filter_map(|ask| found.bound.tests.get(*ask)));
            for test in asks {
                let filter = trial.place(test).unwrap_or_else(|| {
                    trial.filters.push((test, Vec::new()));
                    trial.filters.len() - 1
                });
                if let Some((_, changes)) = trial.filters.get_mut(filter)
                    && !changes.contains(&delivery.change)
                {
                    changes.push(delivery.change);
                }
            }
        }
        trial.addressees.push((number, visible));
    }
    trials
}

/// The value of a change that a filter is about.
pub(super) fn value_of<'a>(plan: &'a Plan, test: &Test, change: usize) -> Option<&'a str> {
    let place = plan.relation.columns.iter().position(|column| column.name == *test.column)?;
    plan.changes.get(change)?.value(place)
}

fn checks_of<'a>(plan: &'a Plan, trial: &Trial<'a>) -> Vec<FilterCheck<'a>> {
    let check = |(test, changes): &(&'a Test, Vec<usize>)| FilterCheck {
        test,
        values: changes.iter().map(|change| value_of(plan, test, *change).unwrap_or_default()).collect(),
    };
    trial.filters.iter().map(check).collect()
}

/// `passing` holds filters, and values by their place.
fn decide(plan: &Plan, trial: &Trial<'_>, passing: &HashSet<(usize, usize)>) -> Vec<Decided> {
    let by_change = passing
        .iter()
        .filter_map(|(filter, value)| Some((*filter, *trial.filters.get(*filter)?.1.get(*value)?)));
    let by_change: HashSet<(usize, usize)> = by_change.collect();
    let decided = trial.addressees.iter().filter_map(|(number, visible)| {
        let addressee = plan.addressees.get(*number)?;
        Some(plan.decided(addressee, visible, &|found, change| trial.passes(found, change, &by_change)))
    });
    decided.collect()
}
