"""Three models worked out by hand beside the program: `python -m bench.worked_example [--check]`.

Writes docs/worked-example.md. Every equation there is written out from the model's shapes, and
tests/docs/test_worked_example.py works each one out again from the page's own text, apart from the program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

from bench.markdown import equation, gb, gib, main, percent, table, whole
from cotenant import api
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format
from cotenant.domain.estimate import Estimate
from cotenant.domain.model import ModelSpec, ParameterGroup, Role
from cotenant.engines import find_engine
from cotenant.engines.rules import ProfileRules
from cotenant.estimation import runtime as parts
from cotenant.estimation.weights import checkpoint_bytes, rotary_bytes
from cotenant.units import KIB, MIB

GPU, ENGINE = "A100-80GB-SXM", "vllm@0.33"
LENGTH, SEQS = 8192, 16
MODELS = {
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B-Instruct",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "Mistral-7B": "mistralai/Mistral-7B-Instruct-v0.3",
}
FORMATS = ("bf16", "fp8", "awq-int4")
CASES = (("Llama-3.1-70B", "awq-int4"), ("Llama-3.1-8B", "bf16"), ("Mistral-7B", "fp8"))


@cache
def spec(name: str) -> ModelSpec:
    """The model's structure, from the catalogue."""
    return api.load_model(MODELS[name]).spec


@cache
def estimate(name: str, form: str, seqs: int = SEQS) -> Estimate:
    """One replica whose pool holds `seqs` sequences of the whole length."""
    pool = seqs * LENGTH * kv_token(name)
    return api.estimate(
        MODELS[name], gpu=GPU, engine=ENGINE, quantization=form, max_model_len=LENGTH, max_num_seqs=seqs,
        kv_cache_memory_bytes=pool,
    )  # fmt: skip


def kv_token(name: str) -> int:
    """2 x layers x key-value heads x head dimension x 2 bytes: for models of full attention layers alone."""
    (group,) = spec(name).layer_groups
    return 2 * group.num_layers * group.kv_heads * group.key_width * 2


def matrices(model: ModelSpec) -> list[ParameterGroup]:
    """What the formats quantise: the linear layers of attention and feed-forward."""
    return [group for group in model.parameters_of(Role.ATTENTION, Role.MLP) if len(group.shape) == 2]


def render() -> str:
    """The whole page."""
    parts = (_head(), _parameters(), _weights(), _cache(), _activations(), _runtime(), _sums(), _mistakes())
    return "\n\n".join(parts) + "\n"


def _head() -> str:
    version = estimate("Llama-3.1-8B", "bf16").engine_version
    return f"""# Three models by hand

<!-- Written by `python -m bench.worked_example`; edit that file, not this page. -->

Llama-3.1-70B, Llama-3.1-8B and Mistral-7B (v0.3) on one {GPU} with vLLM {version}: what each of the four terms is
made of, so that a pencil gives what `cotenant estimate` prints. GB is 10^9 bytes, GiB 2^30. Weights and KV cache
come out to the byte; activations and runtime follow rules with an interval, which the program prints beside them.
Every equation on this page is worked out again from its text by a test."""


def _parameters() -> str:
    parts = ["## 1. Parameters, tensor by tensor"]
    for name in MODELS:
        model = spec(name)
        rows = [
            [group.name, _shape(group), equation(_product(group), group.elements)] for group in model.parameters
        ]
        entry = find_entry(MODELS[name])
        published = entry.published.parameters if entry else 0
        total = " + ".join(whole(group.elements) for group in model.parameters)
        parts.append(f"**{name}**: {model.num_layers} layers")
        parts.append(table(("tensor", "shape", "how many x shape"), rows, left=2))
        parts.append(f"{equation(total, model.num_parameters)}, and its published total is {whole(published)}.")
    return "\n\n".join(parts)


def _shape(group: ParameterGroup) -> str:
    return " x ".join(f"{side:,}" for side in group.shape)


def _product(group: ParameterGroup) -> str:
    sides = [group.count, *group.shape] if group.count > 1 else list(group.shape)
    return " x ".join(f"{side:,}" for side in sides)


