"""Every flag and rule is typed; what is wrong is one sentence that names it, and status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hotmap.agent.flags import FLAGS, help_text, read_words
from hotmap.agent.reading import read_settings
from hotmap.agent.values import (
    parse_address,
    parse_mode,
    parse_signal,
    parse_size,
    parse_statuses,
    parse_url,
    quoted,
)
from hotmap.core.errors import SettingsError


def complaint(*arguments: str) -> str:
    """Give what is said about a call, which has to be one sentence."""
    with pytest.raises(SettingsError) as caught:
        read_settings(read_words(arguments))
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no directory is given; write --dir DIR"),
        (["--settle", "5"], '--settle: invalid duration "5": expected a number with a unit'),
        (["--settle=-1s"], '--settle: invalid duration "-1s": must not be negative'),
        (["--settle", ""], '--settle: invalid duration "": expected a number'),
        (["--action-timeout", "0"], '--action-timeout: "0" has to be more than 0'),
        (["--max-size", "1MB"], '--max-size: "1MB" is no size; write 512, 64Ki or 1Mi'),
        (["--signal", "HUPP"], '--signal: "HUPP" is no signal'),
        (["--signal", "HUP"], "--signal needs --process"),
        (["--process", "name:x"], "--process goes with --signal, --restart term or --for"),
        (["--signal", "HUP", "--process", "nginx"], '--process: "nginx" names no process'),
        (["--url", "localhost:80"], "--url: is no URL; write http://127.0.0.1:8080/-/reload"),
        (["--url", "http://user:hunter2@host:x/"], "--url: names no port"),
        (["--url", "http:///x"], "--url: is no URL: it names no host"),
        (["--url", "http://h", "--status", "2000"], '--status: "2000" is no list'),
        (["--method", "POST"], "--method goes with --url"),
        (["--syntax", "*.yaml=yaml"], '--syntax: "*.yaml=yaml" is no syntax'),
        (["--check", "nginx 'x"], "is no command line: no closing quotation"),
        (["--stage-mode", "rw"], '--stage-mode: "rw" is no file mode'),
        (["--listen", "9533"], '--listen: "9533" is no address'),
        (["--for", "apache"], '--for: "apache" is not in the catalogue, which has gunicorn,'),
        (["--verify", "see it"], '--verify: "see it" is no probe'),
        (["--restart", "term"], "--restart term needs --process"),
        (["--restart", "supervised"], "--restart supervised needs an application"),
        (["--restart", "now"], '--restart: "now" is no way to restart'),
        (["--restart-on", "frozen"], "--restart-on needs --target-file"),
        (["--env-from", "/etc/x"], "--env-from needs an application: put it after --"),
        (["--log-format", "xml"], '--log-format: "xml" is no log format'),
        (["--stage", "/etc/a/stage", "--dir", "/etc/a"], "--stage: /etc/a/stage and /etc/a lie in"),
        (["--nonsense"], "there is no flag --nonsense"),
        (["--setle", "1s"], "there is no flag --setle; did you mean --settle or --settle-max?"),
        (["--dir"], "--dir lacks its value"),
        (["--settle", "1s", "--settle", "2s"], "--settle is given twice"),
        (["nginx"], '"nginx" is no flag; the application and its arguments come after --'),
        (["--once=maybe"], '--once takes no value, but "maybe" was given'),
        (["--rules", "/no/such"], "--rules: /no/such cannot be read: no such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_named(arguments: list[str], words: str) -> None:
    """The sentence names flag and value, and says how it is written."""
    directory = [] if words.startswith("no directory") else ["--dir", "/etc/app"]
    text = complaint(*directory, *arguments)
    assert words in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["http://admin:hunter2@host/?k=hunter2"],
        ["--once=http://admin:hunter2@host/"],
        ["--url", "http://admin:hunter2@host:port/"],
        ["--drain-url", "http://admin:hunter2@host:port/"],
        ["--url", "ftp://admin:hunter2@host/"],
        ["--verify", "see http://admin:hunter2@host/ it"],
        ["--verify", "field http://admin:hunter2@host:port/ x"],
        ["--verify", "metric http://admin:hunter2@host?token=hunter2 "],
        ["--exec", "curl 'http://admin:hunter2@host/"],
        ["--check", "curl 'http://admin:hunter2@host/"],
        ["--settle", "http://admin:hunter2@host/"],
        ["--signal", "HUP", "--process", "http://:hunter2@host/a http://admin:hunter2@host"],
        ["--header", "Authorization hunter2"],
        ["--rules", "RULES"],
    ],
)
def test_what_may_be_a_credential_is_in_no_complaint(tmp_path: Path, arguments: list[str]) -> None:
    """User, password and query of a URL are *** wherever it stands; no header is shown."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nactions = ["none"]\nverify = ["see http://a:hunter2@host/"]\n')
    given = [str(rules) if word == "RULES" else word for word in arguments]
    if arguments[0].startswith("--drain"):
        given += ["--target-file", "/x", "--restart-on", "frozen"]
    assert "hunter2" not in complaint("--dir", "/etc/app", *given)
    done = run("--dir", "/etc/app", *given)
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1x", '"1x"'),
        ("http://h/a@b", '"http://h/a@b"'),
        ("see http://u:p@h/x?q http://v@i", '"see http://***@h/x?*** http://***@i"'),
    ],
)
def test_what_was_typed_is_quoted_without_credentials(text: str, shown: str) -> None:
    """The rest of it stays, so that a person finds the place."""
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("settle = ", "is no TOML"),
        ("settle = 5", "settle: 5 is no text; put it in quotes, with its unit"),
        ('settle = "5"', 'settle: invalid duration "5": expected a number with a unit'),
        ('setle = "5s"', "there is no setting 'setle'"),
        ('[rule]\nname = "x"', "rules are written [[rule]], with two brackets"),
        ("[[rule]]", "rule 1: it has no actions"),
        ("[[rule]]\nfile = []", "rule 1: there is no field 'file'"),
        (
            '[[rule]]\nactions = ["none"]\nfiles = "*"',
            "rule 1: files: '*' is no list; put it in brackets",
        ),
        ("[[rule]]\nactions = [1]", "rule 1: action 1: write a table such as"),
        ("[[rule]]\nactions = [{}]", "rule 1: action 1: write exactly one of signal, http,"),
        ('[[rule]]\nactions = [{ signal = "HUP" }]', "action 1: process is missing"),
        ('[[rule]]\nactions = [{ touch = "/x", mode = "1" }]', "there is no field 'mode'"),
        ('[[rule]]\nactions = [{ http = "x" }]', "action 1: http: is no URL"),
        ('[[rule]]\nactions = ["none"]\nverify = ["x"]', 'rule 1: verify: "x" is no probe'),
        ('[[rule]]\nactions = ["none"]\ndirectories = ["/b"]', "/b is not among the directories"),
        ('[[rule]]\nname = "a"\nactions = ["none"]\n' * 2, "two rules have the name 'a'"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, document: str, words: str) -> None:
    """The sentence names file, rule and field."""
    rules = tmp_path / "rules.toml"
    rules.write_text(document)
    text = complaint("--dir", "/etc/app", "--rules", str(rules))
    assert words in text
    assert str(rules) in text or "two rules" in text


