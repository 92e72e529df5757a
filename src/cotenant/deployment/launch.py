"""What every target needs of a replica: its words, variables and files, its name there, and whom it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

from cotenant.deployment.quoting import check_text
from cotenant.domain.engine import Version
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.hosting import hosting_of, slots_of
from cotenant.engines.hosting.rules import Hosting
from cotenant.engines.names import also_named, takes_several
from cotenant.errors import UnsupportedError

LOAD_S = 1800
"""How long a replica may take to answer at first: a 70B checkpoint over 1 Gbit/s takes about twenty minutes."""

LOOPBACK = "127.0.0.1"
"""Where engines answer unless another address is told: none of them asks for a key."""

_VARIABLE = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)", re.DOTALL)
_LONGEST_SLUG = 40


@dataclass(frozen=True, slots=True)
class Launch:
    """One replica as it is started. `name` is lower-case letters, digits and dashes, unique in the plan.

    `argv` and `variables` are rendered from typed fields; the cards are not among them. `files` are those that its
    arguments name, by name. `waits_for` are names of replicas that must answer first.
    """

    replica: ReplicaPlan
    name: str
    hosting: Hosting
    version: Version
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    files: Mapping[str, str]
    after_start: tuple[str, ...]
    waits_for: tuple[str, ...]
    address: str = LOOPBACK  # on which it answers, where nothing else stands between it and its clients

    @property
    def models(self) -> tuple[str, ...]:
        """The fleet's models that it serves: its own, then those folded into it."""
        return (self.replica.model, *self.replica.also_serves)

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """Its LoRA adapters, in the order of its arguments."""
        return tuple(one.name for one in self.replica.adapters)

    @property
    def node(self) -> int:
        """The machine that it runs on."""
        return self.replica.devices[0].node

    @property
    def cards(self) -> tuple[int, ...]:
        """Its cards' indices there, in rank order."""
        return tuple(device.index for device in self.replica.devices)

    @property
    def mig_profiles(self) -> tuple[str, ...]:
        """The MIG profiles of its cards (``3g.40gb``), in rank order; empty where they are whole ones."""
        found = [device.type.rpartition(":")[2] for device in self.replica.devices if device.is_slice]
        return tuple(found)

    @property
    def slots(self) -> int:
        """Requests that it takes at once."""
        return slots_of(self.replica.engine, self.version, self.replica.settings)

    @property
    def health_url(self) -> str:
        """Answers once the model is loaded, asked from its own machine."""
        here = LOOPBACK if ip_address(self.address).is_unspecified else self.address
        return f"http://{bracketed(here)}:{self.replica.port}{self.hosting.health}"

    @property
    def card_variables(self) -> dict[str, str]:
        """Which cards it sees on a bare machine, counted as nvidia-smi counts them; none where they are
        slices, which have no number there but a UUID (`deployment.mig`)."""
        if self.mig_profiles:
            return {}
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, self.cards))}

    @property
    def local_paths(self) -> tuple[str, ...]:
        """Weights and adapters that are files or folders rather than hub ids, in order."""
        adapters = [one.source or f"./{one.name}" for one in self.replica.adapters]
        found = [self.replica.checkpoint, *adapters]
        return tuple(dict.fromkeys(path for path in found if is_path(path)))


def is_path(text: str) -> bool:
    """Whether an engine reads it from disk: it starts like a path, or is one GGUF file."""
    return text.startswith(("/", "./", "../", "~")) or text.endswith(".gguf")


def bracketed(address: str) -> str:
    """As it stands before a port."""
    return f"[{address}]" if ":" in address else address


def launches(plan: Plan, address: str = LOOPBACK) -> tuple[Launch, ...]:
    """Every replica in the order in which they start, to answer on `address`. Raises UnsupportedError for text
    that no file can hold."""
    ordered = sorted(plan.replicas, key=lambda one: (one.start_order, one.id))
    names = slugs([one.id for one in ordered])
    found: list[Launch] = []
    for replica, name in zip(ordered, names, strict=True):
        found.append(replace(_launch(replica, name, _waits_for(replica, found)), address=address))
    return tuple(found)


def answering_as(one: Launch, model: str, also: Sequence[str], adapters: Sequence[Adapter]) -> Launch:
    """The same replica under other names: of its model, of those folded into it, and of its adapters."""
    replica = replace(one.replica, model=model, also_serves=tuple(also), adapters=tuple(adapters))
    return replace(_launch(replica, one.name, one.waits_for), address=one.address)


