"""The flags that an engine's server takes, read from its own source, as data for the tests.

    python tests/contracts/read_flags.py vllm    WHEEL      VERSION SOURCE > flags/vllm.json
    python tests/contracts/read_flags.py sglang  WHEEL      VERSION SOURCE > flags/sglang.json
    python tests/contracts/read_flags.py tgi     main.rs    VERSION SOURCE > flags/tgi.json
    python tests/contracts/read_flags.py tensorrt-llm serve.py  VERSION SOURCE > flags/tensorrt-llm.json
    python tests/contracts/read_flags.py llama.cpp help.txt VERSION SOURCE > flags/llama.cpp.json

`SOURCE` says which repository and commit, or which package, the file is of. `help.txt` is what
`llama-server --help` prints: its own table of arguments.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

_LITERAL = re.compile(r"""["'](--?[a-zA-Z][\w-]*)["']""")


def _dashed(names: list[str]) -> set[str]:
    return {"--" + name.replace("_", "-") for name in names}


def vllm(file: Path) -> set[str]:
    """Literals of the engine's arguments, and the annotated fields that become the front end's."""
    with zipfile.ZipFile(file) as wheel:
        engine = wheel.read("vllm/engine/arg_utils.py").decode()
        front = wheel.read("vllm/entrypoints/launchers/cli_args.py").decode()
    return {*_LITERAL.findall(engine), *_dashed(re.findall(r"^    (\w+): ", front, re.MULTILINE))}


def sglang(file: Path) -> set[str]:
    """The fields of the argument groups, and literal aliases beside them."""
    found: set[str] = set()
    with zipfile.ZipFile(file) as wheel:
        for name in wheel.namelist():
            if re.match(r"sglang/srt/(arg_groups/(fields/)?\w+|server_args)\.py$", name):
                text = wheel.read(name).decode()
                found |= _dashed(re.findall(r"^    (\w+): A\[", text, re.MULTILINE)) | set(_LITERAL.findall(text))
    return found


def tgi(file: Path) -> set[str]:
    """The fields of the launcher's `Args` under a `clap` attribute with `long`."""
    text = file.read_text(encoding="utf-8")
    args = text[text.index("struct Args {") :]
    return _dashed(re.findall(r"#\[clap\([^\]]*\blong\b[^\]]*\)\]\s*(?:pub )?(\w+):", args[: args.index("\n}")]))


def tensorrt_llm(file: Path) -> set[str]:
    """The options of the `serve` command."""
    text = file.read_text(encoding="utf-8")
    start = text.index('@click.command("serve")')
    return set(_LITERAL.findall(text[start : text.index("\ndef serve(", start)]))


def llama_cpp(file: Path) -> set[str]:
    """The first column of the help."""
    found: set[str] = set()
    for line in file.read_text(encoding="utf-8").splitlines():
        column = re.match(r"(?:--?[a-zA-Z][\w-]*(?:,\s*)?)+", line)
        found |= set(re.findall(r"--?[a-zA-Z][\w-]*", column.group())) if column else set()
    return found


_READERS: dict[str, Callable[[Path], set[str]]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tgi": tgi,
    "tensorrt-llm": tensorrt_llm,
    "llama.cpp": llama_cpp,
}


def main(engine: str, file: str, version: str, source: str) -> None:
    """Prints the document."""
    flags = sorted(_READERS[engine](Path(file)))
    print(json.dumps({"engine": engine, "version": version, "source": source, "flags": flags}, indent=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
