"""Flags and rules are validated; an error is one sentence that names it, and exit status 2."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent

from hotmap.agent.drop_in import configmap_reload, prometheus_config_reloader
from hotmap.agent.settings import probes
from hotmap.agent.settings.flags import FLAGS, help_text, parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.values import (
    parse_address,
    parse_mode,
    parse_signal,
    parse_size,
    parse_statuses,
    parse_url,
    quote_redacted,
)
from hotmap.core.errors import SettingsError


def complaint(*arguments: str) -> str:
    """Return the error of a command line, which must be one sentence."""
    with pytest.raises(SettingsError) as caught:
        load_settings(parse_arguments(arguments))
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no directory to watch: use --dir DIR"),
        (["--settle", "5"], '--settle: invalid duration "5": expected a number with a unit'),
        (["--settle=-1s"], '--settle: invalid duration "-1s": must not be negative'),
        (["--settle", ""], '--settle: invalid duration "": expected a number'),
        (["--action-timeout", "0"], '--action-timeout: invalid duration "0": must be more than 0'),
        (["--max-size", "1MB"], '--max-size: invalid size "1MB": expected a number of bytes'),
        (["--signal", "HUPP"], '--signal: invalid signal "HUPP": expected a name or number'),
        (["--signal", "HUP"], "--signal requires --process"),
        (["--process", "name:x"], "--process requires --signal, --restart term or --for"),
        (["--signal", "HUP", "--process", "nginx"], '--process: invalid process "nginx": expected'),
        (["--url", "localhost:80"], "--url: invalid URL: expected a form such as http:"),
        (["--url", "http://user:hunter2@host:x/"], "--url: invalid port: expected a number"),
        (["--url", "http:///x"], "--url: invalid URL: the host is missing"),
        (["--url", f"http://host:{'9' * 5000}/"], "--url: invalid port: expected a number"),
        (["--url", f"unix:/{'x' * 107}:/"], "invalid unix socket URL: the path must not exceed"),
        (["--max-directory-size", "0"], 'invalid size "0": must be more than 0'),
        (["--max-size", "9" * 5000], "expected a number of bytes, such as 512, 64Ki or 1Mi"),
        (["--url", "http://h", "--status", "2000"], 'invalid list of HTTP status codes "2000"'),
        (["--method", "POST"], "--method requires --url"),
        (["--socket", "/x" * 60], "path of a unix socket"),
        (["--", ""], "-- requires an application after it"),
        (["--stage-mode", "0600"], "--stage-mode requires --stage"),
        (
            ["--url", "http://h", "--credentials", "/c", "--token", "/t"],
            "--credentials and --token cannot be used together",
        ),
        (["--syntax", "*.yaml=yaml"], '--syntax: invalid syntax "*.yaml=yaml": expected'),
        (["--check", "nginx 'x"], "no closing quotation"),
        (["--stop-signal", "KILL", "--", "x"], '--stop-signal: invalid stop signal "KILL": expect'),
        (["--stop-signal", "17", "--", "x"], "expected one that a program can handle"),
        (["--check", "a {dir2}/x"], "check: unknown directory {dir2}, expected {dir}"),
        (["--dir", "/etc/b", "--check", "a {dir} {dir1}"], "{dir1}, expected {dir}, {dir2}"),
        (["--stage", "/s", "--stage-mode", "rw"], '--stage-mode: invalid file mode "rw": expected'),
        (["--listen", "9533"], '--listen: invalid address "9533": expected :9533'),
        (["--for", ""], '--for: invalid program "": expected one of gunicorn,'),
        (["--for", "apache"], '--for: invalid program "apache": expected one of gunicorn,'),
        (["--url", "http://[::1/x"], '--url: invalid address: expected a closing bracket'),
        (["--verify", "see it"], '--verify: invalid probe "see it": expected http, field'),
        (["--verify", "metric http://a/ up{=1"], "labels of a metric are in braces, such as up"),
        (["--restart", "term"], "--restart term requires --process"),
        (["--restart", "supervised"], "--restart supervised requires an application"),
        (["--restart", "now"], '--restart: invalid restart mode "now": expected supervised'),
        (["--restart-on", "frozen"], "--restart-on requires --target-file"),
        (["--env-from", "/etc/x"], "--env-from requires an application: put it after --"),
        (["--log-format", "xml"], '--log-format: invalid log format "xml": expected text or json'),
        (["--stage", "/etc/a/b", "--dir", "/etc/a"], "--stage: /etc/a/b and /etc/a must not"),
        (["--state", "/etc/app/state"],
         "--state: /etc/app/state is in the watched directory /etc/app, so each write to it would "
         "be a change: use another directory"),
        (
            ["--metrics-path", "/v1/pod"],
            '--metrics-path: invalid URL path "/v1/pod": the agent has another response there; '
            "choose another path",
        ),
        (["--touch", "/etc/app/../app/x"], "--touch: /etc/app/x is in the watched directory"),
        (["--socket", "/etc/app/a/b"], "--socket: /etc/app/a/b is in the watched directory"),
        (["--work-dir", "/etc/app"], "--work-dir: /etc/app is in the watched directory"),
        (["--not-empty", ""], '--not-empty: invalid pattern "": expected the name of a file'),
        (["--nonsense"], "unknown flag --nonsense"),
        (["--setle", "1s"], "unknown flag --setle; did you mean --settle or --settle-max?"),
        (["--sginal", "HUP", "--", "app"], "unknown flag --sginal; did you mean --signal?"),
        (["--statee", "x"], "unknown flag --statee; did you mean --state or --stage?"),
        (["--verbose", "--", "app"], "unknown flag --verbose; see hotmap agent --help"),
        (["--dir"], "--dir requires a value"),
        (["--state", "--", "app"], "--state requires a value"),
        (["--"], "-- requires an application after it"),
        (["--settle", "1s", "--settle", "2s"], "--settle must not be repeated"),
        (["nginx"], 'unexpected argument "nginx": put the application and its arguments after --'),
        (["--once=maybe"], '--once takes no value, got "maybe"'),
        (["--rules="], '--rules: invalid path "": must not be empty'),
        (["--rules", "/no/such"], "--rules: cannot read /no/such: no such file or directory"),
    ],
)  # fmt: skip
def test_invalid_flag_is_reported(arguments: list[str], words: str) -> None:
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
        ["--url", "http://host", "--token", "hunter2"],
        ["--url", "http://host", "--credentials", "admin:hunter2/x"],
        ["--url", "https://host", "--client-cert", "/c", "--client-key", "-----BEGIN\nhunter2"],
        ["--rules", "TOKEN"],
        ["--exec", "curl 'http://admin:hunter2@host/"],
        ["--check", "curl 'http://admin:hunter2@host/"],
        ["--settle", "http://admin:hunter2@host/"],
        ["--signal", "HUP", "--process", "http://:hunter2@host/a http://admin:hunter2@host"],
        ["--header", "Authorization hunter2"],
        ["--rules", "RULES"],
    ],
)
def test_error_message_has_no_credentials(tmp_path: Path, arguments: list[str]) -> None:
    """User, password and query of a URL are *** wherever it is; no header is shown.

    Nor is a credential that is given in the place of its file.
    """
    rules, token = tmp_path / "rules.toml", tmp_path / "token.toml"
    rules.write_text('[[rule]]\nactions = ["none"]\nverify = ["see http://a:hunter2@host/"]\n')
    token.write_text('[[rule]]\nactions = [{ http = "http://h/", token = "hunter2" }]\n')
    files = {"RULES": str(rules), "TOKEN": str(token)}
    given = [files.get(word, word) for word in arguments]
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
def test_quoted_value_has_no_credentials(text: str, shown: str) -> None:
    """The rest of it stays, so that a person finds the place."""
    assert quote_redacted(text) == shown


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("settle = ", "is not valid TOML"),
        (f"settle = {'9' * 5000}", "is not valid TOML"),
        (f"settle = {'[' * 5000}", "is not valid TOML"),
        ("settle = []", "settle takes one value"),
        ("settle = 5", "settle: 5 is not a string: put it in quotes, with its unit"),
        ('settle = "5"', 'settle: invalid duration "5": expected a number with a unit'),
        ('setle = "5s"', "unknown setting 'setle'"),
        ("rule = [1]", "write rules as [[rule]], with two brackets"),
        ('[[rules]]\nname = "x"', "unknown setting 'rules': write each rule as [[rule]]"),
        (
            '[[rule]]\nactions = [{ http = "http://a/", status = 200 }]',
            "rule 1: action 1: status: 200 is not a string: put it in quotes",
        ),
        (
            '[[rule]]\nactions = [{ http = { url = "http://a:b@c/" } }]',
            "rule 1: action 1: http: expected a string, not a table",
        ),
        ('[rule]\nname = "x"', "write rules as [[rule]], with two brackets"),
        ("[[rule]]", "rule 1: actions are required"),
        ("[[rule]]\nfile = []", "rule 1: unknown field 'file'"),
        (
            '[[rule]]\nactions = [{touch = "/etc/app/a"}]',
            "rule rule-1: touch: /etc/app/a is in the watched directory /etc/app",
        ),
        (
            '[[rule]]\nactions = ["none"]\nfiles = "*"',
            "rule 1: files: '*' is not a list: put it in brackets",
        ),
        ('[[rule]]\nactions = ["none"]\nfiles = []', "rule 1: files: must not be empty"),
        ('[[rule]]\nactions = ["none"]\nfiles = [""]', 'rule 1: files: invalid pattern ""'),
        ('[[rule]]\nactions = ["none"]\nname = ""', "rule 1: name: must not be empty"),
        ('[[rule]]\nactions = ["none"]\nname = "a\\u0000"', "name: must not contain a NUL"),
        ('[[rule]]\nactions = [{ exec = "a \\u0000" }]', "exec: must not contain a NUL"),
        ('[[rule]]\nactions = [{ exec = ["a", "\\u0000"] }]', "exec: must not contain a NUL"),
        ('[[rule]]\nactions = [{ exec = ["", "a"] }]', "exec: must begin with a program"),
        ('[[rule]]\nactions = ["none"]\nverify = ["exec \\u0000"]', "must not contain a NUL"),
        ('[[rule]]\nactions = ["none"]\ncheck = "\\u0000"', "check: must not contain a NUL"),
        ('stage = "/a\\u0000"', "stage: must not contain a NUL"),
        ("[[rule]]\nactions = [1]", "rule 1: action 1: expected a table such as"),
        ("[[rule]]\nactions = [{}]", "rule 1: action 1: expected exactly one of signal, http,"),
        ('[[rule]]\nactions = [{ signal = "HUP" }]', "action 1: process is required"),
        ('[[rule]]\nactions = [{ touch = "/x", mode = "1" }]', "unknown field 'mode'"),
        ('[[rule]]\nactions = [{ http = "x" }]', "action 1: http: invalid URL"),
        (
            '[[rule]]\nactions = [{ http = "http://h", credentials = "/c", token = "/t" }]',
            "action 1: credentials and token cannot be used together",
        ),
        ('[[rule]]\nactions = ["none"]\nverify = ["x"]', 'rule 1: verify: invalid probe "x"'),
        ('[[rule]]\nactions = ["none"]\ndirectories = ["/b"]', "/b is not a watched directory"),
        ('[[rule]]\nname = "a"\nactions = ["none"]\n' * 2, "two rules have the name 'a'"),
    ],
)
def test_invalid_rule_is_reported(tmp_path: Path, document: str, words: str) -> None:
    """The sentence names file, rule and field."""
    rules = tmp_path / "rules.toml"
    rules.write_text(document)
    text = complaint("--dir", "/etc/app", "--rules", str(rules))
    assert words in text
    assert str(rules) in text or "two rules" in text


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("status", "--help"), 0, "Usage: hotmap agent status [--socket PATH] [--json]"),
        (("status", "-h", "--json"), 0, "Exit status 0: everything is loaded; or told"),
        (("copy", "--help"), 0, "Usage: hotmap agent copy FILE"),
        (("status", "app"), 2, 'status takes no argument, got "app"'),
        (("status", "--socket", "/x", "app"), 2, 'status takes no argument, got "app"'),
        (("status", "--json", "--", "app"), 2, 'status takes no argument, got "--"'),
        (("status", "--dir", "/x"), 2, "status does not support --dir; use --socket"),
    ],
)
def test_subcommand_has_help(words: tuple[str, ...], status: int, text: str) -> None:
    """And an error of its own, since it takes neither an application nor the agent's flags."""
    done = run(*words)
    assert done.returncode == status
    assert text in (done.stderr if status else done.stdout)


