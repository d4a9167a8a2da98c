"""The page of `fovea inspect`, used with mouse and keys. Pictures of it are kept in FOVEA_SCREENSHOTS, where that is set."""

import csv
import io
import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser
from generate_test import LENGTH, WIDTH, shapes, write_model, write_safetensors
from support import PROGRAM

# What must be shown as it is and never run.
HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran=2'>\x01\x02\u202e\xe9"
HEADS = 4


def inspect(folder, *arguments):
    result = subprocess.run([PROGRAM, "inspect", *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return result


def write_two_layers(folder, mechanisms, seed=1, break_weights=False):
    """A language model of bytes with two layers of two heads."""
    write_model(folder, seed=seed, layers=mechanisms, vocabulary=256)
    tensors = {"embedding.tokens": [256, WIDTH], **shapes("", LENGTH)}
    tensors |= {name.replace("layers.0", "layers.1"): shape for name, shape in tensors.items() if "layers.0" in name}
    if mechanisms[1].startswith("norm"):
        tensors["layers.1.attention.norm.gain"] = [WIDTH // 2]
    write_safetensors(folder / "model.safetensors", tensors, seed)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        write_two_layers(cls.folder / "model", ["softmax", "softmax"])
        (cls.folder / "hostile.txt").write_text(HOSTILE[:LENGTH])
        inspect(cls.folder, "model", "--prompt", "To be, or not to be: that is the question.", "--out", "page.html", "--files", "files",
                "--importance", "--prune", "--approximation", "linear,window:left=4,right=0,gla")
        inspect(cls.folder, "model", "--text", "hostile.txt", "--length", LENGTH, "--out", "hostile.html")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.weights = cls.read_weights(cls.folder / "files" / "layer-0.npy")

    @staticmethod
    def read_weights(path):
        """A float32 .npy as (shape, numbers)."""
        data = path.read_bytes()
        size = int.from_bytes(data[8:10], "little")
        shape = eval(data[10:10 + size])["shape"]  # a dict literal that the program wrote
        return shape, memoryview(data[10 + size:]).cast("f")

    def setUp(self):
        self.browser.resize(1280, 900)
        self.browser.prefer("light")
        self.browser.open(self.folder / "page.html")

    def tearDown(self):
        requests = [url for url in self.browser.requests if not url.startswith(("file:", "data:"))]
        self.assertEqual(requests, [], "the page asks for something")
        self.assertEqual(self.browser.errors, [])

    def keep(self, name):
        if os.environ.get("FOVEA_SCREENSHOTS"):
            self.browser.screenshot(Path(os.environ["FOVEA_SCREENSHOTS"]) / f"{name}.png")

    def open_head(self, index):
        self.browser.click(".thumb", index)
        self.browser.wait(f"window.inspectPage && inspectPage.panel.id === {index} && inspectPage.map.frames")

    def view(self):
        return self.browser.run("(({x, y, scale}) => [x, y, scale])(inspectPage.map)")

    def pixels(self):
        """A sum over what the map shows."""
        return self.browser.run("(() => { const c = inspectPage.map.canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                                "let s = 0; for (let i = 0; i < d.length; ++i) s = (s * 31 + d[i]) % 1000000007; return s; })()")

    def settled(self):
        """Two frames on: what was to be drawn is drawn."""
        self.browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def other_pixels(self, before):
        """Waits until the map shows something else."""
        for _ in range(1000):
            self.settled()
            if self.pixels() != before:
                return
        self.fail("the map stays as it was")

    def pointer(self, row, column):
        """Where a weight is in the window."""
        return self.browser.run("(() => { const m = inspectPage.map; m.canvas.scrollIntoView({block: 'center', behavior: 'instant'});"
                                "const b = m.canvas.getBoundingClientRect(); return "
                                f"[b.left + ({column} + 0.5 - m.x) * m.scale, b.top + ({row} + 0.5 - m.y) * m.scale]; }})()")

    def test_shows_every_head(self):
        self.assertEqual(self.browser.run("document.querySelectorAll('.thumb').length"), HEADS)
        self.assertEqual(self.browser.run("document.querySelectorAll('.layer').length"), 2)
        self.browser.wait("[...document.querySelectorAll('.thumb canvas')].every((c) => c.width > 0 && c.width <= 64)")
        told = self.browser.run("document.querySelector('.shortly').textContent")
        self.assertRegex(told, "(local|mixed|global): layer")
        self.assertIn("not why a model answers", self.browser.run("document.querySelector('.caution').textContent"))
        with open(self.folder / "files" / "heads.csv", newline="") as file:
            classes = [row["class"] for row in csv.DictReader(file)]
        self.assertEqual(self.browser.run("meta.heads.map((h) => h.class)"), classes)
        self.keep("overview")

    def test_hovering_tells_the_weight(self):
        self.open_head(1)
        for row, column in [(30, 12), (41, 0), (7, 7), (20, 40)]:
            self.browser.mouse("mouseMoved", *self.pointer(row, column))
            self.browser.wait(f"String(inspectPage.map.hovered) === '{row},{column}'")
            tip = self.browser.run("document.querySelector('.tip').textContent")
            (heads, n, _), numbers = self.weights
            truth = numbers[(1 * n + row) * n + column]
            self.assertIn(f"({row})", tip)
            self.assertIn(f"({column})", tip)
            shown = tip.split("\n")[1]
            if column > row:
                self.assertEqual(truth, 0)
                self.assertTrue(shown.startswith("0: not yet written"), shown)
            elif "less than" in shown:
                self.assertLess(truth, float(shown.split()[-1]))
            else:
                parts = shown.split(" ± ")
                room = float(parts[1].rstrip("%")) / 100 + 0.01 if len(parts) > 1 else 0.006
                self.assertAlmostEqual(float(parts[0]), truth, delta=room * truth)

    def test_zooming_and_moving_change_what_is_shown(self):
        self.open_head(0)
        self.settled()
        whole, seen = self.view(), self.pixels()
        pale = self.browser.run("Math.min(inspectPage.map.data.top, 8 / inspectPage.map.data.columns)")
        self.assertEqual(self.browser.run("inspectPage.map.top({top: () => 1e-6})"), pale, "rows that read all keys alike are pale")
        self.browser.mouse("mouseWheel", *self.pointer(20, 10), deltaX=0, deltaY=-400)
        self.browser.wait(f"inspectPage.map.scale > {1.5 * whole[2]}")
        self.other_pixels(seen)
        near = self.view()
        x, y = self.pointer(20, 10)
        self.browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", x - 60, y - 40, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x - 60, y - 40, button="left", clickCount=1)
        self.browser.wait(f"inspectPage.map.x !== {near[0]}")
        moved = self.view()
        self.assertAlmostEqual(moved[0], near[0] + 60 / near[2], places=3)
        self.assertAlmostEqual(moved[1], near[1] + 40 / near[2], places=3)
        self.browser.key("0")
        self.assertEqual(self.view()[2], whole[2])

    def test_keys_alone_are_enough(self):
        self.browser.run("document.querySelector('.thumb').focus()")
        for key in ("ArrowRight", "ArrowDown"):
            self.browser.key(key)
        self.browser.key("Enter")
        self.browser.wait("window.inspectPage && inspectPage.panel.id === 3")
        self.assertEqual(self.browser.run("document.activeElement === inspectPage.map.canvas"), True)
        self.assertNotEqual(self.browser.run("getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.browser.run("inspectPage.map.choose([10, 5])")
        self.browser.key("ArrowDown")
        self.browser.key("ArrowRight", shift=True)
        self.assertEqual(self.browser.run("inspectPage.map.chosen"), [11, 15])
        before = self.view()[2]
        self.browser.key("+")
        self.assertGreater(self.view()[2], before)
        self.browser.key("-")
        self.assertAlmostEqual(self.view()[2], before, places=6)
        self.browser.key("Escape")
        self.browser.wait("inspectPage.panel.root.hidden")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('.thumb')].indexOf(document.activeElement)"), 3)

    def test_the_text_shows_what_a_token_reads(self):
        self.open_head(0)
        self.assertEqual(self.browser.run("document.querySelector('.tokens').textContent"), "To be, or not to be: that is the question.")
        self.assertEqual(self.browser.run("inspectPage.panel.text.span([';\\n he\\n'], 0, 0, 1, false).textContent"), ";↵\n he↵\n")
        self.assertEqual(self.browser.run("ranges([0, 1, 3, 4, 5, 6, 9])"), "0, 1, 3 to 6, 9")
        self.browser.click(".tokens span", 25)
        self.assertEqual(self.browser.run("inspectPage.map.chosen[0]"), 25)
        coloured = self.browser.run("[...document.querySelectorAll('.tokens span')].map((s) => Boolean(s.style.background))")
        self.assertTrue(any(coloured[:26]))
        self.assertFalse(any(coloured[26:]), "a causal head reads what is not written yet")

    def test_two_heads_side_by_side_move_together(self):
        self.open_head(0)
        self.browser.run("inspectPage.panel.open(0, 3)")
        self.browser.wait("inspectPage.panel.maps.length === 2 && inspectPage.panel.maps.every((m) => m.frames)")
        whole = self.browser.run("inspectPage.panel.maps.map((m) => m.scale * 42 / m.side)")  # what was shown whole still is
        self.assertEqual([round(share, 6) for share in whole], [1, 1])
        colours = self.browser.run("inspectPage.panel.maps.map((m) => { const { width, height } = m.canvas;"
                                   "return new Set(new Uint32Array(m.canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer)).size; })")
        self.assertGreater(min(colours), 20, "a map shows nothing")
        self.browser.run("inspectPage.panel.maps[1].zoom(3)")
        first, second = self.browser.run("inspectPage.panel.maps.map((m) => [m.x, m.y, m.scale])")
        self.assertEqual(first, second)
        self.browser.run("inspectPage.panel.open(1, 2)")  # another pair, at the same place
        self.browser.wait("inspectPage.panel.id === 1 && inspectPage.panel.maps.every((m) => m.frames)")
        self.assertEqual(self.browser.run("inspectPage.panel.maps.map((m) => [m.x, m.y, m.scale])"), [first, second])
        self.keep("pair")

    def test_what_heads_are_worth_is_the_numbers_of_the_files(self):
        titles = self.browser.run("[...document.querySelectorAll('figure h3')].map((h) => h.textContent)")
        for title in ("How much the loss feels each head", "What the loss grows by without each head", "The loss as heads are taken out", "Error of the output"):
            self.assertIn(title, titles)
        with open(self.folder / "files" / "heads.csv", newline="") as file:
            worth = [float(row["importance"]) for row in csv.DictReader(file)]
        shown = self.browser.run("(() => { const k = meta.columns.findIndex((c) => c.key === 'importance'); return meta.heads.map((h) => h.numbers[k]); })()")
        for number, truth in zip(shown, worth, strict=True):
            self.assertAlmostEqual(number, truth, places=5)
        rows = self.browser.run("[...document.querySelectorAll('section table')].at(-1).querySelectorAll('tbody tr').length")
        self.assertEqual(rows, 3 * 4)  # mechanisms, lengths
        self.assertIn("input of its layer", self.browser.run("[...document.querySelectorAll('section table')].at(-1).textContent"))
        self.keep("worth")

    def test_saves_what_it_shows(self):
        self.open_head(2)
        self.settled()
        self.browser.click(".opened .save button", 1)
        name, content = self.browser.download()
        self.assertEqual(name, "layer-1-head-0.csv")
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        _, numbers = self.read_weights(self.folder / "files" / "layer-1.npy")
        self.assertEqual(len(rows), 42 * 42)
        for row in rows:
            if row["exact"] == "1":
                truth = numbers[int(row["row"]) * 42 + int(row["key"])]
                self.assertAlmostEqual(float(row["weight"]), truth, delta=6e-4 * truth + 1e-7)
        for button, start in [(0, b"<svg"), (1, b"\x89PNG")]:
            self.browser.click(".plots figure .save button", button)
            self.assertTrue(self.browser.download()[1].startswith(start))

    def test_texts_of_others_are_shown_and_never_run(self):
        self.browser.open(self.folder / "hostile.html")
        self.open_head(0)
        self.assertIsNone(self.browser.run("window.ran || null"))
        shown = self.browser.run("document.querySelector('.tokens').textContent")
        self.assertTrue(shown.startswith("</script><script>window.ran = 1"))
        self.assertEqual(self.browser.run("document.querySelectorAll('.tokens img, .tokens script').length"), 0)

    def test_dark_pages_and_phones(self):
        self.open_head(0)
        self.settled()
        light = self.pixels()
        self.browser.prefer("dark")
        self.other_pixels(light)
        self.assertNotEqual(self.browser.run("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self.keep("dark")
        self.browser.resize(390, 844, mobile=True)
        self.browser.open(self.folder / "page.html")
        self.open_head(1)
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.keep("phone")


class Together(unittest.TestCase):
    """What the rollout and the tags of words add to a page."""

    def test_all_layers_are_one_more_map(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_two_layers(folder / "model", ["softmax", "softmax"])
            words = ["a", "b", ",", "c", "d", "."]
            (folder / "text.conllu").write_text("".join(
                f"{k}\t{word}\t_\t{'PUNCT' if word in ',.' else 'NOUN'}\t_\t_\t{k - 1}\tnext\t_\t_\n" for k, word in enumerate(words, 1)))
            inspect(folder, "model", "--tags", "text.conllu", "--rollout", "--out", "page.html", "--files", "files")
            browser = Browser()
            self.addCleanup(browser.close)
            browser.open(folder / "page.html")
            self.assertEqual(browser.run("document.querySelectorAll('.thumb').length"), HEADS + 1)
            self.assertIn("all layers", browser.run("[...document.querySelectorAll('.layer')].at(-1).textContent"))
            self.assertEqual(browser.run("[...document.querySelectorAll('figure')][0].querySelectorAll('.keys span span').length"), 3)  # layers, the diagonal
            browser.run("[...document.querySelectorAll('.thumb')].at(-1).click()")
            browser.wait("window.inspectPage && inspectPage.map.frames")
            (_, n, _), numbers = Page.read_weights(folder / "files" / "rollout.npy")
            for row, column in [(0, 0), (8, 3), (10, 10)]:
                shown = browser.run(f"inspectPage.map.data.weight({row}, {column}).value")
                self.assertAlmostEqual(shown, numbers[row * n + column], delta=0.05 * numbers[row * n + column])
            facts = browser.run("document.querySelector('.facts').textContent")
            self.assertIn("mass on delimiters", facts)
            self.assertEqual(browser.errors, [])


class Long(unittest.TestCase):
    """A long text: opens at once and stays smooth."""

    def test_stays_smooth(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_model(folder / "model", positions="none")
            tensors = {"embedding.tokens": [256, WIDTH], **shapes("", LENGTH)}
            del tensors["embedding.positions"]
            write_safetensors(folder / "model" / "model.safetensors", tensors, 1)
            config = json.loads((folder / "model" / "config.json").read_text())
            config["model"]["max_length"] = 8192
            (folder / "model" / "config.json").write_text(json.dumps(config))
            (folder / "text.txt").write_text("It is a truth universally acknowledged. " * 205)
            inspect(folder, "model", "--text", "text.txt", "--length", 8192, "--out", "page.html")
            browser = Browser()
            self.addCleanup(browser.close)
            opened = browser.open(folder / "page.html")  # of processor time: a busy machine does not change it much
            self.assertLess(opened, 2)
            browser.run("document.querySelector('.thumb').click()")
            browser.wait("window.inspectPage && inspectPage.map.frames")
            shown = browser.processor_seconds()
            self.assertLess(shown - opened, 2)
            browser.run("""(async () => { const m = inspectPage.map;
                for (let k = 0; k < 60; ++k) { const frames = m.frames;
                  m.zoom(k < 30 ? 1.25 : 0.8, 200, 210); m.x += 3; m.moved();
                  while (m.frames === frames) await new Promise(requestAnimationFrame); } })()""")
            self.assertLess((browser.processor_seconds() - shown) / 60, 1 / 30, "seconds for a frame")
            browser.run("(() => { const m = inspectPage.map; m.choose([5000, 4990]); m.scale = 20; m.reveal([5000, 4990]); })()")
            browser.wait("inspectPage.map.showsSingle()")
            self.assertEqual(browser.errors, [])


class Numbers(unittest.TestCase):
    def test_weights_that_are_not_numbers_are_shown_as_such(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_model(folder / "model")
            path = folder / "model" / "model.safetensors"
            data = bytearray(path.read_bytes())
            head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            begin, end = (8 + int.from_bytes(data[:8], "little") + at for at in head["layers.0.attention.qkv.weight"]["data_offsets"])
            data[begin:end] = struct.pack("<f", 1e30) * ((end - begin) // 4)  # scores overflow
            path.write_bytes(data)
            inspect(folder, "model", "--prompt", "a b c q d e f", "--out", "page.html")
            browser = Browser()
            self.addCleanup(browser.close)
            browser.open(folder / "page.html")
            browser.run("document.querySelector('.thumb').click()")
            browser.wait("window.inspectPage && inspectPage.map.frames")
            self.assertIn("NaN", browser.run("document.querySelector('.bad').textContent"))
            browser.run("inspectPage.map.choose([6, 2])")
            self.assertEqual(browser.run("document.querySelector('.readout .value').textContent"), "NaN")
            self.assertEqual(browser.errors, [])


if __name__ == "__main__":
    unittest.main()
