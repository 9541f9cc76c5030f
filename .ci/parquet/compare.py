"""Compares the Parquet files of a folder, as DuckDB reads them, with NDJSON files of the same exports."""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import duckdb

TIME = "TIMESTAMP WITH TIME ZONE"
# Columns whose types are not VARCHAR.
TYPES = {
    "occurred_at": TIME,
    "accepted_at": TIME,
    "stored_at": TIME,
    "expires_at": TIME,
    "occurred_at_ns": "BIGINT",
    "log_offset": "BIGINT",
    "log_generation": "INTEGER",
    "log_partition": "INTEGER",
    "num_edits": "INTEGER",
    "selected_suggestion_index": "INTEGER",
    "phrase_autocomplete_presented_ct": "INTEGER",
    "phrase_autocomplete_selected_ct": "INTEGER",
    "time_to_action": "DOUBLE",
    "crafting_time": "DOUBLE",
    "dwell_time": "DOUBLE",
    "omitted_known": "BOOLEAN",
    "erased": "BOOLEAN",
    "company_segment": "VARCHAR[]",
    "augmentation_type": "VARCHAR[]",
    "gaps": "VARCHAR[]",
}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def microseconds(time: str) -> int:
    since = datetime.fromisoformat(time.replace("Z", "+00:00")) - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def written(name: str, value):
    """Returns a value of NDJSON as DuckDB returns it."""
    if value is None:
        return None
    kind = TYPES.get(name, "VARCHAR")
    if kind == TIME:
        return microseconds(value)
    if kind == "BIGINT":
        return int(value)
    if kind == "DOUBLE":
        return float(value)
    return value


def compare(parquet: Path) -> int:
    table = duckdb.read_parquet(str(parquet))
    types = dict(zip(table.columns, map(str, table.types)))
    assert types == {name: TYPES.get(name, "VARCHAR") for name in table.columns}, types
    values = [f'epoch_us("{name}")' if types[name] == TIME else f'"{name}"' for name in table.columns]
    read = [dict(zip(table.columns, row)) for row in table.project(", ".join(values)).fetchall()]
    lines = parquet.with_suffix(".ndjson").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [{name: written(name, value) for name, value in json.loads(line).items()} for line in lines]
    for row in read:
        if row.get("patch") is not None:
            row["patch"] = json.loads(row["patch"])
    assert len(read) == len(rows), f"{parquet.name}: {len(read)} rows, not {len(rows)}"
    assert not rows or list(read[0]) == list(rows[0]), f"{parquet.name}: {list(read[0])}"
    for number, (found, row) in enumerate(zip(read, rows)):
        assert found == row, f"{parquet.name}, row {number}: {found} is not {row}"
    return len(read)


counts = {parquet.stem: compare(parquet) for parquet in sorted(Path(sys.argv[1]).glob("*.parquet"))}
nanoseconds = duckdb.read_parquet(str(Path(sys.argv[1]) / "messages.parquet")).filter("occurred_at_ns % 1000 <> 0")
assert len(nanoseconds) > 0, "no time has nanoseconds"
assert len(counts) == 5, counts
print("DuckDB reads the exports: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