def test_agent_that_ends_opens_no_port() -> None:
    """Unless the port is asked for."""
    assert load_settings(parse_arguments(["--dir", "/d", "--once"])).reports.listen is None
    given = ["--dir", "/d", "--once", "--listen", ":9533"]
    assert load_settings(parse_arguments(given)).reports.listen is not None


def test_flags_override_known_programs() -> None:
    """The process of a known program can be named, for its signal and for its workers."""
    typed = ["--dir", "/etc/nginx", "--for", "nginx", "--process", "pidfile:/run/nginx.pid"]
    (rule,) = load_settings(parse_arguments(typed)).rules
    assert rule.actions[0].target == "pidfile:/run/nginx.pid"
    assert [probe.target for probe in rule.probes] == ["pidfile:/run/nginx.pid"]
    (rule,) = load_settings(parse_arguments([*typed[:4], "--", "nginx"])).rules
    assert rule.actions[0].target == rule.probes[0].target == "child"
    (rule,) = load_settings(parse_arguments([*typed[:4], "--signal", "USR1", *typed[4:]])).rules
    assert rule.actions[0].signal == 10


def test_relative_path_in_a_removed_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing that it could be relative to."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    assert "--dir: invalid path" in complaint("--dir", "etc")
    load_settings(parse_arguments(["--dir", "/etc/app"]))


