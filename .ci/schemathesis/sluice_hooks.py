"""Hooks for rules that the OpenAPI documents cannot express."""

import os
import re
from datetime import datetime, timezone

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

MESSAGE_PATHS = ("/message-sent", "/many-message-sent")
ITEMS_PATHS = ("/many-agent-metadata", "/many-message-sent", "/automation-agent/v1/events")
URL_LENGTH_MAX = 2048
TIMESTAMP = re.compile(r"(1[789]|2[012])\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f]")

# Generates only years that the document's pattern allows.
schemathesis.openapi.format(
    "date-time",
    st.datetimes(min_value=datetime(1678, 1, 1), max_value=datetime(2261, 12, 31)).map(
        lambda moment: moment.replace(tzinfo=timezone.utc).isoformat()
    ),
)


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Replaces URLs by one on a closed loopback port, so that no request leaves this machine, and times by a recent one."""
    # Keeps the key of the run, without which all later requests would be refused.
    parameters = case.path_parameters or {}
    if parameters.get("apiKeyId") == os.environ["SCHEMATHESIS_KEY_ID"]:
        parameters["apiKeyId"] = "no-such-key"
    if case.path == "/admin/v1/webhooks" and isinstance(case.body, dict):
        url = case.body.get("url")
        if isinstance(url, str) and url.strip() and len(url) <= URL_LENGTH_MAX and not CONTROL_CHARACTERS.search(url):
            case.body["url"] = f"http://127.0.0.1:9/{len(url)}"
    if case.path.endswith(MESSAGE_PATHS) and isinstance(case.body, dict):
        items = case.body.get("items")
        for message in [case.body, *(items if isinstance(items, list) else [])]:
            occurred_at = message.get("occurredAt") if isinstance(message, dict) else None
            # The schema cannot express that a message must be recent.
            if isinstance(occurred_at, str) and TIMESTAMP.fullmatch(occurred_at):
                message["occurredAt"] = datetime.now(timezone.utc).isoformat()


@schemathesis.check
def items_are_judged(ctx, response, case):
    """Checks that valid items are accepted, unless their id is taken, and that an invalid batch has a refused item."""
    if case.meta is None or response.status_code not in (200, 400) or not case.path.endswith(ITEMS_PATHS):
        return
    results = response.json().get("results")
    if results is None:
        assert case.meta.generation.mode.is_negative, "a request that the document allows was refused as a whole"
        return
    refused = [result["error"] for result in results if result["error"].startswith("FAIL_BAD_PARAMS")]
    body = case.meta.components.get(ParameterLocation.BODY)
    if body is None or case.meta.phase.name is TestPhase.EXAMPLES:
        # Examples contain refused items.
        return
    if body.mode.is_positive:
        assert not refused, f"items that the document allows were refused: {refused}"
    else:
        assert refused, "no item was refused although the document does not allow one"
