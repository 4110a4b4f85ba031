use std::fs;

use http::HeaderMap;
use http_body_util::BodyExt as _;

use super::*;

struct Site {
    app: StaticApp,
    dir: tempfile::TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

fn site() -> Site {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("dist");
    fs::create_dir_all(root.join("assets")).unwrap();
    fs::write(dir.path().join("secret.txt"), "secret").unwrap();
    fs::write(root.join(".env"), "secret").unwrap();
    fs::write(root.join("index.html"), "<html>app</html>").unwrap();
    fs::write(root.join("robots.txt"), "User-agent: *").unwrap();
    fs::write(root.join("assets/app-1a2b.js"), "plain").unwrap();
    fs::write(root.join("assets/app-1a2b.js.br"), "brotli").unwrap();
    fs::write(root.join("assets/app-1a2b.js.gz"), "gzipped").unwrap();
    fs::write(root.join("assets/big.bin"), vec![7_u8; 3 << 20]).unwrap();
    let url = "https://plans.example.org/base".parse().unwrap();
    Site { app: StaticApp::new(root, &url), dir }
}

impl Site {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.app.serve(request.body(Body::empty()).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }
}

const PAGE: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

#[tokio::test]
async fn a_page_of_the_app_is_index_html_under_strict_headers() {
    let site = site();
    for path in ["/", "/dashboard", "/plans/1?tab=tasks", "/index.html"] {
        let answer = site.ask("GET", path, &[PAGE]).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "<html>app</html>"), "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(answer.header("cache-control"), "no-cache");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("strict-transport-security"), "max-age=31536000");
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob: https:; \
             connect-src 'self' https://plans.example.org wss://plans.example.org; font-src 'self'; object-src 'none'; \
             base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
        );
        assert!(
            !answer.header("referrer-policy").is_empty() && !answer.header("permissions-policy").is_empty()
        );
    }
}

#[tokio::test]
async fn a_script_that_asks_for_what_is_missing_gets_no_page() {
    let site = site();
    assert_eq!(site.get("/").await.status, 200, "the root needs no Accept");
    assert_eq!(site.ask("GET", "/data.json", &[("accept", "*/*")]).await.status, 404);
    assert_eq!(site.ask("GET", "/assets/gone.js", &[PAGE]).await.status, 404);
    assert_eq!(site.ask("POST", "/dashboard", &[PAGE]).await.status, 404);
    let refused = site.ask("POST", "/robots.txt", &[]).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"));
    assert_eq!(site.ask("DELETE", "/", &[]).await.status, 405);
}

#[tokio::test]
async fn nothing_outside_the_folder_and_nothing_hidden_is_served() {
    let site = site();
    for path in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e%5csecret.txt",
        "/.env",
        "/%2eenv",
        "/robots.txt%00",
        "/%ff",
        "/assets",
        "/assets/",
        "/robots.txt/",
    ] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (404, "Not found\n"), "{path}");
    }
    let absolute = format!("//{}", site.dir.path().join("secret.txt").display());
    assert_eq!(site.get(&absolute).await.status, 404);
}

#[tokio::test]
async fn assets_come_compressed_as_asked_and_stay_for_a_year() {
    let site = site();
    for (accepted, encoding, body) in [
        ("gzip, deflate, br, zstd", "br", "brotli"),
        ("gzip", "gzip", "gzipped"),
        ("br;q=0.5, gzip;q=0.8", "gzip", "gzipped"),
        ("br;q=0, gzip", "gzip", "gzipped"),
        ("*", "", "plain"),
        ("identity", "", "plain"),
        ("br;q=nonsense", "", "plain"),
    ] {
        let answer = site.ask("GET", "/assets/app-1a2b.js", &[("accept-encoding", accepted)]).await;
        assert_eq!((answer.header("content-encoding"), answer.body.as_str()), (encoding, body), "{accepted}");
        assert_eq!(answer.header("vary"), "accept-encoding");
        assert_eq!(answer.header("content-type"), "text/javascript; charset=utf-8");
        assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(answer.header("content-length"), body.len().to_string());
    }
}