@pytest.mark.parametrize("program", ["nginx", "nginx-conf.d"])
def test_templates_of_the_image_are_not_reloaded(program: str) -> None:
    """The entry point fills them in at the start of the container; a restart does that."""
    typed = ["--dir", "/etc/nginx/conf.d", "--dir", "/etc/nginx/templates/", "--for", program]
    with pytest.raises(SettingsError, match="what is in /etc/nginx/templates is used only when"):
        load_settings(parse_arguments(typed))
    load_settings(parse_arguments([*typed, "--restart", "all-containers"]))


def test_rules_file_sets_flags(tmp_path: Path) -> None:
    """A flag that is typed goes over the file's."""
    rules = tmp_path / "rules.toml"
    rules.write_text('dir = ["/etc/app"]\nsettle = "1s"\ngrace = "3s"\nonce = true\n')
    settings = load_settings(parse_arguments(["--rules", str(rules), "--settle", "2s"]))
    assert settings.watch.directories == ("/etc/app",)
    assert (settings.watch.settle, settings.actions.grace, settings.once) == (2.0, 3.0, True)


def test_rules_file_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    """As editors write it; other encodings are named in plain words."""
    rules = tmp_path / "rules.toml"
    rules.write_text('dir = ["/etc/app"]\n', encoding="utf-8-sig")
    settings = load_settings(parse_arguments(["--rules", str(rules)]))
    assert settings.watch.directories == ("/etc/app",)
    rules.write_text('dir = ["/etc/app"]\n', encoding="utf-16")
    with pytest.raises(SettingsError, match=r"^--rules: \S+ is not valid UTF-8$"):
        load_settings(parse_arguments(["--rules", str(rules)]))


