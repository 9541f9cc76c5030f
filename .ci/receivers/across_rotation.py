"""Receives webhooks with the code of docs/webhooks.md for the package standardwebhooks of PyPI, while the secret of the
endpoint is rotated. Prints a line per check, `ok NAME` or `failed NAME: REASON`. Usage: across_rotation.py GATEWAY ADMIN, with
SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET in the environment, in the root of the checkout."""

import json
import os
import re
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import WebhookVerificationError

GATEWAY, ADMIN = sys.argv[1:]
EVENTS = 60
WAIT_S = 30

with open("docs/webhooks.md", encoding="utf-8") as page:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
code = {}
exec(next(block for block in blocks if "from standardwebhooks" in block), code)

secret = ""
received = {}
rejected = []


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 204
        try:
            webhook = code["verify"](body, dict(self.headers), secret)
            received[webhook["data"]["automationAgentMessageId"]] = body, dict(self.headers)
        except WebhookVerificationError as problem:
            rejected.append(repr(problem))
            status = 400
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def call(method, url, body=None):
    headers = {
        "service-api-id": os.environ["SLUICE_API_KEY_ID"],
        "service-api-secret": os.environ["SLUICE_API_KEY_SECRET"],
        "content-type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
        return json.loads(answer.read() or "null")


def report(count):
    """Reports events of different conversations. Returns their ids."""
    occurred = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"type": "processingStart", "occurredAt": occurred}
    items = [
        {**about, "conversationId": f"R{index}", "externalConversationId": f"rotation-{index}"} for index in range(count)
    ]
    answer = call("POST", f"{GATEWAY}/automation-agent/v1/events", {"items": items})
    return [result["eventId"] for result in answer["results"]]


def check(name, problem):
    print(f"failed {name}: {problem}" if problem else f"ok {name}", flush=True)


def rotate():
    return call("POST", f"{endpoint_url}/rotate", {"overlapSeconds": 3600})["secret"]


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
endpoint = call("POST", f"{ADMIN}/admin/v1/webhooks", {"url": url, "eventTypes": ["automation.processing_started"]})
endpoint_url = f"{ADMIN}/admin/v1/webhooks/{endpoint['endpointId']}"
secret = endpoint["secret"]
sent = []
for number in range(EVENTS):
    if number == EVENTS // 3:
        rotated = rotate()
    # From a second after the rotation, both secrets sign.
    if number == EVENTS * 2 // 3:
        time.sleep(1.5)
        secret = rotated
    sent += report(1)
    time.sleep(0.02)
end = time.monotonic() + WAIT_S
while not received.keys() >= set(sent) and time.monotonic() < end and not rejected:
    time.sleep(0.1)
missing = set(sent) - received.keys()
check("standardwebhooks of PyPI across a rotation", rejected or missing and f"{len(missing)} of {EVENTS} are missing")

try:
    body, headers = next(iter(received.values()))
    code["verify"](body + b" ", headers, endpoint["secret"])
    check("standardwebhooks of PyPI rejects a changed body", "it was accepted")
except WebhookVerificationError:
    check("standardwebhooks of PyPI rejects a changed body", None)
call("DELETE", endpoint_url)
