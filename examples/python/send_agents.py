from sluice import send_agents

refused = send_agents(
    [
        {"externalAgentId": "ada", "eventId": "py-ada-1", "agentName": "Ada", "languages": ["en-gb"], "concurrency": 3},
        {"externalAgentId": "ada", "eventId": "py-ada-2", "jobTitle": "Lead", "languages": ["en-gb", "fr"]},
        {"externalAgentId": "grace", "eventId": "py-grace-1", "concurrency": -1},
    ]
)
for agent, error in refused:
    print(f"{agent['eventId']}: {error}")
