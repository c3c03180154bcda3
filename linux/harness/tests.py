"""Tests of linux/run itself: python3 -m unittest harness.tests, in linux/. Needs no kernel."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from . import guest, kernel, layout, measure, packages, shell, source
from .failure import NO_SOURCE, Failure
from .layout import LINUX, Kernel

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n"
PATCH = "--- a/mm/a.h\n+++ b/mm/a.h\n@@ -1 +1 @@\n-one\n+two\n"


class InCache(unittest.TestCase):
    """With a cache of its own, and a kernel source and series of a few lines."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="woodlot-linux-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        series = self.folder / "series"
        for name in ("patches", "src/mm"):
            (series / name).mkdir(parents=True)
        (series / "patches/1.patch").write_text(PATCH)
        (series / "src/mm/new.c").write_text("new")
        self.series = series
        for patch in (
            mock.patch.dict(os.environ, WOODLOT_LINUX_CACHE=str(self.folder / "cache")),
            mock.patch.dict(source.SERIES, woodlot=(series,)),
            mock.patch.object(source, "require_space"),
            redirect_stdout(io.StringIO()),
        ):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        layout.cache().mkdir()
        self.kernel = Kernel("um", "llfree")

    def tarball(self, makefile: str = MAKEFILE) -> Path:
        packed = self.folder / "linux.tar.xz"
        with tarfile.open(packed, "w:xz") as archive:
            for name, text in {"Makefile": makefile, "mm/a.h": "one\n", "mm/b.h": "b\n"}.items():
                info = tarfile.TarInfo(f"linux/{name}")
                info.size, info.mtime = len(text), 1000
                archive.addfile(info, io.BytesIO(text.encode()))
        return packed


class Source(InCache):
    def test_patches_leave_the_packed_source_alone(self):
        tarball = self.tarball()
        source.patched(self.kernel, tarball)
        tree = self.kernel.tree
        self.assertEqual((tree / "mm/a.h").read_text(), "two\n")
        self.assertEqual((tree / "mm/new.c").read_text(), "new")
        self.assertEqual((source.fetch(tarball) / "mm/a.h").read_text(), "one\n")

    def test_what_is_half_extracted_is_extracted_again(self):
        tarball = self.tarball()
        (layout.cache() / "pristine.partial").mkdir()
        (layout.cache() / "pristine.partial/mm").write_text("in the way")
        (layout.cache() / "pristine").mkdir()
        (layout.cache() / "pristine/Makefile").write_text("without a stamp")
        folder = source.fetch(tarball)
        self.assertEqual((folder / "Makefile").read_text(), MAKEFILE)

    def test_files_get_a_new_time_only_if_they_change(self):
        tarball = self.tarball()
        source.patched(self.kernel, tarball)
        tree = self.kernel.tree
        os.utime(tree / "mm/a.h", (2000, 2000))
        os.utime(tree / "mm/new.c", (2000, 2000))
        (self.series / "src/mm/new.c").write_text("newer")
        source.patched(self.kernel, tarball)
        self.assertEqual((tree / "mm/a.h").stat().st_mtime, 2000)
        self.assertGreater((tree / "mm/new.c").stat().st_mtime, 2000)

    def test_a_file_that_is_no_longer_patched_is_newer_than_what_was_built_from_it(self):
        tarball = self.tarball()
        source.patched(self.kernel, tarball)
        (self.series / "patches/1.patch").unlink()
        source.patched(self.kernel, tarball)
        again = self.kernel.tree / "mm/a.h"
        self.assertEqual(again.read_text(), "one\n")
        self.assertGreater(again.stat().st_mtime, time.time() - 60)
        self.assertEqual((source.fetch(tarball) / "mm/a.h").stat().st_mtime, 1000)

    def test_a_patch_that_does_not_apply_is_named(self):
        (self.series / "patches/1.patch").write_text(PATCH.replace("-one", "-three"))
        with self.assertRaisesRegex(Failure, r"patch 1\.patch"):
            source.patched(self.kernel, self.tarball())
        self.assertFalse(self.kernel.tree.exists())

    def test_another_linux_is_refused(self):
        with self.assertRaisesRegex(Failure, r"is Linux 6\.13\.117"):
            source.fetch(self.tarball(MAKEFILE.replace("12", "13")))
        with self.assertRaisesRegex(Failure, "is Linux"):
            source.fetch(self.tarball(""))

    def test_a_missing_source_has_a_status_of_its_own(self):
        with self.assertRaises(Failure) as failed:
            source.fetch(packages.TARBALL.with_name("nothing.tar.xz"))
        self.assertEqual(failed.exception.status, NO_SOURCE)


