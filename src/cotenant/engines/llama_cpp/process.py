"""What a llama-server process on a processor holds beside its buffers: code, allocator, vocabulary.

    process = server and libraries + entries of the vocabulary x bytes an entry

An entry is a text with its score, a node of a hash table and its piece as it is written out; a byte-pair
vocabulary keeps about as many merges, each a pair of texts in another table (src/llama-vocab.cpp: ``id_to_token``,
``token_to_id``, ``cache_token_to_piece``, ``bpe_ranks``). By the layout of libstdc++ that is 150 and 260 bytes at
least; what stays in the allocator after loading comes on top. Measured with build 11549 and glibc, as resident
minus the buffers that it prints: 35 MiB for a vocabulary of 4,096, 57 for one of 49,152 with merges, 88 for one of
262,144 without, where it is a library in a Python process (the xllamacpp wheel); 18, 33 and 60 MiB where build
11434 was compiled on the machine itself. One's own measurement stands before these (`cotenant verify`).
"""

from __future__ import annotations

from cotenant.domain.interval import Interval
from cotenant.units import MIB

_PROCESS = Interval(16 * MIB, 34 * MIB, 64 * MIB)
_ENTRY = Interval(150, 212, 260)  # SentencePiece
_MERGED = Interval(260, 480, 560)  # byte pairs
_SENTENCE_PIECE = (
    33_000  # vocabularies of 32,000 and some special tokens; larger ones are byte pairs, Gemma's apart
)


def process_bytes(vocabulary: int, family: str = "") -> Interval:
    """Resident bytes of a server with so many entries in its vocabulary, without weights, cache and compute."""
    plain = family.startswith("gemma") or vocabulary < _SENTENCE_PIECE
    entries = (_ENTRY if plain else _MERGED).scaled(vocabulary)
    found = _PROCESS + entries
    # a server that is small itself also keeps its vocabulary small: how it was built decides both
    return Interval(_PROCESS.low + entries.low, found.value, found.high)
