//! `cargo xtask report`: measures (in a short run next to nothing), draws the report from it and from what
//! was measured inside a kernel (`linux/results`), and opens the page in headless Chromium as a reader would: in both themes, on a desk and on a phone. The
//! README's gallery must be what is drawn from the data beside it.
//!
//! The page has no script. A copy of it gets one ([`PROBE`]), which looks at what the browser made of
//! it and writes what is wrong into an attribute; Chromium prints the document, and the attribute is
//! read from there. The screenshots are of the page itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::{Length, Outcome};
use crate::shell::{capture_both, cargo, root, succeeds};

/// Looks at every figure, and at the width of the page.
const PROBE: &str = include_str!("report_probe.html");

/// The sections that must be there, each with a figure or a table.
const SECTIONS: [&str; 35] = [
    "claims",
    "floor",
    "figure-5",
    "figure-6",
    "figure-7",
    "figure-8",
    "figure-9",
    "nbbs-table-1",
    "nbbs-sizes",
    "figure-10",
    "table-1",
    "recovery",
    "section-5-7",
    "traces",
    "freebsd-figure-6",
    "freebsd-table-1",
    "freebsd-figure-7",
    "freebsd-table-2",
    "freebsd-figure-5",
    "churn",
    "out-of-step",
    "kmem-section-4-1",
    "kmem-figure-7",
    "kmem-figure-9",
    "kmem-tables-2-4",
    "kmem-tables-5-6",
    "kmem-section-5-5",
    "kmem-today",
    "kmem-memory",
    "kmem-preload",
    "kernel-bench-um-orders",
    "kernel-bench-x86-threads",
    "kernel-frag-um-frag",
    "kernel-frag-um-movable-frag",
    "targets",
];

/// What was measured inside a kernel, as `linux/run` leaves it in `linux/results`.
const KERNEL: [&str; 4] = ["bench-um.csv", "bench-x86.csv", "frag-um.csv", "frag-um-movable.csv"];

/// Widths of a window, in pixels.
const WIDTHS: [u32; 2] = [1280, 390];

/// Names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Draws the report and looks at it.
pub fn report(length: Length) -> Result<Outcome, String> {
    let version = |name: &&&str| succeeds(Command::new(name).arg("--version"));
    let Some(browser) = BROWSERS.iter().find(version) else {
        return Outcome::missing(length, "no Chromium is installed".into());
    };
    let folder = root().join("target/report");
    let _ = fs::remove_dir_all(&folder);
    let results = root().join("linux/results");
    let files = KERNEL.map(|name| results.join(name).to_string_lossy().into_owned());
    let kernel = files.iter().flat_map(|file| ["--kernel", file]);
    let form = if length.short { "--smoke" } else { "--quick" };
    woodlot_report(&kernel.chain([form]).collect::<Vec<_>>(), &folder)?;
    gallery(&folder.join("gallery"))?;
    let page = read(&folder.join("index.html"))?;
    is_complete(&page)?;
    let probe = folder.join("probe.html");
    let with_script = page.replace("</body>", &format!("{PROBE}</body>"));
    fs::write(&probe, with_script).map_err(|error| error.to_string())?;
    let mut figures = 0;
    for dark in [false, true] {
        for width in WIDTHS {
            let window = Window { browser, folder: &folder, dark, width };
            let seen = window.look(&probe)?;
            figures = seen.figures;
            window.screenshot(seen.height)?;
        }
    }
    fs::remove_file(&probe).map_err(|error| error.to_string())?;
    let views = 2 * WIDTHS.len();
    Ok(Outcome::Ran(format!(
        "{figures} figures in {views} views, no errors; screenshots in {}",
        folder.display()
    )))
}

/// `woodlot report`, to a folder.
fn woodlot_report(args: &[&str], out: &Path) -> Result<(), String> {
    let out = out.to_string_lossy();
    let run = ["run", "--release", "-p", "woodlot-cli", "--", "report", "--out", &out];
    cargo(run.iter().chain(args), &[])
}

/// The README's gallery is what the program draws from the data beside it.
fn gallery(out: &Path) -> Result<(), String> {
    let committed = root().join("docs/gallery");
    let data = committed.join("report.json");
    woodlot_report(&["--from", &data.to_string_lossy()], out)?;
    let entries = fs::read_dir(&committed).map_err(|error| format!("docs/gallery: {error}"))?;
    let mut figures = 0;
    for entry in entries {
        let name = entry.map_err(|error| format!("docs/gallery: {error}"))?.file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "svg") {
            if read(&committed.join(&name))? != read(&out.join(&name))? {
                let name = name.to_string_lossy();
                return Err(format!(
                    "docs/gallery/{name} is not what woodlot report --from \
                     docs/gallery/report.json draws: copy it from {}",
                    out.display()
                ));
            }
            figures += 1;
        }
    }
    if figures == 0 { Err("docs/gallery has no figure".into()) } else { Ok(()) }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Is every section there, and is nothing fetched from elsewhere?
