"""What published quality figures say of a format for one model and task.

Losses of the same model decide by their worst. Else those of models of like size (0.4 to 2.5 times; small models
lose more), else all: they let a format pass when all of them do, refuse it when their median does not, and leave
it open otherwise. Perplexity is shown and never compared with a share of accuracy; but where nothing else is known
a rise of more than 10 % refuses: that is three-bit territory, far beyond what eight and four bits do to a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cotenant.catalogue.quantization import quality
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QualityFigure

# Tasks without published figures of their own -> whose stand for them; the last two are words of the catalogue.
_TASKS = {
    "math": "reasoning", "summarization": "chat", "translation": "chat", "vision": "chat",
    "vision-chat": "chat", "base": "chat",
}  # fmt: skip
_SIZE = re.compile(r"(?<![A-Za-z0-9.])([0-9]+(?:\.[0-9]+)?)[bB](?![A-Za-z0-9])")
_LIKE = (0.4, 2.5)
_RUINOUS_PERPLEXITY_PERCENT = 10.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """`passes` is None where the figures leave it open. `compared`: `figure` was held against the limit, else it
    is only shown. `own`: it is of this very model."""

    passes: bool | None
    figure: QualityFigure | None
    compared: bool
    own: bool
    words: str


def evidence(name: str, *, task: str, max_loss_percent: float, model: ModelSpec | None) -> Evidence:
    """What is known of format `name` for `task`, against a loss of `max_loss_percent`."""
    task = _TASKS.get(task, task)
    figures = [figure for figure in quality(name, task) if _has_loss(figure) and not _is_perplexity(figure)]
    if not figures:
        return _only_shown(name, model)
    own = [figure for figure in figures if _same_model(figure, model)]
    if own:
        worst = max(own, key=_loss)
        return Evidence(_loss(worst) <= max_loss_percent, worst, True, True, _quoted(worst))
    ours = _billions(model)
    like = [figure for figure in figures if _like_size(figure, ours)] or figures
    worst, middle = max(like, key=_loss), median(map(_loss, like))
    passes = True if _loss(worst) <= max_loss_percent else (False if middle > max_loss_percent else None)
    return Evidence(passes, worst, True, False, _of_others(like, worst, middle))


def _only_shown(name: str, model: ModelSpec | None) -> Evidence:
    """A figure of another metric or task: of this model where there is one, perplexity before others."""
    figures = [figure for figure in quality(name) if _has_loss(figure)]
    shown = max(figures, key=lambda f: (_same_model(f, model), _is_perplexity(f), _loss(f)), default=None)
    if shown is None:
        return Evidence(None, None, False, False, "no public figure")
    ruinous = _is_perplexity(shown) and _loss(shown) > _RUINOUS_PERPLEXITY_PERCENT
    return Evidence(False if ruinous else None, shown, False, False, f"only known: {_quoted(shown)}")


def _of_others(figures: Sequence[QualityFigure], worst: QualityFigure, middle: float) -> str:
    if len(figures) == 1:
        return _quoted(worst)
    return f"{len(figures)} figures of other models: median {middle:.2g}%, worst {_quoted(worst)}"


def _has_loss(figure: QualityFigure) -> bool:
    return figure.loss_percent is not None


def _loss(figure: QualityFigure) -> float:
    return figure.loss_percent or 0.0


def _is_perplexity(figure: QualityFigure) -> bool:
    return "perplexity" in figure.metric.lower()


def _same_model(figure: QualityFigure, model: ModelSpec | None) -> bool:
    return model is not None and figure.model.lower() == model.name.rsplit("/", 1)[-1].lower()


def _like_size(figure: QualityFigure, ours: float) -> bool:
    theirs = _size(figure.model)
    return bool(theirs and ours) and _LIKE[0] <= theirs / ours <= _LIKE[1]


def _billions(model: ModelSpec | None) -> float:
    """Billions of parameters, counted or as the name says; 0 where neither is known."""
    return 0.0 if model is None else model.num_parameters / 1e9 or _size(model.name)


def _size(name: str) -> float:
    """Billions of parameters as a name says them, 0 where it does not."""
    match = _SIZE.search(name)
    return float(match.group(1)) if match else 0.0


def _quoted(figure: QualityFigure) -> str:
    loss = _loss(figure)
    change = f"lost {loss:g}%" if loss > 0 else f"gained {-loss:g}%" if loss < 0 else "lost nothing"
    if _is_perplexity(figure):
        change = f"perplexity rose {loss:g}%"
    return f"{figure.model} {change} ({figure.metric})"
