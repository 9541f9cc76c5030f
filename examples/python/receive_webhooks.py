"""Receives webhooks. Settings: WEBHOOK_SECRET='whsec_…' PORT=9000.

Requires Python 3.9 or later and no packages.
"""

import base64
import hashlib
import hmac
import os
import re
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 5 * 60
# Maximum bytes of a webhook that Sluice sends.
BODY_BYTES_MAX = 2 * 1024 * 1024
# Limit for the size lines of a chunked body: enough for chunks of 1 byte.
SIZE_LINES_BYTES_MAX = 4 * BODY_BYTES_MAX
TRAILERS_MAX = 100
# Seconds in which a sender whose body was refused can read the answer.
LINGER_S = 5
SECRET = os.environ["WEBHOOK_SECRET"]
KEY = base64.b64decode(SECRET[len("whsec_") :] if SECRET.startswith("whsec_") else SECRET)

# Ids of stored webhooks. In production, use a table with webhook-id as its primary key.
stored = set()


def problem_of(headers, body):
    """Returns why a webhook must be rejected, or None if it is valid."""
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not webhook_id or not re.fullmatch("[0-9]{1,12}", timestamp) or not signatures:
        return "not signed"
    # Reject old timestamps, because a recorded webhook could be replayed.
    if abs(time.time() - int(timestamp)) > TOLERANCE_S:
        return "timestamp too old or too new"
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    if any(hmac.compare_digest(given.encode(), expected) for given in signatures.split(" ")):
        return None
    return "wrong signature"


def printable(text):
    """Escapes control characters, which a terminal would execute."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class Receiver(BaseHTTPRequestHandler):
    # Seconds until a silent connection is closed.
    timeout = 30

    def do_POST(self):
        body = self.read_body()
        if body is None:
            # The body is incomplete, malformed or too long, so its signature cannot be verified.
            self.answer(413)
            self.discard_rest()
            return
        problem = problem_of(self.headers, body)
        if problem:
            # Do not print unverified content: anybody may have sent it.
            print(f"webhook rejected: {problem}", flush=True)
        elif self.headers["webhook-id"] not in stored:
            text = body.decode(errors="replace")
            print(printable(f"{self.headers['webhook-id']} {text}"), flush=True)
            # Remember the id last: after a failure, the retry must not count as a repetition.
            stored.add(self.headers["webhook-id"])
        # Answer after the webhook is stored and before it is processed: Sluice retries after 15 seconds
        # without an answer.
        self.answer(400 if problem else 204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("connection", "close")
        self.end_headers()

    def discard_rest(self):
        """Discards what the sender still sends: closing with unread bytes would reset the connection."""
        end = time.monotonic() + LINGER_S
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            while time.monotonic() < end and self.connection.recv(65536):
                pass
        except OSError:
            pass

    def read_body(self):
        """Returns the raw bytes that the signature covers; None if they are invalid or too long."""
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                return self.read_chunks()
            return self.read_bytes(self.headers.get("content-length", "0"), 10)
        except OSError:
            return None

    def read_bytes(self, digits, base):
        """Reads the number of bytes in `digits`. Returns None if the number is invalid or bytes are missing."""
        if not re.fullmatch("[0-9a-fA-F]{1,8}" if base == 16 else "[0-9]{1,8}", digits):
            return None
        length = int(digits, base)
        data = self.rfile.read(length) if length <= BODY_BYTES_MAX else b""
        return data if len(data) == length else None

    def read_chunks(self):
        """Reads a chunked body, which proxies may send and the standard library does not support."""
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
            # A chunk ends with an empty line.
            if self.rfile.readline(3).strip():
                return None
        # Trailers and an empty line follow the last chunk.
        for _ in range(TRAILERS_MAX + 1):
            if not self.rfile.readline(1000).strip():
                return body
        return None

    def log_message(self, *_):
        pass


# The encoding of a terminal or pipe may lack characters of a webhook.
sys.stdout.reconfigure(errors="backslashreplace")
server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "9000"))), Receiver)
print("ready", flush=True)
server.serve_forever()
