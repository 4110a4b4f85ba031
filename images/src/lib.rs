#![doc = include_str!("../README.md")]

mod decode;
mod encode;
mod png;
mod resize;

pub use decode::{DECODER_BYTES, Decoded, Head, detect_format};
pub use encode::{Output, WEBP_MAX_SIDE, encode};
pub use resize::{Area, divide_alpha, multiply_alpha, resize_part};

/// Why an image could not be transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// Not an image, damaged, or of an unsupported format.
    #[error("The source image is invalid or unsupported for rendering")]
    Unsupported,
    /// Exceeds the maximum number of pixels, or the memory derived from it.
    #[error("The source image has too many pixels for rendering")]
    TooManyPixels,
    /// Decoded, but cannot be encoded in the requested size and format.
    #[error("The source image is invalid or unsupported for rendering")]
    EncodingFailed,
}

impl TransformError {
    pub(crate) const fn from_decoder(error: &image::ImageError) -> Self {
        if matches!(error, image::ImageError::Limits(_)) { Self::TooManyPixels } else { Self::Unsupported }
    }

    /// Whether every variant of the source fails.
    pub const fn is_of_source(self) -> bool {
        matches!(self, Self::Unsupported | Self::TooManyPixels)
    }
}
