//! Valid and forged S3 signatures (storage.md §3.16), made with AWS's own signer. Tests with AWS's client are in
//! `conformance/tests/s3.test.ts`.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use basalt_core::clock::Clock;
use basalt_testkit::{Basalt, Response};
use http::{HeaderValue, Method, Request};
use serde_json::json;
use tokio::net::TcpStream;

use super::{OWNER, STRANGER, make_bucket, server, token};

const ID: &str = "test";
const SECRET: &str = "a secret used only by these tests";
const MINUTE: i64 = 60;

async fn started() -> Basalt {
    let server = server()
        .config("storage.s3_protocol.access_key_id", ID)
        .config("storage.s3_protocol.secret_access_key", SECRET)
        .start()
        .await;
    make_bucket(&server, &json!({"name": "b"})).await;
    server
}

/// How a request is signed.
#[derive(Clone)]
struct Signing {
    secret: &'static str,
    /// Offset from the current time in seconds.
    at: i64,
    /// Seconds that a presigned URL lives; `None` signs in a header.
    expires: Option<u64>,
    body: SignableBody<'static>,
    headers: Vec<(&'static str, String)>,
    /// The access token of a user who signs with the public key.
    session: Option<String>,
}

impl Signing {
    fn for_body(body: &'static str) -> Self {
        let body = SignableBody::Bytes(body.as_bytes());
        Self { secret: SECRET, at: 0, expires: None, body, headers: Vec::new(), session: None }
    }

    /// Signs as a user of the server.
    fn by(self, server: &Basalt, subject: &str) -> Self {
        let secret = server.anon_key().to_owned().leak();
        Self { secret, session: Some(token(server, subject)), ..self }
    }

    fn time(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(Clock::system().unix_seconds() + self.at).unwrap()
    }

