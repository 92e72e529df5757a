# ruff: noqa: E501 - log lines are long
"""Each thing that a person does on the page, at a desk and on a phone, in a real browser against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.root import cli
from cotenant.domain.plan import Plan
from tests.page.conftest import ROOT, fits_the_width, picture, served, slide, state, until

TRIO, SHOP = ROOT / "examples" / "a100-trio.yaml", ROOT / "examples" / "shop-four-types.yaml"
Open = Callable[..., Any]
Planned = Callable[[Path], Plan]
CRASH = """(APIServer pid=1) INFO vLLM API server version 0.11.0
(APIServer pid=1) INFO non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', 'gpu_memory_utilization': 0.9}
(EngineCore_DP0 pid=9) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B-Instruct', \
dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, \
enforce_eager=False, kv_cache_dtype=auto
(EngineCore_DP0 pid=9) INFO Model loading took 14.9889 GiB and 3.0 seconds
(EngineCore_DP0 pid=9) INFO Available KV cache memory: 5.10 GiB
(EngineCore_DP0 pid=9) ERROR ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB \
KV cache is needed, which is larger than the available KV cache memory (5.10 GiB).
"""


@pytest.fixture(scope="session", autouse=True)
def planned() -> Iterator[Callable[[Path], Plan]]:
    """What the page must show of a fleet file: worked out beside the tests, from their start."""
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        plans = {path: beside.submit(cotenant.plan, path) for path in (TRIO, SHOP)}
        yield lambda path: plans[path].result()


def test_the_first_look_is_the_answer(open_page: Open, size: str, planned: Planned) -> None:
    """The example's plan, each byte drawn to scale."""
    page = open_page(size)
    plan = planned(TRIO)
    card = plan.gpus[0]
    bar = page.locator(".card").first.locator(".bar").bounding_box()
    for part in page.locator(".card .part").all():
        share = next(one for one in card.shares if one.replica == part.get_attribute("data-replica"))
        assert part.bounding_box()["width"] / bar["width"] == pytest.approx(
            share.claimed_bytes / card.capacity_bytes, abs=0.006
        )
    assert "proven optimal" in page.locator(".figures").inner_text()
    assert "21 cards" in page.locator(".figures").inner_text()
    fits_the_width(page)
    picture(page, f"{size}-first-look")


def test_hover_and_focus_say_where_bytes_come_from(open_page: Open, size: str, planned: Planned) -> None:
    page = open_page(size)
    page.hover(".part[data-replica=chat] .seg.weights")
    page.wait_for_selector(".tip >> text=70.6B parameters in awq-int4")
    share = planned(TRIO).gpus[0].shares[0]
    assert f"{share.weights_bytes / 2**30:.2f} GiB" in page.locator(".tip").inner_text()
    picture(page, f"{size}-hover")
    page.focus(".label[data-replica=code]")
    page.wait_for_selector(".tip >> text=7.25B parameters in fp8")
    assert "KV cache" in page.locator(".tip").inner_text()


HELD = """import('/static/store.js').then((store) => store.set(({ fleet }) => ({ fleet: { ...fleet, models:
    fleet.models.map((one) => ({ ...one, traffic: { concurrent: 8, context_tokens: { p95: 2048 } } })) } })))"""


@pytest.mark.parametrize(
    ("knob", "value", "term"),
    [
        ("context", 13, "kv_cache"),
        ("rate", 0.3, "kv_cache"),
        ("concurrent", 5, ""),
        ("utilisation", 40, "kv_cache"),
        ("held", 40, ""),
    ],
)
def test_sliders_answer(open_page: Open, size: str, knob: str, value: float, term: str) -> None:
    """The drawn bytes are those of cotenant.estimate with the same words."""
    page = open_page(size)
    page.click(".label[data-replica=code]")
    before = state(page, "answers.code?.document")
    assert before is None
    if knob == "concurrent":  # in place of the example's rate
        page.evaluate(HELD)
        page.wait_for_selector("#knob-concurrent")
    slide(page, knob, value)
    until(page, "now.answers.code")
    found = state(page, "answers.code.document")
    traffic = state(page, "fleet.models[1].traffic")
    asked: dict[str, Any] = traffic | state(page, "fleet.models[1].slo")
    if knob == "utilisation":
        asked["gpu_memory_utilization"] = 0.4
    if knob == "held":
        asked["kv_overflow"] = state(page, "fleet.kv_overflow")
    whole = cotenant.estimate(
        "mistralai/Mistral-7B-Instruct-v0.3", gpu="A100-80GB-SXM", quantization="fp8",
        max_model_len=found["settings"]["max_model_len"], **asked,
    )  # fmt: skip
    assert found["per_gpu"][0]["weights_bytes"] == whole.per_gpu[0].weights.bytes.value
    assert found["kv_cache"]["kv_needed_bytes"] == whole.kv_cache.needed_bytes
    assert "changed since" in page.locator(".solve").inner_text()
    if term:
        picture(page, f"{size}-slider-{knob}")
    fits_the_width(page)


