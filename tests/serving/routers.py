"""Small routers to try decisions on."""

from __future__ import annotations

from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted, Served, Settings

S = SECOND


def host(name, model, device=0, awake=600, slots=1, **more):
    return Hosted(name, model, (device,), awake, slots, load_ns=2 * S, **more)


def router(*hosts, capacity=(1000,), models=None, **settings):
    names = dict.fromkeys(one.model for one in hosts)
    served = models or [Served(name) for name in names]
    return Router(hosts, served, capacity, Settings(**settings))


def two(**settings):
    """Two models on a device for one of them."""
    return router(host("a", "A"), host("b", "B"), **settings)


def up(one, now, replica=0):
    one.up(now, replica, one.floor.replicas[replica].generation)