def _weights() -> str:
    parts = [
        "## 2. Weights",
        """- **BF16**: 2 bytes a parameter.
- **FP8** (one scale an output channel): 1 byte for each element of the linear layers, 2 bytes for each of their
  output rows, 2 bytes for all that stays in 16 bits: embedding, head, norms.
- **AWQ INT4** (groups of 128 inputs): half a byte for each element of the linear layers, and for each group a
  scale of 2 bytes and a zero point of half a byte; the rest in 16 bits.""",
    ]
    rows = []
    for name in MODELS:
        model = spec(name)
        inner = sum(group.elements for group in matrices(model))
        outputs = sum(group.count * group.shape[0] for group in matrices(model))
        rest = model.num_parameters - inner
        sums = (
            f"2 x {whole(model.num_parameters)}",
            f"{whole(inner)} + 2 x {whole(outputs)} + 2 x {whole(rest)}",
            f"{whole(inner)} / 2 + {whole(inner)} / 128 x 2.5 + 2 x {whole(rest)}",
        )
        for form, words in zip(FORMATS, sums, strict=True):
            size = checkpoint_bytes(model, find_format(form))
            each = f"{size / model.num_parameters:.3f}"
            rows.append([name, form, equation(words, size), gb(size), gib(size), each])
    parts.append(table(("model", "format", "bytes", "GB", "GiB", "bytes a parameter"), rows, left=3))
    parts.append(
        """The process holds a little more than the files: the table of rotary positions (positions x head
dimension x 2 bytes: {long} and {short}), and what
PyTorch rounds up, since it takes pieces above 10 MiB in steps of 2 MiB.""".format(
            long=equation("131,072 x 128 x 2", rotary_bytes(spec("Llama-3.1-8B"))),
            short=equation("32,768 x 128 x 2", rotary_bytes(spec("Mistral-7B"))),
        )
    )
    held = []
    for name in MODELS:
        for form in FORMATS:
            model = spec(name)
            files, rotary = checkpoint_bytes(model, find_format(form)), rotary_bytes(model)
            process = estimate(name, form).per_gpu[0].weights.bytes.value
            held.append([name, form, whole(files), whole(rotary), whole(process - files - rotary), whole(process)])
    parts.append(table(("model", "format", "files", "+ rotary table", "+ rounding", "held by vLLM"), held, left=2))
    return "\n\n".join(parts)


def _cache() -> str:
    rows = []
    for name in MODELS:
        (group,) = spec(name).layer_groups
        token = estimate(name, "awq-int4").kv_cache.bytes_per_token
        words = f"2 x {group.num_layers} x {group.kv_heads} x {group.key_width} x 2"
        one, slots = LENGTH * token, SEQS * LENGTH * token
        rows.append(
            [name, equation(words, token), equation(f"{LENGTH:,} x {whole(token)}", one), gib(one),
             equation(f"{SEQS} x {whole(one)}", slots), gib(slots)]
        )  # fmt: skip
    head = ("model", "bytes a token", f"one sequence of {LENGTH:,}", "", f"{SEQS} of them", "")
    return f"""## 3. KV cache

Keys and values: 2 x layers x key-value heads x head dimension x bytes an element. The precision of the weights
does not matter; the cache stays in 16 bits unless `kv_cache_dtype` says otherwise.

{table(head, rows)}"""


def _profile(name: str, engine: str = ENGINE) -> ProfileRules:
    rules, version = find_engine(engine)
    return rules.profile(spec(name), version, find_gpu(GPU))


def _layer(name: str, tokens: int) -> tuple[str, float]:
    """(words, bytes) of the widest layer of a dense model with gated feed-forward, compiled."""
    inner, hidden = 2 * spec(name).intermediate_size, spec(name).hidden_size
    return f"{tokens:,} x (2 x {hidden:,} + 1.5 x {inner:,}) x 2", tokens * (2 * hidden + 1.5 * inner) * 2


