"""ServiceAccounts (pkg/registry/core/serviceaccount/strategy.go)."""

from __future__ import annotations

from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    unconditional_update = False


SERVICEACCOUNTS = Kind(
    "",
    ("v1",),
    Names("serviceaccounts", "ServiceAccount", ("sa",), storage="serviceaccounts"),
    strategy=ServiceAccountStrategy(),
)
