import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { probeServer } from "../../src/check/server-prober.ts";
import type { CheckKind, PlannedCall } from "../../src/model/check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Finding } from "../../src/model/finding.ts";
import { folderOf } from "../support/cli.ts";
import { faultyServer, findingsIn } from "./support.ts";

/** The calls that are planned for a server with one tool. */
const calls: readonly PlannedCall[] = [{ tool: "word", args: {}, expects: "result", why: "no arguments" }];

/** Code and message of each finding about the protocol or stability, in a given part of a check. */
async function foundIn(kind: CheckKind, spec: ServerSpec, callMs?: number): Promise<string[]> {
  const findings = await findingsIn(kind, spec, {
    ...(kind === "calls" ? { calls } : {}),
    ...(callMs === undefined ? {} : { callMs }),
  });
  return findings.filter(isAboutServer).map(({ code, message }) => `${code}: ${message}`);
}

function isAboutServer({ code }: Finding): boolean {
  return code.startsWith("protocol/") || code.startsWith("stability/");
}

it.each<CheckKind>(["handshake", "requests", "shutdown", "definitions", "calls", "stability"])(
  "%s: a server without defects has no finding",
  async (kind) => {
    expect(await foundIn(kind, faultyServer())).toEqual([]);
  },
);

it("a server that can run only once has ended before it is started again", async () => {
  using folder = folderOf({});
  const spec = faultyServer(`lock=${join(folder.path, "lock")}`);
  const outcomes: string[] = [];
  await probeServer({
    server: "s",
    spec,
    check: { kind: "handshake", disable: [], runsOnce: true },
    signal: new AbortController().signal,
    callMs: 5000,
    emit: (event) => (event.type === "probe.finished" ? outcomes.push(event.outcome) : 0),
  });
  expect(outcomes).toEqual(Array<string>(6).fill("done"));
});

describe.each<{
  readonly kind: CheckKind;
  readonly callMs?: number;
  readonly found: Record<string, string[]>;
}>([
  {
    kind: "handshake",
    found: {
      "stdout-text": ['protocol/stdout: a line is "ready"'],
      "exit-at-start": ["protocol/no-session: initialize got no answer: the server ended (exit code 3)"],
      "any-version": [
        'protocol/version: asked for "1999-01-01", it chose "1999-01-01", which does not exist',
      ],
      "refuses-versions": [
        'protocol/refused-version: "2025-06-18" got the error -32602 "unsupported version"',
        'protocol/refused-version: "2025-03-26" got the error -32602 "unsupported version"',
        'protocol/refused-version: "2024-11-05" got the error -32602 "unsupported version"',
        'protocol/refused-version: "1999-01-01" got the error -32602 "unsupported version"',
      ],
      "ends-at-version": [
        'protocol/version-unanswered: "2025-06-18" got no answer: server "s" exited with code 5',
      ],
      "line-without-end": [
        'protocol/broken-connection: server "s" sent a message of more than 10000000 bytes, which is all that mcpvals reads',
      ],
    },
  },
  {
    kind: "requests",
    found: {
      // A finding of the handshake.
      "stdout-text": [],
      "no-ping": ['protocol/ping: ping got the error -32601 "Method not found"'],
      "any-method": ['protocol/unknown-method: "mcpvals/no-such-method" got a result'],
      "any-tool": [
        "protocol/unknown-tool: a call of an unknown tool got a result",
        "protocol/unknown-tool: a call without a name got a result",
      ],
      "undeclared-prompts": [
        "protocol/undeclared-list: prompts/list gives 1 item, and capabilities lacks prompts",
      ],
      "exit-on-junk": ["protocol/not-robust: text that is not JSON ended the server (exit code 4)"],
      "exit-on-list=tools": [],
      "exit-on-list=prompts": ["protocol/not-robust: a request for a list ended the server (exit code 6)"],
      "exit-on-cancel": [
        "protocol/not-robust: the cancellation of an unknown request ended the server (exit code 5)",
      ],
    },
  },
  {
    kind: "requests",
    callMs: 2000,
    found: { "forgets=20": ["protocol/concurrent: 1 of 10 requests got no answer (ping)"] },
  },
  {
    kind: "calls",
    found: {
      "exit-on-cancel": ["protocol/not-robust: the cancellation of a call ended the server (exit code 5)"],
    },
  },
  {
    kind: "calls",
    callMs: 2000,
    found: { "forgets=8": ["protocol/concurrent: 1 of 5 requests got no answer (tools/call)"] },
  },
  {
    kind: "definitions",
    found: {
      "unserved-prompts": ['protocol/list-failed: prompts/list got the error -32601 "Method not found"'],
      "odd-items": [
        "protocol/list-failed: tools/list got a result in which tools[1], tools[3] are not objects",
      ],
      "same-cursor": ['protocol/endless-list: tools/list: after 2 pages the cursor "again" comes twice'],
      "endless-pages": [
        "protocol/long-list: tools/list: after 100 pages there is another, and no more were read",
      ],
      "exit-on-list=tools": [
        "protocol/list-failed: tools/list got no answer: the server ended (exit code 6)",
      ],
    },
  },
  {
    kind: "definitions",
    callMs: 300,
    found: {
      "silent-list": ["protocol/list-failed: tools/list got no answer in time"],
      "wrong-id": [
        "protocol/malformed-message: an answer has an id that no request waits for",
        "protocol/list-failed: tools/list got no answer in time",
      ],
    },
  },
  {
    kind: "stability",
    found: {
      "changing-list": [
        'stability/listing: it is "Listing 2.", expected "Listing 1." (compared with the first listing)',
      ],
      "vanishing-tool": ["stability/listing: it is gone: only the first listing has it"],
      "refuses-list=2": ['stability/not-compared: tools/list got the error -32602 "Too many requests"'],
    },
  },
  {
    kind: "stability",
    callMs: 2000,
    found: { "silent-second-list": ["stability/not-compared: tools/list got no answer in time"] },
  },
  {
    kind: "shutdown",
    found: {
      "ignores-stdin": ["protocol/shutdown: it had to be ended with SIGTERM"],
      "leaves-process": ["protocol/leftover-processes: 1 of its processes went on, and had to be ended"],
    },
  },
])("$kind finds", ({ kind, callMs, found }) => {
  it.each(Object.entries(found))("%s", async (fault, expected) => {
    expect(await foundIn(kind, faultyServer(fault), callMs)).toEqual(expected);
  });
});

it.each([
  ["calls", { calls }],
  ["reads", { reads: [{ kind: "resource", name: "notes://a" }] }],
] as const)("%s with an answer that has its id as a text get one finding", async (kind, part) => {
  const findings = await findingsIn(kind, faultyServer("id-as-text"), { ...part, callMs: 1000 });
  expect(findings.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    "protocol/malformed-message: an answer has its request's id as a text, and not as the number that was sent",
  ]);
});

it("shutdown finds a server that ends only by SIGKILL", async () => {
  expect(await foundIn("shutdown", faultyServer("ignores-stdin", "ignores-sigterm"))).toEqual([
    "protocol/shutdown: it had to be ended with SIGKILL",
  ]);
});

it("handshake waits for a slow start, not for a slow answer", async () => {
  expect(await foundIn("handshake", faultyServer("slow-start=50"), 1)).toEqual([]);
});
