//! Image transformation (storage.md §3.14): results, access and caching.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::json;

use super::leftovers::until;
use super::{OWNER, STRANGER, error, make_bucket, request, server, service, token};

const RED: [u8; 3] = [230, 20, 20];
const BLUE: [u8; 3] = [20, 20, 230];
const CHROME: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";

fn picture(width: u32, height: u32, colour: [u8; 3]) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::from(RgbImage::from_pixel(width, height, Rgb(colour)))
        .write_to(&mut bytes, ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// A server with a 400 x 200 image in a public and in a private bucket, both owned by `OWNER`.
async fn gallery(settings: &[(&str, &str)]) -> Basalt {
    let server =
        settings.iter().fold(server(), |server, (key, value)| server.config(key, value)).start().await;
    make_bucket(&server, &json!({"name": "open", "public": true})).await;
    make_bucket(&server, &json!({"name": "secret"})).await;
    for bucket in ["open", "secret"] {
        put(&server, &format!("{bucket}/a.png"), "image/png", picture(400, 200, RED)).await;
    }
    server
}

async fn put(server: &Basalt, path: &str, mime: &str, bytes: Vec<u8>) {
    let upload = request(server, Method::PUT, &format!("/object/{path}")).bearer(&token(server, OWNER));
    let upload = upload.header("content-type", mime).header("cache-control", "max-age=60");
    upload.body(bytes).send().await.expect(200);
}

fn get(server: &Basalt, path: &str) -> Request {
    request(server, Method::GET, path)
}

async fn public(server: &Basalt, path: &str) -> Response {
    get(server, &format!("/render/image/public/{path}")).send().await
}

/// Type and size of the image in a response.
fn seen(response: &Response) -> (String, u32, u32) {
    assert_eq!(response.status, 200, "{}", response.text());
    let image = image::load_from_memory(&response.body).unwrap();
    assert_eq!(response.header("content-length"), response.body.len().to_string());
    (response.header("content-type").to_owned(), image.width(), image.height())
}

fn kept(server: &Basalt) -> Vec<PathBuf> {
    let list = |dir: &PathBuf| -> Vec<PathBuf> {
        std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let shards = list(&server.state_dir().join("storage/render"));
    shards.iter().flat_map(list).collect::<Vec<_>>().iter().flat_map(list).collect()
}

#[tokio::test]
async fn image_is_transformed_once_and_cached() {
    let server = gallery(&[]).await;
    let path = "/render/image/public/open/a.png?width=100&height=100&resize=contain&quality=50&cacheNonce=1";
    let plain = get(&server, path).send().await;
    assert_eq!(seen(&plain), ("image/png".to_owned(), 100, 50));
    let header = |name: &str| plain.header(name).to_owned();
    assert_eq!(header("x-transformations"), "height:100,width:100,resizing_type:fit,quality:50");
    assert_eq!(
        (header("vary"), header("cache-control"), header("x-robots-tag")),
        ("Accept".into(), "max-age=60".into(), "none".into())
    );
    assert_eq!((header("accept-ranges"), header("last-modified").is_empty()), (String::new(), false));
    assert_eq!(kept(&server).len(), 1);

    let webp = get(&server, path).header("accept", CHROME).send().await;
    assert_eq!(seen(&webp), ("image/webp".to_owned(), 100, 50));
    assert_ne!(webp.header("etag"), plain.header("etag"));
    let again = get(&server, path).header("accept", CHROME).send().await;
    assert_eq!((again.body.clone(), again.header("etag")), (webp.body.clone(), webp.header("etag")));
    assert_eq!(kept(&server).len(), 2);

    let unchanged = get(&server, path).header("accept", CHROME).header("if-none-match", webp.header("etag"));
    let unchanged = unchanged.send().await.expect(304);
    assert_eq!(
        (unchanged.body.len(), unchanged.header("etag"), unchanged.header("vary")),
        (0, webp.header("etag"), "Accept")
    );
    let other = get(&server, path).header("if-none-match", webp.header("etag")).send().await;
    assert_eq!(other.body, plain.body);
    let head = request(&server, Method::HEAD, path).send().await.expect(200);
    assert_eq!((head.body.len(), head.header("content-length")), (0, plain.header("content-length")));
    let named = public(&server, "open/a.png?width=10&download=b.png").await;
    assert_eq!(
        named.header("content-disposition"),
        r#"attachment; filename="b.png"; filename*=UTF-8''b.png"#
    );
    for (format, mime) in [("origin", "image/png"), ("webp", "image/webp"), ("avif", "image/webp")] {
        let response = get(&server, &format!("/render/image/public/open/a.png?width=20&format={format}"));
        assert_eq!(
            seen(&response.header("accept", CHROME).send().await),
            (mime.to_owned(), 20, 10),
            "{format}"
        );
    }
}

#[tokio::test]
async fn each_render_route_checks_access() {
    let server = gallery(&[]).await;
    let (owner, stranger) = (token(&server, OWNER), token(&server, STRANGER));
    let no_key = "400 404 | not_found | Object not found | NoSuchKey";
    let no_bucket = "400 404 | Bucket not found | Bucket not found | NoSuchBucket";
    assert_eq!(error(&public(&server, "secret/a.png?width=9").await), no_bucket);
    assert_eq!(error(&public(&server, "no/a.png?width=9").await), no_bucket);
    assert_eq!(error(&public(&server, "open/b.png?width=9").await), no_key);
    for bucket in ["open", "secret"] {
        let path = format!("/render/image/authenticated/{bucket}/a.png?width=40");
        assert_eq!(seen(&get(&server, &path).bearer(&owner).send().await).1, 40);
        assert_eq!(error(&get(&server, &path).bearer(&stranger).send().await), no_key, "{bucket}");
        let anonymous = get(&server, &path).without("apikey").without("authorization").send().await;
        assert_eq!(
            error(&anonymous),
            "400 403 | Unauthorized | Invalid Compact JWS | AccessDenied",
            "{bucket}"
        );
    }
    let expected = "400 400 | Error | querystring/width must be integer | InvalidRequest";
    assert_eq!(error(&public(&server, "open/a.png?width=wide").await), expected);
    for path in
        ["/render/image/public/open", "/render/image/other/open/a.png", "/render/open/a.png", "/render/image"]
    {
        let response = get(&server, path).send().await;
        let expected = format!("404 404 | Not Found | Route GET:{path} not found | InvalidRequest");
        assert_eq!(error(&response), expected);
    }
    let posted = request(&server, Method::POST, "/render/image/public/open/a.png").send().await;
    assert_eq!(posted.status, 404);
}

#[tokio::test]
async fn signed_url_fixes_path_and_transformation() {
    let server = gallery(&[]).await;
    let sign = async |transform| {
        let body = json!({"expiresIn": 60, "transform": transform});
        request(&server, Method::POST, "/object/sign/secret/a.png")
            .bearer(&token(&server, OWNER))
            .json(&body)
            .send()
            .await
    };
    let response = sign(json!({"width": 60, "height": "9000", "resize": "contain", "format": "origin"}))
        .await
        .expect(200);
    let url = response.json()["signedURL"].as_str().unwrap().to_owned();
    assert!(url.starts_with("/render/image/sign/secret/a.png?token="), "{url}");
    let shown = get(&server, &format!("{url}&width=400")).header("accept", CHROME).send().await;
    assert_eq!(seen(&shown), ("image/png".to_owned(), 60, 30));
    assert_eq!(shown.header("x-transformations"), "height:2000,width:60,resizing_type:fit");
    let plain = sign(json!({"width": 60})).await.expect(200).json()["signedURL"].as_str().unwrap().to_owned();
    let plain = get(&server, &plain).send().await.expect(200);
    assert_eq!(
        plain.header("x-transformations"),
        "width:60,resizing_type:fill",
        "an explicit default is listed"
    );
    assert_eq!((shown.header("cache-control"), shown.header("expires").is_empty()), ("", false));
    let original = url.replace("/render/image/", "/object/");
    let expected = "400 400 | InvalidSignature | Invalid signature | InvalidSignature";
    assert_eq!(error(&get(&server, &original).send().await), expected);
    assert_eq!(error(&get(&server, &url.replace("/secret/", "/open/")).send().await), expected);
    let expected = "400 400 | Error | querystring must have required property 'token' | InvalidRequest";
    assert_eq!(error(&get(&server, "/render/image/sign/secret/a.png?width=1").send().await), expected);
    let expected = "400 400 | Error | body/transform/quality must be >= 20 | InvalidRequest";
    assert_eq!(error(&sign(json!({"quality": 1})).await), expected);
}

#[tokio::test]
async fn untransformable_sources_get_specific_errors() {
    let server = gallery(&[
        ("storage.images.max_source_pixels", "100000"),
        ("storage.images.max_source_size", "100kB"),
    ])
    .await;
    let refused = async |name: &str, mime, bytes| {
        put(&server, &format!("open/{name}"), mime, bytes).await;
        error(&public(&server, &format!("open/{name}?width=10")).await)
    };
    let text = |message: &str| format!("400 400 | InvalidRequest | {message} | InvalidRequest");
    let unsupported = text("The source image is invalid or unsupported for rendering");
    assert_eq!(refused("a.txt", "image/png", b"hello".to_vec()).await, unsupported);
    assert_eq!(refused("none", "image/png", Vec::new()).await, unsupported);
    let whole = picture(100, 100, RED);
    assert_eq!(refused("cut", "image/png", whole[..30].to_vec()).await, unsupported);
    let mut damaged = whole.clone();
    damaged[29] ^= 0xff;
    put(&server, "open/damaged", "image/png", damaged).await;
    assert_eq!(seen(&public(&server, "open/damaged?width=10").await).1, 10, "an invalid checksum is ignored");
    let pixels = text("The source image has too many pixels for rendering");
    assert_eq!(refused("wide", "image/png", picture(1001, 100, RED)).await, pixels);
    // 30,000 x 30,000 pixels in a few hundred bytes.
    let mut bomb = picture(1, 1, RED);
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let sum = !bomb[12..29].iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 },
        )
    });
    bomb[29..33].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(refused("bomb", "image/png", bomb).await, pixels);
    let long = text("The source image is too large for rendering");
    assert_eq!(refused("long", "image/png", [whole, vec![0; 100_000]].concat()).await, long);
    assert_eq!(kept(&server).len(), 1, "only the decodable image is cached");

    let drawing = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>".to_vec();
    put(&server, "open/a.svg", "image/svg+xml", drawing.clone()).await;
    let shown = public(&server, "open/a.svg?width=10").await.expect(200);
    assert_eq!((shown.body.to_vec(), shown.header("content-type")), (drawing, "image/svg+xml"));
    assert_eq!(shown.header("content-security-policy"), "sandbox");
    let unchanged =
        get(&server, "/render/image/public/open/a.svg").header("if-none-match", shown.header("etag"));
    unchanged.send().await.expect(304);
}

