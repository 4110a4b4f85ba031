//! Decoding of image files to pixels with eight bits per sample.
//!
//! Sources are untrusted. The format is detected from the first bytes; size and memory use are computed from
//! the header and checked before anything is decoded. Damaged images are decoded as far as browsers and
//! libvips decode them: checksums are ignored, and a truncated image shows the available part.

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{
    AnimationDecoder as _, ColorType, DynamicImage, GrayAlphaImage, GrayImage, ImageDecoder, ImageFormat,
    ImageReader, Limits, RgbImage, RgbaImage,
};

use crate::TransformError;
use crate::encode::Output;
use crate::png::Png;

/// Maximum size of a colour profile that is kept. Profiles of cameras and phones have some hundred bytes.
const MAX_PROFILE_BYTES: usize = 16 * 1024;
/// Memory allowed per pixel of the largest image: that of RGBA without additional buffers.
const PIXEL_BYTES: u64 = 4;
/// Memory decoders may use in addition to the pixels, for tables, profiles and texts.
pub const DECODER_BYTES: u64 = 32 * 1024 * 1024;
/// End marker of a JPEG.
const JPEG_END: [u8; 2] = [0xff, 0xd9];

/// A decoded image with eight bits per sample.
pub struct Decoded {
    /// The pixels, not rotated yet.
    pub image: DynamicImage,
    /// Rotation to apply for display.
    pub orientation: Orientation,
    /// RGB colour profile.
    pub profile: Option<Vec<u8>>,
}

/// An image whose header has been read and whose size is allowed.
pub struct Head<'a> {
    source: &'a [u8],
    format: ImageFormat,
    max_pixels: u64,
    decoder: Box<dyn ImageDecoder + 'a>,
}

/// Detects the format of a source, and appends the end marker to a truncated JPEG.
///
/// # Errors
/// Not a supported image.
pub fn detect_format(source: &mut Vec<u8>) -> Result<ImageFormat, TransformError> {
    let format = image::guess_format(source).map_err(|_| TransformError::Unsupported)?;
    if format == ImageFormat::Jpeg && !source.ends_with(&JPEG_END) {
        // The decoder rejects a progressive image that is cut off, but shows one that ends early.
        source.extend(JPEG_END);
    }
    Ok(format)
}

impl<'a> Head<'a> {
    /// Reads the header of an image, which may have `max_pixels` and use 4 bytes for each of them.
    ///
    /// # Errors
    /// The header is invalid, or the image is too large.
    pub fn read(source: &'a [u8], format: ImageFormat, max_pixels: u64) -> Result<Self, TransformError> {
        let decoder: Box<dyn ImageDecoder + 'a> = if format == ImageFormat::Png {
            Box::new(Png::new(source, max_allocation(max_pixels))?)
        } else {
            let mut reader = ImageReader::with_format(Cursor::new(source), format);
            reader.limits(limits(max_pixels));
            Box::new(reader.into_decoder().map_err(|error| TransformError::from_decoder(&error))?)
        };
        let (width, height) = decoder.dimensions();
        let pixels = u64::from(width) * u64::from(height);
        let bytes = decoder.total_bytes().saturating_add(working_bytes(source, format, pixels, &*decoder));
        if pixels > max_pixels || bytes > max_pixels.saturating_mul(PIXEL_BYTES) {
            return Err(TransformError::TooManyPixels);
        }
        if pixels == 0 {
            return Err(TransformError::Unsupported);
        }
        Ok(Self { source, format, max_pixels, decoder })
    }

    /// The output format if the image is animated.
    pub fn animation(&self) -> Option<Output> {
        let source = Cursor::new(self.source);
        let (output, is_animated) = if self.format == ImageFormat::Gif {
            let mut decoder = GifDecoder::new(source).ok()?;
            decoder.set_limits(limits(self.max_pixels)).ok()?;
            (Output::Gif, decoder.into_frames().take(2).filter(Result::is_ok).count() > 1)
        } else if self.format == ImageFormat::WebP {
            (Output::WebP, WebPDecoder::new(source).ok()?.has_animation())
        } else if self.format == ImageFormat::Png {
            let decoder = Png::new(self.source, max_allocation(self.max_pixels)).ok()?;
            (Output::Png, decoder.is_animated())
        } else {
            return None;
        };
        is_animated.then_some(output)
    }

    /// Decodes the pixels.
    ///
    /// # Errors
    /// The pixels cannot be decoded.
    pub fn decode(mut self) -> Result<Decoded, TransformError> {
        // Both are optional: an image with damaged metadata is shown without them.
        let orientation = self.decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let profile = self.decoder.icc_profile().ok().flatten().filter(|profile| is_kept(profile));
        let ((width, height), colour) = (self.decoder.dimensions(), self.decoder.color_type());
        let length =
            usize::try_from(self.decoder.total_bytes()).map_err(|_| TransformError::TooManyPixels)?;
        let mut pixels = vec![0; length];
        match self.decoder.read_image_boxed(&mut pixels) {
            Ok(()) => {}
            Err(image::ImageError::Limits(_)) => return Err(TransformError::TooManyPixels),
            // The data ended or was damaged; show what was decoded before.
            Err(_) if pixels.iter().any(|byte| *byte != 0) => {}
            Err(_) => return Err(TransformError::Unsupported),
        }
        let image = to_eight_bits(pixels, colour, width, height).ok_or(TransformError::Unsupported)?;
        Ok(Decoded { image, orientation, profile })
    }
}

