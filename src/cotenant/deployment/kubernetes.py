"""Kubernetes: a Deployment a cell, with its replicas as containers of one pod.

Replicas that share a card must get the same card, in the plan's order. A device plugin's time-slicing gives a
container some slice of some card, so on machines of several cards it cannot promise that; a resource claim
(dynamic resource allocation) names the card once, and every container of the pod refers to it. That is the
default. The engines then take turns on the card as processes on a bare machine do; what keeps their memory apart
is the plan.

All but the last container are sidecars (init containers that stay): Kubernetes starts each once the startup probe
of the one before has succeeded, which is the plan's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cotenant.deployment.cells import Cell, card_bytes, cells, port_names, weights_bytes
from cotenant.deployment.launch import Launch, launches, slugs, with_own_ports
from cotenant.deployment.monitoring import autoscaler, monitoring
from cotenant.deployment.pods import (
    PART_OF,
    PLUGIN,
    SECRET_NOTE,
    container,
    large_enough,
    local_notes,
    tolerations,
    volumes,
)
from cotenant.deployment.quoting import Lines, to_yaml
from cotenant.deployment.spreading import on_different_machines, spread_models
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.units import plural

_TIME_SLICE = f"{PLUGIN}.shared"
_MIG = "nvidia.com/mig-"

Files = tuple[tuple[DeployFile, ...], tuple[str, ...]]
Resources = Callable[[Cell, Launch], dict[str, Any]]
Spec = dict[str, Any]


def files(plan: Plan) -> Files:
    """Cards by resource claims where any is shared, else whole cards of the device plugin: never both at once,
    since two drivers would hand out one card twice."""
    found = cells(launches(plan))
    if any(cell.shares_cards for cell in found):
        notes = (
            "shared cards need Kubernetes 1.34 or later and the DRA driver for NVIDIA GPUs",
            *mig_machine_notes(found),
        )
        return _export(
            plan, found, _claimed, _claim_template, lambda cell: {"resourceClaims": [_claim(cell)]}, notes
        )
    return _export(
        plan,
        found,
        lambda cell, one: whole_cards(one),
        lambda plan, cell: [],
        lambda cell: _whole_pod(plan, cell),
        mig_machine_notes(found),
    )


def time_sliced_files(plan: Plan) -> Files:
    """Slices of the device plugin, on machines of one card. Raises UnsupportedError for cells of several."""
    found = cells(launches(plan))
    for cell in found:
        if len(cell.cards) > 1:
            raise UnsupportedError(
                f"time-slicing cannot say which of {len(cell.cards)} cards {cell.launches[0].replica.id} gets",
                hint="use --to kubernetes, which names each card",
            )
    time_slices = max(len(cell.launches) for cell in found)
    slices = plural(time_slices, "slice")
    notes = (f"configure the device plugin with time-slicing.yaml: {slices} a card, machines of one card",)

    def pod(cell: Cell) -> Spec:
        return {"nodeSelector": {"nvidia.com/gpu.count": "1"}, "affinity": _affinity(plan, cell)}

    made, said = _export(plan, found, _time_sliced, lambda plan, cell: [], pod, notes)
    return (DeployFile("time-slicing.yaml", to_yaml(_time_slicing(time_slices))), *made), said


def _export(
    plan: Plan,
    found: tuple[Cell, ...],
    resources: Resources,
    beside: Callable[[Plan, Cell], list[Spec]],
    pod: Callable[[Cell], Spec],
    notes: tuple[str, ...],
) -> Files:
    ports = port_names(found)
    made = [
        DeployFile(f"{cell.name}.yaml", _stream([*beside(plan, cell), *_cell(plan, cell, resources, pod, ports)]))
        for cell in found
    ]
    made.append(DeployFile("services.yaml", _stream(_services(found, ports))))
    watched, said = monitoring(plan, found, ports)
    if watched:
        made.append(DeployFile("monitoring.yaml", _stream(watched)))
    every = [one for cell in found for one in cell.launches]
    return tuple(made), (*notes, SECRET_NOTE, *said, *local_notes(every))


def _stream(documents: list[Spec]) -> str:
    return "---\n".join(to_yaml(document) for document in documents)


def _cell(
    plan: Plan, cell: Cell, resources: Resources, pod: Callable[[Cell], Spec], ports: Mapping[str, int]
) -> list[Spec]:
    found = [config_map(cell)] if any(one.files for one in cell.launches) else []
    found += [_deployment(plan, cell, resources, pod(cell), ports), _disruption_budget(cell)]
    scaler = autoscaler(plan, cell)
    return [*found, scaler] if scaler else found


def _metadata(cell: Cell) -> Spec:
    return {"name": cell.name, "labels": {"app.kubernetes.io/name": cell.name, **PART_OF}}


def _deployment(plan: Plan, cell: Cell, resources: Resources, pod: Spec, ports: Mapping[str, int]) -> Spec:
    containers = [
        container(with_own_ports(one), resources(cell, one), port_name=f"model-{ports[one.name]}")
        for one in cell.launches
    ]
    *earlier, last = containers
    labels = {"app.kubernetes.io/name": cell.name}
    serves = {f"cotenant/model-{ports[one.name]}": "serves" for one in cell.launches}
    weights = sum(weights_bytes(plan, one.replica.id) for one in cell.launches)
    sidecars = [{**one, "restartPolicy": "Always"} for one in earlier]
    spec: Spec = {
        **({"initContainers": sidecars} if sidecars else {}),
        "containers": [last],
        **pod,
        **_apart(plan, cell, ports),
        "tolerations": tolerations(),
        "terminationGracePeriodSeconds": 120,
        "volumes": volumes(cell.launches, cell.name, weights),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(cell),
        "spec": {
            "replicas": cell.count,
            "strategy": {"type": "Recreate"},  # a second pod would need a second set of cards
            "progressDeadlineSeconds": 3600,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, **PART_OF, **serves}}, "spec": spec},
        },
    }


def _apart(plan: Plan, cell: Cell, ports: Mapping[str, int]) -> Spec:
    """Over every pod that serves the model, whichever cell it is of."""
    counts = spread_models(plan)
    found = [
        on_different_machines(counts[one.replica.model], {f"cotenant/model-{ports[one.name]}": "serves"})
        for one in cell.launches
        if one.replica.model in counts
    ]
    return {"topologySpreadConstraints": found} if found else {}


def config_map(cell: Cell) -> Spec:
    """The files that the cell's arguments name."""
    data = {name: Lines(text) for one in cell.launches for name, text in one.files.items()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{cell.name}-files", "labels": dict(PART_OF)},
        "data": data,
    }


