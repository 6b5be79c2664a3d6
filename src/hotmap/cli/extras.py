"""Optional dependencies: which command needs which extra of the package."""

from __future__ import annotations

from importlib.util import find_spec

from hotmap.core.errors import SettingsError

__all__ = ["require_extra"]

#: The modules of each extra (pyproject.toml, optional-dependencies).
_MODULES = {"local": ("cryptography", "aiohttp")}


def require_extra(extra: str, *, command: str) -> None:
    """Check that an extra is installed that a command needs.

    Raises:
        SettingsError: it is not; the text says how to install it.
    """
    for module in _MODULES[extra]:
        if find_spec(module) is None:
            raise SettingsError(
                f"{command} needs the package {module}, which is in the extra {extra}: "
                f"install hotmap with it, as pip install '.[{extra}]' does in a checkout "
                "(docs/install.md)"
            )
