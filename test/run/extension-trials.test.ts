import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ExtensionStep } from "../../src/model/step.ts";
import type { EventBody } from "../../src/model/event.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { preparedAs, preparedExtension } from "../support/extensions.ts";
import { type PlayedTrial, playTrial, portableTask } from "../support/portable.ts";

const extension = preparedExtension("faulty.mjs");

const step = (operation: string, id: string, args: ExtensionStep["args"] = {}): ExtensionStep => ({
  type: "extension",
  id,
  timeoutMs: 20_000,
  extension: "x",
  operation,
  args,
});

interface Steps {
  readonly setup?: readonly ExtensionStep[];
  readonly verify?: readonly ExtensionStep[];
  readonly cleanup?: readonly ExtensionStep[];
}

interface Given extends Steps {
  readonly onExit?: (workspace: string) => void;
  /** The agent ends when there was such an event. */
  readonly agentUntil?: EventBody["type"];
  readonly timeoutMs?: number;
}

async function trial({ verify = [], onExit, agentUntil, timeoutMs, ...steps }: Given): Promise<PlayedTrial> {
  await using validator = new SchemaValidator();
  let workspace = "";
  const seen = Promise.withResolvers<void>();
  if (agentUntil === undefined) seen.resolve();
  const limit = timeoutMs === undefined ? {} : { timeoutMs };
  const env = { GREETING: "hello {random.id}" };
  return playTrial(portableTask({ ...steps, ...limit, env, extensions: { x: extension.spec } }, { verify }), {
    async agent({ emit }) {
      await seen.promise;
      emit({ type: "agent.message", turn: 0, text: "bye" });
    },
    services: {
      extensions: preparedAs(extension),
      validateSchema: (schema, value) => validator.validate(schema, value),
      variables: { overrides: { GIVEN: "1" }, shell: { PATH: process.env["PATH"] ?? "", OTHER: "2" } },
    },
    onEvent(event) {
      if (event.type === "workspace.created") workspace = event.path;
      if (event.type === agentUntil) seen.resolve();
      if (event.type === "extension.exited") onExit?.(workspace);
    },
  });
}

describe("a trial with an extension", () => {
  it("tells operations the variables of the task, and what the agent said, once it has", async () => {
    const { events, outcomes } = await trial({
      setup: [step("ok", "before")],
      verify: [step("ok", "after")],
      cleanup: [step("ok", "end")],
    });
    expect(outcomes).toEqual({ before: "passed", after: "passed", end: "passed" });
    const contexts = events.flatMap((event) => {
      if (event.type !== "step.finished") return [];
      return [event.outputs?.["context"]];
    });
    const env = { GREETING: expect.stringMatching(/^hello \w{8}$/) as string, GIVEN: "1" };
    expect(contexts).toMatchObject([
      { phase: "setup", env },
      { phase: "verify", env },
      { phase: "cleanup", env },
    ]);
    expect(contexts[0]).not.toHaveProperty("agent");
    expect(contexts[1]).toHaveProperty("agent", { prompt: "", output: "bye" });
    expect(contexts[2]).toHaveProperty("agent", { prompt: "", output: "bye" });
    expect(events.filter(({ type }) => type === "extension.started")).toHaveLength(1);
  });

  it("ends the process after cleanup and before the workspace goes", async () => {
    const there: boolean[] = [];
    let path = "";
    const { events, finished } = await trial({
      verify: [step("ok", "v")],
      onExit(workspace) {
        path = workspace;
        there.push(existsSync(workspace));
      },
    });
    expect(finished.outcome).toBe("completed");
    expect([there, existsSync(path)]).toEqual([[true], false]);
    const types = events.map((event) => (event.type === "phase.started" ? event.phase : event.type));
    expect(types.indexOf("extension.exited")).toBeGreaterThan(types.indexOf("stop"));
  });

  it("is an error when the extension broke the protocol after an answer that was taken", async () => {
    const { outcomes, finished } = await trial({
      setup: [step("twice-later", "s")],
      agentUntil: "extension.invalid_output",
      cleanup: [step("ok", "c")],
    });
    expect(outcomes).toEqual({ s: "passed", c: "passed" });
    expect(finished).toMatchObject({ outcome: "error", error: { code: "extension/protocol" } });
    expect(finished.error?.message).toMatch(/answered request 2 twice/);
  });

  it("cleans up with a fresh process when the trial's time is up", async () => {
    const { events, finished, outcomes } = await trial({
      verify: [step("hang", "v")],
      cleanup: [step("ok", "c")],
      timeoutMs: 3000,
    });
    expect(finished).toMatchObject({ outcome: "timeout", error: { code: "trial/timeout" } });
    expect(outcomes["c"]).toBe("passed");
    expect(events.filter(({ type }) => type === "extension.started")).toHaveLength(2);
    expect(events.filter(({ type }) => type === "extension.exited")).toHaveLength(2);
  });
});