def _sampler(name: str, tokens: int, rows: int, rules: ProfileRules) -> tuple[str, float]:
    """(words, bytes) of the sampler's peak."""
    each = rules.logit_bytes_small if rows < rules.small_rows else rules.logit_bytes
    vocab, hidden = spec(name).vocab_size, spec(name).hidden_size
    return (
        f"{rows} x {vocab:,} x {each:g} + {tokens:,} x {hidden:,} x 2",
        rows * vocab * each + tokens * hidden * 2,
    )


def _resident(name: str, rows: int, rules: ProfileRules) -> tuple[str, float]:
    """(words, bytes) of what is kept for every slot and token of the vocabulary."""
    vocab, each = spec(name).vocab_size, rules.resident_logit_bytes
    return f"{rows} x {vocab:,} x {each:g}", rows * vocab * each


def _activations() -> str:
    rows = []
    for name in MODELS:
        tokens = estimate(name, "awq-int4").settings.max_num_batched_tokens or 0
        parts = (
            _layer(name, tokens),
            _sampler(name, tokens, SEQS, _profile(name)),
            _resident(name, SEQS, _profile(name)),
        )
        found = estimate(name, "awq-int4").per_gpu[0].activations.bytes
        rows.append(
            [
                name,
                *(equation(*part) for part in parts),
                whole(found.value),
                f"{gib(found.low)} to {gib(found.high)}",
            ]
        )
    head = ("model", "a: widest layer", "b: sampler", "c: kept", "larger of a and b, + c", "90 % interval")
    return f"""## 4. Activations

vLLM measures its own peak before it sizes the pool: a run of `max_num_batched_tokens` (2,048 by default on this
card), then `max_num_seqs` rows of logits through the sampler. The larger of the two counts, with what is kept.

- a: the residual and the normed input, gate and up together, and their product (half as wide), 2 bytes each
- b: what is alive for each logit at the sampler's peak, by version, and the hidden states of the run
- c: from 0.27 on, with the second model runner: a count of every token for every slot, and a bit of the prompt

{table(head, rows)}

Weights have no part in it: it is no share of them. `max_num_seqs` and the version have. Llama-3.1-8B in BF16 with
the default of 256 sequences:

{_by_version()}"""


def _by_version() -> str:
    rows = []
    for engine in ("vllm@0.12", "vllm@0.21", "vllm@0.33"):
        found = api.estimate(
            MODELS["Llama-3.1-8B"], gpu=GPU, engine=engine, max_model_len=LENGTH, max_num_seqs=256,
            max_num_batched_tokens=2048,
        )  # fmt: skip
        rules = _profile("Llama-3.1-8B", engine)
        layer, sampler = _layer("Llama-3.1-8B", 2048), _sampler("Llama-3.1-8B", 2048, 256, rules)
        kept = _resident("Llama-3.1-8B", 256, rules)
        words, size = max(layer, sampler, key=lambda part: part[1])
        if kept[1]:
            words, size = f"{words} + {kept[0]}", size + kept[1]
        what = "sampler" if sampler[1] > layer[1] else "layer"
        rows.append([engine, what, equation(words, size), whole(found.per_gpu[0].activations.bytes.value)])
    return table(("version", "larger", "bytes", "as estimated"), rows, left=2)


