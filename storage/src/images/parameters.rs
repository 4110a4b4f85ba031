//! Parameters of an image transformation, from a query or the token of a signed URL (storage.md §3.12,
//! §3.14).

use std::fmt::Write as _;

use crate::error::StorageError;
use crate::json_body::Fields;

/// How the image is fitted into the requested size. The names are the API's; [`Resize::processor_name`] is
/// the name in `x-transformations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resize {
    /// Covers the box; the rest is cropped.
    Cover,
    /// Fits within the box.
    Contain,
    /// Stretches to the box.
    Fill,
}

impl Resize {
    const NAMES: [(&'static str, Self); 3] =
        [("cover", Self::Cover), ("contain", Self::Contain), ("fill", Self::Fill)];

    const fn processor_name(self) -> &'static str {
        match self {
            Self::Cover => "fill",
            Self::Contain => "fit",
            Self::Fill => "force",
        }
    }
}

/// Requested output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The source's format.
    Origin,
    WebP,
    /// AVIF. WebP is written instead, which every client of AVIF supports (decision 0060).
    Avif,
}

impl Format {
    const NAMES: [(&'static str, Self); 3] =
        [("origin", Self::Origin), ("webp", Self::WebP), ("avif", Self::Avif)];
}

/// Which part of the image is kept when [`Resize::Cover`] crops: a point with coordinates from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    /// Fraction of the cropped area on the near side: 0 keeps the first edge, 1 the last.
    Edge(f64, f64),
    /// Keeps this point as close to the centre as the image's edges allow.
    Focus(f64, f64),
}

/// Names of [`Anchor::Edge`]. `sm` ("smart") requests the most relevant part, which is not supported: the
/// centre is used.
const EDGES: [(&str, f64, f64); 10] = [
    ("no", 0.5, 0.0),
    ("so", 0.5, 1.0),
    ("ea", 1.0, 0.5),
    ("we", 0.0, 0.5),
    ("noea", 1.0, 0.0),
    ("nowe", 0.0, 0.0),
    ("soea", 1.0, 1.0),
    ("sowe", 0.0, 1.0),
    ("ce", 0.5, 0.5),
    ("sm", 0.5, 0.5),
];
const FOCUS: &str = "fp";

/// Requested parameters; `None` if absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parameters {
    pub(crate) width: Option<u32>,
    pub(crate) height: Option<u32>,
    pub(crate) resize: Option<Resize>,
    /// 20 to 100.
    pub(crate) quality: Option<u8>,
    pub(crate) format: Option<Format>,
    /// The anchor with its name.
    gravity: Option<(&'static str, Anchor)>,
}

impl Parameters {
    /// Parses a query, or the member `transform` of a sign request. Sizes are limited to `max_size`.
    ///
    /// # Errors
    /// A value is invalid; the error has the validator's text.
    pub(crate) fn read(fields: &Fields<'_>, max_size: u32) -> Result<Self, StorageError> {
        let width = size(fields.integer("width", 0..)?, max_size);
        let height = size(fields.integer("height", 0..)?, max_size);
        let names = Resize::NAMES.map(|(name, _)| name);
        let resize = fields.one_of("resize", &names)?.and_then(|name| by_name(&Resize::NAMES, name));
        let quality = fields.integer("quality", 20..=100)?.and_then(|quality| u8::try_from(quality).ok());
        let names = Format::NAMES.map(|(name, _)| name);
        let format = fields.one_of("format", &names)?.and_then(|name| by_name(&Format::NAMES, name));
        let gravity = gravity(fields)?;
        Ok(Self { width, height, resize, quality, format, gravity })
    }

    /// Parses the claim `transformations` of a signed URL's token: `height:200,width:100,resize:contain`.
    /// Unknown parts are ignored, because the token is signed. `resize:undefined`, used when no mode was
    /// requested, means the default mode, which `x-transformations` then includes.
    pub(crate) fn from_token(text: &str, max_size: u32) -> Self {
        let mut parameters = Self::default();
        for (name, value) in text.split(',').filter_map(|part| part.split_once(':')) {
            let number = || value.parse::<i64>().ok().filter(|number| *number >= 0);
            match name {
                "width" => parameters.width = size(number(), max_size),
                "height" => parameters.height = size(number(), max_size),
                "resize" => parameters.resize = by_name(&Resize::NAMES, value).or(Some(Resize::Cover)),
                "format" => parameters.format = by_name(&Format::NAMES, value),
                "quality" => {
                    let allowed = number().filter(|quality| (20..=100).contains(quality));
                    parameters.quality = allowed.and_then(|quality| u8::try_from(quality).ok());
                }
                _ => {}
            }
        }
        parameters
    }