    /// The request, and its signature.
    fn sign(&self, server: &Basalt, method: &Method, path: &str) -> (Request<()>, String) {
        let uri = server.url(&format!("/storage/v1/s3{path}"));
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(()).unwrap();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        match self.expires {
            None => settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256,
            Some(expires) => {
                settings.signature_location = SignatureLocation::QueryParams;
                settings.expires_in = Some(Duration::from_secs(expires));
            }
        }
        let identity = Credentials::new(ID, self.secret, self.session.clone(), None, "test").into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(self.time().into())
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        let signable =
            SignableRequest::new(method.as_str(), request.uri().to_string(), headers, self.body.clone())
                .unwrap();
        let (instructions, signature) = sign(signable, &parameters).unwrap().into_parts();
        instructions.apply_to_request_http1x(&mut request);
        (request, signature)
    }
}

/// Sends a signed request, which may have been altered since.
async fn send(server: &Basalt, request: &Request<()>, body: impl Into<bytes::Bytes>) -> Response {
    let target = request.uri().path_and_query().unwrap().as_str();
    let mut sent = server.request(request.method().clone(), target).body(body);
    for (name, value) in request.headers() {
        sent = sent.header(name.as_str(), value.to_str().unwrap());
    }
    sent.send().await
}

/// Status and error code of a response.
fn code(response: &Response) -> String {
    let text = response.text().to_owned();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    format!("{} {}", response.status.as_u16(), code.map_or("-", |(code, _)| code))
}

async fn objects(server: &Basalt) -> String {
    count(server, "storage.objects").await
}

async fn count(server: &Basalt, table: &str) -> String {
    server.sql(&format!("select count(*) from {table}")).await[0][0].clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn altered_request_is_rejected() {
    let server = started().await;
    let (good, _) = Signing::for_body("hello").sign(&server, &Method::PUT, "/b/a.txt");
    let forged = |change: &dyn Fn(&mut Request<()>)| {
        let mut request = Request::builder().method(good.method()).uri(good.uri()).body(()).unwrap();
        request.headers_mut().clone_from(good.headers());
        change(&mut request);
        request
    };
    let uri = |path: &str| server.url(&format!("/storage/v1/s3{path}")).parse::<http::Uri>().unwrap();
    let does_not_match = "403 SignatureDoesNotMatch";
    for (what, change, expected) in [
        ("path", forged(&|request| *request.uri_mut() = uri("/b/b.txt")), does_not_match),
        ("query", forged(&|request| *request.uri_mut() = uri("/b/a.txt?x-id=PutObject")), does_not_match),
        ("method", forged(&|request| *request.method_mut() = Method::DELETE), does_not_match),
        (
            "date",
            forged(&|request| {
                let mut date = request.headers()["x-amz-date"].as_bytes().to_vec();
                date[14] = if date[14] == b'0' { b'1' } else { b'0' };
                request.headers_mut().insert("x-amz-date", HeaderValue::from_bytes(&date).unwrap());
            }),
            does_not_match,
        ),
        (
            "source",
            forged(&|request| {
                drop(request.headers_mut().insert("x-amz-copy-source", "/b/c".parse().unwrap()))
            }),
            "403 AccessDenied",
        ),
        (
            "no signature",
            forged(&|request| drop(request.headers_mut().remove("authorization"))),
            "403 AccessDenied",
        ),
    ] {
        assert_eq!(code(&send(&server, &change, "hello").await), expected, "{what}");
    }
    assert_eq!(code(&send(&server, &good, "hellO").await), "400 XAmzContentSHA256Mismatch");
    let other_secret = Signing { secret: "another", ..Signing::for_body("hello") };
    let (request, _) = other_secret.sign(&server, &Method::PUT, "/b/a.txt");
    assert_eq!(code(&send(&server, &request, "hello").await), does_not_match);
    assert_eq!(objects(&server).await, "0");
    send(&server, &good, "hello").await.expect(200);
    assert_eq!(objects(&server).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_expire() {
    let server = started().await;
    for (at, expires, expected) in [
        (-16 * MINUTE, None, "403 RequestTimeTooSkewed"),
        (16 * MINUTE, None, "403 RequestTimeTooSkewed"),
        (-14 * MINUTE, None, "200 -"),
        (14 * MINUTE, None, "200 -"),
        (-2 * MINUTE, Some(60), "403 AccessDenied"),
        (16 * MINUTE, Some(60), "403 AccessDenied"),
        (-2 * MINUTE, Some(180), "200 -"),
        (-6 * 24 * 60 * MINUTE, Some(7 * 24 * 60 * 60), "200 -"),
        (0, Some(7 * 24 * 60 * 60 + 1), "400 AuthorizationQueryParametersError"),
    ] {
        let body = if expires.is_some() { SignableBody::UnsignedPayload } else { SignableBody::Bytes(b"") };
        let (request, _) = Signing { at, expires, body, ..Signing::for_body("") }.sign(
            &server,
            &Method::GET,
            "/b?list-type=2",
        );
        assert_eq!(code(&send(&server, &request, "").await), expected, "{at} {expires:?}");
    }
}

/// A body of two signed chunks and a trailing checksum.
fn chunks(signing: &Signing, seed: &str, checksum: &str) -> String {
    let time = signing.time();
    let key = v4::generate_signing_key(SECRET, time.into(), "us-east-1", "s3");
    let scope = format!("{}/us-east-1/s3/aws4_request", time.strftime("%Y%m%d"));
    let date = time.strftime("%Y%m%dT%H%M%SZ");
    let sha256 = |text: &str| {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        hex::encode(hash)
    };
    let mut previous = seed.to_owned();
    let mut body = String::new();
    for data in ["hello ", "world", ""] {
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{previous}\n{}\n{}",
            sha256(""),
            sha256(data)
        );
        previous = v4::calculate_signature(&key, text.as_bytes());
        body += &format!("{:x};chunk-signature={previous}\r\n{data}", data.len());
        body += if data.is_empty() { "" } else { "\r\n" };
    }
    let trailer = format!("x-amz-checksum-crc32:{checksum}");
    let text =
        format!("AWS4-HMAC-SHA256-TRAILER\n{date}\n{scope}\n{previous}\n{}", sha256(&format!("{trailer}\n")));
    let signature = v4::calculate_signature(&key, text.as_bytes());
    body + &format!("{trailer}\r\nx-amz-trailer-signature:{signature}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_and_trailers_must_be_signed() {
    const CRC32: &str = "DUoRhQ==";
    let server = started().await;
    let signing = Signing {
        body: SignableBody::Precomputed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER".to_owned()),
        headers: vec![
            ("content-encoding", "aws-chunked".to_owned()),
            ("x-amz-decoded-content-length", "11".to_owned()),
            ("x-amz-trailer", "x-amz-checksum-crc32".to_owned()),
        ],
        ..Signing::for_body("")
    };
    let (request, seed) = signing.sign(&server, &Method::PUT, "/b/chunks");
    let good = chunks(&signing, &seed, CRC32);
    let does_not_match = "403 SignatureDoesNotMatch";
    for (what, body, expected) in [
        ("data", good.replacen("world", "World", 1), does_not_match),
        ("length", good.replacen("6;", "5;", 1), does_not_match),
        ("checksum", good.replace(CRC32, "AAAAAA=="), does_not_match),
        (
            "end",
            good.split_once("\r\n0;").map(|(most, _)| format!("{most}\r\n")).unwrap(),
            "400 IncompleteBody",
        ),
        (
            "trailers",
            good.split_once("x-amz-trailer").map(|(most, _)| most.to_owned()).unwrap(),
            "400 IncompleteBody",
        ),
        ("seed", chunks(&signing, &"0".repeat(64), CRC32), does_not_match),
        ("checksum of another body", chunks(&signing, &seed, "AAAAAA=="), "400 BadDigest"),
        ("unsigned", "b\r\nhello world\r\n0\r\n\r\n".to_owned(), "400 InvalidRequest"),
    ] {
        assert_eq!(code(&send(&server, &request, body).await), expected, "{what}");
    }
    assert_eq!(objects(&server).await, "0");
    let stored = send(&server, &request, good).await;
    assert_eq!((code(&stored).as_str(), stored.header("x-amz-checksum-crc32")), ("200 -", CRC32));
    let (request, _) = Signing::for_body("").sign(&server, &Method::GET, "/b/chunks");
    assert_eq!(send(&server, &request, "").await.text(), "hello world");
    // The partial blobs of the rejected uploads are left to the sweeper.
    while count(&server, "storage.blob_intents").await != "0" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_authority_is_signed_as_host() {
    let server = started().await;
    let (request, _) = Signing::for_body("").sign(&server, &Method::GET, "/b?list-type=2");
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let (response, _) = requests.ready().await.unwrap().send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    driver.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn routing_errors_are_xml_documents() {
    let server = started().await;
    let refused = server.request(Method::GET, "/storage/v1/s3/b/%zz").send().await;
    assert_eq!(code(&refused), "400 InvalidURI");
    // botocore reads error members only from a document without a namespace.
    assert!(refused.text().contains("<Error><Resource>"), "{}", refused.text());
    assert_eq!(refused.header("content-type"), "application/xml");
}

#[tokio::test(flavor = "multi_thread")]
async fn presigned_urls_do_not_serve_html() {
    let server = started().await;
    let page = "<script>alert(1)</script>";
    let put = Signing { headers: vec![("content-type", "text/html".to_owned())], ..Signing::for_body(page) };
    let (put, _) = put.sign(&server, &Method::PUT, "/b/page");
    send(&server, &put, page).await.expect(200);
    let shown = async |expires, path: &str| {
        let body = if expires { SignableBody::UnsignedPayload } else { SignableBody::Bytes(b"") };
        let signing = Signing { expires: expires.then_some(60), body, ..Signing::for_body("") };
        let (request, _) = signing.sign(&server, &Method::GET, path);
        let response = send(&server, &request, "").await.expect(200);
        format!("{} {}", response.header("content-type"), response.header("content-security-policy"))
    };
    // A client that signs in headers is not a browser.
    assert_eq!(shown(false, "/b/page").await, "text/html sandbox");
    assert_eq!(shown(true, "/b/page").await, "text/plain ");
    for (override_type, expected) in [
        ("text/html", "text/plain "),
        ("TEXT/HTML%3B%20charset%3Dutf-8", "text/plain "),
        ("application/xhtml%2Bxml", "application/xhtml+xml sandbox"),
        ("image/svg%2Bxml", "image/svg+xml sandbox"),
        ("text/csv", "text/csv "),
    ] {
        let path =
            format!("/b/page?response-content-type={override_type}&response-content-disposition=inline");
        assert_eq!(shown(true, &path).await, expected, "{override_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn multipart_uploads_are_limited_per_user() {
    let server = started().await;
    let mut codes = BTreeMap::new();
    for number in 0..66 {
        let path = format!("/b/{number}?uploads");
        let (create, _) = Signing::for_body("").by(&server, OWNER).sign(&server, &Method::POST, &path);
        *codes.entry(code(&send(&server, &create, "").await)).or_insert(0) += 1;
    }
    assert_eq!(codes, BTreeMap::from([("200 -".to_owned(), 64), ("429 SlowDown".to_owned(), 2)]));
    let (create, _) =
        Signing::for_body("").by(&server, STRANGER).sign(&server, &Method::POST, "/b/k?uploads");
    assert_eq!(code(&send(&server, &create, "").await), "200 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn multipart_upload_can_be_continued_only_by_its_user() {
    let server = started().await;
    server.sql("create policy anyone on storage.objects for all to authenticated using (true)").await;
    let (create, _) = Signing::for_body("").by(&server, OWNER).sign(&server, &Method::POST, "/b/k?uploads");
    let created = send(&server, &create, "").await.expect(200).text();
    let id = created.split("UploadId>").nth(1).unwrap().trim_end_matches("</").to_owned();
    let part = format!("/b/k?partNumber=1&uploadId={id}");
    let upload = format!("/b/k?uploadId={id}");
    for (method, path) in [(Method::PUT, &part), (Method::GET, &upload), (Method::DELETE, &upload)] {
        let (request, _) = Signing::for_body("").by(&server, STRANGER).sign(&server, &method, path);
        assert_eq!(code(&send(&server, &request, "").await), "403 AccessDenied", "{method} {path}");
    }
    for (method, path) in [(Method::PUT, &part), (Method::GET, &upload), (Method::DELETE, &upload)] {
        let (request, _) = Signing::for_body("").by(&server, OWNER).sign(&server, &method, path);
        assert_eq!(code(&send(&server, &request, "").await), "200 -", "{method} {path}");
    }
}
