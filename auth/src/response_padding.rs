//! Padding of responses whose time must not reveal whether an account exists (decision 0054). The extra work for an account (a
//! code, a mail, a commit) takes a few milliseconds; such a response is delayed to the next full step. A step is several times
//! longer than the work and, on a busy server, longer than recent responses, so that all of them take one step.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Steps are multiples of this. Too short to notice.
const STEP: Duration = Duration::from_millis(50);
/// Upper bound of the recorded time, and so of the step.
const MAX_STEP: Duration = Duration::from_secs(1);
/// Decay of the recorded maximum per response and per minute: within seconds on a busy server, hours on an idle one.
const DECAY: f64 = 63.0 / 64.0;

/// Recent response times of one kind.
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

    /// Records a response and returns the current step.
    fn note(&self, took: Duration) -> Duration {
        let now = Instant::now();
        let mut recent = self.0.lock();
        let quiet =
            recent.noted.replace(now).map_or(Duration::ZERO, |noted| now.saturating_duration_since(noted));
        let remembered = recent.slowest.mul_f64(DECAY.powf(1.0 + quiet.as_secs_f64() / 60.0));
        recent.slowest = took.min(MAX_STEP).max(remembered);
        // Hysteresis: near a boundary the decay would otherwise change the step from response to response.
        let (wanted, kept) = (step_beyond(recent.slowest), step_beyond(recent.slowest + recent.slowest / 4));
        recent.step = recent.step.clamp(wanted, kept);
        recent.step
    }
}

/// A step at least a quarter longer than `work`, so that work does not end close to the step.
fn step_beyond(work: Duration) -> Duration {
    STEP * full_steps(work + work / 4, STEP)
}

/// Number of steps that exceed `time`.
fn full_steps(time: Duration, step: Duration) -> u32 {
    u32::try_from(time.as_micros() / step.as_micros() + 1).unwrap_or(1)
}

/// A running measurement of one response.
pub(crate) struct ResponsePadding<'a> {
    times: &'a ResponseTimes,
    started: Instant,
}

impl ResponsePadding<'_> {
    /// Waits until the next full step.
    pub(crate) async fn wait(&self) {
        self.wait_beyond(Duration::ZERO).await;
    }

    /// Waits until the next full step, where steps are longer than `work`, which every such response includes.
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
    async fn responses_end_at_full_steps() {
        for (work_ms, expected) in [(0, 50), (3, 50), (39, 50), (50, 100), (120, 200), (900, 1150)] {
            assert_eq!(answer_ms(&ResponseTimes::default(), work_ms).await, expected, "{work_ms}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fast_responses_match_slow_ones_under_load() {
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
    async fn slow_response_decays_on_an_idle_server() {
        let times = ResponseTimes::default();
        assert_eq!(answer_ms(&times, 5_000).await, 5_200);
        assert_eq!(answer_ms(&times, 5).await, 1_300);
        tokio::time::advance(Duration::from_hours(4)).await;
        assert_eq!(answer_ms(&times, 5).await, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn rejections_take_one_step_under_load() {
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
