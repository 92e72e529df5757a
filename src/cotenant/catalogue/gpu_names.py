"""Finding a card by what drivers, shops and people call it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from cotenant.domain.gpu import GpuSpec
from cotenant.errors import UnknownGpuError
from cotenant.units import GIB

_APPLE = re.compile(r"\b(apple|metal|mac|macbook|m[1-9])\b", re.IGNORECASE)
_MAKERS = frozenset({"nvidia", "amd", "intel", "geforce", "tesla", "gpu", "instinct"})
_COUNT = re.compile(r"^\s*[1-9][0-9]?\s*[x×*]\s*(?=\S)", re.IGNORECASE)
_SIZE = re.compile(r"[\s,_(-]+([0-9]+(?:\.[0-9]+)?)\s*gi?b?\)?\s*$", re.IGNORECASE)
# Words that make another card of a name: never left out or added by a guess.
_VARIANTS = frozenset({"ti", "super", "xt", "xtx", "gre", "laptop", "mobile", "d", "sff"})
_NEAR = (0.9, 1.03)  # the driver's GiB over the size on the box


def pick(name: str, cards: Sequence[GpuSpec]) -> GpuSpec:
    """The one of `cards` that `name` means: letter by letter, else as a set of words, else as the only card
    that has all its words. A count before it (``8x``) is left out, and a size behind it where the card has that
    size. Raises UnknownGpuError naming the candidates or the nearest."""
    asked = name[:120]
    alone = _COUNT.sub("", asked)
    sized = _SIZE.search(alone)
    tries = [(asked, cards), (alone, cards)]
    if sized is not None:
        tries.append((alone[: sized.start()], [card for card in cards if _holds(card, float(sized.group(1)))]))
    for called, among in tries:
        found = _answering(called, among)
        if found:
            return _only(asked, found)
    raise UnknownGpuError(f"unknown card {asked!r}", hint=_nearest(asked, cards))


def _answering(asked: str, cards: Sequence[GpuSpec]) -> list[GpuSpec]:
    letters, words = _letters(asked), _words(asked)
    variants = words & _VARIANTS
    for matches in (
        lambda called: _letters(called) == letters,
        lambda called: _words(called) == words,
        lambda called: bool(words) and words <= _words(called) and _words(called) & _VARIANTS == variants,
    ):
        found = [card for card in cards if any(map(matches, (card.name, *card.aliases)))]
        if found:
            return found
    return []


def _holds(card: GpuSpec, size: float) -> bool:
    """Whether a card is sold with so many GB."""
    return _NEAR[0] * size <= card.driver_bytes.value / GIB <= _NEAR[1] * size


def _letters(name: str) -> str:
    return "".join(part for part in re.findall(r"[a-z]+|[0-9]+", name.lower()) if part not in _MAKERS)


def _words(name: str) -> frozenset[str]:
    """Runs of letters and of digits; `sxm4` and `sxm` are one word, `80gb` and `80g` another."""
    text = re.sub(r"sxm[0-9]\b", "sxm", name.lower())
    pieces = re.findall(r"[0-9]+(?=gi?b?\b)|[a-z0-9]+", text)
    return frozenset(piece for piece in pieces if piece not in _MAKERS and piece not in ("gb", "g", "gib"))


def _only(asked: str, found: list[GpuSpec]) -> GpuSpec:
    if len(found) == 1:
        return found[0]
    names = ", ".join(card.name for card in found[:8])
    raise UnknownGpuError(f"{asked!r} could be {len(found)} cards", hint=f"say which: {names}")


def _nearest(asked: str, cards: Sequence[GpuSpec]) -> str:
    if asked.strip().lower() in ("cpu", "none"):
        return "there is no card to fill: name the nearest card with -ngl 0, and read what the host's memory holds"
    if _APPLE.search(asked):
        return "what Metal leaves of Apple's unified memory is not known here: describe it as a card of your own"
    by_letters = {_letters(name): card.name for card in cards for name in (card.name, *card.aliases)}
    close = get_close_matches(_letters(asked), by_letters, n=3, cutoff=0.5)
    names = dict.fromkeys(by_letters[key] for key in close)
    return f"nearest: {', '.join(names)}" if names else "`cotenant gpus` lists the cards"
