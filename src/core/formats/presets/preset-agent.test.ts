import { describe, expect, it } from "vitest";
import { agentPresets } from "../model.ts";
import { acpOfPreset, commandOfPreset } from "../config/agent.ts";

describe("acpOfPreset", () => {
  it.each([
    ["gemini", "m", "gemini --acp --skip-trust --model m", {}],
    ["claude-code", "m", "claude-agent-acp", { ANTHROPIC_MODEL: "m" }],
    ["codex", "m", "codex-acp", { NO_BROWSER: "1", INITIAL_AGENT_MODE: "workspace-write" }],
    ["copilot", "m", "copilot --acp --no-auto-update --disable-builtin-mcps --model m", {}],
    [
      "opencode",
      "m",
      "opencode acp",
      { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_PERMISSION: '{"*":"ask"}' },
    ],
  ] as const)("of %s with the model %s", (preset, model, line, env) => {
    const parts = acpOfPreset(preset, model);
    expect([[parts.command, ...parts.args].join(" "), parts.env]).toEqual([line, env]);
  });
});

describe("commandOfPreset", () => {
  it("puts the model before what belongs to the turn", () => {
    const { args, nextArgs = [] } = commandOfPreset("codex", "m");
    expect(args.slice(0, 4)).toEqual(["exec", "--model", "{model}", "--json"]);
    expect(nextArgs.slice(0, 5)).toEqual(["exec", "resume", "--model", "{model}", "--json"]);
    expect(args.at(-1)).toBe("{prompt}");
  });

  it.each(agentPresets)(
    "gives %s its prompt and its session, and no model that was not asked for",
    (preset) => {
      const { args, nextArgs = [], stdin } = commandOfPreset(preset);
      expect(args.join(" ").includes("{prompt}")).toBe(!stdin);
      expect(nextArgs.join(" ")).toContain("{session}");
      expect([...args, ...nextArgs].join(" ")).not.toContain("{model}");
    },
  );
});
