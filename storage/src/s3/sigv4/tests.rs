//! AWS's published examples, and altered versions of them.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::{HeaderName, HeaderValue, Request};
use proptest::prelude::*;

use super::*;

/// The key pair of AWS's examples.
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const HOST: &[u8] = b"examplebucket.s3.amazonaws.com";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// 2013-05-24T00:00:00Z.
const THEN: i64 = 1_369_353_600;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn authorization(signed: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders={signed},Signature={signature}"
    )
}

fn check(request: SentRequest<'_>, secret: &str) -> Result<Signature, SignatureError> {
    let signature = Signature::read(request)?;
    signature.verify(request, secret)?;
    Ok(signature)
}

#[test]
fn verifies_published_header_examples() {
    let get = headers(&[
        (
            "authorization",
            &authorization(
                "host;range;x-amz-content-sha256;x-amz-date",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
        ),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
    ]);
    let request = SentRequest { method: "GET", path: "/test.txt", query: "", host: HOST, headers: &get };
    let signature = check(request, SECRET).unwrap();
    assert_eq!(signature.credential.access_key, "AKIAIOSFODNN7EXAMPLE");
    assert_eq!(signature.time.unix_seconds, THEN);

    let put = headers(&[
        (
            "authorization",
            &authorization(
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
        ),
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ]);
    let put = SentRequest { method: "PUT", path: "/test$file.text", query: "", host: HOST, headers: &put };
    check(put, SECRET).unwrap();
    // The canonical form is the same whatever encoding the client sent.
    check(SentRequest { path: "/test%24file.text", ..put }, SECRET).unwrap();

    for (query, signature) in [
        ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("prefix=J&max-keys=2", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ] {
        let headers = headers(&[
            ("authorization", &authorization("host;x-amz-content-sha256;x-amz-date", signature)),
            ("x-amz-content-sha256", EMPTY),
            ("x-amz-date", "20130524T000000Z"),
        ]);
        check(SentRequest { method: "GET", path: "/", query, host: HOST, headers: &headers }, SECRET)
            .unwrap();
    }
}

const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

#[test]
fn verifies_published_presigned_example_for_its_day() {
    let none = HeaderMap::new();
    let request =
        SentRequest { method: "GET", path: "/test.txt", query: PRESIGNED, host: HOST, headers: &none };
    let signature = check(request, SECRET).unwrap();
    assert_eq!(signature.payload, UNSIGNED_PAYLOAD);
    let times = [
        (THEN - CLOCK_SKEW - 1, Err(SignatureError::NotYetValid)),
        (THEN - CLOCK_SKEW, Ok(())),
        (THEN + 86_400, Ok(())),
        (THEN + 86_401, Err(SignatureError::Expired)),
    ];
    for (now, expected) in times {
        assert_eq!(signature.check_time(now), expected, "{now}");
    }
}

#[test]
fn header_signature_allows_fifteen_minutes_of_skew() {
    let headers = headers(&[
        ("authorization", &authorization("host;x-amz-content-sha256;x-amz-date", &"0".repeat(64))),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
    ]);
    let request = SentRequest { method: "GET", path: "/", query: "", host: HOST, headers: &headers };
    let signature = Signature::read(request).unwrap();
    for (offset, is_fine) in
        [(-CLOCK_SKEW - 1, false), (-CLOCK_SKEW, true), (CLOCK_SKEW, true), (CLOCK_SKEW + 1, false)]
    {
        assert_eq!(signature.check_time(THEN + offset).is_ok(), is_fine, "{offset}");
    }
}

#[test]
fn rejects_any_altered_part() {
    let signed = headers(&[
        (
            "authorization",
            &authorization(
                "host;range;x-amz-content-sha256;x-amz-date",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
        ),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
    ]);
    let request = SentRequest { method: "GET", path: "/test.txt", query: "", host: HOST, headers: &signed };
    let changed = |name: &'static str, value: &'static str| {
        let mut headers = signed.clone();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    };
    let doubled = {
        let mut headers = signed.clone();
        headers.append("range", HeaderValue::from_static("bytes=0-9"));
        headers
    };
    let other_range = changed("range", "bytes=0-8");
    let other_hash = changed("x-amz-content-sha256", UNSIGNED_PAYLOAD);
    let other_time = changed("x-amz-date", "20130524T000001Z");
    let cases = [
        SentRequest { method: "PUT", ..request },
        SentRequest { path: "/test.txu", ..request },
        SentRequest { path: "/test.txt/", ..request },
        SentRequest { path: "//test.txt", ..request },
        SentRequest { query: "acl", ..request },
        SentRequest { host: b"examplebucket.s3.amazonaws.org", ..request },
        SentRequest { headers: &other_range, ..request },
        SentRequest { headers: &other_hash, ..request },
        SentRequest { headers: &other_time, ..request },
        SentRequest { headers: &doubled, ..request },
    ];
    for case in cases {
        assert_eq!(check(case, SECRET), Err(SignatureError::DoesNotMatch), "{case:?}");
    }
    assert_eq!(check(request, "another"), Err(SignatureError::DoesNotMatch));
    let added = changed("x-amz-copy-source", "/other/secret");
    let refused = check(SentRequest { headers: &added, ..request }, SECRET);
    assert_eq!(refused, Err(SignatureError::UnsignedHeader("x-amz-copy-source".to_owned())));
    let by_network = changed("x-amz-cf-id", "abc");
    check(SentRequest { headers: &by_network, ..request }, SECRET).unwrap();
}

#[test]
fn malformed_signatures_report_the_reason() {
    let read = |pairs: &[(&str, &str)], query: &str| {
        let headers = headers(pairs);
        Signature::read(SentRequest { method: "GET", path: "/", query, host: HOST, headers: &headers })
            .unwrap_err()
            .to_string()
    };
    assert_eq!(read(&[], ""), "Missing signature");
    assert_eq!(read(&[("authorization", "Bearer x")], ""), "Missing signature");
    let cases = [
        ("AWS4-ECDSA-P256-SHA256 Credential=a", "the algorithm must be AWS4-HMAC-SHA256"),
        ("AWS4-HMAC-SHA256 Credential", "a field has no value"),
        ("AWS4-HMAC-SHA256 Credential=a", "it has no SignedHeaders"),
        ("AWS4-HMAC-SHA256 Extra=1", "only Credential, SignedHeaders and Signature are known"),
    ];
    for (sent, why) in cases {
        let expected = format!("The authorization header is malformed; {why}");
        assert_eq!(read(&[("authorization", sent)], ""), expected);
    }
    let date = ("x-amz-date", "20130524T000000Z");
    let hash = ("x-amz-content-sha256", EMPTY);
    let zeros = "0".repeat(64);
    let good = authorization("host;x-amz-date", &zeros);
    let cases = [
        (good.replace("/s3/", "/sts/"), "the credential must end in /s3/aws4_request"),
        (good.replace("20130524", "2013052"), "the date of the credential must be YYYYMMDD"),
        (good.replace("20130524", "20130525"), "the dates of credential and request differ"),
        (good.replace("AKIAIOSFODNN7EXAMPLE", ""), "the credential has no access key"),
        (good.replace("host;", ""), "the host header must be signed"),
        (good.replace(&zeros, "12"), "the signature must be 64 hexadecimal digits"),
    ];
    for (sent, why) in &cases {
        let expected = format!("The authorization header is malformed; {why}");
        assert_eq!(read(&[("authorization", sent), date, hash], ""), expected);
    }
    for bad in ["20130524", "2013-05-24T00:00:00Z", "20131324T000000Z", "20130524T0000000"] {
        let expected = "The authorization header is malformed; x-amz-date must be YYYYMMDDTHHMMSSZ";
        assert_eq!(read(&[("authorization", &good), ("x-amz-date", bad), hash], ""), expected);
    }
    let expected = "Missing required header for this request: x-amz-content-sha256";
    assert_eq!(read(&[("authorization", &good), date], ""), expected);
    let cases = [
        (PRESIGNED.replace("86400", "604801"), "X-Amz-Expires must be between 1 and 604800 seconds"),
        (PRESIGNED.replace("86400", "0"), "X-Amz-Expires must be between 1 and 604800 seconds"),
        (PRESIGNED.replace("SHA256&", "SHA1&"), "X-Amz-Algorithm must be AWS4-HMAC-SHA256"),
        (PRESIGNED.replace("X-Amz-Date", "X-Date"), "X-Amz-Date is missing"),
        (format!("{PRESIGNED}&X-Amz-Expires=60"), "X-Amz-Expires is repeated"),
    ];
    for (query, why) in &cases {
        assert_eq!(read(&[], query), format!("The signature's parameters are malformed; {why}"));
    }
}

#[test]
fn form_signature_covers_the_policy() {
    let policy = "eyJleHBpcmF0aW9uIjoiMjAxMy0wNS0yNVQwMDowMDowMFoifQ==";
    let credential = Credential::parse("AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request").unwrap();
    let signature = hex::encode(credential.signing_key(SECRET).sign(policy.as_bytes()));
    let field = |name: &str| {
        let value = match name {
            "policy" => policy,
            "x-amz-algorithm" => ALGORITHM,
            "x-amz-credential" => "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request",
            "x-amz-date" => "20130524T000000Z",
            "x-amz-signature" => &signature,
            _ => return None,
        };
        Some(value.to_owned())
    };
    let form = read_form(field, THEN).unwrap();
    assert_eq!(form.verify(SECRET), Ok(()));
    assert_eq!(form.verify("another"), Err(SignatureError::DoesNotMatch));
    let other = |name: &str| if name == "policy" { Some("e30=".to_owned()) } else { field(name) };
    assert_eq!(read_form(other, THEN).unwrap().verify(SECRET), Err(SignatureError::DoesNotMatch));
    assert_eq!(read_form(field, THEN - CLOCK_SKEW - 1), Err(SignatureError::NotYetValid));
    assert_eq!(read_form(|_| None, THEN), Err(SignatureError::Missing));
}

/// A request signed by AWS's own signer.
fn signed_by_aws(
    key: &str,
    query: &[(String, String)],
    metadata: &str,
    token: Option<&str>,
    form: Form,
) -> Request<()> {
    let encode = |text: &str| percent_encode(text.as_bytes(), ENCODED).to_string();
    let pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    let path = percent_encode(key.as_bytes(), ENCODED_IN_PATH);
    let uri = format!("http://localhost:54321/storage/v1/s3/b/{path}?{}", pairs.join("&"));
    let mut request = Request::put(uri).header("x-amz-meta-a", metadata).body(()).unwrap();
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    match form {
        Form::Header => settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256,
        Form::Presigned { expires } => {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = Some(Duration::from_secs(expires.unsigned_abs()));
        }
    }
    let identity =
        Credentials::new("AKIAIOSFODNN7EXAMPLE", SECRET, token.map(str::to_owned), None, "test").into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region("local")
        .name("s3")
        .time(jiff::Timestamp::from_second(THEN).unwrap().into())
        .settings(settings)
        .build()
        .unwrap()
        .into();
    let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let signable =
        SignableRequest::new("PUT", request.uri().to_string(), headers, SignableBody::UnsignedPayload)
            .unwrap();
    let (instructions, _) = sign(signable, &parameters).unwrap().into_parts();
    instructions.apply_to_request_http1x(&mut request);
    request
}

fn sent(request: &Request<()>) -> SentRequest<'_> {
    SentRequest {
        method: request.method().as_str(),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        host: b"localhost:54321",
        headers: request.headers(),
    }
}

fn forms() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Header), (1..=MAX_EXPIRES).prop_map(|expires| Form::Presigned { expires })]
}

