"""Makes real clusters known to the tests in this folder that need one."""

from tests.cluster.fixtures import real_cluster, real_control_plane

__all__ = ["real_cluster", "real_control_plane"]
