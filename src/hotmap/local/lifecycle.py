"""Start and stop as an async context manager."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Lifecycle(ABC):
    """Start on entering a context, stop on leaving it, whatever happened inside."""

    @abstractmethod
    async def start(self) -> None:
        """Start, and return when it can be used."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop, and wait for the end."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