    /// The claim `transformations` that [`Parameters::from_token`] parses. Tokens have no gravity.
    pub(crate) fn to_token(&self) -> String {
        let mut text = Parts::default();
        if let Some(height) = self.height {
            text.add("height", height);
        }
        if let Some(width) = self.width {
            text.add("width", width);
        }
        text.add("resize", self.resize.map_or("undefined", |resize| name_of(&Resize::NAMES, resize)));
        if let Some(quality) = self.quality {
            text.add("quality", quality);
        }
        if let Some(format) = self.format_name() {
            text.add("format", format);
        }
        text.0
    }

    pub(crate) fn format_name(&self) -> Option<&'static str> {
        self.format.map(|format| name_of(&Format::NAMES, format))
    }

    /// The response header `x-transformations`, with the parameter names of upstream's processor.
    pub(crate) fn header(&self) -> String {
        let mut text = Parts::default();
        if let Some(height) = self.height {
            text.add("height", height);
        }
        if let Some(width) = self.width {
            text.add("width", width);
        }
        if let Some(resize) = self.resize {
            text.add("resizing_type", resize.processor_name());
        }
        if let Some(quality) = self.quality {
            text.add("quality", quality);
        }
        if let Some(format @ ("webp" | "avif")) = self.format_name() {
            text.add("format", format);
        }
        if let Some((name, anchor)) = self.gravity {
            text.add("gravity", name);
            if let Anchor::Focus(x, y) = anchor {
                text.add("x_offset", x);
                text.add("y_offset", y);
            }
        }
        text.0
    }

    /// Where the image is cropped.
    pub(crate) fn anchor(&self) -> Anchor {
        self.gravity.map_or(Anchor::Edge(0.5, 0.5), |(_, anchor)| anchor)
    }

    /// Whether WebP is written for a client with this `Accept` header. Otherwise the source's format is kept
    /// if it can be written.
    pub(crate) fn wants_webp(&self, accept: Option<&str>) -> bool {
        match self.format {
            Some(Format::WebP | Format::Avif) => true,
            Some(Format::Origin) => false,
            None => accept.is_some_and(names_webp),
        }
    }
}

/// Builds `name:value,name:value`.
#[derive(Default)]
struct Parts(String);

impl Parts {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _written = write!(self.0, "{comma}{name}:{value}");
    }
}

