"""The flags that an engine's server takes, read from its own source, as data for the tests.

    python tests/contracts/read_flags.py vllm 0.9.2 CLONE@v0.9.2 > flags/vllm/0.9.2.json
    python tests/contracts/read_flags.py sglang 0.5.23 sglang-0.5.23-....whl > flags/sglang/0.5.23.json

The source is a commit of a clone of the engine's repository, or a wheel. A wheel may say which commit it was made
of (`_version.py`); in any case it is named with its digest.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Protocol

_REPOSITORIES = {
    "vllm": "vllm-project/vllm", "sglang": "sgl-project/sglang", "tgi": "huggingface/text-generation-inference",
    "tensorrt-llm": "NVIDIA/TensorRT-LLM", "llama.cpp": "ggml-org/llama.cpp",
}  # fmt: skip


class Source(Protocol):
    """Files of one state of a repository, by their paths in a wheel (a clone may keep them a folder lower)."""

    origin: dict[str, str]

    def names(self) -> list[str]: ...

    def text(self, name: str) -> str: ...


class Commit:
    """A commit of a clone."""

    def __init__(self, clone: str, revision: str) -> None:
        self._clone, self._commit = clone, ""
        self._commit = self._git("rev-parse", f"{revision}^{{commit}}").strip()
        self.origin = {"commit": self._commit}

    def names(self) -> list[str]:
        return self._git("ls-tree", "-r", "--name-only", self._commit).splitlines()

    def text(self, name: str) -> str:
        return self._git("show", f"{self._commit}:{name}")

    def _git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-C", self._clone, *words], check=True, capture_output=True, text=True
        ).stdout


class Wheel:
    """A released wheel."""

    def __init__(self, path: str) -> None:
        self._wheel = zipfile.ZipFile(path)
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        self.origin = {"commit": self._commit(), "package": Path(path).name, "sha256": digest}

    def names(self) -> list[str]:
        return self._wheel.namelist()

    def text(self, name: str) -> str:
        return self._wheel.read(name).decode()

    def _commit(self) -> str:
        told = next((name for name in self.names() if re.fullmatch(r"\w+/_version\.py", name)), None)
        found = re.search(r"^__commit_id__ = .*'g([0-9a-f]+)'", self.text(told), re.MULTILINE) if told else None
        return found[1] if found else ""


Found = tuple[set[str], list[str]]
"""(flags, the files that they stand in)."""


def _matching(source: Source, pattern: str) -> Iterator[tuple[str, str]]:
    """(path, text) of the files whose whole path is like `pattern`."""
    for name in source.names():
        if re.fullmatch(pattern, name):
            yield name, source.text(name)


def _dashed(names: list[str]) -> set[str]:
    return {"--" + name.replace("_", "-") for name in names if not name.startswith("_")}


def _registered(text: str, booleans: Set[str] = frozenset()) -> set[str]:
    """What `add_argument` is given, with the --no- form where the action is argparse's for two: said outright, or
    taken over from a field (`**kwargs["name"]`) that is one of `booleans`."""
    found: set[str] = set()
    for call in ast.walk(ast.parse(text)):
        if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument"):
            continue
        told = {one.value for one in call.args if isinstance(one, ast.Constant) and str(one.value).startswith("-")}
        both = any("BooleanOptionalAction" in ast.unparse(one.value) for one in call.keywords)
        fields = {each for one in call.keywords for each in re.findall(r"\['(\w+)'\]", ast.unparse(one.value))}
        if both or fields & booleans:
            told |= {"--no-" + name[2:] for name in told if name.startswith("--")}
        found |= told
    return found


def _fields(text: str) -> dict[str, str]:
    """Annotated names of every class -> their annotations."""
    return {
        ast.unparse(line.target): ast.unparse(line.annotation)
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.ClassDef)
        for line in each.body
        if isinstance(line, ast.AnnAssign)
    }


def vllm(source: Source) -> Found:
    """Arguments of the engine and of the front end, which are fields of a class since 0.9."""
    files = dict(_matching(source, r"vllm/engine/arg_utils\.py|vllm/entrypoints/\w+/cli_args\.py"))
    if not any(name.endswith("cli_args.py") for name in files):  # before 0.4
        files |= dict(_matching(source, r"vllm/entrypoints/openai/api_server\.py"))
    annotated = {}
    for _, text in _matching(source, r"vllm/config(\.py|/\w+\.py)"):
        annotated |= _fields(text)
    booleans = {name for name, kind in annotated.items() if re.search(r"\bbool\b", kind)}
    flags = set().union(*(_registered(text, booleans) for text in files.values()))
    for name, text in files.items():
        if name.endswith("cli_args.py"):
            flags |= _dashed(list(_fields(text)))
    return flags, sorted(files)


def sglang(source: Source) -> Found:
    """Arguments, or the fields that become arguments, with their other names, since 0.5.12."""
    files = dict(_matching(source, r"(python/)?sglang/srt/(arg_groups/fields/\w+|server_args)\.py"))
    flags: set[str] = set()
    for text in files.values():
        flags |= _registered(text)
        for name, kind in _fields(text).items():
            if kind.startswith("A[") and "no_cli=True" not in kind:
                flags |= _dashed([name]) | set(re.findall(r"'(--?[a-zA-Z][\w-]*)'", kind))
    return flags, sorted(files)


def tgi(source: Source) -> Found:
    """The fields of the launcher's `Args` under a `clap` attribute with `long`."""
    path = "launcher/src/main.rs"
    text = source.text(path)
    args = text[text.index("struct Args {") :]
    named = re.findall(r"#\[clap\([^\]]*\blong\b[^\]]*\)\]\s*(?:pub )?(\w+):", args[: args.index("\n}")])
    return _dashed(named), [path]