def _launch(replica: ReplicaPlan, name: str, waits_for: tuple[str, ...]) -> Launch:
    """Without sleep mode: no target drives it, and the endpoints that it opens ask for no key."""
    _check(replica)
    engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
    hosting = hosting_of(engine.name)
    if hosting.since is not None and version < hosting.since:
        raise UnsupportedError(
            f"{replica.id} is planned for {engine.title} {version}, which cannot be told all of a plan",
            hint=f"plan it for {engine.name}@{hosting.since} or later",
        )
    settings = replace(replica.settings, enable_sleep_mode=False)
    words = engine.arguments(
        settings, version=version, model_path=replica.checkpoint, port=replica.port,
        quantization=replica.quantization_flag, served_name=replica.model, adapters=replica.adapters,
    )  # fmt: skip
    variables, argv = _split(also_named(words, replica.also_serves))
    files: dict[str, str] = {}
    after: tuple[str, ...] = ()
    beside = hosting.beside and hosting.beside(replica.settings, replica.checkpoint, replica.adapters)
    if beside:
        called, text = beside
        file = f"{name}{hosting.file_suffix}"
        files[file] = text
        argv = tuple(file if called and word == called else word for word in argv)
        after = hosting.after_start(replica.model, file) if hosting.after_start else ()
    for word in (*argv, *variables.values(), *after):
        check_text(word, f"the command of {replica.id!r}")
    return Launch(replica, name, hosting, version, argv, variables, files, after, waits_for)


def _check(replica: ReplicaPlan) -> None:
    """Refuses what no file here can start: a process over machines, one with names that it cannot have."""
    if len({device.node for device in replica.devices}) > 1:
        raise UnsupportedError(
            f"{replica.id} runs over several machines, and each file here starts processes of one",
            hint="plan it onto one machine, or start it by hand",
        )
    if replica.also_serves and not takes_several(replica.engine):
        others = " and ".join(replica.also_serves)
        raise UnsupportedError(f"{replica.engine} answers to one name, and {replica.id} is to serve {others} too")


def _split(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Leading NAME=value words are the environment, as in a shell."""
    variables: dict[str, str] = {}
    for number, word in enumerate(words):
        match = _VARIABLE.fullmatch(word)
        if match is None:
            return variables, tuple(words[number:])
        variables[match.group(1)] = match.group(2)
    return variables, ()


def _waits_for(replica: ReplicaPlan, earlier: Iterable[Launch]) -> tuple[str, ...]:
    """On each of its cards, whoever started last before it: engines measure what is free, so they take turns."""
    last: dict[tuple[int, int], str] = {}
    for one in earlier:
        for device in one.replica.devices:
            last[device.node, device.index] = one.name
    found = [last[at] for at in ((one.node, one.index) for one in replica.devices) if at in last]
    return tuple(dict.fromkeys(found))


def slugs(names: Sequence[str]) -> tuple[str, ...]:
    """Names for hosts, files and labels: what else stands there becomes a dash, equal ones are numbered."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_SLUG].strip("-")
        plain = plain if plain and plain[0].isalpha() else f"m-{plain}".rstrip("-")
        slug, number = plain, 2
        while slug in found:
            slug, number = f"{plain}-{number}", number + 1
        found.append(slug)
    return tuple(found)


def nodes(found: Sequence[Launch]) -> dict[int, tuple[Launch, ...]]:
    """The launches by machine, machines in order."""
    return {node: tuple(one for one in found if one.node == node) for node in sorted({one.node for one in found})}


def folder(node: int, found: Sequence[Launch]) -> str:
    """Where a machine's files go: nowhere special where there is one machine."""
    return "" if len({one.node for one in found}) == 1 else f"node-{node}/"


def with_own_ports(launch: Launch) -> Launch:
    """As it runs beside others in one network namespace: no two servers meet on a socket."""
    more = launch.hosting.own_ports(launch.version, launch.replica.port)
    return replace(launch, argv=(*launch.argv, *more))


def on_a_machine(launch: Launch) -> Launch:
    """As a process of a machine itself: beside others, and on its address alone."""
    told = with_own_ports(launch)
    hosting, port = launch.hosting, launch.replica.port
    variables = {**told.variables, **hosting.listen_variables(launch.address, port)}
    return replace(told, argv=(*told.argv, *hosting.listening(launch.address)), variables=variables)


def open_notes(address: str) -> tuple[str, ...]:
    """What stands to be known where others can reach the engines."""
    if ip_address(address).is_loopback:
        return ()
    where = "every interface" if ip_address(address).is_unspecified else address
    return (f"engines answer on {where}, and none asks for a key: let nobody reach them but the gateway",)


def path_notes(found: Sequence[Launch], where: str) -> tuple[str, ...]:
    """What must lie there before anything starts."""
    return tuple(
        f"{one.replica.id}: put {path} {where}" for one in found for path in one.local_paths
    )  # fmt: skip
