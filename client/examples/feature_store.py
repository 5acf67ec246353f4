"""Features of users for a model, read into one array: a row for each, in one call.

    feature_store.py ADDRESS
"""

import sys

import numpy

import farlook

FEATURES = 64


def main(address):
    with farlook.connect(address) as client:
        users = numpy.random.default_rng(1).standard_normal((1_000, FEATURES), dtype=numpy.float32)
        client.put_many([f"user:{number}" for number in range(len(users))], users)

        # One request: its candidates as one batch for the model, without a copy. One of them is unknown.
        wanted = [7, 999, 5_000, 42]
        batch = numpy.zeros((len(wanted), FEATURES), dtype=numpy.float32)
        known = client.get_rows([f"user:{number}" for number in wanted], batch)
        scores = batch @ users[0]

        assert known == [True, True, None, True]
        assert (batch[[0, 1, 3]] == users[[7, 999, 42]]).all() and scores[2] == 0
        print(f"{sum(map(bool, known))} of {len(wanted)} users are known")


if len(sys.argv) != 2:
    sys.exit("usage: feature_store.py ADDRESS, as shm:///run/farlook/kv")
main(sys.argv[1])
