import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import type { JsonObject } from "../../src/base/json.ts";
import type { Task } from "../../src/model/task.ts";
import { parseOlderTask } from "../../src/formats/convert/older-task.ts";
import type { Check } from "../../src/model/event.ts";
import { runSequence } from "../../src/steps/step-runner.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { anyTool, stubSession } from "../support/sessions.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";
import { textResult } from "../support/trial-events.ts";
import { startHttp } from "../support/http.ts";

/** A task of the older step form with these verify steps. */
function taskOf(verify: string): Task {
  const document: unknown = parseYaml(`
kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: {name: t}
spec:
  requires: [{mcpServer: docs, as: d}]
  prompt: {inline: Hi.}
  verify: ${verify}
`);
  const parsed = parseOlderTask(document, {
    file: "/t/task.yaml",
    dir: "/t",
    locate: () => undefined,
    files: { look: () => "nothing", read: () => undefined, leaves: () => false },
    servers: ["docs"],
    variables: {},
    completeStdio: () => ({ cwd: "/", env: {} }),
    inheritEnv: [],
  });
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.task;
}

interface Verified {
  readonly checks: readonly (readonly [string, Check["passed"]])[];
  readonly outputs: JsonObject;
  readonly asked: readonly string[];
}

/** Runs the verify steps against a server whose tools all return "page one"; the tool `broken` fails. */
async function verify(steps: string): Promise<Verified> {
  const asked: string[] = [];
  const session = stubSession({
    name: "docs",
    tools: ["read", "broken"].map(anyTool),
    call: (tool, args) => {
      asked.push(`${tool} ${JSON.stringify(args)}`);
      const result = { ...textResult("page one"), ...(tool === "broken" ? { isError: true } : {}) };
      return { kind: "result", result, latencyMs: 1 };
    },
  });
  using trial = temporaryTrial();
  const scope = scopeOf({ env: { X: "x" }, agent: { output: "done" } }, trial);
  const context = stepContext({ sessions: [session], trial, scope });
  const { ran } = await runSequence(taskOf(steps).verify, context, runStep);
  return {
    checks: ran.flatMap(({ report }) => report.checks.map(({ name, passed }) => [name, passed] as const)),
    outputs: Object.fromEntries(trial.outputs),
    asked,
  };
}

describe("calls of the older step form", () => {
  it("check the content blocks, and pass them to later steps", async () => {
    const { checks, outputs, asked } = await verify(`
  - d.read: {args: {id: "{env.X}"}, expect: {content: {match: '^\\[\\{', fields: [{path: "[0].text", equals: page one}]}}}
  - script: {inline: 'test "$PAGE" = "[{\\"type\\":\\"text\\",\\"text\\":\\"page one\\"}]"', env: {PAGE: "{steps.docs.read.content}"}}
  - d.read: {expect: {content: {fields: [{path: "[0].text", match: two}]}}}
`);
    expect(asked).toEqual(['read {"id":"{env.X}"}', "read {}"]);
    expect(checks.map(([name]) => name.split(" ")[0])).toEqual(["content", "content", "exit", "content"]);
    expect(checks.map(([, passed]) => passed)).toEqual([true, true, true, false]);
    expect(Object.keys(outputs)).toEqual(["verify_0"]);
  });

  it("that are expected to fail must fail", async () => {
    const { checks } = await verify(
      "[{d.broken: {expect: {isError: true}}}, {d.read: {expect: {isError: true}}}, {d.broken: {}}]",
    );
    expect(checks).toEqual([
      ["call", true],
      ["call", false],
      ["call", false],
    ]);
  });
});

describe("scripts of the older forms", () => {
  it("have templates in their variables but not in their text", async () => {
    const { checks } = await verify(
      `[{script: {inline: 'test "$A/{env.X}" = "x done/{env.X}"', env: {A: "\${X} {agent.output}"}}}]`,
    );
    expect(checks.map(([, passed]) => passed)).toEqual([true]);
  });

  it("end verify when they fail; with continueOnError they do not end it, but still count", async () => {
    const both = (rest: string) => `[{script: {inline: exit 1${rest}}}, {script: {inline: exit 0}}]`;
    expect((await verify(both(""))).checks.map(([, passed]) => passed)).toEqual([false]);
    const soft = await verify(both(", continueOnError: true"));
    expect(soft.checks.map(([, passed]) => passed)).toEqual([false, true]);
  });
});

describe("requests of the older step form", () => {
  /** Verifies a request to a server that responds with `body`. */
  async function answering(body: string, expectation: string): Promise<Verified["checks"]> {
    const url = await startHttp((_, response) => response.end(body));
    return (await verify(`[{http: {url: "${url}/", expect: ${expectation}}}]`)).checks;
  }

  it("check the response with patterns", async () => {
    const expectation = `{body: {match: "^.{2}v.*a+", fields: [{path: v, match: "^a+$"}]}}`;
    const passed = await answering('{"v":"aaa"}', expectation);
    expect(passed).toEqual([
      ["status", true],
      ["body matches", true],
      ["body json $.v matches", true],
    ]);
    const failed = await answering('{"v":"aab"}', expectation);
    expect(failed.map(([, held]) => held)).toEqual([true, true, false]);
  });
});
