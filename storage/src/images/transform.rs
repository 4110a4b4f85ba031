//! From the bytes of an image to the bytes of its variant. Pure, and long: callers run it on a thread of its own.
//!
//! Memory: the source, then its pixels (see [`super::decode`]), then beside them what the first direction of the resize
//! leaves, which is small.

use fast_image_resize::{MulDiv, ResizeOptions, Resizer};
use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::metadata::Orientation;
use image::{DynamicImage, ImageEncoder, ImageFormat};
use webpx::Unstoppable;

use super::decode::{self, Decoded, Head};
use super::geometry::{Area, Plan, is_lying};
use super::parameters::Parameters;

/// What can be done to an image in upstream's default quality.
const QUALITY: u8 = 80;
/// Longest side of a WebP image.
const WEBP_MAX_SIDE: u32 = 16_383;
/// Why there is no variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransformError {
    /// Not an image, broken, or of a format that we cannot read.
    #[error("The source image is invalid or unsupported for rendering")]
    Unsupported,
    /// More pixels than the configuration allows, or more memory than that many take.
    #[error("The source image has too many pixels for rendering")]
    TooManyPixels,
    /// It was decoded and cannot be made in the requested size and format.
    #[error("The source image is invalid or unsupported for rendering")]
    NotMade,
}

impl TransformError {
    /// Whether every variant of the source fails.
    pub(crate) const fn is_of_source(self) -> bool {
        matches!(self, Self::Unsupported | Self::TooManyPixels)
    }
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
    mut source: Vec<u8>,
    wanted: &Parameters,
    wants_webp: bool,
    max_pixels: u64,
) -> Result<Variant, TransformError> {
    let format = decode::format_of(&mut source)?;
    let head = Head::read(&source, format, max_pixels)?;
    if wanted.width.is_none()
        && wanted.height.is_none()
        && let Some(format) = head.animation()
    {
        drop(head);
        return Ok(Variant { format, bytes: source });
    }
    let Decoded { image, orientation, profile } = head.decode()?;
    drop(source);
    let mut image = resize(image, wanted, orientation)?;
    image.apply_orientation(orientation);
    let format = output(format, wants_webp, &image);
    let bytes = encode(&image, format, wanted.quality.unwrap_or(QUALITY), profile)?;
    Ok(Variant { format, bytes })
}

fn resize(
    mut source: DynamicImage,
    wanted: &Parameters,
    orientation: Orientation,
) -> Result<DynamicImage, TransformError> {
    let (width, height) = (source.width(), source.height());
    let seen = if is_lying(orientation) { (height, width) } else { (width, height) };
    let plan = Plan::new(seen, wanted).before(orientation, seen);
    if (plan.width, plan.height) == (width, height) {
        return Ok(source);
    }
    let has_alpha = source.color().has_alpha();
    if has_alpha {
        // In place: the resizer would make a copy of the whole source.
        MulDiv::new().multiply_alpha_inplace(&mut source).map_err(|_| TransformError::NotMade)?;
    }
    // One direction after the other, and first the one that leaves less: of a long strip, the resizer alone would keep
    // as much as the source takes.
    let Area { left, top, width: across, height: down } = plan.part;
    let is_down_first = u64::from(width) * u64::from(plan.height) < u64::from(plan.width) * u64::from(height);
    let (between, first, second) = if is_down_first {
        let first = Area { left: 0.0, top, width: f64::from(width), height: down };
        ((width, plan.height), first, Area { left, top: 0.0, width: across, height: f64::from(plan.height) })
    } else {
        let first = Area { left, top: 0.0, width: across, height: f64::from(height) };
        ((plan.width, height), first, Area { left: 0.0, top, width: f64::from(plan.width), height: down })
    };
    let between = resize_part(&source, first, between)?;
    drop(source);
    let mut smaller = resize_part(&between, second, (plan.width, plan.height))?;
    if has_alpha {
        MulDiv::new().divide_alpha_inplace(&mut smaller).map_err(|_| TransformError::NotMade)?;
    }
    Ok(smaller)
}

/// A part of an image, whose alpha was multiplied already, in another size.
fn resize_part(
    source: &DynamicImage,
    part: Area,
    (width, height): (u32, u32),
) -> Result<DynamicImage, TransformError> {
    let options = ResizeOptions::new().crop(part.left, part.top, part.width, part.height).use_alpha(false);
    let mut resized = DynamicImage::new(width, height, source.color());
    Resizer::new().resize(source, &mut resized, &options).map_err(|_| TransformError::NotMade)?;
    Ok(resized)
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
    written.map_err(|_| TransformError::NotMade)?;
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
    encoder.encode(Unstoppable).map_err(|_| TransformError::NotMade)
}

#[cfg(test)]
mod tests;
