"""Which device holds which layer (src/llama-model.cpp, load_tensors).

The last n_gpu_layers of the model's layers and its output layer go to the GPUs, in runs by `tensor_split`; the
rest and the embedding's rows stay with the host. A tied output layer on a GPU is a second copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

HOST = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """`layers[i]` is the GPU of layer i, or HOST; `output` that of the output layer. `pipeline`: the backend can
    run several GPUs as one pipeline (CUDA, HIP and Vulkan can, RPC cannot)."""

    layers: tuple[int, ...]
    output: int
    pipeline: bool = True

    def on(self, device: int) -> tuple[int, ...]:
        """The layers of a device."""
        return tuple(number for number, where in enumerate(self.layers) if where == device)

    @property
    def whole(self) -> bool:
        """Whether everything but the embedding is on GPUs."""
        return HOST not in self.layers and self.output != HOST


def place(
    num_layers: int,
    n_gpu_layers: int,
    gpus: int,
    tensor_split: Sequence[float] = (),
    *,
    output_first: bool = True,
    pipeline: bool = True,
) -> Placement:
    """Where every layer goes. Without `tensor_split` alike cards take equal shares (they go by free memory).
    `output_first`: the output layer is the first that goes to a GPU; else the last, after all others."""
    first = max(0, num_layers + output_first - max(0, n_gpu_layers))
    active = min(max(0, n_gpu_layers), num_layers + 1)
    shares = list(tensor_split)[:gpus] or [1.0] * gpus
    shares += [0.0] * (gpus - len(shares))
    ends = [end / sum(shares) for end in accumulate(shares)] if sum(shares) > 0 else [1.0] * gpus

    def where(layer: int) -> int:
        if layer < first or not active or layer - first >= active:
            return HOST
        return min(bisect_right(ends, (layer - first) / active), gpus - 1)

    return Placement(tuple(where(layer) for layer in range(num_layers)), where(num_layers), pipeline)