class Build(InCache):
    """Without make: a kernel is its allocator's object."""

    def setUp(self):
        super().setUp()
        self.packed = self.tarball()

    def build(self, allocator: str) -> bool:
        """Builds a kernel; says whether make had to run."""
        one = Kernel("um", allocator)

        def placed(wanted: Kernel) -> str:
            (wanted.tree / source.OBJECT).write_text(wanted.allocator)
            return wanted.allocator

        def make(wanted: Kernel, *_) -> None:
            shutil.copyfile(wanted.tree / source.OBJECT, wanted.made)

        with (mock.patch.multiple(kernel, place_object=placed, configure=mock.Mock(),
                                  require=mock.Mock(), require_space=mock.Mock()),
              mock.patch.object(kernel, "make", side_effect=make) as made):
            kernel.build(one, self.packed, 1)
        self.assertEqual(one.image.read_text(), allocator)
        return made.called

    def test_kernels_of_both_engines_are_kept(self):
        for engine in layout.ENGINES:
            self.assertTrue(self.build(engine))
        for engine in layout.ENGINES:
            self.assertFalse(self.build(engine))

    def test_another_source_makes_both_anew(self):
        for engine in layout.ENGINES:
            self.build(engine)
        (self.series / "src/mm/new.c").write_text("newer")
        for engine in layout.ENGINES:
            self.assertTrue(self.build(engine))


