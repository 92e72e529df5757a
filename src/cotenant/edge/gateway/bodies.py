"""What an engine is sent of a client's request: its own bytes, and what that engine must be told besides."""

from __future__ import annotations

import json

from cotenant.domain.running import Launch
from cotenant.edge.engines.driver import Driver
from cotenant.edge.engines.llama_cpp import LlamaServer
from cotenant.edge.engines.llama_router import RoutedLlama
from cotenant.edge.engines.vllm import Vllm
from cotenant.edge.gateway.core import Ticket


def body_for(ticket: Ticket, driver: Driver, launch: Launch, priority: int) -> bytes:
    """The client's bytes; with the request's priority where the engine follows it (whatever the client wrote
    there: a key's limit holds), and for llama-server with the adapter by number, and the section of its router."""
    changes: dict[str, object] = {}
    if launch.url:
        return ticket.body
    if isinstance(driver, LlamaServer):
        changes = _adapter(ticket, launch)
        if isinstance(driver, RoutedLlama):
            changes["model"] = driver.section
    elif isinstance(driver, Vllm) and driver.follows_priorities(launch):
        changes = {"priority": -priority}
    return json.dumps(json.loads(ticket.body) | changes).encode() if changes else ticket.body


def _adapter(ticket: Ticket, launch: Launch) -> dict[str, object]:
    """llama-server looks at no model's name: adapters are numbers in their order at its start, each with a scale
    (tools/server/README.md, ``lora``)."""
    names = [one.name for one in launch.adapters]
    chosen = [{"id": names.index(ticket.asked), "scale": 1.0}] if ticket.asked in names else []
    return {"lora": chosen} if names else {}
