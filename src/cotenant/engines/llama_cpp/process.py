"""What a llama-server process on a processor holds beside its buffers: code, allocator, vocabulary.

    process = libraries and allocator + entries x bytes an entry

An entry of the vocabulary is a string in a table of texts, its hash entry, and its text as it is written
(``token_to_piece`` cache); a merge of a byte-pair tokeniser is a pair of strings in a map. Source:
src/llama-vocab.cpp (``id_to_token``, ``token_to_id``, ``cache_token_to_piece``, ``bpe_ranks``), laid out as
libstdc++ does: 32 bytes a string, 16 more for an allocation, 8 a bucket.
"""

from __future__ import annotations

from cotenant.domain.interval import Interval
from cotenant.units import MIB

_TEXT = 40 + 88 + 40  # llama_vocab::token_data; a node of token_to_id with its bucket; a string of the cache
_MERGE = 112  # a node of bpe_ranks: two strings, a rank, its bucket; as many as entries in a byte-pair vocabulary
# Server, ggml and C++ runtime: code that was touched, thread stacks, arenas. A program of its own holds about 30
# MiB; the library inside a Python interpreter twice as much.
_PROCESS = Interval(24 * MIB, 44 * MIB, 96 * MIB)


def process_bytes(vocabulary: int) -> Interval:
    """Resident bytes of a server with so many entries in its vocabulary, without weights, cache and compute."""
    low, high = vocabulary * _TEXT, vocabulary * (_TEXT + _MERGE)
    return _PROCESS + Interval(low, (low + high) // 2, high)
