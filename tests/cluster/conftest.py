"""Makes the fixtures of the test bed known to the tests in this folder."""

from tests.cluster.fixtures import real_cluster, real_control_plane

__all__ = ["real_cluster", "real_control_plane"]
