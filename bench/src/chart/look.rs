//! Colours and marks: the same for the same thing in every figure.

use plotters::style::RGBColor;

/// A colour on white, and what takes its place on a dark page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ink {
    /// On white, as 0xRRGGBB.
    pub light: u32,
    /// On a dark ground.
    pub dark: u32,
}

impl Ink {
    const fn new(light: u32, dark: u32) -> Ink {
        Ink { light, dark }
    }

    pub(super) fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// The ground.
pub(super) const PAPER: Ink = Ink::new(0xffffff, 0x16191c);
/// Letters and axes.
pub(super) const TEXT: Ink = Ink::new(0x333333, 0xd4d8dc);
/// The grid.
pub(super) const GRID: Ink = Ink::new(0xdddddd, 0x353b41);
const GUIDE: Ink = Ink::new(0x8a8a8a, 0x939aa1);
const BAND: Ink = Ink::new(0xe9eee6, 0x27312a);

/// The colours of the series.
const SERIES: [Ink; 8] = [
    Ink::new(0x1b7f4d, 0x4cc98a),
    Ink::new(0xd96b0b, 0xff9d4d),
    Ink::new(0x2f5fb3, 0x7fb0ff),
    Ink::new(0xa02c5a, 0xf283b0),
    Ink::new(0x807010, 0xd8c54a),
    Ink::new(0x12808f, 0x4fcbdc),
    Ink::new(0x7a4fc0, 0xb99aff),
    Ink::new(0x505050, 0xb4b9be),
];

/// Every colour that is drawn with.
pub const INKS: [Ink; 13] = [
    PAPER, TEXT, GRID, GUIDE, BAND, SERIES[0], SERIES[1], SERIES[2], SERIES[3], SERIES[4],
    SERIES[5], SERIES[6], SERIES[7],
];

/// What stands at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A diamond.
    Diamond,
}

/// The look of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Its colour.
    pub ink: Ink,
    /// Its mark.
    pub mark: Mark,
}

impl Look {
    /// Of what others are compared with.
    pub const GUIDE: Look = Look { ink: GUIDE, mark: Mark::Disc };
    /// Of an area behind everything else.
    pub const BAND: Look = Look { ink: BAND, mark: Mark::Disc };

    /// The look of the `index`-th of several, again and again.
    pub const fn of(index: usize) -> Look {
        const MARKS: [Mark; 4] = [Mark::Disc, Mark::Square, Mark::Triangle, Mark::Diamond];
        Look { ink: SERIES[index % SERIES.len()], mark: MARKS[index % MARKS.len()] }
    }
}

/// CSS rules that give whatever has the class `plot` its dark colours.
pub fn dark_theme() -> String {
    let rule = |Ink { light, dark }: Ink| {
        format!(
            ".plot [fill=\"#{light:06X}\"]{{fill:#{dark:06x}}}\
             .plot [stroke=\"#{light:06X}\"]{{stroke:#{dark:06x}}}\n"
        )
    };
    INKS.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG has it.
    fn luminance(color: u32) -> f64 {
        let [_, red, green, blue] = color.to_be_bytes();
        let linear = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn lines_and_letters_stand_out_on_both_grounds() {
        for ink in SERIES.into_iter().chain([TEXT, GUIDE]) {
            let least = if ink == TEXT { 7.0 } else { 3.0 };
            assert!(contrast(ink.light, PAPER.light) >= least, "{ink:x?} on white");
            assert!(contrast(ink.dark, PAPER.dark) >= least, "{ink:x?} on dark");
        }
    }

    #[test]
    fn no_colour_is_used_twice() {
        let mut colors = INKS.map(|ink| ink.light).to_vec();
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), INKS.len());
        assert_eq!(dark_theme().matches("stroke:").count(), INKS.len());
    }
}
