from sluice import call

status, text = call(
    "POST",
    "/compose-assist/v1/analytics/message-sent",
    {
        "messageId": "py-message-1",
        "conversationId": "CHAT1",
        "augmentationType": ["AUTOSUGGEST", "FREEHAND"],
        "numEdits": 4,
        "selectedSuggestionIndex": 1,
        "craftingTime": 7.5,
    },
)
print("accepted" if status == 200 else f"refused: {status} {text}")
