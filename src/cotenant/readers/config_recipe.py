"""How each tensor of a quantised checkpoint is stored, from its quantization_config: schemes and what they skip.

Without such a section, or where a part of it has no rule here, the named format decides by role. Sources:
compressed-tensors (quantization/quant_config.py), ModelOpt's hf_quant_config (exclude_modules, quantized_layers),
AutoRound's extra_config, GPTQModel's dynamic, and what vLLM 0.33 makes of them in layers/quantization.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant.domain.model import ParameterGroup, Role
from cotenant.domain.storage import Storage
from cotenant.readers.blocks import Groups
from cotenant.readers.config_quantization import quantization_section
from cotenant.readers.module_names import module_names
from cotenant.readers.recipe_patterns import Patterns, read_patterns
from cotenant.readers.recipe_schemes import algorithm_storage, group_storage, plain_storage

_WHOLE = (Role.ATTENTION, Role.MLP, Role.EXPERT, Role.STATE)
"""Linear layers that a scheme for all of them reaches; gates, towers and vocabularies only by name."""
_SKIPS = (
    "ignore",
    "modules_to_not_convert",
    "exclude_modules",
    "llm_int8_skip_modules",
    "exclude",
    "ignored_layers",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """`default` serves every linear layer that nothing else names (None: only what is named); `named` are schemes
    with the modules that they are for; `skipped` stay in the model's dtype."""

    default: Storage | None
    named: tuple[tuple[Patterns, Storage], ...]
    skipped: Patterns

    def storage(
        self, group: ParameterGroup, names: tuple[str, ...], number: int | None
    ) -> tuple[Storage, ...] | None:
        """() = the model's dtype; None = nothing is said of such tensors."""
        if self._hit(self.skipped, group, names, number):
            return ()
        for patterns, storage in self.named:
            if self._hit(patterns, group, names, number):
                return (storage,)
        if group.role not in _WHOLE:
            return None
        return () if self.default is None else (self.default,)

    def of_layer(self, number: int) -> Hashable:
        """Equal for layers of which nothing different is said."""
        patterns = [self.skipped, *(each for each, _ in self.named)]
        by_number = any(each.counts_layers for each in patterns)
        return (*(each.of_layer(number) for each in patterns), number if by_number else -1)

    @staticmethod
    def _hit(patterns: Patterns, group: ParameterGroup, names: tuple[str, ...], number: int | None) -> bool:
        own: frozenset[str] = frozenset()
        if group.draft:
            own = patterns.drafts
        elif number is not None:
            own = patterns.of_layer(number)
        return patterns.hit(names, own, number, draft=group.draft)


def stored_as(parameters: Groups, config: Mapping[str, Any], *, family: str, layers: int) -> Groups:
    """The tensors with how the checkpoint stores each; those of layers that differ are split. Never raises."""
    section = quantization_section(config)
    recipe = None if section is None else read_recipe(section, config)
    if recipe is None:
        return parameters
    found: list[ParameterGroup] = []
    alike = [recipe.of_layer(number) for number in range(layers)]
    for group in parameters:
        if len(group.shape) < 2 or group.role in (Role.NORM, Role.VISION, Role.OTHER, Role.ROUTER, Role.EMBEDDING):
            found.append(group)
        elif group.layers:
            found += _by_layer(group, recipe, family, alike)
        else:
            found.append(replace(group, own_storage=_of_one(group, recipe, family, layers)))
    return tuple(found)


def _of_one(group: ParameterGroup, recipe: Recipe, family: str, layers: int) -> tuple[Storage, ...] | None:
    """A tensor outside the numbered layers; a prediction layer may be numbered as the one behind the last."""
    names = module_names(group.name.removeprefix("mtp."), family)
    if group.draft and recipe.skipped.hit(names, recipe.skipped.of_layer(layers), layers, draft=True):
        return ()
    return recipe.storage(group, names, layers if group.draft else None)


def _by_layer(group: ParameterGroup, recipe: Recipe, family: str, alike: list[Hashable]) -> list[ParameterGroup]:
    """The group, split where its layers are stored in more than one way; layers that are said alike are so."""
    names = module_names(group.name, family)
    known: dict[Hashable, tuple[Storage, ...] | None] = {}
    kinds: dict[tuple[Storage, ...] | None, list[int]] = {}
    for number in group.layers:
        key = alike[number] if number < len(alike) else number
        if key not in known:
            known[key] = recipe.storage(group, names, number)
        kinds.setdefault(known[key], []).append(number)
    return [replace(group, layers=tuple(numbers), own_storage=kind) for kind, numbers in kinds.items()]


