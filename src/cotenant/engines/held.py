"""What an engine holds once weights are loaded, where that differs from what the file stores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.domain.storage import Storage


@dataclass(frozen=True, slots=True)
class Held:
    """A format, and others whose names begin so, that a kernel holds otherwise than it is stored; None: as
    stored."""

    format: str
    bits: float | None = None
    tensor_bits: int | None = None
    zero_bits: int | None = None

    def storage(self, stored: Storage) -> Storage:
        """What one tensor takes once the kernel has it."""
        return replace(
            stored,
            bits=stored.bits if self.bits is None else self.bits,
            tensor_bits=stored.tensor_bits if self.tensor_bits is None else self.tensor_bits,
            zero_bits=stored.zero_bits if self.zero_bits is None else self.zero_bits,
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """How an engine holds tensors beside their formats.

    `unsplit`: the allocator splits nothing off large tensors. `segments`: what it prints is a difference of free
    memory, which counts segments that are partly used. `rotary_dtype`: of the rotary table, `video_positions`: how
    many times longer it is in models that see video, `untabled`: how architectures begin that compute the angles
    at every step and keep no table.
    """

    unsplit: bool = False
    segments: bool = False
    rotary_dtype: str = "bf16"
    video_positions: int = 1
    untabled: tuple[str, ...] = ()


AS_STORED = Loaded()
