#!/bin/sh
# Checks that the edits of rewrite.py fit the sources (otherwise this test is not built) and hook the code that they
# change.
set -eu
grep -q 'tests/sim/hook.h' tests/sim/rewritten/server/worker/request_apply.h
grep -q 'farlook::sim::Broken' tests/sim/rewritten/kv/read/lookup.cc
echo "the edits fit"
