"""Tests of the race against PyTorch (bench/peers) that need no PyTorch: its rows, its timing and its reports."""

import json
import sys
import unittest
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent / "bench" / "peers"
sys.dont_write_bytecode = True
sys.path.insert(0, str(PEERS))
import cases  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402


class RowsTest(unittest.TestCase):
    def test_rows_have_distinct_names_and_peers(self):
        rows = cases.all_rows()
        self.assertEqual(len({(r.name, r.timed) for r in rows}), len(rows))
        for row in rows:
            self.assertTrue(bool(row.peers) != (row.limit_ms is not None), row.name)
            self.assertEqual(len({f.name for f in row.peers}), len(row.peers), row.name)

    def test_every_form_exists(self):
        source = "".join(path.read_text() for path in (PEERS / "forms").glob("*.py"))
        layouts = (PEERS / "layouts.py").read_text()
        for row in cases.all_rows():
            for form in row.peers:
                if form.make:
                    self.assertEqual(source.count(f"\ndef {form.make}("), 1, form.make)
                self.assertIn(f'"{form.layout}": ', layouts)

    def test_every_call_exists(self):
        source = (PEERS / "calls.py").read_text()
        for row in cases.all_rows():
            if isinstance(row.work, cases.Call):
                self.assertIn(f"def {row.work.make}(", source)

    def test_every_section_stands_together(self):
        order = [r.section for r in cases.all_rows()]
        self.assertEqual(len([a for a, b in zip(order, order[1:]) if a != b]) + 1, len(set(order)))

    def test_lengths_add_up(self):
        for row in cases.all_rows():
            for lengths in (getattr(row.work, "packed", ()), getattr(row.work, "documents", ())):
                if lengths:
                    self.assertEqual(sum(lengths), row.work.n)
                    self.assertTrue(all(64 <= length <= 2048 for length in lengths))

    def test_bars_of_the_rows(self):
        bars = {(r.name, r.timed): r.bar for r in cases.all_rows()}
        self.assertEqual(bars["softmax full n 8192", cases.BACKWARD], 1.15)
        self.assertEqual(bars["softmax causal n 2048", cases.FORWARD], 1.3)
        self.assertEqual(bars["softmax causal n 8192", cases.FORWARD], 1.15)
        self.assertEqual(bars["diag causal n 16384", cases.BOTH], 2.0)
        self.assertEqual(bars["LRA step transnormer-t2", cases.BOTH], 2.5)
        self.assertEqual(bars["softmax bf16 causal n 2048", cases.BACKWARD], 1.2)
        self.assertEqual(bars["softmax width 128 causal n 2048", cases.BACKWARD], 1.3)
        self.assertEqual(bars["documents and window 256, n 8192", cases.FORWARD], 3.0)
        self.assertEqual(bars["nystrom n 8192", cases.BOTH], 2.0)
        self.assertEqual(bars["torch model with diag, step, n 4096", cases.BOTH], 1.5)

    def test_selection_wants_all_words_of_one_pattern(self):
        rows = cases.all_rows()
        self.assertEqual(cases.select(rows, []), rows)
        self.assertEqual({r.name for r in cases.select(rows, ["Norm 2048"])},
                         {"norm bidirectional n 2048", "norm causal n 2048"})
        both = cases.select(rows, ["diag 16384 causal", "128 full 512 backward"])
        self.assertEqual([r.name for r in both], ["diag causal n 16384", "softmax width 128 full n 512"])
        self.assertEqual(cases.select(rows, ["nystrom 512"]), [])


def scripted(*values):
    """A function that gives the values one after another, the last one for ever."""
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