def tensorrt_llm(source: Source) -> Found:
    """The options of the `serve` command."""
    path = "tensorrt_llm/commands/serve.py"
    text = source.text(path)
    start = text.index('@click.command("serve")')
    return set(re.findall(r"""["'](--[a-zA-Z]\w*)["']""", text[start : text.index("\ndef serve(", start)])), [path]


def llama_cpp(source: Source) -> Found:
    """Those of the common table that are for all, or for the server; before b3700 what its parser compares."""
    names = source.names()
    if "common/arg.cpp" not in names:
        for path in ("examples/server/server.cpp", "common/common.cpp"):  # the server read its own until June 2024
            if flags := set(re.findall(r'arg == "(--?[a-zA-Z][\w-]*)"', source.text(path))):
                return flags, [path]
    found: set[str] = set()
    for option in re.split(r"\badd_opt\(\s*common_arg\(", source.text("common/arg.cpp"))[1:]:
        groups = re.match(r'(?:\s*\{(?:\s*"-[^"]*"\s*,?)+\}\s*,)+', option)
        whom = re.search(r"\.set_examples\(\{([^}]*)\}", option)
        but = re.search(r"\.set_excludes\(\{([^}]*)\}", option)
        ours = whom is None or re.search(r"_(SERVER|COMMON)\b", whom[1])
        if groups and ours and not (but and re.search(r"_SERVER\b", but[1])):
            found |= set(re.findall(r'"(-[^"]*)"', groups.group()))
    return found, ["common/arg.cpp"]


_READERS: dict[str, Callable[[Source], Found]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tgi": tgi,
    "tensorrt-llm": tensorrt_llm,
    "llama.cpp": llama_cpp,
}


def document(engine: str, version: str, source: Source) -> dict[str, object]:
    """What a file of `flags/` holds."""
    flags, files = _READERS[engine](source)
    said = {"engine": engine, "version": version, "repository": _REPOSITORIES[engine], **source.origin}
    return {**said, "files": files, "flags": sorted(flags)}


def main(engine: str, version: str, where: str) -> None:
    """Prints the document."""
    clone, _, revision = where.rpartition("@")
    source: Source = Wheel(where) if where.endswith(".whl") else Commit(clone, revision)
    print(json.dumps(document(engine, version, source), indent=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