def test_configmap_reload_flags_are_accepted() -> None:
    """As they are, with one dash or two; the number of retries bounds nothing."""
    settings = load_settings(
        parse_arguments(
            [
                *("-volume-dir", "/etc/a", "--volume-dir=/etc/b"),
                *("-webhook-url=http://127.0.0.1:9090/-/reload", "--webhook-method", "GET"),
                *("--webhook-status-code", "204", "-webhook-retries", "5"),
                *("-web.listen-address", ":9999", "--web.telemetry-path=/prom"),
            ]
        )
    )
    (action,) = settings.rules[0].actions
    assert settings.watch.directories == ("/etc/a", "/etc/b")
    assert action.call is not None
    assert str(action.call.url) == "http://127.0.0.1:9090/-/reload"
    assert (action.call.method, action.call.statuses) == ("GET", (204,))
    assert (settings.reports.listen, settings.reports.metrics_path) == (("", 9999), "/prom")
    assert "a call is repeated until it succeeds" in settings.warnings[0]


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        (["--verify", "field http://h/ loads"], True),
        (["--verify", "log /l loaded"], True),
        (["--verify", "field http://h/ version=7"], False),
        (["--verify", "http http://h/"], False),
        (["--verify", "field http://h/ loads", "--exec", "true"], False),
        (["--verify", "output date", "--", "program"], False),
        (["--for", "redis"], False),
    ],
)
def test_probe_that_compares_without_an_action_is_warned_of(flags: list[str], warned: bool) -> None:
    """What re-reads files at once has done so before the probe is read for the first time."""
    warnings = load_settings(parse_arguments(["--dir", "/etc/app", *flags])).warnings
    assert any("compares the values before and after" in text for text in warnings) is warned


