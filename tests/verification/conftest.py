"""A subject with round figures, and a world of engines that do exactly as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from cotenant.domain.interval import Interval
from cotenant.domain.measurement import Figure, Measurement
from cotenant.domain.verification import Ask, Reading, Reply
from cotenant.verification.subject import Subject

MIB = 2**20


def subject_named(name: str = "chat", **changes: object) -> Subject:
    made = Subject(
        id=name, model=name, engine="llama.cpp", version="b11549", gpu="CPU", family="llama",
        terms=(Interval.exact(100 * MIB), Interval.exact(64 * MIB), Interval.exact(16 * MIB),
               Interval(20 * MIB, 40 * MIB, 60 * MIB)),
        concurrency=4, tokens=1024, input_tokens=200, output_tokens=16, token_bytes=16384, fixed_bytes=0,
        claimed_bytes=240 * MIB, on_host=True,
    )  # fmt: skip
    return replace(made, **changes)


def llama_log(*, weights: float = 100, cache: float = 64, compute: float = 16) -> Measurement:
    named = {"model_buffer_mib": weights, "kv_buffer_mib": cache, "compute_buffer_mib": compute, "cells": 4096}
    figures = tuple(Figure(name, value, str(value)) for name, value in named.items())
    return Measurement("llama.cpp", "b11549", None, None, {}, figures, ready=True)


class World:
    """Engines, their load and their journal. `answer` says what becomes of a request, `held` what is held."""

    def __init__(self) -> None:
        self.sent: list[tuple[Ask, ...]] = []
        self.kept: dict[str, object] = {}
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.answer: Callable[[Ask, int], Reply] = lambda ask, at_once: Reply(
            ask,
            "" if ask.input_tokens + ask.output_tokens <= 1024 else "400: too long",
            0.1,
            0.1 + 0.02 * 15,
            0,
            16,
        )
        self.held: Callable[[str], Reading] = lambda name: Reading(
            float(len(self.sent)), 104 * MIB, 101 * MIB, 100 * MIB
        )
        self.log: Measurement | None = llama_log()
        self.ours = True

    def engine(self, name: str) -> Engine:
        return Engine(self, name)

    def send(self, asks: Sequence[Ask], *, concurrency: Mapping[str, int], stop):
        self.sent.append(tuple(asks))
        replies: list[Reply] = []
        for ask in asks:
            replies.append(self.answer(ask, len(concurrency)))
            reason = stop(self.held(ask.replica), replies)
            if reason:
                return tuple(replies), ((ask.replica, self.held(ask.replica)),), reason
        return tuple(replies), tuple((name, self.held(name)) for name in concurrency), ""

    def uniform(self) -> float:
        self.drawn = (getattr(self, "drawn", 0.1) * 997 + 0.123) % 1.0
        return self.drawn

    def get(self, key: str) -> object:
        return self.kept.get(key)

    def put(self, key: str, value: object) -> None:
        self.kept[key] = value


class Engine:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name

    @property
    def ours(self) -> bool:
        return self.world.ours

    def start(self) -> None:
        self.world.started.append(self.name)

    def stop(self) -> None:
        self.world.stopped.append(self.name)

    def reading(self) -> Reading:
        return self.world.held(self.name)

    def log(self) -> Measurement | None:
        return self.world.log


@pytest.fixture
def world() -> World:
    return World()
