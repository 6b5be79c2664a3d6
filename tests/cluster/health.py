"""Asks the parts of a cluster whether they work. Answers are None or the reason, in words."""

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

# Long enough for a loaded machine, short enough that a paused component is noticed.
SECONDS = 3.0


def of_http(url: str, *, ca: Path | None = None, token: str | None = None) -> str | None:
    """Ask a health address that answers 200 when all is well.

    Without `ca` the server's certificate is not checked: components sign their own for the
    ports on which they only tell their health.
    """
    context = None
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=str(ca)) if ca else _unchecked()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as lenient as Go
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # never through the caller's HTTP proxy
        urllib.request.HTTPSHandler(context=context),
    )
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with opener.open(request, timeout=SECONDS) as response:
            response.read()
    except urllib.error.HTTPError as error:
        with error:
            return f"answers {error.code}"
    except TimeoutError:
        return "does not answer"
    except urllib.error.URLError as error:
        return "does not answer" if isinstance(error.reason, TimeoutError) else str(error.reason)
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return None


def of_socket(path: Path) -> str | None:
    """Ask whether a process accepts connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        try:
            client.connect(str(path))
        except OSError as error:
            return str(error)
    return None


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
