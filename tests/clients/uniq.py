"""IDs from agents of UniqGenerator, for Python 3.7 and later, with nothing but the standard library."""

import collections
import http.client
import os
import sys
import threading
import time


class Refused(Exception):
    """No agent would answer differently: the request is wrong, or there is no such name."""


class Unavailable(Exception):
    """No agent gave IDs in time; the message says what the last one answered."""


class Uniq:
    """IDs of one name, fetched in batches before they are used up, from the next agent when one fails.

    Threads share it. A child of os.fork() begins without what its parent fetched, so both may go on.
    """

    def __init__(self, agents, path="/uniq64", batch=1000, timeout=2.0, patience=15.0):
        self._agents = collections.deque(agents)  # "HOST:PORT"; the first one is asked first
        self._path, self._batch = path, batch
        self._timeout, self._patience = timeout, patience  # seconds: of one agent, of one batch
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self):
        self._changed = threading.Condition()
        self._ids, self._fetching, self._fetched, self._error = collections.deque(), False, 0, None

    def get(self):
        """The next ID, as a text. If there is none it waits for an agent, as long as the patience lasts."""
        with self._changed:
            while True:
                if len(self._ids) <= self._batch // 2 and not self._fetching:
                    try:
                        threading.Thread(target=self._fetch, daemon=True).start()
                        self._fetching = True
                    except RuntimeError:  # no more threads: what is there is given
                        if not self._ids:
                            raise
                if self._ids:
                    return self._ids.popleft()
                fetched = self._fetched
                self._changed.wait_for(lambda: self._ids or self._fetched != fetched)
                if not self._ids and self._error:
                    raise self._error

    def _fetch(self):
        ids, error = [], None
        try:
            ids = self._ask()
        except Exception as why:
            error = why
        with self._changed:
            self._ids.extend(ids)
            self._fetching, self._fetched, self._error = False, self._fetched + 1, error
            self._changed.notify_all()

    def _ask(self):
        """A batch from the first agent that gives one: each is asked in turn, and again after a pause that grows."""
        end, pause, error = time.monotonic() + self._patience, 0.05, "no agents are named"
        while True:
            for _ in range(len(self._agents)):
                try:
                    return self._ask_one(self._agents[0])
                except (OSError, http.client.HTTPException) as why:
                    error = f"{self._agents[0]}: {why!r}"
                    self._agents.rotate(-1)  # it is asked last from now on
            if time.monotonic() + pause > end:
                raise Unavailable(error)
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _ask_one(self, agent):
        connection = http.client.HTTPConnection(agent, timeout=self._timeout)
        try:
            # POST, so that nothing on the way answers from a cache. Of an answer that was cut off no ID is used.
            connection.request("POST", f"{self._path}?n={self._batch}", headers={"Accept": "text/plain"})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if answer.status in (400, 404, 405):
            raise Refused(text)
        if answer.status != 200 or not text.endswith("\n") or len(text.split()) != self._batch:
            raise OSError(text)
        return text.split()


if __name__ == "__main__":  # prints an ID: python3 uniq.py HOST:PORT HOST:PORT ...
    print(Uniq(sys.argv[1:]).get())
