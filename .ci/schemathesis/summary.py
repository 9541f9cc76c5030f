"""Sums JUnit reports (.xml) and lists of calls (.calls) into a report for .ci/run: summary.py REPORT FILE..."""

import json
import sys
from xml.etree import ElementTree

report, *files = sys.argv[1:]
results = []
for file in files:
    if file.endswith(".xml"):
        for case in ElementTree.parse(file).iter("testcase"):
            results.append(case.find("failure") is None and case.find("error") is None)
    else:
        with open(file, encoding="utf-8") as lines:
            results.extend(line.startswith("ok ") for line in lines)
with open(report, "w", encoding="utf-8") as file:
    json.dump(
        {
            "numPassedTests": results.count(True),
            "numFailedTests": results.count(False),
            "numPendingTests": 0,
            "numTodoTests": 0,
            "testResults": [],
        },
        file,
    )
