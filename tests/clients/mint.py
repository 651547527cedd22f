"""Mints by a client that was made from an agent's description: mint.py FOLDER_OF_THE_CLIENT URL."""

import sys

sys.path.insert(0, sys.argv[1])

from client import Client
from client.api.ids import id_named, sequence, uniq64, uniq64_post

agent = Client(base_url=sys.argv[2])
ids = uniq64.sync(client=agent, n=3).split() + uniq64_post.sync(client=agent).split()
assert len(set(ids)) == 4 and all(id.isdigit() for id in ids), ids
assert len(id_named.sync("orders", client=agent, n=2).split()) == 2
first, second = (int(sequence.sync("inbox", "alice", client=agent)) for _ in range(2))
assert second > first > 0, (first, second)
refused = uniq64.sync(client=agent, n=0)
assert refused.code == "bad_parameter", refused
print("python: minted", ids[0])
