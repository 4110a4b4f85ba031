use std::io::Cursor;

use image::codecs::gif::{GifEncoder, Repeat};
use image::codecs::png::PngEncoder;
use image::{
    Delay, Frame, GrayImage, ImageBuffer, ImageDecoder as _, ImageEncoder as _, ImageReader, Luma, Rgb,
    RgbImage, Rgba, RgbaImage,
};

use basalt_images::DECODER_BYTES;

use super::*;
use crate::json_body::Query;

const MAX_PIXELS: u64 = 1_000_000;
const RED: [u8; 3] = [230, 20, 20];
const GREEN: [u8; 3] = [20, 200, 20];
const BLUE: [u8; 3] = [20, 20, 230];
const WHITE: [u8; 3] = [250, 250, 250];

fn wanted(query: &str) -> Parameters {
    Parameters::read(&Query::parse(Some(query)).fields(), 2000).unwrap()
}

fn make(source: &[u8], query: &str) -> Result<Variant, TransformError> {
    let wanted = wanted(query);
    transform(source.to_vec(), &wanted, wanted.wants_webp(None), MAX_PIXELS)
}

fn write_png(bytes: &mut Vec<u8>, image: &DynamicImage, profile: Vec<u8>) {
    let mut encoder = PngEncoder::new(bytes);
    encoder.set_icc_profile(profile).unwrap();
    image.write_with_encoder(encoder).unwrap();
}

/// Format and pixels of a variant.
fn seen(source: &[u8], query: &str) -> (Output, DynamicImage) {
    let variant = make(source, query).unwrap();
    let mime = image::guess_format(&variant.bytes).unwrap().to_mime_type();
    assert_eq!(mime, variant.format.content_type());
    (variant.format, image::load_from_memory(&variant.bytes).unwrap())
}

/// Red and green above blue and white.
fn quadrants(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb(match (x < width / 2, y < height / 2) {
            (true, true) => RED,
            (false, true) => GREEN,
            (true, false) => BLUE,
            (false, false) => WHITE,
        })
    })
    .into()
}

fn stored(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn png(image: &DynamicImage) -> Vec<u8> {
    stored(image, ImageFormat::Png)
}

/// The nearest of the four colours at a relative position.
fn colour(image: &DynamicImage, x: f64, y: f64) -> [u8; 3] {
    // The last pixel that starts before that position.
    let at = |share: f64, side: u32| {
        (0..side).rfind(|pixel| f64::from(*pixel) <= share * f64::from(side)).unwrap()
    };
    let found = image.to_rgb8().get_pixel(at(x, image.width()), at(y, image.height())).0;
    let distance = |one: &[u8; 3]| -> i32 {
        one.iter().zip(found).map(|(a, b)| (i32::from(*a) - i32::from(b)).pow(2)).sum()
    };
    [RED, GREEN, BLUE, WHITE].into_iter().min_by_key(|one| distance(one)).unwrap()
}

fn corners(image: &DynamicImage) -> [[u8; 3]; 4] {
    [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)].map(|(x, y)| colour(image, x, y))
}

fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    let mut byte = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from((state >> 16) % most).unwrap()
    };
    // Noise on slowly changing colours.
    RgbImage::from_fn(width, height, |x, y| {
        let shade = |side: u32| u8::try_from(side / 2 % 224).unwrap();
        Rgb([shade(x) + byte(32), shade(y) + byte(32), shade(x + y)])
    })
    .into()
}

#[test]
fn result_has_the_requested_size() {
    let source = png(&quadrants(400, 200));
    for (query, size) in [
        ("", (400, 200)),
        ("width=100", (100, 50)),
        ("width=100&height=100", (100, 100)),
        ("width=100&height=100&resize=contain", (100, 50)),
        ("width=100&height=100&resize=fill", (100, 100)),
        ("width=1000&height=900", (400, 200)),
    ] {
        for format in ["origin", "webp", "avif"] {
            let (_, image) = seen(&source, &format!("{query}&format={format}"));
            assert_eq!((image.width(), image.height()), size, "{query} {format}");
            if size != (100, 100) || query.ends_with("fill") {
                assert_eq!(corners(&image), [RED, GREEN, BLUE, WHITE], "{query} {format}");
            }
        }
    }
}

