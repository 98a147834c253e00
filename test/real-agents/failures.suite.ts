import { describe, expect, test } from "vitest";
import { presets } from "../../src/agents/programs/presets.ts";
import { type RealAgent, realAgents } from "./agents.ts";
import { play, types, type Type } from "./play.ts";

/** What the program reports of tokens: of every request that the model got, of a part of them, or nothing. */
const reports: Readonly<Record<RealAgent["preset"], Readonly<Record<Type, "all" | "part" | "nothing">>>> = {
  "claude-code": { acp: "all", command: "all" },
  codex: { acp: "all", command: "all" },
  gemini: { acp: "part", command: "all" },
  copilot: { acp: "all", command: "nothing" },
  opencode: { acp: "part", command: "all" },
  "qwen-code": { acp: "nothing", command: "all" },
};

describe.each(realAgents)("$preset", (agent) => {
  // Some retry for minutes, so that the time of the trial ends first; that is not the agent's failure either.
  test.each([
    ["refuses the key", { refuses: 401 }],
    ["is broken", { refuses: 500 }],
    ["is behind a page", { isPage: true }],
  ] as const)("does not fail for a model that %s", async (_, model) => {
    for (const type of types) {
      const { trial, output } = await play(agent, type, {}, model, { trial: "30s" });
      expect(["error", "timeout"], output).toContain(trial?.verdict);
      expect(trial?.error?.code, output).toMatch(/^agent\/(?:auth|failed|exited)$|^trial\/timeout$/);
    }
  });

  test.each(types)("has the tokens that the model counted, as %s", async (type) => {
    const { trial, counted, output } = await play(agent, type, {});
    expect(trial?.verdict, output).toBe("pass");
    const { inputTokens, outputTokens, isPartial } = trial?.usage ?? {};
    const report = reports[agent.preset][type];
    if (report === "nothing") return expect(inputTokens).toBeUndefined();
    if (report === "all") return expect([inputTokens, outputTokens]).toEqual([counted.input, counted.output]);
    expect(isPartial).toBe(true);
    return expect(inputTokens).toBeLessThan(counted.input);
  });

  test.skipIf(presets[agent.preset].modelApi === undefined).each(types)(
    "has all of them by the proxy, as %s",
    async (type) => {
      const { trial, counted, output } = await play(agent, type, { modelProxy: true });
      expect(trial?.verdict, output).toBe("pass");
      const { inputTokens, outputTokens, requests } = trial?.usage ?? {};
      expect([inputTokens, outputTokens, requests]).toEqual([
        counted.input,
        counted.output,
        counted.requests,
      ]);
    },
  );
});
