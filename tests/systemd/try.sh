#!/bin/bash
# Tries funid's unit under systemd: boots it as process 1 in namespaces of its own, on a copy of this
# machine's files that goes with them, with a veth as the network, and a key of root's, and checks that the service becomes
# active there with an AF_XDP socket, as whom and with what it runs, that an ordinary user's program works
# on it, and that nothing is left when it stops. Needs root, systemd and systemd-container: make systemd.
#
#   try.sh              boots and tries; prints what was checked, and fails if something was wrong
#   try.sh package      the same with the Debian package, which is installed, removed and purged there
#   try.sh boot FOLDER INSIDE  (in a mount namespace) makes the copy and becomes systemd-nspawn
#   try.sh inside, packaged    (in the booted system) checks

set -eu
umask 022 # ordinary users are to read what is made here, whatever root's is
here=$(dirname "$(readlink -f "$0")")
repository=$(dirname "$(dirname "$here")")

boot() {
	mount -t tmpfs none "$1"
	mkdir "$1/upper" "$1/work" "$1/root"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
	local root=$1/root
	if [ "$2" = packaged ]; then
		install -m 644 "$repository"/bin/funet_*.deb "$root/funet.deb"
	else
		make -C "$repository" -s install DESTDIR="$root" PREFIX=/usr/local
		configure "$root"
	fi
	install -m 755 "$here/try.sh" "$root/try.sh"
	# No more of the machine's services than systemd itself wants.
	printf '%s\n' '[Unit]' 'Requires=basic.target dbus.service' 'After=basic.target dbus.service' > "$root/etc/systemd/system/funet-try.target"
	exec systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --private-network --link-journal=no \
		--machine="funet-try" --capability=all --system-call-filter=bpf --rlimit=MEMLOCK=infinity --console=pipe \
		--boot systemd.unit=funet-try.target systemd.log_target=null < /dev/null
}

configure() { # configure ROOT
	install -d "$1/etc/funet"
	printf '%s\n' 'peers:' '  - {node: 0, mac: "02:46:55:00:00:01", iface: fu0}' '  - {node: 1, mac: "02:46:55:00:01:01", iface: fu0}' > "$1/etc/funet/peers.yaml"
	printf '%s\n' 'card: 0' 'peers: peers.yaml' 'metrics: unix:/run/funet/metrics.sock' 'key: $CREDENTIALS_DIRECTORY/funet.key' > "$1/etc/funet/funid.yaml"
	(umask 077 && head -c 32 /dev/urandom > "$1/etc/funet/key")
	install -d "$1/etc/systemd/system/funid.service.d"
	printf '%s\n' '[Service]' 'LoadCredential=funet.key:/etc/funet/key' > "$1/etc/systemd/system/funid.service.d/key.conf"
}

check() { # check WHAT WANT GOT
	if [[ $3 =~ $2 ]]; then
		echo "ok: $1: ${3%%$'\n'*}"
	else
		echo "WRONG: $1: want $2, got: $3"
		wrong=1
	fi
}

