"""Time that jumps over pauses, but for tests with a browser."""

from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)
