"""scripts/site: every page of docs/ as HTML, every link and anchor of which leads somewhere inside."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
_spec = importlib.util.spec_from_file_location("markdown", ROOT / "docs/site/markdown.py")
markdown = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(markdown)
VOID = {"meta", "link", "img", "input", "br"}


class Reader(HTMLParser):
    """The anchors and links of a page; complains about tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded, self.open = set(), [], [], []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        assert not [name for name in named if name.startswith("on") or name == "style"], named
        if tag not in VOID:
            self.open.append(tag)
        if "id" in named:
            assert named["id"] not in self.anchors, f"twice: {named['id']}"
            self.anchors.add(named["id"])
        (self.links if tag == "a" else self.loaded).extend(named[n] for n in ("href", "src") if n in named)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name) / "site"
        made = subprocess.run([sys.executable, ROOT / "scripts/site", cls.folder], capture_output=True, text=True, cwd="/")
        assert made.returncode == 0, made.stderr
        cls.pages = {str(p.relative_to(cls.folder)): Reader(p.read_text("utf-8")) for p in cls.folder.rglob("*.html")}

    def place(self, page, link):
        path, _, anchor = link.partition("#")
        return (os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page), anchor

    def test_links_lead_somewhere(self):
        checked = 0
        for page, read in self.pages.items():
            for link in read.links:
                if re.match(r"https?:|mailto:", link):
                    continue
                path, anchor = self.place(page, link)
                with self.subTest(page=page, link=link):
                    self.assertTrue((self.folder / path).is_file(), link)
                    if anchor:
                        self.assertIn(anchor, self.pages[path].anchors)
                checked += 1
        self.assertGreater(checked, 1000)

    def test_nothing_is_fetched_from_elsewhere(self):
        for page, read in self.pages.items():
            for link in read.loaded:
                self.assertNotRegex(link, r"^(\w+:|//)", page)
                self.assertTrue((self.folder / self.place(page, link)[0]).is_file(), (page, link))

    def test_every_page_is_there_and_found_from_the_first(self):
        for source in (ROOT / "docs").rglob("*.md"):
            path = source.relative_to(ROOT)
            target = path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html")
            self.assertIn(str(target), self.pages)
        seen, ahead = set(), ["index.html"]
        while ahead:
            page = ahead.pop()
            if page in self.pages and page not in seen:
                seen.add(page)
                ahead += [self.place(page, link)[0] for link in self.pages[page].links if "://" not in link]
        self.assertEqual(set(self.pages) - seen, set())

    def test_the_list_of_pages_has_all_of_docs(self):
        first = self.pages["index.html"].links
        for source in (ROOT / "docs").glob("*.md"):
            if source.name != "README.md":
                self.assertIn(f"docs/{source.stem}.html", first)

    def test_a_folder_that_is_no_site_stays(self):
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "mine.txt").write_text("mine")
            made = subprocess.run([sys.executable, ROOT / "scripts/site", name], capture_output=True, text=True)
            self.assertEqual(made.returncode, 1)
            self.assertIn("not replaced", made.stderr)
            self.assertEqual((Path(name) / "mine.txt").read_text(), "mine")

    def test_a_link_that_leads_nowhere_is_named(self):
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / "tree"
            (copy / "scripts").mkdir(parents=True)
            shutil.copy(ROOT / "scripts/site", copy / "scripts")
            shutil.copytree(ROOT / "docs/site", copy / "docs/site")
            for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/README.md"):
                (copy / page).write_text("# Page\n")
            (copy / "docs/a.md").write_text("# A\n\n[here](b.md)\n")
            made = subprocess.run([copy / "scripts/site"], capture_output=True, text=True)
            self.assertEqual(made.returncode, 1)
            self.assertIn("leads nowhere: b.md\n  at      docs/a.md", made.stderr)


class Markdown(unittest.TestCase):
    def check(self, text, expected):
        self.assertEqual(markdown.Document(text).html(lambda link: link), expected)

    def test_text(self):
        self.check("a *b* **c *d*** `*e*` f*g*h", "<p>a <em>b</em> <strong>c <em>d</em></strong> <code>*e*</code> f*g*h</p>")
        self.check("2 * 3 * 4, a_b_c", "<p>2 * 3 * 4, a_b_c</p>")
        self.check("<b>x</b> & &lt; `<i>`", "<p>&lt;b&gt;x&lt;/b&gt; &amp; &lt; <code>&lt;i&gt;</code></p>")
        self.check("``a ` b`` \\*c\\*", "<p><code>a ` b</code> *c*</p>")
        self.check("[a `b]`](c.md#d) ![e](f.png)", '<p><a href="c.md#d">a <code>b]</code></a> <img src="f.png" alt="e"></p>')
        self.check("a <!-- no --> b\n<!-- two\nlines -->\nc", "<p>a b\nc</p>")

    def test_blocks(self):
        self.check("# A b, c!\n## A b c\ntext\n\n# A b, c!",
                   '<h1 id="a-b-c">A b, c!</h1>\n<h2 id="a-b-c-1">A b c</h2>\n<p>text</p>\n<h1 id="a-b-c-2">A b, c!</h1>')
        self.check("x\n\n    a < b\n\n    c\n\ny", "<p>x</p>\n<pre><code>a &lt; b\n\nc</code></pre>\n<p>y</p>")
        self.check("```sh\n# no heading\n| no | table |\n```", "<pre><code># no heading\n| no | table |</code></pre>")
        self.check("- a\n  b\n- c\n  - d\n\ne", "<ul>\n<li>a\nb</li>\n<li>c\n<ul>\n<li>d</li>\n</ul></li>\n</ul>\n<p>e</p>")
        self.check("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>")
        self.check("- a\n\n- b\n\nc", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n<p>c</p>")

    def test_tables(self):
        self.check("| a | b |\n| --- | --: |\n| `x|y` | 1 \\| 2 |\n|  | z |\n",
                   '<div class="wide"><table>\n<thead><tr><th>a</th><th class="right">b</th></tr></thead>\n<tbody>\n'
                   '<tr><td><code>x|y</code></td><td class="right">1 | 2</td></tr>\n<tr><td></td><td class="right">z</td></tr>\n'
                   "</tbody>\n</table></div>")
        self.check("a | b\nc", "<p>a | b\nc</p>")


if __name__ == "__main__":
    unittest.main()
