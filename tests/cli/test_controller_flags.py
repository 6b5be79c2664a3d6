"""Invalid flags and variables of `hotmap controller` end the start with one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotmap.cli import controller
from hotmap.cli.main import hotmap, run
from hotmap.cli.reloader_flags import REPLACED_FLAGS
from hotmap.cli.shared_options import ClusterOptions
from hotmap.controller.settings import Settings

EXIT_INVALID = 2

_BOOLEAN = 'invalid boolean "maybe": expected true or false'
_URL = "invalid URL (not shown): expected an http or https URL"

_NAMES = (
    *("configmap", "secret", "auto", "configmap-auto", "secret-auto", "ignore", "auto-search"),
    *("search-match", "pause-deployment", "pause-deployment-time"),
    *("secretproviderclass", "secretproviderclass-auto"),
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which controllers would have been started."""
    found: list[Settings] = []

    async def keep(cluster: ClusterOptions, settings: Settings) -> None:
        found.append(settings)

    monkeypatch.setattr(controller, "_run", keep)
    return found


def _namespace(flag: str, text: str) -> str:
    expected = "at most 63 lowercase letters, digits and hyphens"
    return f'{flag}: invalid namespace name "{text}": expected {expected}'


def _duration(flag: str, text: str) -> str:
    return f'{flag}: invalid duration "{text}": expected a number with a unit, such as 500ms or 5s'


#: (arguments, the message without the program's name, or its beginning)
INVALID = [
    ("--kubeconfig=/nowhere/at/all", "kubeconfig /nowhere/at/all cannot be read: no such file"),
    ("--context=nix", "kubeconfig "),
    ("--namespace=Bad_Name", _namespace("--namespace", "Bad_Name")),
    ("--namespace=", _namespace("--namespace", "")),
    ("--namespace=$(POD_NAMESPACE)", _namespace("--namespace", "$(POD_NAMESPACE)")),
    (f"--namespace={'a' * 64}", _namespace("--namespace", "a" * 64)),
    ("--watch-namespace=Bad_Name", _namespace("--watch-namespace", "Bad_Name")),
    ("--watch-namespace=", _namespace("--watch-namespace", "")),
    (
        "--follow=auto,cm/x",
        '--follow: invalid item "auto": expected configmap/NAME, secret/NAME or spc/NAME',
    ),
    ("--settle=5", _duration("--settle", "5")),
    ("--settle=-1s", '--settle: invalid duration "-1s": must not be negative'),
    ("--settle=", _duration("--settle", "")),
    (
        f"--listen={'x' * 5000}",
        f'--listen: invalid address "{"x" * 80}…": expected HOST:PORT, :PORT or none',
    ),
    ("--settle=2h", '--settle: invalid duration "2h": must not exceed 1h'),
    ("--settle-max=61m", '--settle-max: invalid duration "61m": must not exceed 1h'),
    ("--settle=1s --settle=bad", _duration("--settle", "bad")),
    ("--settle-max=1d", _duration("--settle-max", "1d")),
    ("--settle=10s --settle-max=1s", "--settle-max: 1s is shorter than the settle time of 10s"),
    ("--alert-webhook-url=ftp://x", "--alert-webhook-url: invalid URL (not shown): expected an "),
    (
        "--alert-webhook-url-file=/nowhere",
        "--alert-webhook-url-file: cannot read /nowhere: no such file or directory",
    ),
    (
        "--alert-webhook-url=http://127.0.0.1:1 --alert-sink=irc",
        '--alert-sink: invalid value "irc": expected ',
    ),
    (
        "--alert-webhook-url=http://127.0.0.1:1 --alert-webhook-proxy=x",
        "--alert-webhook-proxy: invalid URL (not shown): expected an http or https URL",
    ),
    (
        "--alert-additional-info=x",
        "alerts require --alert-webhook-url or --alert-webhook-url-file",
    ),
    ("--workers=0", "Invalid value for '--workers': 0 is not in the range 1<=x<=1000; "),
    ("--workers=many", "Invalid value for '--workers': 'many' is not a number; "),
    ("--flap-limit=-1", "Invalid value for '--flap-limit': -1 is not in the range 0<=x<=100; "),
    (
        "--max-concurrent-rollouts=10001",
        "Invalid value for '--max-concurrent-rollouts': 10001 is not in the range 0<=x<=10000; ",
    ),
    ("--pod-check-rate=-1", "Invalid value for '--pod-check-rate': -1.0 is not in the range "),
    ("--pod-check-rate=nan", "Invalid value for '--pod-check-rate': nan is not in the range "),
    (
        "--status-listen=9533",
        '--status-listen: invalid address "9533": expected HOST:PORT, :PORT or none',
    ),
    ("--follow=true", '--follow: invalid value "true": expected auto, off or a list such as '),
    ("--follow=all", '--follow: invalid value "all": expected auto, off or a list such as '),
    ("--listen=9533", '--listen: invalid address "9533": expected HOST:PORT, :PORT or none'),
    ("--listen=:99999", '--listen: invalid address ":99999": expected HOST:PORT, :PORT or none'),
    ("--log-format=xml", '--log-format: invalid value "xml": expected text or json'),
    ("--leader-elect=yes", "Option '--leader-elect' does not take a value; "),
    ("--leader-elect --shadow", "--shadow writes nothing, so it cannot be used with --leader-e"),
    ("--reloader-compat=yes", "Option '--reloader-compat' does not take a value; "),
    ("--shadow=yes", "Option '--shadow' does not take a value; "),
    ("--reload-strategy=both", '--reload-strategy: invalid value "both": expected revision, env'),
    ("--auto-reload-all=maybe", f"--auto-reload-all: {_BOOLEAN}"),
    ("--sync-after-restart=maybe", f"--sync-after-restart: {_BOOLEAN}"),
    ("--enable-ha=maybe", f"--enable-ha: {_BOOLEAN}"),
    ("--enable-ha", "--enable-ha requires the environment variable POD_NAME"),
    (
        "--leader-election-lease-duration=15",
        _duration("--leader-election-lease-duration", "15"),
    ),
    ("--leader-election-renew-deadline=", _duration("--leader-election-renew-deadline", "")),
    ("--leader-election-retry-period=2m", "--leader-election-retry-period: 1.2 times 120s must be"),
    ("--enable-pprof=maybe", f"--enable-pprof: {_BOOLEAN}"),
    ("--enable-csi-integration=maybe", f"--enable-csi-integration: {_BOOLEAN}"),
    (
        "--resources-to-ignore=pods",
        '--resources-to-ignore: invalid value "pods": expected configma',
    ),
    ("--resources-to-ignore=configmaps,secrets", "--resources-to-ignore: configmaps or secrets"),
    (
        "--ignored-workload-types=pods",
        '--ignored-workload-types: invalid value "pods": expected jo',
    ),
    ("--namespaces=shop,Bad", _namespace("--namespaces", "Bad")),
    ('--namespaces="shop', '--namespaces: invalid list "\\"shop": expected items'),
    (
        "--namespaces=a --watch-namespace=b",
        "--watch-namespace and --namespaces cannot be used together",
    ),
    ("--namespaces-to-ignore=Bad", _namespace("--namespaces-to-ignore", "Bad")),
    (
        "--namespace-selector=a!",
        '--namespace-selector: invalid label selector "a!": expected a sel',
    ),
    (
        "--resource-label-selector==b",
        '--resource-label-selector: invalid label selector "=b": expec',
    ),
    ("--webhook-url=ftp://planted", f"--webhook-url: {_URL}"),
    ("--webhook-url=https://planted:99999", f"--webhook-url: {_URL}"),
    *(
        (
            f"--{name}-annotation=a/b/c",
            f'--{name}-annotation: invalid annotation name "a/b/c": expected ',
        )
        for name in _NAMES
    ),
    ("--log-level=loud", '--log-level: invalid value "loud": expected trace, debug, info, w'),
    ("--nope", "No such option '--nope'; see 'hotmap controller --help'"),
    (
        "--health-addr=:8080",
        "No such option '--health-addr'; use --listen, the address of metrics and health; see ",
    ),
    ("one more", "Got unexpected extra arguments (one more); see 'hotmap controller --help'"),
]

