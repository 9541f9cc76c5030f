"""Sums JUnit reports into a report for .ci/run: summary.py REPORT JUNIT..."""

import json
import sys
from xml.etree import ElementTree

report, *junit = sys.argv[1:]
cases = [case for file in junit for case in ElementTree.parse(file).iter("testcase")]
failed = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
with open(report, "w", encoding="utf-8") as file:
    json.dump(
        {
            "numPassedTests": len(cases) - failed,
            "numFailedTests": failed,
            "numPendingTests": 0,
            "numTodoTests": 0,
            "testResults": [],
        },
        file,
    )
