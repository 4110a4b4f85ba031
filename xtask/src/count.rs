//! Counts tests from the output and reports of test programs.
//!
//! Reads only the required totals, by name: the formats of libtest, Vitest and Playwright are stable there, and a JSON crate would make the first
//! `cargo xtask` of a fresh clone slower.

use std::ops::AddAssign;
use std::path::Path;

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The module of the service tests for `policies/`.
const POLICIES: &str = "project::policies::";

/// Sums of a `cargo test` run, with policy tests counted separately.
#[derive(Default)]
pub(crate) struct CargoTest {
    /// All tests except policy tests.
    pub(crate) rust: Tally,
    /// Policy tests.
    pub(crate) policies: Tally,
    /// Policy tests of the current test binary.
    current: Tally,
}

impl CargoTest {
    /// Reads one line of output, without colours.
    pub(crate) fn read(&mut self, line: &str) {
        let words = line.trim_start();
        if let Some(test) = words.strip_prefix("test ").filter(|test| test.starts_with(POLICIES)) {
            if test.ends_with("... ok") {
                self.current.passed += 1;
            } else if test.ends_with("... FAILED") {
                self.current.failed += 1;
            }
        } else if let Some(result) = words.strip_prefix("test result: ") {
            let all = Tally {
                passed: number_before(result, " passed"),
                failed: number_before(result, " failed"),
                skipped: number_before(result, " ignored"),
            };
            let policies = std::mem::take(&mut self.current);
            self.policies += policies;
            self.rust += Tally {
                passed: all.passed.saturating_sub(policies.passed),
                failed: all.failed.saturating_sub(policies.failed),
                skipped: all.skipped,
            };
        }
    }
}

/// The name of the failed test in a line of output from libtest, Vitest or Playwright.
pub(crate) fn failed_test(line: &str) -> Option<&str> {
    let words = line.trim();
    if let Some(test) = words.strip_prefix("test ") {
        return test.strip_suffix("... FAILED").map(str::trim_end);
    }
    if let Some(test) = words.strip_prefix("FAIL ") {
        // A file that fails to load has a line of the same form.
        return Some(test.trim_start());
    }
    // "✘  12 [app] › e2e/plans.spec.ts:3:1 › a title (1.2s)"
    let (_, test) = words.strip_prefix('✘')?.trim_start().split_once(' ')?;
    Some(test)
}

/// The totals of Vitest's JSON report; `None` if it was not written.
pub(crate) fn vitest(report: &Path) -> Option<Tally> {
    let text = std::fs::read_to_string(report).ok()?;
    Some(Tally {
        passed: number_after(&text, "\"numPassedTests\":")?,
        failed: number_after(&text, "\"numFailedTests\":")?,
        skipped: number_after(&text, "\"numPendingTests\":")?
            + number_after(&text, "\"numTodoTests\":").unwrap_or(0),
    })
}

/// The totals of Playwright's JSON report; `None` if it was not written.
pub(crate) fn playwright(report: &Path) -> Option<Tally> {
    let text = std::fs::read_to_string(report).ok()?;
    // Attachments and titles come first; the totals are the last object.
    let (_, stats) = text.rsplit_once("\"stats\":")?;
    Some(Tally {
        passed: number_after(stats, "\"expected\":")?,
        failed: number_after(stats, "\"unexpected\":")?,
        skipped: number_after(stats, "\"skipped\":")?,
    })
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    let (_, digits) = before.rsplit_once(' ').unwrap_or(("", before));
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cargo_tests_and_separates_policies() {
        let mut count = CargoTest::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/basalt_rest-1a)",
            "test parse::a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "     Running ../tests/service/main.rs (target/debug/deps/service-1a)",
            "test project::policies::plans_are_private ... ok",
            "test project::policies::tasks_are_private ... FAILED",
            "test rest::roles::policies_can_use_claims ... ok",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "   Doc-tests basalt_rest",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            count.read(line);
        }
        assert_eq!(count.rust, Tally { passed: 16, failed: 0, skipped: 1 });
        assert_eq!(count.policies, Tally { passed: 1, failed: 1, skipped: 0 });
    }

    #[test]
    fn finds_names_of_failed_tests() {
        for (line, name) in [
            ("test rest::roles::one ... FAILED", Some("rest::roles::one")),
            ("test rest::roles::two ... ok", None),
            (
                " FAIL  tests/s3.test.ts > a bucket > is listed",
                Some("tests/s3.test.ts > a bucket > is listed"),
            ),
            (
                "  ✘   12 [app] › e2e/plans.spec.ts:3:1 › a title (1.2s)",
                Some("[app] › e2e/plans.spec.ts:3:1 › a title (1.2s)"),
            ),
            ("  ✓   13 [app] › e2e/plans.spec.ts:9:1 › a date (1.2s)", None),
        ] {
            assert_eq!(failed_test(line), name, "{line}");
        }
    }

    #[test]
    fn reads_totals_of_reports() {
        let folder = std::env::temp_dir().join(format!("xtask-count-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let vitest_report = folder.join("vitest.json");
        std::fs::write(
            &vitest_report,
            r#"{"numTotalTests":4,"numPassedTests":3,"numFailedTests":1,"numPendingTests":0}"#,
        )
        .unwrap();
        assert_eq!(vitest(&vitest_report), Some(Tally { passed: 3, failed: 1, skipped: 0 }));
        let browser_report = folder.join("browser.json");
        std::fs::write(
            &browser_report,
            r#"{"suites":[], "stats": {"expected": 7, "skipped": 1, "unexpected": 2, "flaky": 0}}"#,
        )
        .unwrap();
        assert_eq!(playwright(&browser_report), Some(Tally { passed: 7, failed: 2, skipped: 1 }));
        assert_eq!(playwright(&folder.join("absent.json")), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
