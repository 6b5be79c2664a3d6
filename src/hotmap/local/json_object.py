"""The type of a JSON object: what the local plane keeps and passes on."""

from __future__ import annotations

from typing import Any

__all__ = ["JsonObject"]

JsonObject = dict[str, Any]