def _runtime() -> str:
    rows = []
    engine, version = find_engine(ENGINE)
    rules = engine.rules(version, find_gpu(GPU)).runtime
    fixed = [each.value // MIB for each in (parts._LIBRARIES, parts._CONTEXT)] + [parts._GRAPH_POOL // MIB]
    nodes = parts._ESTIMATED_NODES  # what this release of vLLM subtracts before it captures
    for name in MODELS:
        found = estimate(name, "awq-int4")
        graphs, layers = parts.graph_count(found.settings, rules), spec(name).num_layers
        size = found.per_gpu[0].runtime.bytes
        words = f"({' + '.join(map(str, fixed))}) x {MIB:,} + {graphs} x {layers} x {nodes:,}"
        rows.append([name, str(graphs), equation(words, size.value), f"{gib(size.low)} to {gib(size.high)}"])
    return f"""## 5. Runtime

Kernels and library workspaces ({fixed[0]} MiB), the CUDA context ({fixed[1]} MiB), and CUDA graphs: {fixed[2]} MiB
for what they keep and {nodes // KIB} KiB a graph and layer. These are the middle of what engines print, and the
least certain of the four.

{table(("model", "CUDA graphs", "bytes", "90 % interval"), rows)}"""


def _sums() -> str:
    parts = [f"## 6. The sum, beside `cotenant estimate`\n\nRoom for {SEQS} sequences of {LENGTH:,} tokens each:"]
    rows = []
    for name, form in CASES:
        found = estimate(name, form)
        rank = found.per_gpu[0]
        sizes = [term.bytes.value for term in rank.terms.values()]
        words = " + ".join(map(whole, sizes))
        share = rank.footprint_bytes / rank.capacity.value
        rows.append([f"{name} {form}", equation(words, rank.footprint_bytes), gib(rank.footprint_bytes),
                     percent(share), str(found.verdict)])  # fmt: skip
    head = (
        "replica",
        "weights + KV cache + activations + runtime",
        "together",
        f"of {gib(rank.capacity.value)}",
        "",
    )
    parts.append(table(head, rows, left=2))
    commands = [
        f"    cotenant estimate {MODELS[name]} --gpu {GPU} --engine {ENGINE} --quantization {form} \\\n"
        f"        --max-model-len {LENGTH} --max-num-seqs {SEQS} "
        f"--kv-cache-memory-bytes {SEQS * LENGTH * kv_token(name)}"
        for name, form in CASES
    ]
    return "\n\n".join([*parts, "\n".join(commands)])


def _mistakes() -> str:
    big, small = kv_token("Llama-3.1-70B"), kv_token("Llama-3.1-8B")
    heads = spec("Llama-3.1-70B").layer_groups[0].query_heads
    all_heads = 2 * 80 * heads * 128 * 2
    awq, params = (
        checkpoint_bytes(spec("Llama-3.1-70B"), find_format("awq-int4")),
        spec("Llama-3.1-70B").num_parameters,
    )
    rank = estimate("Llama-3.1-70B", "awq-int4").per_gpu[0]
    weights, active = rank.weights.bytes.value, rank.activations.bytes.value
    skeleton = LENGTH * small * SEQS * LENGTH
    rows = [
        ["0.03 MB a token for Llama-3.1-8B or Mistral-7B", f"{whole(0.03e6)} B", f"{whole(small)} B",
         f"{small / 0.03e6:.1f} x too little"],
        ["grouped queries ignored: 64 heads cached instead of 8", f"{whole(all_heads)} B", f"{whole(big)} B",
         f"{all_heads // big} x too much"],
        ["the cache of a whole sequence times its length again (16 x 8,192 tokens, 8B)", gib(skeleton, 0),
         gib(SEQS * LENGTH * small), f"{LENGTH:,} x too much"],
        ["INT4 as half a byte a parameter (70B): embedding, scales, zeros forgotten", gb(params / 2), gb(awq),
         f"{percent(1 - params / 2 / awq)} too little"],
        ["80 GB taken for 80 GiB", gib(80e9), "80.00 GiB", "6.9 % too little"],
        ["80 GiB taken for what CUDA gives", "80.00 GiB", gib(rank.capacity.value),
         f"{percent(80 * 2**30 / rank.capacity.value - 1)} too much"],
        ["activations as 5 to 15 % of the weights (70B, AWQ)", f"{gib(0.05 * weights)} to {gib(0.15 * weights)}",
         gib(active), f"{percent(active / weights)} of the weights"],
        ["weights alone (70B, AWQ, 16 x 8,192)", gib(weights), gib(rank.footprint_bytes),
         f"{gib(rank.footprint_bytes - weights)} forgotten"],
    ]  # fmt: skip
    head = ("mistake", "it gives", "instead of", "")
    return f"## 7. The usual mistakes beside it\n\n{table(head, rows)}"


def run(argv: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    return main("worked-example.md", render, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(run())
