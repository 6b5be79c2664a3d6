"""Starts and stops all controllers of the local control plane together.

What kube-controller-manager and kube-scheduler are to a cluster. The caches are filled before
the first decision.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from hotmap.local.client import Client
from hotmap.local.controllers.batch.cronjob import CronJobController
from hotmap.local.controllers.batch.job import JobController
from hotmap.local.controllers.batch.ttl import TTLAfterFinishedController
from hotmap.local.controllers.certificates import CertificateController, CertificateSigning
from hotmap.local.controllers.clusterrole_aggregation import ClusterRoleAggregationController
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.controller_names import (
    CONTROLLER_NAMES,
    PROVISIONER,
    SIGNING,
    TOKENS,
)
from hotmap.local.controllers.daemonset.controller import DaemonSetController
from hotmap.local.controllers.deployment import DeploymentController
from hotmap.local.controllers.disruption import DisruptionController
from hotmap.local.controllers.endpoints import EndpointsController
from hotmap.local.controllers.garbage import GarbageCollector
from hotmap.local.controllers.namespace import NamespaceController
from hotmap.local.controllers.replicaset import ReplicaSetController
from hotmap.local.controllers.resourcequota import ResourceQuotaController
from hotmap.local.controllers.scheduler import Scheduler
from hotmap.local.controllers.serviceaccount import AccountSettings, ServiceAccountController
from hotmap.local.controllers.statefulset.controller import StatefulSetController
from hotmap.local.controllers.token_secrets import TokenSecretController
from hotmap.local.controllers.volumes.binder import PersistentVolumeBinder
from hotmap.local.controllers.volumes.ephemeral import EphemeralVolumeController
from hotmap.local.controllers.volumes.protection import ClaimProtection, VolumeProtection
from hotmap.local.controllers.volumes.provisioner import LocalPathProvisioner
from hotmap.local.informer import Informers
from hotmap.local.lifecycle import Lifecycle
from hotmap.local.proxy import ServiceProxy

__all__ = ["Controllers"]

_MAKERS: Final[dict[str, Callable[[ControllerContext], Controller[Any]]]] = {
    "namespace-controller": NamespaceController,
    "clusterrole-aggregation-controller": ClusterRoleAggregationController,
    "garbage-collector-controller": GarbageCollector,
    "deployment-controller": DeploymentController,
    "replicaset-controller": ReplicaSetController,
    "replicationcontroller-controller": partial(
        ReplicaSetController, name="replication", owners="replicationcontrollers"
    ),
    "statefulset-controller": StatefulSetController,
    "daemonset-controller": DaemonSetController,
    "job-controller": JobController,
    "cronjob-controller": CronJobController,
    "ttl-after-finished-controller": TTLAfterFinishedController,
    "endpoints-controller": EndpointsController,
    "disruption-controller": DisruptionController,
    "resourcequota-controller": ResourceQuotaController,
    "persistentvolume-binder-controller": PersistentVolumeBinder,
    "persistentvolumeclaim-protection-controller": ClaimProtection,
    "persistentvolume-protection-controller": VolumeProtection,
    "ephemeral-volume-controller": EphemeralVolumeController,
    "scheduler": Scheduler,
}


class Controllers(Lifecycle):
    """All controllers over one Registry, as an async context manager or by start and stop."""

    def __init__(
        self,
        client: Client,
        *,
        accounts: AccountSettings | None = None,
        clock: Callable[[], float] = time.time,
        proxy: bool = False,
        signing: CertificateSigning | None = None,
        volumes: Path | None = None,
        controllers: Collection[str] = CONTROLLER_NAMES,
    ) -> None:
        """Prepare the controllers.

        *accounts* says what service accounts get. *clock* gives POSIX seconds and is the Registry's
        clock. *proxy* says whether to listen at the addresses of Services. *signing* issues
        certificates; None issues none. Volumes are made below *volumes*; None makes none, as where
        there is no node. *controllers* are the names of those that run.
        """
        self._informers = Informers(client)
        accounts = accounts or AccountSettings()
        context = ControllerContext(client, self._informers, clock)
        makers: dict[str, Callable[[ControllerContext], Controller[Any]]] = {
            **_MAKERS,
            "serviceaccount-controller": partial(
                ServiceAccountController, root_ca=accounts.root_ca
            ),
        }
        if signing is not None:
            makers[SIGNING] = partial(CertificateController, signing=signing)
        if accounts.make_token is not None:
            makers[TOKENS] = partial(
                TokenSecretController, root_ca=accounts.root_ca, make_token=accounts.make_token
            )
        if volumes is not None:
            makers[PROVISIONER] = partial(LocalPathProvisioner, directory=volumes)
        self._controllers = tuple(
            make(context) for name, make in makers.items() if name in controllers
        )
        self._proxy = ServiceProxy(client, self._informers) if proxy else None
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Control until cancelled; a controller that breaks takes all others down with it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            await self._informers.wait_for_sync()
            for controller in self._controllers:
                tasks.create_task(controller.run())
            if self._proxy is not None:
                tasks.create_task(self._proxy.run())

    async def start(self) -> None:
        """Run in the background, and return when all caches are filled.

        Raises:
            ExceptionGroup: a cache could not be filled; nothing is left running.
        """
        self._task = asyncio.create_task(self.run(), name="controllers")
        synced = asyncio.create_task(self._informers.wait_for_sync())
        try:
            await asyncio.wait((self._task, synced), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            synced.cancel()
            await asyncio.wait((synced,))
        if self._task.done():
            await self.stop()

    async def stop(self) -> None:
        """Stop everything and wait for its end.

        Raises:
            ExceptionGroup: a controller broke while it ran.
        """
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()
