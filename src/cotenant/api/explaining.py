"""An engine's log explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cotenant.api.sources import Progress, load_model, silent

if TYPE_CHECKING:
    from os import PathLike

    from cotenant.api.sources import ModelSource
    from cotenant.domain.explanation import Explanation
    from cotenant.domain.gpu import GpuSpec


def explain(
    log: str | PathLike[str],
    *,
    model: ModelSource | None = None,
    gpu: str | Mapping[str, Any] | GpuSpec | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Where every byte of a running or crashed engine went, from its own log: printed beside predicted.

    `log` is a path (also of a .gz file), "-" for standard input, or the text itself. `model`, `gpu` are taken
    from the log where they are None; a model that the catalogue does not know is not predicted. Of several
    services in one log one that failed is explained, of several starts the last; the others are listed. Raises
    FormatError where nothing of an engine stands in the log, InputError where it cannot be read or says nothing
    about memory.
    """
    from cotenant.diagnosis import explain as diagnose
    from cotenant.edge.logs import known_cards, known_model, log_chunks
    from cotenant.edge.own_gpus import open_gpu
    from cotenant.readers.logs import read_log

    name, size, chunks = log_chunks(log)
    tell = progress or silent
    whole = f" of {size / 2**20:,.0f}" if size else ""
    reading = read_log(chunks, name=name, progress=lambda read: tell(f"{read / 2**20:,.0f}{whole} MiB read"))
    found = reading.foremost
    others = [other for other in reading.measurements if other is not found]
    return diagnose(
        found,
        model=load_model(model) if model is not None else known_model(found.model),
        draft=known_model(str(found.settings.get("draft_model", ""))),
        gpu=None if gpu is None else open_gpu(gpu),
        cards=known_cards(),
        others=others,
        notes=reading.notes,
        input_hash=reading.digest,
    )