def test_what_is_typed_goes_over_the_catalogue() -> None:
    """The process of a known program can be named, for its signal and for its workers."""
    typed = ["--dir", "/etc/nginx", "--for", "nginx", "--process", "pidfile:/run/nginx.pid"]
    (rule,) = read_settings(read_words(typed)).rules
    assert rule.actions[0].target == "pidfile:/run/nginx.pid"
    assert [one.target for one in rule.probes] == ["pidfile:/run/nginx.pid"]
    (rule,) = read_settings(read_words([*typed[:4], "--", "nginx"])).rules
    assert rule.actions[0].target == rule.probes[0].target == "child"
    (rule,) = read_settings(read_words([*typed[:4], "--signal", "USR1", *typed[4:]])).rules
    assert rule.actions[0].signal == 10


def test_settings_in_the_rules_file_are_flags_without_dashes(tmp_path: Path) -> None:
    """A flag that is typed goes over the file's."""
    rules = tmp_path / "rules.toml"
    rules.write_text('dir = ["/etc/app"]\nsettle = "1s"\ngrace = "3s"\nonce = true\n')
    settings = read_settings(read_words(["--rules", str(rules), "--settle", "2s"]))
    assert settings.directories == ("/etc/app",)
    assert (settings.settle, settings.grace, settings.once) == (2.0, 3.0, True)


