"""TGI as something to host (Dockerfile, tgi-entrypoint.sh, router/src/server.rs)."""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.engines.hosting.rules import AdapterRequests, Hosting, Metrics, tagged
from cotenant.engines.tgi import CONCURRENT


def _own_ports(version: Version, port: int) -> tuple[str, ...]:
    """Shards talk over a socket in /tmp and meet on 29500; the router's own metrics take 9000 since 3.3."""
    prometheus = ("--prometheus-port", str(port + 1000)) if version.parts >= (3, 3) else ()
    sockets = ("--shard-uds-path", f"/tmp/text-generation-server-{port}", "--master-port", str(port + 21500))
    return (*sockets, *prometheus)


HOSTING = Hosting(
    image=tagged("ghcr.io/huggingface/text-generation-inference"),
    entry_words=1,  # the image starts the launcher
    host_flag="--hostname",
    open_unless_told=True,  # launcher/src/main.rs: its default is 0.0.0.0
    slots=lambda version: CONCURRENT,
    health="/health",
    probe="curl",
    files_dir="/data",
    metrics=lambda version: Metrics(queue="tgi_queue_size"),
    own_ports=_own_ports,
    adapter_requests=AdapterRequests(
        by_name=True
    ),  # router/src/server.rs: `model` is the adapter's id; others are the base
)
