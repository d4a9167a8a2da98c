"""bench/gpu without a card: PyTorch's forms are the mechanisms that they race, and the page tells what was measured."""

import dataclasses
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.append(str(GPU))
import report  # noqa: E402
import rows  # noqa: E402
import sides  # noqa: E402

SMALL = {"n": 256, "batch": 1, "heads": 2}
RACED = {f"{row.name}": (row.work, row.peers) for row in rows.rows_with_bars()}
RACED |= {work.mechanism: (work, rows.PEERS[work.mechanism])
          for work in rows.every_mechanism((rows.RACED,)) if work.mechanism in rows.PEERS}
ROUNDING = {"topk": 0.1, "sparsemax": 0.3}  # in bf16 their forms choose other keys, too


def runs_here(peer):
    return peer.name not in ("Flex", "SDPA cuDNN")  # have no gradient on the CPU


@pytest.mark.parametrize("name", [name for name, (_, peers) in RACED.items() if any(map(runs_here, peers))])
def test_forms_are_the_mechanism(name, monkeypatch):
    work, peers = RACED[name]
    monkeypatch.setattr(sides, "ERRORS_AT", SMALL)
    for who, found in sides.errors(work, [peer for peer in peers if runs_here(peer)]).items():
        assert max(found) < ROUNDING.get(work.mechanism, 0.02), who


def test_names_are_of_mechanisms_and_rows_differ():
    import fovea

    assert set(rows.PEERS) <= {info.name for info in fovea.list_mechanisms()}
    names = [row.name for row in rows.rows_with_bars()]
    assert len(set(names)) == len(names)


ENTRY = {"mechanism": "norm", "n": 4096, "batch": 16, "heads": 16, "dim": 64, "causal": False,
         "errors": {"fovea": (1e-3, 2e-3), "compile": (3e-3, 4e-3)},
         "forward": {"fovea": 0.16, "peer": 0.4, "peer_as": "compile"},
         "backward": {"fovea": "RuntimeError: no", "peer": 0.8, "peer_as": "compile"}}
BARRED = {**ENTRY, "name": "norm full", "unit": "TB/s", "bars": (3.3, 2.7)}


def test_rates_and_bars():
    assert report.rate(BARRED, "forward", 0.16) == pytest.approx(4 * 16 * 4096 * 16 * 64 * 2 / 0.16e-3 / 1e12)
    assert report.rate({**BARRED, "unit": "TFLOP/s"}, "backward", 1.0) == pytest.approx(2.5 * 4 * 4096**2 * 64 * 256 / 1e9)
    assert report.met(BARRED, "forward", 3.3) == "ok" and report.met(BARRED, "forward", 3.6) == "**missed**"
    assert report.met(BARRED, "backward", 2.7) == ""  # it did not run
    assert report.met(BARRED, "forward", "2x") == "ok" and report.met(BARRED, "forward", "3x") == "**missed**"
    assert report.met({**BARRED, "unit": "ms"}, "forward", 0.2) == "ok"


def test_the_page():
    setting = dict.fromkeys(("command", "date", "card", "driver", "torch", "cuda", "fovea"), "x")
    page = report.markdown({"setting": setting, "bars": [BARRED], "mechanisms": [ENTRY]})
    assert "| norm full | forward | TB/s | 3.36 | 1.34 | compile | 2.50x | 3.3 | ok | 1e-03 | 3e-03 |" in page
    assert "| norm full | backward | TB/s | - | 1.34 | compile |  | 2.7 |  | 2e-03 | 4e-03 |" in page
    assert "| norm |  | 0.16 / - |  |  | 0.4 / 0.8 | compile | 2.50x | 1e-03 / 2e-03 | 3e-03 / 4e-03 |" in page
    assert "RuntimeError: no" in report.line(ENTRY)


def test_works_shrink():
    work = rows.Work("norm", 4096, 16)
    assert dataclasses.astuple(work.at(**SMALL))[:4] == ("norm", 256, 1, 2)
