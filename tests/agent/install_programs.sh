#!/bin/sh
# Installs the programs that the agent's catalogue is tested against, from Debian's packages.
# Quick when all are there; else it needs root and Debian 12 or newer. No daemon is started:
# policy-rc.d refuses it meanwhile. Without these programs the tests that need them are skipped,
# with the reason; with HOTMAP_REQUIRE=nginx,haproxy,prometheus,postgres,redis,gunicorn they fail.
set -eu
PATH="$PATH:/usr/sbin:/usr/bin"

packages=""
want() {
    command -v "$2" >/dev/null || packages="$packages $1"
}
want nginx-light nginx
want haproxy haproxy
want prometheus promtool
want redis-server redis-server
want gunicorn gunicorn
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || packages="$packages postgresql"
[ -n "$packages" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "these Debian packages are missing, and only root on Debian can install them:$packages" >&2
    exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install -qq -y --no-install-recommends $packages >/dev/null
}
echo "installing$packages"
# The lists may be older than the archive, or not there at all.
install 2>/dev/null || { apt-get update -qq && install; } || {
    echo "apt-get could not install$packages" >&2
    exit 1
}
