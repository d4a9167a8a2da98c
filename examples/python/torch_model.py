"""A PyTorch model with any attention: torch's MultiheadAttention, and one word more.

    python examples/python/torch_model.py --mechanism cosformer
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import fovea.torch


class Layer(nn.Module):
    def __init__(self, width: int, mechanism: str) -> None:
        super().__init__()
        self.attention = fovea.torch.MultiheadAttention(width, 4, batch_first=True, mechanism=mechanism)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        out: Tensor = x + self.attention(normed, normed, normed)[0]
        return out + torch.relu(self.head(out))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mechanism", default="norm")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(32, options.mechanism) for _ in range(2)), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(options.steps + 1):
        x = torch.randn(16, 64, 32)
        wanted = x[:, :, 0].mean(1, keepdim=True).expand(-1, 64)  # each token must know the mean over all
        loss = (model(x).squeeze(-1) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, options.steps // 5) == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