#[test]
fn cover_keeps_the_anchored_part() {
    let source = png(&quadrants(400, 400));
    for (gravity, colours) in [
        ("no", [RED, GREEN, RED, GREEN]),
        ("so", [BLUE, WHITE, BLUE, WHITE]),
        ("ce", [RED, GREEN, BLUE, WHITE]),
        ("sm", [RED, GREEN, BLUE, WHITE]),
        ("fp&x_offset=0.5&y_offset=0.9", [BLUE, WHITE, BLUE, WHITE]),
    ] {
        let (_, image) = seen(&source, &format!("width=200&height=50&gravity={gravity}"));
        assert_eq!(corners(&image), colours, "{gravity}");
    }
    for (gravity, colours) in [
        ("ea", [GREEN, GREEN, WHITE, WHITE]),
        ("we", [RED, RED, BLUE, BLUE]),
        ("nowe", [RED, RED, BLUE, BLUE]),
        ("soea", [GREEN, GREEN, WHITE, WHITE]),
    ] {
        let (_, image) = seen(&source, &format!("width=50&height=200&gravity={gravity}"));
        assert_eq!(corners(&image), colours, "{gravity}");
    }
}

/// A JPEG with an EXIF orientation.
fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat()
}

#[test]
fn applies_exif_orientation() {
    let lying = quadrants(300, 200);
    let jpeg = stored(&lying, ImageFormat::Jpeg);
    for orientation in 1..=8 {
        let mut upright = lying.clone();
        upright.apply_orientation(Orientation::from_exif(orientation).unwrap());
        let (turned, upright) = (with_orientation(&jpeg, orientation), png(&upright));
        for query in [
            "",
            "width=60",
            "width=60&height=30",
            "width=30&height=60&gravity=nowe",
            "width=60&height=30&gravity=so",
            "width=40&height=40&gravity=fp&x_offset=0.8&y_offset=0.1",
            "width=70&height=20&resize=fill",
            "width=70&height=20&resize=contain",
        ] {
            let ((format, ours), (_, expected)) = (seen(&turned, query), seen(&upright, query));
            assert_eq!(format, Output::Jpeg);
            assert_eq!(
                (ours.width(), ours.height(), corners(&ours)),
                (expected.width(), expected.height(), corners(&expected)),
                "{orientation} {query}"
            );
        }
    }
}

#[test]
fn quality_affects_the_size() {
    let source = stored(&noise(300, 300), ImageFormat::Jpeg);
    for format in ["origin", "webp"] {
        let size = |quality: &str| make(&source, &format!("format={format}{quality}")).unwrap().bytes.len();
        let sizes = [size("&quality=20"), size("&quality=50"), size(""), size("&quality=100")];
        assert!(sizes.is_sorted() && sizes[0] * 2 < sizes[3], "{format} {sizes:?}");
        assert_eq!(size(""), size("&quality=80"));
    }
}

#[test]
fn maps_source_to_output_format() {
    let opaque = quadrants(40, 40);
    let clear = DynamicImage::from(RgbaImage::from_pixel(40, 40, Rgba([230, 20, 20, 0])));
    for (format, plain, with_alpha) in [
        (ImageFormat::Png, Output::Png, Some(Output::Png)),
        (ImageFormat::Jpeg, Output::Jpeg, None),
        (ImageFormat::WebP, Output::WebP, Some(Output::WebP)),
        (ImageFormat::Gif, Output::Gif, Some(Output::Gif)),
        (ImageFormat::Bmp, Output::Jpeg, None),
        (ImageFormat::Tiff, Output::Jpeg, Some(Output::Png)),
        (ImageFormat::Ico, Output::Png, Some(Output::Png)),
    ] {
        // The icon encoder always writes alpha.
        let source = if format == ImageFormat::Ico { opaque.to_rgba8().into() } else { opaque.clone() };
        let (found, image) = seen(&stored(&source, format), "width=20");
        assert_eq!(
            (found, image.width(), corners(&image)),
            (plain, 20, [RED, GREEN, BLUE, WHITE]),
            "{format:?}"
        );
        let Some(with_alpha) = with_alpha else { continue };
        for (query, expected) in [("width=20", with_alpha), ("width=20&format=webp", Output::WebP)] {
            let (found, image) = seen(&stored(&clear, format), query);
            assert_eq!((found, image.to_rgba8().get_pixel(5, 5).0[3]), (expected, 0), "{format:?} {query}");
        }
    }
}

