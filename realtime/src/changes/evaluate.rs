//! Evaluates a planned batch: first which subscribers may see its rows, then whose filters those rows pass.
//! Decisions for one subscriber are released without waiting for the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::{join, join_all};

use super::filter::Test;
use super::identity::Identity;
use super::order::Decided;
use super::plan::{Plan, Recipient};
use super::slow_lanes::LaneKey;
use super::subscriptions::{Match, Subscriber};
use super::visibility::{FilterCheck, GROUP, Lookup, SessionError, VisibilityCheck};
use super::worker::Worker;

/// Most filters of one account per statement; accounts with more are evaluated in a slow lane.
const MAX_FILTERS: usize = 32;

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
    checks: Vec<VisibilityCheck>,
    recipients: Vec<Vec<usize>>,
}

/// A recipient, and the keys it may see.
pub(super) type VisibleRows = (usize, Arc<[usize]>);

impl Work {
    /// Minimum number of concurrent transactions.
    pub(super) fn transactions(&self) -> usize {
        self.groups.len() + usize::from(self.has_filters)
    }
}

/// Filters of one account that PostgreSQL evaluates.
pub(super) struct FilterGroup<'a> {
    pub(super) account: Arc<str>,
    pub(super) role: Arc<str>,
    pub(super) recipients: Vec<VisibleRows>,
    /// Each filter with the changes it applies to.
    pub(super) filters: Vec<(&'a Test, Vec<usize>)>,
}

impl FilterGroup<'_> {
    pub(super) fn index_of(&self, test: &Test) -> Option<usize> {
        self.filters.iter().position(|(known, _)| **known == *test)
    }

    /// Whether a binding's filters pass a change. `passing` contains (filter, change).
    pub(super) fn passes(&self, found: &Match, change: usize, passing: &HashSet<(usize, usize)>) -> bool {
        let mut tests = found.unresolved.iter().filter_map(|index| found.binding.tests.get(*index));
        tests.all(|test| self.index_of(test).is_some_and(|filter| passing.contains(&(filter, change))))
    }
}

impl Worker {
    /// Groups the recipients of a batch, and hands those in a slow lane over to it.
    pub(super) fn partition(self: &Arc<Self>, plan: &Arc<Plan>) -> Work {
        let has_slow_lanes = !self.slow_lanes.is_empty();
        let mut work = Work::default();
        let mut slow: HashMap<LaneKey, Vec<usize>> = HashMap::new();
        let mut grouped: HashMap<*const Identity, (VisibilityCheck, Vec<usize>)> = HashMap::new();
        for (number, recipient) in plan.recipients.iter().enumerate() {
            if has_slow_lanes && let Some(key) = self.slow_lane_of(recipient) {
                slow.entry(key).or_default().push(number);
                continue;
            }
            if recipient.keys().next().is_none() {
                work.has_filters |= recipient.has_filters(&[]);
                work.unrestricted.push(number);
                continue;
            }
            let (check, numbers) = grouped.entry(Arc::as_ptr(&recipient.identity)).or_insert_with(|| {
                (VisibilityCheck { identity: Arc::clone(&recipient.identity), keys: Vec::new() }, Vec::new())
            });
            check.keys.extend(recipient.keys());
            numbers.push(number);
        }
        for (check, _) in grouped.values_mut() {
            check.keys.sort_unstable();
            check.keys.dedup();
        }
        let mut by_role: HashMap<Arc<str>, Vec<(VisibilityCheck, Vec<usize>)>> = HashMap::new();
        for grouped in grouped.into_values() {
            by_role.entry(Arc::clone(&grouped.0.identity.role)).or_default().push(grouped);
        }
        for mut grouped in by_role.into_values() {
            while !grouped.is_empty() {
                let rest = grouped.split_off(grouped.len().min(GROUP));
                let (checks, recipients) = std::mem::replace(&mut grouped, rest).into_iter().unzip();
                work.groups.push(Group { checks, recipients });
            }
        }
        for (key, recipients) in slow {
            if let Some(lane) = self.slow_lanes.get(&key) {
                self.evaluate_slowly(plan, key, lane, recipients);
            }
        }
        work
    }

