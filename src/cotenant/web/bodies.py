"""What a request may say, as OpenAPI publishes it. What the words mean is the face's business, not ours."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(max_length=200)]
Word = Annotated[str, Field(max_length=400)]
Json = dict[str, Any]


class Body(BaseModel):
    """Unknown keys are refused, and so are NaN and infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Fault(BaseModel):
    """One refusal: what was wrong, what to try, where it stands."""

    error: str
    hint: str
    path: str


class Faults(BaseModel):
    """Every refusal has this shape."""

    errors: list[Fault]


_SAYS = {
    400: "no JSON, or a header that counts stands there twice",
    401: "the gateway wants a key, or another one",
    403: "a page of elsewhere asks",
    404: "nothing, or no such job, is at this address",
    408: "the body did not come to its end",
    413: "longer than is read at this address",
    415: "packed, or no JSON",
    421: "a name that is not this server's",
    422: "refused: each fault with its path",
    429: "too many jobs wait, or too many follow one: Retry-After says how long to wait",
    500: "a fault of ours, named by its kind alone",
    502: "the gateway does not answer, or what answers is none",
    503: "too much is being read at once, or the server ends",
    504: "not done within its time",
    507: "more memory than a job may take",
}
EVERYWHERE = (400, 403, 408, 413, 415, 421, 422, 429, 500, 503, 504, 507)
"""The statuses of refusals that any path may answer with."""


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI publishes them: each with the shape of every refusal."""
    return {status: {"model": Faults, "description": _SAYS[status]} for status in statuses}


class Tokens(Body):
    """Percentiles of a length in tokens."""

    p50: int | None = None
    p95: int | None = None
    max: int | None = None


class EstimateBody(Body):
    """The keyword arguments of `cotenant.estimate`."""

    model: Name | Json
    gpu: Name | Json
    engine: Word | None = None
    quantization: Word | None = None
    used: Word | int | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    decode_context_parallel_size: int | None = None
    dtype: Word | None = None
    kv_cache_dtype: Word | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    block_size: int | None = None
    enforce_eager: bool | None = None
    enable_expert_parallel: bool | None = None
    enable_prefix_caching: bool | None = None
    enable_lora: bool | None = None
    language_model_only: bool | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    speculative_config: Json | Annotated[str, Field(max_length=10_000)] | None = None
    adapters: Annotated[list[Json], Field(max_length=1000)] | None = None
    concurrent: int | None = None
    requests_per_second: float | None = None
    context_tokens: Tokens | None = None
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    ttft: Word | None = None
    tpot: Word | None = None
    percentile: float | None = None
    kv_overflow: Word | None = None
    options: Annotated[Json, Field(max_length=200)] | None = None


class PlanBody(Body):
    """A fleet (a mapping, or a fleet file's text) to be planned, as `cotenant plan` does."""

    fleet: Json | str
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    replay: bool = False
    why: bool = False
    time_limit: Word | None = None


class SimulateBody(Body):
    """A plan or a fleet to be replayed, as `cotenant simulate` does. Both: that plan, as it is, under the traffic
    of that fleet."""

    plan: Json | None = None
    fleet: Json | str | None = None
    policy: Word = "static"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    duration: Word | None = None
    arrivals: Word | None = None
    patience: Word | None = None
    timeout: Word | None = None
    fail: Annotated[list[Word], Field(max_length=1000)] | None = None
    residency: Word | None = None
    hold: Word | None = None
    dispatch: Word | None = None
    preempt: Word | None = None


class Card(Body):
    """The `index`-th card of node `node`; its type, where the plan does not hold it yet."""

    type: Name | None = None
    node: Annotated[int, Field(ge=0, lt=2**31)]
    index: Annotated[int, Field(ge=0, lt=2**31)]


class Move(Body):
    """One replica to another card: its number in the plan's `gpus[]`, or the card."""

    replica: Name
    gpu: Annotated[int, Field(ge=0, lt=2**31)] | Card


class CheckBody(Body):
    """A plan as it stands, or with one replica moved. `fleet` replaces the one that the plan holds."""

    plan: Json
    fleet: Json | str | None = None
    move: Move | None = None


class ExplainBody(Body):
    """An engine's log as text, with what it does not say itself."""

    log: str
    model: Name | None = None
    gpu: Name | None = None


class DeployBody(Body):
    """A plan as files for a target."""

    plan: Json
    target: Word


class ModelBody(Body):
    """A hub id, or the text of a config.json (or its value), or the head of a GGUF file in base64 with the size
    of the whole file."""

    hub: Name | None = None
    config: str | Json | None = None
    gguf: str | None = None
    size_bytes: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    name: Name | None = None


class JobTicket(BaseModel):
    """Where to ask for the answer."""

    job: str


class JobState(BaseModel):
    """A job as it stands. `result` is the document once the state is `done`; `ahead` counts the jobs before it."""

    job: str
    kind: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    ahead: int
    progress: list[Json]
    result: Json | None = None
    errors: list[Fault] = []