def test_precision_and_cache_type_answer(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.click(".label[data-replica=triage]")
    page.select_option("#knob-precision", "bf16")
    until(page, "now.answers.triage?.document.quantization === 'bf16'")
    page.select_option("#knob-kv-dtype", "fp8")
    until(page, "now.answers.triage?.document.settings.kv_cache_dtype === 'fp8'")
    assert state(page, "fleet.models[2].quantization") == ["bf16"]
    slide(page, "headroom", 25)
    assert state(page, "fleet.headroom") == "25%"


def test_a_model_is_dragged_and_what_breaks_is_said(open_page: Open, size: str) -> None:
    page = open_page(size)
    add_card(page, "L4")
    target = page.locator("[data-card^='L4']")
    page.locator(".label[data-replica=code]").scroll_into_view_if_needed()
    start, end = page.locator(".label[data-replica=code]").bounding_box(), target.bounding_box()
    page.mouse.move(start["x"] + 12, start["y"] + 12)
    page.mouse.down()
    page.mouse.move(start["x"] + 30, start["y"] + 40, steps=3)
    page.mouse.move(end["x"] + 30, end["y"] + end["height"] / 2, steps=5)
    picture(page, f"{size}-dragging")
    page.mouse.up()
    page.wait_for_selector(".note")
    assert page.locator("[data-card^='L4'] .part").get_attribute("data-replica") == "code"
    assert "everything still fits" in page.locator(".note").inner_text()
    # and by keyboard: the 70B does not fit on an L4
    page.focus(".label[data-replica=chat]")
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=status].unseen:has-text('over L4')", state="attached")
    page.keyboard.press(" ")
    page.wait_for_selector(".bad-note")
    assert "weights take 37" in page.locator(".note").inner_text()
    fits_the_width(page)
    picture(page, f"{size}-breaks")
    page.click(".note button")
    assert page.locator("[data-card^='A100'] .part").count() == 3


def test_escape_puts_back_and_the_list_moves_too(open_page: Open) -> None:
    page = open_page()
    add_card(page, "L4")
    page.focus(".label[data-replica=triage]")
    page.keyboard.press(" ")
    page.keyboard.press("Escape")
    assert state(page, "carried") is None
    assert state(page, "checked") is None
    page.click(".label[data-replica=triage]")
    page.select_option("#move-to", index=1)
    page.wait_for_selector(".note")
    assert page.locator("[data-card^='L4'] .part").get_attribute("data-replica") == "triage"


def test_solve_shows_its_progress_and_the_cost(open_page: Open, size: str, planned: Planned) -> None:
    page = open_page(size)
    page.select_option(".top select", "shop-four-types")
    page.wait_for_selector("progress")
    picture(page, f"{size}-solving")
    page.wait_for_selector(".label[data-replica=assistant]")
    plan = planned(SHOP)
    told = page.locator(".figures").inner_text()
    assert f"${plan.cost_per_hour:.2f}/h" in told
    assert "proven optimal" in told
    assert page.locator(".bars > li:not(.ghost)").count() == len(plan.gpus)
    fits_the_width(page)
    picture(page, f"{size}-shop")