# limit NAME WANT: what a limit must be. Where process 1 itself may not raise limits (CAP_SYS_RESOURCE), as in
# some containers, systemd comes as close as it may.
limit() {
	local caps
	caps=$(awk '/^CapEff/ { print $2 }' /proc/1/status)
	if ((16#$caps >> 24 & 1)); then
		echo "$2"
	else
		grep "^Max $1" /proc/1/limits | sed -E "s/^Max $1 +[^ ]+ +([^ ]+).*/\\1/"
	fi
}

# packaged installs the package, checks as without it, and takes it away again.
packaged() {
	wrong=
	check "the package is installed" '^$' "$(dpkg -i /funet.deb 2>&1 > /dev/null)"
	check "where the commands are" '/usr/bin/funet /usr/bin/funid' "$(echo $(command -v funet funid))"
	check "the service is there, and waits for its configuration" 'disabled inactive' "$(echo $(systemctl is-enabled funid || true) $(systemctl is-active funid || true))"
	check "the configuration says what is missing" 'peers' "$(funid --check --config /etc/funet/funid.yaml 2>&1 || true)"
	check "pages of the manual" '^[1-9][0-9]' "$(dpkg -L funet | grep -c 'man/man[18]/')"
	! command -v fi_info > /dev/null || [ ! -e /usr/include/rdma/fabric.h ] ||
		check "the provider for libfabric, where it is looked for" 'provider: funet' "$(fi_info -p funet 2>&1 || true)"
	check "completion" 'pingpong' "$(bash -c '. /usr/share/bash-completion/completions/funet; type __funet_debug > /dev/null && funet __complete ping 2> /dev/null')"
	configure ""
	local before=$wrong
	inside || before=1
	wrong=$before
	systemctl enable --now funid 2> /dev/null
	check "enabled and running" 'enabled active' "$(echo $(systemctl is-enabled funid) $(systemctl is-active funid))"
	check "installed over a running one, which is started again" 'active' "$(dpkg -i /funet.deb > /dev/null 2>&1; systemctl is-active funid)"
	check "the configuration is the user's still" 'card: 0' "$(cat /etc/funet/funid.yaml)"
	check "removed" '^$' "$(dpkg -r funet 2>&1 > /dev/null | grep -v Removed || true)"
	check "the service has ended" 'inactive' "$(systemctl is-active funid || true)"
	check "no command, unit or page is left" '^$' "$(ls /usr/bin/funet* /usr/bin/funid /usr/lib/systemd/system/funid.service /usr/share/man/man1/funet* /etc/systemd/system/*/funid.service 2> /dev/null || true)"
	check "the configuration is left" 'card: 0' "$(cat /etc/funet/funid.yaml)"
	dpkg -P funet > /dev/null 2>&1
	check "purged, it is not" 'No such file' "$(ls /etc/funet 2>&1 || true)"
	check "no NIC program is left" '^$' "$(ip link show fu0 | grep -o xdp || true)"
	[ -z "$wrong" ]
}

cable() {
	ip link add fu0 address 02:46:55:00:00:01 type veth peer name fu1
	ip link set fu0 up
	ip link set fu1 up
}

says() { # says TEXT: whether the status does within a minute
	local n
	for n in $(seq 600); do
		funet status 2>&1 | grep -q "$1" && echo yes && return
		sleep 0.1
	done
	funet status 2>&1
}

inside() {
	wrong=
	cable
	systemctl start funid || true
	check "state" '^active$' "$(systemctl is-active funid)"
	local pid
	pid=$(systemctl show -p MainPID --value funid)
	status() { grep -E "^$1:" "/proc/$pid/status" || true; }
	check "not root" 'Uid:[[:space:]]+[1-9]' "$(status Uid)"
	check "no right to raise privileges" '1$' "$(status NoNewPrivs)"
	check "system calls are filtered" '2$' "$(status Seccomp)"
	check "what it may (bounding set) is no more than five capabilities" '0000c000003200$' "$(status CapBnd)"
	check "what it keeps when the card is made" '0{12}0[02]00$' "$(status CapEff)"
	check "descriptors" "$(limit 'open files' 262144)" "$(grep 'Max open files' "/proc/$pid/limits")"
	check "locked memory" "$(limit 'locked memory' unlimited)" "$(grep 'Max locked' "/proc/$pid/limits")"
	check "the file system is read-only" 'Read-only' "$(nsenter -t "$pid" -m touch /etc/x 2>&1 || true)"
	check "it has the key of root's file, which systemd has handed over" "^key $(funet key show /etc/funet/key | sed 's/key //') from /run/credentials/funid.service/funet.key, for 1 peer" "$(funet status 2>&1 | grep '^key')"
	check "root's file it cannot read" 'Permission denied' "$(nsenter -t "$pid" -m setpriv --reuid "$(status Uid | awk '{ print $2 }')" --clear-groups cat /etc/funet/key 2>&1 || true)"
	check "nobody of its user may look into it" '^0$' "$(stat -c %u "/proc/$pid/mem")"
	check "the doctor says so" 'ok +host +key file +key [0-9a-f]{8}, which systemd has handed to funid' "$(funet doctor --leave-driver 2>&1 | grep 'key file')"
	check "NIC program on the interface" 'xdp' "$(ip link show fu0)"
	check "AF_XDP sockets in this network (/proc/net/protocols)" '^[1-9]' "$(awk '$1 == "XDP" { print $3 }' /proc/net/protocols)"
	check "status for an ordinary user" 'card 0 of' "$(runuser -u nobody -- funet status 2>&1)"
	check "a program of an ordinary user" 'every one verified' "$(cd / && timeout 100 funet run -n 2 --user nobody -- funet pingpong --exchanges 200 2>&1)"
	check "metrics" 'funid_info' "$(curl -sS --unix-socket /run/funet/metrics.sock http://funid/metrics 2>&1)"
	ip link del fu0
	check "an interface that is gone is known" '^yes$' "$(says 'interface fu0 is gone')"
	cable
	check "it is opened again without a privilege" '^yes$' "$(says 'opened again 1 time')"
	check "a program then" 'every one verified' "$(cd / && timeout 100 funet run -n 2 --user nobody -- funet pingpong --exchanges 200 2>&1)"
	check "nothing was restarted" "^$pid\$" "$(systemctl show -p MainPID --value funid)"
	systemctl kill -s KILL funid
	local n now
	for n in $(seq 600); do
		now=$(systemctl show -p MainPID --value funid)
		[ "$now" != "$pid" ] && [ "$now" != 0 ] && [ "$(systemctl is-active funid)" = active ] && break
		sleep 0.1
	done
	check "after SIGKILL it is started again" '^active$' "$(systemctl is-active funid)"
	directly
	systemctl stop funid
	check "stopped" '^inactive$' "$(systemctl is-active funid || true)"
	check "nothing is left" 'No such file' "$(ls /run/funet 2>&1 || true)"
	check "no NIC program is left" '^$' "$(ip link show fu0 | grep -o xdp || true)"
	mv /etc/systemd/system/funid.service.d/key.conf /etc/funet/
	systemctl daemon-reload
	systemctl start funid 2> /dev/null || true
	check "without the credential it does not start" 'activating|failed' "$(systemctl is-active funid || true)"
	systemctl stop funid
	systemctl reset-failed funid 2> /dev/null || true
	mv /etc/funet/key.conf /etc/systemd/system/funid.service.d/
	systemctl daemon-reload
	check "how exposed it is (systemd-analyze security)" 'OK|SAFE' "$(systemd-analyze security funid --no-pager | tail -1)"
	[ -z "$wrong" ] || { systemctl status funid --no-pager --lines=20; journalctl -u funid-ports --no-pager --lines=40; }
	[ -z "$wrong" ]
}

# directly tries direct ports, by a helper with a unit of its own, with funid and the helper restarted and killed under a job.
directly() {
	mkdir -p /etc/systemd/system/funid.service.d
	cp /etc/funet/funid.yaml /etc/funet/without.yaml
	printf '%s\n' 'carriage: direct' 'helper: /run/funet-ports/socket' 'xdp: native' >> /etc/funet/funid.yaml
	systemctl start funid-ports
	systemctl restart funid
	check "with direct ports" '^active active$' "$(echo $(systemctl is-active funid-ports) $(systemctl is-active funid))"
	local pid
	pid=$(systemctl show -p MainPID --value funid-ports)
	check "what the helper keeps" '0000c000007200$' "$(grep '^CapEff' "/proc/$pid/status")"
	check "a program on direct ports" 'own card on a direct port' "$(cd / && timeout 100 funet run -n 2 --card direct --user nobody -- funet pingpong --exchanges 200 2>&1)"
	local n m
	(cd / && exec timeout 300 funet run -n 2 --card direct --user nobody -- funet pingpong --exchanges 4000000 > /tmp/long 2>&1) &
	m=$!
	for n in $(seq 600); do
		[ "$(funet status --json 2> /dev/null | grep -c '"shared_with":')" = 2 ] && break
		sleep 0.1
	done
	systemctl restart funid-ports
	check "a program on direct ports of the next helper" 'own card on a direct port' "$(cd / && timeout 100 funet run -n 2 --card direct --user nobody -- funet pingpong --exchanges 200 2>&1)"
	systemctl kill -s KILL funid-ports
	check "and of the one after" 'own card on a direct port' "$(cd / && timeout 100 funet run -n 2 --card direct --user nobody -- funet pingpong --exchanges 200 2>&1)"
	check "which has the ports of the job" '^2$' "$(funet status --json | grep -c '"shared_with":')"
	check "the job goes on while the helper is restarted and killed" 'goes on' "$(kill -0 $m && echo goes on)"
	systemctl restart funid
	sleep 1
	systemctl kill -s KILL funid
	for n in $(seq 200); do # RestartSec
		[ "$(systemctl is-active funid)" = active ] && break
		sleep 0.1
	done
	check "the job goes on while funid is restarted and killed" 'goes on' "$(kill -0 $m && echo goes on)"
	wait $m || true
	check "and ends well" 'every one verified' "$(cat /tmp/long)"
	check "funid is there again" '^active$' "$(systemctl is-active funid)"
	systemctl stop funid
	check "no NIC program is left beside the helper" '^$' "$(ip link show fu0 | grep -o xdp || true)"
	check "nor links" '^$' "$(ip -br link | grep fup || true)"
	systemctl stop funid-ports
	check "how exposed the helper is" 'OK|MEDIUM|SAFE' "$(systemd-analyze security funid-ports --no-pager | tail -1)"
	mv /etc/funet/without.yaml /etc/funet/funid.yaml
	systemctl start funid
}

try() {
	local folder launched leader= n code=0 inside=$1
	folder=$(mktemp -d)
	unshare -m --propagation private "$here/try.sh" boot "$folder" "$inside" > "$folder.log" 2>&1 &
	launched=$!
	trap 'kill -9 ${leader:-} $launched 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder" "$folder.log"' EXIT
	in_it() { nsenter -t "$leader" -m -u -i -n -p -C -- "$@"; }
	for n in $(seq 600); do # a minute, and more on a busy machine
		leader=$(pgrep -P "$launched" -x systemd || true)
		[ -n "$leader" ] && in_it systemctl is-active funet-try.target > /dev/null 2>&1 && break
		kill -0 "$launched" 2> /dev/null || break
		sleep 0.1
	done
	if [ -z "$leader" ]; then
		echo "systemd does not boot here:"
		cat "$folder.log"
		exit 1
	fi
	in_it /try.sh "$inside" || code=1
	exit $code
}

case ${1:-} in
"") try inside ;;
package) try packaged ;;
*) "$@" ;;
esac
