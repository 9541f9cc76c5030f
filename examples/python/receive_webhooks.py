"""Receives webhooks: WEBHOOK_SECRET='whsec_…' PORT=9000. Needs Python 3.9 or later, and nothing else."""

import base64
import hashlib
import hmac
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 5 * 60
# Larger than any webhook of Sluice.
BODY_BYTES_MAX = 2 * 1024 * 1024
# Of the lines between the chunks of a body: enough for chunks of 1 byte.
SIZE_LINES_BYTES_MAX = 4 * BODY_BYTES_MAX
TRAILERS_MAX = 100
SECRET = os.environ["WEBHOOK_SECRET"]
KEY = base64.b64decode(SECRET[len("whsec_") :] if SECRET.startswith("whsec_") else SECRET)

# In your product: a table whose primary key is the webhook-id.
kept = set()


def problem_of(headers, body):
    """Why a webhook must not be believed; None when it may be."""
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not webhook_id or not re.fullmatch("[0-9]{1,12}", timestamp) or not signatures:
        return "not signed"
    # An older one may be a recorded one that somebody plays back.
    if abs(time.time() - int(timestamp)) > TOLERANCE_S:
        return "too old or too new"
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    if any(hmac.compare_digest(given.encode(), expected) for given in signatures.split(" ")):
        return None
    return "signature wrong"


def printable(text):
    """Without characters that a terminal obeys instead of showing them."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class Receiver(BaseHTTPRequestHandler):
    # Seconds that a connection may be silent.
    timeout = 30

    def do_POST(self):
        body = self.read_body()
        if body is None:
            # Cut, malformed or too long: there is nothing to verify.
            self.answer(413)
            return
        problem = problem_of(self.headers, body)
        if problem:
            # Nothing of an unverified request is printed: anybody may have sent it.
            print(f"not believed: {problem}", flush=True)
        elif self.headers["webhook-id"] not in kept:
            kept.add(self.headers["webhook-id"])
            print(printable(f"{self.headers['webhook-id']} {body.decode()}"), flush=True)
        # Once it is kept. The work comes afterwards: after 15 seconds without an answer it is sent again.
        self.answer(400 if problem else 204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("connection", "close")
        self.end_headers()

    def read_body(self):
        """The bytes as they came, since a body that was parsed and written again has another signature."""
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                return self.read_chunks()
            return self.read_bytes(self.headers.get("content-length", "0"), 10)
        except OSError:
            return None

    def read_bytes(self, digits, base):
        """So many bytes; None where there are fewer, or the number is malformed or too large."""
        if not re.fullmatch("[0-9a-fA-F]{1,8}" if base == 16 else "[0-9]{1,8}", digits):
            return None
        length = int(digits, base)
        data = self.rfile.read(length) if length <= BODY_BYTES_MAX else b""
        return data if len(data) == length else None

    def read_chunks(self):
        """The standard library reads no chunked bodies; proxies may send them."""
        body, line_bytes = bytearray(), 0
        while True:
            line = self.rfile.readline(1000)
            line_bytes += len(line)
            chunk = self.read_bytes(line.decode("latin-1").split(";")[0].strip(), 16)
            if chunk is None or len(body) + len(chunk) > BODY_BYTES_MAX or line_bytes > SIZE_LINES_BYTES_MAX:
                return None
            if not chunk:
                break
            body += chunk
            # An empty line ends a chunk.
            if self.rfile.readline(3).strip():
                return None
        # After the last chunk come trailers and an empty line.
        for _ in range(TRAILERS_MAX + 1):
            if not self.rfile.readline(1000).strip():
                return body
        return None

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "9000"))), Receiver)
print("ready", flush=True)
server.serve_forever()
