//! Results: a table for people, JSON for comparisons.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Prints one line.
pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// The median; NaN if there are no values.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The medians of each value in objects of the same form; null if there are none.
pub(crate) fn medians(runs: &[Value]) -> Value {
    match runs {
        [] => Value::Null,
        [Value::Object(first), ..] => {
            let of = |key: &String| -> Vec<Value> {
                runs.iter().filter_map(|run| run.get(key).cloned()).collect()
            };
            first.keys().map(|key| (key.clone(), medians(&of(key)))).collect()
        }
        [Value::Number(_), ..] => rounded(median(runs.iter().filter_map(Value::as_f64))),
        [first, ..] => first.clone(),
    }
}

/// Of bytes, for people.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    std::time::Duration::from_micros(bytes).as_secs_f64()
}

/// Three significant digits, for a readable JSON file.
pub(crate) fn rounded(figure: f64) -> Value {
    let text = if figure.abs() >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.3}") };
    text.parse::<f64>().map_or(Value::Null, Value::from)
}

/// Commit, machine, command and time of a measurement.
pub(crate) fn circumstances() -> Value {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "commit": output("git", &["rev-parse", "HEAD"]),
        "changed": output("git", &["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty()),
        "command": std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        "time": Timestamp::now().to_string(),
        "machine": {
            "processor": field(&file("/proc/cpuinfo"), "model name"),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "memory": field(&file("/proc/meminfo"), "MemTotal"),
            "kernel": output("uname", &["-sr"]),
            "load_before": file("/proc/loadavg").split_whitespace().next().map(str::to_owned),
        },
    })
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Writes the JSON file.
pub(crate) fn write(file: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    std::fs::write(file, text + "\n").with_context(|| format!("could not write {}", file.display()))?;
    print(&format!("figures in {}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_computed_per_figure() {
        let runs = [3.0, 1.0, 2.0].map(|figure| json!({"a": {"b": figure, "status": 201}, "c": "text"}));
        assert_eq!(medians(&runs), json!({"a": {"b": 2.0, "status": 201.0}, "c": "text"}));
        assert_eq!(medians(&[]), Value::Null);
        assert!(median([]).is_nan() && rounded(median([])).is_null());
    }
}
