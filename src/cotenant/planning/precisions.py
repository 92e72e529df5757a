"""Which precisions of a model may run on a type of card, and why the others may not."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.engine import AdapterSlots
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.quantization import PrecisionChoice
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.calibrated import profiles_in_force
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.precision import candidates as able_rows
from cotenant.estimation.precision import decide
from cotenant.estimation.second_source import second_source_in_force
from cotenant.estimation.served_format import served_format
from cotenant.planning.served import Served

RAW_FIGURES = "raw figures"
SIXTEEN_BITS = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Barred:
    """A precision that may not run there. `unproven`: nothing but an unpublished loss speaks against it."""

    format: str
    reason: str
    unproven: bool = False


Precisions = tuple[tuple[Served, ...], tuple[Barred, ...]]
_KNOWN: IdentityCache[Precisions] = IdentityCache(4096)


def precisions_of(request: ModelRequest, gpu: GpuSpec) -> Precisions:
    """(what may run on such cards, in the order of the decision matrix; what may not). Requests for one
    architecture with equal wishes share the answer, and with it all that `Served` works out."""
    key = (
        request.model_id, request.engine, request.task, request.max_loss_percent, request.formats,
        request.kv_cache_dtypes, tuple(request.checkpoints.items()), _slots(request), request.speculation,
        request.max_num_batched_tokens,
    )  # fmt: skip
    in_force = (profiles_in_force(), second_source_in_force())
    return _KNOWN.get((request.model, gpu, *in_force), key, lambda: _precisions(request, gpu))


def _precisions(request: ModelRequest, gpu: GpuSpec) -> Precisions:
    engine, version = find_engine(request.engine)
    rows = decide(
        gpu, engine=engine.name, version=version, task=request.task, model=request.model,
        max_loss_percent=request.max_loss_percent, checkpoints=request.checkpoints, wishes=request.formats,
    )  # fmt: skip
    able = able_rows(rows)
    allowed = [row for row in able if _is_sure(row, request)]
    names = {row.format for row in allowed}
    unproven = {row.format for row in able if not row.quality_known and (row.checkpoint or row.online)}
    barred = [Barred(row.format, row.reason, row.format in unproven) for row in rows if row.format not in names]
    loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
    found = []
    for row in allowed:
        try:
            served = served_format(loaded, row.format, gpu, engine=engine, version=version)
        except UnsupportedError as error:
            barred.append(Barred(row.format, error.message))
            continue
        found += [
            Served(
                request.model,
                gpu,
                engine,
                version,
                row,
                served,
                dtype,
                _slots(request),
                request.speculation,
                request.max_num_batched_tokens,
            )
            for dtype in request.kv_cache_dtypes
        ]
    return tuple(found), tuple(barred)


def _slots(request: ModelRequest) -> AdapterSlots | None:
    if not request.adapters:
        return None
    return AdapterSlots(len(request.adapters), max(adapter.rank for adapter in request.adapters))


def _is_sure(row: PrecisionChoice, request: ModelRequest) -> bool:
    """Whether a plan may choose it unasked: its loss is known to pass, and there is something to load.

    Raw figures are planned as they are given: nobody knows what else there is to load.
    """
    if row.format in request.formats or row.format in SIXTEEN_BITS or row.format == request.model.quantization:
        return True
    if request.model.architecture == RAW_FIGURES:
        return False
    return row.quality_known and bool(row.checkpoint or row.online)
