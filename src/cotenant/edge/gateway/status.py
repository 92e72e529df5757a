"""What the gateway is doing, as JSON and as a page without scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from cotenant.edge.gateway.core import HOST_MEMORY, Core
from cotenant.serving.replica import State
from cotenant.units import format_bytes

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b7dd8; --quiet: #777 }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.number, th.number { padding: .4rem 0 .4rem .8rem } .name { white-space: nowrap }
.bar { background: var(--line); height: .7rem; border-radius: .35rem; overflow: hidden; min-width: 6rem }
.bar span { display: block; background: var(--bar); height: 100% } .quiet { color: var(--quiet) }
@media (max-width: 36rem) { body { margin: 1rem auto } .model { display: none } .bar { min-width: 2.5rem }
  th, td { padding-right: .4rem } }
"""


def status_document(core: Core) -> dict[str, Any]:
    """Models with their queues, replicas with their states, devices with their bytes."""
    floor = core.router.floor
    return {
        "draining": floor.draining_ns is not None,
        "models": [
            {"name": one.name, "waiting": one.waiting.count, "priority": one.priority}
            for one in floor.models
            if floor.serves(one) or one.waiting.count
        ],
        "replicas": [
            {
                "id": one.host.id,
                "model": one.host.model,
                "state": one.state.name.lower(),
                "running": len(one.running),
                "slots": one.host.slots,
                "held_bytes": floor.ledger.holds(one.index),
                "retires": one.retires,
                "failures": one.failures,
                "reason": one.reason if one.failures else "",
            }
            for one in floor.replicas
            if not (one.retires and one.state is State.STOPPED)
        ],
        "devices": [
            {"name": name, "held_bytes": held, "capacity_bytes": capacity}
            for name, held, capacity in zip(core.devices, floor.ledger.held, floor.ledger.capacity, strict=True)
            if name != HOST_MEMORY
        ],
    }


def status_page(core: Core) -> str:
    """The same for people; it asks again every five seconds."""
    told = status_document(core)
    replicas = "".join(_replica(one) for one in told["replicas"])
    models = "".join(
        f"<tr><td>{escape(one['name'])}<td class=number>{one['waiting']}<td class=number>{one['priority']}"
        for one in told["models"]
    )
    devices = "".join(_device(one) for one in told["devices"])
    state = "draining" if told["draining"] else "serving"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>Cotenant: {state}</title>'
        f"<style>{_STYLE}</style><h1>Cotenant <span class=quiet>{state}</span></h1>"
        f"<h2>Engines</h2><div class=wide><table><tr><th>replica<th class=model>model<th>state"
        f"<th class=number>requests"
        f"<th class=number>memory{replicas}</table></div>"
        f"<h2>Queues</h2><div class=wide><table><tr><th>model<th class=number>waiting<th class=number>priority"
        f"{models}</table></div>"
        f"<h2>Devices</h2><div class=wide><table><tr><th>device<th>held<th class=number>of{devices}</table></div>"
        f'<p class=quiet>As <a href="/status.json">JSON</a>, for <a href="/metrics">Prometheus</a>.</p></html>'
    )


def _replica(one: dict[str, Any]) -> str:
    reason = f" <span class=quiet>{escape(one['reason'])}</span>" if one["reason"] else ""
    held = format_bytes(one["held_bytes"]) if one["held_bytes"] else "-"
    asleep = one["state"] == State.STOPPED.name.lower()
    state = f"<span class=quiet>{one['state']}</span>" if asleep else one["state"].replace("_", " ")
    state += " <span class=quiet>retires</span>" if one["retires"] else ""
    return (
        f"<tr><td>{escape(one['id'])}<td class=model>{escape(one['model'])}<td>{state}{reason}"
        f"<td class=number>{one['running']} / {one['slots']}<td class=number>{held}"
    )


def _device(one: dict[str, Any]) -> str:
    share = 100 * one["held_bytes"] / one["capacity_bytes"] if one["capacity_bytes"] else 0
    return (
        f"<tr><td class=name>{escape(one['name'])}<td>"
        f"<div class=bar><span style='width:{share:.0f}%'></span></div>"
        f"<td class=number>{format_bytes(one['held_bytes'])} / {format_bytes(one['capacity_bytes'])}"
    )
