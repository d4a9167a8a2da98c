"""Tests of the judge (compare.py). They need NumPy, so bench/peers/run runs them before every race."""

import sys
import unittest

sys.dont_write_bytecode = True
import numpy as np  # noqa: E402

import cases  # noqa: E402
import compare  # noqa: E402


class RelativeErrorTest(unittest.TestCase):
    def test_is_relative_to_the_largest(self):
        self.assertAlmostEqual(compare.relative_error(np.array([1.0, 100.0]), np.array([2.0, 100.0])), 0.01)

    def test_zeros_and_empty(self):
        self.assertEqual(compare.relative_error(np.zeros(3), np.zeros(3)), 0.0)
        self.assertEqual(compare.relative_error(np.zeros(0), np.zeros(0)), 0.0)
        self.assertEqual(compare.relative_error(np.ones(3), np.zeros(3)), np.inf)

    def test_what_is_not_finite_or_not_the_same_shape_is_wrong(self):
        self.assertEqual(compare.relative_error(np.array([np.nan]), np.array([np.nan])), np.inf)
        self.assertEqual(compare.relative_error(np.array([np.inf]), np.array([1.0])), np.inf)
        self.assertEqual(compare.relative_error(np.ones(3), np.ones(4)), np.inf)


class AgreementTest(unittest.TestCase):
    def test_worst_error_of_what_both_have(self):
        ours = {"output": np.array([1.0]), "q": np.array([2.0])}
        self.assertEqual(compare.require_same(ours, {"output": np.array([1.0])}, "eager"), 0.0)
        with self.assertRaisesRegex(compare.Disagreement, r"gradient of q .*\(eager\)"):
            compare.require_same(ours, {"output": np.array([1.0]), "q": np.array([2.1])}, "eager")

    def test_nothing_in_common_is_no_agreement(self):
        with self.assertRaises(compare.Disagreement):
            compare.require_same({"output": np.ones(1)}, {}, "eager")

    def test_bf16_may_differ_by_more(self):
        ours, theirs = {"output": np.array([1.0])}, {"output": np.array([1.01])}
        self.assertAlmostEqual(compare.require_same(ours, theirs, "SDPA", "bf16"), 0.01 / 1.01)
        with self.assertRaises(compare.Disagreement):
            compare.require_same(ours, theirs, "SDPA", "f32")

    def test_training_is_compared_without_dropout(self):
        work = compare.without_dropout(cases.TrainStep("transformer", attention_dropout=0.1))
        self.assertEqual((work.dropout, work.attention_dropout), (0.0, 0.0))


class Model:
    """A side of one parameter: loss, gradient and update as given."""

    def __init__(self, loss, gradient, step):
        self.values = {"w": np.ones(2)}
        self.loss_value, self.gradient, self.step = loss, np.array(gradient), np.array(step)

    def loss(self):
        return self.loss_value

    def update(self):
        self.values["w"] = self.values["w"] - self.step

    def parameters(self):
        return {"w": (self.values["w"], self.gradient)}


class TrainingTest(unittest.TestCase):
    def test_equal_steps_agree(self):
        self.assertEqual(compare.train_agrees(Model(1.0, [1, 2], [0.1, 0.1]), Model(1.0, [1, 2], [0.1, 0.1]), "x"), 0.0)

    def test_loss_gradient_and_step_are_looked_at(self):
        right = (1.0, [1, 2], [0.1, 0.1])
        for other in ((1.1, *right[1:]), (1.0, [1, 2.1], right[2]), (1.0, right[1], [0.1, 0.2])):
            with self.assertRaises(compare.Disagreement):
                compare.train_agrees(Model(*right), Model(*other), "x")

    def test_a_gradient_of_rounding_may_step_either_way(self):
        ours, theirs = Model(1.0, [1, 1e-9], [0.1, 0.1]), Model(1.0, [1, -1e-9], [0.1, -0.1])
        self.assertLess(compare.train_agrees(ours, theirs, "x"), 1e-8)


if __name__ == "__main__":
    unittest.main()
