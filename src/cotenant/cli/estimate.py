"""`cotenant estimate`: what one replica of one model takes of a GPU, byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cotenant.cli.completions import complete_engines, complete_formats, complete_gpus, complete_models
from cotenant.cli.output import (
    DOES_NOT_FIT,
    FITS,
    aiconfigurator_option,
    calibration_option,
    console,
    emit,
    json_option,
    reports_errors,
)
from cotenant.cli.own_options import taken_own_options, with_own_options
from cotenant.cli.progress import waiting
from cotenant.cli.sections import SectionedCommand, option
from cotenant.cli.values import ENGINE_INT, SHARE
from cotenant.domain.defaults import KV_OVERFLOW

if TYPE_CHECKING:
    from cotenant.domain.estimate import Estimate

_ENGINE, _TRAFFIC, _SLO = "Engine options, read as the engine reads them", "Traffic", "Targets"
_LENGTHS = ("p50", "p95", "max")


def _with_lengths(function: Any) -> Any:
    """--input-p50 ... --context-max, declared in reading order."""
    for what in ("output", "input", "context"):
        for part in reversed(_LENGTHS):
            title = "longest that may be asked" if part == "max" else f"{part[1:]}th percentile"
            help_text = f"Tokens of {what}: {title}."
            function = option(_TRAFFIC, f"--{what}-{part}", type=ENGINE_INT, metavar="TOKENS", help=help_text)(
                function
            )
    return function


@click.command("estimate", cls=SectionedCommand)
@click.argument("model", shell_complete=complete_models)
@click.option("--gpu", required=True, shell_complete=complete_gpus, help="The card, by any name that it goes by.")
@click.option("--engine", default="vllm", show_default=True, shell_complete=complete_engines,
              help="The engine, with its version if it matters: vllm@0.21.")  # fmt: skip
@click.option("--quantization", metavar="FORMAT", shell_complete=complete_formats,
              help="Weight format; by default the one that the model is stored in.")  # fmt: skip
@click.option("--used", metavar="SIZE", default="0", help="Held on each card by others, such as 11GiB.")
@option(_ENGINE, "--tensor-parallel-size", "-tp", type=ENGINE_INT, metavar="N", help="GPUs that share each layer.")
@option(
    _ENGINE, "--pipeline-parallel-size", "-pp", type=ENGINE_INT, metavar="N", help="Groups of layers in a row."
)
@option(_ENGINE, "--decode-context-parallel-size", "-dcp", type=ENGINE_INT, metavar="N",
        help="Ranks that share out the cache of each sequence.")  # fmt: skip
@option(_ENGINE, "--speculative-config", metavar="JSON",
        help='Speculative decoding: {"method": "mtp", "num_speculative_tokens": 2}.')  # fmt: skip
@option(_ENGINE, "--max-model-len", type=ENGINE_INT, metavar="TOKENS", help="The longest sequence.")
@option(_ENGINE, "--max-num-seqs", type=ENGINE_INT, metavar="N", help="Sequences in a batch at most.")
@option(_ENGINE, "--max-num-batched-tokens", type=ENGINE_INT, metavar="TOKENS", help="Tokens of one step at most.")
@option(
    _ENGINE, "--gpu-memory-utilization", type=SHARE, metavar="FRACTION", help="Share of the card, such as 0.9."
)
@option(
    _ENGINE, "--kv-cache-memory-bytes", type=ENGINE_INT, metavar="BYTES", help="Size of the KV pool, in its place."
)
@option(_ENGINE, "--kv-cache-dtype", metavar="DTYPE", help="Type of the cached elements, such as fp8.")
@option(_ENGINE, "--dtype", metavar="DTYPE", help="Type of unquantised weights, such as bfloat16.")
@option(_ENGINE, "--block-size", type=ENGINE_INT, metavar="TOKENS", help="Tokens of a block of cache.")
@option(_ENGINE, "--enforce-eager", is_flag=True, help="No CUDA graphs.")
@option(_ENGINE, "--language-model-only", is_flag=True, help="Text alone: no encoder of images is loaded.")
@option(_ENGINE, "--enable-expert-parallel", "-ep", is_flag=True, help="Whole experts on each GPU.")
@option(_ENGINE, "--enable-prefix-caching/--no-enable-prefix-caching", default=None,
        help="Whether a past stays for others that begin alike; of states it takes more.")  # fmt: skip
@option(_ENGINE, "--enable-lora", is_flag=True, help="Room for LoRA adapters.")
@option(_ENGINE, "--max-loras", type=ENGINE_INT, metavar="N", help="Adapters in a batch at most.")
@option(_ENGINE, "--max-lora-rank", type=ENGINE_INT, metavar="RANK", help="The largest rank.")
@with_own_options
@option(_TRAFFIC, "--concurrent", type=int, metavar="N", help="Requests in flight at once.")
@option(_TRAFFIC, "--requests-per-second", type=float, metavar="RATE", help="Requests that arrive in a second.")
@_with_lengths
@option(_TRAFFIC, "--kv-overflow", metavar="PERCENT", default=KV_OVERFLOW, show_default=True,
        help="How often the requests in flight may need more than the pool.")  # fmt: skip
@option(_SLO, "--ttft", metavar="TIME", help="Time to first token, such as 3s.")
@option(_SLO, "--tpot", metavar="TIME", help="Time per output token, such as 80ms.")
@option(_SLO, "--percentile", type=float, default=95.0, show_default=True, help="Of requests that must hold them.")
@calibration_option
@aiconfigurator_option
@json_option
@reports_errors
def command(model: str, gpu: str, as_json: bool, calibration: bool, aiconfigurator: bool, **options: Any) -> int:
    """What one replica of MODEL takes of a GPU: weights, KV cache, activations and runtime, and whether it fits.

    MODEL is a name of the catalogue, a hub id, a folder, a config.json, a .safetensors or a .gguf file. Without
    traffic the engine's own defaults hold; with traffic, what is left open follows from it. Exit status 3: it does
    not fit, may not fit, or a target is not held.
    """
    from cotenant import api

    own = taken_own_options(options)
    given = {name: value for name, value in _words(options).items() if value is not None}
    given |= {"options": own} if own else {}
    with waiting(f"Reading {model}"):
        estimate = api.estimate(model, gpu=gpu, calibration=calibration, aiconfigurator=aiconfigurator, **given)
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.readers.input_hash import input_hash
        from cotenant.report.document import estimate_document

        asked = input_hash({"model": model, "gpu": gpu, **given})
        emit(estimate_document(estimate, catalogue=VERSION, input_hash=asked))
    else:
        from cotenant.report.estimate_text import print_estimate

        print_estimate(estimate, console(), assumed=_assumed(estimate, given))
    return FITS if estimate.fits else DOES_NOT_FIT


def _words(options: dict[str, Any]) -> dict[str, Any]:
    """Options as `cotenant.estimate` names them: the three lengths of each kind as one mapping."""
    words = {name: value for name, value in options.items() if name.rpartition("_")[2] not in _LENGTHS}
    for what in ("context", "input", "output"):
        lengths = {part: options[f"{what}_{part}"] for part in _LENGTHS if options[f"{what}_{part}"] is not None}
        words[f"{what}_tokens"] = lengths or None
    return words


def _assumed(estimate: Estimate, given: dict[str, Any]) -> list[str]:
    """What the user left open and what was put there."""
    from cotenant.engines import own_word

    settings, engine = estimate.settings, f"{estimate.engine} {estimate.engine_version}"
    if estimate.demand is not None:
        sized = [name for name in ("max_model_len", "max_num_seqs") if name not in given]
        figures = " and ".join(f"{name} {getattr(settings, name):,}" for name in sized)
        return [f"{figures} follow{'s' if len(sized) == 1 else ''} from the traffic."] if sized else []
    if settings.llama_cpp is not None:
        return _assumed_context(estimate, given.get("options", {}))
    said, own = [], given.get("options", {}).keys()
    length, seqs = (own_word(estimate.engine, name) for name in ("max_model_len", "max_num_seqs"))
    if "max_model_len" not in given and length not in own:
        all_of_it = settings.max_model_len == estimate.model.max_model_len
        whence = "all that the model takes" if all_of_it else f"the default of {engine}"
        said.append(f"{_flag(length)} was not given: {settings.max_model_len:,} assumed, {whence}.")
    if "max_num_seqs" not in given and seqs not in own and not estimate.model.encoder_only:
        said.append(
            f"{_flag(seqs)} was not given: {settings.max_num_seqs:,}, the default of {engine} on this card."
        )
    return said


def _flag(word: str) -> str:
    return "--" + word.replace("_", "-")


def _assumed_context(estimate: Estimate, own: dict[str, Any]) -> list[str]:
    """The same for an engine that is told its whole context and its slots."""
    options = estimate.settings.llama_cpp
    if options is None or own.keys() & {"ctx_size", "num_ctx", "OLLAMA_CONTEXT_LENGTH"}:
        return []
    slots = f"{options.n_parallel} slots" if options.n_parallel != 1 else "one slot"
    return [f"The context was not given: {options.n_ctx:,} tokens for {slots} assumed."]
