"""One row after another: compares both sides, then times them."""

import gc

import calls
import cases
import compare
import fovea_side
import inputs
import report
import rounds
import step_side
import torch_model
import torch_side

TRAIN_SETTINGS = {"rate": 1e-3, "weight_decay": 0.1}


def is_same_code(plain, compiled):
    return compiled.compiled and not plain.compiled and (plain.make, plain.args) == (compiled.make, compiled.args)


class Race:
    """Runs rows one after another and remembers the best anchor."""

    def __init__(self, library, timing):
        self.library, self.timing = library, timing
        self.anchor = rounds.Anchor(library.anchor)

    def outcome(self, row):
        result = report.Outcome(row.name, row.timed, row.bar, section=row.section, limit_ms=row.limit_ms, why=row.why)
        torch_side.forget_compiled()
        try:
            if isinstance(row.work, cases.Call):
                self.time_call(row, result)
            else:
                self.race(row, result)
        except (compare.Disagreement, fovea_side.FoveaError) as error:
            result.error = str(error)
        gc.collect()
        return result

    def race(self, row, result):
        own, agreeing_peer = self.preparation(row.work)(row)
        peers = self.agreeing_peers(row, agreeing_peer, result)
        self.time(row, own, peers, result)
        for side in (own, *peers.values()):
            side.close()

    def preparation(self, work):
        kinds = ((cases.ModelStep, self.model_sides), (cases.TrainStep, self.train_sides))
        return next((prepare for kind, prepare in kinds if isinstance(work, kind)), self.attention_sides)

    def attention_sides(self, row):
        """Our side, and what makes PyTorch's side of a form: the side and how far its results are from ours."""
        numbers = inputs.attention_inputs(row.work)
        own = fovea_side.AttentionSide(row.work, numbers, row.timed)
        results = own.results()

        def agreeing_peer(form):
            side = torch_side.AttentionSide(form, row.work, numbers, row.timed)
            return side, compare.require_same(results, side.results(), form.name, row.work.dtype)

        return own, agreeing_peer

    def train_sides(self, row):
        """The same for a training step. It is compared without dropout, on models of its own."""
        data = inputs.train_data(row.work)

        def pair(form, work):
            own = fovea_side.TrainSide(self.library, work, data, TRAIN_SETTINGS)
            return own, step_side.TrainSide(form, work, data, TRAIN_SETTINGS, own.parameters())

        def agreeing_peer(form):
            ours, theirs = pair(form, compare.without_dropout(row.work))
            difference = compare.train_agrees(ours, theirs, form.name)
            ours.close()
            ours, theirs = pair(form, row.work)
            ours.close()
            return theirs, difference

        return fovea_side.TrainSide(self.library, row.work, data, TRAIN_SETTINGS), agreeing_peer

    def model_sides(self, row):
        """The same for one PyTorch model with either attention."""
        data = inputs.train_data(row.work)
        side = lambda layer: step_side.ModelSide(row.work, data, TRAIN_SETTINGS, layer)  # noqa: E731

        def agreeing_peer(form):
            theirs = side(torch_model.AttentionLayer)
            return theirs, compare.train_agrees(side(torch_model.FoveaLayer), theirs, form.name)

        return side(torch_model.FoveaLayer), agreeing_peer

    def agreeing_peers(self, row, agreeing_peer, result):
        """Sides of PyTorch by name. A form that PyTorch itself refuses is noted and left out."""
        peers, result.difference = {}, 0.0
        for form in row.peers:
            try:
                peers[form.name], difference = agreeing_peer(form)
                result.difference = max(result.difference, difference)
            except compare.Disagreement as error:
                if not any(f.name in peers and is_same_code(f, form) for f in row.peers):
                    raise
                result.refused[form.name] = f"differs from the same code uncompiled, which agrees with fovea: {error}"
            except fovea_side.FoveaError:
                raise
            except Exception as error:  # torch.compile alone raises a dozen kinds
                result.refused[form.name] = f"{type(error).__name__}: {error}".splitlines()[0]
        if not peers:
            raise compare.Disagreement(f"PyTorch ran none of its forms: {result.refused}")
        return peers

    def time(self, row, own, peers, result):
        us = rounds.Entry("fovea", lambda: own.run(row.timed), keep=True)
        rivals = [rounds.Entry(name, lambda side=side: side.run(row.timed)) for name, side in peers.items()]
        finalists, result.repeated = rounds.race([us, *rivals], self.anchor, self.timing.at_most(row.rounds))
        best = min((e for e in finalists if e is not us), key=lambda e: e.median)
        result.ours_ms, result.ours_spread_ms = 1e3 * us.median, 1e3 * us.spread
        result.peer, result.peer_ms, result.peer_spread_ms = best.name, 1e3 * best.median, 1e3 * best.spread
        result.others = {e.name: 1e3 * e.median for e in rivals if e is not best}

    def time_call(self, row, result):
        us = rounds.Entry("fovea", getattr(calls, row.work.make), keep=True)
        _, result.repeated = rounds.race([us], self.anchor, self.timing)
        result.ours_ms, result.ours_spread_ms = 1e3 * us.median, 1e3 * us.spread
