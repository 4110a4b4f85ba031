//! Random values as text, with a fixed seed.

use std::fmt::Write;

/// A seeded generator.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Any text without NUL, with many characters that JSON and arrays escape.
    pub(super) fn text(&mut self) -> String {
        let length = self.below(24);
        (0..length)
            .map(|_| match self.below(6) {
                0 => char::from(u8::try_from(1 + self.below(0x1f)).unwrap()),
                1 => char::from(
                    *self.one_of(&[&b'"', &b'\\', &b',', &b'{', &b'}', &b' ', &b'\x7f', &b'\'', &b'/']),
                ),
                2 => *self.one_of(&[
                    &'é',
                    &'\u{80}',
                    &'\u{2028}',
                    &'😀',
                    &'\u{10ffff}',
                    &'\u{feff}',
                    &'ß',
                    &'日',
                ]),
                _ => char::from(u8::try_from(0x20 + self.below(0x5f)).unwrap()),
            })
            .collect()
    }

    pub(super) fn digits(&mut self, count: u64) -> String {
        (0..count).map(|_| char::from(u8::try_from(0x30 + self.below(10)).unwrap())).collect()
    }

    pub(super) fn sign(&mut self) -> &'static str {
        self.one_of(&["", "-"])
    }

    pub(super) fn float(&mut self) -> String {
        let float = match self.below(3) {
            0 => f64::from_bits(self.next()),
            1 => f64::from(f32::from_bits(u32::try_from(self.next() >> 32).unwrap())),
            _ => return format!("{}{}.{}", self.sign(), self.below(100_000), self.below(1000)),
        };
        float.to_string().replace("inf", "Infinity")
    }

    /// Within the range of `real`.
    pub(super) fn small_float(&mut self) -> String {
        let float = f32::from_bits(u32::try_from(self.next() >> 32).unwrap());
        if float.is_normal() || float.is_infinite() {
            float.to_string().replace("inf", "Infinity")
        } else {
            "NaN".into()
        }
    }

    pub(super) fn date(&mut self, last: u64) -> String {
        let (year, era) = match self.below(4) {
            0 => (1 + self.below(last), ""),
            1 => (1 + self.below(4700), " BC"),
            2 => (1 + self.below(999), ""),
            _ => (1900 + self.below(200), ""),
        };
        format!("{year:04}-{:02}-{:02}{era}", 1 + self.below(12), 1 + self.below(28))
    }

    pub(super) fn clock(&mut self) -> String {
        let (hour, minute, second) = (self.below(24), self.below(60), self.below(60));
        let count = self.below(7);
        let fraction = self.digits(count);
        let dot = if fraction.is_empty() { "" } else { "." };
        format!("{hour:02}:{minute:02}:{second:02}{dot}{fraction}")
    }

    pub(super) fn timestamp(&mut self, zone: bool) -> String {
        let date = self.date(294_000);
        let (date, era) = date.split_once(' ').unwrap_or((&date, ""));
        let zone = if zone { self.one_of(&["+00", "-03:30", "+12:45", "+05:53:28"]) } else { "" };
        format!("{date} {}{zone} {era}", self.clock())
    }

    pub(super) fn interval(&mut self) -> String {
        let mut text = String::new();
        for unit in ["years", "mons", "days", "hours", "mins"] {
            if self.below(2) == 0 {
                write!(text, "{}{} {unit} ", self.sign(), self.below(500)).unwrap();
            }
        }
        let count = 1 + self.below(6);
        format!("{text}{}{}.{} secs", self.sign(), self.below(90), self.digits(count))
    }

    pub(super) fn bits(&mut self, count: u64) -> String {
        (0..count).map(|_| self.one_of(&["0", "1"])).collect()
    }

    pub(super) fn point(&mut self) -> String {
        format!("({},{})", self.float(), self.float())
    }

    pub(super) fn points(&mut self) -> String {
        let points: Vec<String> = (0..1 + self.below(4)).map(|_| self.point()).collect();
        points.join(",")
    }

    pub(super) fn range(&mut self, mut bound: impl FnMut(&mut Self) -> String) -> String {
        let (low, high) = (bound(self), bound(self));
        match self.below(5) {
            0 => format!("(,{high}]"),
            1 => format!("[{low},)"),
            2 => "empty".to_owned(),
            _ => format!("[{low},{low}]"),
        }
    }
}
