"""Receives webhooks: WEBHOOK_SECRET='whsec_…' PORT=9000. Needs Python 3.9 or later, and nothing else."""

import base64
import hashlib
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 5 * 60
SECRET = os.environ["WEBHOOK_SECRET"]
KEY = base64.b64decode(SECRET[len("whsec_") :] if SECRET.startswith("whsec_") else SECRET)

# In your product: a table whose primary key is the webhook-id.
kept = set()


def problem_of(headers, body):
    """Why a webhook must not be believed; None when it may be."""
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not webhook_id or not timestamp.isdigit() or not signatures:
        return "not signed"
    # An older one may be a recorded one that somebody plays back.
    if abs(time.time() - int(timestamp)) > TOLERANCE_S:
        return "too old or too new"
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    if any(hmac.compare_digest(given.encode(), expected) for given in signatures.split(" ")):
        return None
    return "signature wrong"


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        # The bytes as they came: a body that was parsed and written again has another signature.
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        problem = problem_of(self.headers, body)
        if problem:
            print(f"not believed: {problem}", flush=True)
        elif self.headers["webhook-id"] not in kept:
            kept.add(self.headers["webhook-id"])
            print(self.headers["webhook-id"], body.decode(), flush=True)
        # Once it is kept. The work comes afterwards: after 15 seconds without an answer it is sent again.
        self.send_response(400 if problem else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "9000"))), Receiver)
print("ready", flush=True)
server.serve_forever()
