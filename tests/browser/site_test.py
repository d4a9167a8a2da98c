"""The pages of docs/ in a browser: light, dark, on a phone; titles are found by keys. Pictures in FOVEA_SCREENSHOTS."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from browser import Browser

ROOT = Path(__file__).resolve().parents[2]


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name) / "site"
        subprocess.run([sys.executable, ROOT / "scripts/site", cls.folder], check=True, capture_output=True)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.prefer("light")
        self.browser.resize(1280, 900)

    def picture(self, name):
        if folder := os.environ.get("FOVEA_SCREENSHOTS"):
            self.browser.screenshot(Path(folder) / f"{name}.png")

    def colours(self):
        return self.browser.run("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")

    def test_light_and_dark(self):
        self.browser.open(self.folder / "docs/python.html")
        light = self.colours()
        self.picture("site-light")
        self.browser.prefer("dark")
        self.assertEqual(self.colours(), ["rgb(16, 18, 22)", "rgb(232, 234, 238)"])
        self.assertNotEqual(light, self.colours())
        self.picture("site-dark")
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([r for r in self.browser.requests if not r.startswith("file:")], [])

    def test_pages_fit_a_phone(self):
        self.browser.resize(360, 740, mobile=True)
        for page in ("index", "docs/python", "docs/cuda", "docs/bench-cpu", "docs/mechanisms/index", "docs/cli"):
            self.browser.open(self.folder / f"{page}.html")
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 360, page)
            self.assertLess(self.browser.run("document.querySelector('nav').offsetHeight"), 60, "the list of pages is folded")
        self.picture("site-phone")
        self.browser.click("nav summary")
        self.assertGreater(self.browser.run("document.querySelector('nav').offsetHeight"), 300)

    def test_titles_are_found(self):
        self.browser.open(self.folder / "docs/mechanisms/performer.html")
        self.browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))")
        self.assertEqual(self.browser.run("document.activeElement.id"), "find")
        self.browser.run("find.value = 'memory streams'; find.dispatchEvent(new Event('input'))")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#found a')].map(a => a.textContent)"),
                         ["CUDA: Memory, streams, transfers"])
        self.picture("site-found")
        self.browser.key("Enter")
        self.browser.wait("location.pathname.endsWith('/docs/cuda.html') && location.hash === '#memory-streams-transfers'")
        self.browser.wait("document.documentElement.dataset.ready")
        self.browser.run("find.value = '<b>qq'; find.dispatchEvent(new Event('input'))")
        self.assertEqual(self.browser.run("found.textContent"), "no title has these words")


if __name__ == "__main__":
    unittest.main()
