//! Headers.

use super::super::case::Case;
use super::super::response::View;
use super::Rule;

pub(super) const STANDING: &[Rule] = &[
    Rule {
        name: "server-timing",
        reason: "rest.md §3.19: the same parts in the same form; their lengths are nobody's business here",
        apply: server_timing,
    },
    Rule {
        name: "vary",
        reason: "rest.md §1: successful responses carry Vary since 16, unless response.headers sets it",
        apply: vary,
    },
    Rule {
        name: "proxy-status",
        reason: "rest.md §3.18: errors carry Proxy-Status since 13",
        apply: proxy_status,
    },
    Rule {
        name: "gateway",
        reason: "DESIGN §3, §12: the gateway gives each response a request id, forbids guessing its type, and keeps what a browser renders \
                 out of the app's origin",
        apply: gateway,
    },
    Rule {
        name: "expose-headers",
        reason: "rest.md §3.13, ours: Retry-After, Preference-Applied, Proxy-Status and our own header are exposed to browsers as well",
        apply: expose_headers,
    },
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "truncated",
        reason: "ours: Basalt-Truncated marks a response that max_rows cut",
        apply: truncated,
    },
    Rule {
        name: "vary-origin",
        reason: "rest.md §3.13: with a list of origins the response depends on the request's",
        apply: vary_origin,
    },
    Rule {
        name: "preflight",
        reason: "rest.md §3.13: a preflight is handled before anything else, without the trace header, and to other origins without CORS headers",
        apply: preflight,
    },
    Rule {
        name: "retry-after",
        reason: "rest.md §3.19: Retry-After tells the seconds to the next attempt, at least one",
        apply: retry_after,
    },
    Rule {
        name: "repeated-parameters",
        reason: "rest.md §3.2: the canonical query keeps repeated parameters apart; 12 joined their values by commas",
        apply: repeated_parameters,
    },
    Rule {
        name: "encoded-path",
        reason: "a header cannot hold a blank or a letter outside ASCII: the path in Content-Location and Location is encoded; 12 sent it raw, \
                 and read the query as Latin-1",
        apply: encoded_path,
    },
    Rule {
        name: "key-order",
        reason: "rest.md §4.3: primary key columns go by name, in Location as well",
        apply: key_order,
    },
    Rule {
        name: "preflight-headers",
        reason: "rest.md §3.13: a preflight response always names the allowed headers",
        apply: preflight_headers,
    },
    Rule {
        name: "legacy-target-name",
        reason: "rest.md §1, §3.7: addressing an aliased embed by its target's name brings a Warning",
        apply: legacy_target_name,
    },
];

/// Only where as many rows came as the cap lets through, on some level.
fn truncated(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = actual.status < 300
        && actual.header("basalt-truncated") == "max-rows"
        && expected.header("basalt-truncated").is_empty();
    if applies {
        expected.set_header("basalt-truncated", "max-rows");
    }
    applies
}

fn vary_origin(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let ours = actual.headers.get("vary").cloned().unwrap_or_default();
    let (origin, others): (Vec<_>, Vec<_>) = ours.iter().cloned().partition(|value| value == "Origin");
    let theirs = expected.headers.get("vary").cloned().unwrap_or_default();
    let applies = case.place.starts_with("origins:") && origin.len() == 1 && others == theirs;
    if applies {
        let _before = expected.headers.insert("vary".to_owned(), ours);
    }
    applies
}

fn preflight(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_preflight = case.method == "OPTIONS"
        && case.header("Access-Control-Request-Method").is_some()
        && case.header("Origin").is_some();
    if !is_preflight || actual.status != 200 {
        return false;
    }
    let is_foreign = expected.headers.contains_key("allow") && case.place.starts_with("origins:");
    if is_foreign {
        expected.headers.retain(|name, _| !name.starts_with("access-control") && name != "allow");
    }
    let has_trace = expected.headers.remove("x-trace").is_some();
    is_foreign || has_trace
}

