import json
from urllib.parse import quote

from sluice import call

status, text = call("GET", "/automation-agent/v1/state?externalId=" + quote("chat-1", safe=""))
if status == 200:
    print(json.loads(text)["state"])
else:
    print("no state reported yet" if status == 404 else f"refused: {status} {text}")
