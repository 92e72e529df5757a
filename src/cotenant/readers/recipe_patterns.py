"""Names of modules in a quantisation recipe, held against our tensors: exact names, globs, regular expressions.

Recipes spell a module with its path (``model.language_model.layers.3.self_attn*``), a part of one (``self_attn``)
or a pattern (``re:.*mlp.gate$``). Paths before the layer's number differ by checkpoint and mean nothing here, so
a name counts from the number on. Sources: vLLM 0.33, layers/quantization: modelopt.py (is_layer_excluded),
compressed_tensors/utils.py (should_ignore_layer), utils/quant_utils.py (is_layer_skipped).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import translate

_NUMBERED = re.compile(
    r"^(?P<path>.*?)(?<![a-z])(?:layers|blocks|h|block)\.(?P<number>\d+)(?P<rest>.*)$", re.DOTALL
)
_OTHER_EXPERT = re.compile(r"\.experts\.[1-9]")
_TOWERS = ("vis", "audio", "image", "encoder.", "tower")
_PATHS = ("model.layers", "model.language_model.layers", "language_model.model.layers")
_DRAFT_PATHS = ("mtp", "mtp.layers.0", "model.mtp.layers.0")
_MOST = 40_000  # patterns read; a recipe that names every expert of every layer has as many
_LONGEST = 300
_MOST_REPEATS = 6
_REPEATED_GROUP = re.compile(r"\)[*+{]")


@dataclass(frozen=True, slots=True)
class Patterns:
    """`numbered`: (start of a layer's number, whether it may go on, what follows); `drafts`: the same of a
    prediction layer; `anywhere` and `expressions` hold whatever the layer."""

    numbered: dict[str, frozenset[str]] = field(default_factory=dict)
    open_ended: tuple[str, ...] = ()
    drafts: frozenset[str] = frozenset()
    anywhere: frozenset[str] = frozenset()
    expressions: tuple[re.Pattern[str], ...] = ()

    @property
    def counts_layers(self) -> bool:
        """Whether an expression may tell one layer's number from another's."""
        return any(re.search(r"\\d|[0-9]", pattern.pattern) for pattern in self.expressions)

    def of_layer(self, number: int) -> frozenset[str]:
        """What is said of the layer of that number alone: rests after the number."""
        found = self.numbered.get(str(number), frozenset())
        if any(str(number).startswith(start) for start in self.open_ended):
            return found | {"*"}
        return found

    def hit(self, names: Iterable[str], own: frozenset[str], number: int | None, *, draft: bool = False) -> bool:
        """Whether a module under one of `names` (from the number on, with a leading dot) is meant; `own` are the
        rests of its layer; `draft`: of a prediction layer, which has paths of its own."""
        spelled = tuple(names)
        if any(_matches(rest, name) for rest in own for name in spelled):
            return True
        if any(_part_of(part, name) for part in self.anywhere for name in spelled):
            return True
        if not self.expressions:
            return False
        where = f".{number}" if number is not None else ""
        full = [f"{path}{where}{name}" for path in _PATHS for name in spelled] + [n[1:] for n in spelled]
        if draft:
            full += [f"{path}{name}" for path in _DRAFT_PATHS for name in spelled]
        return any(pattern.match(name) for pattern in self.expressions for name in full)


def read_patterns(items: Iterable[object]) -> Patterns:
    """The patterns of a recipe's list. What is no text, too long or no valid expression is left out."""
    numbered: dict[str, set[str]] = {}
    open_ended, drafts, anywhere = set(), set(), set()
    expressions: list[re.Pattern[str]] = []
    for count, item in enumerate(items):
        if count >= _MOST or not isinstance(item, str) or not 0 < len(item) <= _LONGEST:
            continue
        if item.startswith("re:"):
            expressions += _compiled(item.removeprefix("re:"))
            continue
        if ".experts." in item and _OTHER_EXPERT.search(item):
            continue  # the first stands for all
        found = _NUMBERED.match(item)
        path = found["path"] if found else item
        if any(word in path for word in _TOWERS):
            continue
        if "mtp" in path or "nextn" in path:
            drafts.add(found["rest"] if found and found["rest"] else "*")
        elif found is None and any(sign in item for sign in "*?["):
            expressions += _compiled(translate(item))
        elif found is None:
            anywhere.add(item.strip("."))
        elif found["rest"].startswith("*"):  # layers.1* means 1, 10, 11 ...
            open_ended.add(found["number"])
        else:
            numbered.setdefault(found["number"], set()).add(found["rest"] or "*")
    return Patterns(
        {number: frozenset(rests) for number, rests in numbered.items()}, tuple(sorted(open_ended)),
        frozenset(drafts), frozenset(anywhere), tuple(expressions),
    )  # fmt: skip


def _compiled(text: str) -> list[re.Pattern[str]]:
    if text.count("*") + text.count("+") > _MOST_REPEATS or _REPEATED_GROUP.search(text):
        return []  # what a hostile config could make run for ever; no recipe needs it
    try:
        return [re.compile(text)]
    except re.error:
        return []


def _matches(rest: str, name: str) -> bool:
    """Whether what follows a layer's number means the module: itself, a parent of it, or a glob."""
    if rest == "*":
        return True
    if "*" not in rest:
        return name == rest or name.startswith(f"{rest}.") or rest.strip(".") == ""
    head, _, tail = rest.partition("*")
    return name.startswith(head) and ("*" in tail or name.endswith(tail))


def _part_of(part: str, name: str) -> bool:
    """Whether whole components of the path spell `part`."""
    return f".{part}." in f"{name}."
