"""Specs of upstream's e2e.test that fail on a local plane, each with its reason."""

from __future__ import annotations

#: The spec's whole text → why it fails.
FAILURES: dict[str, str] = {}