def test_what_does_not_fit_is_said(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.select_option(".top select", "does-not-fit")
    page.wait_for_selector(".figures .bad")
    page.wait_for_selector(".bad-note")
    fits_the_width(page)
    picture(page, f"{size}-does-not-fit")


def test_replay_plots_times_memory_and_swaps(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.select_option(".top select", "day-and-night")
    page.wait_for_selector(".label[data-replica=digest], .names >> text=digest")
    page.click("#tab-replay")
    page.select_option("#policy", "swap")
    page.click(".bar-form button.main")
    page.wait_for_selector(".u-wrap canvas")
    titles = page.locator(".plot figcaption").all_inner_texts()
    for word in ("Time to first token", "Time per output token", "Memory in use", "Swaps"):
        assert any(word in title and "over time" in title for title in titles)
    assert page.locator(".plot canvas").count() >= 6
    legends = page.locator(".plot .u-value").all_inner_texts()
    assert not any("--" in one for one in legends)  # nobody points at a plot: the highest values are told
    assert any(one.startswith("max ") and one.endswith(" GiB") for one in legends)
    fits_the_width(page)
    picture(page, f"{size}-replay")


def test_a_log_is_explained(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.click("#tab-explain")
    page.fill("#log", CRASH)
    page.select_option("#log-card", "L4")
    page.click(".ask button.main")
    page.wait_for_selector(".found")
    told = page.locator(".found").inner_text()
    assert "16.00 GiB" in told
    assert "--max-model-len 4" in told
    fits_the_width(page)
    picture(page, f"{size}-explain")


def test_every_target_is_exported(open_page: Open, size: str, tmp_path: Path) -> None:
    page = open_page(size)
    page.click("#tab-export")
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(json.dumps(state(page, "plan")))
    for target in state(page, "catalogue.targets.map((one) => one.name)"):
        page.click(f".chip:text-is('{target}')")
        page.wait_for_selector(f".chip.on:text-is('{target}')")
        page.wait_for_selector(".file-out, .faults")
        done = CliRunner().invoke(cli, ["deploy", str(plan_file), "--to", target, "--json"], prog_name="cotenant")
        told = json.loads(done.stdout)
        if "errors" in told:
            assert told["errors"][0]["error"] in page.locator(".faults").inner_text()
        else:
            assert state(page, "exported.files") == told["files"]
    page.click(".chip:text-is('compose')")
    page.wait_for_selector(".file-out")
    fits_the_width(page)
    picture(page, f"{size}-export")


def test_an_export_is_of_the_plan_that_stands(open_page: Open) -> None:
    """However one comes there: by a link, after a slider, after a move and its end."""
    page = open_page()
    add_card(page, "A100-80GB-SXM")
    page.click("#tab-export")
    page.wait_for_selector(".file-out")
    page.click("text=Copy link")
    page.wait_for_function("location.hash.length > 100")
    linked = open_page(at=page.url)
    linked.wait_for_selector(".file-out")
    slide(page, "headroom", 11)
    assert page.locator(".file-out").count() > 0  # the plan is still this one
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    until(page, "now.checked && now.exported?.plan === now.checked.plan")
    page.wait_for_selector(".file-out")
    page.click("text=Undo the moves")
    until(page, "now.exported?.plan === now.plan")
    page.wait_for_selector(".file-out")


def test_models_are_found_uploaded_and_removed(open_page: Open, size: str, tmp_path: Path) -> None:
    page = open_page(size)
    page.fill("#add-model", "qwen3 8b")
    page.wait_for_selector("[role=option]")
    picture(page, f"{size}-search")
    page.keyboard.press("Enter")
    assert "Qwen3-8B" in state(page, "fleet.models[3].model")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    file = tmp_path / "my <b>own<b> model.json"
    file.write_text(json.dumps(config))
    page.set_input_files(".file input", str(file))
    until(page, "now.fleet.models.length === 5")
    assert state(page, "fleet.models[4].model").startswith("upload-")
    page.click(".model .x >> nth=0")  # the largest: what is left is planned in a second
    page.click(".solve .main")
    until(page, "now.plan?.replicas.some((one) => one.model === now.fleet.models[3].name)")
    picture(page, f"{size}-own-model")
    for remove in reversed(page.locator(".model .x").all()):
        remove.click()
    page.click(".pool .x")
    assert page.locator(".solve .main").is_disabled()
    fits_the_width(page)
    picture(page, f"{size}-empty")


def test_a_link_carries_everything(open_page: Open) -> None:
    page = open_page()
    add_card(page, "L4")
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    page.wait_for_selector(".note")
    slide(page, "context", 12)
    until(page, "now.answers.code?.document.verdict")
    page.click("text=Copy link")
    page.wait_for_selector("text=Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    other = open_page(at=link)
    assert other.locator("[data-card^='L4'] .part").get_attribute("data-replica") == "code"
    for part in ("fleet", "plan", "checked.breaks", "picked", "tab"):
        assert state(other, part) == state(page, part)
    until(other, "now.answers.code?.document.verdict")  # what the slider was told is asked anew
    assert state(other, "answers.code.document.per_gpu") == state(page, "answers.code.document.per_gpu")
    broken = open_page(at=link[:-40], wait=True)
    assert "could not be read" in broken.locator(".faults").inner_text()


def test_script_in_a_name_stays_text(open_page: Open) -> None:
    """A link is anybody's: what it names is shown as it is written, and nothing of it runs."""
    page = open_page()
    evil = "<img src=x onerror=document.title='run'>"
    page.evaluate(
        """(evil) => import('/static/store.js').then((store) => {
            const { plan, fleet } = structuredClone({ plan: store.get().plan, fleet: store.get().fleet });
            fleet.models[0].name = plan.replicas[0].model = evil;
            fleet.models[0].model = evil;
            plan.replicas[0].id = plan.gpus[0].replicas[0].id = evil;
            plan.replicas[0].why = plan.replicas[0].command = evil;
            plan.gpus[0].type = fleet.gpus[0].type = evil;
            plan.warnings = [evil];
            store.set({ plan, fleet });
        })""",
        evil,
    )
    page.wait_for_selector(f'.label[data-replica="{evil}"]')
    page.wait_for_timeout(500)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == "Cotenant"


def test_two_languages_and_two_colours(open_page: Open, size: str) -> None:
    page = open_page(size, locale="zh-CN", color_scheme="dark")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.locator("#models-head").inner_text().startswith("模型")
    fits_the_width(page)
    picture(page, f"{size}-zh-dark")
    english, chinese = page.evaluate(
        """Promise.all([import('/static/words.en.js'), import('/static/words.zh.js')])
            .then(([en, zh]) => [Object.entries(en.en), Object.entries(zh.zh)])"""
    )
    assert [key for key, _ in english] == [key for key, _ in chinese]
    page.click("[aria-label='语言']")
    page.wait_for_selector("#models-head >> text=Models")
    page.click("header button[title]")
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_everything_is_reached_by_keyboard(open_page: Open) -> None:
    """Tab alone visits the whole page, in the order in which it is read."""
    page = open_page()
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        seen.append(str(where))
        if "tab-plan" in seen:
            break
    for wanted in ("skip", "add-model", "main", "knob-context", "knob-headroom", "add-card", "tab-plan"):
        assert any(wanted in one for one in seen), (wanted, seen)
    page.keyboard.press("ArrowRight")
    assert state(page, "tab") == "replay"


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page that follows a real gateway whose engines are elsewhere, and do not answer."""
    pytest.importorskip("aiohttp")
    argv = [sys.executable, "-m", "cotenant", "serve", str(TRIO), "--port", "0"]
    argv += ["--state", str(tmp_path_factory.mktemp("gateway"))]
    argv += [word for name in ("chat", "code", "triage") for word in ("--url", f"{name}=http://127.0.0.1:9")]
    gateway = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        assert gateway.stderr is not None
        said = ""
        while '"port"' not in said and "http://" not in said:
            said = gateway.stderr.readline()
            assert said
        with served("--gateway", f"http://127.0.0.1:{json.loads(said)['port']}") as url:
            yield url
    finally:
        gateway.terminate()
        gateway.communicate(timeout=60)


def test_live_follows_a_gateway(open_page: Open, size: str, followed: str) -> None:
    """What it says of itself, and that its engines do not answer."""
    page = open_page(size, at=followed)
    page.click("#tab-live")
    page.wait_for_selector(".lives table")
    assert page.locator(".lives tbody tr").count() == 3
    page.wait_for_selector(".lives >> text=does not answer")
    assert "of 79.2 GiB" in page.locator(".ledger").inner_text()
    fits_the_width(page)
    picture(page, f"{size}-live")


def add_card(page: Any, name: str) -> None:
    """Choose a card by its name in the search box."""
    page.fill("#add-card", name)
    page.wait_for_selector("[role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"[data-card^='{name}']")
