use proptest::prelude::*;

use super::*;

fn redirects(site: &str, entries: &[&str]) -> Redirects {
    let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    Redirects::new(site, &entries)
}

#[test]
fn allows_pages_of_the_site() {
    let site = redirects("https://app.example.org/start", &[]);
    for url in [
        "https://app.example.org",
        "https://app.example.org/",
        "https://app.example.org/any/path?x=1&y=%2F#part",
        "https://APP.example.org:443/x",
        "HTTPS://app.example.org/x",
    ] {
        assert!(site.is_allowed(url), "{url}");
    }
    for url in [
        "",
        "/path",
        "http://app.example.org",
        "https://app.example.org:8443/",
        "https://example.org/",
        "https://app.example.org.evil.test/",
        "https://evil.test/?https://app.example.org/",
        "https://evil.test/#https://app.example.org/",
    ] {
        assert!(!site.is_allowed(url), "{url}");
    }
}

#[test]
fn localhost_matches_any_port() {
    let site = redirects("http://localhost:3000", &[]);
    assert!(site.is_allowed("http://localhost:5173/x"));
    assert!(site.is_allowed("http://localhost/x"));
    assert!(!site.is_allowed("https://localhost:3000"));
    assert!(!site.is_allowed("http://localhost.evil.test:3000"));
}

#[test]
fn allows_only_loopback_addresses() {
    let all = redirects("https://app.example.org", &["http*://**"]);
    for url in
        ["http://127.0.0.1:54321/x", "https://127.8.8.8", "http://[::1]:3000/", "http://[::ffff:127.0.0.1]/"]
    {
        assert!(all.is_allowed(url), "{url}");
    }
    for url in [
        "http://192.0.2.7/",
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://[2001:db8::1]/",
        "http://[::1%25eth0]/",
        "http://0/",
    ] {
        assert!(!all.is_allowed(url), "{url}");
    }
    assert!(redirects("http://192.0.2.7:3000", &[]).is_allowed("http://192.0.2.7:3000/x"), "the site itself");
}

#[test]
fn rejects_ambiguous_urls_despite_a_catch_all() {
    let all = redirects("https://app.example.org", &["**"]);
    for url in [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "java\tscript:alert(1)",
        "javascript://app.example.org/%0aalert(1)",
        "javascript://127.0.0.1/%0aalert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://app.example.org/x",
        "view-source:https://app.example.org",
        "//evil.test",
        "///evil.test",
        "\\\\evil.test",
        "https:evil.test",
        "https:/evil.test",
        "https:///evil.test",
        "https:\\\\evil.test",
        "https://evil.test\\.app.example.org",
        "https://app.example.org\\@evil.test",
        "https://app.example.org@evil.test/",
        "https://app.example.org:443@evil.test/",
        "https://app.example.org%40evil.test/",
        "https://user@app.example.org/",
        "https://%65vil.test/",
        "https://evil%2etest/",
        "https://ev\u{ef}l.test/",
        "https://app\u{3002}example\u{3002}org/",
        "https://app.example.org\u{ff0f}.evil.test/",
        "https://\u{ad}app.example.org/",
        "https://xn--/",
        "https://-evil.test/",
        "https://evil.test./",
        "https://evil_host.test/",
        " https://evil.test",
        "https://evil.test ",
        "https://evil.test\r\nset-cookie: a=b",
        "\u{0}https://evil.test",
        "https://",
        "https://:443/",
        "https://evil.test:port/",
        "https://evil.test:99999/",
        "not a url",
    ] {
        assert!(!all.is_allowed(url), "{url:?}");
        assert!(!redirects("https://app.example.org", &[]).is_allowed(url), "{url:?}");
    }
    assert!(all.is_allowed("https://anything.test/x"));
    assert!(!all.is_allowed(&format!("https://anything.test/{}", "x".repeat(MAX_BYTES))));
}

#[test]
fn custom_schemes_require_a_glob() {
    let site =
        redirects("https://app.example.org", &["myapp://callback", "exp://*.example.org/**", "other:/*"]);
    for url in ["myapp://callback", "myapp://callback#x", "exp://a.example.org/x/y", "other:/here"] {
        assert!(site.is_allowed(url), "{url}");
    }
    for url in ["myapp://callback/x", "myapp:callback", "yours://callback", "exp://127.0.0.1/x"] {
        assert!(!site.is_allowed(url), "{url}");
    }
    let native = redirects("myapp://home", &[]);
    assert!(native.is_allowed("myapp://home/x"));
    assert!(!native.is_allowed("myapp://elsewhere/x"));
}

