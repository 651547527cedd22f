"""Prints IDs of all agents from four threads and from a forked child, until its input ends: threads.py HOST:PORT ..."""

import os
import sys
import threading

from uniq import Uniq

ids = Uniq(sys.argv[1:])
ended = threading.Event()


def fail(args):
    sys.__excepthook__(*args[:3])
    os._exit(1)


threading.excepthook = fail


def mint():
    while not ended.is_set():
        os.write(1, ids.get().encode() + b"\n")


ids.get()
# It has what its parent fetched, unless it forgets it.
child = os.fork()
if child == 0:
    for _ in range(2_000):
        os.write(1, ids.get().encode() + b"\n")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
threads = [threading.Thread(target=mint) for _ in range(4)]
for thread in threads:
    thread.start()
sys.stdin.read()
ended.set()