def test_configmap_reloads_flags_are_understood() -> None:
    """As they are, with one dash or two; the number of retries bounds nothing."""
    settings = read_settings(
        read_words(
            [
                *("-volume-dir", "/etc/a", "--volume-dir=/etc/b"),
                *("-webhook-url=http://127.0.0.1:9090/-/reload", "--webhook-method", "GET"),
                *("--webhook-status-code", "204", "-webhook-retries", "5"),
                *("-web.listen-address", ":9999", "--web.telemetry-path=/prom"),
            ]
        )
    )
    (action,) = settings.rules[0].actions
    assert settings.directories == ("/etc/a", "/etc/b")
    assert action.call is not None
    assert str(action.call.url) == "http://127.0.0.1:9090/-/reload"
    assert (action.call.method, action.call.statuses) == ("GET", (204,))
    assert (settings.listen, settings.metrics_path) == (("", 9999), "/prom")
    assert "a call is repeated until it succeeds" in settings.notes[0]


def test_other_values() -> None:
    """Sizes, modes, signals, statuses and addresses as people write them."""
    assert [parse_size(text) for text in ("7", "64Ki", "2M")] == [7, 65536, 2_000_000]
    assert parse_mode("0644") == 0o644
    assert [parse_signal(text) for text in ("HUP", "SIGHUP", "1", "hup")] == [1, 1, 1, 1]
    assert parse_statuses("200, 204") == (200, 204)
    assert parse_statuses("2xx") == tuple(range(200, 300))
    assert parse_address("none") is None
    assert parse_address("[::1]:80") == ("::1", 80)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h", "http://h:80/"),
        ("https://h/x#y", "https://h:443/x"),
        ("http://[::1]:8/x", "http://[::1]:8/x"),
        ("http://u:p@h/x?k=v", "http://***@h:80/x?***"),
        ("http://h?k=v", "http://h:80/?***"),
        ("unix:/run/a.sock:/x", "unix:/run/a.sock:/x"),
    ],
)
def test_urls_are_shown_without_credentials(text: str, shown: str) -> None:
    """However an endpoint is written, its text holds no user, password or query."""
    assert str(parse_url(text)) == shown


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program itself."""
    return subprocess.run(
        [sys.executable, "-m", "hotmap", "agent", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_config_says_whether_it_is_right(tmp_path: Path) -> None:
    """0 and a sentence, or 2 and what is wrong; nothing is watched."""
    done = run("--check-config", "--dir", str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (0, "the settings are right\n")
    done = run("--check-config", "--dir", "x", "--settle", "soon")
    assert done.returncode == 2
    assert done.stderr == (
        'hotmap agent: --settle: invalid duration "soon": expected a number with a unit, such as '
        "500ms or 5s\n"
    )


def test_a_wrong_call_of_status_is_status_2() -> None:
    """As of every other command; an agent that is not there is 1."""
    assert run("status", "--settle", "1s").returncode == 2
    assert run("status", "--socket").returncode == 2
    done = run("status", "--socket", "/no/such")
    assert (done.returncode, done.stderr) == (
        1,
        "hotmap agent: no agent answers: unix:/no/such:/status cannot be reached: no such file or "
        "directory\n",
    )


def test_help_lists_every_flag() -> None:
    """--help, -h and -help print all flags."""
    assert all(f"--{name}" in help_text() for name in FLAGS)
    assert run("-h").stdout == run("--help").stdout == help_text()
