"""What a plan can be deployed to, and for which engines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from ipaddress import ip_address

from cotenant.deployment.launch import LOOPBACK
from cotenant.domain.deployment import DeployFile, Deployment
from cotenant.domain.plan import Plan
from cotenant.engines import engine_names
from cotenant.errors import InputError, UnsupportedError

Exporter = Callable[..., tuple[tuple[DeployFile, ...], tuple[str, ...]]]
"""plan -> (its files in a fixed order, notes); where engines answer on a machine itself, the address as well."""


@dataclass(frozen=True, slots=True)
class Target:
    """One exporter: the module of this room, what it writes, the engines that it can start (None: all), whether
    replicas may share a card there, the module's function, whether models may take turns, whether it can name a
    MIG slice (`mig`), and whether it can be told on which address of a machine engines answer (`listens`)."""

    module: str
    title: str
    engines: tuple[str, ...] | None = None
    shares: bool = True
    function: str = "files"
    turns: bool = False
    mig: bool = True
    listens: bool = False


TARGETS = {
    "commands": Target("commands", "shell scripts and env files, started in order", listens=True),
    "systemd": Target("systemd", "systemd units", listens=True),
    "compose": Target("compose", "Docker Compose", listens=True),
    "kubernetes": Target("kubernetes", "Kubernetes: Deployments, shared cards by resource claims"),
    "kubernetes-time-slicing": Target(
        "kubernetes",
        "the same for the NVIDIA device plugin, on machines of one card",
        function="time_sliced_files",
        mig=False,
    ),
    "kserve": Target("kserve", "KServe: an InferenceService a model", shares=False),
    "ray-serve": Target(
        "ray_serve", "Ray Serve LLM, and a RayService", engines=("vllm",), shares=False, mig=False
    ),
    "llama-swap": Target(
        "llama_swap",
        "llama-swap",
        engines=("vllm", "sglang", "tgi", "tensorrt-llm", "llama.cpp"),
        turns=True,
    ),
}


def export(plan: Plan, name: str, *, listen: str = LOOPBACK) -> Deployment:
    """The plan as the files of target `name`, its engines to answer on the address `listen` of their machine.

    Raises InputError for an unknown target and for what is no address, UnsupportedError where the target cannot
    hold the plan: an engine that it does not start, cards that it cannot share, names that it cannot write.
    """
    target = find_target(name)
    _check_address(name, target, listen)
    if not plan.replicas:
        raise UnsupportedError("the plan places no replica", hint="`cotenant plan` says what would make it fit")
    try:
        files, notes = _exported(plan, name, target, listen)
    except UnsupportedError as error:
        raise UnsupportedError(error.message, hint=_advice(plan, name, error.hint), path=error.path) from None
    missing = tuple(f"{short.model} has no place in this plan and is not deployed" for short in plan.shortfalls)
    return Deployment(name, files, missing + notes, plan.feasible, plan.input_hash)


def _exported(
    plan: Plan, name: str, target: Target, listen: str = LOOPBACK
) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    _check(plan, name, target)
    exporter: Exporter = getattr(import_module(f"cotenant.deployment.{target.module}"), target.function)
    return exporter(plan, listen) if target.listens else exporter(plan)


def find_target(name: str) -> Target:
    """The target of that name. Raises InputError that lists them."""
    if name not in TARGETS:
        raise _unknown(str(name))
    return TARGETS[name]


def _check_address(name: str, target: Target, listen: str) -> None:
    try:
        ip_address(listen)
    except ValueError:
        raise InputError(
            f"{listen[:60]!r} is no address to listen on", hint="an IP address; 0.0.0.0: every interface"
        ) from None
    if listen != LOOPBACK and not target.listens:
        where = ", ".join(each for each, one in TARGETS.items() if one.listens)
        raise InputError(f"{name} itself decides where engines answer: --listen is for {where}")


def _unknown(name: str) -> InputError:
    near = get_close_matches(name, TARGETS, n=1, cutoff=0.7)
    known = ", ".join(TARGETS)
    return InputError(
        f"unknown target {name[:60]!r}",
        hint=f"did you mean {near[0]}? targets: {known}" if near else f"targets: {known}",
    )


def _check(plan: Plan, name: str, target: Target) -> None:
    """Refuses whole plans before any file is made."""
    engines = target.engines or engine_names()
    for replica in plan.replicas:
        if replica.engine not in engines:
            raise UnsupportedError(
                f"{name} cannot start {replica.engine} (replica {replica.id}); it starts {', '.join(engines)}"
            )
        if not target.mig and any(device.is_slice for device in replica.devices):
            raise UnsupportedError(f"{name} cannot name the MIG slice of replica {replica.id}")
    if plan.turns and not target.turns:
        both = " and ".join(plan.turns[0].models)
        raise UnsupportedError(
            f"{both} take turns on a card in this plan, and {name} starts everything at once",
            hint="run it with `cotenant serve`, or leave `sleep` out of `sharing` in the fleet",
        )
    if target.shares:
        return
    for gpu in plan.gpus:
        if len(gpu.shares) > 1:
            both = " and ".join(share.replica for share in gpu.shares[:2])
            raise UnsupportedError(
                f"{name} gives each replica cards of its own, and {both} share {gpu.device.label}",
                hint="allow only `sharing: [alone]` in the fleet",
            )


def _advice(plan: Plan, name: str, own: str) -> str:
    """What to try where `name` refuses: targets that do take this plan, and what the refusal itself says (`own`),
    unless that is a target that refuses too."""
    takers = [other for other in TARGETS if other != name and _takes(plan, other)]
    named = re.findall(r"--to ([a-z-]+)", own)
    if named and all(other in takers for other in named):
        return own
    told = [f"use --to {', '.join(takers[:-1])}{' or ' if takers[1:] else ''}{takers[-1]}"] if takers else []
    return ", or ".join([*told, own] if own and not named else told)


def _takes(plan: Plan, name: str) -> bool:
    try:
        _exported(plan, name, TARGETS[name])
    except UnsupportedError:
        return False
    return True
