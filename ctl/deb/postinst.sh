#!/bin/sh
# The service is not started: its configuration does not say yet which interface is the card's.
# One that ran before an upgrade goes on with the new program. The process that makes direct ports goes on as it is: jobs depend on it.
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart funid.service
fi
