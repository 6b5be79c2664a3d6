"""Each flag and variable of `hotmap controller`, given wrongly, ends the start in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotmap.cli.main import hotmap, run

WRONG = 2

_DURATION = "expected a number with a unit, such as 500ms or 5s"
_NAMESPACE = "is no name of a namespace (lower-case letters, digits and hyphens)"
_BOOLEAN = "'maybe' is no boolean (write true or false)"
_URL = "this is no http or https URL (it is not shown here)"
_NAMES = (
    *("configmap", "secret", "auto", "configmap-auto", "secret-auto", "ignore", "auto-search"),
    *("search-match", "pause-deployment", "pause-deployment-time"),
)

#: (what is said, the sentence, without the program's name, or its beginning)
WRONGLY = [
    ("--kubeconfig=/nowhere/at/all", "kubeconfig /nowhere/at/all cannot be read: No such file"),
    ("--context=nix", "kubeconfig "),
    ("--namespace=Bad_Name", f"--namespace: 'Bad_Name' {_NAMESPACE}"),
    ("--namespace=", f"--namespace: '' {_NAMESPACE}"),
    ("--namespace=$(POD_NAMESPACE)", f"--namespace: '$(POD_NAMESPACE)' {_NAMESPACE}"),
    (f"--namespace={'a' * 64}", f"--namespace: '{'a' * 64}' {_NAMESPACE}"),
    ("--watch-namespace=Bad_Name", f"--watch-namespace: 'Bad_Name' {_NAMESPACE}"),
    ("--watch-namespace=", f"--watch-namespace: '' {_NAMESPACE}"),
    ("--follow=auto,cm/x", "--follow: 'auto' is not configmap/NAME or secret/NAME"),
    ("--settle=5", f'--settle: invalid duration "5": {_DURATION}'),
    ("--settle=-1s", '--settle: invalid duration "-1s": must not be negative'),
    ("--settle=", f'--settle: invalid duration "": {_DURATION}'),
    ("--settle=1s --settle=bad", f'--settle: invalid duration "bad": {_DURATION}'),
    ("--settle-max=1d", f'--settle-max: invalid duration "1d": {_DURATION}'),
    ("--settle=10s --settle-max=1s", "--settle-max: 1s is shorter than --settle 10s"),
    ("--workers=0", "Invalid value for '--workers': 0 is not in the range 1<=x<=1000; "),
    ("--workers=many", "Invalid value for '--workers': 'many' is not a valid integer range; "),
    ("--flap-limit=-1", "Invalid value for '--flap-limit': -1 is not in the range 0<=x<=100; "),
    ("--looks=-1", "Invalid value for '--looks': -1.0 is not in the range "),
    ("--looks=nan", "Invalid value for '--looks': nan is not in the range "),
    ("--listen=9533", "--listen: '9533' is not HOST:PORT, :PORT or none"),
    ("--listen=:99999", "--listen: ':99999' is not HOST:PORT, :PORT or none"),
    ("--log-format=xml", "Invalid value for '--log-format': 'xml' is not one of "),
    ("--leader-elect=yes", "Option '--leader-elect' does not take a value; "),
    ("--leader-elect --shadow", "--shadow writes nothing, so it cannot take part in --leader-"),
    ("--reloader-compat=yes", "Option '--reloader-compat' does not take a value; "),
    ("--shadow=yes", "Option '--shadow' does not take a value; "),
    ("--reload-strategy=both", "--reload-strategy: 'both' is none of revision, env-vars, annot"),
    ("--auto-reload-all=maybe", f"--auto-reload-all: {_BOOLEAN}"),
    ("--sync-after-restart=maybe", f"--sync-after-restart: {_BOOLEAN}"),
    ("--enable-ha=maybe", f"--enable-ha: {_BOOLEAN}"),
    ("--enable-ha", "--enable-ha needs the environment variable POD_NAME"),
    ("--enable-pprof=maybe", f"--enable-pprof: {_BOOLEAN}"),
    ("--enable-csi-integration=maybe", f"--enable-csi-integration: {_BOOLEAN}"),
    ("--resources-to-ignore=pods", "--resources-to-ignore: 'pods' is none of configmaps, secrets"),
    ("--resources-to-ignore=configmaps,secrets", "--resources-to-ignore: configmaps or secrets"),
    ("--ignored-workload-types=pods", "--ignored-workload-types: 'pods' is none of jobs, cronj"),
    ("--namespaces=shop,Bad", f"--namespaces: 'Bad' {_NAMESPACE}"),
    ('--namespaces="shop', "--namespaces: '\"shop' is no comma list"),
    ("--namespaces=a --watch-namespace=b", "--watch-namespace and --namespaces: name the names"),
    ("--namespaces-to-ignore=Bad", f"--namespaces-to-ignore: 'Bad' {_NAMESPACE}"),
    ("--namespace-selector=a!", "--namespace-selector: 'a!' is no label selector"),
    ("--resource-label-selector==b", "--resource-label-selector: '=b' is no label selector"),
    ("--webhook-url=ftp://planted", f"--webhook-url: {_URL}"),
    ("--webhook-url=https://planted:99999", f"--webhook-url: {_URL}"),
    *(
        (f"--{name}-annotation=a/b/c", f"--{name}-annotation: 'a/b/c' is no name of an annotation")
        for name in _NAMES
    ),
    ("--log-level=loud", "--log-level: 'loud' is none of trace, debug, info, warn, warning, "),
    ("--nope", "No such option '--nope'; see 'hotmap controller --help'"),
    ("one more", "Got unexpected extra arguments (one more); see 'hotmap controller --help'"),
]

#: Texts that are on as exactly `true`, and what has no effect whatever it says: said in the log.
NEVER_WRONG = {
    "--reload-on-create",
    "--reload-on-delete",
    "--is-Argo-Rollouts",
    "--pprof-addr",
}

VARIABLES = [
    ({"POD_NAMESPACE": "Bad_Name"}, "", f"POD_NAMESPACE: 'Bad_Name' {_NAMESPACE}"),
    ({"POD_NAMESPACE": "\udcff"}, "", f"POD_NAMESPACE: '\\udcff' {_NAMESPACE}"),
    (
        {"KUBERNETES_NAMESPACE": "Bad Ns"},
        "--reloader-compat",
        f"KUBERNETES_NAMESPACE: 'Bad Ns' {_NAMESPACE}",
    ),
    ({"KUBECONFIG": "/nowhere:/else"}, "", "KUBECONFIG names no file that exists: /nowhere:/else"),
    ({"ALERT_ON_RELOAD": "true"}, "", "ALERT_ON_RELOAD=true needs ALERT_WEBHOOK_URL, where"),
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
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home and no cluster around, so that no controller can start by mistake."""
    names = ("KUBECONFIG", "POD_NAMESPACE", "KUBERNETES_NAMESPACE", "KUBERNETES_SERVICE_HOST")
    for name in (*names, "POD_NAME", "ALERT_ON_RELOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["hotmap"])


def _ends(capsys: pytest.CaptureFixture[str], *said: str) -> str:
    """Run the controller to its end; returns the only line that it says."""
    status = run(["controller", *said])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (WRONG, "", 1), err
    assert "planted" not in err
    return err.removeprefix("hotmap: ").rstrip("\n")


@pytest.mark.parametrize(("said", "sentence"), WRONGLY)
def test_a_flag(said: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The flag is named, what was found, and what would be right."""
    assert _ends(capsys, *said.split()).startswith(sentence)


@pytest.mark.parametrize(("environment", "said", "sentence"), VARIABLES)
def test_a_variable(
    environment: dict[str, str],
    said: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The variable is named as a flag would be; a URL is never shown."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _ends(capsys, *said.split()).startswith(sentence)


def test_every_flag_is_tried() -> None:
    """Each flag of the command stands in the table, or cannot be wrong."""
    flags = {one for param in hotmap.commands["controller"].params for one in param.opts}
    tried = {word.split("=")[0] for said, _ in WRONGLY for word in said.split()}
    assert flags - tried == NEVER_WRONG
    assert not tried & NEVER_WRONG


@pytest.mark.parametrize(
    "said",
    [
        "--settle=10s",
        "--settle=0 --settle-max=0",
        "--settle=1s --settle=2s --settle-max=2s",
        "--namespaces=a,,b",
        '--namespaces="a,b"',
        "--namespace-selector=a=b,c!=d,e,!f,g in (h,i)",
    ],
)
def test_what_is_right(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on to look for a cluster; of a flag that is said twice the last one counts."""
    words = [said] if " in " in said else said.split()
    assert _ends(capsys, *words).startswith("no cluster to talk to: ")
