"""`cotenant quantize`: which precision for a model on a card."""

from __future__ import annotations

import click

from cotenant.cli.completions import complete_engines, complete_gpus, complete_models
from cotenant.cli.output import FITS, console, emit, json_option, reports_errors
from cotenant.cli.progress import waiting


@click.command("quantize")
@click.argument("model", shell_complete=complete_models)
@click.option("--gpu", required=True, shell_complete=complete_gpus, help="The card, by any name that it goes by.")
@click.option("--engine", default="vllm", show_default=True, shell_complete=complete_engines,
              help="The engine, with its version if it matters: vllm@0.21.")  # fmt: skip
@click.option(
    "--task", help="What the model is for: chat, code, math, embed, ...; by default what the catalogue says."
)
@click.option("--max-loss", metavar="PERCENT", default="1%", show_default=True, help="Quality that may be lost.")
@json_option
@reports_errors
def command(model: str, gpu: str, engine: str, task: str | None, max_loss: str, as_json: bool) -> int:
    """Which precision for MODEL on a card: kernels, speed, published quality figures, checkpoints, bytes, reasons.

    FP8 first where the card has it, AWQ next where the task is not code, GPTQ where no AWQ checkpoint exists; a
    figure of another metric or model is shown, never compared.
    """
    from cotenant import api
    from cotenant.edge.own_gpus import open_gpu
    from cotenant.estimation.matrix import precision_matrix
    from cotenant.units import parse_percent

    share = parse_percent(max_loss)
    card = open_gpu(gpu)
    with waiting(f"Reading {model}"):
        loaded = api.load_model(model)
    matrix = precision_matrix(loaded, card, engine=engine, task=task, max_loss=share)
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.readers.input_hash import input_hash
        from cotenant.report.catalogue_document import quantize_document

        asked = {"model": model, "gpu": gpu, "engine": engine, "task": task, "max_loss": max_loss}
        emit(quantize_document(matrix, catalogue=VERSION, input_hash=input_hash(asked)))
    else:
        from cotenant.report.quantize_text import print_matrix

        print_matrix(matrix, console())
    return FITS
