"""Fixtures of the tests in this folder."""

from collections.abc import Iterator

import pytest
from tests.cluster.fixtures import real_cluster, real_control_plane
from tests.walkthroughs.local import Plane, running_plane

__all__ = ["plane", "real_cluster", "real_control_plane"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A local plane for the tests of one module."""
    with running_plane(tmp_path_factory.mktemp("local") / "plane") as plane:
        yield plane