def read_recipe(section: Mapping[str, Any], config: Mapping[str, Any]) -> Recipe | None:
    """The recipe of a quantization_config; None where its schemes have no rule here."""
    inner = section.get("quantization")
    if isinstance(inner, Mapping):  # ModelOpt's own file, carried over whole
        section = {**section, **inner}
    exceptions = _exceptions(section)
    plain = [name for name, how in exceptions if name.startswith("-:") or how.get("bits") in (16, 32)]
    skipped = read_patterns(
        [*(item for key in _SKIPS for item in _listed(section.get(key))), *map(_spelled, plain)]
    )
    layers = section.get("quantized_layers")
    if isinstance(layers, Mapping) and layers:
        return _by_name(layers, section, config, skipped)
    groups = section.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        return _by_group(groups, skipped)
    others = [(name, how) for name, how in exceptions if name not in plain]
    return _by_exception(section, config, skipped, others)


def _by_name(
    layers: Mapping[str, Any], section: Mapping[str, Any], config: Mapping[str, Any], skipped: Patterns
) -> Recipe | None:
    """ModelOpt's mixed precision: the algorithm of each module by its name; what is not named stays plain, but
    where a method of its own stands for the rest (DeepSeek-V4: FP8 around NVFP4 experts)."""
    by_storage: dict[Storage, list[str]] = {}
    for name, how in layers.items():
        storage = algorithm_storage(how.get("quant_algo")) if isinstance(how, Mapping) else None
        if storage is None:
            return None
        by_storage.setdefault(storage, []).append(name)
    named = tuple((read_patterns(names), storage) for storage, names in by_storage.items())
    rest = plain_storage(section, config) if section.get("quant_method") == "fp8" else None
    return Recipe(rest, named, Patterns() if rest is not None else skipped)


def _by_group(groups: Mapping[str, Any], skipped: Patterns) -> Recipe | None:
    """compressed-tensors and ModelOpt: groups of targets, ``Linear`` for all that are left."""
    default: Storage | None = None
    named: list[tuple[Patterns, Storage]] = []
    for group in groups.values():
        storage = group_storage(group) if isinstance(group, Mapping) else None
        if storage is None:
            return None
        targets = _listed(group.get("targets")) or ["Linear"]
        if "Linear" in targets:
            default = storage
        else:
            named.append((read_patterns(targets), storage))
    return Recipe(default, tuple(named), skipped)


def _by_exception(
    section: Mapping[str, Any],
    config: Mapping[str, Any],
    skipped: Patterns,
    others: list[tuple[str, Mapping[str, Any]]],
) -> Recipe | None:
    """One scheme for all linear layers, with others for some (AutoRound's extra_config, GPTQModel's dynamic)."""
    default = plain_storage(section, config)
    if default is None:
        return None
    only = _listed(section.get("modules_in_block_to_quantize"))
    if only:
        flat = [part for item in only for part in (item if isinstance(item, list) else [item])]
        return Recipe(None, ((read_patterns(flat), default),), skipped)
    by_storage: dict[Storage, list[str]] = {}
    for name, how in others:
        storage = plain_storage({**section, **how}, config)
        if storage is not None:
            by_storage.setdefault(storage, []).append(_spelled(name))
    return Recipe(default, tuple((read_patterns(names), one) for one, names in by_storage.items()), skipped)


def _exceptions(section: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for key in ("extra_config", "dynamic"):
        part = section.get(key)
        if isinstance(part, Mapping):
            found += [(str(name), how if isinstance(how, Mapping) else {}) for name, how in part.items()]
    layers = section.get("layer_quant_config")  # Quark's
    if isinstance(layers, Mapping):
        found += [(str(name), {"global_quant_config": how}) for name, how in layers.items()]
    return found


def _spelled(name: str) -> str:
    """GPTQModel's ``-:`` and ``+:`` and AutoRound's bare expressions as ours."""
    for sign in ("-:", "+:"):
        if name.startswith(sign):
            return f"re:{name.removeprefix(sign)}"
    return f"re:{name}" if ".*" in name or "\\" in name else name


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
