#!/bin/sh
# That the edits of rewrite.py fit the sources (else they are not made, and this is not built), and hook what they change.
set -eu
grep -q 'tests/sim/hook.h' tests/sim/rewritten/server/worker_apply.h
grep -q 'farlook::sim::Broken' tests/sim/rewritten/kv/lookup.cc
echo "the edits fit"
