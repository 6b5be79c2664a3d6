"""Health by parts, as kubectl shows it: /healthz, /livez, /readyz and single checks."""

from __future__ import annotations

import pytest
from multidict import MultiDict
from tests.local.apiserver.api import Api

from hotmap.local.apiserver.health import HealthChecks, health_paths


def test_root_path_lists_all_checks() -> None:
    paths = health_paths()
    assert len(paths) == len(set(paths)) == 3 + 35 + 35 + 37
    assert {"/healthz/ping", "/livez/poststarthook/rbac/bootstrap-roles"} <= set(paths)


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
async def test_verbose_health_lists_each_check(api: Api, endpoint: str) -> None:
    lines = (await api.get(f"/{endpoint}?verbose")).body.split("\n")
    assert lines[0] == "[+]ping ok"
    assert "[+]poststarthook/crd-informer-synced ok" in lines
    assert lines[-2:] == [f"{endpoint} check passed", ""]
    assert ("[+]shutdown ok" in lines) is (endpoint == "readyz")
    assert ("[+]loopback-serving-certificate ok" in lines) is (endpoint != "readyz")
    assert (await api.get(f"/{endpoint}")).body == "ok"


async def test_checks_can_be_excluded(api: Api) -> None:
    text = (await api.get("/readyz?verbose&exclude=ping&exclude=b&exclude=a")).body
    assert text.startswith("[+]ping excluded: ok\n[+]log ok\n")
    assert text.endswith(
        'warn: some health checks cannot be excluded: no matches for "a","b"\nreadyz check passed\n'
    )
    assert (await api.get("/readyz?exclude=a")).body == "ok"


async def test_single_checks_have_paths(api: Api) -> None:
    for path in health_paths():
        assert (await api.get(path)).body == "ok", path
    for path in ("/readyz/none", "/livez/", "/livez/shutdown", "/readyzx"):
        assert (await api.get(path)).status == 404, path


async def test_single_checks_need_a_token(api: Api) -> None:
    stranger = Api(api.session, api.url, "")
    assert (await stranger.get("/readyz?verbose")).status == 200
    assert (await stranger.get("/readyz/ping")).status == 401
    assert (await Api(api.session, api.url, "wrong").get("/readyz")).status == 401


def test_failed_store_fails_its_checks() -> None:
    """The reason is told to those only who may ask for the single check."""
    checks = HealthChecks(store=lambda: "No space left on device", shutdown=str)
    answer = checks.answer("/readyz", MultiDict())
    assert answer is not None and answer.status == 500
    assert "[-]etcd failed: reason withheld\n[-]etcd-readiness failed" in answer.text
    assert answer.text.endswith("readyz check failed\n")
    single = checks.answer("/readyz/etcd", MultiDict())
    assert single == ("internal server error: No space left on device\n", 500)
    assert checks.answer("/livez", MultiDict(exclude="etcd")) == ("ok", 200)


def test_stop_fails_readiness_only() -> None:
    checks = HealthChecks(store=str, shutdown=lambda: "process is shutting down")
    answer = checks.answer("/readyz", MultiDict())
    assert answer is not None and "[-]shutdown failed: reason withheld" in answer.text
    assert checks.answer("/livez", MultiDict()) == ("ok", 200)