def test_values_are_parsed() -> None:
    """Sizes, modes, signals, statuses and addresses as people write them."""
    assert [parse_size(text) for text in ("7", "64Ki", "2M")] == [7, 65536, 2_000_000]
    assert parse_mode("0644") == 0o644
    assert [parse_signal(text) for text in ("HUP", "SIGHUP", "1", "hup")] == [1, 1, 1, 1]
    # Names that Kubernetes allows as lifecycle.stopSignal, although others are the usual ones.
    assert [parse_signal(text) for text in ("SIGCLD", "SIGIOT", "SIGPOLL")] == [17, 6, 29]
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
def test_url_is_shown_without_credentials(text: str, shown: str) -> None:
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


def test_check_config_validates_settings(tmp_path: Path) -> None:
    """0 and a sentence, or 2 and what is wrong; nothing is watched."""
    done = run("--check-config", "--dir", str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (0, "settings are valid\n")
    done = run("--check-config", "--dir", "x", "--settle", "soon")
    assert done.returncode == 2
    assert done.stderr == (
        'hotmap agent: --settle: invalid duration "soon": expected a number with a unit, such as '
        "500ms or 5s\n"
    )


def test_root_may_be_watched() -> None:
    """What is not written is in no directory."""
    assert load_settings(parse_arguments(["--dir", "/"])).watch.directories == ("/",)


def test_status_rejects_other_flags() -> None:
    """As of every other command; an agent that is not there is 1."""
    assert run("status", "--settle", "1s").returncode == 2
    assert run("status", "--socket").returncode == 2
    done = run("status", "--socket", "/no/such")
    assert (done.returncode, done.stderr) == (
        1,
        "hotmap agent: no response from an agent: cannot reach unix:/no/such:/status: no such "
        "file or directory\n",
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["status", "--socket="], '--socket: invalid path "": must not be empty'),
        (["status", "--socket", f"/{'x' * 200}"], "--socket: invalid path of a unix socket"),
        (["status", "--socket=/a", "--url=http://b/"], "status requires one address only"),
        (["status", "--url=http://a/", "--url=http://b/"], "status requires one address only"),
        (["copy", ""], "copy requires one argument"),
    ],
)
def test_subcommands_reject_invalid_values(words: list[str], text: str) -> None:
    """As the agent does: one sentence that names the flag."""
    done = run(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"hotmap agent: {text}" in done.stderr


def test_status_asks_at_every_path_that_an_agent_listens_on(tmp_path: Path) -> None:
    """A path may have characters that a URL may not have."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "a b: é"
    with agent(place, "--dir", volume) as running:
        running.reaches("told")
        assert run("status", "--socket", str(place / "agent.sock")).returncode == 0


def test_help_lists_every_flag() -> None:
    """--help, -h and -help print all flags."""
    assert all(f"--{name}" in help_text() for name in FLAGS)
    assert run("-h").stdout == run("--help").stdout == help_text()


def test_examples_of_the_help_are_valid() -> None:
    """Each of them starts an agent when it is copied."""
    examples = help_text().rstrip().partition("Examples:\n")[2].splitlines()
    assert examples
    for line in examples:
        words = shlex.split(line)
        assert words[:2] == ["hotmap", "agent"]
        load_settings(parse_arguments(words[2:]))


def test_help_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the help of the other commands does; a wider terminal gets longer lines."""
    monkeypatch.setenv("COLUMNS", "80")
    narrow = help_text()
    others = (
        probes.__doc__ or "",
        configmap_reload.help_text(),
        prometheus_config_reloader.help_text(),
    )
    for line in (line for text in others for line in text.splitlines()):
        assert len(line) <= 80 or line.lstrip().startswith("http://"), line
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "200")
    assert 80 < max(map(len, help_text().splitlines())) <= 100
    assert narrow.split() == help_text().split()
