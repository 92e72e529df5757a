"""`cotenant explain`: where every byte went, from an engine's own log."""

from __future__ import annotations

import click

from cotenant.cli.completions import complete_gpus, complete_models
from cotenant.cli.output import FITS, console, emit, json_option, reports_errors
from cotenant.cli.progress import progress


@click.command("explain")
@click.argument("log", metavar="LOG")
@click.option(
    "--model", shell_complete=complete_models, help="What it runs, where the log's own name says too little."
)
@click.option("--gpu", shell_complete=complete_gpus, help="The card, where the log does not name it.")
@click.option("--save", is_flag=True, help="Keep what was measured, for calibration.")
@json_option
@reports_errors
def command(log: str, model: str | None, gpu: str | None, save: bool, as_json: bool) -> int:
    """Read the LOG of vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp or Ollama (- reads standard input).

    Prints where every byte went, as the engine printed it and as it was predicted, what is left, why memory ran
    out, and the smallest changes that would have worked. Colours, container prefixes, several processes and logs
    of any size are fine; a .gz file too. Exit status 0: the log was read; 1: nothing of an engine stands in it.
    """
    from cotenant import api

    with progress() as report:
        explanation = api.explain(log, model=model, gpu=gpu, progress=report)
    if save:
        from cotenant.edge.calibrations import keep_explanation
        from cotenant.edge.measurements import save_measurement

        click.echo(f"saved {save_measurement(explanation.measurement)}", err=True)
        kept = keep_explanation(explanation)
        if kept is not None:
            click.echo(f"calibrated: {kept.provenance}", err=True)
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.report.explain_document import explain_document

        emit(explain_document(explanation, catalogue=VERSION))
    else:
        from cotenant.report.explain_text import print_explanation

        print_explanation(explanation, console())
    return FITS
