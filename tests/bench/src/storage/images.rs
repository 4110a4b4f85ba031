//! The time of a transformed image, uncached and cached.

use std::io::Cursor;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use serde_json::{Value, json};

use super::requests::{self, BUCKET};
use crate::basalt::Basalt;
use crate::http::{self, Until};
use crate::report::{self, rounded};

/// A photograph of twelve million pixels, as phones take them.
const WIDTH: u32 = 4000;
const HEIGHT: u32 = 3000;
/// Variants that are made anew, each of a width of its own.
const VARIANTS: u32 = 20;
const CACHED: u64 = 2_000;

/// Milliseconds of new variants and of a cached one, on one connection.
pub(super) async fn run(basalt: &Basalt) -> Result<Value> {
    let photograph = photograph()?;
    let (status, response) = http::once(basalt.port, &requests::upload("photograph", &photograph)).await?;
    ensure!(status == 200, "status {status}: {response}");
    let variant = |width: u32| {
        let path = format!("/storage/v1/render/image/public/{BUCKET}");
        requests::download(&path, &format!("photograph?width={width}&format=webp"))
    };
    let load = async |requests: Vec<Vec<u8>>, count| {
        http::load(basalt.port, Rc::new(requests), 200, 1, Until::Count(count)).await
    };
    let cold = load((1..=VARIANTS).map(|number| variant(number * 60)).collect(), VARIANTS.into()).await?;
    let cached = load(vec![variant(60)], CACHED).await?;
    report::print(&format!(
        "image of {} MB and 12 megapixels as WebP: made anew p50 {:.0} ms, p99 {:.0} ms; cached p50 {:.3} ms, p99 {:.3} ms",
        photograph.len() / 1_000_000,
        cold.quantile_ms(0.5),
        cold.quantile_ms(0.99),
        cached.quantile_ms(0.5),
        cached.quantile_ms(0.99),
    ));
    let figures = |load: &http::Load| json!({"p50_ms": rounded(load.quantile_ms(0.5)), "p99_ms": rounded(load.quantile_ms(0.99))});
    Ok(json!({"made_anew": figures(&cold), "cached": figures(&cached)}))
}

/// Slopes with some grain: neither as easy as one colour nor as hard as noise.
fn photograph() -> Result<Vec<u8>> {
    let mut grain = 1_u32;
    let pixels = RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        grain = grain.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let shade = |value: u32| u8::try_from((value / 16 + (grain >> 28)) % 256).unwrap_or(u8::MAX);
        Rgb([shade(x), shade(y), shade(x + y)])
    });
    let mut bytes = Cursor::new(Vec::new());
    JpegEncoder::new_with_quality(&mut bytes, 85).encode_image(&pixels).context("the photograph")?;
    Ok(bytes.into_inner())
}
