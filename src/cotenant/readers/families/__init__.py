"""Model families, one file each: config.json to parameters and layer groups.

A family file holds `BUILDERS`: architecture names and model types to functions from a ConfigView to a Structure.
Nothing else names a family: its file is found by looking for the quoted name in the files' text, so that reading
one model imports one family. A file with a new BUILDERS dropped in here is all that a new family needs.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module, resources

from cotenant.readers.decoder import Builder


@cache
def find_builder(name: str) -> Builder | None:
    """The builder for an architecture or model type, or None. Case matters."""
    for module in _modules():
        if _mentions(module, name):
            builder = _builders(module).get(name)
            if builder is not None:
                return builder
    return None


def find_family(name: str) -> str:
    """The family file that answers for `name`; empty where none does."""
    return next((m for m in _modules() if _mentions(m, name) and name in _builders(m)), "")


def known_names() -> tuple[str, ...]:
    """Every architecture and model type that some family reads; imports all of them."""
    return tuple(sorted(name for module in _modules() for name in _builders(module)))


@cache
def _modules() -> tuple[str, ...]:
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    )


def _mentions(module: str, name: str) -> bool:
    """Whether the file may answer for `name`; one installed without its source is imported to see."""
    text = _text(module)
    return f'"{name}":' in text if text else name in _builders(module)


@cache
def _text(module: str) -> str:
    source = resources.files(__name__).joinpath(f"{module}.py")
    return source.read_text(encoding="utf-8") if source.is_file() else ""


@cache
def _builders(module: str) -> dict[str, Builder]:
    builders: dict[str, Builder] = import_module(f"{__name__}.{module}").BUILDERS
    return builders
