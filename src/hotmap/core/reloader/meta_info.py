"""The ConfigMap in which Reloader describes itself (stakater/Reloader, pkg/common/metainfo.go).

Tools find it by its label and read the version and the settings of a running Reloader. Each data
key is a JSON document whose fields are Reloader's.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["LABELS", "META_INFO", "meta_info_data"]

#: Its name, and the label that it is found by.
META_INFO = "reloader-meta-info"
LABELS = {"reloader.stakater.com/meta-info": "reloader"}

#: Go's zero time, which Reloader writes where its build has no time.
_NO_TIME = "0001-01-01T00:00:00Z"


def meta_info_data(
    options: Mapping[str, Any], *, version: str, namespace: str, deployment: str
) -> dict[str, str]:
    """Build the data of the ConfigMap.

    `options` are the settings under Reloader's names, `deployment` is the name of the controller's
    Deployment, "" if that is unknown.
    """
    documents: dict[str, Any] = {
        "buildInfo": {
            "goVersion": f"python{platform.python_version()}",
            "releaseVersion": f"hotmap-{version}",
            "commitHash": "unknown",
            "commitTime": _NO_TIME,
            "edition": "hotmap",
        },
        "reloaderOptions": options,
        "deploymentInfo": {
            **({"name": deployment} if deployment else {}),
            "namespace": namespace,
            "creationTimestamp": None,
        },
    }
    return {key: msgspec.json.encode(value).decode() for key, value in documents.items()}
