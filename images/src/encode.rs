//! Encoding of pixels to image files.

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ImageEncoder};
use webpx::Unstoppable;

use crate::TransformError;

/// Longest side of a WebP image, in pixels.
pub const WEBP_MAX_SIDE: u32 = 16_383;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// JPEG (lossy).
    Jpeg,
    /// PNG (lossless).
    Png,
    /// WebP (lossy).
    WebP,
    /// GIF (256 colours).
    Gif,
}

impl Output {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Jpeg, Self::Png, Self::WebP, Self::Gif];

    /// Media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
        }
    }

    /// File name extension without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::WebP => "webp",
            Self::Gif => "gif",
        }
    }
}

/// Encodes an image. `quality` applies to JPEG and WebP; `profile` is an RGB colour profile, which GIF
/// cannot store.
///
/// # Errors
/// The format cannot represent the image.
pub fn encode(
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
            // Use every tenth pixel to train the palette.
            let mut encoder = GifEncoder::new_with_speed(&mut bytes, 10);
            let rgba = image.to_rgba8();
            encoder.encode(&rgba, rgba.width(), rgba.height(), image::ExtendedColorType::Rgba8)
        }
        Output::WebP => return encode_webp(image, quality, profile.as_deref()),
    };
    written.map_err(|_| TransformError::EncodingFailed)?;
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
    encoder.encode(Unstoppable).map_err(|_| TransformError::EncodingFailed)
}