fn is_complete(page: &str) -> Result<(), String> {
    if let Some(id) = SECTIONS.iter().find(|id| !page.contains(&format!("<section id=\"{id}\""))) {
        return Err(format!("the page has no section {id}"));
    }
    for outside in ["<script", "<link", "<img", "<iframe", "@import", "url(", " src="] {
        if page.contains(outside) {
            return Err(format!("the page is not self-contained: it has {outside}"));
        }
    }
    Ok(())
}

/// A browser's window.
struct Window<'a> {
    browser: &'a str,
    folder: &'a Path,
    dark: bool,
    width: u32,
}

/// What the probe says.
struct Seen {
    figures: u32,
    height: u32,
}

impl Window<'_> {
    fn name(&self) -> String {
        format!("{}-{}", if self.dark { "dark" } else { "light" }, self.width)
    }

    /// The browser, with this window.
    fn open(&self, height: u32) -> Command {
        let mut command = Command::new(self.browser);
        // There is no sandbox for root, and nothing but our own page to keep in one.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--enable-logging=stderr", "--disable-dev-shm-usage", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", self.folder.join("browser").display()));
        command.arg(format!("--window-size={},{height}", self.width));
        let scheme = u8::from(!self.dark);
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command
    }

    /// What the probe finds in this window.
    fn look(&self, probe: &Path) -> Result<Seen, String> {
        let mut command = self.open(2000);
        command.arg("--dump-dom").arg(format!("file://{}", probe.display()));
        let (document, log) = capture_both(&mut command)?;
        if let Some(error) = log.lines().find(|line| is_console_error(line)) {
            return Err(format!("{}: {error}", self.name()));
        }
        let seen =
            seen(&document).ok_or_else(|| format!("{}: the probe did not run", self.name()))?;
        let theme = if self.dark { "dark" } else { "light" };
        judge(&seen, theme).map_err(|why| format!("{}: {why}", self.name()))
    }

    /// The whole page as a picture.
    fn screenshot(&self, height: u32) -> Result<(), String> {
        let picture: PathBuf = self.folder.join(format!("{}.png", self.name()));
        let mut command = self.open(height);
        command.arg(format!("--screenshot={}", picture.display()));
        command.arg(format!("file://{}", self.folder.join("index.html").display()));
        // What it says beside the picture is about the system, not about the page.
        capture_both(&mut command)?;
        fs::metadata(&picture).map(drop).map_err(|error| format!("{}: {error}", picture.display()))
    }
}

/// A line of Chromium's log that the page itself caused: `[…:ERROR:CONSOLE(1)] …`.
fn is_console_error(line: &str) -> bool {
    line.contains("CONSOLE") && !line.contains(":INFO:CONSOLE")
        || line.contains("CONSOLE") && line.contains("Uncaught")
}

/// The names and values in the probe's attribute: `figures=10;wrong=;…`.
fn seen(document: &str) -> Option<Vec<(String, String)>> {
    let (_, rest) = document.split_once("data-probe=\"")?;
    let (said, _) = rest.split_once('"')?;
    said.split(';').map(|pair| pair.split_once('=').map(|(n, v)| (n.into(), v.into()))).collect()
}

fn judge(seen: &[(String, String)], theme: &str) -> Result<Seen, String> {
    let text = |name: &str| {
        let found = seen.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| format!("the probe says no {name}"))
    };
    let number = |name: &str| {
        text(name)?.parse::<u32>().map_err(|error| format!("the probe's {name}: {error}"))
    };
    match (text("wrong")?, text("theme")?) {
        ("", shown) if shown != theme => Err(format!("shown in the {shown} theme")),
        ("", _) if number("figures")? == 0 => Err("no figure is drawn".into()),
        ("", _) => Ok(Seen { figures: number("figures")?, height: number("height")? }),
        (wrong, _) => Err(wrong.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(probe: &str) -> Result<Seen, String> {
        judge(&seen(&format!("<html data-probe=\"{probe}\">")).ok_or("no probe")?, "dark")
    }

    #[test]
    fn what_the_probe_says_decides() {
        assert!(page("figures=3;height=90;theme=dark;wrong=").is_ok_and(|seen| seen.figures == 3));
        assert!(page("figures=3;height=90;theme=light;wrong=").is_err());
        assert!(page("figures=0;height=90;theme=dark;wrong=").is_err());
        let wrong = page("figures=3;height=90;theme=dark;wrong=wider than the window");
        assert_eq!(wrong.err().as_deref(), Some("wider than the window"));
        assert!(page("figures=3").is_err() && seen("<html>").is_none());
    }

    #[test]
    fn sections_and_resources_are_looked_for() {
        let sections = SECTIONS.map(|id| format!("<section id=\"{id}\"></section>")).concat();
        assert_eq!(is_complete(&sections), Ok(()));
        assert!(is_complete(&sections.replace("figure-7", "figure-0")).is_err());
        assert!(is_complete(&format!("{sections}<script>")).is_err());
    }

    #[test]
    fn errors_of_the_page_are_told_from_those_of_the_browser() {
        assert!(is_console_error("[1:1:ERROR:CONSOLE(3)] \"Uncaught x\", source: file:///a (3)"));
        assert!(is_console_error("[1:1:INFO:CONSOLE:3] \"Uncaught ReferenceError: x\""));
        assert!(!is_console_error("[1:1:ERROR:dbus/bus.cc:408] Failed to connect to the bus"));
    }
}
