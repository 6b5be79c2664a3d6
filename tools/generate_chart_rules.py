"""Writes the RBAC rules of the Helm chart from the kustomizations in deploy/.

`python -m tools.generate_chart_rules` writes one file for each set of rules, so that both ways to
install grant the same; a test compares them with what is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["RULES", "rendered_rules"]

ROOT = Path(__file__).parents[1]
RULES = ROOT / "charts" / "hotmap" / "files" / "rules"

#: The rules of which role, in which file of deploy/.
_ROLES = {
    "cluster": "base/clusterrole.yaml",
    "namespace": "namespaced/role.yaml",
    "own": "controller/role.yaml",
}
#: The rules that a component adds.
_COMPONENTS = ("argo-rollouts", "csi", "evict", "jobs", "reloader")


def rendered_rules() -> dict[str, str]:
    """Return the text of each file of rules by its name."""
    found = {name: (path, _role_rules(path)) for name, path in _ROLES.items()}
    for name in _COMPONENTS:
        path = f"components/{name}/kustomization.yaml"
        found[name] = (path, _component_rules(path))
    return {
        f"{name}.yaml": f"# Written by tools/generate_chart_rules.py from deploy/{path}.\n"
        + yaml.safe_dump(rules, sort_keys=False)
        for name, (path, rules) in found.items()
    }


def _role_rules(path: str) -> list[Any]:
    documents = yaml.safe_load_all((ROOT / "deploy" / path).read_text())
    (role,) = (document for document in documents if "rules" in document)
    rules: list[Any] = role["rules"]
    return rules


def _component_rules(path: str) -> list[Any]:
    patches = yaml.safe_load((ROOT / "deploy" / path).read_text())["patches"]
    (patch,) = (patch for patch in patches if patch["target"]["kind"].endswith("Role"))
    return [operation["value"] for operation in yaml.safe_load(patch["patch"])]


def main() -> None:
    """Write the files."""
    for name, text in rendered_rules().items():
        (RULES / name).write_text(text)


if __name__ == "__main__":
    main()
