#!/bin/sh
# Each kind of bad client beside an honest one, for a moment; fails if the server keeps anything of those that are gone.
exec "$1" --server="$2" --rounds=1 --ms=100
