"""The environment of a supervised application, from mounted directories, by Kubernetes' rules.

    --env-from DIR          every file in DIR is a variable; a later directory wins
    --env-from PREFIX=DIR   … with a prefix, as `envFrom[].prefix`
    --env NAME=VALUE        as `env[].value`: $(OTHER) is expanded, wins over env-from
    --env NAME              NAME as the container has it, also where an env-from has it too

kubernetes: pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables. One difference cannot be seen in
mounted files: `binaryData`, which envFrom ignores, is a file like any other.
"""

from __future__ import annotations

from hotmap.core.expansion import expand

__all__ = ["find_impossible_values", "make_environment"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotmap.agent.settings.settings import EnvFrom, EnvSetting


def make_environment(
    inherited: Mapping[str, str],
    contents: Mapping[str, Mapping[str, bytes]],
    env_from: Sequence[EnvFrom],
    env: Sequence[EnvSetting],
) -> dict[str, str]:
    """Make the application's environment.

    1. what the container has
    2. env-from, in order: prefix + file name; a later one wins
    3. env, in order: expanded against what is known so far, so a name may refer to its
       earlier value; an unknown $(NAME) stays as it is

    Bytes that are not UTF-8 are kept. A file whose name or content cannot be a variable (a path
    with a slash, a name with "=", a NUL byte) is ignored. Inherited variables are kept unless an
    env-from has the same name.
    """
    variables: dict[str, str] = {}
    for source in env_from:
        for name, data in contents[source.directory].items():
            if "/" not in name and "=" not in name and b"\0" not in data:
                variables[source.prefix + name] = data.decode("utf-8", "surrogateescape")
    known = {**inherited, **variables}
    for name, value in env:
        if value is not None:
            known[name] = expand(value, known.get)
        elif name in inherited:
            known[name] = inherited[name]
    return known


def find_impossible_values(
    contents: Mapping[str, Mapping[str, bytes]], env_from: Sequence[EnvFrom]
) -> list[str]:
    """Name the variables that are not set since their value has a NUL byte, which none can hold.

    Not an error: they may be keys of `binaryData`, which envFrom ignores as well.
    """
    return [
        f"{source.prefix}{name}"
        for source in env_from
        for name, data in sorted(contents[source.directory].items())
        if "/" not in name and "=" not in name and b"\0" in data
    ]
