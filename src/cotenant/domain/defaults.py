"""What is kept free and risked where nobody says otherwise, in the words of a fleet file."""

from __future__ import annotations

HEADROOM = "12%"
"""Of every card, kept free."""

KV_OVERFLOW = "1%"
"""How often the requests in flight may need more KV cache than the pool holds."""
