"""pydantic's faults in our words: what is wrong, the nearest known key, the JSON path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from cotenant.catalogue.strict import nearest, shown
from cotenant.errors import InputError
from cotenant.readers.fleet_hints import below_limit, in_place_of_list, in_place_of_mapping
from cotenant.readers.yaml_text import join

_KINDS = {
    "string_type": ("must be text", "put it in quotes"),
    "int_type": ("must be a whole number", ""),
    "int_from_float": ("must be a whole number", ""),
    "float_type": ("must be a number", ""),
    "finite_number": ("must be a finite number", ""),
    "bool_type": ("must be true or false", ""),
    "list_type": ("must be a list", ""),
    "model_type": ("must be a mapping", ""),
}
_LIMITS = {
    "greater_than": ("gt", "must be above"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be below"),
    "less_than_equal": ("le", "must be at most"),
}


def structural_faults(root: type[BaseModel], value: object, path: str = "$") -> list[InputError]:
    """Every way in which `value` does not have the shape of `root`, in the order of its keys."""
    try:
        root.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [
            _fault(root, item["type"], item["loc"], item["input"], item.get("ctx", {}), path) for item in found
        ]
    return []


def _fault(
    root: type[BaseModel], kind: str, loc: Sequence[int | str], value: Any, context: Mapping[str, Any], path: str
) -> InputError:
    for step in loc:
        path = join(path, step)
    if kind == "cotenant":
        return InputError(context["message"], hint=context["hint"], path=path)
    if kind == "extra_forbidden":
        known = _keys(root, loc[:-1])
        return InputError(f"unknown key {str(loc[-1])[:60]!r}", hint=nearest(str(loc[-1]), known), path=path)
    message, hint = _words(kind, loc, value, context)
    return InputError(message, hint=hint, path=path)


def _words(kind: str, loc: Sequence[int | str], value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    if kind == "missing":
        return f"{loc[-1]!r} is missing", ""
    if kind in _KINDS:
        message, hint = _KINDS[kind]
        if kind == "model_type":
            hint = in_place_of_mapping(loc, value)
        elif kind == "list_type":
            hint = in_place_of_list(value)
        return f"{message}, not {shown(value)}", hint
    if kind in _LIMITS:
        key, message = _LIMITS[kind]
        limit = int(context[key]) if context[key] == int(context[key]) else context[key]
        return f"{message} {limit:,}, not {shown(value)}", below_limit(loc, value)
    if kind == "literal_error":
        words = [word.strip("' ") for word in context["expected"].replace(" or ", ", ").split(",")]
        return f"must be one of {', '.join(words)}, not {shown(value)}", nearest(str(value)[:60], words)
    return _size_words(kind, value, context)


def _size_words(kind: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    if kind == "too_short":
        return f"must hold at least {context['min_length']}, not {context['actual_length']}", ""
    if kind == "too_long":
        return f"must hold at most {context['max_length']}", ""
    if kind == "string_pattern_mismatch":
        return f"{shown(value)} is not a name", "letters, digits, dots, dashes and underscores; at most 63"
    if kind == "string_too_short":
        return "must not be empty", ""
    if kind == "string_too_long":
        return f"is too long: at most {context['max_length']} characters", ""
    return f"is not understood ({kind}): {shown(value)}", ""


def _keys(root: type[BaseModel], loc: Iterable[int | str]) -> list[str]:
    """The keys that are known at `loc` under `root`."""
    model = root
    for step in loc:
        if isinstance(step, str):
            model = _inner(model.model_fields[step].annotation) or model
    return list(model.model_fields)


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The first pydantic model inside a type such as ``list[X] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part)) is not None), None)
