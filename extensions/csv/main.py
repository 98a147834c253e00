#!/usr/bin/env python3
"""csv: an extension that writes and checks CSV files. Needs only Python 3.9."""
import csv
import json
import os
import sys

PROTOCOL = "0.0.1"
SCALAR = {"type": ["string", "number", "boolean", "null"]}
PATH = {"type": "string", "minLength": 1, "description": "File, from the trial's workspace."}


def params(required, properties, **more):
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, **more, "additionalProperties": False}


class Failed(Exception):
    """A check that failed, or an operation that was not done; the text is the reason."""


def locate(path, context):
    """Resolves a path in the workspace. Nothing outside it is read or written."""
    base = os.path.realpath(context.get("workspace") or context.get("workdir") or ".")
    full = os.path.realpath(os.path.join(base, path))
    if full == base or os.path.commonpath([base, full]) != base:
        raise Failed(f"{path} is not inside the workspace")
    return full


def text(value):
    """The text of a value in a cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read(path, context):
    """Returns the column names and the rows."""
    try:
        with open(locate(path, context), encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file, strict=True) if line]
    except FileNotFoundError:
        raise Failed(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Failed(f"{path} cannot be read as CSV: {error}") from error
    if not lines:
        raise Failed(f"{path} is empty")
    return lines[0], lines[1:]


def cell(row, header, column):
    if column not in header:
        raise Failed(f"there is no column {column}; there are {', '.join(header)}")
    index = header.index(column)
    return row[index] if index < len(row) else ""


def write(args, context):
    path, rows = locate(args["path"], context), args.get("rows", [])
    for number, row in enumerate(rows, 1):
        if len(row) != len(args["columns"]):
            raise Failed(f"row {number} has {counted(len(row), 'cell')} for {counted(len(args['columns']), 'column')}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([args["columns"], *([text(v) for v in row] for row in rows)])
    return f"wrote {counted(len(rows), 'row')} to {args['path']}", {"path": path}


def count(args, context):
    header, rows = read(args["path"], context)
    wanted = {column: text(value) for column, value in args.get("where", {}).items()}
    found = sum(all(cell(row, header, column) == value for column, value in wanted.items()) for row in rows)
    for column in wanted:
        cell([], header, column)
    what = f"{args['path']} has {counted(found, 'such row' if wanted else 'row')}"
    if found != args.get("equals", found):
        raise Failed(f"{what}, expected {args['equals']}")
    if found < args.get("atLeast", found):
        raise Failed(f"{what}, expected at least {args['atLeast']}")
    return what, {"count": str(found)}


def expect(args, context):
    header, rows = read(args["path"], context)
    if header != args.get("columns", header):
        raise Failed(f"the columns are {', '.join(header)}, expected {', '.join(args['columns'])}")
    for each in args.get("cells", []):
        number, column, value = each["row"], each["column"], text(each["value"])
        if number > len(rows):
            raise Failed(f"there is no row {number}; the file has {counted(len(rows), 'row')}")
        found = cell(rows[number - 1], header, column)
        if found != value:
            raise Failed(f"{column} in row {number} is {json.dumps(found)}, expected {json.dumps(value)}")
    return f"{args['path']} is as expected", {}


def remove(args, context):
    try:
        os.remove(locate(args["path"], context))
    except FileNotFoundError:
        return f"{args['path']} was not there", {}
    return f"removed {args['path']}", {}


COUNT = {"type": "integer", "minimum": 0}
CELL = params(["row", "column", "value"], {"row": {"type": "integer", "minimum": 1}, "column": {"type": "string"}, "value": SCALAR})
NAMES = {"type": "array", "items": {"type": "string"}, "minItems": 1}
ROWS = {"type": "array", "items": {"type": "array", "items": SCALAR}}
OPERATIONS = {
    "write": (write, ["setup"], "Writes a table; replaces an existing file.",
              params(["path", "columns"], {"path": PATH, "columns": NAMES, "rows": ROWS})),
    "count": (count, ["verify"], "Counts the rows whose cells have the values of where.",
              params(["path"], {"path": PATH, "where": {"type": "object", "additionalProperties": SCALAR}, "equals": COUNT, "atLeast": {"type": "integer", "minimum": 1}},
                     anyOf=[{"required": ["equals"]}, {"required": ["atLeast"]}])),
    "expect": (expect, ["verify"], "Compares column names and cells; the first row below the header is 1.",
               params(["path"], {"path": PATH, "columns": NAMES, "cells": {"type": "array", "items": CELL, "minItems": 1}},
                      anyOf=[{"required": ["columns"]}, {"required": ["cells"]}])),
    "remove": (remove, ["setup", "cleanup"], "Removes a file; a missing file is not an error.",
               params(["path"], {"path": PATH})),
}
MANIFEST = {
    "name": "csv", "version": "1.0.0", "protocolVersion": PROTOCOL, "description": "Writes and checks tables as CSV files.",
    "operations": {name: {"description": words, "params": schema, "phases": phases}
                   for name, (_, phases, words, schema) in OPERATIONS.items()},
}
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}


def is_kind(kind, value):
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def problem(schema, value, place):
    """Validates a value, for the keywords of JSON Schema that are used above; returns the problem or None."""
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(is_kind(kind, value) for kind in kinds):
        return f"{place} must be of type {' or '.join(kinds)}"
    if isinstance(value, (str, list)) and len(value) < schema.get("minLength", schema.get("minItems", 0)):
        return f"{place} is empty"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{place} must be at least {schema['minimum']}"
    if isinstance(value, list):
        found = (problem(schema.get("items", {}), item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((each for each in found if each), None)
    return members_problem(schema, value, place) if isinstance(value, dict) else None


def members_problem(schema, value, place):
    missing = [name for name in schema.get("required", []) if name not in value]
    if missing:
        return f"{place} lacks {', '.join(missing)}"
    either = [name for branch in schema.get("anyOf", []) for name in branch["required"]]
    if either and not any(name in value for name in either):
        return f"{place} needs {' or '.join(either)}"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    unknown = [name for name in value if name not in known] if others is False else []
    if unknown:
        return f"{place} has no {', '.join(unknown)}; there are {', '.join(known)}"
    found = (problem(known.get(name, others), member, f"{place}.{name}") for name, member in value.items())
    return next((each for each in found if each), None)


def execute(operation, args, context, phases):
    """Runs an operation and returns its result. Raises Refused for an invalid call or an error of the environment."""
    if operation not in OPERATIONS:
        return {"success": False, "error": f"csv has no operation {operation}; there are {', '.join(OPERATIONS)}"}
    run, own_phases, _, schema = OPERATIONS[operation]
    meant = [context["phase"]] if context.get("phase") else phases
    if not set(meant) & set(own_phases):
        raise Refused(-32602, f"{operation} can be used in {', '.join(own_phases)}, not in {' or '.join(meant)}")
    wrong = problem(schema, args, "args")
    if wrong:
        raise Refused(-32602, wrong)
    try:
        message, outputs = run(args, context)
        return {"success": True, "message": message, "outputs": outputs}
    except Failed as error:
        return {"success": False, "message": str(error)}
    except (OSError, ValueError) as error:
        raise Refused(-32603, str(error)) from error


class Refused(Exception):
    """A JSON-RPC error: its code and its message."""


def answer(method, given, state):
    if method == "initialize":
        if given.get("protocolVersion") != PROTOCOL:
            raise Refused(-32602, f"protocolVersion must be {PROTOCOL}")
        state["ready"] = True
        return MANIFEST
    if method == "shutdown":
        return {}
    if method != "execute":
        raise Refused(-32601, f"there is no method {method}")
    if "ready" not in state:
        raise Refused(-32600, "initialize must come first")
    operation, args, context = given.get("operation"), given.get("args") or {}, given.get("context") or {}
    if not isinstance(operation, str) or not isinstance(context, dict):
        raise Refused(-32602, "operation must be a string, and context an object")
    return execute(operation, args, context, ["setup", "verify", "cleanup"])


def respond(line, state):
    """The response to one line, None for a notification; and the method."""
    number = None
    try:
        message = json.loads(line)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            raise Refused(-32600, "this is not a JSON-RPC 2.0 request")
        if "id" not in message:
            return None, message["method"]
        number, given = message["id"], message.get("params") or {}
        if not isinstance(given, dict):
            raise Refused(-32602, "params must be an object")
        return {"jsonrpc": "2.0", "id": number, "result": answer(message["method"], given, state)}, message["method"]
    except Refused as error:
        code, words = error.args
    except (ValueError, RecursionError) as error:
        code, words = -32700, f"the line is not valid JSON: {error}"
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": words}}, None


def serve(out):
    state = {}
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        reply, method = respond(line, state)
        if reply is not None:
            out.write(json.dumps(reply) + "\n")
            out.flush()
        if method == "shutdown":
            return 0
    return 0


def once(verb, operation, path, out):
    phases = {"action": ["setup", "cleanup"], "check": ["verify"]}[verb]
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        result = execute(operation, given.get("args") or {}, given.get("context") or {}, phases)
    except Refused as error:
        sys.stderr.write(f"{error.args[1]}\n")
        return 1
    except (OSError, ValueError, AttributeError) as error:
        sys.stderr.write(f"the input {path} cannot be read: {error}\n")
        return 1
    out.write(json.dumps(result) + "\n")
    return 0 if result["success"] else 1


def main(words):
    out, sys.stdout = sys.stdout, sys.stderr
    csv.field_size_limit(2**31 - 1)
    if not words:
        return serve(out)
    if len(words) == 4 and words[0] in ("action", "check") and words[2] == "--input":
        return once(words[0], words[1], words[3], out)
    sys.stderr.write("usage: main.py, or main.py action|check NAME --input FILE\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
