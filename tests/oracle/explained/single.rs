//! Differences of single requests, mostly bugs of 12.0.2.

use super::super::case::Case;
use super::super::response::View;

/// The request as it is written in its file (the first line whole, and how it ends after `…`), our status and error
/// code, and the reason.
type Single = (&'static str, u16, &'static str, &'static str);

const SINGLES: &[Single] = &[
    // What is written behind a complete value: rest.md §7.1 has it refused.
    ("GET /ships?select=:name", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=id::text::int", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=(id)", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=id)", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=()", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=*::text", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=**", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=*name", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=*.count()", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=id,crew(name))", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=id,crew(name)x", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=id,crew(*)::text", 400, "PGRST100", "12 ignores what follows a complete select list"),
    ("GET /ships?select=,id", 400, "PGRST100", "12 stops reading at a comma in front"),
    (
        "GET /ships?id=in.(1,2)x&order=id",
        400,
        "PGRST100",
        "rest.md §3.4: text after a complete list may be refused",
    ),
    (
        "GET /ships?code=in.(D (1))",
        400,
        "PGRST100",
        "rest.md §3.4: text after a complete list may be refused",
    ),
    ("GET /ships?id::text=eq.1", 400, "PGRST100", "rest.md §3.4: there is no filter cast"),
    ("GET /ships?or=(id.eq.1))", 400, "PGRST100", "12 ignores what follows a complete logic tree"),
    ("GET /ships?or=(id.eq.1,id.eq.2)x", 400, "PGRST100", "12 ignores what follows a complete logic tree"),
    // The query string.
    (
        "GET /ships?select=id;name",
        400,
        "PGRST100",
        "12 splits at `;` too; rest.md §3.2 and URLs today know `&` only",
    ),
    ("GET /ships?select=id&order=id;drop", 400, "PGRST100", "12 splits at `;` too"),
    ("GET /ships?id=eq.1;select=name", 400, "22P02", "12 splits at `;` too"),
    ("GET /ships?=x", 200, "", "rest.md §3.20: parameters without a name are removed"),
    ("GET /ships?&&", 200, "", "Content-Location leaves out what is ignored"),
    ("GET /ships?id", 200, "", "Content-Location leaves out what is ignored"),
    ("GET /ships?id&name=eq.Echo", 200, "", "Content-Location leaves out what is ignored"),
    (
        "GET /ships?or=id.eq.1",
        400,
        "PGRST100",
        "12 takes the name of the operator for the beginning of a column",
    ),
    (
        "GET /ships?select=id&order=id&limit=0&offset=2",
        200,
        "",
        "rest.md §3.6: `limit=0` is an empty page, whatever the offset",
    ),
    (
        "GET /ships?select=id,crew(name)&order=id&crew.limit=-1",
        416,
        "PGRST103",
        "rest.md §3.6: a negative limit is refused on every level; 12 leaves it to PostgreSQL",
    ),
    // What the schema cache knows.
    (
        "GET /readings_2023?order=id",
        404,
        "PGRST205",
        "rest.md §4.3: partitions are not exposed; 12 asks PostgreSQL without looking",
    ),
    ("GET /ships\0", 404, "PGRST205", "12 cuts the name at NUL"),
    ("POST /Größe … = {\"Maß\": 3, \"名前\": \"花\"}", 201, "", "12 reads names in Location as Latin-1"),
    // Errors of PostgreSQL that 12's statements run into.
    ("GET /crew?select=id,...ships()&order=id", 200, "", "12 renders an empty spread wrongly"),
    (
        "GET /ships?select=crew(name),crew(id)&order=id",
        200,
        "",
        "12 cannot embed one relation twice without an alias",
    ),
    (
        "GET /ships?select=id,crew(mentor_id())&order=id",
        200,
        "",
        "12.2.2 (#3093): nested empty embeds are left out",
    ),
    (
        "GET /ships?select=id,crew!inner(mentor_id!inner())&order=id",
        200,
        "",
        "12.2.2 (#3093): nested empty embeds are left out",
    ),
    (
        "GET /rpc/all_ships?select=spec->masts&spec->>masts=gt.1&order=id",
        200,
        "",
        "13 (#3965): filters on columns that are not selected",
    ),
    (
        "GET /rpc/report?minimum=1&tons=gt.100&select=title",
        200,
        "",
        "13 (#3965): filters on columns that are not selected",
    ),
    (
        "GET /goods?select=label … text/x-list",
        406,
        "PGRST107",
        "12.0.3 (#3160), rest.md §3.12: custom handlers only with the default select",
    ),
    (
        "GET /ships?select=id,captains(name)&order=captains(unknown)",
        400,
        "42703",
        "PostgreSQL's error names our alias",
    ),
    (
        "GET /ships?select=id()",
        300,
        "PGRST201",
        "rest.md §3.18: details go by cardinality, then by constraint",
    ),
    // Functions.
    (
        "POST /rpc/raise_pgrst … = {\"message\": \"{\\\"code\\\":\\\"123\\\",\\\"message\\\":\\\"ABC\\\"}\", \"detail\": \"{\\\"status\\\":404,\\\"headers\\\":{\\\"Content-Type\\\":\\\"text/odd\\\"}}\"}",
        404,
        "123",
        "rest.md §3.16: headers that SQL sets replace the server's of the same name; 12 sends both",
    ),
    (
        "GET /rpc/take_json?data={\"a\":1}",
        200,
        "",
        "rest.md §3.10: the text is cast to the parameter's type; 12 makes it a JSON string",
    ),
    (
        "GET /rpc/numbers?upto=1 … object+json",
        200,
        "",
        "12 wraps the single scalar of a set into an object of its own making",
    ),
    (
        "GET /rpc/Mixed Case?First Arg=1&sec.ond=x",
        200,
        "",
        "rest.md §3.10: keys are parameter names; 12 takes what follows the dot",
    ),
    ("POST /rpc/raw_json … = 5", 200, "", "rest.md §3.10: the raw body is passed on as it is"),
    ("POST /rpc/raw_json … = \"x\"", 200, "", "rest.md §3.10: the raw body is passed on as it is"),
    ("POST /rpc/raw_json … = null", 200, "", "rest.md §3.10: the raw body is passed on as it is"),
    ("POST /rpc/raw_json … = [1, 2]", 200, "", "rest.md §3.10: the raw body is passed on as it is"),
    (
        "POST /rpc/raw_json … = [{\"a\": 1}, {\"b\": 2}]",
        200,
        "",
        "rest.md §3.10: the raw body is passed on as it is",
    ),
    ("POST /rpc/raw_json", 200, "", "rest.md §3.10: an empty body is `{}`"),
    (
        "POST /rpc/raw_json … params=single-object\n= {\"a\": 1}",
        200,
        "",
        "13 (#3757): no params=single-object any more",
    ),
    (
        "POST /rpc/take_json … params=single-object\n= {\"a\": 1}",
        404,
        "PGRST202",
        "13 (#3757): no params=single-object any more",
    ),
    ("POST /rpc/set_status … = {\"status\": \"204\"}", 204, "", "rest.md §5, 48: a 204 has no Content-Type"),
    (
        "OPTIONS /rpc/add",
        200,
        "",
        "rest.md §3.13: by the function's name and volatility, whatever its parameters",
    ),
    (
        "OPTIONS /rpc/over",
        200,
        "",
        "rest.md §3.13: by the function's name and volatility, whatever its parameters",
    ),
    // Writes.
    (
        "PATCH /ports?limit=1&order=id … = {\"country\": \"XX\"}",
        200,
        "",
        "13 (#3013): limited updates are no more",
    ),
    ("PATCH /ports?limit=1 … = {\"country\": \"XX\"}", 200, "", "13 (#3013): limited updates are no more"),
    ("DELETE /no_key?limit=1&order=a … representation", 200, "", "13 (#3013): limited deletes are no more"),
    (
        "PUT /ports?id=eq.1 … = {}",
        400,
        "PGRST115",
        "rest.md §3.9: a row without the key does not match the URL",
    ),
    ("PUT /ports?id=eq.1 … = []", 400, "PGRST115", "rest.md §3.9: no row does not match the URL"),
    (
        "PUT /ports?id=eq.1 … = {\"name\": \"No key\"}",
        400,
        "PGRST115",
        "rest.md §3.9: a row without the key does not match the URL",
    ),
    (
        "POST /ports … = id,name\n= 10",
        400,
        "PGRST102",
        "rest.md §3.9: each CSV line has as many fields as the first",
    ),
    (
        "POST /ports … = id,name\n= 10,a,b",
        400,
        "PGRST102",
        "rest.md §3.9: each CSV line has as many fields as the first",
    ),
    ("POST /ports … representation\n= id,name", 201, "", "12 cannot read a header line that nothing follows"),
    (
        "POST /ports … Content-Type: text/csv",
        201,
        "",
        "an empty CSV body has no rows, as an empty JSON array",
    ),
    (
        "POST /partly_unique?on_conflict=name … = {\"id\": 5, \"name\": \"one\"}",
        200,
        "",
        "ours: a partial unique index is a conflict target too",
    ),
    // Tokens, methods, media types.
    ("GET /rpc/whoami … Authorization: Bearer", 401, "PGRST301", "13 (#3926): an empty token is an error"),
    ("GET /rpc/whoami … Token: bearer", 401, "PGRST301", "13 (#3926): an empty token is an error"),
    (
        "GET /rpc/whoami … \"kid\":\"unknown\"} {\"role\": \"authenticated\"}",
        401,
        "PGRST301",
        "rest.md §3.15: a `kid` has to fit",
    ),
    (
        "GET /rpc/whoami … {\"alg\":\"HS512\"} {\"role\": \"authenticated\"}",
        200,
        "",
        "DESIGN §12: HS512 is accepted",
    ),
    ("GET /rpc/whoami … \"aud\": []}", 200, "", "rest.md §3.15: an empty audience passes"),
    ("GET / … {\"roles\": [\"anon\"]}}", 404, "PGRST126", "13 (#3906): a disabled root says so"),
    ("POST / … = {}", 405, "PGRST117", "rest.md §3.1: the root knows GET, HEAD and OPTIONS"),
    ("PUT / … = {}", 405, "PGRST117", "rest.md §3.1: the root knows GET, HEAD and OPTIONS"),
    ("PATCH / … = {}", 405, "PGRST117", "rest.md §3.1: the root knows GET, HEAD and OPTIONS"),
    ("DELETE /", 405, "PGRST117", "rest.md §3.1: the root knows GET, HEAD and OPTIONS"),
    (
        "GET /ships?id=noop.1 … Accept-Profile: nope",
        406,
        "PGRST106",
        "rest.md §1.2: the profile is judged before the query",
    ),
    ("GET /ships?id=eq.1 … Accept:", 200, "", "an empty Accept wishes nothing in particular"),
];

pub(super) fn apply(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = find(case, actual).is_some();
    if applies {
        *expected = actual.clone();
    }
    applies
}

/// The line about this request and our response to it.
pub(crate) fn find(case: &Case, actual: &View) -> Option<&'static str> {
    let code = if actual.status >= 300 { actual.error("code") } else { String::new() };
    let line = SINGLES.iter().find(|(request, status, error, _)| {
        is_written(case, request) && *status == actual.status && *error == code
    });
    line.map(|(request, ..)| *request)
}

/// Every line, by its request.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    SINGLES.iter().map(|(request, ..)| *request)
}

/// Whether `request` is this one: the same first line, and the same end of the others.
fn is_written(case: &Case, request: &str) -> bool {
    let (line, rest) = case.written.split_once('\n').unwrap_or((&case.written, ""));
    let decoded = percent_encoding::percent_decode_str(line).decode_utf8_lossy();
    match request.split_once(" … ") {
        Some((wanted, end)) => decoded == wanted && rest.ends_with(end),
        None => decoded == request && rest.is_empty(),
    }
}