proptest! {
    #[test]
    fn verifies_aws_signatures_and_rejects_alterations(
        key in "[ -~\u{e4}\u{1f600}/]{1,40}",
        query in prop::collection::vec(("[a-z -]{1,8}", "[ -~\u{e4}]{0,12}"), 0..4),
        metadata in "[!-~]([ -~]{0,20}[!-~])?",
        token in prop::option::of("[A-Za-z0-9_.-]{1,40}"),
        form in forms(),
        place in 0usize..1000,
        bit in 0u8..7,
    ) {
        let request = signed_by_aws(&key, &query, &metadata, token.as_deref(), form);
        let sent = sent(&request);
        let signature = check(sent, SECRET);
        prop_assert!(signature.is_ok(), "{signature:?} {request:?}");
        let signature = signature.unwrap();
        prop_assert_eq!(signature.form, form);
        prop_assert_eq!(signature.session_token.as_deref(), token.as_deref());
        prop_assert_eq!(signature.payload.as_str(), UNSIGNED_PAYLOAD);

        let alter = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let index = place % bytes.len().max(1);
            bytes[index] ^= 1 << bit;
            String::from_utf8(bytes).ok()
        };
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        if let Some(path) = alter(sent.path)
            && decoded(&path) != decoded(sent.path)
        {
            prop_assert!(check(SentRequest { path: &path, ..sent }, SECRET).is_err(), "{path}");
        }
        let sorted = |text: &str| {
            let mut pairs = query_pairs(text);
            pairs.sort();
            pairs
        };
        if !sent.query.is_empty()
            && let Some(query) = alter(sent.query)
            && sorted(&query) != sorted(sent.query)
        {
            prop_assert!(check(SentRequest { query: &query, ..sent }, SECRET).is_err(), "{query}");
        }
        for (name, value) in request.headers() {
            let Some(value) = alter(value.to_str().unwrap()) else { continue };
            let Ok(value) = HeaderValue::from_str(&value) else { continue };
            let mut headers = request.headers().clone();
            let words = |value: &HeaderValue| -> Vec<String> {
                value.to_str().unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
            };
            if words(&value) == words(&headers[name]) {
                continue;
            }
            headers.insert(name, value);
            let refused = check(SentRequest { headers: &headers, ..sent }, SECRET);
            // The access key only selects the secret and is not signed.
            let is_same_otherwise = refused.as_ref().is_ok_and(|found| {
                found.credential.access_key != signature.credential.access_key
            });
            prop_assert!(refused.is_err() || is_same_otherwise, "{name}: {headers:?}");
        }
    }
}
