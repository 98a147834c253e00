import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { acpOfPreset, commandOfPreset } from "../declared-agents.ts";
import type { OutputEvent, OutputReader } from "./preset.ts";
import { presets, agentPresets } from "./presets.ts";

function read(sample: string, reader: OutputReader): readonly OutputEvent[] {
  const file = new URL(`../../../test/fixtures/agents/outputs/${sample}.jsonl`, import.meta.url);
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const events = lines.flatMap((line) => reader.read(JSON.parse(line) as Record<string, unknown>));
  return [...events, ...reader.finish()];
}

describe.each(agentPresets)("what %s prints", (preset) => {
  it("is messages, uses of tools, tokens and a session", () => {
    const events = read(`${preset}-tools`, presets[preset].createReader());
    expect(events.map((event) => JSON.stringify(event))).toMatchSnapshot();
  });

  it("tells when the model refuses", () => {
    const failed = read(`${preset}-refused`, presets[preset].createReader()).filter(
      (event) => event.kind === "failed",
    );
    expect(failed.map((event) => JSON.stringify(event))).toMatchSnapshot();
  });

  it("may have anything in it", () => {
    const reader = presets[preset].createReader();
    const types =
      "item.completed turn.completed turn.failed thread.started init message tool_use tool_result result " +
      "assistant.message assistant.usage tool.execution_start tool.execution_complete session.error error text " +
      "step_finish system assistant user";
    for (const type of [...types.split(" "), 5, null]) {
      for (const value of [null, 5, "x", [], [null], {}, { content: [null, 5] }, { content: "x" }]) {
        const names = ["item", "data", "part", "message", "usage", "error", "stats", "content", "session_id"];
        const line = { type, ...Object.fromEntries(names.map((name) => [name, value])) };
        expect(() => reader.read(line)).not.toThrow();
      }
    }
  });
});

describe("a second turn", () => {
  const resumable = agentPresets.filter((preset) => preset !== "claude-code");

  it.each(resumable)("of %s goes on with the session", (preset) => {
    const reader = presets[preset].createReader();
    const sessionOf = (events: readonly OutputEvent[]): string | undefined =>
      events.find((event) => event.kind === "session")?.id;
    const first = sessionOf(read(`${preset}-tools`, reader));
    expect(first).toBeDefined();
    expect(sessionOf(read(`${preset}-next-turn`, presets[preset].createReader()))).toBe(first);
  });

  it.each([
    ["codex", 100],
    ["qwen-code", 400],
  ] as const)("of %s has its own tokens only", (preset, input) => {
    const reader = presets[preset].createReader();
    const usages = [`${preset}-tools`, `${preset}-next-turn`].map((sample) =>
      read(sample, reader).find((event) => event.kind === "usage"),
    );
    const usageOf = (tokens: number): object => ({
      kind: "usage",
      usage: { inputTokens: tokens, outputTokens: tokens / 5, cacheReadTokens: tokens / 10 },
    });
    expect(usages).toEqual([usageOf(400), usageOf(input)]);
  });

  it("of codex that counts anew has the tokens that it reports", () => {
    const reader = presets.codex.createReader();
    const tokens = [
      { input_tokens: 100, output_tokens: 50 },
      { input_tokens: 90, output_tokens: 60 },
      { input_tokens: 95, output_tokens: 10 },
    ];
    const counts = tokens.flatMap((usage) => reader.read({ type: "turn.completed", usage }));
    expect(counts.flatMap((event) => (event.kind === "usage" ? event.usage : []))).toMatchObject([
      { inputTokens: 100, outputTokens: 50 },
      { inputTokens: 90, outputTokens: 60 },
      { inputTokens: 95, outputTokens: 10 },
    ]);
  });
});

it("takes an end for want of turns for the agent's, not for a failure", () => {
  const events = read("claude-code-max-turns", presets["claude-code"].createReader());
  expect(events.slice(-2)).toEqual([{ kind: "end", reason: "max-steps" }, { kind: "complete" }]);
  expect(events.some((event) => event.kind === "failed")).toBe(false);
});

describe("acpOfPreset", () => {
  it.each([
    ["gemini", "m", "gemini --acp --skip-trust --model m", {}],
    ["claude-code", "m", "claude-agent-acp", { ANTHROPIC_MODEL: "m", MCP_TIMEOUT: "600000" }],
    ["codex", "m", "codex-acp", { NO_BROWSER: "1", INITIAL_AGENT_MODE: "workspace-write" }],
    ["copilot", "m", "copilot --acp --no-auto-update --disable-builtin-mcps --model m", {}],
    [
      "qwen-code",
      "m",
      "qwen --acp --approval-mode=default --exclude-tools=tool_search --exclude-tools=tool_call --model m",
      {
        QWEN_CODE_LEGACY_MCP_BLOCKING: "1",
        QWEN_CODE_NO_RELAUNCH: "true",
        QWEN_USAGE_STATISTICS_ENABLED: "false",
      },
    ],
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