#[tokio::test]
async fn overwrite_and_purge_invalidate_cached_images() {
    let server = gallery(&[]).await;
    let shown = async || {
        let response = public(&server, "open/a.png?width=20").await;
        let pixel = image::load_from_memory(&response.body).unwrap().to_rgb8().get_pixel(5, 5).0;
        (pixel, response.header("etag").to_owned())
    };
    let (before, first_tag) = shown().await;
    put(&server, "open/a.png", "image/png", picture(400, 200, BLUE)).await;
    let (after, second_tag) = shown().await;
    assert_eq!((before, after, first_tag == second_tag), (RED, BLUE, false));
    assert_eq!(public(&server, "open/a.png?width=30").await.status, 200);
    assert_eq!(kept(&server).len(), 3);

    let purge = async |path: &str, token: &str| {
        request(&server, Method::DELETE, path).bearer(token).json(&json!({})).send().await
    };
    let refused = purge("/cdn/open/a.png", &token(&server, OWNER)).await;
    assert_eq!(error(&refused), "403 403 | Unauthorized | Access denied: Invalid role | AccessDenied");
    for (path, left) in
        [("/cdn/open/no.png", 3), ("/cdn/open/a.png?transformations=true", 1), ("/cdn/open", 0), ("/cdn", 0)]
    {
        let response = purge(path, server.service_key()).await.expect(200);
        assert_eq!((response.json(), kept(&server).len()), (json!({"message": "success"}), left), "{path}");
    }
    assert_eq!(shown().await, (BLUE, second_tag));
    service(&server, Method::DELETE, "/object/open/a.png").send().await.expect(200);
    assert_eq!(
        error(&public(&server, "open/a.png?width=20").await),
        "400 404 | not_found | Object not found | NoSuchKey"
    );
    // Deleting the object deletes its cached images.
    server.database().admin_sql("update storage.blob_garbage set next_attempt_at = now()").await;
    until("the cached image is deleted with its source", async || kept(&server).is_empty()).await;
}

