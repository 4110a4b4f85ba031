//! Checks that every construct of rest.md §3.2–§3.12 occurs in a snapshot.

/// Constructs by section, as written in a request.
const CONSTRUCTS: &[(&str, &[&str])] = &[
    (
        "3.3 select",
        &[
            "select=*",
            "select=\"",
            "n:name",
            "::text",
            "->a",
            "->0",
            "->-1",
            "->>",
            "\"odd, name\\\"",
            "select=count\"",
            "upper_name",
        ],
    ),
    (
        "3.4 operators",
        &[
            "=eq.",
            "=neq.",
            "=gt.",
            "=gte.",
            "=lt.",
            "=lte.",
            "=like.",
            "=ilike.",
            "=match.",
            "=imatch.",
            "=in.(",
            "=in.()",
            "=isdistinct.",
            "=fts.",
            "=plfts(",
            "=phfts.",
            "=wfts(",
            "=cs.{",
            "=cd.{",
            "=ov.{",
            "=sl.[",
            "=sr.[",
            "=nxr.[",
            "=nxl.[",
            "=adj.[",
            "=is.null",
            "=is.not_null",
            "=is.true",
            "=is.false",
            "=is.unknown",
            "(any).{",
            "(all).{",
            "=not.",
            "not.like(any).{",
        ],
    ),
    ("3.4 logic", &["or=(", "not.or=(", "and=(", "tasks.or=(", "not.and(", ".not.is.null", "in.(a,"]),
    (
        "3.5 order",
        &[
            ".desc",
            ".asc",
            ".nullsfirst",
            ".nullslast",
            "order=clients(",
            "meta->>a.nullsfirst",
            "tasks.order=",
        ],
    ),
    (
        "3.6 windows and counts",
        &[
            "limit=0",
            "&limit=",
            "offset=",
            "tasks.limit=",
            ".offset=1",
            "Range: 3-5",
            "Range: 7-",
            "count=exact",
            "count=planned",
            "count=estimated",
            "HEAD /",
        ],
    ),
    (
        "3.7 embeds",
        &[
            "clients(name)",
            "tasks(id",
            "profiles(bio)",
            "users(name)",
            "parent_id(",
            "!tasks_users(",
            "!billing_fk(",
            "!shipping_id(",
            "!left(",
            "!inner(",
            "!projects_client_id_fkey!inner(",
            "projects()",
            "tasks=is.null\\|tasks.is.null",
            "=not.is.null",
            "latest_task(",
            "project_cards",
            "jobs:tasks(",
        ],
    ),
    (
        "3.8 spreads and aggregates",
        &[
            "...projects(",
            "...users(",
            "...clients(",
            ".sum()",
            ".avg()",
            ".min()",
            ".max()",
            ".count()",
            "count()",
            "()::",
        ],
    ),
    (
        "3.9 writes",
        &[
            "POST /clients",
            "PATCH /",
            "DELETE /",
            "PUT /",
            "columns=",
            "on_conflict=",
            "missing=default",
            "return=representation",
            "return=headers-only",
            "resolution=merge-duplicates",
            "resolution=ignore-duplicates",
            "text/csv\\n",
            "x-www-form-urlencoded",
            "\\n\\n[]",
            "\\n\\n{}",
            "[{},{}]",
        ],
    ),
    (
        "3.10 calls",
        &[
            "GET /rpc/",
            "POST /rpc/",
            "HEAD /rpc/",
            "octet-stream",
            "text/plain",
            "text/xml",
            "rest=a&rest=b",
            "/rpc/forget",
            "/rpc/numbers",
            "/rpc/one_project",
        ],
    ),
    (
        "3.12 media types",
        &[
            "vnd.pgrst.object+json\"",
            "array+json;nulls=stripped",
            "object+json;nulls=stripped",
            "Accept: text/csv",
            "geo+json",
            "vnd.pgrst.plan\"",
            "plan+json",
            "analyze|verbose|settings|buffers|wal",
            "Accept: text/html",
            "/paints",
        ],
    ),
];

#[test]
fn every_construct_has_a_snapshot() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut requests = String::new();
    for file in ["bodies", "calls", "embeds", "filters", "media", "reads", "selects", "writes"] {
        let text = std::fs::read_to_string(dir.join(file).with_extension("rs")).unwrap();
        // Requests follow `sql("`; text inside snapshots does not count.
        for line in text.lines().filter(|line| line.contains("sql(\"")) {
            requests.push_str(line.split(", @").next().unwrap_or_default());
            requests.push('\n');
        }
    }
    let requests = requests.replace("\\\"", "\"");
    let missing: Vec<String> = CONSTRUCTS
        .iter()
        .flat_map(|(section, constructs)| constructs.iter().map(move |construct| (section, construct)))
        .filter(|(_, construct)| {
            !construct.replace("\\\"", "\"").split("\\|").any(|one| requests.contains(one))
        })
        .map(|(section, construct)| format!("{section}: {construct}"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
