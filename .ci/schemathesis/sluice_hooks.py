"""What schemathesis cannot know of the documents."""

from datetime import datetime, timezone

import schemathesis
from hypothesis import strategies as st

# The years that the document's pattern allows.
schemathesis.openapi.format(
    "date-time",
    st.datetimes(min_value=datetime(1678, 1, 1), max_value=datetime(2261, 12, 31)).map(
        lambda moment: moment.replace(tzinfo=timezone.utc).isoformat()
    ),
)
# Where nobody listens, and nothing leaves this machine.
schemathesis.openapi.format("uri", st.integers(1, 9999).map(lambda n: f"http://127.0.0.1:9/{n}"))