#: Flags that accept any text; unexpected values are logged.
NEVER_INVALID = {
    "--reload-on-create",
    "--reload-on-delete",
    "--is-Argo-Rollouts",
    "--pprof-addr",
}

VARIABLES = [
    ({"POD_NAMESPACE": "Bad_Name"}, "", _namespace("POD_NAMESPACE", "Bad_Name")),
    ({"POD_NAMESPACE": "\udcff"}, "", _namespace("POD_NAMESPACE", "\\udcff")),
    (
        {"KUBERNETES_NAMESPACE": "Bad Ns"},
        "--reloader-compat",
        _namespace("KUBERNETES_NAMESPACE", "Bad Ns"),
    ),
    ({"KUBECONFIG": "/nowhere:/else"}, "", "KUBECONFIG names no file that exists: /nowhere:/else"),
    ({"KUBECONFIG": ":"}, "", "no cluster is configured: --kubeconfig and KUBECONFIG are not set"),
    ({"KUBECONFIG": "/dev/zero"}, "", "kubeconfig /dev/zero cannot be read: it has more than 16"),
    ({"ALERT_ON_RELOAD": "true"}, "", "ALERT_ON_RELOAD=true requires ALERT_WEBHOOK_URL"),
    (
        {"ALERT_ON_RELOAD": "true", "ALERT_WEBHOOK_URL": "planted"},
        "",
        f"ALERT_WEBHOOK_URL: {_URL}",
    ),
    (
        {
            "ALERT_ON_RELOAD": "true",
            "ALERT_WEBHOOK_URL": "http://x",
            "ALERT_WEBHOOK_PROXY": "planted",
        },
        "",
        f"ALERT_WEBHOOK_PROXY: {_URL}",
    ),
]


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home directory and no cluster, so that no controller starts by mistake."""
    names = ("KUBECONFIG", "POD_NAMESPACE", "KUBERNETES_NAMESPACE", "KUBERNETES_SERVICE_HOST")
    for name in (*names, "POD_NAME", "ALERT_ON_RELOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["hotmap"])


def _run_invalid(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the controller until it ends; returns its only line of output."""
    status = run(["controller", *arguments])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (EXIT_INVALID, "", 1), err
    assert "planted" not in err
    return err.removeprefix("hotmap: ").rstrip("\n")


