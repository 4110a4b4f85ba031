//! PNG decoding that ignores checksums, as browsers and libvips do. The decoder in `image` verifies them.

use std::io::Cursor;

use image::error::{DecodingError, LimitError, LimitErrorKind};
use image::{ColorType, ImageDecoder, ImageError, ImageFormat, ImageResult};
use png::{DecodeOptions, Decoder, Limits, Reader, Transformations};

use crate::TransformError;

/// A PNG whose header has been read.
pub(crate) struct Png<'a> {
    reader: Reader<Cursor<&'a [u8]>>,
    colour: ColorType,
}

impl<'a> Png<'a> {
    /// Reads the header. The decoder may allocate `max_bytes` in addition to the pixels.
    ///
    /// # Errors
    /// The header is invalid.
    pub(crate) fn new(source: &'a [u8], max_bytes: u64) -> Result<Self, TransformError> {
        let mut options = DecodeOptions::default();
        options.set_ignore_checksums(true);
        options.set_ignore_text_chunk(true);
        let mut decoder = Decoder::new_with_options(Cursor::new(source), options);
        decoder.set_limits(Limits { bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX) });
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        let reader =
            decoder.read_info().map_err(|error| TransformError::from_decoder(&image_error(error)))?;
        let colour = match reader.output_color_type() {
            (png::ColorType::Grayscale, png::BitDepth::Eight) => ColorType::L8,
            (png::ColorType::GrayscaleAlpha, png::BitDepth::Eight) => ColorType::La8,
            (png::ColorType::Rgb, png::BitDepth::Eight) => ColorType::Rgb8,
            (png::ColorType::Rgba, png::BitDepth::Eight) => ColorType::Rgba8,
            // The transformations produce no other types.
            _ => return Err(TransformError::Unsupported),
        };
        Ok(Self { reader, colour })
    }

    /// Whether the image has several frames.
    pub(crate) fn is_animated(&self) -> bool {
        self.reader.info().is_animated()
    }
}

impl ImageDecoder for Png<'_> {
    fn dimensions(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    fn color_type(&self) -> ColorType {
        self.colour
    }

    fn icc_profile(&mut self) -> ImageResult<Option<Vec<u8>>> {
        Ok(self.reader.info().icc_profile.as_deref().map(<[u8]>::to_vec))
    }

    fn exif_metadata(&mut self) -> ImageResult<Option<Vec<u8>>> {
        Ok(self.reader.info().exif_metadata.as_deref().map(<[u8]>::to_vec))
    }

    /// After an error, `pixels` contains the rows decoded so far.
    fn read_image(mut self, pixels: &mut [u8]) -> ImageResult<()> {
        self.reader.next_frame(pixels).map(drop).map_err(image_error)
    }

    fn read_image_boxed(self: Box<Self>, pixels: &mut [u8]) -> ImageResult<()> {
        (*self).read_image(pixels)
    }
}

fn image_error(error: png::DecodingError) -> ImageError {
    if matches!(error, png::DecodingError::LimitsExceeded) {
        return ImageError::Limits(LimitError::from_kind(LimitErrorKind::InsufficientMemory));
    }
    ImageError::Decoding(DecodingError::new(ImageFormat::Png.into(), error))
}
