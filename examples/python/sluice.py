"""A client for Sluice that retries failed requests. Requires Python 3.9 or later and no packages."""

import http.client
import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request

# Sluice answers within seconds, so a request without an answer after this time is lost.
TIMEOUT_S = 30
GIVE_UP_AFTER_S = 15 * 60
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30
# Statuses to retry: no answer (0), from Sluice (429, 500, 503), and from proxies (408, 502, 504).
RETRYABLE = (0, 429, 500, 503, 408, 502, 504)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: that would send the API secret to another server."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def call(method, path, body=None):
    """Sends a request and retries it until the answer is final.

    Returns (status, text). Raises after 15 minutes of retries.
    """
    headers = {
        "service-api-id": os.environ["SLUICE_API_KEY_ID"],
        "service-api-secret": os.environ["SLUICE_API_KEY_SECRET"],
        "content-type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    url = os.environ["SLUICE_URL"].rstrip("/") + path
    request = urllib.request.Request(url, data, headers, method=method)
    backoff = Backoff()
    while True:
        status, text, retry_after = _attempt(request)
        if status not in RETRYABLE:
            return status, text
        backoff.wait(f"{status} {text}", retry_after)


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
        # No connection, a broken one, or a timeout: the record may have been stored.
        return 0, repr(error), 0


def send_agents(agents, batch_size=500):
    """Sends agents in batches. Returns (agent, error) per refused agent; all others were accepted."""
    refused = []
    # Batches are sent one after another, so that the records of an agent keep their order.
    for start in range(0, len(agents), batch_size):
        refused += _send_batch(agents[start : start + batch_size])
    return refused


def _send_batch(batch):
    refused = []
    backoff = Backoff()
    while True:
        status, text = call("POST", "/metadata-ingestion/v1/many-agent-metadata", {"items": batch})
        # An answer about the items (200 or 400) holds one result per item, in the same order.
        results = _results_of(text)
        if results is None or len(results) != len(batch):
            raise RuntimeError(f"the batch was refused: {status} {text}")
        unavailable = []
        for agent, result in zip(batch, results):
            if result["error"].startswith("FAIL_UNAVAILABLE"):
                unavailable.append(agent)
            elif result["error"]:
                refused.append((agent, result["error"]))
        if not unavailable:
            return refused
        batch = unavailable
        backoff.wait("FAIL_UNAVAILABLE")


def _results_of(text):
    try:
        return json.loads(text).get("results")
    except (ValueError, AttributeError):
        # The answer is not JSON, so a proxy sent it.
        return None


class Backoff:
    """Returns a function that waits before the next retry.

    Exponential backoff with jitter, added to Retry-After, so that callers do not retry simultaneously.
    """

    def __init__(self):
        self.end = time.monotonic() + GIVE_UP_AFTER_S
        self.seconds = BACKOFF_FIRST_S

    def wait(self, reason, retry_after=0):
        delay = retry_after + self.seconds * random.random()
        self.seconds = min(self.seconds * 2, BACKOFF_MAX_S)
        if time.monotonic() + delay > self.end:
            raise TimeoutError(f"gave up: {reason}")
        print(f"retrying in {delay:.1f} s: {reason}", file=sys.stderr)
        time.sleep(delay)
