import { beforeAll, describe, expect, it } from "vitest";
import type { Ended } from "../support/faults.ts";
import { expectExit, expectVerdict, type Fault, type Faults, runAll, type ToolTest } from "./support.ts";
import { fixtureServer } from "../e2e/support.ts";

const test: ToolTest = { name: "echo", args: { message: "hi" }, expectedResult: "hi" };
/** Long enough for the programs to start beside the others. */
const soon = { startupTimeout: 3000 };

/** Servers that fail to start. */
const faults = {
  "a command that does not exist": {
    server: { transport: "stdio", command: "no-such-program" },
    code: "server/spawn-failed",
    says: ["could not be started: command not found: no-such-program", "PATH has no such program"],
  },
  "a file that is not executable": {
    server: { transport: "stdio", command: "./mcp-eval.config.json" },
    code: "server/spawn-failed",
    says: ["not executable: ./mcp-eval.config.json", "chmod +x"],
  },
  "a cwd that does not exist": {
    server: { ...fixtureServer(), cwd: "./nowhere" },
    code: "server/spawn-failed",
    says: ["cwd does not exist", "nowhere"],
  },
  "an immediate exit with a stack trace": {
    server: fixtureServer("--stderr=Error: no DB_URL\n    at connect (db.js:12:3)", "--exit=1"),
    code: "server/exited",
    says: [
      "exited with code 1 before it had answered initialize",
      "Error: no DB_URL\n    at connect (db.js:12:3)",
      "run the same command in a terminal",
    ],
  },
  "termination by a signal": {
    server: fixtureServer("--stderr=about to crash", "--kill=SIGSEGV"),
    code: "server/exited",
    says: ["was ended by SIGSEGV before it had answered initialize", "about to crash"],
  },
  "no answer to initialize": {
    server: { ...fixtureServer("--mute=initialize", "--stderr=waiting for a database"), ...soon },
    code: "server/handshake-timeout",
    says: ["did not answer initialize within 3000 ms", "raise startupTimeout", "waiting for a database"],
    warns: ["the server was started once more"],
  },
  "no answer to tools/list": {
    server: { ...fixtureServer("--mute=tools/list"), ...soon },
    code: "server/handshake-timeout",
    says: ["did not answer tools/list within 3000 ms"],
    warns: ["the server was started once more"],
  },
  "a banner instead of messages": {
    server: { ...fixtureServer("--stdout=Listening on port 3000", "--silent"), ...soon },
    code: "server/handshake-timeout",
    says: ['not an MCP message: "Listening on port 3000"', "logs belong on stderr"],
    warns: ["wrote 2 lines on stdout that are not MCP", "the server was started once more"],
  },
  "an endless line": {
    server: fixtureServer("--long-line=20000000"),
    code: "server/message-too-large",
    says: [
      "sent a message of more than 10485760 bytes before it had answered initialize",
      "raise maxMessageBytes",
    ],
  },
  "an initialize result that is not an object": {
    server: fixtureServer("--initialize=text"),
    code: "server/protocol-error",
    says: ["answered initialize with", 'the result is not an object: "hello"'],
  },
  "a refusal of initialize": {
    server: fixtureServer("--initialize=error"),
    code: "server/protocol-error",
    says: ["answered initialize with an error: no thanks (code -32600)"],
  },
  "a cyclic pagination of tools/list": {
    server: fixtureServer("--circle"),
    code: "server/protocol-error",
    says: ["tools/list does not end"],
  },
  "stdout closed after initialize": {
    server: fixtureServer("--close-stdout", "--mute=tools/list"),
    code: "server/protocol-error",
    says: ["closed its stdout but goes on running"],
  },
} satisfies Readonly<Record<string, Omit<Fault, "test" | "verdict">>>;

const all: Faults = Object.fromEntries(
  Object.entries(faults).map(([name, fault]) => [name, { ...fault, test, verdict: "error" as const }]),
);

describe("a server that does not start", () => {
  let ended: Ended;
  beforeAll(async () => {
    ended = await runAll(all);
  });

  it.each(Object.entries(all))("because of %s is an error that names the cause", (name, fault) => {
    expectVerdict(ended, name, fault);
  });

  it("makes the run incomplete, exit 3, in bounded memory", () => {
    expectExit(ended, "incomplete");
    expect(ended.console).toContain(`Incomplete: 0 failed, ${Object.keys(all).length} not evaluated`);
    expect(ended.peak).toBeLessThan(400);
  });
});
