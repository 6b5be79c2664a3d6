"""The built-in kinds, one module each, named like pkg/registry/<group>/<resource>.

Those without rules of their own are in `stored`, those that are answered and not stored in
`reviews`.
"""

from __future__ import annotations

from hotmap.local.apiserver.custom.definition import DEFINITIONS
from hotmap.local.apiserver.kinds.apps.controllerrevision import CONTROLLERREVISIONS
from hotmap.local.apiserver.kinds.apps.daemonset import DAEMONSETS
from hotmap.local.apiserver.kinds.apps.deployment import DEPLOYMENTS
from hotmap.local.apiserver.kinds.apps.replicaset import REPLICASETS
from hotmap.local.apiserver.kinds.apps.statefulset import STATEFULSETS
from hotmap.local.apiserver.kinds.autoscaler import AUTOSCALERS
from hotmap.local.apiserver.kinds.batch.cronjob import CRONJOBS
from hotmap.local.apiserver.kinds.batch.job import JOBS
from hotmap.local.apiserver.kinds.coordination.lease import LEASES
from hotmap.local.apiserver.kinds.core.componentstatus import BINDINGS, COMPONENT_STATUSES
from hotmap.local.apiserver.kinds.core.configmap import CONFIGMAPS
from hotmap.local.apiserver.kinds.core.endpoint import ENDPOINTS
from hotmap.local.apiserver.kinds.core.event import EVENTS, NEW_EVENTS
from hotmap.local.apiserver.kinds.core.namespace import NAMESPACES
from hotmap.local.apiserver.kinds.core.node import NODES
from hotmap.local.apiserver.kinds.core.pod import PODS
from hotmap.local.apiserver.kinds.core.secret import SECRETS
from hotmap.local.apiserver.kinds.core.service import SERVICES
from hotmap.local.apiserver.kinds.core.serviceaccount import SERVICEACCOUNTS
from hotmap.local.apiserver.kinds.reviews import REVIEWS
from hotmap.local.apiserver.kinds.stored import STORED
from hotmap.local.scheme import Scheme

BUILT_IN = (
    CONFIGMAPS,
    SECRETS,
    NAMESPACES,
    PODS,
    SERVICES,
    ENDPOINTS,
    SERVICEACCOUNTS,
    NODES,
    EVENTS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
    DAEMONSETS,
    CONTROLLERREVISIONS,
    JOBS,
    CRONJOBS,
    LEASES,
    AUTOSCALERS,
    NEW_EVENTS,
    COMPONENT_STATUSES,
    BINDINGS,
    *STORED,
    *REVIEWS,
    DEFINITIONS,
)


def built_in_scheme() -> Scheme:
    """Make a Scheme of all built-in kinds, in the order in which discovery lists them."""
    return Scheme(BUILT_IN)
