"""fovea.generate: the same tokens as the model's own logits, texts, streams and errors."""

import numpy as np
import pytest

import fovea


@pytest.fixture(scope="module")
def model():
    made = fovea.Model("gpt", vocabulary=256, width=32, heads=2, inner=32, layers=["softmax", "norm"], max_length=64)
    generator = np.random.default_rng(0)
    for array in made.parameters.values():
        array += 0.3 * generator.standard_normal(array.shape).astype(array.dtype)
    return made


def greedy(model, prompt, count):
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(model(np.array([ids]))[0, -1].argmax()))
    return ids[len(prompt):]


def test_greedy_is_the_argmax_of_the_logits(model):
    prompts = [[3, 1, 4], [7]]
    made = fovea.generate(model, prompts, max_tokens=10)
    for prompt, result in zip(prompts, made):
        assert result.ids.tolist() == greedy(model, prompt, 10)
        assert result.end == "max_tokens"
    assert model.generate(np.array([3, 1, 4]), max_tokens=10).ids.tolist() == made[0].ids.tolist()


def test_texts_and_streams(model):
    heard = []
    made = fovea.generate(model, ["Once", "upon"], max_tokens=12, temperature=1.0, seed=3,
                          stream=lambda prompt, piece: heard.append((prompt, piece)))
    for number, result in enumerate(made):
        assert len(result.ids) == 12
        assert "".join(piece for prompt, piece in heard if prompt == number) == result.text
    again = model.generate(["Once", "upon"], max_tokens=12, temperature=1.0, seed=3)
    assert [r.text for r in again] == [r.text for r in made]
    named = model.generate(["Once", "upon"], max_tokens=12, temperature=1.0, seed=3, tokenizer=fovea.Tokenizer.bytes())
    assert [r.text for r in named] == [r.text for r in made]
    ids = []
    fovea.generate(model, [1, 2], max_tokens=5, stream=lambda prompt, token: ids.append(token))
    assert len(ids) == 5


def test_beams_and_weights(model):
    assert model.generate("ab", max_tokens=6, beams=3).score < 0
    exact, rounded = (model.generate([1, 2, 3], max_tokens=1, weights=w).ids for w in ("f32", "bf16"))
    assert exact.tolist() == rounded.tolist()


@pytest.mark.parametrize("settings", [{"temperature": 1.0, "seed": 2}, {"weights": "int8"}, {"beams": 3}])
def test_texts_do_not_depend_on_their_batch(model, settings):
    prompts = [[i % 7 + 1] * (1 + i % 4) for i in range(35)]
    together = model.generate(prompts, max_tokens=6, **settings)
    alone = model.generate(prompts, max_tokens=6, batch=1, **settings)
    assert [r.ids.tolist() for r in together] == [r.ids.tolist() for r in alone]


def test_what_a_stream_raises_is_raised(model):
    def refuse(prompt, piece):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        model.generate("a", max_tokens=40, stream=refuse)


@pytest.mark.parametrize("settings, words", [
    ({"max_tokens": 0}, "max_tokens"),
    ({"top_k": 5}, "temperature 0"),
    ({"beams": 2, "temperature": 0.5}, "beam search"),
    ({"weights": "int4"}, "int8"),
    ({"tempature": 1.0}, "temperature"),
])
def test_settings_that_are_refused(model, settings, words):
    with pytest.raises(TypeError if "tempature" in settings else ValueError, match=words):
        model.generate("a", **settings)


def test_prompts_that_are_refused(model):
    with pytest.raises(ValueError, match="65 tokens, but the model takes 64"):
        model.generate("a" * 65)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        model.generate([1, 256])
    with pytest.raises(ValueError, match="without tokens"):
        model.generate("")
    with pytest.raises(NotImplementedError, match="does not generate"):
        fovea.Model("transformer", vocabulary=9, classes=2).generate([1])
