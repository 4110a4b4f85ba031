use proptest::prelude::*;
use serde_json::json;

use super::*;

fn values() -> Value {
    json!({
        "SiteURL": "myapp://home",
        "ConfirmationURL": "https://api.example.org/auth/v1/verify?token=a&type=signup&redirect_to=myapp://home",
        "Token": "123456",
        "TokenHash": "pkce_abc",
        "RedirectTo": "https://app.example.org/?a=b&c",
        "Email": "ada@example.org",
        "Data": {
            "name": "<Ada> & 'co' \"x\"",
            "locale": "fr",
            "age": 36,
            "link": "javascript:alert(1)",
            "colour": "red",
            "tags": ["a", "b"],
            "nested": { "first": { "second": "deep" } },
            "bad_style": "red;background:url(x)",
            "empty": "",
            "rate": 1.5,
        },
    })
}

fn html(source: &str) -> String {
    Template::html(source).unwrap().render(&values()).unwrap()
}

fn text(source: &str) -> String {
    Template::text(source).unwrap().render(&values()).unwrap()
}

fn fault(source: &str) -> String {
    Template::html(source).unwrap_err().to_string()
}

#[test]
fn values_and_functions() {
    for (source, expected) in [
        ("Hi {{ .Token }}!", "Hi 123456!"),
        ("{{.Data.nested.first.second}}", "deep"),
        ("{{ index .Data \"locale\" }}/{{ index .Data.tags 1 }}", "fr/b"),
        ("{{ index .Data \"nested\" \"first\" \"second\" }}", "deep"),
        ("{{ .Missing }}{{ .Data.missing.too }}{{ nil }}", ""),
        ("{{ .Data.age }} {{ .Data.rate }} {{ true }}", "36 1.5 true"),
        ("{{ \"a\\\"}}\" }}", "a\"}}"),
        ("{{ `raw \\n` }}", "raw \\n"),
        ("{{ or .Data.missing .Data.empty \"there\" }} {{ and 1 2 }}", "there 2"),
        ("a {{- 1 -}} b {{- /* nothing */ -}} c", "a1bc"),
        ("{{/* a }} in a comment */}}x", "x"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn branches_and_loops() {
    for (source, expected) in [
        ("{{ if eq .Data.locale \"fr\" }}Bonjour{{ else }}Hello{{ end }}", "Bonjour"),
        ("{{ if eq .Data.locale \"de\" \"fr\" }}y{{ end }}{{ if ne 1 1.0 }}n{{ end }}", "y"),
        ("{{ if .Data.missing }}a{{ else if not .Data.empty }}b{{ else }}c{{ end }}d", "bd"),
        ("{{ if (and .Token (ne .Data.locale \"de\")) }}y{{ end }}", "y"),
        ("{{ range .Data.tags }}[{{ . }}{{ $.Token }}]{{ end }}", "[a123456][b123456]"),
        ("{{ range .Data.nested }}{{ .second }}{{ end }}", "deep"),
        ("{{ range .Data.missing }}x{{ else }}none{{ end }}", "none"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn values_are_escaped_for_their_context() {
    for (source, expected) in [
        ("<p>{{ .Data.name }}</p>", "<p>&lt;Ada&gt; &amp; &#39;co&#39; &#34;x&#34;</p>"),
        ("<p title=\"{{ .Data.name }}\">", "<p title=\"&lt;Ada&gt; &amp; &#39;co&#39; &#34;x&#34;\">"),
        (
            "<a href=\"{{ .ConfirmationURL }}\">",
            "<a href=\"https://api.example.org/auth/v1/verify?token=a&amp;type=signup&amp;redirect_to=myapp://home\">",
        ),
        ("<a href='{{ .SiteURL }}/x'>", "<a href='myapp://home/x'>"),
        ("<a href=\"{{ .Data.link }}\">", "<a href=\"#refused\">"),
        ("<a href=\" {{ .Data.link }}\">", "<a href=\" #refused\">"),
        ("<a HREF = '{{ .Data.link }}'>", "<a HREF = '#refused'>"),
        ("<a xlink:href=\"{{ .Data.link }}\">", "<a xlink:href=\"#refused\">"),
        ("<a href=\"{{ .Data.empty }}{{ .Data.link }}\">", "<a href=\"#refused\">"),
        ("<a href=\"{{ if .Token }}{{ else }}/x/{{ end }}{{ .Data.link }}\">", "<a href=\"#refused\">"),
        ("<a href=\"/x/{{ .Data.link }}\">", "<a href=\"/x/javascript:alert%281%29\">"),
        (
            "<a href=\"{{ .SiteURL }}?token_hash={{ .TokenHash }}&next={{ .RedirectTo }}\">",
            "<a href=\"myapp://home?token_hash=pkce_abc&next=https%3A%2F%2Fapp.example.org%2F%3Fa%3Db%26c\">",
        ),
        (
            "<a href=\"{{ if .Data.empty }}/a{{ else }}{{ .SiteURL }}{{ end }}?x={{ .RedirectTo }}\">",
            "<a href=\"myapp://home?x=https%3A%2F%2Fapp.example.org%2F%3Fa%3Db%26c\">",
        ),
        ("<style>p {}</style>{{ .Token }}", "<style>p {}</style>123456"),
        ("<title>{{ .Data.name }}</title>", "<title>&lt;Ada&gt; &amp; &#39;co&#39; &#34;x&#34;</title>"),
        ("<!-- {{ .Data.name }} -->", "<!-- &lt;Ada&gt; &amp; &#39;co&#39; &#34;x&#34; -->"),
        ("<!DOCTYPE html PUBLIC \"x\"><br/>{{ .Token }}", "<!DOCTYPE html PUBLIC \"x\"><br/>123456"),
        ("<p {{ if .Token }}title=\"{{ .Token }}\"{{ end }}>", "<p title=\"123456\">"),
        ("1 < {{ .Token }} <3 {{ .Data.name }}", "1 < 123456 <3 &lt;Ada&gt; &amp; &#39;co&#39; &#34;x&#34;"),
    ] {
        assert_eq!(html(source), expected, "{source}");
    }
    assert_eq!(text("{{ .Data.name }}"), "<Ada> & 'co' \"x\"");
}

#[test]
fn reports_syntax_errors() {
    for (source, expected) in [
        ("a\n{{ .Token ", "line 2: {{ without }}"),
        ("{{ if .Token }}\n", "line 1: {{ if }} without {{ end }}"),
        ("{{ end }}", "line 1: {{ end }} or {{ else }} without {{ if }} or {{ range }}"),
        ("{{ (.A }}", "line 1: ( without )"),
        ("{{ .A ) }}", "line 1: ) without ("),
        ("{{ }}", "line 1: {{ }} is empty"),
        ("{{ eq .A }}", "line 1: eq needs at least 2 values"),
        ("{{ \"a }}", "line 1: {{ without }}"),
        ("<script>{{ .Token }}</script>", "line 1: values inside <script> are not supported"),
        ("<style>{{ .Token }}</style>", "line 1: values inside <style> are not supported"),
        (
            "{{ range .A }}<p title=\"{{ end }}",
            "line 1: the branches of {{ range }} end in different HTML contexts",
        ),
        (
            "{{ if .Token }}<a href=\"{{ end }}x",
            "line 1: the branches of {{ if }} end in different HTML contexts",
        ),
    ] {
        assert_eq!(fault(source), expected, "{source}");
    }
    for source in ["<p onclick=\"{{ .A }}\">", "<p style=\"color: {{ .A }}\">", "<img srcset='{{ .A }}'>"] {
        assert!(fault(source).contains("scripts, styles or URL lists"), "{source}");
    }
    for source in
        ["<p title={{ .A }}>", "<p title=x{{ .A }}>", "<p {{ .A }}>", "<{{ .A }}>", "<p a{{ .A }}=''>"]
    {
        assert!(fault(source).contains("must be inside a quoted attribute"), "{source}");
    }
    for (source, what) in [
        ("\n\n{{ nope .Token }}", "line 3: {{ nope }}"),
        ("{{ .A .B }}", "line 1: {{ .A .B }}"),
        ("{{ with .A }}{{ end }}", "line 1: {{ with }}"),
        ("{{ template \"x\" }}", "line 1: {{ template }}"),
        ("{{ .A | html }}", "line 1: {{ .A | html }}"),
        ("{{ $x := .A }}", "line 1: {{ $x }}"),
        ("{{ range .A }}{{ else if .B }}{{ end }}", "line 1: {{ else if .B }}"),
    ] {
        assert_eq!(fault(source), format!("{what} is not supported: {SUPPORTED}"), "{source}");
    }
    assert_eq!(Template::text(&"x".repeat(MAX_BYTES + 1)).unwrap_err(), TemplateError::TooLong);
    assert!(fault(&"{{ if . }}".repeat(100)).contains("nested too deep"));
    assert!(fault(&format!("{{{{ {} }}}}", "(".repeat(100))).contains("nested too deep"));
}

#[test]
fn loops_are_bounded() {
    let many = json!({ "Data": vec![0; 400] });
    let render = |source: &str| Template::text(source).unwrap().render(&many);
    let squared = "{{ range .Data }}{{ range $.Data }}x{{ end }}{{ end }}";
    assert_eq!(render(squared), Err(TemplateError::Steps));
    let long = format!("{{{{ range .Data }}}}{}{{{{ end }}}}", "x".repeat(10_000));
    assert_eq!(render(&long), Err(TemplateError::TooLong));
}

proptest! {
    #[test]
    fn parsing_never_panics(source in "(\\{\\{|\\}\\}|[a-z.$|()=:\"`< >/'-]|if |end|range |eq |\\PC){0,40}") {
        if let Ok(template) = Template::html(&source) {
            let _rendered = template.render(&values());
        }
    }

    #[test]
    fn value_never_leaves_its_context(value in "\\PC{0,30}") {
        let values = json!({ "v": value });
        let source = "<a href=\"{{ .v }}\" title='{{ .v }}' rel=\"{{ .v }}\">{{ .v }}</a><!--{{ .v }}-->";
        let out = Template::html(source).unwrap().render(&values).unwrap();
        prop_assert_eq!(out.matches('<').count(), 3);
        prop_assert_eq!(out.matches('"').count(), 4);
        prop_assert_eq!(out.matches('\'').count(), 2);
        prop_assert!(!out.to_lowercase().contains("href=\"javascript:"));
    }
}
