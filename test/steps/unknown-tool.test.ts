import { describe, expect, it } from "vitest";
import type { McpStep, Step } from "../../src/core/formats/step.ts";
import type { CallOutcome } from "../../src/servers/client/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { anyTool, stubSession, textResult } from "../support/sessions.ts";
import { scopeOf, stepContext } from "../support/step-context.ts";
import { errorResult } from "../support/trial-events.ts";

const timeoutMs = 1000;

function call(tool: string, expectation: McpStep["expect"] = {}): McpStep {
  const request = { kind: "tool", tool, args: {} } as const;
  return { type: "mcp", id: "call", server: "files", request, expect: expectation, timeoutMs };
}

function not(step: Step): Step {
  return { type: "not", id: "not", steps: [step], timeoutMs };
}

/** A server that lists `read_file`, which fails, and that answers `later` too. */
async function outcomeOf(step: Step): Promise<string> {
  const reply = (tool: string): CallOutcome =>
    tool === "later"
      ? textResult("ok")
      : { kind: "result", result: errorResult(`${tool} failed`), latencyMs: 1 };
  const session = stubSession({ name: "files", tools: [anyTool("read_file")], call: reply });
  const { outcome } = await runStep(step, stepContext({ sessions: [session], scope: scopeOf({}) }));
  return outcome;
}

describe("a call of a tool that the server does not offer", () => {
  it("is a failure that neither a not nor an expected error passes for", async () => {
    expect(await outcomeOf(call("raed_file"))).toBe("failed");
    expect(await outcomeOf(not(call("raed_file")))).toBe("failed");
    expect(await outcomeOf(call("raed_file", { isError: true }))).toBe("failed");
  });

  it("is a failure also when the server answers it", async () => {
    expect(await outcomeOf(call("later"))).toBe("failed");
    expect(await outcomeOf(not(call("later", { isError: true })))).toBe("failed");
  });

  it("is told apart from one that is offered and fails", async () => {
    expect(await outcomeOf(not(call("read_file")))).toBe("passed");
    expect(await outcomeOf(call("read_file", { isError: true }))).toBe("passed");
  });
});