fn by_name<T: Copy>(names: &[(&'static str, T)], wanted: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], wanted: T) -> &'static str {
    names.iter().find(|(_, value)| *value == wanted).map_or("", |(name, _)| name)
}

/// 0 means absent; limited to `max`.
fn size(number: Option<i64>, max: u32) -> Option<u32> {
    number.filter(|number| *number > 0).map(|number| u32::try_from(number).unwrap_or(max).min(max))
}

fn gravity(fields: &Fields<'_>) -> Result<Option<(&'static str, Anchor)>, StorageError> {
    let mut names = EDGES.map(|(name, ..)| name).to_vec();
    names.push(FOCUS);
    let name = fields.one_of("gravity", &names)?;
    let x = fields.number("x_offset", 0.0..=1.0)?;
    let y = fields.number("y_offset", 0.0..=1.0)?;
    let Some(name) = name else { return Ok(None) };
    if name == FOCUS {
        fields.require(&["x_offset", "y_offset"])?;
        return Ok(Some((FOCUS, Anchor::Focus(x.unwrap_or(0.5), y.unwrap_or(0.5)))));
    }
    Ok(EDGES.iter().find(|(edge, ..)| *edge == name).map(|(edge, x, y)| (*edge, Anchor::Edge(*x, *y))))
}

/// Whether an `Accept` header names WebP. `*/*` and `image/*` do not count: clients that send only these may
/// not support it.
fn names_webp(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().is_some_and(|media| media.eq_ignore_ascii_case("image/webp"))
            && !parts.any(|parameter| {
                parameter.split_once('=').is_some_and(|(name, value)| {
                    name.trim().eq_ignore_ascii_case("q") && value.trim().parse() == Ok(0.0_f32)
                })
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_body::Query;

    fn read(query: &str) -> Result<Parameters, String> {
        Parameters::read(&Query::parse(Some(query)).fields(), 2000)
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn parses_queries() {
        let read = read("width=100&height=0&resize=contain&quality=50&format=avif&gravity=noea&cacheNonce=1")
            .unwrap();
        assert_eq!(
            read,
            Parameters {
                width: Some(100),
                height: None,
                resize: Some(Resize::Contain),
                quality: Some(50),
                format: Some(Format::Avif),
                gravity: Some(("noea", Anchor::Edge(1.0, 0.0))),
            }
        );
        assert_eq!(read.header(), "width:100,resizing_type:fit,quality:50,format:avif,gravity:noea");
    }

    #[test]
    fn limits_sizes_to_the_maximum() {
        let read = read("width=2001&height=99999999999999999999").unwrap();
        assert_eq!((read.width, read.height), (Some(2000), Some(2000)));
    }

    #[test]
    fn focus_point_requires_both_offsets() {
        let found = read("gravity=fp&x_offset=0.25&y_offset=1").unwrap();
        assert_eq!(found.anchor(), Anchor::Focus(0.25, 1.0));
        assert_eq!(found.header(), "gravity:fp,x_offset:0.25,y_offset:1");
        assert_eq!(
            read("gravity=fp&x_offset=0.25").unwrap_err(),
            "querystring must have required property 'y_offset'"
        );
    }

    #[test]
    fn invalid_values_report_validator_texts() {
        for (query, text) in [
            ("width=wide", "querystring/width must be integer"),
            ("width=1.5", "querystring/width must be integer"),
            ("width=", "querystring/width must be integer"),
            ("height=-1", "querystring/height must be >= 0"),
            ("quality=19", "querystring/quality must be >= 20"),
            ("quality=101", "querystring/quality must be <= 100"),
            ("resize=Cover", "querystring/resize must be equal to one of the allowed values"),
            ("format=png", "querystring/format must be equal to one of the allowed values"),
            ("gravity=north", "querystring/gravity must be equal to one of the allowed values"),
            ("x_offset=2", "querystring/x_offset must be <= 1"),
        ] {
            assert_eq!(read(query).unwrap_err(), text, "{query}");
        }
    }

    #[test]
    fn tokens_round_trip() {
        for (query, token) in [
            (
                "width=100&height=200&resize=contain&quality=50&format=webp",
                "height:200,width:100,resize:contain,quality:50,format:webp",
            ),
            ("width=5000", "width:2000,resize:undefined"),
            ("format=origin", "resize:undefined,format:origin"),
        ] {
            let mut parameters = read(query).unwrap();
            assert_eq!(parameters.to_token(), token);
            parameters.resize.get_or_insert(Resize::Cover);
            assert_eq!(Parameters::from_token(token, 2000), parameters);
        }
    }

    #[test]
    fn ignores_unknown_parts_of_a_token() {
        let odd = "width:9000,height:-3,quality:7,resize:crop,format:,nothing,,a:b:c";
        let cover = Some(Resize::Cover);
        let expected = Parameters { width: Some(2000), resize: cover, ..Parameters::default() };
        assert_eq!(Parameters::from_token(odd, 2000), expected);
        assert_eq!(Parameters::from_token("width:9000", 2000), Parameters { resize: None, ..expected });
    }

    #[test]
    fn webp_is_sent_only_when_requested_or_accepted() {
        let chrome = "image/avif,image/webp,image/apng,*/*;q=0.8";
        let wants = |query: &str, accept| read(query).unwrap().wants_webp(accept);
        assert!(wants("", Some(chrome)));
        assert!(wants("", Some("text/html, IMAGE/WebP;q=0.5")));
        assert!(!wants("", Some("image/webp;q=0, */*")));
        assert!(!wants("", Some("*/*")));
        assert!(!wants("", None));
        assert!(!wants("format=origin", Some(chrome)));
        assert!(wants("format=webp", None) && wants("format=avif", None));
    }
}
