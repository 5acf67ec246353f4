#!/bin/sh
# over_tcp.sh PROGRAM [ARGUMENT...]: its servers listen at tcp:// addresses of this host.
export FARLOOK_TCP_ADDRESS=127.0.0.1
exec "$@"
