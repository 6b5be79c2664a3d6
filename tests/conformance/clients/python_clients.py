"""Uses an API server by the Python clients that people have; runs with their own environment.

Argument: the client's name. Prints a line for each step that worked, and fails with a traceback.
The API server is that of KUBECONFIG.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Any


def step(what: str, found: object, wanted: object = True) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: {found!r} instead of {wanted!r}")
    print("ok", what, flush=True)


def use_kubernetes() -> None:
    from kubernetes import client, config, utils, watch

    config.load_kube_config()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="py"), data={"a": "1"})
    made = core.create_namespaced_config_map("default", body)
    step("create", made.data, {"a": "1"})
    events = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        field_selector="metadata.name=py",
        resource_version=made.metadata.resource_version,
        timeout_seconds=20,
    )
    patched = core.patch_namespaced_config_map("py", "default", {"data": {"a": "2"}})
    step("patch", patched.data["a"], "2")
    step("watch", next(events)["object"].data["a"], "2")
    try:
        core.create_namespaced_config_map("default", body)
    except client.ApiException as error:
        step("conflict", (error.status, error.reason), (409, "Conflict"))
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "py"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "py"}},
            "template": {
                "metadata": {"labels": {"app": "py"}},
                "spec": {"containers": [{"name": "main", "image": "host"}]},
            },
        },
    }
    utils.create_from_dict(client.ApiClient(), manifest)
    step("deployment", apps.read_namespaced_deployment("py", "default").spec.replicas, 0)
    apps.patch_namespaced_deployment_scale("py", "default", {"spec": {"replicas": 1}})
    step("scale", apps.read_namespaced_deployment_scale("py", "default").spec.replicas, 1)
    from kubernetes import dynamic

    maps = dynamic.DynamicClient(client.ApiClient()).resources.get(
        api_version="v1", kind="ConfigMap"
    )
    applied = maps.server_side_apply(
        body={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "py"},
            "data": {"b": "1"},
        },
        name="py",
        namespace="default",
        field_manager="py",
    )
    step("dynamic client applies", applied.data.to_dict(), {"a": "2", "b": "1"})
    apps.delete_namespaced_deployment("py", "default")
    deleted: Any = core.delete_namespaced_config_map("py", "default")
    status = deleted["status"] if isinstance(deleted, dict) else deleted.status
    step("delete", status, "Success")


def use_kr8s() -> None:
    import kr8s
    from kr8s.objects import ConfigMap

    api = kr8s.api(kubeconfig=os.environ["KUBECONFIG"])
    step("version", api.version()["major"], "1")
    found = ConfigMap(
        {"metadata": {"name": "kr8s", "namespace": "default"}, "data": {"a": "1"}}, api=api
    )
    found.create()
    step("exists", found.exists())
    found.patch({"data": {"a": "2"}})
    found.refresh()
    step("patch", found.data["a"], "2")
    found.label({"tier": "front"})
    listed = [each.name for each in api.get("configmaps", label_selector="tier=front")]
    step("list", listed, ["kr8s"])
    found.delete()
    step("delete", found.exists(), False)


def use_lightkube() -> None:
    from lightkube import ApiError, Client
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    client = Client(namespace="default", field_manager="lightkube")
    made = client.create(ConfigMap(metadata=ObjectMeta(name="light"), data={"a": "1"}))
    step("create", made.data, {"a": "1"})
    applied = client.apply(
        ConfigMap(
            apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="light"), data={"b": "1"}
        )
    )
    step("apply", applied.data, {"a": "1", "b": "1"})
    step("list", "light" in [found.metadata.name for found in client.list(ConfigMap)])
    client.delete(ConfigMap, "light")
    try:
        client.get(ConfigMap, "light")
    except ApiError as error:
        step("delete", error.status.code, 404)


def use_kopf() -> None:
    """An operator of a custom resource: its handler writes the status and an annotation."""
    import kopf
    from kubernetes import client, config

    config.load_kube_config()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "boxes", "kind": "Box"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    client.ApiextensionsV1Api().create_custom_resource_definition(definition)
    objects = client.CustomObjectsApi()
    seen: list[str] = []
    handled = threading.Event()

    def on_create(spec: Any, **_: Any) -> dict[str, str]:
        seen.append(spec["color"])
        handled.set()
        return {"color": spec["color"]}

    kopf.on.create("example.com", "v1", "boxes", id="paint")(on_create)
    stop, ready = threading.Event(), threading.Event()

    def operate() -> None:
        asyncio.run(
            kopf.operator(
                namespaces=["default"], stop_flag=stop, ready_flag=ready, standalone=True
            )
        )  # fmt: skip

    thread = threading.Thread(target=operate)
    thread.start()
    try:
        step("operator starts", ready.wait(30))
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Box",
            "metadata": {"name": "a"},
            "spec": {"color": "red"},
        }
        where = ("example.com", "v1", "default", "boxes")
        objects.create_namespaced_custom_object(*where, body)
        step("handler runs", handled.wait(30))
        for _ in range(300):
            box = objects.get_namespaced_custom_object(*where, "a")
            if "paint" in box.get("status", {}):
                break
            stop.wait(0.1)
        step("status", box["status"]["paint"], {"color": "red"})
        objects.delete_namespaced_custom_object(*where, "a")
    finally:
        stop.set()
        thread.join(30)


CLIENTS: dict[str, Callable[[], None]] = {
    "kubernetes": use_kubernetes,
    "kr8s": use_kr8s,
    "lightkube": use_lightkube,
    "kopf": use_kopf,
}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]]()