class Shell(unittest.TestCase):
    def test_failures_say_what_and_why(self):
        with self.assertRaisesRegex(Failure, "(?s)trying: exit status 3.*the reason"):
            shell.run(["sh", "-c", "echo the reason; exit 3"], "trying", 10)
        with self.assertRaisesRegex(Failure, "killed by SIGKILL"):
            shell.run(["sh", "-c", "kill -9 $$"], "trying", 10)

    def test_a_timeout_ends_what_was_started(self):
        with tempfile.NamedTemporaryFile() as file:
            with self.assertRaisesRegex(Failure, "not done after 1 s"):
                shell.run(["sh", "-c", f"sleep 100 & echo $! > {file.name}; wait"], "trying", 1)
            started = int(Path(file.name).read_text())
        with self.assertRaises(ProcessLookupError):
            for _ in range(100):
                os.kill(started, 0)
                time.sleep(0.05)

    def test_what_was_started_ends_when_we_are_killed(self):
        script = ("from harness.shell import run\n"
                  "run(['sh', '-c', 'echo $$; exec sleep 100'], 'trying', 100,"
                  " log=__import__('pathlib').Path('/dev/stderr'))")
        with subprocess.Popen([sys.executable, "-Bc", script], cwd=LINUX, stderr=subprocess.PIPE,
                              text=True) as run:
            started = int(run.stderr.readline())
            run.kill()
        with self.assertRaises(ProcessLookupError):
            for _ in range(100):
                os.kill(started, 0)
                time.sleep(0.05)

    def test_real_time_is_for_guests(self):
        script = ("import sys; from harness import shell; shell.leave_real_time()\n"
                  "for guest in (False, True):\n"
                  "    with shell.begin(['chrt', '-p', '0'], guest, stdout=sys.stdout) as run: pass")
        begun = subprocess.run(["chrt", "-f", "1", sys.executable, "-Bc", script], cwd=LINUX,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if "failed to set" in begun.stderr:
            self.skipTest("no right to real time")
        policies = [line.split()[-1] for line in begun.stdout.splitlines() if "policy" in line]
        self.assertEqual(policies, ["SCHED_OTHER", "SCHED_FIFO"])

    def test_too_little_space_is_said_before(self):
        with self.assertRaisesRegex(Failure, "MiB are free"):
            shell.require_space(Path("/"), 1 << 40, "much")

    def test_packages_that_are_missing_are_named(self):
        with self.assertRaisesRegex(Failure, "(?s)no-such-tool.*install.* no-such-package"):
            packages.require({"sh": "dash", "no-such-tool": "no-such-package"})


class Guest(InCache):
    """A shell script in place of the kernel."""

    def boot(self, script: str, seconds: float = 10) -> guest.Boot:
        with mock.patch.object(guest, "command", return_value=["sh", "-c", script]):
            return guest.boot(self.kernel, guest.Machine(64), {"job": "test"}, seconds)

    def test_a_guest_that_passes(self):
        done = self.boot("echo 'guest> userspace'; echo '[ 1.0] noise guest> csv 1,2'; "
                         "printf 'guest> PASS\\r\\n'")
        self.assertEqual(done.csv, ["1,2"])

    def test_guests_that_do_not(self):
        for script, why in {
            "echo nothing": "no verdict",
            "echo 'guest> FAIL the reason'": "FAIL the reason",
            "echo 'guest> PASS'; exit 6": "exit status 6",
            "echo 'guest> PASS'; kill -6 $$": "SIGABRT",
            "echo 'BUG: Bad page state'; echo 'guest> PASS'": "BUG",
            "echo 'guest> PASS'; echo 'Kernel panic - not syncing'": "Kernel panic",
            "echo 'WARNING: possible recursive locking'; echo 'guest> PASS'": "WARNING",
            "echo 'stress failed: page 3'; echo 'guest> PASS'": "page 3",
        }.items():
            with self.subTest(script), self.assertRaisesRegex(Failure, why):
                self.boot(script)

    def test_a_guest_is_told_what_its_kernel_should_be(self):
        words = guest.command(self.kernel, guest.Machine(64), {"job": "test"}, self.folder / "userspace")
        self.assertIn("allocator=llfree", words)

    def test_a_guest_that_hangs(self):
        with self.assertRaisesRegex(Failure, "not done after 1 s"):
            self.boot("echo 'guest> PASS'; sleep 100", 1)


class Measure(unittest.TestCase):
    def row(self, boot: int, alloc: str, least: str) -> dict:
        values = ("bulk", "0", "1", "5", "10", "10", alloc, least, "", "", "", "")
        return {"allocator": "buddy", "boot": boot, **dict(zip(measure.ROW, values))}

    def test_boots_are_joined(self):
        rows = [self.row(1, "30.0", "20.0"), self.row(2, "10.0", "9.5"), self.row(3, "11.0", "9.9")]
        joined, = measure.join(rows)
        self.assertEqual(joined["alloc_ns"], "11.0")
        self.assertEqual((joined["alloc_ns_lowest"], joined["alloc_ns_highest"]), (10.0, 30.0))
        self.assertEqual(joined["alloc_ns_min"], 9.5)
        self.assertEqual((joined["boots"], joined["free_ns"]), (3, ""))
        self.assertIn("11.0 [10.0 30.0]", measure.bench_table([joined]))


class Configuration(unittest.TestCase):
    def test_settings_are_read(self):
        text = "# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=n\nCONFIG_D=\"x y\"\n"
        expected = {"CONFIG_B": "y", "CONFIG_C": "n", "CONFIG_D": '"x y"'}
        self.assertEqual(kernel.settings(text), expected)


class CommandLine(unittest.TestCase):
    def test_wrong_ones_are_refused_with_status_2(self):
        for words in ("", "boot", "build arm", "boot um --mem 5", "boot um --cpus 2", "fetch um",
                      "boot x86 --cpus 2 --nodes 3", "boot x86 --cpus 17", "boot um --times 0",
                      "bench um --orders 11", "bench um --patterns bulk,none", "bench um --threads 2",
                      "test um --with nothing", "boot um --engine buddy",
                      "boot um --buddy --engine onewrite", "boot um --engine llfree,onewrite",
                      "bench um --engine llfree,none"):
            with self.subTest(words):
                command = [sys.executable, LINUX / "run", *words.split()]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr)
