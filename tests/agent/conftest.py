"""Makes the real cluster known to the tests in this folder that need one."""

from tests.cluster.fixtures import real_cluster

__all__ = ["real_cluster"]
