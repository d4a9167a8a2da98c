"""How the tensors of a form lie: from fovea's (batch, n, heads, dim) and back."""

import torch


class Heads:
    """(batch, heads, n, dim), contiguous."""

    def __init__(self, work):
        pass

    def there(self, x):
        return x.transpose(1, 2).contiguous()

    def back(self, x):
        return x.transpose(1, 2)


class Padded:
    """(sequences, heads, longest, dim); zeros behind the shorter ones."""

    def __init__(self, work):
        self.lengths = list(work.packed)

    def there(self, x):
        parts = x[0].split(self.lengths)
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2).contiguous()

    def back(self, x):
        return torch.cat([row[:, :length].transpose(0, 1) for row, length in zip(x, self.lengths)])[None]


LAYOUTS = {"heads": Heads, "padded": Padded}
