"""Models and training from Python."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fovea

SMALL = {"vocabulary": 8, "classes": 2, "width": 16, "heads": 2, "inner": 16, "max_length": 32, "classifier_hidden": 0,
         "dropout": 0.0, "inner_dropout": 0.0, "attention_dropout": 0.0}


def parity(count, seed):
    """Sequences of 1 and 2; the label says which is more frequent."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 3, size=rng.integers(5, 20)) for _ in range(count)]
    return [(row, int((row == 1).sum() > (row == 2).sum())) for row in rows]


def small_data():
    return fovea.Dataset(train=parity(400, 1), validation=parity(100, 2), test=parity(100, 3), vocabulary=8, classes=2)


def test_forward_padded_and_packed():
    model = fovea.Model("transnormer-t2", **SMALL)
    ids = np.random.default_rng(0).integers(1, 8, (2, 12))
    padded = model(ids, lengths=[12, 7])
    packed = model(np.concatenate([ids[0], ids[1, :7]])[None], cu_seqlens=[0, 12, 19])
    np.testing.assert_allclose(padded, packed, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(ids[:, :7])[1], padded[1], rtol=1e-5, atol=1e-6)
    assert model.config["width"] == 16 and "layers" in model.config
    assert sum(p.size for p in model.parameters.values()) == model.parameter_count
    assert "attention" in repr(model)


def test_parameters_are_the_model_s_own():
    model, ids = fovea.Model("softmax", **SMALL), np.array([[1, 2, 3]])
    before = model(ids)
    for array in model.parameters.values():
        array *= 0.0
    assert np.abs(before).max() > 0 and (model(ids) == 0).all()


def test_save_and_load(tmp_path):
    model, ids = fovea.Model("norm", **SMALL, seed=3), np.array([[1, 2, 3]])
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fovea.load(tmp_path / "model")(ids), model(ids))
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model"]["width"] == 16
    (tmp_path / "model" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError):
        fovea.load(tmp_path / "model")


def test_wrong_settings():
    with pytest.raises(TypeError, match="widht"):
        fovea.Model("softmax", **{**SMALL, "widht": 3})
    with pytest.raises(ValueError, match="unknown attention"):
        fovea.Model("sofmax", **SMALL)
    with pytest.raises(ValueError, match="token 9"):
        fovea.Dataset(train=[([9], 0)], vocabulary=8, classes=2)
    with pytest.raises(ValueError, match="label 2"):
        fovea.Dataset(train=[([1], 2)], vocabulary=8, classes=2)
    with pytest.raises(ValueError, match="1 to 255"):
        fovea.Dataset(train=[([0, 300], 1)], vocabulary=8, classes=2)
    with pytest.raises(TypeError, match="stepz"):
        fovea.train(fovea.Model("softmax", **SMALL), small_data(), progress=False, stepz=3)


def test_training_learns_and_resumes(tmp_path):
    data, seen = small_data(), []
    settings = {"batch": 16, "lr": 3e-3, "warmup": 10, "eval_every": 40, "eval_examples": 0, "schedule": "constant"}
    model = fovea.Model("transnormer-t2", **SMALL)
    before = model.evaluate(data)["accuracy"]
    result = fovea.train(model, data, steps=120, out=tmp_path / "run", progress=False,
                         callbacks=[lambda kind, numbers: seen.append(kind)], **settings)
    assert result["steps"] == 120 and result["reason"] == "steps" and "steps/s" in repr(result)
    assert seen.count("step") == 120 and seen.count("eval") >= 3 and "checkpoint" in seen
    assert model.evaluate(data)["accuracy"] > max(0.8, before)
    best = fovea.load(tmp_path / "run" / "best")
    assert best.evaluate(data, "validation")["accuracy"] == pytest.approx(result["best"]["accuracy"])
    again = fovea.Model("transnormer-t2", **SMALL)
    longer = fovea.train(again, data, steps=150, out=tmp_path / "run", resume=tmp_path / "run", progress=False, **settings)
    assert longer["steps"] == 150


def test_a_callback_can_end_a_run(tmp_path):
    def stop(kind, numbers):
        if kind == "step" and numbers["step"] == 5:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fovea.train(fovea.Model("softmax", **SMALL), small_data(), steps=50, warmup=1, out=tmp_path / "run", callbacks=[stop],
                    progress=False)
    assert (tmp_path / "run" / "last").exists()


def test_ctrl_c_saves(tmp_path):
    code = f"""
import fovea, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
data = fovea.Dataset(train=[([1, 2, 3], 0), ([3, 2], 1)] * 50, validation=[([1, 2], 0)], vocabulary=8, classes=2)
model = fovea.Model("softmax", vocabulary=8, classes=2, max_length=8)
fovea.train(model, data, steps=10000000, eval_every=0, checkpoint_every=0, out={str(tmp_path / 'run')!r},
            callbacks=[lambda kind, numbers: print(kind, flush=True)], progress=False)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        assert child.stdout.readline() == "step\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors and child.returncode in (1, 130, -signal.SIGINT)
    assert (tmp_path / "run" / "last").exists()


def test_listops():
    data = fovea.listops(train=50, validation=5, test=5, seed=1)
    assert len(data.examples("train")) == 50 and data.classes == 10 and data.vocabulary == 16
    ids, label = data.examples("test")[0]
    assert 500 < len(ids) < 2000 and 0 <= label < 10
    with pytest.raises(ValueError, match="split"):
        data.examples("dev")


def test_progress(capsys):
    fovea.train(fovea.Model("softmax", **SMALL), small_data(), steps=3, warmup=1, eval_every=0)
    assert "steps/s" in capsys.readouterr().err
