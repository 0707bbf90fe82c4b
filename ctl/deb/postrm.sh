#!/bin/sh
# Purging takes the peers file and the folder, too.
set -e
if [ "$1" = purge ]; then
	rm -rf /etc/funet
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
