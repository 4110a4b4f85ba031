//! Generates docs/METRICS.md. The tests compare the table with the metrics in the source; `tests/service/gateway` compares
//! it with a running server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{BOUNDS, Shown, metrics};
use crate::config::settings;

fn markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Generated from `gateway/src/metric_table/`; `cargo xtask gen-docs` regenerates it.\n\n\
         `GET /metrics` returns them in the Prometheus text format: on the public port with the secret key as bearer token, on\n\
         `server.admin_port` without. `server.metrics = false` turns them off.\n\n\
         - A metric in *italics* appears after its first event; the others from the start, if their service runs.\n\
         - A metric `x_limit` is the limit of the metric `x`. Alert at 80 % of it.\n\
         - Histograms have `_bucket`, `_sum` and `_count`.\n\n\
         ## Where to start\n\n\
         | question | metrics |\n|---|---|\n\
         | do requests fail? | `basalt_http_requests_total{status=\"5xx\"}`, `basalt_http_refused_total` |\n\
         | are they slow? | `basalt_http_request_duration_seconds`; `basalt_pool_waiting` shows whether PostgreSQL is the cause |\n\
         | is a limit near? | each metric beside its `_limit` |\n\
         | do mails arrive? | `basalt_mail_waiting`, `basalt_mail_dead` |\n\n\
         ## All metrics\n\n\
         | metric | type | labels | unit | meaning | when it rises |\n|---|---|---|---|---|---|\n",
    );
    for metric in metrics() {
        let italics = if metric.shown == Shown::Happened { "*" } else { "" };
        let labels: Vec<String> =
            metric.labels.iter().map(|(name, words)| format!("`{name}`: {words}")).collect();
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let _ = writeln!(
            text,
            "| {italics}`{}`{italics} | {} | {} | {} | {} | {} |",
            metric.name,
            metric.kind.as_str(),
            or_dash(&labels.join("; ")),
            metric.unit,
            metric.meaning,
            or_dash(metric.advice)
        );
    }
    text.push_str(
        "\n## Limits\n\n\
         What is named like `server.max_requests` is a setting (docs/CONFIG.md); a number is fixed. Request headers may take up\n\
         to `server.max_connections` times twice `server.max_header_bytes`: lower either if memory is short and clients are not\n\
         trusted.\n\n\
         | limit | setting | limit metric | usage metric | beyond it | counted by |\n|---|---|---|---|---|---|\n",
    );
    let code = |name: &str| {
        if name.starts_with(|first: char| first.is_ascii_lowercase()) {
            format!("`{name}`")
        } else {
            name.to_owned()
        }
    };
    for bound in BOUNDS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            bound.what,
            code(bound.setting),
            code(bound.limit),
            code(bound.in_use),
            bound.beyond,
            code(bound.counted)
        );
    }
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn metrics_document_is_up_to_date() {
    let path = repository().join("docs/METRICS.md");
    let text = markdown();
    if std::env::vars_os().any(|(name, _)| name == "BASALT_TEST_BLESS") {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/METRICS.md is stale: run cargo xtask gen-docs");
}

/// Metric names in a source file: literals such as `"basalt_…"`.
fn names_in(source: &str, names: &mut BTreeSet<String>) {
    const BEGINNINGS: [&str; 20] = [
        "basalt_plan_mails_",
        "basalt_backup_",
        "basalt_http_",
        "basalt_tls_",
        "basalt_pool_",
        "basalt_rest_s",
        "basalt_auth_",
        "basalt_mail_",
        "basalt_functions_",
        "basalt_cron_",
        "basalt_net_",
        "basalt_stripe_",
        "basalt_storage_",
        "basalt_realtime_",
        "basalt_statements_",
        "basalt_transactions_",
        "basalt_verified_",
        "basalt_build_",
        "process_resident_",
        "process_start_",
    ];
    for literal in source.split('"') {
        let is_name = literal.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if is_name && BEGINNINGS.iter().any(|beginning| literal.starts_with(beginning)) {
            names.insert(literal.to_owned());
        }
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.file_stem().is_some_and(|stem| stem == "metric_table") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn table_matches_metrics_in_code() {
    let mut files = Vec::new();
    for member in [
        "core",
        "pg",
        "http",
        "postgres",
        "mail",
        "rest",
        "auth",
        "storage",
        "realtime",
        "functions",
        "extensions",
        "backup",
        "planning",
        "project",
        "gateway",
    ] {
        sources(&repository().join(member).join("src"), &mut files);
    }
    let mut set = BTreeSet::new();
    for file in files {
        names_in(&std::fs::read_to_string(file).unwrap(), &mut set);
    }
    let documented: BTreeSet<String> = metrics().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(set, documented);
    assert_eq!(documented.len(), metrics().count(), "one line per metric");
}

#[test]
fn limits_name_existing_settings_and_metrics() {
    for bound in BOUNDS {
        let is_setting = settings().any(|row| row.key == bound.setting);
        let is_number = bound.setting.starts_with(|first: char| first.is_ascii_digit());
        assert!(is_setting || is_number, "{}", bound.setting);
        for name in [bound.limit, bound.in_use, bound.counted] {
            assert!(name == "-" || metrics().any(|metric| metric.name == name), "{name}");
        }
    }
    // Every exported limit is documented.
    for metric in metrics().filter(|metric| metric.name.ends_with("_limit")) {
        assert!(BOUNDS.iter().any(|bound| bound.limit == metric.name), "{}", metric.name);
    }
}
