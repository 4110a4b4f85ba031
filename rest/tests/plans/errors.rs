//! Exact texts of errors that need no database.

use basalt_rest::config::RestConfig;
use insta::assert_snapshot;

use super::{refusal, refusal_with};

#[test]
fn unknown_names_get_suggestions() {
    assert_snapshot!(refusal("GET /project"), @"
    404 PGRST205 Could not find the table 'public.project' in the schema cache
    hint: Perhaps you meant the table 'public.projects'
    ");
    assert_snapshot!(refusal("GET /projects?select=tsks(*)"), @r#"
    400 PGRST200 Could not find a relationship between 'projects' and 'tsks' in the schema cache
    details: "Searched for a foreign key relationship between 'projects' and 'tsks' in the schema 'public', but no matches were found."
    hint: Perhaps you meant 'tasks' instead of 'tsks'.
    "#);
    assert_snapshot!(refusal("GET /projects?select=clients!nohint(*)"), @r#"
    400 PGRST200 Could not find a relationship between 'projects' and 'clients' in the schema cache
    details: "Searched for a foreign key relationship between 'projects' and 'clients' using the hint 'nohint' in the schema 'public', but no matches were found."
    "#);
    assert_snapshot!(refusal("POST /rpc/ad\n\n{}"), @r#"
    404 PGRST202 Could not find the function public.ad without parameters in the schema cache
    details: "Searched for the function public.ad without parameters or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache."
    "#);
    assert_snapshot!(refusal("POST /rpc/add\n\n{\"b\":1,\"c\":2}"), @r#"
    404 PGRST202 Could not find the function public.add(b, c) in the schema cache
    details: "Searched for the function public.add with parameters b, c or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache."
    hint: Perhaps you meant to call the function public.add(a, b)
    "#);
    assert_snapshot!(refusal("GET /rpc/add?a=1"), @r#"
    404 PGRST202 Could not find the function public.add(a) in the schema cache
    details: "Searched for the function public.add with parameter a, but no matches were found in the schema cache."
    hint: Perhaps you meant to call the function public.add(a, b)
    "#);
    assert_snapshot!(refusal("POST /rpc/add\nContent-Type: text/plain\n\nx"), @r#"
    404 PGRST202 Could not find the function public.add in the schema cache
    details: "Searched for the function public.add with a single unnamed text parameter, but no matches were found in the schema cache."
    "#);
    assert_snapshot!(refusal("POST /clients\n\n{\"nme\":1}"), @"400 PGRST204 Could not find the 'nme' column of 'clients' in the schema cache");
}

#[test]
fn ambiguous_embed_lists_candidates() {
    assert_snapshot!(refusal("GET /orders?select=addresses(*)"), @r#"
    300 PGRST201 Could not embed because more than one relationship was found for 'orders' and 'addresses'
    details: [{"cardinality":"many-to-one","embedding":"orders with addresses","relationship":"billing_fk using orders(billing_id) and addresses(id)"},{"cardinality":"many-to-one","embedding":"orders with addresses","relationship":"shipping_fk using orders(shipping_id) and addresses(id)"}]
    hint: Try changing 'addresses' to one of the following: 'addresses!billing_fk', 'addresses!shipping_fk'. Find the desired relationship in the 'details' key.
    "#);
    assert_snapshot!(refusal("POST /rpc/twice\n\n{\"a\":1}"), @"
    300 PGRST203 Could not choose the best candidate function between: public.twice(a => integer), public.twice(a => text)
    hint: Try renaming the parameters or the function itself in the database so function overloading can be resolved
    ");
}

#[test]
fn candidates_are_ordered_by_parameters() {
    assert_snapshot!(refusal("POST /rpc/tell\n\n{\"a\":1,\"b\":2}"), @"
    300 PGRST203 Could not choose the best candidate function between: public.tell(a => integer, b => json), public.tell(b => text, a => integer)
    hint: Try renaming the parameters or the function itself in the database so function overloading can be resolved
    ");
}

#[test]
fn alias_is_required_without_legacy_target_names() {
    let config = RestConfig { url_use_legacy_target_names: false, ..RestConfig::default() };
    let expected = "400 PGRST108 'tasks' is not an embedded resource in this request\n\
         details: \"Target names are not allowed in filters if they have an alias\"\n\
         hint: Change 'tasks' to 'x' in filters, orders or limits.";
    for modifier in ["tasks.id=eq.1", "tasks.order=id", "tasks.limit=1", "tasks.or=(id.eq.1)"] {
        let request = format!("GET /projects?select=x:tasks(id)&{modifier}");
        assert_eq!(refusal_with(&request, &config), expected);
    }
    assert_snapshot!(refusal_with("GET /projects?select=x:clients(id)&order=clients(id)", &config), @"
    400 PGRST108 'clients' is not an embedded resource in this request
    hint: Verify that 'clients' is included in the 'select' query parameter.
    ");
}

#[test]
fn hint_corrects_the_unknown_name() {
    // The origin is known, though it has no relationships, so its name is not corrected.
    assert_snapshot!(refusal("GET /keyless?select=tasks(id)"), @r#"
    400 PGRST200 Could not find a relationship between 'keyless' and 'tasks' in the schema cache
    details: "Searched for a foreign key relationship between 'keyless' and 'tasks' in the schema 'public', but no matches were found."
    "#);
    assert_snapshot!(refusal("GET /client?select=id"), @"
    404 PGRST205 Could not find the table 'public.client' in the schema cache
    hint: Perhaps you meant the table 'public.clients'
    ");
    for media in ["text/plain", "text/xml", "application/octet-stream"] {
        let refused = refusal(&format!("POST /rpc/shoutt\nContent-Type: {media}\n\nx"));
        assert!(refused.starts_with("404 PGRST202") && !refused.contains("hint:"), "{refused}");
    }
    assert!(refusal("POST /rpc/shoutt\n\n{\"a\":1}").contains("public.shout"));
}

#[test]
fn trailing_text_is_reported_at_its_position() {
    for (parameter, column) in [
        ("select=id)", 3),
        ("select=id\"", 3),
        ("order=id)", 3),
        ("order=id.desc\"", 8),
        ("and=(id.eq.1))", 13),
        ("or=(id.eq.1,id.eq.2)x", 20),
    ] {
        let refused = refusal(&format!("GET /projects?{parameter}"));
        assert!(refused.starts_with("400 PGRST100"), "{parameter}: {refused}");
        assert!(refused.contains(&format!("(line 1, column {column})")), "{parameter}: {refused}");
    }
}

#[test]
fn filter_requires_selected_embed() {
    assert_snapshot!(refusal("GET /projects?tasks.id=eq.1"), @"
    400 PGRST108 'tasks' is not an embedded resource in this request
    hint: Verify that 'tasks' is included in the 'select' query parameter.
    ");
    assert_snapshot!(refusal("GET /projects?select=tasks(id)&order=tasks(id)"), @r#"
    400 PGRST118 A related order on 'tasks' is not possible
    details: "'projects' and 'tasks' do not form a many-to-one or one-to-one relationship"
    "#);
    assert_snapshot!(refusal("GET /projects?order=tasks(id)"), @"
    400 PGRST108 'tasks' is not an embedded resource in this request
    hint: Verify that 'tasks' is included in the 'select' query parameter.
    ");
}

#[test]
fn disabled_features_are_rejected() {
    assert_snapshot!(refusal("GET /projects?select=id.sum()"), @"400 PGRST123 Use of aggregate functions is not allowed");
    assert_snapshot!(refusal("GET /projects?select=count()"), @"400 PGRST123 Use of aggregate functions is not allowed");
    assert_snapshot!(refusal("GET /projects\nAccept: application/vnd.pgrst.plan"), @r#"406 PGRST107 None of these media types are available: application/vnd.pgrst.plan+text; for="application/json""#);
    let config = RestConfig { aggregates: true, ..RestConfig::default() };
    assert_snapshot!(refusal_with("GET /projects?select=...tasks(id.sum())", &config), @r#"
    400 PGRST127 Feature not implemented
    details: "Aggregates are not implemented for one-to-many or many-to-many spreads."
    "#);
}

#[test]
fn invalid_headers_and_paths_are_rejected() {
    assert_snapshot!(refusal("GET /projects/"), @"404 PGRST125 Invalid path specified in request URL");
    assert_snapshot!(refusal("GET /projects\nAccept-Profile: private"), @"
    406 PGRST106 Invalid schema: private
    hint: Only the following schemas are exposed: public
    ");
    assert_snapshot!(refusal("DELETE /rpc/add"), @"405 PGRST101 Cannot use the DELETE method on RPC");
    assert_snapshot!(refusal("TRACE /projects"), @"405 PGRST117 Unsupported HTTP method: TRACE");
    assert_snapshot!(refusal("GET /projects\nAccept: text/unknown, a/b"), @"406 PGRST107 None of these media types are available: text/unknown, a/b");
    assert_snapshot!(refusal("GET /projects\nPrefer: handling=strict, foo, bar"), @r#"
    400 PGRST122 Invalid preferences given with handling=strict
    details: "Invalid preferences: foo, bar"
    "#);
    assert_snapshot!(refusal("GET /projects\nRange: 5-2"), @r#"
    416 PGRST103 Requested range not satisfiable
    details: "The lower boundary must be lower than or equal to the upper boundary in the Range header."
    "#);
    assert_snapshot!(refusal("GET /projects?limit=-1"), @r#"
    416 PGRST103 Requested range not satisfiable
    details: "Limit should be greater than or equal to zero."
    "#);
}

#[test]
fn invalid_writes_are_rejected() {
    assert_snapshot!(refusal("PATCH /tasks\n\n{\"done\":true}"), @"400 21000 UPDATE requires a WHERE clause");
    assert_snapshot!(refusal("DELETE /tasks"), @"400 21000 DELETE requires a WHERE clause");
    assert_snapshot!(refusal("PUT /clients?name=eq.x\n\n{\"id\":1}"), @"405 PGRST105 Filters must include all and only primary key columns with 'eq' operators");
    assert_snapshot!(refusal("PUT /clients?id=eq.1&limit=1\n\n{\"id\":1}"), @"400 PGRST114 limit/offset querystring parameters are not allowed for PUT");
    assert_snapshot!(refusal("POST /clients\n\n[{\"id\":1},{\"name\":2}]"), @"400 PGRST102 All object keys must match");
    assert_snapshot!(refusal("POST /clients\n\n{"), @"400 PGRST102 Empty or invalid json");
    assert_snapshot!(refusal("POST /clients\nContent-Type: text/plain\n\nx"), @"400 PGRST102 Content-Type not acceptable: text/plain");
    assert_snapshot!(refusal("POST /rpc/add\nPrefer: handling=strict, max-affected=1\n\n{\"a\":1,\"b\":2}"), @"400 PGRST128 Function must return SETOF or TABLE when max-affected preference is used with handling=strict");
}

#[test]
fn first_failing_check_determines_error() {
    // Path, profile, method, query string, range, body, relation, in this order.
    assert_snapshot!(refusal("TRACE /a/b?x=noop.1\nAccept-Profile: private"), @"404 PGRST125 Invalid path specified in request URL");
    assert_snapshot!(refusal("TRACE /a?x=noop.1\nAccept-Profile: private"), @"
    406 PGRST106 Invalid schema: private
    hint: Only the following schemas are exposed: public
    ");
    assert_snapshot!(refusal("TRACE /a?x=noop.1"), @"405 PGRST117 Unsupported HTTP method: TRACE");
    assert_snapshot!(refusal("POST /a?x=noop.1&limit=-1\n\n{"), @r#"
    400 PGRST100 "failed to parse filter (noop.1)" (line 1, column 1)
    details: "unexpected \"o\" expecting \"not\" or operator (eq, gt, ...)"
    "#);
    assert_snapshot!(refusal("POST /a?limit=-1\n\n{"), @r#"
    416 PGRST103 Requested range not satisfiable
    details: "Limit should be greater than or equal to zero."
    "#);
    assert_snapshot!(refusal("POST /a\n\n{"), @"400 PGRST102 Empty or invalid json");
    assert_snapshot!(refusal("GET /a?select=b(*)&c.x=eq.1"), @"404 PGRST205 Could not find the table 'public.a' in the schema cache");
    // Embeds, relationships, related orders, then media types and preferences.
    assert_snapshot!(refusal("GET /projects?select=b(*)&c.x=eq.1"), @"
    400 PGRST108 'c' is not an embedded resource in this request
    hint: Verify that 'c' is included in the 'select' query parameter.
    ");
    assert_snapshot!(refusal("GET /projects?select=b(*),tasks(id)&order=tasks(id)"), @r#"
    400 PGRST200 Could not find a relationship between 'projects' and 'b' in the schema cache
    details: "Searched for a foreign key relationship between 'projects' and 'b' in the schema 'public', but no matches were found."
    "#);
    assert_snapshot!(refusal("GET /projects?select=tasks(id),id.sum()&order=tasks(id)"), @r#"
    400 PGRST118 A related order on 'tasks' is not possible
    details: "'projects' and 'tasks' do not form a many-to-one or one-to-one relationship"
    "#);
    assert_snapshot!(refusal("GET /projects\nAccept: a/b\nPrefer: handling=strict, foo"), @"406 PGRST107 None of these media types are available: a/b");
    assert_snapshot!(refusal("POST /clients\nAccept: a/b\nPrefer: handling=strict, foo\n\n{\"id\":1}"), @r#"
    400 PGRST122 Invalid preferences given with handling=strict
    details: "Invalid preferences: foo"
    "#);
}
