"""The table "Checked against" of docs/python.md, from the marks of the tests and the fixtures.

    PYTHONPATH=build/release/python build/venv/bin/python tests/python/checked.py    writes it anew
"""

import re
from pathlib import Path

import test_interop_fixtures as fixtures
import test_interop_models
import test_interop_positions
import test_interop_sparse

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "python.md"
HEAD = "| Mechanism | Code | Package | Within |\n| --- | --- | --- | --- |\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def marked():
    """From the packages that the tests run: every test of these files says with what it compares."""
    for module in (test_interop_models, test_interop_positions, test_interop_sparse):
        for name, test in vars(module).items():
            if name.startswith("test_"):
                (mark,) = (m for m in test.pytestmark if m.name == "checked")
                yield *mark.args, "transformers, as installed", mark.kwargs["within"]


def written():
    """From the fixtures."""
    for name in fixtures.names():
        about = fixtures.read(fixtures.FOLDER / f"{name}.npz")[0]
        code = about["code"] + (f" ({about['note']})" if about["note"] else "")
        yield about["mechanism"], code, f"{about['package']} {about['version']}", about["within"]


def table():
    rows = sorted({(f"`{mechanism}`", code, package, f"{within:.0e}".replace("e-0", "e-"))
                   for mechanism, code, package, within in (*marked(), *written())})
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