#[test]
fn entries_match_query_without_fragment_or_flow_id() {
    let site = redirects("https://app.example.org", &["https://other.test/cb", "https://q.test/cb?x=1"]);
    for url in [
        "https://other.test/cb",
        "https://other.test/cb#fragment",
        "https://other.test/cb?sb_flow_id=abc",
        "https://q.test/cb?x=1",
        "https://q.test/cb?sb_flow_id=abc&x=1",
    ] {
        assert!(site.is_allowed(url), "{url}");
    }
    for url in ["https://other.test/cb?x=1", "https://other.test/cb?sb_flow_ids=1", "https://q.test/cb"] {
        assert!(!site.is_allowed(url), "{url}");
    }
}

#[test]
fn globs_follow_the_contract() {
    let matches = |glob: &str, text: &str| Glob::parse(glob).unwrap().matches(text);
    for (glob, text, expected) in [
        ("https://*.example.org/**", "https://a.example.org/x/y", true),
        ("https://*.example.org/**", "https://a.b.example.org/x", false),
        ("http://localhost:3000/*", "http://localhost:3000", false),
        ("http://localhost:3000/*", "http://localhost:3000/", true),
        ("http://localhost:3000/*", "http://localhost:3000/x", true),
        ("http://localhost:3000/*", "http://localhost:3000/x/y", false),
        ("http://localhost:3000/*", "http://localhost:3000/x.y", false),
        ("http://localhost:3000/**", "http://localhost:3000/x/y.z?q=1", true),
        ("http://localhost:300?", "http://localhost:3001", true),
        ("a?b", "a.b", false),
        ("a?b", "a/b", false),
        ("https://app-[a-z].test", "https://app-q.test", true),
        ("https://app-[a-z].test", "https://app-Q.test", false),
        ("https://app-[!a].test", "https://app-b.test", true),
        ("https://app-[!a].test", "https://app-a.test", false),
        ("x[ab-]", "x-", true),
        ("https://{a,b}.test/{x,y*}", "https://b.test/yes", true),
        ("https://{a,b}.test/{x,y*}", "https://c.test/x", false),
        ("{a,{b,c}d}", "cd", true),
        (r"a\*b", "a*b", true),
        (r"a\*b", "axb", false),
        ("a.b", "axb", false),
        ("a,b", "a,b", true),
    ] {
        assert_eq!(matches(glob, text), expected, "{glob} against {text}");
    }
    for glob in ["", "[", "[]", "[!]", "a]", "{a", "a}", "a\\", "[z-a]"] {
        assert!(!is_glob(glob), "{glob}");
    }
}

/// The same rules by backtracking, as a reference.
fn naive(glob: &[char], text: &[char]) -> bool {
    let is_separator = |character: &char| matches!(character, '.' | '/');
    match glob {
        [] => text.is_empty(),
        ['*', '*', rest @ ..] => (0..=text.len()).any(|end| naive(rest, &text[end..])),
        ['*', rest @ ..] => {
            let run = text.iter().take_while(|character| !is_separator(character)).count();
            (0..=run).any(|end| naive(rest, &text[end..]))
        }
        ['?', rest @ ..] => text.first().is_some_and(|first| !is_separator(first)) && naive(rest, &text[1..]),
        [first, rest @ ..] => text.first() == Some(first) && naive(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn globs_match_like_the_reference(glob in "[ab./*?]{1,8}", text in "[ab./]{0,10}") {
        let (pattern, characters): (Vec<_>, Vec<_>) = (glob.chars().collect(), text.chars().collect());
        prop_assert_eq!(Glob::parse(&glob).unwrap().matches(&text), naive(&pattern, &characters));
    }

    #[test]
    fn matching_never_panics(glob in ".{0,30}", text in ".{0,60}") {
        if let Some(glob) = Glob::parse(&glob) {
            let _matched = glob.matches(&text);
        }
    }

    /// Every allowed URL leads to the site, to loopback, or to a host of the entries.
    #[test]
    fn allowed_urls_lead_to_allowed_hosts(
        url in r"(https?|HTTP|javascript|myapp):[/\\]{0,3}(app\.example\.org|127\.0\.0\.1|a\.test|evil\.test|user|[a-z%@:\\.0-9]{0,12})[@:/\\?#]?(app\.example\.org|a\.test|evil\.test|[a-z]{0,5})?[/?#]?.{0,8}"
    ) {
        let redirects = redirects("https://app.example.org", &["https://*.test/**", "https://a.test"]);
        if redirects.is_allowed(&url) {
            let read = Url::parse(&url).unwrap();
            let host = read.host_str().unwrap();
            prop_assert!(matches!(read.scheme(), "http" | "https"), "{}", url);
            prop_assert!(
                host == "app.example.org" || host == "127.0.0.1" || host.ends_with(".test"),
                "{} leads to {}", url, host
            );
            prop_assert!(read.username().is_empty() && read.password().is_none(), "{}", url);
        }
    }
}
