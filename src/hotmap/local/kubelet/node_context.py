"""What all pods of a kubelet share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hotmap.local.client import Client
    from hotmap.local.kubelet.mounts import TokenSource
    from hotmap.local.kubelet.runtime import Runtime
    from hotmap.local.kubelet.sources import SourceReader
    from hotmap.local.recorder import Recorder

__all__ = ["Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """What all pods of a kubelet share."""

    client: Client
    runtime: Runtime
    sources: SourceReader
    recorder: Recorder
    root: Path
    address: str
    allocatable: Mapping[str, str]
    services: Callable[[], Iterable[Mapping[str, Any]]]
    tokens: TokenSource | None
