"""What a request from the web may name: catalogue names, hub ids and uploads. Never a path or an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import CotenantError, InputError, InputErrors, UnknownModelError

UPLOAD = re.compile(r"upload-[0-9a-f]{32}")
_HUB = re.compile(r"(?P<id>[\w][\w.-]{0,95}/[\w][\w.-]{0,95})(?:@[\w.-]{1,100})?(?::[\w.-]{1,40})?", re.ASCII)
_FILES = (".json", ".gguf", ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".yaml", ".csv")
_HINT = "a name of the catalogue, a hub id (OWNER/NAME), or the id of an upload"

_UPLOAD_HINT = "use a name of the catalogue, or upload the model's config.json or GGUF file"
_PATH_HINT = (
    "drop its config.json or .gguf file under Models, or plan it by `cotenant plan FLEET` on its own machine"
)

Find = Callable[[str], LoadedModel]


def is_hub_id(text: str) -> bool:
    """``OWNER/NAME``, ``OWNER/NAME@REVISION``, ``OWNER/NAME:MIX``: nothing that a file system would climb with."""
    match = _HUB.fullmatch(text)
    return match is not None and ".." not in text and not match["id"].lower().endswith(_FILES)


def refuse_path(text: object, path: str, what: str) -> None:
    """Raise InputError unless `text` could be a hub id or a plain word."""
    plain = isinstance(text, str) and re.fullmatch(r"[\w][\w.:@-]{0,200}", text, re.ASCII)
    if not plain and not (isinstance(text, str) and is_hub_id(text)):
        raise InputError(
            f"{what} is a hub id (OWNER/NAME) here, never a path or an address",
            hint="the command line takes paths", path=path,
        )  # fmt: skip


def opener(known: Mapping[str, LoadedModel]) -> Callable[[object], LoadedModel]:
    """Opens what a request calls a model: what is `known` (uploads, and what was opened before), raw figures, a
    name of the user's own, the catalogue's, the hub's. No file is ever looked for.

    Raises UnknownModelError for anything else, a path among them.
    """

    def load(source: object) -> LoadedModel:
        from cotenant.edge.models import open_model, open_named

        if isinstance(source, Mapping):
            return open_model(source)
        if not isinstance(source, str) or not 0 < len(source) <= 200:
            raise UnknownModelError("a model is named by text of at most 200 characters", hint=_HINT)
        name = source.strip()
        if name in known:
            return known[name]
        if UPLOAD.fullmatch(name):
            raise UnknownModelError(f"no upload {name}: it was forgotten, or never came", hint="upload it again")
        try:
            found = open_named(name)
        except InputError as error:
            raise _for_a_page(error) from None
        if found is None and _is_path(name):
            raise UnknownModelError(f"a page opens no file or folder, and {name[:80]!r} is one", hint=_PATH_HINT)
        if found is None:
            raise UnknownModelError(f"no model {name[:80]!r} that a page may ask for", hint=_HINT)
        return found

    return load


def _is_path(name: str) -> bool:
    """Whether whoever wrote it meant a file or folder: by its start, its end, its steps."""
    if "://" in name:
        return False
    return name.startswith(("/", "./", "../", "~")) or "\\" in name or name.count("/") > 1 or name.endswith(_FILES)


def _for_a_page(error: InputError) -> InputError:
    """The same refusal without what only a command can do: who asks has no folder here and sets no variable."""
    if isinstance(error, InputErrors):
        return error
    message = re.sub(r"\[Errno -?\d+\] ", "", error.message)
    plain = "folder" not in error.hint and "HF_" not in error.hint
    return type(error)(message, hint=error.hint if plain else _UPLOAD_HINT, path=error.path)


def no_trace(name: str) -> NoReturn:
    """Stands where a fleet's traces are opened."""
    raise _trace_fault("")


def _trace_fault(path: str) -> InputError:
    return InputError(
        "a trace is a file, and files are for the command line", hint="give rates and lengths", path=path
    )


def checked_fleet(value: object) -> None:
    """Raise InputErrors for every path or address in a fleet (a mapping): drafts, adapters, checkpoints, traces.

    Models themselves are `opener`'s business; what has another shape than a fleet is its reader's.
    """
    _raise(_fleet_faults(value, "$"))


def checked_words(words: Mapping[str, Any]) -> None:
    """The same for the keyword arguments of an estimate."""
    _raise(_word_faults(words, "$"))


def _raise(faults: Iterator[CotenantError]) -> None:
    found = list(faults)
    if found:
        raise InputErrors(found)


def _fleet_faults(value: object, path: str) -> Iterator[CotenantError]:
    models = value.get("models") if isinstance(value, Mapping) else None
    for number, model in enumerate(models if isinstance(models, list) else ()):
        if isinstance(model, Mapping):
            yield from _word_faults(model, f"{path}.models[{number}]")
            traffic = model.get("traffic")
            if isinstance(traffic, Mapping) and traffic.get("trace") is not None:
                yield _trace_fault(f"{path}.models[{number}].traffic.trace")


def _word_faults(words: Mapping[str, Any], path: str) -> Iterator[CotenantError]:
    for what, text, where in _named(words, path):
        try:
            refuse_path(text, where, what)
        except InputError as fault:
            yield fault


def _named(words: Mapping[str, Any], path: str) -> Iterator[tuple[str, object, str]]:
    """(what it is, the text, where it stands) of all that may name a file or a repository."""
    draft = words.get("speculative_config")
    if isinstance(draft, str) and draft.strip():
        from cotenant.readers.json_text import parse_json

        draft = parse_json(draft, what="speculative_config", path=f"{path}.speculative_config")
    if isinstance(draft, Mapping):
        for key in ("model", "tokenizer", "draft_model"):
            if draft.get(key) is not None:
                yield "a draft", draft[key], f"{path}.speculative_config.{key}"
    options = words.get("options")
    for key, value in (options if isinstance(options, Mapping) else {}).items():
        if isinstance(key, str) and key.strip("-").replace("-", "_").lower().endswith(
            ("path", "_model", "model_draft")
        ):
            yield "a draft", value, f"{path}.options.{key}"
    adapters = words.get("adapters")
    for number, one in enumerate(adapters if isinstance(adapters, list) else ()):
        if isinstance(one, Mapping) and one.get("source"):
            yield "an adapter's source", one["source"], f"{path}.adapters[{number}].source"
    formats = words.get("quantization")
    for number, one in enumerate(formats if isinstance(formats, list) else ()):
        if isinstance(one, Mapping):
            for name, held in one.items():
                if held:
                    yield "a checkpoint", held, f"{path}.quantization[{number}].{name}"