    /// The slow lane this recipient has to be evaluated in, if any.
    fn slow_lane_of(&self, recipient: &Recipient) -> Option<LaneKey> {
        let policies = LaneKey::Policies(recipient.identity.account());
        if recipient.keys().next().is_some() && self.slow_lanes.get(&policies).is_some() {
            return Some(policies);
        }
        let all: Vec<usize> = recipient.keys().collect();
        let filters = LaneKey::Filters(recipient.subscriber.account(&recipient.identity));
        let is_suspect = self.slow_lanes.get(&filters).is_some() && recipient.has_filters(&all);
        is_suspect.then_some(filters)
    }

    pub(super) async fn evaluate(self: &Arc<Self>, plan: &Arc<Plan>, work: Work) {
        let Work { groups, unrestricted, has_filters: _ } = work;
        let nothing: Arc<[usize]> = Arc::default();
        let unrestricted = unrestricted.into_iter().map(|number| (number, Arc::clone(&nothing))).collect();
        let groups = groups.into_iter().map(|group| self.evaluate_group(plan, group));
        let _done = join(join_all(groups), self.decide_visible(plan, unrestricted)).await;
        plan.release_queue_memory();
    }

    async fn evaluate_group(self: &Arc<Self>, plan: &Arc<Plan>, group: Group) {
        let Group { checks, recipients } = group;
        let lookup = Lookup::new(&plan.table, &plan.keys);
        match self.parts.evaluator.visible(&lookup, &checks).await {
            Ok(outcomes) => {
                let mut visible_rows: Vec<VisibleRows> = Vec::new();
                for ((outcome, check), numbers) in outcomes.into_iter().zip(&checks).zip(recipients) {
                    match outcome {
                        Some(visible) => {
                            let visible: Arc<[usize]> = visible.into();
                            visible_rows
                                .extend(numbers.into_iter().map(|number| (number, Arc::clone(&visible))));
                        }
                        None => self.demote(plan, LaneKey::Policies(check.identity.account()), numbers),
                    }
                }
                self.decide_visible(plan, visible_rows).await;
            }
            Err(error) => self.force_resync(plan, recipients.into_iter().flatten(), &error),
        }
    }

    /// Decides for recipients without filters that PostgreSQL has to evaluate, and evaluates the filters of
    /// the others.
    async fn decide_visible(self: &Arc<Self>, plan: &Arc<Plan>, visible_rows: Vec<VisibleRows>) {
        let recipient_at = |number: usize| plan.recipients.get(number);
        let (filtered, unfiltered): (Vec<VisibleRows>, Vec<VisibleRows>) =
            visible_rows.into_iter().partition(|(number, visible)| {
                recipient_at(*number).is_some_and(|recipient| recipient.has_filters(visible))
            });
        let decided = unfiltered.iter().filter_map(|(number, visible)| {
            // None of the visible changes has such a filter.
            Some(plan.decided(recipient_at(*number)?, visible, &|_, _| true))
        });
        self.release(decided.collect());
        if filtered.is_empty() {
            return;
        }
        let mut by_role: HashMap<Arc<str>, Vec<FilterGroup<'_>>> = HashMap::new();
        for group in filter_groups(plan, filtered) {
            if group.filters.len() > MAX_FILTERS {
                let numbers = group.recipients.iter().map(|(number, _)| *number).collect();
                self.demote(plan, LaneKey::Filters(Arc::clone(&group.account)), numbers);
            } else {
                by_role.entry(Arc::clone(&group.role)).or_default().push(group);
            }
        }
        let groups = by_role
            .iter()
            .flat_map(|(role, filter_groups)| filter_groups.chunks(GROUP).map(move |group| (role, group)));
        let _done = join_all(groups.map(|(role, group)| self.try_filters(plan, role, group))).await;
    }

