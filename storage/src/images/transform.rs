//! From the bytes of an image to the bytes of its variant. Pure, and long: callers run it on a thread of its own.
//!
//! The source is hostile. Its format is what its first bytes say; its size is read from its head and judged before anything
//! is decoded, and decoders allocate no more than the size allows.

use std::io::Cursor;

use fast_image_resize::{ResizeOptions, Resizer};
use image::codecs::gif::{GifDecoder, GifEncoder};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngDecoder, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{
    AnimationDecoder as _, ColorType, DynamicImage, ImageDecoder, ImageEncoder, ImageFormat, ImageReader,
    Limits,
};
use webpx::Unstoppable;

use super::geometry::{Plan, is_lying};
use super::parameters::Parameters;

/// What can be done to an image in upstream's default quality.
const QUALITY: u8 = 80;
/// Longest side of a WebP image.
const WEBP_MAX_SIDE: u32 = 16_383;
/// Longest colour profile that a variant keeps. Those of cameras and phones have some hundred bytes.
const MAX_PROFILE_BYTES: usize = 16 * 1024;
/// Bytes of a decoded pixel, in the formats that are common: sources of deeper ones may have fewer pixels.
const PIXEL_BYTES: u64 = 4;
/// What decoders may take besides the pixels: tables, profiles, texts.
const DECODER_BYTES: u64 = 32 * 1024 * 1024;

/// Why there is no variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransformError {
    /// Not an image, broken, or of a format that we cannot read.
    #[error("The source image is invalid or unsupported for rendering")]
    Unsupported,
    /// More pixels than the configuration allows.
    #[error("The source image has too many pixels for rendering")]
    TooManyPixels,
}

/// The format of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Jpeg,
    Png,
    WebP,
    Gif,
}

impl Output {
    pub(crate) const ALL: [Self; 4] = [Self::Jpeg, Self::Png, Self::WebP, Self::Gif];

    /// Of the answer.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
        }
    }

    /// Of a file.
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::WebP => "webp",
            Self::Gif => "gif",
        }
    }
}

/// An image as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) format: Output,
    pub(crate) bytes: Vec<u8>,
}

/// Makes the variant of `source`, which may have `max_pixels`.
///
/// # Errors
/// The source cannot be read, or is too large.
pub(crate) fn transform(
    source: Vec<u8>,
    wanted: &Parameters,
    wants_webp: bool,
    max_pixels: u64,
) -> Result<Variant, TransformError> {
    let format = image::guess_format(&source).map_err(|_| TransformError::Unsupported)?;
    let mut decoder = open(&source, format, max_pixels)?;
    if wanted.width.is_none()
        && wanted.height.is_none()
        && let Some(format) = animation(&source, format, max_pixels)
    {
        drop(decoder);
        return Ok(Variant { format, bytes: source });
    }
    // Both are hints: an image whose metadata is broken is shown as it is.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let profile = decoder.icc_profile().ok().flatten().filter(|profile| is_kept(profile));
    let decoded = DynamicImage::from_decoder(decoder).map_err(|error| refusal(&error))?;
    drop(source);
    let mut image = resize(eight_bits(decoded), wanted, orientation)?;
    image.apply_orientation(orientation);
    let format = output(format, wants_webp, &image);
    let bytes = encode(&image, format, wanted.quality.unwrap_or(QUALITY), profile)?;
    Ok(Variant { format, bytes })
}