#[tokio::test]
async fn a_current_copy_is_not_sent_again() {
    let site = site();
    let first = site.get("/robots.txt").await;
    assert_eq!(first.header("cache-control"), "public, max-age=300");
    let (tag, date) = (first.header("etag"), first.header("last-modified"));
    assert!(date.ends_with(" GMT"), "{date}");
    for (name, value) in [
        ("if-none-match", tag.to_owned()),
        ("if-none-match", format!("\"other\", W/{tag}")),
        ("if-none-match", "*".to_owned()),
        ("if-modified-since", date.to_owned()),
    ] {
        let again = site.ask("GET", "/robots.txt", &[(name, &value)]).await;
        assert_eq!(
            (again.status, again.body.as_str(), again.header("etag")),
            (304, "", tag),
            "{name}: {value}"
        );
        assert!(!again.headers.contains_key("content-length"));
    }
    let stale = [("if-none-match", "\"other\""), ("if-modified-since", date)];
    assert_eq!(
        site.ask("GET", "/robots.txt", &stale).await.status,
        200,
        "the tag decides where there is one"
    );
    let old = [("if-modified-since", "Tue, 01 Jan 2019 00:00:00 GMT")];
    assert_eq!(site.ask("GET", "/robots.txt", &old).await.status, 200);
    // The representations differ, so do their tags.
    let plain = site.get("/assets/app-1a2b.js").await;
    let brotli = site.ask("GET", "/assets/app-1a2b.js", &[("accept-encoding", "br")]).await;
    assert_ne!(plain.header("etag"), brotli.header("etag"));
}

#[tokio::test]
async fn head_has_the_head_of_get() {
    let site = site();
    let answer = site.ask("HEAD", "/assets/big.bin", &[]).await;
    assert_eq!((answer.status, answer.body.len(), answer.header("content-length")), (200, 0, "3145728"));
    let part = [("range", "bytes=1-2"), ("accept-encoding", "br")];
    let head = site.ask("HEAD", "/robots.txt", &part).await;
    assert_eq!((head.status, head.header("content-range"), head.body.len()), (206, "bytes 1-2/13", 0));
    assert_eq!(site.ask("HEAD", "/robots.txt%00", &[]).await.status, 404);
    let whole = site.get("/assets/big.bin").await;
    assert_eq!(
        (whole.body.len(), whole.header("content-length")),
        (3 << 20, "3145728"),
        "large files are streamed"
    );
}

#[tokio::test]
async fn sends_ranges_of_current_files_only() {
    let site = site();
    let tag = site.get("/robots.txt").await.header("etag").to_owned();
    for (headers, status, body, range) in [
        (vec![("range", "bytes=0-3")], 206, "User", "bytes 0-3/13"),
        (vec![("range", "bytes=-1")], 206, "*", "bytes 12-12/13"),
        (vec![("range", "bytes=99-")], 416, "", "bytes */13"),
        (vec![("range", "bytes=0-1,4-5")], 200, "User-agent: *", ""),
        (vec![("range", "bytes=0-3"), ("if-range", "\"old\"")], 200, "User-agent: *", ""),
        (vec![("range", "bytes=0-3"), ("if-none-match", tag.as_str())], 304, "", ""),
    ] {
        let answer = site.ask("GET", "/robots.txt", &headers).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{headers:?}");
        assert_eq!(answer.header("content-range"), range, "{headers:?}");
        let cache = if status == 416 { "no-cache" } else { "public, max-age=300" };
        assert_eq!(answer.header("cache-control"), cache, "{headers:?}");
    }
}

#[tokio::test]
async fn content_types_are_those_of_the_web() {
    let site = site();
    for (name, media) in [
        ("a.mjs", "application/javascript"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.webmanifest", "application/manifest+json; charset=utf-8"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.svg", "image/svg+xml"),
        ("a.avif", "image/avif"),
        ("a.ico", "image/x-icon"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.mp4", "video/mp4"),
        ("a.unknown", "application/octet-stream"),
    ] {
        fs::write(site.dir.path().join("dist").join(name), "x").unwrap();
        assert_eq!(site.get(&format!("/{name}")).await.header("content-type"), media, "{name}");
    }
}

#[tokio::test]
async fn an_app_that_is_not_built_says_what_to_do() {
    let site = site();
    fs::remove_file(site.dir.path().join("dist/index.html")).unwrap();
    assert!(!site.app.is_built());
    for headers in [&[PAGE][..], &[]] {
        let answer = site.ask("GET", "/", headers).await;
        assert_eq!(answer.status, 404);
        assert!(answer.body.contains("cargo xtask dev"), "{}", answer.body);
    }
    // Built while the server runs: served at once.
    fs::write(site.dir.path().join("dist/index.html"), "new").unwrap();
    assert_eq!(site.get("/").await.body, "new");
}
