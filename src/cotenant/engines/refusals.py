"""What engines refuse alike before they load anything, and how they write a fraction."""

from __future__ import annotations

from cotenant.domain.engine import EngineSettings
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.errors import UnsupportedError


def refuse_uneven(title: str, model: ModelSpec, settings: EngineSettings) -> None:
    """Raise UnsupportedError where heads or layers cannot be split as asked."""
    ranks = settings.tensor_parallel_size
    for group in model.layer_groups:
        if group.query_heads % ranks:
            raise UnsupportedError(
                f"{title} cannot split {group.query_heads} heads of {model.name} over {ranks} GPUs",
                hint="tensor parallel must divide the number of heads",
            )
        if group.kv_heads and group.kind is not AttentionKind.LATENT:
            many, few = max(group.kv_heads, ranks), min(group.kv_heads, ranks)
            if many % few:
                raise UnsupportedError(
                    f"{title} cannot split {group.kv_heads} key-value heads of {model.name} over {ranks} GPUs",
                    hint="one of the two numbers must divide the other",
                )
    if settings.pipeline_parallel_size > model.num_layers:
        raise UnsupportedError(
            f"{settings.pipeline_parallel_size} pipeline stages are more than the {model.num_layers} layers"
        )


def refuse_share(option: str, share: float | None) -> None:
    """Raise UnsupportedError for a fraction outside of (0, 1]."""
    if share is not None and not 0 < share <= 1:
        raise UnsupportedError(f"{option} {share} is not in (0, 1]")


def refuse_long(option: str, model: ModelSpec, length: int | None) -> None:
    """Raise UnsupportedError for sequences longer than the model was made for."""
    if length is not None and length > model.max_model_len:
        raise UnsupportedError(
            f"{option} {length} is above the {model.max_model_len} of {model.name}",
            hint="longer positions were never learned",
        )


def refuse_newer(
    title: str, release: tuple[int, ...], *flags: tuple[str, bool, tuple[int, ...]], prefix: str = ""
) -> None:
    """Raise UnsupportedError for the first of `flags` (its name, whether it is asked for, the release that brought
    it) that is asked of an older release."""
    for flag, asked, since in flags:
        if asked and release < since:
            first = prefix + ".".join(map(str, since))
            raise UnsupportedError(
                f"{title} knows {flag} from {first} on", hint=f"name a release from {first} on, or leave that out"
            )


def decimal(share: float | None) -> str | None:
    """A fraction with at most four digits and no trailing zeros; None stays None."""
    return None if share is None else f"{share:.4f}".rstrip("0").rstrip(".")


def valued(pairs: tuple[tuple[str, object], ...]) -> tuple[str, ...]:
    """``--flag value`` for every pair whose value is not None."""
    return tuple(part for name, value in pairs if value is not None for part in (name, str(value)))