/// A decoder that has read the head of an image, whose size is allowed.
fn open(source: &[u8], format: ImageFormat, max_pixels: u64) -> Result<impl ImageDecoder, TransformError> {
    let most_bytes = max_pixels.saturating_mul(PIXEL_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(source), format);
    reader.limits(limits(max_pixels));
    let decoder = reader.into_decoder().map_err(|error| refusal(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > max_pixels || decoder.total_bytes() > most_bytes {
        return Err(TransformError::TooManyPixels);
    }
    if width == 0 || height == 0 {
        return Err(TransformError::Unsupported);
    }
    Ok(decoder)
}

fn limits(max_pixels: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(max_pixels.saturating_mul(PIXEL_BYTES).saturating_add(DECODER_BYTES));
    limits
}

fn refusal(error: &image::ImageError) -> TransformError {
    if matches!(error, image::ImageError::Limits(_)) {
        TransformError::TooManyPixels
    } else {
        TransformError::Unsupported
    }
}

/// The format of an image that moves: with its size kept, it is served as it is.
fn animation(source: &[u8], format: ImageFormat, max_pixels: u64) -> Option<Output> {
    let source = Cursor::new(source);
    let (output, moves) = if format == ImageFormat::Gif {
        let mut decoder = GifDecoder::new(source).ok()?;
        decoder.set_limits(limits(max_pixels)).ok()?;
        (Output::Gif, decoder.into_frames().take(2).filter(Result::is_ok).count() > 1)
    } else if format == ImageFormat::WebP {
        (Output::WebP, WebPDecoder::new(source).ok()?.has_animation())
    } else if format == ImageFormat::Png {
        (Output::Png, PngDecoder::with_limits(source, limits(max_pixels)).ok()?.is_apng().ok()?)
    } else {
        return None;
    };
    moves.then_some(output)
}

/// Grey or coloured, with or without alpha, in eight bits.
fn eight_bits(image: DynamicImage) -> DynamicImage {
    if matches!(image.color(), ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8) {
        return image;
    }
    if image.color().has_alpha() {
        return DynamicImage::ImageRgba8(image.into_rgba8());
    }
    DynamicImage::ImageRgb8(image.into_rgb8())
}

fn resize(
    source: DynamicImage,
    wanted: &Parameters,
    orientation: Orientation,
) -> Result<DynamicImage, TransformError> {
    let (width, height) = (source.width(), source.height());
    let seen = if is_lying(orientation) { (height, width) } else { (width, height) };
    let plan = Plan::new(seen, wanted).before(orientation, seen);
    if (plan.width, plan.height) == (width, height) {
        return Ok(source);
    }
    let options = ResizeOptions::new().crop(plan.part.left, plan.part.top, plan.part.width, plan.part.height);
    let mut smaller = DynamicImage::new(plan.width, plan.height, source.color());
    Resizer::new().resize(&source, &mut smaller, &options).map_err(|_| TransformError::Unsupported)?;
    Ok(smaller)
}

/// A profile for red, green and blue: decoders turn other colours into these.
fn is_kept(profile: &[u8]) -> bool {
    profile.len() <= MAX_PROFILE_BYTES && profile.get(16..20) == Some(b"RGB ")
}

/// What is written: WebP, else the source's format, unless no browser shows it.
fn output(source: ImageFormat, wants_webp: bool, image: &DynamicImage) -> Output {
    let fits_webp = image.width().max(image.height()) <= WEBP_MAX_SIDE;
    if fits_webp && (wants_webp || source == ImageFormat::WebP) {
        Output::WebP
    } else if source == ImageFormat::Gif {
        Output::Gif
    } else if source == ImageFormat::Png || (source != ImageFormat::Jpeg && image.color().has_alpha()) {
        Output::Png
    } else {
        Output::Jpeg
    }
}

fn encode(
    image: &DynamicImage,
    format: Output,
    quality: u8,
    profile: Option<Vec<u8>>,
) -> Result<Vec<u8>, TransformError> {
    let mut bytes = Vec::new();
    let profile = profile.filter(|_| image.color().has_color());
    let written = match format {
        Output::Jpeg => write(JpegEncoder::new_with_quality(&mut bytes, quality), image, profile),
        Output::Png => {
            let encoder =
                PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive);
            write(encoder, image, profile)
        }
        Output::Gif => {
            // One in ten pixels trains the palette.
            let mut encoder = GifEncoder::new_with_speed(&mut bytes, 10);
            let rgba = image.to_rgba8();
            encoder.encode(&rgba, rgba.width(), rgba.height(), image::ExtendedColorType::Rgba8)
        }
        Output::WebP => return encode_webp(image, quality, profile.as_deref()),
    };
    written.map_err(|_| TransformError::Unsupported)?;
    Ok(bytes)
}

fn write(
    mut encoder: impl ImageEncoder,
    image: &DynamicImage,
    profile: Option<Vec<u8>>,
) -> image::ImageResult<()> {
    if let Some(profile) = profile {
        encoder.set_icc_profile(profile).map_err(image::ImageError::Unsupported)?;
    }
    image.write_with_encoder(encoder)
}

fn encode_webp(image: &DynamicImage, quality: u8, profile: Option<&[u8]>) -> Result<Vec<u8>, TransformError> {
    let (width, height) = (image.width(), image.height());
    let rgb;
    let rgba;
    let encoder = if image.color().has_alpha() {
        rgba = image.to_rgba8();
        webpx::Encoder::new_rgba(&rgba, width, height)
    } else {
        rgb = image.to_rgb8();
        webpx::Encoder::new_rgb(&rgb, width, height)
    };
    let encoder = encoder.quality(f32::from(quality));
    let encoder = match profile {
        Some(profile) => encoder.icc_profile(profile),
        None => encoder,
    };
    encoder.encode(Unstoppable).map_err(|_| TransformError::Unsupported)
}

#[cfg(test)]
mod tests;
