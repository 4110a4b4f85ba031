//! Resizes images of eight bits for each sample.

use fast_image_resize::pixels::{U8, U8x2, U8x3, U8x4};
use fast_image_resize::{
    IntoImageView as _, IntoImageViewMut as _, MulDiv, PixelTrait, ResizeOptions, Resizer,
};
use image::DynamicImage;

use crate::TransformError;

/// A part of an image, in pixels and fractions of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Distance from the left edge.
    pub left: f64,
    /// Distance from the top edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Multiplies the colours by the alpha, in place: the resizer would copy the whole source to do it.
///
/// # Errors
/// The image has no alpha.
pub fn multiply_alpha(image: &mut DynamicImage) -> Result<(), TransformError> {
    MulDiv::new().multiply_alpha_inplace(image).map_err(|_| TransformError::NotMade)
}

/// Reverts [`multiply_alpha`].
///
/// # Errors
/// The image has no alpha.
pub fn divide_alpha(image: &mut DynamicImage) -> Result<(), TransformError> {
    MulDiv::new().divide_alpha_inplace(image).map_err(|_| TransformError::NotMade)
}

/// Resizes a part of an image, whose alpha has been multiplied (see [`multiply_alpha`]), to `width` and `height`.
///
/// # Errors
/// The part does not lie within the image.
pub fn resize_part(
    source: &DynamicImage,
    part: Area,
    (width, height): (u32, u32),
) -> Result<DynamicImage, TransformError> {
    let options = ResizeOptions::new().crop(part.left, part.top, part.width, part.height).use_alpha(false);
    let mut resized = DynamicImage::new(width, height, source.color());
    // `Resizer::resize` would do the same for thirteen pixel types, of which decoding yields these.
    resize_pixels::<U8>(source, &mut resized, &options)
        .or_else(|| resize_pixels::<U8x2>(source, &mut resized, &options))
        .or_else(|| resize_pixels::<U8x3>(source, &mut resized, &options))
        .or_else(|| resize_pixels::<U8x4>(source, &mut resized, &options))
        .ok_or(TransformError::NotMade)?;
    Ok(resized)
}

/// Resizes an image whose pixels are `P`; `None` if they are not.
fn resize_pixels<P: PixelTrait>(
    source: &DynamicImage,
    resized: &mut DynamicImage,
    options: &ResizeOptions,
) -> Option<()> {
    let source = source.image_view::<P>()?;
    let mut resized = resized.image_view_mut::<P>()?;
    Resizer::new().resize_typed(&source, &mut resized, options).ok()
}
