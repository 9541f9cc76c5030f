"""Calls each operation once, in this order, with the client that openapi-python-client generates: client.py URL."""

import os
import sys
import time
from datetime import datetime, timezone

import httpx
from sluice_client import Client
from sluice_client.api.analytics import add_many_message_sent, add_message_sent
from sluice_client.api.automation import add_automation_events, read_automation_state
from sluice_client.api.credentials import authenticate
from sluice_client.api.health import health_live, health_ready
from sluice_client.api.metadata import add_conversation_metadata, add_many_agent_metadata
from sluice_client.models import (
    Agent,
    AgentItems,
    AutomationEvent,
    AutomationEventInputVariablesType0,
    AutomationEventItems,
    AutomationEventReplyType0,
    AutomationEventType,
    Conversation,
    ConversationPlatformType0,
    Credentials,
    CredentialsAuthType0,
    MessageSent,
    MessageSentAugmentationTypeItem,
    MessageSentItems,
)

url = sys.argv[1]
client = Client(
    base_url=url,
    headers={
        "service-api-id": os.environ["SLUICE_API_KEY_ID"],
        "service-api-secret": os.environ["SLUICE_API_KEY_SECRET"],
    },
)


def add_agents():
    agent = Agent(external_agent_id="py-agent", event_id="py-1", languages=["en-gb"], start_ts=None)
    answer = add_many_agent_metadata.sync_detailed(client=client, body=AgentItems(items=[agent]))
    assert answer.parsed.error_count == 0, answer
    return answer


def add_conversation():
    conversation = Conversation(
        external_conversation_id="py-chat", event_id="py-1", platform=ConversationPlatformType0.WEB
    )
    answer = add_conversation_metadata.sync_detailed(client=client, body=conversation)
    assert answer.parsed.result.event_id == "py-1", answer
    return answer


def add_message():
    used = [MessageSentAugmentationTypeItem.AUTOSUGGEST, MessageSentAugmentationTypeItem.FREEHAND]
    message = MessageSent(message_id="py-message", augmentation_type=used, num_edits=3)
    return add_message_sent.sync_detailed(client=client, body=message, sluice_known="exact")


def add_messages():
    message = MessageSent(
        message_id="py-message-2",
        augmentation_type=[MessageSentAugmentationTypeItem.FREEHAND],
        external_conversation_id="py-chat",
        occurred_at=datetime.now(timezone.utc),
    )
    answer = add_many_message_sent.sync_detailed(client=client, body=MessageSentItems(items=[message]))
    assert answer.parsed.error_count == 0, answer
    return answer


def add_credentials():
    credentials = Credentials(customer_external_id="customer-1", auth=CredentialsAuthType0(token="a-token"))
    return authenticate.sync_detailed("PY1", client=client, body=credentials)


def add_event():
    variables = AutomationEventInputVariablesType0()
    variables["order"] = "py-order"
    event = AutomationEvent(
        conversation_id="PY1",
        external_conversation_id="py-chat",
        type_=AutomationEventType.REPLY,
        occurred_at=datetime.now(timezone.utc),
        reply=AutomationEventReplyType0(message_id="py-reply", text="Hello!"),
        input_variables=variables,
    )
    answer = add_automation_events.sync_detailed(client=client, body=AutomationEventItems(items=[event]))
    assert answer.parsed.error_count == 0, answer
    return answer


def read_state():
    for _ in range(100):
        answer = read_automation_state.sync_detailed(client=client, external_id="py-chat")
        if answer.status_code == 200 and answer.parsed.input_variables:
            break
        time.sleep(0.1)
    assert answer.parsed.input_variables["order"] == "py-order", answer
    return answer


CALLS = {
    "add-many-agent-metadata": add_agents,
    "add-conversation-metadata": add_conversation,
    "add-message-sent": add_message,
    "add-many-message-sent": add_messages,
    "authenticate": add_credentials,
    "add-automation-events": add_event,
    "read-automation-state": read_state,
    "health-live": lambda: health_live.sync_detailed(client=client),
    "health-ready": lambda: health_ready.sync_detailed(client=client),
}

paths = httpx.get(f"{url}/openapi.json").json()["paths"]
described = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
failed = False
for name in dict.fromkeys([*CALLS, *described]):
    try:
        assert name in CALLS, "is not called"
        answer = CALLS[name]()
        assert answer.status_code in (200, 204), answer
        print(f"ok {name}")
    except Exception as error:
        failed = True
        print(f"failed {name}: {error!r}")
sys.exit(1 if failed else 0)
