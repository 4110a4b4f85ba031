//! Answers whose time must not tell whether an account exists. What an account adds to the work (a code, a mail, a
//! commit) takes a few milliseconds; such an answer leaves at the next full [`STEP`] since its start, so that all
//! answers of a server that is not overloaded take one step, and those of a busy one a whole number of them.

use std::time::Duration;

use tokio::time::Instant;

/// Several times what the work takes, and less than a person notices.
const STEP: Duration = Duration::from_millis(50);

/// A started clock.
pub(crate) struct ResponsePadding(Instant);

impl ResponsePadding {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Waits for the full step.
    pub(crate) async fn wait(&self) {
        let steps = self.0.elapsed().as_millis() / STEP.as_millis() + 1;
        tokio::time::sleep_until(self.0 + STEP * u32::try_from(steps).unwrap_or(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_leave_at_full_steps() {
        for (work_ms, answer_ms) in [(0, 50), (3, 50), (49, 50), (50, 100), (120, 150)] {
            let started = Instant::now();
            let padding = ResponsePadding::start();
            tokio::time::advance(Duration::from_millis(work_ms)).await;
            padding.wait().await;
            assert_eq!(started.elapsed().as_millis(), answer_ms, "{work_ms}");
        }
    }
}
