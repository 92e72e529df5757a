"""The roofline of one replica: bytes over bandwidth against FLOPs over peak, plus overheads.

    decode step = pnorm(weights(B) + cache(B, c), flops(B, c)) + layers x overhead + all-reduces + B x sequence
    prefill     = pnorm(weights(tokens), flops(tokens), launches) + attention(sum of len^2) + overheads

A prompt longer than a step may read is read in several, each with its own weights, launches and overhead; what it
attends to is the same.

with active experts = E (1 - (1 - k/E)^B): the expected number of distinct experts that B tokens reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from math import pow as power

from cotenant.estimation.step_constants import NORM


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Layers that read alike: `bytes_per_token` of one rank, at most `window` tokens back (None: all)."""

    bytes_per_token: float
    window: int | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """One replica's work per rank and the rates that do it; all times follow.

    `weights_bytes` are read every step, `expert_bytes` as far as experts are active (all ranks' shares are
    alike, so one rank's clock is the step's). `weight_rate`, `cache_rate` are bytes/s, `compute_rate` (matrix
    products) and `attention_rate` (in 16 bits, whatever the weights) FLOP/s, all after efficiency.
    `flops_per_token` are the matrix products of one token, `attention_flops` of one token against one token of
    context (while a prompt is read, `prefill_attention_flops`: MLA then widens its latent row to heads).
    `matmul_factor` stretches matrix products on a slow kernel. `sequence_s` is what a step costs for each sequence
    however many ranks there are (scheduling, sampling), `launch_s` what it takes to launch a prefill kernel by
    kernel (no CUDA graph holds it) while the card works. The two factors scale whole steps to what was measured.
    `chunk_tokens`: the most that one step reads of a prompt (max_num_batched_tokens, n_ubatch).
    """

    weights_bytes: float
    expert_bytes: float
    num_experts: int
    experts_per_token: int
    flops_per_token: float
    attention_flops: float
    prefill_attention_flops: float
    windowed_flops_per_token: float
    cache: tuple[CacheRead, ...]
    state_bytes: float
    weight_rate: float
    cache_rate: float
    compute_rate: float
    attention_rate: float
    matmul_factor: float
    overhead_s: float
    all_reduce_s_per_token: float
    sequence_s: float
    launch_s: float
    first_token_s: float
    low: float
    high: float
    why: str = ""
    decode_factor: float = 1.0
    prefill_factor: float = 1.0
    chunk_tokens: float = inf

    def decode_step_s(self, batch: float, context_tokens: float) -> float:
        """Seconds of one decode step of `batch` sequences that hold `context_tokens` in all."""
        reading = self._weights_s(batch) + self._cache_s(batch, context_tokens)
        products = self.flops_per_token * batch * self.matmul_factor / self.compute_rate
        computing = products + self.attention_flops * context_tokens / self.attention_rate
        beside = self.overhead_s + (self.all_reduce_s_per_token + self.sequence_s) * batch
        return (_norm(reading, computing) + beside) * self.decode_factor

    def prefill_s(self, tokens: float, squares: float | None = None) -> float:
        """Seconds to prefill `tokens`; `squares` is the sum of squared lengths (None: one prompt)."""
        square = tokens * tokens if squares is None else squares
        products, steps = self._products_s(tokens), 1.0
        if tokens > self.chunk_tokens:
            whole = tokens // self.chunk_tokens
            rest = tokens - whole * self.chunk_tokens
            products, steps = whole * self._products_s(self.chunk_tokens), whole
            if rest > 0:
                products, steps = products + self._products_s(rest), steps + 1
        # causal: a token attends to half of its prompt on average
        attention = self.prefill_attention_flops * square / 2 + self.windowed_flops_per_token * tokens
        beside = steps * self.overhead_s + self.all_reduce_s_per_token * tokens
        return (products + attention / self.attention_rate + beside) * self.prefill_factor

    def _products_s(self, tokens: float) -> float:
        """Matrix products of one step that reads `tokens`."""
        multiplying = self.flops_per_token * self.matmul_factor * tokens / self.compute_rate
        return _norm(_norm(self._weights_s(tokens), multiplying), self.launch_s)

    def held_bytes(self, batch: float, context_tokens: float) -> float:
        """Bytes of one rank: the weights that steps may read, and the cache of `batch` sequences."""
        cached = batch * (self._past_bytes(batch, context_tokens) + self.state_bytes)
        return self.weights_bytes + self.expert_bytes + cached

    def active_experts(self, tokens: float) -> float:
        """Expected number of distinct experts a layer that `tokens` tokens reach: E (1 - (1 - k/E)^tokens)."""
        if not self.num_experts:
            return 0.0
        return self.num_experts * (1 - power(1 - self.experts_per_token / self.num_experts, tokens))

    def _weights_s(self, tokens: float) -> float:
        read = self.weights_bytes
        if self.num_experts:
            read += self.expert_bytes * self.active_experts(tokens) / self.num_experts
        return read * self.matmul_factor / self.weight_rate

    def _cache_s(self, batch: float, context_tokens: float) -> float:
        read = self._past_bytes(batch, context_tokens)
        return batch * (read + 2 * self.state_bytes) / self.cache_rate  # a state is read and written back

    def _past_bytes(self, batch: float, context_tokens: float) -> float:
        """What a step reads of one sequence's past, beside its state."""
        mean = context_tokens / batch if batch else 0.0
        read = 0.0
        for layer in self.cache:
            read += layer.bytes_per_token * (mean if layer.window is None else min(mean, layer.window))
        return read


def _norm(first: float, second: float) -> float:
    """The p-norm of two times: between their maximum (full overlap) and their sum (none)."""
    return power(power(first, NORM) + power(second, NORM), 1 / NORM)
