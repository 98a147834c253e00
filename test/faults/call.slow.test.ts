import { beforeAll, describe, expect, it } from "vitest";
import type { Ended } from "../support/faults.ts";
import { answer, expectExit, expectVerdict, type Faults, raw, runAll, saysHi } from "./support.ts";
import { fixtureServer } from "../e2e/support.ts";

const server = fixtureServer();
const hi = { expectedResult: "hi" };
const neverAnswered = { verdict: "fail", says: ["raw gave no result: not answered within"] } as const;

const faults: Faults = {
  "nothing wrong": { server, test: { name: "echo", args: { message: "hi" }, ...hi }, verdict: "pass" },
  "an end in the middle of a call": {
    server,
    test: { name: "crash", args: { code: 3, stderr: "panic: nil map" } },
    verdict: "fail",
    says: [
      'crash gave no result: server "an end in the middle of a call" exited with code 3: panic: nil map',
    ],
    hints: ['crash {"code":3,"stderr":"panic: nil map"}', "run the same command in a terminal"],
  },
  "a signal in the middle of a call": {
    server,
    test: { name: "crash", args: { signal: "SIGKILL" } },
    verdict: "fail",
    says: ["was ended by SIGKILL"],
  },
  "an error as its result": {
    server,
    test: { name: "fail" },
    verdict: "fail",
    says: ["fail answered isError: it went wrong"],
  },
  "no answer": {
    server,
    test: { name: "slow", args: { ms: 1_000_000 }, timeout: 1000 },
    verdict: "fail",
    says: ["slow gave no result: not answered within"],
    hints: ['slow {"ms":1000000}'],
  },
  "no answer where an error is expected": {
    server,
    test: { name: "slow", args: { ms: 1_000_000 }, timeout: 1000, expectedError: "answer" },
    verdict: "fail",
    says: ["slow gave no result"],
  },
  "an end where an error is expected": {
    server,
    test: { name: "crash", args: { code: 3, stderr: "not found" }, expectedError: "not found" },
    verdict: "fail",
    says: ["crash gave no result: server"],
  },
  "an answer after the longest time": {
    server,
    test: { name: "slow", args: { ms: 1_000_000 }, maxLatency: 50, timeout: 1_000_000 },
    verdict: "fail",
    says: ["latency: no answer within 50 ms, the maximum latency"],
  },
  "an end that a second attempt cannot undo": {
    server,
    test: { name: "crash", args: { code: 5 }, retries: 2 },
    verdict: "fail",
    says: ["exited with code 5"],
    hints: ['crash {"code":5}'],
  },
  "an end after the answer": {
    server,
    test: { name: "answer-and-exit" },
    verdict: "fail",
    says: ['server "an end after the answer" exited with code 0'],
    hints: ["answer-and-exit {}"],
  },
  "noise before and between messages": {
    server: fixtureServer("--junk"),
    test: { name: "echo", args: { message: "hi" }, ...hi },
    verdict: "pass",
    warns: ['lines on stdout that are not MCP, first "starting up..."'],
  },
  "bytes that are no text": {
    server,
    test: { ...raw([0, 255, 254, 10, 128, 129, 10], answer(saysHi)), ...hi },
    verdict: "pass",
    warns: ["2 lines on stdout that are not MCP"],
  },
  "an answer in pieces": {
    server,
    test: { ...raw(answer(saysHi).slice(0, 30), answer(saysHi).slice(30)), ...hi },
    verdict: "pass",
  },
  "half an answer": {
    server,
    test: { ...raw(`${answer(saysHi).slice(0, 30)}\n`), timeout: 1000 },
    ...neverAnswered,
    warns: ["a line on stdout that is not MCP"],
  },
  "a line that does not end": {
    server,
    test: { name: "flood-stdout", args: { bytes: 20_000_000 } },
    verdict: "fail",
    says: ["sent a message of more than 10485760 bytes"],
  },
  "an answer of 100 MB": {
    server,
    test: { name: "huge", args: { bytes: 100_000_000 } },
    verdict: "fail",
    says: ["sent a message of more than 10485760 bytes"],
    hints: ["Answer with less, or raise maxMessageBytes for that server."],
  },
  "an answer nested 100,000 levels deep": {
    server,
    test: { name: "nested", args: { levels: 100_000 } },
    verdict: "fail",
    says: ["sent a message nested more than 400 levels deep"],
    hints: ["flatter"],
  },
  "an answer to another call": {
    server,
    test: { ...raw(answer(saysHi, "9999")), timeout: 1000 },
    ...neverAnswered,
    warns: ["that no request was waiting for, with id 9999"],
  },
  "an answer to no call": {
    server,
    test: {
      ...raw('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'),
      timeout: 1000,
    },
    ...neverAnswered,
    warns: ["that no request was waiting for, with id null: Parse error"],
  },
  "two answers": {
    server,
    test: { ...raw(answer(saysHi) + answer('{"content":[{"type":"text","text":"no"}]}')), ...hi },
    verdict: "pass",
    warns: ["that no request was waiting for, with id 2"],
  },
  "neither a result nor an error": {
    server,
    test: { ...raw('{"jsonrpc":"2.0","id":$ID}\n'), timeout: 1000 },
    ...neverAnswered,
    warns: ['a line on stdout that is not MCP, first "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":2}"'],
  },
  "a list of messages": {
    server,
    test: { ...raw(`[${answer(saysHi).trim()}]\n`), timeout: 1000 },
    ...neverAnswered,
    warns: ["a line on stdout that is not MCP"],
  },
  "a result that is not an object": {
    server,
    test: { name: "no-object" },
    verdict: "fail",
    says: ["no-object gave no result: the response has neither a result object nor an error"],
  },
  "a result without content": {
    server,
    test: raw(answer("{}")),
    verdict: "fail",
    says: ["raw answered without content: {}"],
  },
  "a text without text": {
    server,
    test: raw(answer('{"content":[{"type":"text"}]}')),
    verdict: "fail",
    says: ["raw answered with unusable content"],
  },
  "numbers beyond all bounds": {
    server,
    test: raw(answer('{"content":[],"structuredContent":{"a":1e999,"b":123456789012345678901234567890}}')),
    verdict: "pass",
  },
  "a flood on stderr": {
    server,
    test: { name: "flood-stderr", args: { bytes: 50_000_000 }, expectedResult: "flooded" },
    verdict: "pass",
  },
  "neither stdin's end nor SIGTERM heeded": {
    server: fixtureServer("--stubborn"),
    test: { name: "echo", args: { message: "hi" }, ...hi },
    verdict: "pass",
  },
  "a child that holds the pipes": {
    server: fixtureServer("--grandchild"),
    test: { name: "echo", args: { message: "hi" }, ...hi },
    verdict: "pass",
  },
  "a daemon": {
    server: fixtureServer("--daemon"),
    test: { name: "echo", args: { message: "hi" }, ...hi },
    verdict: "pass",
  },
  "a child that holds the pipes when the server dies": {
    server: fixtureServer("--grandchild"),
    test: { name: "crash", args: { code: 1 } },
    verdict: "fail",
    says: ["exited with code 1"],
  },
};

describe("a server that goes wrong in a call", () => {
  let ended: Ended;
  beforeAll(async () => {
    ended = await runAll(faults);
  });

  it.each(Object.entries(faults))("by %s gets its verdict", (name, fault) => {
    expectVerdict(ended, name, fault);
  });

  it("fails the run, exit 1, in bounded memory, and the other tests stand", () => {
    expectExit(ended, "fail");
    expect(ended.peak).toBeLessThan(400);
  });
});
