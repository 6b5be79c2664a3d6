"""Container images made by hand, without a registry: pause, busybox, python, nginx, hotmap.

Files come out of Debian packages; an image is an OCI layout in one tar file that containerd imports
(tools/image). Tars are kept in the cache folder, named by what they were made from. Pods name them
`hotmap.test/NAME:1`, which needs no pull policy. hotmap's own images are those of a release, made
of the present source, and also have the names that a release gives them.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.cluster import machine, packages
from tests.cluster.errors import TestBedError
from tools.image.available_pins import use_available_pins
from tools.image.bytecode import machine_architecture
from tools.image.content import AGENT, CONTROLLER, SOURCE, agent_image, controller_image
from tools.image.errors import ImageError
from tools.image.layer import MANUALS, Layer, walk
from tools.image.oci import Image, plain, write_archive

from hotmap import __version__
from hotmap.agent import build as agent

REPOSITORY = "hotmap.test"
LIBC = ("libc6", "libgcc-s1", "libcrypt1")
PYTHON = (
    *LIBC, "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libexpat1",
    "zlib1g", "libssl3", "libbz2-1.0", "libffi8", "liblzma5", "libsqlite3-0", "libuuid1",
    "libtinfo6", "libncursesw6", "libreadline8", "tzdata",
)  # fmt: skip
NGINX = (*LIBC, "nginx", "nginx-common", "libpcre2-8-0", "libssl3", "zlib1g")
NGINX_CONF = b"""\
worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events {}
http {
  access_log off;
  include /etc/nginx/conf.d/*.conf;
}
"""
# As in the published image: its user, paths and include; its build has these temporary paths.
PUBLISHED_NGINX_CONF = b"""\
user  nginx;
worker_processes  1;
error_log  /var/log/nginx/error.log notice;
pid        /run/nginx.pid;
events { worker_connections  1024; }
http {
  client_body_temp_path  /var/cache/nginx/client_temp;
  proxy_temp_path        /var/cache/nginx/proxy_temp;
  fastcgi_temp_path      /var/cache/nginx/fastcgi_temp;
  uwsgi_temp_path        /var/cache/nginx/uwsgi_temp;
  scgi_temp_path         /var/cache/nginx/scgi_temp;
  access_log  /var/log/nginx/access.log;
  include /etc/nginx/conf.d/*.conf;
}
"""
# PID 1 of a sandbox: reaps what is handed to it, ends on SIGTERM, and has no children. Reading a
# FIFO that it has itself opened for writing never returns.
PAUSE = "trap 'exit 0' TERM INT; exec 3<>/fifo || exit 1; while :; do read -r -u 3; done"
TOOLS = Path(__file__).parents[2] / "tools" / "image"
PATH = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def names() -> list[str]:
    """List the images, in the order in which they are loaded."""
    return list(MAKERS)


def reference(name: str) -> str:
    """Return the name by which pods ask for an image."""
    return f"{REPOSITORY}/{name}:1"


def aliases(name: str) -> list[str]:
    """Return all names under which an image can be asked for.

    hotmap's own have the names of a release, which the manifests and `hotmap inject` write, and
    nginx's those of the guide (docs/guides/reload-in-the-pod.md), in the long form that containerd
    keeps (distribution/reference: normalize.go).
    """
    known = {
        CONTROLLER: f"{name}:{__version__}",
        AGENT: f"{name}:{__version__}",
        "published-nginx": "nginx:1.22",
        "hotmap-published-nginx": f"hotmap-nginx:{__version__}",
    }
    return [reference(name), *([f"docker.io/library/{known[name]}"] if name in known else [])]


def tar(name: str) -> Path:
    """Return the tar file of an image; make it unless it is in the cache.

    Raises:
        TestBedError: a Debian package that it is made from cannot be downloaded.
    """
    return tar_of(name, MAKERS[name])


def tar_of(name: str, make: Callable[[], Image], *sources: Path) -> Path:
    """Return the tar file of an image that `make` makes; `sources` are made from, too.

    Raises:
        TestBedError: as `tar`.
    """
    folder = machine.cache_folder() / "images"
    path = folder / f"{name}-{_recipe(name, *sources)}.tar"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob(f"{name}-{12 * '[0-9a-f]'}.tar*"):
        older.unlink(missing_ok=True)
    try:
        if name in (CONTROLLER, AGENT) and (notice := use_available_pins()):
            print(notice, flush=True)
        write_archive(path, aliases(name), [make()])
    except ImageError as error:
        raise TestBedError(f"image {name}: {error}") from error
    return path


def add_root(layer: Layer) -> Layer:
    """Add the folders and files that programs expect of any system, for users with a shell."""
    users = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n"
    users += "nginx:x:101:101::/nonexistent:/bin/false\n"
    groups = "root:x:0:\nwww-data:x:33:\nnginx:x:101:\nnogroup:x:65534:\n"
    return layer.root(f"{users}nobody:x:65534:65534::/:/bin/sh\n", groups)


def add_shell(layer: Layer) -> Layer:
    """Add bash as sh, and busybox for all else.

    dash and busybox's sh drop environment variables whose names are not identifiers, and a
    ConfigMap's data keys often are none (e.g. "log.level").
    """
    busybox = _program("busybox-static", "busybox")
    layer.file("bin/bash", _program("bash-static", "bash-static").read_bytes(), 0o755)
    layer.link("bin/sh", "bash")
    layer.file("bin/busybox", busybox.read_bytes(), 0o755)
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in listed.stdout.split():
        layer.link(f"bin/{applet}", "busybox")
    return layer


def add_packages(layer: Layer, wanted: Iterable[str]) -> Layer:
    """Add the files of Debian packages."""
    for package in wanted:
        layer.tree(packages.unpacked(package))
    return layer


def image_of(layers: list[bytes], settings: Mapping[str, object]) -> Image:
    """Make an image for this machine of layers and settings."""
    return Image(machine_architecture(), [plain(layer) for layer in layers], settings)


def _pause() -> Image:
    layer = Layer()
    layer.file("pause", _program("bash-static", "bash-static").read_bytes(), 0o755)
    layer.fifo("fifo")
    return image_of([layer.content()], {"Entrypoint": ["/pause", "-c", PAUSE]})


def _busybox() -> Image:
    return image_of([add_shell(add_root(Layer())).content()], {"Cmd": ["sh"], "Env": [PATH]})


def _python() -> Image:
    layer = add_packages(add_shell(add_root(Layer())), PYTHON)
    layer.link("usr/bin/python3", "python3.11")
    layer.link("usr/bin/python", "python3")
    environment = [PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"]
    return image_of([layer.content()], {"Cmd": ["python3"], "Env": environment})


def _nginx() -> Image:
    settings = {"Cmd": ["nginx", "-g", "daemon off;"], "Env": [PATH], "StopSignal": "SIGQUIT"}
    return image_of([_nginx_layer()], settings)


def _nginx_layer() -> bytes:
    layer = add_shell(add_root(Layer()))
    layer.file("etc/nginx/nginx.conf", NGINX_CONF)
    for name in ("etc/nginx", "etc/nginx/conf.d", "var/lib/nginx/body", "var/log/nginx"):
        layer.folder(name)
    return add_packages(layer, NGINX).content()


def _published_nginx() -> Image:
    settings = {"Cmd": ["nginx", "-g", "daemon off;"], "Env": [PATH], "StopSignal": "SIGQUIT"}
    return image_of([_published_nginx_layer()], settings)


def _published_nginx_layer() -> bytes:
    """Make nginx with the layout of the image that is published as `nginx`."""
    layer = add_shell(add_root(Layer()))
    for name in ("etc/nginx", "etc/nginx/conf.d", "var/cache/nginx", "var/log/nginx"):
        layer.folder(name)
    layer.file("etc/nginx/nginx.conf", PUBLISHED_NGINX_CONF)
    layer.link("var/log/nginx/access.log", "/dev/stdout")
    layer.link("var/log/nginx/error.log", "/dev/stderr")
    layer.folder("var/lib/nginx/body")
    return add_packages(layer, NGINX).content()


def _hotmap() -> Image:
    return controller_image(machine_architecture(), {})


def _hotmap_agent() -> Image:
    return agent_image(machine_architecture(), {})


def _hotmap_nginx() -> Image:
    return with_agent(_nginx_layer())


def _hotmap_published_nginx() -> Image:
    return with_agent(_published_nginx_layer())


def with_agent(program_layer: bytes, settings: Mapping[str, object] | None = None) -> Image:
    """Put Python and the agent's one file upon a program: an agent that can check its files.

    As deploy/README.md says to make it; `settings` are those of the program's image.
    """
    layer = add_packages(Layer(), [package for package in PYTHON if package not in NGINX])
    layer.link("usr/bin/python3", "python3.11")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "agent.pyz"
        agent.build(str(program))
        for name in ("usr/local", "usr/local/bin"):
            layer.folder(name)
        layer.file("usr/local/bin/hotmap", program.read_bytes(), 0o755)
    own = {"Env": [PATH], **(settings or {}), "Entrypoint": ["hotmap"], "Cmd": []}
    return image_of([program_layer, layer.content()], own)


MAKERS: dict[str, Callable[[], Image]] = {
    "pause": _pause,
    "busybox": _busybox,
    "python": _python,
    "nginx": _nginx,
    CONTROLLER: _hotmap,
    AGENT: _hotmap_agent,
    "hotmap-nginx": _hotmap_nginx,
    "published-nginx": _published_nginx,
    "hotmap-published-nginx": _hotmap_published_nginx,
}


def _recipe(name: str, *sources: Path) -> str:
    """Return a short digest of what an image is made from."""
    recipe = hashlib.sha256(Path(__file__).read_bytes())
    for source in sources:
        recipe.update(source.read_bytes())
    folders = [TOOLS, SOURCE] if name.startswith("hotmap") else []
    for path in [path for folder in folders for path in walk(folder)]:
        if path.is_file() and not MANUALS.search(str(path)):
            recipe.update(str(path.relative_to(path.parents[2])).encode() + b"\0")
            recipe.update(path.read_bytes())
    return recipe.hexdigest()[:12]


def _program(package: str, name: str) -> Path:
    return next(path for path in walk(packages.unpacked(package)) if path.name == name
                and path.parent.name == "bin")  # fmt: skip
