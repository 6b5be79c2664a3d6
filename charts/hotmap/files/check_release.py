"""`helm test`: a leader of this release renews its Lease, and the status Service wants a token.

Run by the Python of hotmap's image as the controller's ServiceAccount; the environment names the
release's Deployment and, where there is a Service, Kubernetes its address.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = 60.0


def read_lease() -> tuple[str, str]:
    """Return the holder of the Lease and the time of its last renewal, "" where there is none."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    if ":" in host:
        host = f"[{host}]"
    namespace = (ACCOUNT / "namespace").read_text()
    path = f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/hotmap-controller"
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(
        f"https://{host}:{port}/{path}", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as response:
            spec = json.load(response)["spec"]
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return "", ""
    return spec.get("holderIdentity", ""), spec.get("renewTime", "")


def wait_for_renewal(deployment: str) -> str:
    """Return the pod that holds the Lease, once it has renewed it; exits after a minute."""
    deadline = time.monotonic() + TIMEOUT
    first = ("", "")
    while time.monotonic() < deadline:
        holder, renewed = read_lease()
        if holder.startswith(f"{deployment}-"):
            if first[0] == holder and first[1] != renewed:
                return holder.rpartition("_")[0]
            first = (holder, renewed)
        time.sleep(1)
    sys.exit(
        f"no pod of {deployment} renewed the Lease hotmap-controller: last holder {first[0]!r}"
    )


def check_status_service() -> str:
    """Check that the status port refuses a request without a token."""
    host, port = os.environ.get("HOTMAP_SERVICE_HOST"), os.environ["HOTMAP_STATUS_PORT"]
    if not host:
        sys.exit("there is no Service hotmap")
    if ":" in host:
        host = f"[{host}]"
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/v1/status", timeout=10) as response:
            code = response.status
    except urllib.error.HTTPError as error:
        code = error.code
    if code not in (401, 403):
        sys.exit(f"the status Service answered {code} to a request without a token")
    return "the status Service requires a token"


if __name__ == "__main__":
    print(f"{wait_for_renewal(os.environ['DEPLOYMENT'])} is the leader")
    if "HOTMAP_STATUS_PORT" in os.environ:
        print(check_status_service())
