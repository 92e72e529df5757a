"""The fast core, ready to run: compiled with numba where the `fast` extra is installed (kept between runs), plain
Python where not. The same answers either way, and the same as the plain core's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, replace
from functools import lru_cache
from types import FunctionType
from typing import Any
from zlib import crc32

import numpy as np

from cotenant.errors import InputError
from cotenant.policy.order import ranks
from cotenant.simulation import core, core_steps, plain
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import NEVER, Limits, Outcome, Requests, sorted_log

_MOST_FS = 2**61
_USUAL = 16  # tokens a block: what vLLM takes where nothing else is said; it has a core of its own
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
"""How the core is compiled: divisors are never zero, and nothing in it makes an object, so neither is checked."""
HELPERS: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""How what it calls is compiled: nothing else calls that, so no way in from Python or C is made."""


SIGNED = {core_steps.note: "int64(int64[:,::1], int64, int64, int64, int64, int64)"}
"""What would be compiled once more for each number that it is called with, were its types not said."""


@lru_cache(maxsize=4)
def compiled(with_numba: bool = True, block_size: int = 0) -> Any:
    """The core as a function, for one block size or (0) any; `with_numba` false leaves it as Python."""
    plain = core.build(_stamp(), block_size)
    if not with_numba:
        return plain
    try:
        from numba import njit
    except ImportError:
        return plain
    calls = called(
        core.USED, lambda one: njit(SIGNED.get(one), forceinline=one not in core_steps.SELDOM, **HELPERS)
    )
    return njit(bound(plain, calls), cache=True, **OPTIONS)


def called(used: Iterable[Callable[..., Any]], jit: Callable[..., Any]) -> dict[Any, Any]:
    """Each of these functions compiled, with the compiled others in place of what it calls; `jit` says how.

    Registered as numba's extensions they would be compiled once more for each constant that they are called with.
    """
    found: dict[Any, Any] = {}
    bodies = [bound(one, found) for one in used]
    for one, body in zip(used, bodies, strict=True):
        found[one] = jit(one)(body)
    for body in bodies:
        body.__globals__.update(_in_place(body.__globals__, found))
    return found


def bound(function: Any, calls: Mapping[Any, Any]) -> FunctionType:
    """The same function, with others in place of those that it calls."""
    names = {**function.__globals__, **_in_place(function.__globals__, calls)}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _in_place(names: Mapping[str, Any], calls: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: calls[one] for name, one in names.items() if isinstance(one, FunctionType) and one in calls}


def _stamp() -> int:
    """A number that changes with the code of any decision, and with how it is compiled."""
    code = [function.__code__ for function in core.USED]
    return crc32(repr([OPTIONS, HELPERS, *((one.co_code, one.co_consts, one.co_names) for one in code)]).encode())


def simulate(
    requests: Requests, limits: Limits, costs: StepCosts, *, until_ns: int = NEVER, log: bool = False,
    with_numba: bool = True,
) -> Outcome:  # fmt: skip
    """What becomes of `requests` on one replica that has its cards to itself: `plain.simulate`, but fast.

    Without `log` the log stays empty. Raises InputError where a single step could leave 64 bits of femtoseconds.
    Requests with prefixes go to the plain core: the jumps count free blocks, and do not know them by what they
    hold.
    """
    check(limits, costs)
    if requests.prefixes is not None:
        found = plain.simulate(requests, limits, costs, until_ns=until_ns)
        return found if log else replace(found, log=found.log[:0])
    events, outcome = _run(requests, limits, costs, until_ns, 0, with_numba)
    return _run(requests, limits, costs, until_ns, events, with_numba)[1] if log else outcome


def _run(
    requests: Requests, limits: Limits, costs: StepCosts, until_ns: int, rows: int, with_numba: bool
) -> tuple[int, Outcome]:
    count = len(requests)
    status, first, finish, generated = (np.zeros(count, np.int64) for _ in range(4))
    has_first, stats, log = np.zeros(count, np.bool_), np.zeros(5, np.int64), np.zeros((rows, 4), np.int64)
    in_order, rank_of, by_rank = _order(requests)
    core_of = compiled(with_numba, _USUAL) if limits.block_size == _USUAL else compiled(with_numba)
    events = core_of(
        requests.arrival_ns, requests.input_tokens, requests.output_tokens, by_rank, rank_of, in_order,
        *_givers(requests), np.array(astuple(limits), np.int64),
        np.array(costs.packed, np.int64), until_ns, status, first, has_first, finish, generated,
        _room(limits, 0 if in_order else count), log, stats,
    )  # fmt: skip
    preemptions, steps, busy, end, most = stats.tolist()
    return events, Outcome(status, first, has_first, finish, preemptions, steps, busy, end, most, sorted_log(log))


def _order(requests: Requests) -> tuple[bool, Any, Any]:
    """Whether requests are served as they come; else the rank of each, and the request of each rank."""
    if not len(requests) or int(requests.priority.min()) == int(requests.priority.max()):
        none = np.zeros(0, np.int64)
        return True, none, none
    rank_of = np.array(ranks(requests.priority.tolist(), requests.arrival_ns.tolist()), np.int64)
    return False, rank_of, np.argsort(rank_of)


def _givers(requests: Requests) -> tuple[Any, Any]:
    """When each gives up, not before it came; and those that ever do, by time."""
    if not len(requests) or int(requests.cancel_ns.min()) >= NEVER:
        return requests.cancel_ns, np.zeros(0, np.int64)
    cancel = np.maximum(requests.cancel_ns, requests.arrival_ns)
    order = np.argsort(cancel, kind="stable")
    return cancel, np.ascontiguousarray(order[cancel[order] < NEVER])


def _room(limits: Limits, waiting: int) -> tuple[Any, ...]:
    """Working arrays (`core_steps`): queue, who joins, with what; slots, keys; ranks, phases."""
    slots = limits.max_num_seqs + 1
    sizes = (waiting + slots, slots, slots, slots, slots, slots, limits.block_size)
    return tuple(np.zeros(size, np.int64) for size in sizes)


def check(limits: Limits, costs: StepCosts) -> None:
    """Raises InputError where a single step could leave 64 bits of femtoseconds."""
    tokens = min(limits.max_num_batched_tokens, limits.max_num_seqs * limits.max_model_len)
    held = min(limits.num_blocks * limits.block_size, limits.max_num_seqs * limits.max_model_len)
    squares = tokens * limits.max_model_len * 2
    if costs.most(limits.max_num_seqs, held, tokens, squares) > _MOST_FS:
        raise InputError(
            "a step of these limits may last longer than the simulator can count",
            hint="lower max_num_batched_tokens or max_model_len",
        )