fn retry_after(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = expected.status == 503
        && expected.header("retry-after") == "0"
        && actual.header("retry-after") == "1";
    if applies {
        expected.set_header("retry-after", "1");
    }
    applies
}

/// A query with the values of each key joined, as 12 writes it.
fn joined(location: &str) -> String {
    let Some((path, query)) = location.split_once('?') else { return location.to_owned() };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) => values.push_str(&format!(",{value}")),
            None => pairs.push((key.to_owned(), value.to_owned())),
        }
    }
    let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{path}?{}", pairs.join("&"))
}

fn repeated_parameters(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let ours = actual.header("content-location").to_owned();
    let applies =
        joined(&ours) == expected.header("content-location") && ours != expected.header("content-location");
    if applies {
        expected.set_header("content-location", &ours);
    }
    applies
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// With the path as it is called, and the query as it stands.
fn raw_path(location: &str) -> String {
    location
        .split_once('?')
        .map_or_else(|| decoded(location), |(path, query)| format!("{}?{query}", decoded(path)))
}

/// The same text, had its bytes been taken for Latin-1.
fn as_latin1(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

/// The path as it is called, and the query as Latin-1.
fn is_latin1_query(theirs: &str, ours: &str) -> bool {
    let (Some((path, query)), Some((our_path, our_query))) = (theirs.split_once('?'), ours.split_once('?'))
    else {
        return false;
    };
    decoded(our_path) == path
        && [
            our_query.to_owned(),
            joined(ours).split_once('?').map_or_else(String::new, |(_, query)| query.to_owned()),
        ]
        .into_iter()
        .any(|query_of_ours| as_latin1(&decoded(&query_of_ours)) == decoded(query))
}

fn encoded_path(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let mut applied = false;
    let is_odd = case.path().contains('%') || !decoded(&case.target).is_ascii();
    for name in ["content-location", "location"] {
        let (theirs, ours) = (decoded(expected.header(name)), actual.header(name).to_owned());
        let plain = decoded(&ours);
        let latin1 = plain
            .split_once('?')
            .map(|(path, query)| format!("{path}?{}", as_latin1(query)))
            .unwrap_or_default();
        if is_odd
            && ours.is_ascii()
            && !ours.contains(' ')
            && !ours.is_empty()
            && (plain == theirs
                || raw_path(&ours) == expected.header(name)
                || joined(&raw_path(&ours)) == expected.header(name)
                || latin1 == theirs
                || is_latin1_query(expected.header(name), &ours)
                || joined(&latin1) == theirs)
        {
            expected.set_header(name, &ours);
            applied = true;
        }
    }
    applied
}

fn key_order(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let sorted = |view: &View| -> Vec<String> {
        let mut keys: Vec<_> = view.header("location").split(['?', '&']).map(str::to_owned).collect();
        keys.sort();
        keys
    };
    let applies = expected.header("location").contains('&') && sorted(expected) == sorted(actual);
    if applies {
        let ours = actual.header("location").to_owned();
        expected.set_header("location", &ours);
    }
    applies
}

fn preflight_headers(case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let applies = case.header("Access-Control-Request-Method").is_some()
        && expected.header("access-control-allow-headers").is_empty();
    if applies {
        expected.set_header(
            "access-control-allow-headers",
            "Authorization, Accept, Accept-Language, Content-Language",
        );
    }
    applies
}

fn legacy_target_name(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    const WORDS: &str = " \"Embedded resource was referenced by relation name even though it has an alias. This is \
                         deprecated and will stop working in a future release. Update `";
    let is_explained = |warning: &String| {
        warning.starts_with("299 PostgRESTv")
            && warning.contains(WORDS)
            && warning.ends_with("` in query string filters, orders or limits.\"")
    };
    // One for each embed.
    let warnings = actual.headers.get("warning").cloned().unwrap_or_default();
    let applies =
        expected.header("warning").is_empty() && !warnings.is_empty() && warnings.iter().all(is_explained);
    if applies {
        let _none = expected.headers.insert("warning".to_owned(), warnings);
    }
    applies
}

fn server_timing(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let form = |text: &str| -> String {
        let parts = text.split(", ").map(|part| match part.split_once(";dur=") {
            Some((name, length))
                if length.parse::<f64>().is_ok()
                    && length.split_once('.').is_some_and(|(_, digits)| digits.len() == 1) =>
            {
                format!("{name};dur=N")
            }
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let ours = form(actual.header("server-timing"));
    if ours.is_empty() {
        return false;
    }
    // 12 leaves a hole for what was not done, and is silent about errors.
    let theirs: Vec<_> = form(expected.header("server-timing"))
        .split(", ")
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let parts: Vec<_> = ours.split(", ").collect();
    let in_order: Vec<_> = ["jwt", "parse", "plan", "transaction", "response"]
        .into_iter()
        .map(|name| format!("{name};dur=N"))
        .filter(|part| parts.contains(&part.as_str()))
        .collect();
    if parts == in_order && theirs.iter().all(|part| parts.contains(&part.as_str())) {
        actual.set_header("server-timing", &ours);
        expected.set_header("server-timing", &ours);
    }
    true
}

fn vary(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_success = expected.status != 0 && expected.error("code").is_empty();
    let is_head_error =
        case.method == "HEAD" && expected.status >= 300 && !actual.header("proxy-status").is_empty();
    let is_empty_error = expected.status == 404 && expected.body == "{}";
    let applies = is_success
        && !is_head_error
        && !is_empty_error
        && case.method != "OPTIONS"
        && expected.header("vary").is_empty();
    if applies {
        expected.set_header("vary", "Accept, Prefer, Range");
    }
    applies
}

fn proxy_status(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let code = expected.error("code");
    if !code.is_empty() {
        expected.set_header("proxy-status", &format!("PostgREST; error={code}"));
        return true;
    }
    // A response to HEAD has no body to read the code from.
    let ours = actual.header("proxy-status").to_owned();
    let applies = case.method == "HEAD" && expected.status >= 300 && ours.starts_with("PostgREST; error=");
    if applies {
        expected.set_header("proxy-status", &ours);
    }
    applies
}

fn gateway(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_preflight = case.method == "OPTIONS" && case.header("Access-Control-Request-Method").is_some();
    if !is_preflight {
        expected.set_header("x-content-type-options", "nosniff");
    }
    let media = expected.header("content-type").split(';').next().unwrap_or_default();
    let is_inert =
        ["json", "text/plain", "text/csv", "octet-stream"].into_iter().any(|end| media.ends_with(end));
    if !media.is_empty() && !is_inert {
        expected.set_header("content-security-policy", "sandbox");
    }
    // A fresh one each time.
    let id = actual.header("x-request-id").to_owned();
    if !id.is_empty() {
        expected.set_header("x-request-id", &id);
    }
    true
}

fn expose_headers(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    const NAME: &str = "access-control-expose-headers";
    let names = |view: &View| -> Vec<String> {
        view.header(NAME).split(',').map(|name| name.trim().to_owned()).collect()
    };
    // 12 forgets them on OPTIONS.
    let is_forgotten = case.method == "OPTIONS"
        && case.header("Access-Control-Request-Method").is_none()
        && expected.header("access-control-allow-origin") == "*"
        && case.header("Origin").is_some();
    if expected.header(NAME).is_empty() && !is_forgotten {
        return false;
    }
    if is_forgotten {
        expected.set_header(
            NAME,
            "Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, \
             Transfer-Encoding, Range-Unit",
        );
    }
    let mut wanted = names(expected);
    wanted
        .extend(["Retry-After", "Preference-Applied", "Proxy-Status", "Basalt-Truncated"].map(str::to_owned));
    wanted.sort();
    let mut ours = names(actual);
    ours.sort();
    if ours == wanted {
        let ours = actual.header(NAME).to_owned();
        expected.set_header(NAME, &ours);
    }
    true
}