#[test]
fn decodes_deep_and_grey_sources() {
    let grey = GrayImage::from_pixel(40, 40, Luma([100]));
    let deep = ImageBuffer::from_pixel(40, 40, Rgb([60_000_u16, 0, 0]));
    for (source, red) in [(DynamicImage::from(grey), 100), (DynamicImage::ImageRgb16(deep), 233)] {
        for query in ["width=20", "width=20&format=webp"] {
            let (_, image) = seen(&png(&source), query);
            let found = image.to_rgb8().get_pixel(10, 10).0[0];
            assert!(found.abs_diff(red) < 4, "{query} {found}");
        }
    }
}

#[test]
fn transparent_edges_keep_their_colour() {
    // Transparent pixels are green, which must not bleed into visible ones.
    let image =
        RgbaImage::from_fn(
            100,
            100,
            |x, _| {
                if x % 2 == 0 { Rgba([200, 0, 0, 255]) } else { Rgba([0, 255, 0, 0]) }
            },
        );
    let (_, image) = seen(&png(&image.into()), "width=25");
    let [red, green, _, alpha] = image.to_rgba8().get_pixel(12, 12).0;
    assert!(red > 190 && green < 10 && (100..160).contains(&alpha), "{red} {green} {alpha}");
}

#[test]
fn keeps_the_colour_profile() {
    let mut profile = vec![0; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    let with_profile = |image: &DynamicImage, profile: &[u8]| {
        let mut bytes = Vec::new();
        write_png(&mut bytes, image, profile.to_vec());
        bytes
    };
    let kept = |source: &[u8], query: &str| {
        let Variant { bytes, .. } = make(source, query).unwrap();
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().unwrap();
        reader.into_decoder().unwrap().icc_profile().unwrap()
    };
    let source = with_profile(&quadrants(40, 40), &profile);
    assert_eq!(kept(&source, "width=20"), Some(profile.clone()));
    assert_eq!(kept(&source, "width=20&format=webp"), Some(profile.clone()));
    profile[16..20].copy_from_slice(b"CMYK");
    assert_eq!(kept(&with_profile(&quadrants(40, 40), &profile), "width=20"), None);
}

fn moving_gif() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    encoder.set_repeat(Repeat::Infinite).unwrap();
    for shade in [0, 100, 200] {
        let image = RgbaImage::from_pixel(40, 20, Rgba([shade, 0, 0, 255]));
        encoder.encode_frame(Frame::from_parts(image, 0, 0, Delay::from_numer_denom_ms(100, 1))).unwrap();
    }
    drop(encoder);
    bytes
}

#[test]
fn keeps_animation_only_at_original_size() {
    let source = moving_gif();
    for query in ["", "quality=50", "format=webp"] {
        assert_eq!(
            make(&source, query),
            Ok(Variant { format: Output::Gif, bytes: source.clone() }),
            "{query}"
        );
    }
    let (format, image) = seen(&source, "width=20");
    assert_eq!((format, image.width(), image.height()), (Output::Gif, 20, 10));
    assert_eq!(seen(&source, "width=20&format=webp").0, Output::WebP);
}

