//! Figures as pixels, from the same SVG.
//!
//! The letters come from the DejaVu fonts that are compiled in (their licence permits it), so that
//! a figure looks the same on a machine that has no fonts.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

/// The first that figures ask for.
const FAMILY: &str = "DejaVu Sans";
/// Pixels for each unit of the SVG.
const SCALE: f32 = 1.5;

/// A PNG of the figure.
pub fn render(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let options =
        Options { font_family: FAMILY.into(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| format!("the figure: {error}"))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the figure has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the figure is too large")?;
    let scale = Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| format!("the figure as PNG: {error}"))
}