class RoundsTest(unittest.TestCase):
    options = rounds.Options(rounds=3, block_seconds=1.0, long_seconds=100.0, extra_rounds=4)

    def race(self, entries, rates, **changes):
        options = rounds.Options(**{**vars(self.options), **changes})
        return rounds.race(entries, rounds.Anchor(scripted(*rates)), options, pause=lambda seconds: None)

    def test_medians_of_rounds(self):
        us = rounds.Entry("fovea", scripted(9, 1.0, 1.0, *[5, 1.0] * 2, *[5, 2.0]), keep=True)
        entries, repeated = self.race([us, rounds.Entry("peer", scripted(3.0))], [100.0])
        self.assertEqual([e.name for e in entries], ["fovea", "peer"])
        self.assertEqual(us.seconds, [1.0, 1.0, 2.0])
        self.assertEqual((us.median, repeated), (1.0, 0))
        self.assertEqual(entries[1].median, 3.0)

    def test_slow_peers_drop_out_and_ours_never(self):
        us = rounds.Entry("fovea", scripted(50.0), keep=True)
        peers = {"fast": 1.0, "close": 1.2, "slow": 2.0}
        fast, close, slow = (rounds.Entry(name, scripted(seconds)) for name, seconds in peers.items())
        entries, _ = self.race([us, slow, close, fast], [100.0])
        self.assertEqual([e.name for e in entries], ["fovea", "close", "fast"])
        self.assertEqual((slow.seconds, slow.median), ([], 2.0))

    def test_a_round_between_slow_anchors_is_repeated(self):
        us = rounds.Entry("fovea", scripted(1.0), keep=True)
        # Anchors before and after each round: the second is slow, which spoils the rounds on both sides of it.
        _, repeated = self.race([us, rounds.Entry("peer", scripted(1.0))], [100.0, 80.0, 100.0])
        self.assertEqual((repeated, len(us.seconds)), (2, 3))

    def test_long_rows_take_fewer_rounds(self):
        self.assertEqual(self.options.at_most(2).rounds, 2)
        self.assertEqual((self.options.at_most(9).rounds, self.options.at_most(None).rounds), (3, 3))

    def test_without_rivals_there_is_nothing_to_drop(self):
        us = rounds.Entry("fovea", scripted(1.0), keep=True)
        self.assertEqual(self.race([us], [100.0]), ([us], 0))

    def test_a_machine_that_stays_busy_still_ends(self):
        us = rounds.Entry("fovea", scripted(1.0), keep=True)
        _, repeated = self.race([us, rounds.Entry("peer", scripted(1.0))], [100.0, 50.0])
        self.assertEqual((repeated, len(us.seconds)), (4, 3))

    def test_short_work_is_run_often(self):
        count = [0]

        def run():
            count[0] += 1
            return 0.1

        rounds.run_block(rounds.Entry("x", run, estimate=0.1), self.options, pause=lambda seconds: None)
        self.assertEqual(count[0], 1 + 10)
        rounds.run_block(rounds.Entry("x", run, estimate=0.0), self.options, pause=lambda seconds: None)
        self.assertEqual(count[0], 11 + 1 + self.options.most_runs)
        rounds.run_block(rounds.Entry("x", run, estimate=200.0), self.options, pause=lambda seconds: None)
        self.assertEqual(count[0], 12 + self.options.most_runs + 1)