    async fn try_filters(self: &Arc<Self>, plan: &Arc<Plan>, role: &str, filter_groups: &[FilterGroup<'_>]) {
        let checks: Vec<Vec<FilterCheck<'_>>> =
            filter_groups.iter().map(|group| filter_checks(plan, group)).collect();
        let numbers =
            |group: &FilterGroup<'_>| group.recipients.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        let outcomes = match self.parts.evaluator.passing(role, &checks).await {
            Ok(outcomes) => outcomes,
            Err(error) => return self.force_resync(plan, filter_groups.iter().flat_map(numbers), &error),
        };
        let mut decided = Vec::new();
        for (outcome, group) in outcomes.into_iter().zip(filter_groups) {
            match outcome {
                Some(passing) => decided.extend(decide(plan, group, &passing)),
                None => self.demote(plan, LaneKey::Filters(Arc::clone(&group.account)), numbers(group)),
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

    /// Moves recipients whose evaluation failed or exceeded its budget to a slow lane.
    fn demote(self: &Arc<Self>, plan: &Arc<Plan>, key: LaneKey, recipients: Vec<usize>) {
        let lane = self.slow_lanes.demote(&key);
        self.evaluate_slowly(plan, key, lane, recipients);
    }

    /// PostgreSQL did not respond: these recipients rejoin.
    pub(super) fn force_resync(
        &self,
        plan: &Plan,
        recipients: impl Iterator<Item = usize>,
        error: &SessionError,
    ) {
        let recipients = recipients.filter_map(|number| plan.recipients.get(number));
        let recipients: Vec<Arc<Subscriber>> =
            recipients.map(|recipient| Arc::clone(&recipient.subscriber)).collect();
        self.gap(&recipients, "database");
        tracing::info!(
            %error,
            "changes of {}.{} could not be evaluated; {} channels will rejoin",
            plan.relation.schema,
            plan.relation.name,
            recipients.len()
        );
    }

    pub(super) fn gap(&self, subscribers: &[Arc<Subscriber>], reason: &'static str) {
        if !subscribers.is_empty() {
            self.parts.registry.gap_subscribers(subscribers);
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => reason).increment(1);
        }
    }
}

/// Groups the filters still to be evaluated by account and role, without duplicates.
pub(super) fn filter_groups(plan: &Plan, filtered: Vec<VisibleRows>) -> Vec<FilterGroup<'_>> {
    let mut positions: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    let mut filter_groups: Vec<FilterGroup<'_>> = Vec::new();
    for (number, visible) in filtered {
        let Some(recipient) = plan.recipients.get(number) else { continue };
        let account = recipient.subscriber.account(&recipient.identity);
        let role = Arc::clone(&recipient.identity.role);
        let position = *positions.entry((Arc::clone(&account), Arc::clone(&role))).or_insert_with(|| {
            filter_groups.push(FilterGroup { account, role, recipients: Vec::new(), filters: Vec::new() });
            filter_groups.len() - 1
        });
        let Some(group) = filter_groups.get_mut(position) else { continue };
        for delivery in recipient.deliveries.iter().filter(|delivery| delivery.is_visible(&visible)) {
            let unresolved = delivery.matches.iter().flat_map(|found| {
                found.unresolved.iter().filter_map(|index| found.binding.tests.get(*index))
            });
            for test in unresolved {
                let filter = group.index_of(test).unwrap_or_else(|| {
                    group.filters.push((test, Vec::new()));
                    group.filters.len() - 1
                });
                if let Some((_, changes)) = group.filters.get_mut(filter)
                    && !changes.contains(&delivery.change)
                {
                    changes.push(delivery.change);
                }
            }
        }
        group.recipients.push((number, visible));
    }
    filter_groups
}

/// The value of a change that a filter applies to.
pub(super) fn filter_value<'a>(plan: &'a Plan, test: &Test, change: usize) -> Option<&'a str> {
    let position = plan.relation.columns.iter().position(|column| column.name == *test.column)?;
    plan.changes.get(change)?.value(position)
}

fn filter_checks<'a>(plan: &'a Plan, group: &FilterGroup<'a>) -> Vec<FilterCheck<'a>> {
    let check = |(test, changes): &(&'a Test, Vec<usize>)| FilterCheck {
        test,
        values: changes.iter().map(|change| filter_value(plan, test, *change).unwrap_or_default()).collect(),
    };
    group.filters.iter().map(check).collect()
}

/// `passing` contains (filter, value), both by index.
fn decide(plan: &Plan, group: &FilterGroup<'_>, passing: &HashSet<(usize, usize)>) -> Vec<Decided> {
    let by_change = passing
        .iter()
        .filter_map(|(filter, value)| Some((*filter, *group.filters.get(*filter)?.1.get(*value)?)));
    let by_change: HashSet<(usize, usize)> = by_change.collect();
    let decided = group.recipients.iter().filter_map(|(number, visible)| {
        let recipient = plan.recipients.get(*number)?;
        Some(plan.decided(recipient, visible, &|found, change| group.passes(found, change, &by_change)))
    });
    decided.collect()
}
