//! Computes which part of an image becomes the variant, and its size. Pure; never enlarges.

use basalt_images::Area;
use image::metadata::Orientation;

use super::parameters::{Anchor, Parameters, Resize};

/// The source area to use, and the size to scale it to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub(super) part: Area,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Plan {
    /// Plans for an image of this displayed size, after applying its orientation.
    pub(super) fn new((width, height): (u32, u32), wanted: &Parameters) -> Self {
        let (w, h) = (f64::from(width), f64::from(height));
        let full = Area { left: 0.0, top: 0.0, width: w, height: h };
        let ratios = (
            wanted.width.map(|wanted| f64::from(wanted) / w),
            wanted.height.map(|wanted| f64::from(wanted) / h),
        );
        let scaled = |scale: f64| {
            let scale = scale.min(1.0);
            Self { part: full, width: pixels(w * scale), height: pixels(h * scale) }
        };
        let (across, down) = match ratios {
            (None, None) => return scaled(1.0),
            // Keep the aspect ratio.
            (Some(scale), None) | (None, Some(scale)) => return scaled(scale),
            (Some(across), Some(down)) => (across, down),
        };
        match wanted.resize.unwrap_or(Resize::Cover) {
            Resize::Contain => scaled(across.min(down)),
            Resize::Fill => {
                Self { part: full, width: pixels(w * across.min(1.0)), height: pixels(h * down.min(1.0)) }
            }
            Resize::Cover => {
                let scale = across.max(down).min(1.0);
                // An image smaller than the box is cropped, not scaled.
                let (part_width, part_height) = ((w * across / scale).min(w), (h * down / scale).min(h));
                let (left, top) = match wanted.anchor() {
                    Anchor::Edge(x, y) => ((w - part_width) * x, (h - part_height) * y),
                    Anchor::Focus(x, y) => (
                        (w * x - part_width / 2.0).clamp(0.0, w - part_width),
                        (h * y - part_height / 2.0).clamp(0.0, h - part_height),
                    ),
                };
                Self {
                    part: Area { left, top, width: part_width, height: part_height },
                    width: pixels(part_width * scale),
                    height: pixels(part_height * scale),
                }
            }
        }
    }

    /// The same plan in coordinates of the stored image, so that only the small result has to be rotated.
    pub(super) fn in_stored_coordinates(self, orientation: Orientation, (width, height): (u32, u32)) -> Self {
        let Area { left, top, width: w, height: h } = self.part;
        // Distances to the opposite edges, for rotated or mirrored images.
        let (right, bottom) = (f64::from(width) - left - w, f64::from(height) - top - h);
        let upright = |left, top| Self { part: Area { left, top, width: w, height: h }, ..self };
        let rotated = |left, top| Self {
            part: Area { left, top, width: h, height: w },
            width: self.height,
            height: self.width,
        };
        match orientation {
            Orientation::NoTransforms => self,
            Orientation::FlipHorizontal => upright(right, top),
            Orientation::FlipVertical => upright(left, bottom),
            Orientation::Rotate180 => upright(right, bottom),
            Orientation::Rotate90 => rotated(top, right),
            Orientation::Rotate270 => rotated(bottom, left),
            Orientation::Rotate90FlipH => rotated(top, left),
            Orientation::Rotate270FlipH => rotated(bottom, right),
        }
    }
}

/// Whether the orientation swaps width and height.
pub(super) const fn swaps_axes(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// Rounds to pixels, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the source's size")]
fn pixels(size: f64) -> u32 {
    size.round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_body::Query;

    fn plan(source: (u32, u32), query: &str) -> Plan {
        let wanted = Parameters::read(&Query::parse(Some(query)).fields(), 2000).unwrap();
        Plan::new(source, &wanted)
    }

    #[test]
    fn computes_output_sizes() {
        for (source, query, expected) in [
            ((400, 200), "", (400, 200)),
            ((400, 200), "width=100", (100, 50)),
            ((400, 200), "height=100", (200, 100)),
            ((400, 200), "width=100&resize=fill", (100, 50)),
            ((400, 200), "width=100&height=100", (100, 100)),
            ((400, 200), "width=100&height=100&resize=contain", (100, 50)),
            ((400, 200), "width=100&height=100&resize=fill", (100, 100)),
            // Nothing is enlarged.
            ((400, 200), "width=1000", (400, 200)),
            ((400, 200), "width=1000&height=1000&resize=contain", (400, 200)),
            ((400, 200), "width=1000&height=1000&resize=fill", (400, 200)),
            ((400, 200), "width=100&height=1000&resize=fill", (100, 200)),
            ((400, 200), "width=1000&height=1000", (400, 200)),
            ((400, 200), "width=100&height=300", (100, 200)),
            // No dimension becomes 0.
            ((4000, 1), "width=10", (10, 1)),
            ((3, 1000), "width=1&height=1", (1, 1)),
        ] {
            let plan = plan(source, query);
            assert_eq!((plan.width, plan.height), expected, "{source:?} {query}");
        }
    }

    #[test]
    fn cover_crops_at_the_anchor() {
        for (query, left, top) in [
            ("", 100.0, 0.0),
            ("gravity=we", 0.0, 0.0),
            ("gravity=ea", 200.0, 0.0),
            ("gravity=fp&x_offset=0.3&y_offset=0", 20.0, 0.0),
            ("gravity=fp&x_offset=0.1&y_offset=1", 0.0, 0.0),
            ("gravity=fp&x_offset=1&y_offset=1", 200.0, 0.0),
        ] {
            let Plan { part, .. } = plan((400, 200), &format!("width=100&height=100&{query}"));
            assert_eq!(part, Area { left, top, width: 200.0, height: 200.0 }, "{query}");
        }
    }
}
