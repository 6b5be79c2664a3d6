"""Start and stop of a complete control plane with one node, in this process.

Joins the parts of `local`. `state` has what a run needs on disk.

The start order follows the dependencies: certificates and the node's first process are created in
parallel, since they take longest; the API server listens before the kubeconfig is written; the
controllers start last. The stop order is the reverse.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.apiserver.account_tokens import AccountTokens
from hotmap.local.apiserver.authentication import Access, Authenticator
from hotmap.local.apiserver.authorization import AllowAll
from hotmap.local.apiserver.bootstrap import (
    create_bootstrap_roles,
    create_component_statuses,
    create_priority_classes,
    create_system_namespaces,
)
from hotmap.local.apiserver.client_certificates import ClientAuthority, ask_for_certificates
from hotmap.local.apiserver.custom_resources import CustomResources
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.kubernetes_service import KubernetesService
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.admission_policies import AdmissionPolicies
from hotmap.local.apiserver.plugins.certificate_requests import CertificateRequestPlugin
from hotmap.local.apiserver.plugins.escalation import EscalationPlugin
from hotmap.local.apiserver.plugins.limitranger import LimitRangePlugin
from hotmap.local.apiserver.plugins.priority import PriorityPlugin
from hotmap.local.apiserver.plugins.resourcequota import ResourceQuotaPlugin
from hotmap.local.apiserver.plugins.runtimeclass import RuntimeClassPlugin
from hotmap.local.apiserver.plugins.service_addresses import ServiceAddressPlugin
from hotmap.local.apiserver.plugins.serviceaccount import ServiceAccountPlugin
from hotmap.local.apiserver.plugins.storage import StoragePlugin
from hotmap.local.apiserver.rbac import RBACAuthorizer
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.apiserver.storage_codec import StorageCodec
from hotmap.local.apiserver.webhooks import Webhooks
from hotmap.local.certificate_authority import CertificateAuthority
from hotmap.local.controllers.certificates import CertificateSigning
from hotmap.local.controllers.controller_names import CONTROLLER_NAMES
from hotmap.local.controllers.run import Controllers
from hotmap.local.controllers.serviceaccount import AccountSettings
from hotmap.local.etcd import EtcdStore
from hotmap.local.journal import open_store
from hotmap.local.kubelet.images import Images, parse_image
from hotmap.local.kubelet.kubelet import Kubelet
from hotmap.local.kubelet.runtime import Runtime
from hotmap.local.lifecycle import Lifecycle
from hotmap.local.network import PlaneNetwork, kubernetes_address
from hotmap.local.open_files import raise_open_files_limit
from hotmap.local.pki import ServerPKI, create_pki, keep_pki
from hotmap.local.service_tokens import ISSUER, TokenSigner
from hotmap.local.state import StateDirectory, default_directory
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens, new_token

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from hotmap.local.kubelet.sync import SyncSettings
    from hotmap.local.store import Store

HOST = "127.0.0.1"
NODE_NAME = "local"
# Upstream's group of administrators.
_ADMINISTRATOR = "system:masters"


class PlaneSettings(NamedTuple):
    """How a control plane stores and serves."""

    #: Whether objects outlive the run, in the state directory.
    keep: bool = False
    #: The URL of an etcd that holds the objects; "" for none.
    etcd: str = ""
    #: Whether roles and bindings decide what users may do, or everybody may do everything.
    rbac: bool = False
    #: What images stand for on the node, as `NAME=host[:CMD]` or `NAME=DIR[:CMD]`.
    images: tuple[str, ...] = ()
    #: The names of the controllers that run; without any, nothing changes but what a request
    #: changes.
    controllers: tuple[str, ...] = CONTROLLER_NAMES


class LocalCluster(Lifecycle):
    """A Kubernetes in this process, as an async context manager or by start and stop.

    `directory` is the state directory, by default the user's; `port` 0 means any free
    one; `sync` says how the kubelet treats sources; without `start_node` there are controllers
    but no node, so pods stay Pending.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int = 0,
        sync: SyncSettings | None = None,
        start_node: bool = True,
        settings: PlaneSettings | None = None,
    ) -> None:
        self._settings = settings or PlaneSettings()
        self._images = [parse_image(text) for text in self._settings.images]
        self._state = StateDirectory(directory or default_directory(), keep=self._settings.keep)
        self._port = port
        self._sync = sync
        self._start_node = start_node
        self._tokens = Tokens()
        self._stack = contextlib.AsyncExitStack()
        # Background tasks that run until the stop; one that ends earlier has failed.
        self._running: list[asyncio.Task[None]] = []
        #: The kinds that this cluster serves.
        self.scheme = built_in_scheme()
        #: The objects, once started.
        self.registry: Registry
        #: The administrator's token, once started.
        self.token = ""
        #: The URL of the API server, once started.
        self.server = ""
        #: Seconds that the start took.
        self.ready_after = 0.0

    @property
    def kubeconfig(self) -> Path:
        """Path of the kubeconfig with the server, its CA and the token."""
        return self._state.kubeconfig

    @property
    def ca_certificate(self) -> Path:
        """Path of the CA certificate (PEM)."""
        return self._state.pki / "ca.crt"

    async def start(self) -> None:
        """Start everything, and return once the API answers and the node is ready.

        Raises:
            SettingsError: the directory or the port cannot be used, or this machine cannot
                isolate processes. Nothing is left running.
        """
        began = time.perf_counter()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            self._state.discard()
            raise
        self.ready_after = time.perf_counter() - began

    async def stop(self) -> None:
        """Stop everything, and remove what the run left on disk."""
        # Whatever happens to a part of it, the rest is stopped as well.
        await self._stack.aclose()

    async def wait_for_failure(self) -> None:
        """Wait until a part of the running cluster fails, and raise its exception."""
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task

    async def _start(self) -> None:
        raise_open_files_limit()
        self._state.claim()
        self._stack.callback(self._state.release)
        self._network = PlaneNetwork.take()
        self._stack.callback(self._network.release)
        self.token = self._state.keep_token(new_token())
        await self._open_registry()
        kubelet = self._make_kubelet() if self._start_node else None
        pki = await self._make_pki_beside(kubelet)
        self._tokens.add(self.token, _ADMINISTRATOR)
        await self._serve(pki, kubelet)
        if self._settings.controllers:
            self._run(self._make_controllers(pki).run(), "controllers")
        authority = pki.ca_certificate.read_text()
        self._state.write_kubeconfig(self.server, authority, self.token)

    async def _open_registry(self) -> None:
        """Open the store, and create the objects that every cluster has."""
        self.registry = Registry(self._open_store(), scheme=self.scheme)
        self._access = self._make_access()  # before any write: it checks them, too
        await create_system_namespaces(self.registry)
        await create_bootstrap_roles(self.registry)
        await create_priority_classes(self.registry)
        create_component_statuses(self.registry)
        custom = CustomResources(self.registry)
        await custom.load()
        self._run(custom.run(), "custom resources")

    async def _make_pki_beside(self, kubelet: Kubelet | None) -> ServerPKI:
        """Make keys and certificates while the node starts; return when both are ready."""
        make_pki = keep_pki if self._settings.keep else create_pki
        making_pki = asyncio.create_task(asyncio.to_thread(make_pki, self._state.pki))
        try:
            if kubelet is not None:
                await self._run_until_ready(kubelet)
        finally:
            pki = await making_pki
        return pki

    async def _serve(self, pki: ServerPKI, kubelet: Kubelet | None) -> None:
        """Serve the API at this machine's address and at that of the Service `kubernetes`."""
        server = APIServer(
            self.registry,
            tls=ask_for_certificates(pki.server_context),
            tokens=self._tokens,
            kubelet=kubelet.pod_requests if kubelet is not None else None,
            access=self._access,
            flags=self._flags(),
        )
        port = await server.start(HOST, self._port)
        self._stack.push_async_callback(server.stop)
        self.server = f"https://{HOST}:{port}"
        address = kubernetes_address(self._network)
        await server.listen_too(address, port)
        service = KubernetesService(self.registry, address, port)
        await service.publish()
        self._run(service.run(), "the Service kubernetes")

    def _make_controllers(self, pki: ServerPKI) -> Controllers:
        authority = CertificateAuthority(pki.ca_certificate, pki.ca_key)
        return Controllers(
            self.registry,
            accounts=AccountSettings(
                pki.ca_certificate.read_text(), self._account_tokens.of_secret
            ),
            proxy=True,
            signing=CertificateSigning(authority, self._access.authorizer),
            volumes=self._state.volumes if self._start_node else None,
            controllers=self._settings.controllers,
        )

    def _flags(self) -> dict[str, str]:
        """Return the settings of the API server, under the names of kube-apiserver's flags."""
        return {
            "anonymous-auth": str(self._settings.rbac).lower(),
            "authorization-mode": "[RBAC]" if self._settings.rbac else "[AlwaysAllow]",
            "bind-address": HOST,
            "client-ca-file": str(self.ca_certificate),
            "etcd-servers": f"[{self._settings.etcd}]",
            "secure-port": str(self._port),
            "service-account-issuer": f"[{ISSUER}]",
            "service-cluster-ip-range": str(self._network.services),
        }

    def _open_store(self) -> Store:
        if self._settings.etcd:
            etcd = EtcdStore(self._settings.etcd, StorageCodec(self.scheme))
            etcd.open()
            self._stack.callback(etcd.close)
            return etcd
        if not self._settings.keep:
            return MVCCStore()
        store, journal = open_store(self._state.store)
        self._stack.callback(journal.close)
        return store

    def _make_access(self) -> Access:
        registry, rbac = self.registry, self._settings.rbac
        signer = TokenSigner(self._state.pki / "sa.key")
        authorizer = RBACAuthorizer(registry.store, self.scheme) if rbac else AllowAll()
        clients = ClientAuthority(self.ca_certificate)
        authenticator = Authenticator(
            self._tokens, registry.reader, signer, clients=clients, anonymous=rbac
        )
        policies = AdmissionPolicies(registry.store, registry.reader)
        registry.deleter.policies = registry.admitted.policies = policies
        registry.writer.plugins = AdmissionChain(
            [
                ServiceAccountPlugin(registry.reader),
                ServiceAddressPlugin(registry.store, registry.reader, self._network.services),
                PriorityPlugin(registry.store, registry.reader),
                RuntimeClassPlugin(registry.reader),
                LimitRangePlugin(registry.store, registry.reader),
                StoragePlugin(registry.store, registry.reader),
                EscalationPlugin(authorizer),
                CertificateRequestPlugin(authorizer, registry.now),
                policies,
                # Last, so that it counts what is written (apiserver: recommended order).
                ResourceQuotaPlugin(registry.store, registry.reader),
            ]
        )
        registry.admitted.webhooks = Webhooks(registry.store, registry.reader)
        self._account_tokens = AccountTokens(signer, registry.reader, registry.now)
        return Access(authenticator, authorizer, self._account_tokens, signer)

    def _make_kubelet(self) -> Kubelet:
        return Kubelet(
            self.registry,
            node_name=NODE_NAME,
            root_dir=self._state.path,
            sync=self._sync,
            runtime=Runtime(self._state.path / "sandbox", Images(dict(self._images))),
            tokens=self._account_tokens.issue_for_pod,
            addresses=self._network.pods,
        )

    async def _run_until_ready(self, kubelet: Kubelet) -> None:
        """Run the kubelet in the background; return when it is ready, raise if it breaks."""
        running = self._run(kubelet.run(), "kubelet")
        ready = asyncio.create_task(kubelet.ready())
        try:
            await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if running.done():
            await running

    def _run(self, part: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a part in the background until the end of the cluster."""
        task = asyncio.create_task(part, name=name)
        self._running.append(task)
        self._stack.push_async_callback(_cancel_task, task)
        return task


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its exception is raised by `wait_for_failure`.
    await asyncio.gather(task, return_exceptions=True)
