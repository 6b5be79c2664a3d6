"""An agent that can be brought to a stand in every state that it has, and what it works with.

Its checker, its command and its probes are one script, which says where it has got to and stays
there as long as it is told to. So a test acts in exactly that state, not at a moment it guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agent.agents import Agent, Volume, Webhook, agent, eventually, webhook

#: One program in all roles; `$1` is its role, `$2` the folder, `$3` the volume.
SCRIPT = """
cd "$2" || exit 1
role=$1
if [ -e "hold-$role" ]; then
    echo $$ > "reached-$role.new"; mv "reached-$role.new" "reached-$role"
    while [ -e "hold-$role" ]; do sleep 0.02; done
fi
if status=$(cat "fail-$role" 2> /dev/null); then exit "$status"; fi
if [ "$role" = look ]; then cat loads loaded 2> /dev/null; fi
if [ "$role" = act ]; then cat "$3/text" >> loads; echo >> loads; fi
exit 0
"""


class State(NamedTuple):
    """How a state is reached with newer content, and what is to be seen then."""

    #: A role of the script to stop in, or to fail in with a status.
    hold: str = ""
    fail: tuple[str, int] | None = None
    #: What the agent says of itself in it.
    word: str = "pending"
    #: Whether the endpoint gives no answer.
    hang: bool = False
    host: str = "127.0.0.1"
    #: Whether a probe compares what it shows with what it showed before the action.
    compares: bool = False
    flags: tuple[str, ...] = ()


STATES: dict[str, State] = {
    "settling": State(flags=("--settle", "10m", "--settle-max", "10m")),
    "checking": State(hold="check"),
    "refused": State(fail=("check", 1), word="refused"),
    "without a verdict": State(fail=("check", 127), word="waiting"),
    "looking at probes": State(hold="look", compares=True),
    "calling": State(hang=True),
    # A name has to be resolved, which blocks, so such a call is made by a child.
    "calling by a child": State(hang=True, host="localhost"),
    "acting": State(hold="act"),
    "retrying": State(fail=("act", 1), word="failing"),
    "confirming": State(hold="confirm"),
    "loaded": State(word="loaded"),
}


class Scene:
    """A volume, an endpoint, the script, and agents that are started with them."""

    def __init__(self, folder: Path, endpoint: Webhook, state: State) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self.state = state
        self.volume = Volume(folder / "volume", text="one")
        self.script = folder / "script"
        self.script.write_text(SCRIPT)
        self._url = f"http://{state.host}:{endpoint.port}/"

    def flags(self) -> tuple[str, ...]:
        """Those of every agent of this scene."""
        return (
            *("--dir", str(self.volume), "--state", str(self.folder / "state")),
            *("--check", self._role("check"), "--exec", self._role("act")),
            *("--verify", f"exec {self._role('confirm')}", "--url", self._url),
            *(("--verify", f"output {self._role('look')}") if self.state.compares else ()),
            *("--retry-first", "10m", "--retry-max", "10m", *self.state.flags),
        )

    def _role(self, name: str) -> str:
        return f"sh {self.script} {name} {self.folder} {self.volume}"

    def loads(self) -> list[str]:
        """What was loaded so far, oldest first."""
        path = self.folder / "loads"
        return path.read_text().split() if path.exists() else []

    def reach(self, running: Agent) -> None:
        """Publish newer content and wait until the agent is in the state."""
        state = self.state
        calls = len(self.endpoint.calls)
        if state.hold:
            (self.folder / f"hold-{state.hold}").touch()
        if state.fail:
            role, status = state.fail
            (self.folder / f"fail-{role}").write_text(str(status))
        if state.hang:
            self.endpoint.hang.clear()
        self.volume.write(text="two")
        if state.hold:
            eventually((self.folder / f"reached-{state.hold}").exists, state.hold)
        if state.hang:
            eventually(lambda: len(self.endpoint.calls) > calls, "the call")
        if state.word == "loaded":
            eventually(lambda: self.loads()[-1:] == ["two"], "the load")
        running.reaches(state.word)

    def release(self) -> None:
        """Resume everything for the following tests."""
        for path in (*self.folder.glob("hold-*"), *self.folder.glob("fail-*")):
            path.unlink()
        self.endpoint.hang.set()


@contextmanager
def standing(folder: Path, name: str) -> Iterator[tuple[Scene, Agent]]:
    """Have an agent that has loaded content and is in a state with newer content."""
    with webhook() as endpoint:
        scene = Scene(folder, endpoint, STATES[name])
        with agent(folder, *scene.flags()) as running:
            running.reaches("loaded")
            scene.reach(running)
            try:
                yield scene, running
            finally:
                scene.release()
