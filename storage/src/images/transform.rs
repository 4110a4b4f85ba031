//! Transforms image bytes to the bytes of a variant. Pure and CPU-bound; callers run it on a separate
//! thread.
//!
//! Peak memory: the source file, then its pixels (see [`basalt_images`]), then additionally the small
//! intermediate image of the first resize pass.

use basalt_images::{
    Area, Decoded, Head, Output, TransformError, WEBP_MAX_SIDE, detect_format, divide_alpha, encode,
    multiply_alpha, resize_part,
};
use image::metadata::Orientation;
use image::{DynamicImage, ImageFormat};

use super::geometry::{Plan, swaps_axes};
use super::parameters::Parameters;

/// Upstream's default quality.
const QUALITY: u8 = 80;

/// An encoded variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) format: Output,
    pub(crate) bytes: Vec<u8>,
}

/// Renders a variant of `source`, which may have at most `max_pixels`.
///
/// # Errors
/// The source cannot be decoded, or is too large.
pub(crate) fn transform(
    mut source: Vec<u8>,
    wanted: &Parameters,
    wants_webp: bool,
    max_pixels: u64,
) -> Result<Variant, TransformError> {
    let format = detect_format(&mut source)?;
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
    let displayed = if swaps_axes(orientation) { (height, width) } else { (width, height) };
    let plan = Plan::new(displayed, wanted).in_stored_coordinates(orientation, displayed);
    if (plan.width, plan.height) == (width, height) {
        return Ok(source);
    }
    let has_alpha = source.color().has_alpha();
    if has_alpha {
        // In place: the resizer would copy the complete source.
        multiply_alpha(&mut source)?;
    }
    // Resize one axis at a time, starting with the one that leaves fewer pixels: for a long strip the
    // resizer alone would need as much memory as the source.
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
        divide_alpha(&mut smaller)?;
    }
    Ok(smaller)
}

/// Output format: WebP if accepted, otherwise the source's format unless browsers cannot display it.
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

#[cfg(test)]
mod tests;
