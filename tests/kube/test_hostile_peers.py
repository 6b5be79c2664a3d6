"""What servers and environments may contain, and no message or request may suffer from."""

from __future__ import annotations

import ssl

import pytest

from hotmap.core.errors import SettingsError
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.http.errors import describe_tls_failure
from hotmap.kube.http.route import Route
from hotmap.kube.proxy import is_socks, proxy_from_environment
from hotmap.kube.server_clock import ServerClock
from hotmap.kube.status import Status, retry_after


def test_scheme_in_capitals_is_the_same_scheme() -> None:
    """A token must not be sent without TLS for that."""
    assert Route("HTTPS://api:6443").is_secure
    assert ClusterConfig("HTTPS://api:6443", "the test", BearerToken("t")).ssl_context()
    assert is_socks("SOCKS5://proxy:1080")


@pytest.mark.parametrize(
    "date",
    ["Mon, 01 Jan 99999999999 00:00:00 GMT", "Mon, 01 Jan 2026 00:00:00 +99999999999999999999"],
)
def test_impossible_date_is_ignored(date: str) -> None:
    clock = ServerClock(lambda: 1_000.0)
    clock.learn(date, waited=0.0)
    assert clock.ahead == 0.0
    assert retry_after(Status(), header=date) is None


@pytest.mark.parametrize("header", ["9" * 400, "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_server_may_ask_for_an_hour(header: str) -> None:
    assert retry_after(Status(), header=header) == 3600.0


@pytest.mark.parametrize(
    "route", [Route("https://api.example.:6443"), Route("https://1.2.3.4", None, "api.example.")]
)
def test_name_in_a_certificate_has_no_dot_at_its_end(route: Route) -> None:
    assert route.expected_name == "api.example"


def test_odd_names_and_ports_of_no_proxy_are_harmless() -> None:
    environment = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "h:²,other"}
    assert proxy_from_environment("https://api:6443", environment) == "http://proxy:3128"
    assert proxy_from_environment("https://localhost.:6443", environment) == ""


async def test_name_of_a_host_that_cannot_be_encoded_is_an_error() -> None:
    config = ClusterConfig("http://bü..cher:1", "the test", BearerToken(""))
    with pytest.raises(
        SettingsError, match=r"the server in the test: .* is not the name of a host"
    ):
        async with Client(config):
            pass


def test_tls_failure_is_described_by_its_reason() -> None:
    """Its number is not one of the system's errors."""
    error = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert (_ssl.c:2580)")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert describe_tls_failure(error) == "TLS failed, tlsv13 alert certificate required"