@pytest.mark.parametrize(("arguments", "message"), INVALID)
def test_invalid_flag_is_an_error(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the flag, the value and what was expected."""
    assert _run_invalid(capsys, *arguments.split()).startswith(message)


@pytest.mark.parametrize(("environment", "arguments", "message"), VARIABLES)
def test_invalid_variable_is_an_error(
    environment: dict[str, str],
    arguments: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The message names the variable; a URL is never shown."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _run_invalid(capsys, *arguments.split()).startswith(message)


@pytest.mark.parametrize("flag", REPLACED_FLAGS)
def test_flag_of_reloader_2_is_refused_with_what_to_do(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the flags that it names, similar ones are not suggested."""
    message = _run_invalid(capsys, f"{flag}=x")
    instead = REPLACED_FLAGS[flag]
    assert message == f"No such option '{flag}'; {instead}; see 'hotmap controller --help'"
    known = {opt for param in hotmap.commands["controller"].params for opt in param.opts}
    assert flag not in known
    assert {word.strip(",:") for word in instead.split() if word.startswith("--")} <= known


def test_invalid_values_cover_every_flag() -> None:
    """Each flag of the command is in the table, or accepts any value."""
    flags = {opt for param in hotmap.commands["controller"].params for opt in param.opts}
    covered = {word.split("=")[0] for arguments, _ in INVALID for word in arguments.split()}
    covered -= REPLACED_FLAGS.keys()
    assert flags - covered == NEVER_INVALID
    assert not covered & NEVER_INVALID


@pytest.mark.parametrize(
    "arguments",
    [
        "--settle=10s",
        "--settle=0 --settle-max=0",
        "--settle=1s --settle=2s --settle-max=2s",
        "--namespaces=a,,b",
        '--namespaces="a,b"',
        "--namespace-selector=a=b,c!=d,e,!f,g in (h,i)",
    ],
)
def test_valid_flags_are_accepted(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The start goes on to the kubeconfig; the last of repeated flags counts."""
    words = [arguments] if " in " in arguments else arguments.split()
    assert _run_invalid(capsys, *words).startswith("no cluster is configured: ")


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("--max-concurrent-rollouts=7", "rollout_limit", 7),
        ("--max-concurrent-rollouts=0", "rollout_limit", 0),
        ("--flap-limit=7", "flap_limit", 7),
        ("--flap-limit=0", "flap_limit", 0),
        ("--workers=7", "workers", 7),
    ],
)
def test_number_becomes_a_setting(found: list[Settings], flag: str, field: str, value: int) -> None:
    assert run(["controller", flag]) == 0
    (settings,) = found
    assert getattr(settings, field) == value


@pytest.mark.parametrize(
    ("arguments", "warned"), [([], False), (["--no-leader-elect"], True), (["--shadow"], True)]
)
def test_times_of_the_lease_need_leader_election(
    found: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    arguments: list[str],
    warned: bool,
) -> None:
    """Without one they are a warning."""
    monkeypatch.setattr(controller, "set_up_logging", lambda *_, **__: None)
    assert run(["controller", "--leader-election-lease-duration=30s", *arguments]) == 0
    assert found[0].lease.duration == 30
    assert ("have no effect without leader election" in caplog.text) is warned


@pytest.mark.parametrize("flag", ["--namespace-selector=team=a", "--namespaces-to-ignore=a"])
def test_choice_of_namespaces_has_no_effect_with_a_named_one(
    found: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flag: str,
) -> None:
    """The named one is served, and a warning says so, as with --namespaces."""
    monkeypatch.setattr(controller, "set_up_logging", lambda *_, **__: None)
    for scope in ("--watch-namespace=a", "--namespaces=a"):
        caplog.clear()
        assert run(["controller", scope, flag]) == 0
        assert found[-1].watch_namespaces == ("a",)
        assert (found[-1].ignored_namespaces, found[-1].namespace_selector) == ((), "")
        assert "--namespaces-to-ignore and --namespace-selector have no effect" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "elects"),
    [
        ([], False),
        (["--leader-elect"], True),
        (["--enable-ha", "--no-leader-elect"], False),
    ],
)
def test_meta_info_shows_leader_election(
    found: list[Settings], monkeypatch: pytest.MonkeyPatch, arguments: list[str], elects: bool
) -> None:
    """Also when hotmap's own flag sets it, as in the chart and the manifests."""
    for name in ("RELOADER_NAMESPACE", "POD_NAMESPACE", "POD_NAME"):
        monkeypatch.setenv(name, "tools")
    assert run(["controller", "--reloader-compat", *arguments]) == 0
    (settings,) = found
    assert settings.reloader is not None
    assert settings.reloader.meta_info is not None
    options = json.loads(settings.reloader.meta_info.data["reloaderOptions"])
    assert options["enableHA"] is bool(settings.identity) is elects