class ReportTest(unittest.TestCase):
    won = report.Outcome("norm n 2048", "forward", 2.0, ours_ms=2.0, peer_ms=5.0, peer="compile", others={"eager": 9.5},
                         refused={"FlexAttention": "has no backward"})
    lost = report.Outcome("softmax n 512", "forward", 1.1, ours_ms=5.0, peer_ms=5.0, peer="SDPA")
    wrong = report.Outcome("diag n 64", "forward", 2.0, error="output differs")
    slow = report.Outcome("one call", "forward", None, ours_ms=0.030, section="Calls", limit_ms=0.025, why="It is long.")
    quick = report.Outcome("first call", "forward", None, ours_ms=145.0, section="Calls", limit_ms=300.0, why="Never seen.")
    shown = report.Outcome("bias n 512", "forward", None, ours_ms=5.0, peer_ms=4.0, peer="eager")
    setting = {"command": "make peers", "threads": 2, "rounds": 7, "malloc": "both", "torch": "2.13.0"}

    def test_verdicts(self):
        outcomes = (self.won, self.lost, self.wrong, self.shown)
        self.assertEqual([o.verdict for o in outcomes], ["ok", "missed", "wrong", "-"])
        self.assertEqual([o.failed for o in outcomes], [False, True, True, False])
        self.assertEqual((self.won.ratio, self.wrong.ratio), (2.5, None))
        self.assertEqual([o.verdict for o in (self.slow, self.quick)], ["missed", "ok"])

    def test_numbers_have_three_digits(self):
        texts = [report.three_digits(x) for x in (None, 0.1234, 3.567, 54.18, 922.75, 2657.02, 12345.6)]
        self.assertEqual(texts, ["", "0.123", "3.57", "54.2", "923", "2660", "12300"])

    def test_table_shows_losing_rows_like_winning_ones(self):
        lines = report.table_lines(report.RACE, [self.won, self.lost, self.wrong])
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[1], r"norm n 2048 +forward +2\.00 +5\.00 +compile +2\.50x +2\.00x +ok$")
        self.assertRegex(lines[2], r"softmax n 512 .* 1\.00x +1\.10x +missed$")
        self.assertRegex(lines[3], r"diag n 64 +forward +2\.00x +wrong$")

    def test_summary_counts_bars_and_wrong_rows(self):
        self.assertEqual(report.summary([self.won, self.lost, self.shown]), "1 of 2 bars reached")
        self.assertIn("1 row with different results", report.summary([self.won, self.wrong]))

    def test_limits_are_bars_too(self):
        self.assertEqual(report.summary([self.won, self.slow, self.quick]), "2 of 3 bars reached")

    def test_sections_have_tables_of_their_own(self):
        text = report.markdown([self.won, self.slow, self.quick], self.setting)
        self.assertIn("## Calls\n\n| Call | Time | Limit |  |", text)
        self.assertIn("| one call | 30.0 us | 25.0 us | **missed** |", text)
        self.assertIn("| first call | 145 ms | 300 ms | ok |", text)
        self.assertLess(text.index("| Work | Pass | fovea, ms"), text.index("## Calls"))
        self.assertRegex("\n".join(report.text_lines([self.won, self.slow])), r"Calls\n\nCall +Time +Limit\none call +30\.0 us")

    def test_reasons_are_given_for_missed_bars_only(self):
        text = report.markdown([self.won, self.lost, self.slow, self.quick], self.setting)
        self.assertIn("- one call, forward: 30.0 us, 20% over its limit. It is long.", text)
        self.assertIn("- softmax n 512, forward: 1.00x where 1.10x was the bar, 9% short.", text)
        self.assertNotIn("Never seen", text)
        self.assertNotIn("Missed bars", report.markdown([self.won, self.quick], self.setting))

    def test_json_holds_every_row(self):
        document = json.loads(report.json_text([self.won, self.wrong], self.setting))
        self.assertEqual(document["setting"]["torch"], "2.13.0")
        self.assertEqual([r["ratio"] for r in document["rows"]], [2.5, None])
        self.assertEqual([r["verdict"] for r in document["rows"]], ["ok", "wrong"])

    def test_markdown_marks_missed_bars_and_lists_what_lost(self):
        text = report.markdown([self.won, self.lost, self.wrong], self.setting)
        self.assertIn("| softmax n 512 | forward | 5.00 | 5.00 | SDPA | 1.00x | 1.10x | **missed** |", text)
        self.assertIn("- diag n 64, forward: output differs", text)
        self.assertIn("eager: 9.50", text)
        self.assertIn("- norm n 2048, forward, FlexAttention: has no backward", text)
        self.assertIn("1 of 3 bars reached", text)
        self.assertIn("`make peers`", text)


if __name__ == "__main__":
    unittest.main()
