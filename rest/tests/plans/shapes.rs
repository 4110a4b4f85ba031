//! The shape cache yields the same statements as planning.

use basalt_rest::config::RestConfig;
use basalt_rest::plan::{self, Plan, TablePlan};
use basalt_rest::request::ApiRequest;
use basalt_rest::request::payload::Payload;
use basalt_rest::shape::{Prepared, ShapedRequest, Template, render};
use basalt_rest::statement::Statements;
use bytes::Bytes;
use http::Method;
use http::request::Parts;

use crate::{fixture, read};

/// Checks for every request planned by any test here: if its kind has a shape, there is a template, and it yields the
/// same statements.
pub(crate) fn holds(head: &Parts, body: &Bytes, api: &ApiRequest, plan: &Plan, config: &RestConfig) {
    let has_shape = match plan {
        Plan::Root | Plan::Info { .. } => false,
        Plan::Read(_) | Plan::Write(_) => head.method != Method::PUT,
        Plan::Call(_) => head.method == Method::POST,
    };
    let is_usual = api.range.limit != Some(0)
        && !(head.method == Method::GET && head.headers.contains_key("range"))
        && match &api.payload {
            None => true,
            // CSV and forms are converted only without the cache.
            Some(Payload::Json(json)) => json.is_body,
            Some(Payload::Form(_) | Payload::Raw { .. }) => false,
        };
    let shaped = ShapedRequest::read(config, head, body);
    assert_eq!(shaped.is_some(), has_shape && is_usual, "{} {}", head.method, head.uri);
    if matches!(plan, Plan::Call(call) if call.has_values()) {
        // A `bytea` built from a JSON body is not worth a placeholder of its own.
        return;
    }
    let (Some(shaped), Some(statements)) = (shaped, render(plan)) else { return };
    let template = Template::new(&shaped, api, &statements, config, &fixture::cache());
    let ready = template.unwrap().fill(shaped, &head.method, head.uri.path());
    assert_same(&ready, api, plan, &statements);
}

fn assert_same(ready: &Prepared, api: &ApiRequest, plan: &Plan, statements: &Statements) {
    assert_eq!(format!("{:?}", ready.statements), format!("{:?}", Some(statements)));
    let filled = ready.statements.as_ref().unwrap();
    assert_eq!(filled.main.params, statements.main.params);
    let estimates = |statements: &Statements| {
        statements.estimates.iter().map(|one| one.params.clone()).collect::<Vec<_>>()
    };
    assert_eq!(estimates(filled), estimates(statements));
    let kept = |api: &ApiRequest| {
        let ApiRequest { action, schema, has_profile, canonical_query, range, prefer, path, method, .. } =
            api;
        format!("{action:?} {schema} {has_profile} {canonical_query} {range:?} {prefer:?} {path} {method}")
    };
    assert_eq!(kept(&ready.api), kept(api));
    let kept = |plan: &Plan| match plan {
        Plan::Read(plan) => {
            let TablePlan { common, format, head, max_rows, row_cap, delivery, read } = &**plan;
            let is_grouped = read.is_grouped();
            format!(
                "{common:?} {format:?} {head} {max_rows:?} {row_cap:?} {delivery:?} {:?} {is_grouped}",
                read.range
            )
        }
        Plan::Write(plan) => format!("{:?} {:?} {:?}", plan.common, plan.format, plan.answer),
        Plan::Call(plan) => {
            format!("{:?} {:?} {:?} {:?}", plan.common, plan.format, plan.result, plan.read.range)
        }
        Plan::Root | Plan::Info { .. } => String::new(),
    };
    assert_eq!(kept(&ready.plan), kept(plan));
}

fn shaped(request: &str, config: &RestConfig) -> (ShapedRequest, ApiRequest, Plan, Statements, Parts) {
    let (head, body) = read(request);
    let shaped = ShapedRequest::read(config, &head, &body).unwrap();
    let api = ApiRequest::read(config, &head, body).unwrap();
    let plan = plan::plan(&api, config, &fixture::cache()).unwrap();
    let statements = render(&plan).unwrap();
    (shaped, api, plan, statements, head)
}

/// Serves the second request from the template of the first.
fn assert_one_shape(first: &str, second: &str) {
    let config = RestConfig { max_rows: Some(1000), aggregates: true, ..RestConfig::default() };
    let (known, api, _, statements, _) = shaped(first, &config);
    let template = Template::new(&known, &api, &statements, &config, &fixture::cache()).unwrap();
    let (other, api, plan, statements, head) = shaped(second, &config);
    assert_eq!(known.key, other.key, "{first} and {second}");
    assert_same(&template.fill(other, &head.method, head.uri.path()), &api, &plan, &statements);
}

