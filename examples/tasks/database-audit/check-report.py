#!/usr/bin/env python3
"""Checks the report, and that the agent changed nothing: reads one JSON object, answers with one."""

import csv
import json
import os
import sys

EXPECTED = {"ada@example.org": "1 3", "bela@example.org": "2 5"}
WRITING = {"execute_write_query", "execute_schema_query", "bulk_insert", "drop_table", "create_table"}


def report_check(path):
    if not os.path.exists(path):
        return {"name": "report", "passed": False, "message": f"there is no {os.path.basename(path)}"}
    with open(path, newline="", encoding="utf-8") as file:
        found = {row.get("mail"): row.get("ids") for row in csv.DictReader(file)}
    return {"name": "report", "passed": found == EXPECTED, "message": f"the report has {found}"}


def reading_check(calls):
    wrote = [call["toolName"] for call in calls if call["serverName"] == "db" and call["toolName"] in WRITING]
    return {"name": "only read", "passed": not wrote, "message": f"wrote with {wrote}" if wrote else "nothing was written"}


def main():
    task = json.load(sys.stdin)
    checks = [report_check(sys.argv[1]), reading_check(task["mcp"]["callHistory"]["toolCalls"])]
    failed = [check["message"] for check in checks if not check["passed"]]
    answer = {"passed": not failed, "reason": "; ".join(failed) or "the report is right", "checks": checks}
    json.dump(answer, sys.stdout)


main()
