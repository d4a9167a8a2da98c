"""fovea inside models of Hugging Face transformers."""

import pytest
import torch
import transformers

import fovea.torch


def llama(implementation):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)


def test_softmax_is_the_model_s_own():
    fovea.torch.register_transformers("softmax")
    ours, theirs = llama("fovea"), llama("eager")
    ours.load_state_dict(theirs.state_dict())
    ids = torch.randint(0, 50, (2, 17))
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-4)
    keep = torch.ones_like(ids)
    keep[1, :6] = 0  # padding in front
    a, b = (model(ids, attention_mask=keep).logits for model in (ours, theirs))
    torch.testing.assert_close(a[0], b[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(a[1, 6:], b[1, 6:], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("mechanism", ["softmax", "norm", "retnet"])
def test_a_model_trains(mechanism):
    fovea.torch.register_transformers(mechanism, name=f"fovea_{mechanism}")
    model = llama(f"fovea_{mechanism}")
    ids = torch.randint(0, 50, (4, 16))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
