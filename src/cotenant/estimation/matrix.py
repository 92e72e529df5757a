"""The decision matrix with its bytes, for a model, a card, an engine and a task."""

from __future__ import annotations

from cotenant.catalogue.strict import nearest
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.matrix import PrecisionMatrix
from cotenant.domain.workload import TASKS
from cotenant.engines import find_engine
from cotenant.errors import InputError
from cotenant.estimation.anatomy import bytes_by_format
from cotenant.estimation.precision import decide


def precision_matrix(
    loaded: LoadedModel, gpu: GpuSpec, *, engine: str = "vllm", task: str | None = None, max_loss: float = 0.01
) -> PrecisionMatrix:
    """Which precision for `loaded` on `gpu`; `max_loss` is a fraction, `task` the model's own where None.

    Raises InputError for an unknown task, UnknownEngineError for an unknown engine.
    """
    if task is not None and task not in TASKS:
        raise InputError(f"unknown task {task[:60]!r}", hint=nearest(task[:60], TASKS))
    rules, version = find_engine(engine)
    asked = task or loaded.task or "chat"
    return PrecisionMatrix(
        model=loaded.spec.name,
        gpu=gpu.name,
        engine=rules.name,
        engine_version=str(version),
        task=asked,
        max_loss_percent=max_loss * 100,
        choices=decide(
            gpu, engine=rules.name, version=version, task=asked, max_loss_percent=max_loss * 100,
            model=loaded.spec, checkpoints=loaded.checkpoints,
        ),
        bytes_by_format=bytes_by_format(loaded.spec),
    )  # fmt: skip
