"""Calls Sluice, and sends again what has to be sent again. Needs Python 3.9 or later, and nothing else."""

import http.client
import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request

# Sluice answers within seconds; a connection that is silent for so long is dead.
TIMEOUT_S = 30
GIVE_UP_AFTER_S = 15 * 60
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30
# No answer, Sluice's own, and those of proxies on the way (408, 502, 504).
SEND_AGAIN = (0, 429, 500, 503, 408, 502, 504)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: following it would hand the credentials to another server."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def call(method, path, body=None):
    """One request, sent until there is an answer that would not change: (status, text). Raises after fifteen minutes."""
    headers = {
        "service-api-id": os.environ["SLUICE_API_KEY_ID"],
        "service-api-secret": os.environ["SLUICE_API_KEY_SECRET"],
        "content-type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    url = os.environ["SLUICE_URL"].rstrip("/") + path
    request = urllib.request.Request(url, data, headers, method=method)
    pauses = Pauses()
    while True:
        status, text, retry_after = _attempt(request)
        if status not in SEND_AGAIN:
            return status, text
        pauses.wait(f"{status} {text}", retry_after)


def _attempt(request):
    try:
        try:
            response = _opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            seconds = response.headers.get("retry-after", "")
            text = response.read().decode(errors="replace")
            return response.status, text, int(seconds) if re.fullmatch("[0-9]{1,9}", seconds) else 0
    except (OSError, http.client.HTTPException) as error:
        # No connection, or it was cut, or no answer in time: the record may be stored all the same.
        return 0, repr(error), 0


def send_agents(agents, batch_size=500):
    """Sends agents in batches. Returns (agent, error) of those that were refused; all others are kept for good."""
    refused = []
    # One batch after another, so that an agent's records arrive in the order of the list.
    for start in range(0, len(agents), batch_size):
        refused += _send_batch(agents[start : start + batch_size])
    return refused


def _send_batch(batch):
    refused = []
    pauses = Pauses()
    while True:
        status, text = call("POST", "/metadata-ingestion/v1/many-agent-metadata", {"items": batch})
        # Where the answer is about the items, 200 or 400, it holds one result for each, in their order.
        results = _results_of(text)
        if results is None or len(results) != len(batch):
            raise RuntimeError(f"the batch was refused: {status} {text}")
        later = []
        for agent, result in zip(batch, results):
            if result["error"].startswith("FAIL_UNAVAILABLE"):
                later.append(agent)
            elif result["error"]:
                refused.append((agent, result["error"]))
        if not later:
            return refused
        batch = later
        pauses.wait("FAIL_UNAVAILABLE")


def _results_of(text):
    try:
        return json.loads(text).get("results")
    except (ValueError, AttributeError):
        # Not Sluice's own answer, but that of a proxy.
        return None


class Pauses:
    """Grow from try to try, never shorter than Sluice asks for, and at random, so that callers spread."""

    def __init__(self):
        self.end = time.monotonic() + GIVE_UP_AFTER_S
        self.growing = FIRST_PAUSE_S

    def wait(self, why, retry_after=0):
        pause = retry_after + self.growing * random.random()
        self.growing = min(self.growing * 2, LONGEST_PAUSE_S)
        if time.monotonic() + pause > self.end:
            raise TimeoutError(f"gave up: {why}")
        print(f"again in {pause:.1f} s: {why}", file=sys.stderr)
        time.sleep(pause)
