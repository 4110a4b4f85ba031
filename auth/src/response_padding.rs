//! Answers whose time must not tell whether an account exists (decision 0054). What an account adds to the work (a code,
//! a mail, a commit) takes a few milliseconds; such an answer leaves at the next full step since its start. A step is
//! several times what the work takes and, on a busy server, more than such answers took of late: so all of them take one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Less than a person notices. Steps are a whole number of these.
const STEP: Duration = Duration::from_millis(50);
/// Slower answers than this make the step no longer.
const MOST: Duration = Duration::from_secs(1);
/// What is remembered of the slowest answer after each further one and each minute: a busy server forgets it within
/// seconds, a quiet one within hours.
const KEPT: f64 = 63.0 / 64.0;

/// How long answers of one sort take of late.
#[derive(Default)]
pub(crate) struct ResponseTimes(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    slowest: Duration,
    step: Duration,
    noted: Option<Instant>,
}

impl ResponseTimes {
    pub(crate) fn start(&self) -> ResponsePadding<'_> {
        ResponsePadding { times: self, started: Instant::now() }
    }

    /// Notes an answer and gives the step of now; a slow answer is forgotten by and by.
    fn note(&self, took: Duration) -> Duration {
        let now = Instant::now();
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet =
            recent.noted.replace(now).map_or(Duration::ZERO, |noted| now.saturating_duration_since(noted));
        let remembered = recent.slowest.mul_f64(KEPT.powf(1.0 + quiet.as_secs_f64() / 60.0));
        recent.slowest = took.min(MOST).max(remembered);
        // A step is left only well below its bound: near it, forgetting would change the step from answer to answer.
        let (wanted, kept) = (step_beyond(recent.slowest), step_beyond(recent.slowest + recent.slowest / 4));
        recent.step = recent.step.clamp(wanted, kept);
        recent.step
    }
}

/// A step that takes a quarter more than `work`, so that no work ends just about when the step does.
fn step_beyond(work: Duration) -> Duration {
    STEP * full_steps(work + work / 4, STEP)
}

/// How many steps end after `time`.
fn full_steps(time: Duration, step: Duration) -> u32 {
    u32::try_from(time.as_micros() / step.as_micros() + 1).unwrap_or(1)
}

/// A started clock.
pub(crate) struct ResponsePadding<'a> {
    times: &'a ResponseTimes,
    started: Instant,
}

impl ResponsePadding<'_> {
    /// Waits for the full step.
    pub(crate) async fn wait(&self) {
        self.wait_beyond(Duration::ZERO).await;
    }

    /// Waits for a full step that is longer than `work`, which every such answer has done.
    pub(crate) async fn wait_beyond(&self, work: Duration) {
        let step = self.times.note(self.started.elapsed().max(work));
        tokio::time::sleep_until(self.started + step * full_steps(self.started.elapsed(), step)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer_ms(times: &ResponseTimes, work_ms: u64) -> u128 {
        let padding = times.start();
        tokio::time::advance(Duration::from_millis(work_ms)).await;
        padding.wait().await;
        padding.started.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn answers_leave_at_full_steps() {
        for (work_ms, expected) in [(0, 50), (3, 50), (39, 50), (50, 100), (120, 200), (900, 1150)] {
            assert_eq!(answer_ms(&ResponseTimes::default(), work_ms).await, expected, "{work_ms}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_busy_server_quick_answers_take_as_long_as_slow_ones() {
        let times = ResponseTimes::default();
        assert_eq!(answer_ms(&times, 90).await, 150);
        for _ in 0..20 {
            assert_eq!(answer_ms(&times, 5).await, answer_ms(&times, 80).await);
        }
        for _ in 0..200 {
            let _quick = answer_ms(&times, 5).await;
        }
        assert_eq!(answer_ms(&times, 5).await, 50, "and no longer when it is idle again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_on_a_quiet_server_is_forgotten() {
        let times = ResponseTimes::default();
        assert_eq!(answer_ms(&times, 5_000).await, 5_200);
        assert_eq!(answer_ms(&times, 5).await, 1_300);
        tokio::time::advance(Duration::from_hours(4)).await;
        assert_eq!(answer_ms(&times, 5).await, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_take_one_step_beside_load_too() {
        let (times, work) = (ResponseTimes::default(), Duration::from_millis(60));
        let mut seen = Vec::new();
        for elapsed_ms in [600, 90, 240, 410, 130, 560] {
            let padding = times.start();
            tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
            padding.wait_beyond(work).await;
            seen.push(padding.started.elapsed().as_millis());
        }
        assert_eq!(seen, [800; 6]);
    }
}
