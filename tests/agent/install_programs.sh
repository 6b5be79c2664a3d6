#!/bin/sh
# Installs the programs that the agent's catalogue is tested against, from Debian's packages.
# Needs root and Debian 12 or newer. No daemon is started: policy-rc.d refuses it meanwhile.
# Without these programs the tests that need them are skipped, with the reason; with
# HOTMAP_REQUIRE=nginx,haproxy,prometheus,postgres,redis,gunicorn they fail instead.
set -eu
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
packages="nginx-light haproxy prometheus postgresql redis-server gunicorn"
apt-get install -qq -y --no-install-recommends $packages || {
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends $packages
}
