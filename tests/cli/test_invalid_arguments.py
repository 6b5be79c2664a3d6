"""An invalid argument or manifest is reported in one sentence, with exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command_calls import WRONG, hotmap

from hotmap.cli.inject import default_image
from hotmap.local.controllers.controller_names import CONTROLLER_NAMES


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("--nope", "No such option '--nope'; see 'hotmap --help'"),
        (
            "-n shop status",
            "No such option '-n'; put '-n' after the command; see 'hotmap --help'",
        ),
        (
            "status --namespce=x",
            "No such option '--namespce'; did you mean '--all-namespaces', "
            "'--controller-namespace', '--namespace'; see 'hotmap status --help'",
        ),
        (
            "status --al",
            "No such option '--al'; did you mean '--all-namespaces'; see 'hotmap status --help'",
        ),
        (
            "controller --no-lead",
            "No such option '--no-lead'; did you mean '--no-leader-elect'; "
            "see 'hotmap controller --help'",
        ),
        (
            "status --c",
            "No such option '--c'; did you mean '--controller-namespace', '--context'; "
            "see 'hotmap status --help'",
        ),
        (
            "status -n Shop",
            "Invalid value for '--namespace' / '-n': \"Shop\" is not the name of a namespace: "
            "expected at most 63 lowercase letters, digits and hyphens; see 'hotmap status --help'",
        ),
        # As the shell passes what is not ASCII where the locale has no other characters.
        (
            "release web -n caf\udcc3\udca9",
            "Invalid value for '--namespace' / '-n': \"caf\\udcc3\\udca9\" is not the name of a "
            "namespace: expected at most 63 lowercase letters, digits and hyphens; see 'hotmap "
            "release --help'",
        ),
        (
            "status --controller-namespace ..",
            "Invalid value for '--controller-namespace': \"..\" is not the name of a namespace: "
            "expected at most 63 lowercase letters, digits and hyphens; see 'hotmap status --help'",
        ),
        (
            "controler",
            "No such command 'controler'; did you mean 'controller'; see 'hotmap --help'",
        ),
        ("frobnicate", "No such command 'frobnicate'; see 'hotmap --help'"),
        ("version", "No such command 'version'; write '--version'; see 'hotmap --help'"),
        ("local down", "No such command 'down'; see 'hotmap local --help'"),
        ("demo twice", "Got unexpected extra argument (twice); see 'hotmap demo --help'"),
        ("status --wait", "Option '--wait' requires an argument; see 'hotmap status --help'"),
        ("local up --dir", "Option '--dir' requires an argument; see 'hotmap local up --help'"),
        ("controller -h=x", "No such option '-='; see 'hotmap controller --help'"),
        (
            "local up --port 99999",
            "Invalid value for '--port': 99999 is not in the range 0<=x<=65535; "
            "see 'hotmap local up --help'",
        ),
        ("local up --dir=", '--dir: invalid directory "": omit --dir to keep objects in memory'),
        ("local up --etcd=", '--etcd: invalid URL "": expected http://HOST:PORT'),
        (
            "local up --etcd http://127.0.0.1:99999",
            "--etcd: invalid URL 'http://127.0.0.1:99999': expected http://HOST:PORT",
        ),
        (
            "local up --etcd http://root:hunter2@127.0.0.1:1",
            "--etcd: a user or password in the URL is not supported",
        ),
        (
            "local up --etcd http://[::1",
            "--etcd: invalid URL 'http://[::1': expected http://HOST:PORT",
        ),
        (
            "local up --image x=host:a'b",
            'invalid image "x=host:a\'b": CMD has a quote that is not closed, or ends with a '
            "backslash",
        ),
        ("local up --images=", '--images: invalid file "": expected the name of a file'),
        (
            "local up --sync-period soon",
            '--sync-period: invalid duration "soon": expected a number with a unit, such as '
            "500ms or 5s",
        ),
        (
            "local up --sync-period 0",
            '--sync-period: invalid duration "0": must be greater than 0, such as 1s',
        ),
        (
            "local up --controllers *,-daemonset",
            f"--controllers: unknown controller 'daemonset'; there are "
            f"{', '.join(CONTROLLER_NAMES)}",
        ),
        (
            "controller --workers none",
            "Invalid value for '--workers': 'none' is not a number; see 'hotmap controller --help'",
        ),
        (
            "inject app.yaml",
            "Missing option '--filename' / '-f'; write '-f app.yaml'; see 'hotmap inject --help'",
        ),
        (
            "inject --output app.yaml",
            "Missing option '--filename' / '-f'; see 'hotmap inject --help'",
        ),
        (
            "stamp -f app.yaml web.yaml",
            "Got unexpected extra argument (web.yaml); write '-f web.yaml'; "
            "see 'hotmap stamp --help'",
        ),
        (
            "why deploy web",
            "Got unexpected extra argument (web); write 'deploy/web'; see 'hotmap why --help'",
        ),
        (
            "preview cm app --key LEVEL",
            "Got unexpected extra argument (app); write 'cm/app'; see 'hotmap preview --help'",
        ),
        (
            "inject -f app.yaml web.yaml",
            "unexpected argument \"web.yaml\": write '-f web.yaml'",
        ),
        (
            "inject -f app.yaml web",
            'unexpected argument "web": put flags of the agent after --',
        ),
        (
            "inject -f app.yaml --image=",
            f'--image: invalid image "": expected a name such as {default_image()}',
        ),
        (
            "inject -f app.yaml --container=",
            '--container: invalid name "": expected the name of a container',
        ),
        (
            "dashboard --address=",
            '--address: invalid address "": expected an address such as 127.0.0.1',
        ),
        (
            "inject --output=app.yaml",
            "Missing option '--filename' / '-f'; see 'hotmap inject --help'",
        ),
        (
            "inject -f app.yaml -- --not-empty=web.yaml",
            "cannot read app.yaml: no such file or directory",
        ),
        (
            "controller --settle 1",
            '--settle: invalid duration "1": expected a number with a unit, such as 500ms or 5s',
        ),
        (
            "controller --settle-max ever",
            '--settle-max: invalid duration "ever": expected a number with a unit, such as '
            "500ms or 5s",
        ),
        (
            "controller --listen 9533",
            '--listen: invalid address "9533": expected HOST:PORT, :PORT or none',
        ),
    ],
)
def test_invalid_argument_is_named(typed: str, sentence: str, tmp_path: Path) -> None:
    """The flag or word, what is wrong with it and where to look."""
    assert hotmap(*typed.split(), home=tmp_path) == (WRONG, f"hotmap: {sentence}")


def test_image_with_a_space_is_refused(tmp_path: Path) -> None:
    """The API server would accept it, and the pod could not start."""
    problem = f'--image: invalid image "web: 1": expected a name such as {default_image()}'
    call = ("inject", "-f", "app.yaml", "--image", "web: 1")
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


def test_manifest_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    """A pipeline checks manifests that others have written, and reads commands in its log."""
    manifest = tmp_path / "app.yaml"
    name = r"a\n::error::\x1b[31m"
    metadata = f'metadata: {{name: "{name}"}}'
    manifest.write_text(f"apiVersion: v1\nkind: Secret\n{metadata}\ndata: {{LEVEL: 1}}\n")
    code, text = hotmap("stamp", "-f", str(manifest), home=tmp_path)
    assert code == 2
    assert f'Secret/{name}: data "LEVEL" is a number' in text
    assert text.isprintable()


def test_invalid_follow_is_an_error(tmp_path: Path) -> None:
    """The flag's value is named, and how one is written."""
    problem = '--follow: invalid item "pod/x": expected configmap/NAME, secret/NAME or spc/NAME'
    call = ("controller", "--follow", "pod/x")
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")