/// Maximum allocation of a decoder.
const fn max_allocation(max_pixels: u64) -> u64 {
    max_pixels.saturating_mul(PIXEL_BYTES).saturating_add(DECODER_BYTES)
}

fn limits(max_pixels: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(max_allocation(max_pixels));
    limits
}

/// Keeps RGB profiles only: decoders convert other colour spaces to RGB.
fn is_kept(profile: &[u8]) -> bool {
    profile.len() <= MAX_PROFILE_BYTES && profile.get(16..20) == Some(b"RGB ")
}

/// Memory used in addition to the pixels, while decoding or while converting to eight bits.
fn working_bytes(source: &[u8], format: ImageFormat, pixels: u64, decoder: &dyn ImageDecoder) -> u64 {
    let additional = if format == ImageFormat::Jpeg {
        jpeg_coefficients(source).unwrap_or(pixels.saturating_mul(6))
    } else if matches!(format, ImageFormat::Gif | ImageFormat::WebP) {
        // Frames, and planes of luma and chroma.
        pixels.saturating_mul(PIXEL_BYTES)
    } else if format == ImageFormat::Tiff {
        decoder.total_bytes()
    } else {
        0
    };
    let colour = decoder.color_type();
    let is_deep = colour.bytes_per_pixel() > colour.channel_count();
    let narrowed = if is_deep { pixels.saturating_mul(colour.channel_count().into()) } else { 0 };
    // The decoder's buffers are freed before the conversion.
    additional.max(narrowed)
}

/// Memory for the coefficients a JPEG decoder keeps: those of the complete image if it has several scans, as
/// progressive images do, and none if each block is finished at once. `None` if the header is unusual.
fn jpeg_coefficients(source: &[u8]) -> Option<u64> {
    let mut rest = source.get(2..)?;
    let mut frame: Option<(bool, u8, u64)> = None;
    loop {
        let (marker, after) = match rest {
            [0xff, 0xff, ..] => {
                rest = rest.get(1..)?;
                continue;
            }
            [0xff, marker, after @ ..] => (*marker, after),
            _ => return None,
        };
        let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
        let segment = after.get(2..length)?;
        match marker {
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let is_progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
                frame = Some((is_progressive, *segment.get(5)?, coefficients_of_frame(segment)?));
            }
            0xda => {
                let (is_progressive, components, bytes) = frame?;
                let is_single = !is_progressive && *segment.first()? == components;
                return Some(if is_single { 0 } else { bytes });
            }
            _ => {}
        }
        rest = after.get(length..)?;
    }
}

/// Two bytes per coefficient of every block; a component has as many blocks per unit as its sampling factors
/// say.
fn coefficients_of_frame(frame: &[u8]) -> Option<u64> {
    let [_, height @ .., _, _, _] = frame.first_chunk::<6>()?;
    let height = u64::from(u16::from_be_bytes(*height));
    let width = u64::from(u16::from_be_bytes(*frame.get(3..5)?.first_chunk()?));
    let factors = || {
        let components = frame.get(6..).unwrap_or_default().chunks_exact(3);
        components
            .filter_map(|component| component.get(1))
            .map(|both| (u64::from(both >> 4), u64::from(both & 15)))
    };
    let across = factors().map(|(across, _)| across).max()?.max(1);
    let down = factors().map(|(_, down)| down).max()?.max(1);
    let units = width.div_ceil(8 * across) * height.div_ceil(8 * down);
    let blocks: u64 = factors().map(|(across, down)| across * down).sum();
    Some(units * blocks * 64 * 2)
}

/// Converts to grey or RGB, with or without alpha.
fn to_eight_bits(pixels: Vec<u8>, colour: ColorType, width: u32, height: u32) -> Option<DynamicImage> {
    let bytes = colour.bytes_per_pixel() / colour.channel_count();
    let samples = if bytes == 2 {
        let (samples, _) = pixels.as_chunks::<2>();
        samples.iter().map(|sample| from_u16(u16::from_ne_bytes(*sample))).collect()
    } else if bytes == 4 {
        let (samples, _) = pixels.as_chunks::<4>();
        samples.iter().map(|sample| from_f32(f32::from_ne_bytes(*sample))).collect()
    } else {
        pixels
    };
    Some(match colour.channel_count() {
        1 => GrayImage::from_raw(width, height, samples)?.into(),
        2 => GrayAlphaImage::from_raw(width, height, samples)?.into(),
        3 => RgbImage::from_raw(width, height, samples)?.into(),
        _ => RgbaImage::from_raw(width, height, samples)?.into(),
    })
}

const fn from_u16(sample: u16) -> u8 {
    let [high, _] = sample.to_be_bytes();
    high
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of u8")]
fn from_f32(sample: f32) -> u8 {
    (sample.clamp(0.0, 1.0) * 255.0).round() as u8
}