def _disruption_budget(cell: Cell) -> Spec:
    """Drains take one pod at a time; with a single one they may take it, or a machine could never be emptied."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(cell),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": cell.name}}},
    }


def _services(found: tuple[Cell, ...], ports: Mapping[str, int]) -> list[Spec]:
    """One Service a model, over every cell that serves it, and one for each that was folded into it; a second one
    where a pod holds two replicas of it."""
    pairs = [(name, ports[one.name]) for cell in found for one in cell.launches for name in one.models]
    named = list(dict.fromkeys(pairs))
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": dict(PART_OF)},
            "spec": {
                "selector": {f"cotenant/model-{port}": "serves"},
                "ports": [{"name": "http", "port": 80, "targetPort": f"model-{port}"}],
            },
        }
        for (_, port), name in zip(named, slugs([name for name, _ in named]), strict=True)
    ]


def _affinity(plan: Plan, cell: Cell) -> Spec:
    return large_enough(max(card_bytes(plan, cell)))


def _whole_pod(plan: Plan, cell: Cell) -> Spec:
    """On machines with cards that are large enough; a slice's resource says by itself how large it is."""
    return {} if cell.launches[0].mig_profiles else {"affinity": _affinity(plan, cell)}


def mig_machine_notes(found: Sequence[Cell]) -> tuple[str, ...]:
    """What the device plugin must offer, where the plan stands on slices."""
    profiles = sorted({profile for cell in found for one in cell.launches for profile in one.mig_profiles})
    named = " and ".join(profiles)
    return (f"machines must offer MIG slices {named}: mig-manager, strategy mixed",) if profiles else ()


def whole_cards(one: Launch) -> Spec:
    """Resources of a container with cards, or MIG slices, of its own."""
    if one.mig_profiles:
        return {"limits": {f"{_MIG}{one.mig_profiles[0]}": len(one.cards)}}
    return {"limits": {PLUGIN: len(one.cards)}}


def _time_sliced(cell: Cell, one: Launch) -> Spec:
    return {"limits": {_TIME_SLICE: 1}}


def _claimed(cell: Cell, one: Launch) -> Spec:
    return {"claims": [{"name": "cards", "request": f"card-{place}"} for place in cell.places(one)]}


def _claim(cell: Cell) -> Spec:
    return {"name": "cards", "resourceClaimTemplateName": f"{cell.name}-cards"}


def _claim_template(plan: Plan, cell: Cell) -> list[Spec]:
    """One request a card, each at least as large as the card that was planned on."""
    profiles = {
        place: profile
        for one in cell.launches
        for place, profile in zip(cell.places(one), one.mig_profiles, strict=False)  # none where cards are whole
    }
    requests = [
        {"name": f"card-{place}", "exactly": _of_profile(profiles[place]) if profiles else _large_card(size)}
        for place, size in enumerate(card_bytes(plan, cell))
    ]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"{cell.name}-cards", "labels": dict(PART_OF)},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }
    ]


def _large_card(size: int) -> Spec:
    return {"deviceClassName": "gpu.nvidia.com", "selectors": [_at_least(size)]}


def _of_profile(profile: str) -> Spec:
    """A MIG slice, as the DRA driver for NVIDIA GPUs publishes it."""
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    return {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}


def _at_least(size: int) -> Spec:
    memory = "device.capacity['gpu.nvidia.com'].memory"
    return {"cel": {"expression": f"{memory}.compareTo(quantity('{size}')) >= 0"}}


def _time_slicing(time_slices: int) -> Spec:
    config = {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": PLUGIN, "replicas": time_slices}],
            }
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cotenant-time-slicing", "labels": dict(PART_OF)},
        "data": {"any": Lines(to_yaml(config))},
    }