#[tokio::test]
async fn full_image_queue_returns_429() {
    let server = gallery(&[("storage.images.queue", "0")]).await;
    put(&server, "open/large.png", "image/png", picture(2000, 2000, RED)).await;
    let threads = (available_parallelism().unwrap().get() / 2).max(1);
    let requests = (0..threads + 3).map(|number| {
        let request = get(&server, &format!("/render/image/public/open/large.png?width={}", 900 + number));
        tokio::spawn(request.send())
    });
    let mut responses = Vec::new();
    for response in requests.collect::<Vec<_>>() {
        responses.push(response.await.unwrap());
    }
    let refused: Vec<&Response> = responses.iter().filter(|response| response.status != 200).collect();
    assert!((1..=3).contains(&refused.len()), "{}", refused.len());
    for response in refused {
        let expected =
            "429 429 | SlowDown | Too many images are being transformed: try again in a moment | SlowDown";
        assert_eq!((error(response).as_str(), response.header("retry-after")), (expected, "1"));
    }
    assert_eq!(public(&server, "open/large.png?width=900").await.status, 200);
}

/// The number of attempted transformations, including failures.
async fn attempts(server: &Basalt) -> u64 {
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    let count = metrics.lines().find_map(|line| line.strip_prefix("basalt_storage_image_seconds_count "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn undecodable_source_is_decoded_once() {
    let server = gallery(&[]).await;
    // The header is valid; the pixel data is not.
    let mut broken = picture(3000, 3000, RED);
    let data = broken.windows(4).position(|name| name == b"IDAT").unwrap();
    broken[data + 4..].fill(0xff);
    put(&server, "open/broken.png", "image/png", broken).await;
    let before = attempts(&server).await;
    let requests: Vec<_> = (0..24)
        .map(|number| {
            let path = format!("/render/image/public/open/broken.png?width={}", 100 + number);
            tokio::spawn(get(&server, &path).send())
        })
        .collect();
    let text = "The source image is invalid or unsupported for rendering";
    let expected = format!("400 400 | InvalidRequest | {text} | InvalidRequest");
    for response in requests {
        assert_eq!(error(&response.await.unwrap()), expected);
    }
    assert_eq!(error(&public(&server, "open/broken.png?width=9").await), expected);
    assert_eq!(attempts(&server).await - before, 1);
    // A new version of the object is decoded again.
    put(&server, "open/broken.png", "image/png", picture(30, 30, RED)).await;
    assert_eq!(seen(&public(&server, "open/broken.png?width=9").await).1, 9);
}

#[tokio::test]
async fn image_work_is_shared_fairly_between_clients() {
    let server = gallery(&[]).await;
    let threads = (available_parallelism().unwrap().get() / 2).max(1);
    // As many sources as threads, so that the busy client can hold all threads.
    for number in 0..threads {
        put(&server, &format!("open/{number}.png"), "image/png", picture(2000, 2000, RED)).await;
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let busy: Vec<_> = (0..threads * 12)
        .map(|number| {
            let path = format!("/render/image/public/open/{}.png?width={}", number % threads, 300 + number);
            let (ended, request) = (Arc::clone(&ended), get(&server, &path).bearer(&token(&server, OWNER)));
            tokio::spawn(async move {
                let _answer = request.send().await;
                ended.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    until("the busy client holds the threads", async || ended.load(Ordering::SeqCst) > 0).await;
    let other = get(&server, "/render/image/public/open/a.png?width=50").bearer(&token(&server, STRANGER));
    assert_eq!(seen(&other.send().await).1, 50);
    let before_the_other = ended.load(Ordering::SeqCst);
    assert!(before_the_other < threads * 6, "{before_the_other} of {}", busy.len());
    for request in busy {
        request.await.unwrap();
    }
}

/// The server's peak resident memory in bytes.
fn peak_memory(server: &Basalt) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn transformation_keeps_one_copy_of_the_pixels() {
    const SIDE: u32 = 2500;
    let server = gallery(&[]).await;
    let mut bytes = Cursor::new(Vec::new());
    let large = RgbaImage::from_pixel(SIDE, SIDE, Rgba([230, 20, 20, 100]));
    DynamicImage::from(large).write_to(&mut bytes, ImageFormat::Png).unwrap();
    put(&server, "open/clear.png", "image/png", bytes.into_inner()).await;
    assert_eq!(seen(&public(&server, "open/a.png?width=50").await).1, 50);
    let before = peak_memory(&server);
    assert_eq!(seen(&public(&server, "open/clear.png?width=50").await).1, 50);
    let (took, pixels) = (peak_memory(&server) - before, u64::from(SIDE) * u64::from(SIDE));
    // 4 bytes per pixel and 50 % for everything else; a second copy would need 8.
    assert!(took < pixels * 6, "{took} bytes for {pixels} pixels");
}

#[tokio::test]
async fn disabled_transformation_has_no_routes() {
    let server = gallery(&[("storage.images.enabled", "false")]).await;
    let path = "/render/image/public/open/a.png?width=10";
    let expected = format!("404 404 | Not Found | Route GET:{path} not found | InvalidRequest");
    assert_eq!(error(&get(&server, path).send().await), expected);
    let body = json!({"expiresIn": 60, "transform": {"width": 10}});
    let signed = request(&server, Method::POST, "/object/sign/secret/a.png")
        .bearer(&token(&server, OWNER))
        .json(&body);
    let expected = "400 409 | FeatureNotEnabled | The feature imageTransformation is not enabled for this resource | FeatureNotEnabled";
    assert_eq!(error(&signed.send().await), expected);
}
