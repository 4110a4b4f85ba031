//! Resizing of images with eight bits per sample.

use fast_image_resize::pixels::{U8, U8x2, U8x3, U8x4};
use fast_image_resize::{
    IntoImageView as _, IntoImageViewMut as _, MulDiv, PixelTrait, ResizeOptions, Resizer,
};
use image::DynamicImage;

use crate::TransformError;

/// An area of an image, in (fractional) pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Distance from the left edge.
    pub left: f64,
    /// Distance from the top edge.
    pub top: f64,
    /// Horizontal extent.
    pub width: f64,
    /// Vertical extent.
    pub height: f64,
}

/// Premultiplies the colours with alpha, in place: the resizer would copy the complete image.
///
/// # Errors
/// The image has no alpha channel.
pub fn multiply_alpha(image: &mut DynamicImage) -> Result<(), TransformError> {
    MulDiv::new().multiply_alpha_inplace(image).map_err(|_| TransformError::EncodingFailed)
}

/// Reverts [`multiply_alpha`].
///
/// # Errors
/// The image has no alpha channel.
pub fn divide_alpha(image: &mut DynamicImage) -> Result<(), TransformError> {
    MulDiv::new().divide_alpha_inplace(image).map_err(|_| TransformError::EncodingFailed)
}

/// Scales an area of an image to the given width and height. Colours must be premultiplied (see
/// [`multiply_alpha`]).
///
/// # Errors
/// The area does not lie within the image.
pub fn resize_part(
    source: &DynamicImage,
    part: Area,
    (width, height): (u32, u32),
) -> Result<DynamicImage, TransformError> {
    let options = ResizeOptions::new().crop(part.left, part.top, part.width, part.height).use_alpha(false);
    let mut resized = DynamicImage::new(width, height, source.color());
    // `Resizer::resize` supports thirteen pixel types; decoding produces only these four, which keeps the
    // binary smaller.
    resize_pixels::<U8>(source, &mut resized, &options)
        .or_else(|| resize_pixels::<U8x2>(source, &mut resized, &options))
        .or_else(|| resize_pixels::<U8x3>(source, &mut resized, &options))
        .or_else(|| resize_pixels::<U8x4>(source, &mut resized, &options))
        .ok_or(TransformError::EncodingFailed)?;
    Ok(resized)
}

/// Resizes an image with pixels of type `P`; `None` if it has another type.
fn resize_pixels<P: PixelTrait>(
    source: &DynamicImage,
    resized: &mut DynamicImage,
    options: &ResizeOptions,
) -> Option<()> {
    let source = source.image_view::<P>()?;
    let mut resized = resized.image_view_mut::<P>()?;
    Resizer::new().resize_typed(&source, &mut resized, options).ok()
}