#[test]
fn values_are_not_part_of_shape() {
    for (first, second) in [
        ("GET /projects?id=eq.1", "GET /projects?id=eq.2"),
        ("GET /projects?id=eq.1", "GET /projects?id=eq.'; drop table projects --"),
        ("GET /projects?name=like.*a*&id=gt.5", "GET /projects?name=like.b%25&id=gt.null"),
        ("GET /projects?name=eq.a*&id=eq.a*", "GET /projects?name=eq.b*&id=eq.c*"),
        ("GET /projects?id=in.(1,2)", "GET /projects?id=in.(\"a,b\",c,\"d)\")"),
        ("GET /projects?id=in.(1)", "GET /projects?id=in.()"),
        ("GET /projects?name=not.ilike(any).{a*,b}", "GET /projects?name=not.ilike(any).{}"),
        ("GET /projects?body=fts(french).a", "GET /projects?body=fts(french).b c"),
        ("GET /projects?name=isdistinct.a", "GET /projects?name=isdistinct.null"),
        ("GET /projects?limit=10&offset=20", "GET /projects?limit=11&offset=1"),
        ("GET /projects?limit=1001&offset=5", "GET /projects?limit=5000&offset=7"),
        ("GET /projects?limit=5\nPrefer: count=exact", "GET /projects?limit=6\nPrefer: count=exact"),
        (
            "GET /projects?limit=5&offset=5\nPrefer: count=estimated",
            "GET /projects?limit=9&offset=9\nPrefer: count=estimated",
        ),
        ("GET /paints?shade=eq.red&shade=in.(a,b)", "GET /paints?shade=eq.blue&shade=in.(c)"),
        (
            "GET /projects?select=id,tasks(id)&tasks.done=eq.true&id=lt.5",
            "GET /projects?select=id,tasks(id)&tasks.done=eq.false&id=lt.9",
        ),
        ("PATCH /tasks?id=eq.1\n\n{\"name\":\"a\"}", "PATCH /tasks?id=eq.2\n\n{\"name\": null }"),
        ("POST /tasks\n\n[{\"name\":\"a\"}]", "POST /tasks\n\n[{\"name\":1},{\"name\":2}]"),
        ("DELETE /tasks?id=eq.1", "DELETE /tasks?id=eq.2"),
    ] {
        assert_one_shape(first, second);
        assert_one_shape(second, first);
    }
}

#[test]
fn everything_the_plan_depends_on_is_part_of_shape() {
    let config = RestConfig { max_rows: Some(1000), aggregates: true, ..RestConfig::default() };
    let requests = [
        "GET /projects",
        "HEAD /projects",
        "DELETE /projects?id=eq.1",
        "GET /projects?id=eq.1",
        "GET /projects?id=neq.1",
        "GET /projects?id=not.eq.1",
        "GET /projects?id=eq(any).{1}",
        "GET /projects?id=in.(1)",
        "GET /projects?id=is.null",
        "GET /projects?id=is.not_null",
        "GET /projects?name=eq.1",
        "GET /projects?id=eq.1&id=eq.1",
        "GET /projects?body=fts.a",
        "GET /projects?body=fts(french).a",
        "GET /projects?select=id",
        "GET /projects?select=id,name",
        "GET /projects?order=id",
        "GET /projects?or=(id.eq.1,id.eq.2)",
        "GET /projects?limit=5",
        "GET /projects?limit=5000",
        "GET /projects?offset=5",
        "GET /projects?limit=5&offset=5",
        "GET /projects\nPrefer: count=exact",
        "GET /projects\nPrefer: count=planned",
        "GET /projects\nAccept: text/csv",
        "GET /projects\nAccept: application/vnd.pgrst.object+json",
        "GET /projects\nAccept-Profile: public",
        "GET /clients",
        "POST /tasks\n\n{\"name\":1}",
        "POST /tasks\n\n[{\"name\":1}]",
        "POST /tasks\n\n[{\"id\":1}]",
        "POST /tasks\n\n[]",
        "POST /tasks?columns=name\n\n{\"name\":1}",
        "POST /tasks\nPrefer: return=representation\n\n{\"name\":1}",
    ];
    let keys: Vec<Vec<u8>> = requests.iter().map(|request| shaped(request, &config).0.key).collect();
    for (index, key) in keys.iter().enumerate() {
        let same: Vec<_> = requests.iter().zip(&keys).filter(|(_, other)| *other == key).collect();
        assert_eq!(same.len(), 1, "{} is taken for another: {same:?}", requests[index]);
    }
}

#[test]
fn guessed_marker_is_treated_as_value() {
    // Text of a request that is part of its shape is reproduced unchanged.
    assert_one_shape(
        "GET /projects?or=(name.eq.basaltf0,name.eq.basaltb)&id=eq.1",
        "GET /projects?or=(name.eq.basaltf0,name.eq.basaltb)&id=eq.2",
    );
}