/// A PNG header with this size and hardly any data.
fn empty_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = png(&DynamicImage::new_luma8(1, 1));
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let sum = crc(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

#[test]
fn checks_the_size_before_decoding() {
    let too_many = Err(TransformError::TooManyPixels);
    assert_eq!(make(&empty_png(30_000, 30_000), "width=10"), too_many);
    assert_eq!(make(&empty_png(1_000_001, 1), "width=10"), too_many);
    // The size is allowed; the missing pixels are a different error.
    assert_eq!(make(&empty_png(1000, 1000), "width=10"), Err(TransformError::Unsupported));

    let mut gif = moving_gif();
    gif[6..10].copy_from_slice(&[0xff; 4]);
    assert_eq!(make(&gif, ""), too_many);
    let mut jpeg = stored(&quadrants(16, 16), ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert_eq!(make(&jpeg, ""), too_many);
    let mut bmp = stored(&quadrants(16, 16), ImageFormat::Bmp);
    bmp[18..22].copy_from_slice(&50_000_u32.to_le_bytes());
    bmp[22..26].copy_from_slice(&50_000_u32.to_le_bytes());
    assert_eq!(make(&bmp, ""), too_many);
    // Deep pixels count several times, unless they are narrowed while decoding.
    let deep = DynamicImage::new_rgba16(900, 900);
    assert_eq!(make(&stored(&deep, ImageFormat::Tiff), "width=10"), too_many);
    let mut deep = DynamicImage::new_rgba16(900, 900);
    deep.invert();
    assert!(make(&png(&deep), "width=10").is_ok());
}

/// A grey JPEG in two scans, with blocks of one shade.
fn progressive(across: u16, down: u16, shade: impl Fn(u16, u16) -> i32) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([1; 64]);
    let ([h1, h2], [w1, w2]) = ((8 * down).to_be_bytes(), (8 * across).to_be_bytes());
    bytes.extend([0xff, 0xc2, 0, 11, 8, h1, h2, w1, w2, 1, 1, 0x11, 0]);
    // Twelve four-bit codes for the shades, and a one-bit code for blocks without detail.
    bytes.extend([0xff, 0xc4, 0, 31, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(0..12);
    bytes.extend([0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0]);
    let (mut bits, mut before) = (Vec::new(), 0);
    for (y, x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
        let difference = 8 * (shade(x, y) - 128) - before;
        before += difference;
        let length = 32 - difference.unsigned_abs().leading_zeros();
        bits.extend((0..4).rev().map(|bit| length >> bit & 1 == 1));
        let digits = if difference < 0 { difference - 1 } else { difference };
        bits.extend((0..length).rev().map(|bit| digits >> bit & 1 == 1));
    }
    for byte in bits
        .chunks(8)
        .map(|bits| (0..8).fold(0, |byte, at| byte << 1 | u8::from(*bits.get(at).unwrap_or(&true))))
    {
        bytes.extend(if byte == 0xff { vec![byte, 0] } else { vec![byte] });
    }
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0]);
    bytes.extend(vec![0; usize::from(across * down).div_ceil(8)]);
    bytes.extend([0xff, 0xd9]);
    bytes
}

#[test]
fn progressive_image_needs_more_memory() {
    let mut source = stored(&quadrants(400, 400), ImageFormat::Jpeg);
    let within = |source: &[u8]| transform(source.to_vec(), &wanted("width=10"), false, 160_000).map(drop);
    assert_eq!(within(&source), Ok(()));
    let frame = source.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    source[frame + 1] = 0xc2;
    assert_eq!(within(&source), Err(TransformError::TooManyPixels));
    // Grey needs a third.
    let grey = progressive(50, 50, |x, y| i32::from(x + y));
    assert_eq!(within(&grey), Ok(()));
    let (_, image) = seen(&grey, "width=50");
    assert!(image.to_luma8().get_pixel(30, 15).0[0].abs_diff(45) < 4);
}

#[test]
fn oversized_frame_allocates_nothing() {
    let mut gif = moving_gif();
    // The first image descriptor, after the colour table and the extensions.
    let descriptor = gif.windows(9).position(|nine| nine == [0x2c, 0, 0, 0, 0, 40, 0, 20, 0]).unwrap();
    gif[descriptor + 5..descriptor + 9].copy_from_slice(&[0xff; 4]);
    assert_eq!(make(&gif, "width=10"), Err(TransformError::TooManyPixels));
}

#[test]
fn drops_a_profile_that_decompresses_too_large() {
    let mut bytes = Vec::new();
    let zeros = vec![0; 3 * usize::try_from(DECODER_BYTES).unwrap()];
    write_png(&mut bytes, &quadrants(40, 40), zeros);
    assert!(bytes.len() < 1_000_000);
    // The decoder drops the chunk or fails.
    match make(&bytes, "width=20") {
        Ok(variant) => assert!(variant.bytes.len() < 10_000),
        Err(error) => assert_eq!(error, TransformError::TooManyPixels),
    }
}

#[test]
fn rejects_non_images() {
    let unsupported = Err(TransformError::Unsupported);
    for source in [
        b"".as_slice(),
        b"hello",
        b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"GIF89a",
        b"RIFF\x04\0\0\0WEBP",
        b"\0\0\x01\0\0\0",
        b"II*\0\xff\xff\xff\xff",
        b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf",
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
    ] {
        assert_eq!(make(source, "width=10"), unsupported, "{source:?}");
    }
}

#[test]
fn damaged_image_is_rejected_or_partly_shown() {
    for format in [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::Gif,
        ImageFormat::WebP,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
        ImageFormat::Ico,
    ] {
        let image = noise(64, 64);
        let image = if format == ImageFormat::Ico { image.to_rgba8().into() } else { image };
        let whole = stored(&image, format);
        for tenths in 0..10 {
            let cut = &whole[..whole.len() * tenths / 10];
            let found = make(cut, "width=10");
            if format == ImageFormat::WebP || tenths == 0 {
                assert_eq!(found.err(), Some(TransformError::Unsupported), "{format:?} {tenths}");
            }
        }
        for at in (0..whole.len().min(600)).step_by(7) {
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            let _any = make(&broken, "width=10");
        }
    }
}

#[test]
fn truncated_image_shows_the_available_rows() {
    let grain = noise(200, 200).to_rgb8();
    let coloured = quadrants(200, 200).to_rgb8();
    let image = RgbImage::from_fn(200, 200, |x, y| {
        let (colour, grain) = (coloured.get_pixel(x, y).0, grain.get_pixel(x, y).0);
        Rgb([0, 1, 2].map(|at: usize| colour[at].saturating_sub(grain[at] % 16)))
    });
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::Bmp] {
        let whole = stored(&image.clone().into(), format);
        // BMP stores rows bottom-up.
        let expected = if format == ImageFormat::Bmp { [BLUE, WHITE] } else { [RED, GREEN] };
        let cut = &whole[..whole.len() * 7 / 10];
        assert_eq!(make(cut, "width=100").err(), None, "{format:?}");
        let (_, shown) = seen(cut, "width=100");
        let y = if format == ImageFormat::Bmp { 0.9 } else { 0.1 };
        assert_eq!([colour(&shown, 0.1, y), colour(&shown, 0.9, y)], expected, "{format:?}");
    }
    let scans = progressive(20, 20, |_, y| if y < 10 { 20 } else { 230 });
    for part in [60, 80] {
        let (_, shown) = seen(&scans[..scans.len() * part / 100], "width=20");
        assert!(shown.to_luma8().get_pixel(10, 1).0[0] < 30, "{part}");
    }
}

#[test]
fn ignores_png_checksums() {
    let source = png(&quadrants(64, 64));
    let expected = make(&source, "width=32").unwrap();
    // Checksums of the header, the compressed stream, and the chunk.
    let end = source.windows(4).position(|name| name == b"IEND").unwrap() - 4;
    for at in [29, 32, end - 8, end - 4, end - 1, source.len() - 1] {
        let mut damaged = source.clone();
        damaged[at] ^= 0xff;
        assert_eq!(make(&damaged, "width=32").as_ref(), Ok(&expected), "{at}");
    }
}

#[test]
fn falls_back_when_webp_is_too_small() {
    // WebP is limited to 16,383 pixels per side.
    let strip = png(&DynamicImage::from(RgbImage::from_pixel(17_000, 2, Rgb(RED))));
    assert_eq!(seen(&strip, "format=webp").0, Output::Png);
    assert_eq!(seen(&strip, "format=webp&width=1000").0, Output::WebP);
}
