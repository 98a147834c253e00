import { beforeAll, describe, expect, it } from "vitest";
import type { TrialResult } from "../../src/model/result.ts";
import { type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import { type Ended, runFaulty } from "../support/faults.ts";
import { expectExit, strings } from "./support.ts";
import { fixtureServer, trialOf } from "../e2e/support.ts";

/** What a model does when it is asked for the nth time, counting from 0, and what has to come of it. */
interface ModelFault {
  readonly reply: (index: number) => FakeReply;
  readonly verdict: TrialResult["verdict"];
  readonly code?: string;
  readonly says?: readonly string[];
}

type ModelFaults = Readonly<Record<string, ModelFault>>;

const done: FakeReply = { text: "It is done." };
const always = (reply: FakeReply) => () => reply;
const first = (count: number, reply: FakeReply) => (index: number) => (index < count ? reply : done);

const agentFaults: ModelFaults = {
  "throttling that passes": {
    reply: first(2, { status: 429, headers: { "retry-after": "1" } }),
    verdict: "pass",
  },
  "throttling for ever": {
    reply: always({ status: 429, headers: { "retry-after": "0" }, message: "too many requests" }),
    verdict: "error",
    code: "model/unreachable",
    says: ["did not answer after 5 attempts: HTTP 429: too many requests", "Run fewer trials at once"],
  },
  "throttling for an hour": {
    reply: always({ status: 429, headers: { "retry-after": "3600" } }),
    verdict: "error",
    code: "model/unreachable",
    says: ["the next attempt would have to wait 3600 s"],
  },
  "one connection cut in the middle": { reply: first(1, { drop: "body" }), verdict: "pass" },
  "a wrong key": {
    reply: always({ status: 401, message: "no such key" }),
    verdict: "error",
    code: "model/rejected",
    says: ["refused the request: HTTP 401: no such key", "Check the API key"],
  },
  "a body that is not JSON": {
    reply: always({ raw: "<html>gateway</html>" }),
    verdict: "error",
    code: "model/invalid-response",
    says: ["gave an invalid response", "<html>gateway</html>"],
  },
  "an empty answer": {
    reply: always({ text: "" }),
    verdict: "fail",
    says: ['contains "done"', "turn 1: the model's last answer was empty"],
  },
  "a refusal": {
    reply: always({ text: "I cannot do that.", finish: "refusal" }),
    verdict: "fail",
    says: ["turn 1: the model or its provider refused to answer"],
  },
  "arguments that are no JSON": {
    reply: (index) => (index === 0 ? { tool: "echo", rawArgs: '{"message": ' } : done),
    verdict: "fail",
    says: ["the arguments of this call are not a JSON object"],
  },
  "arguments with a key twice": {
    reply: (index) => (index === 0 ? { tool: "echo", rawArgs: '{"message": "a", "message": "done"}' } : done),
    verdict: "fail",
    says: ['the arguments of this call have the key "message" twice'],
  },
  "a tool that does not exist": {
    reply: (index) => (index === 0 ? { tool: "no-such-tool", args: {} } : done),
    verdict: "fail",
    says: ['there is no tool called "no-such-tool"'],
  },
  "calls without end": {
    reply: always({ tool: "echo", args: { message: "again" } }),
    verdict: "fail",
    says: ["turn 1: the model still wanted to call tools after 4 model calls, the most that maxSteps allows"],
  },
  "a server that ends while other calls are open": {
    reply: always({
      tools: [
        { tool: "slow", args: { ms: 1_000_000 } },
        { tool: "crash", args: { code: 4, stderr: "out of memory" } },
        { tool: "slow", args: { ms: 1_000_000 } },
      ],
    }),
    verdict: "error",
    code: "server/exited",
    says: ["exited with code 4", "out of memory"],
  },
};

/** These wait for a limit: of the model, or of a call. */
const silentModel: ModelFaults = {
  "no answer": {
    reply: always({ hang: true }),
    verdict: "error",
    code: "model/unreachable",
    says: ["did not answer after 5 attempts: no answer within 1 s"],
  },
};
const silentServer: ModelFaults = {
  "a call that is not answered": {
    reply: (index) => (index === 0 ? { tool: "slow", args: { ms: 1_000_000 } } : done),
    verdict: "fail",
    says: ["slow gave no result: not answered within"],
  },
};

/** What else a judge may answer is tested in test/graders/judge.test.ts. */
const judgeFaults: ModelFaults = {
  "throttling for ever": {
    reply: always({ status: 429, headers: { "retry-after": "0" } }),
    verdict: "error",
    says: ["model/unreachable", "did not answer after 5 attempts: HTTP 429"],
  },
  prose: {
    reply: always({ text: "Looks good to me!" }),
    verdict: "error",
    says: ["judge/no-verdict", "something that is not a verdict", "Looks good to me!"],
  },
  "a good score": { reply: always({ text: '{"score": 1, "reason": "fine"}' }), verdict: "pass" },
};

/** Runs a workflow for each fault, all at once, with a model that misbehaves as the user's words tell it. */
async function runAll(
  faults: ModelFaults,
  who: "agent" | "judge",
  { call = "30s", model = "30s" } = {},
): Promise<Ended> {
  const asked = new Map<string, number>();
  await using provider = await startFakeProvider((request) => {
    if (request.model !== who) return done;
    const name = /Play <(.+?)>/.exec(request.users.join("\n"))?.[1] ?? "";
    const index = asked.get(name) ?? 0;
    asked.set(name, index + 1);
    return faults[name]?.reply(index) ?? { status: 400, message: `no fault ${name}` };
  });
  return await runFaulty(
    {
      server: { ...fixtureServer(), startupTimeout: "30s" },
      timeout: call,
      concurrency: 16,
      limits: { modelCall: model },
      agent: { model: "openai/agent", maxSteps: 4 },
      ...(who === "judge" ? { llmJudge: true, judge: { model: "openai/judge" } } : {}),
      workflows: Object.keys(faults).map((name) => ({
        name,
        steps: [{ user: `Play <${name}>.`, expectedState: "done" }],
      })),
    },
    { env: provider.env },
  );
}

function expectVerdict({ result, console }: Ended, name: string, fault: ModelFault): void {
  const trial = trialOf(result, name);
  expect([trial.verdict, trial.error?.code]).toEqual([fault.verdict, fault.code]);
  const row = strings(trial).join("\n");
  for (const text of fault.says ?? []) {
    expect(row).toContain(text);
    expect(console).toContain(text);
  }
}

describe.each<[string, ModelFaults, "fail" | "incomplete", { call?: string; model?: string }?]>([
  ["an agent whose model gives", agentFaults, "fail"],
  ["an agent whose model gives late", silentModel, "incomplete", { model: "1s" }],
  ["an agent whose server gives late", silentServer, "fail", { call: "1s" }],
])("%s", (_, faults, verdict, limits) => {
  let ended: Ended;
  beforeAll(async () => {
    ended = await runAll(faults, "agent", limits);
  });

  it.each(Object.entries(faults))("%s gets the verdict that it deserves", (name, fault) => {
    expectVerdict(ended, name, fault);
  });

  it("decides the verdict of the run and its exit code", () => {
    expectExit(ended, verdict);
  });
});

describe("a judge whose model gives", () => {
  let ended: Ended;
  beforeAll(async () => {
    ended = await runAll(judgeFaults, "judge");
  });

  it.each(Object.entries(judgeFaults))("%s gets the verdict that it deserves", (name, fault) => {
    expectVerdict(ended, name, fault);
  });

  it("makes the run incomplete, exit 3", () => {
    expectExit(ended, "incomplete");
  });
});
