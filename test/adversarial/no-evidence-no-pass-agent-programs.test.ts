import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { TrialResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { createAcpAgent } from "../../src/agents/acp.ts";
import { createCommandAgent } from "../../src/agents/command.ts";
import { ConversationOutput, type TurnResult } from "../../src/agents/turn-output.ts";
import { agentPresets, type AgentPreset, type CommandOutput } from "../../src/core/formats/model.ts";
import { eventsOf } from "../support/agent-context.ts";
import { type PlayedProgram, playProgram } from "../support/agent-programs.ts";
import { root } from "../support/cli.ts";

const programs = join(root, "test/fixtures/agents");

function readAll(output: CommandOutput, text: string): TurnResult {
  const turn = new ConversationOutput({ agent: "it", output, servers: [], emit: () => 0 }).begin(0);
  turn.push(Buffer.from(text));
  return turn.finish();
}

function linesOf(sample: string): readonly string[] {
  return readFileSync(join(programs, "outputs", `${sample}.jsonl`), "utf8")
    .trimEnd()
    .split("\n");
}

// docs/agents.md, "One start per turn": what is cut off has broken.
describe("the output of a program that is cut off before its last event is no end of a turn", () => {
  it.each<[AgentPreset, string]>([
    ["claude-code", "result"],
    ["codex", "turn.completed"],
    ["gemini", "result"],
    ["copilot", "result"],
    ["opencode", "step_finish with the reason stop"],
  ])("of %s, wherever it is cut", (preset, missing) => {
    const lines = linesOf(`${preset}-tools`);
    expect(readAll(preset, lines.join("\n"))).toMatchObject({ reason: "done", understood: true });
    expect(readAll(preset, lines.join("\n")).missing).toBeUndefined();
    for (let kept = 0; kept < lines.length; kept += 1) {
      const cut = [...lines.slice(0, kept), lines[kept]?.slice(0, -1)].join("\n");
      expect(readAll(preset, cut).missing, `after ${kept} lines`).toBe(missing);
    }
  });

  it.each(agentPresets)("nor is one of %s that goes on after it", (preset) => {
    const lines = linesOf(`${preset}-tools`);
    const said = lines.filter((line) => readAll(preset, line).understood);
    expect(readAll(preset, [...lines, said[1]].join("\n")).missing).toBeDefined();
  });

  it("and the trial is an error that says so", async () => {
    const said = { type: "item.completed", item: { type: "agent_message", text: "It is 42." } };
    const played = await playProgram(
      createCommandAgent({
        type: "command",
        name: "it",
        command: process.execPath,
        args: [join(programs, "command-agent.ts"), JSON.stringify([["print", JSON.stringify(said)]])],
        env: {},
        output: "codex",
        stdin: false,
        configFiles: [],
      }),
      { users: ["hello"] },
    );
    expect(played.thrown).toMatchObject({
      code: "agent/protocol",
      message: "the output of agent it ends before the turn does: its last event is not turn.completed",
    });
    expect(eventsOf(played.events, "turn.finished")).toEqual([]);
  });
});

describe("a program that says a thing twice in one message has said nothing", () => {
  it.each<[CommandOutput, string]>([
    ["claude-code", '{"type":"result","subtype":"success","is_error":true,"is_error":false}'],
    ["copilot", '{"type":"result","exitCode":1,"exit\\u0043ode":0}'],
    ["gemini", '{"type":"result","status":"error","status":"success"}'],
  ])("as lines of %s", (output, line) => {
    expect(readAll(output, line).failure).toMatch(/^it wrote a message with the key "\w+" twice$/);
  });

  it.each([
    ["twice", 'agent it wrote a message with the key "stopReason" twice'],
    ["both", "agent it wrote an answer with both a result and an error"],
  ])("over ACP: %s", async (attack, message) => {
    expect((await playHostile(attack)).thrown).toMatchObject({ code: "agent/protocol", message });
  });
});

// docs/agents.md, "Failures and errors".
describe("an agent over ACP", () => {
  it("has not said what it says in another session, which is on record", async () => {
    const { events, thrown } = await playHostile("stranger");
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.message")).toEqual([]);
    expect(eventsOf(events, "agent.output")).toEqual([
      {
        type: "agent.output",
        stream: "stdout",
        text: '[left out, as of another session than ours: updates of "other"]\n',
      },
    ]);
  });

  it.each(["leave", "end"])("that ends with a code after its last turn has broken: %s", async (attack) => {
    expect((await playHostile(attack)).thrown).toMatchObject({
      code: "agent/exited",
      message: "agent it ended with code 1 after its last turn",
    });
  });
});

// docs/agents.md, "Failures and errors": a model that could not be reached is an error.
describe("an agent over ACP whose model could not be reached, by its own words", () => {
  const chunk = (text: string, more: object = {}): string =>
    `update ${JSON.stringify({ sessionUpdate: "agent_message_chunk", content: { type: "text", text }, ...more })}`;
  const codex = (told: object): string =>
    `update ${JSON.stringify({ sessionUpdate: "session_info_update", _meta: { codex: told } })}`;
  const status = (type: string): string => codex({ threadStatus: { type } });
  const retry = (error_status: number): string => {
    const told = { type: "system", subtype: "api_retry", attempt: 1, max_retries: 10, error: "because" };
    return `message ${JSON.stringify({ ...told, error_status })}`;
  };
  const answer = chunk("42", { messageId: "m1" });

  function playAcp(preset: AgentPreset, lines: readonly string[]): Promise<PlayedProgram> {
    const args = [join(programs, "acp-agent.ts")];
    const env = { PATH: process.env["PATH"] ?? "" };
    const agent = createAcpAgent(
      { type: "acp", name: "it", preset, command: process.execPath, args, env, permissions: "allow" },
      { version: "0.0.0" },
    );
    return playProgram(agent, { users: [lines.join("\n")] });
  }

  it.each<[AgentPreset, string, readonly string[], string]>([
    [
      "codex",
      "said after it",
      [status("systemError"), chunk("high demand\n\n")],
      "could not act: high demand",
    ],
    [
      "codex",
      "after an answer",
      [answer, status("systemError")],
      "could not act: its model could not be reached",
    ],
    [
      "codex",
      "no further attempt",
      [answer, codex({ error: { message: "no network", additionalDetails: "refused", willRetry: false } })],
      "could not act: no network: refused",
    ],
    [
      "copilot",
      "the last words",
      [
        chunk("42"),
        chunk("Info: Request failed due to a transient API error. Retrying..."),
        chunk("Error: HTTP 401"),
      ],
      "could not act: HTTP 401",
    ],
    [
      "claude-code",
      "a key that is refused",
      [retry(401), answer],
      "is not logged in: a request to the model failed (HTTP 401, because) and is retried: attempt 1 of 10",
    ],
  ])("%s: %s", async (preset, _, lines, message) => {
    expect((await playAcp(preset, lines)).thrown).toMatchObject({ message: `agent it ${message}` });
  });

  it.each<[AgentPreset, readonly string[], readonly string[]]>([
    [
      "codex",
      [
        chunk("Warning: no metadata\n\n"),
        codex({ error: { message: "Reconnecting... 1/5", willRetry: true } }),
        status("systemError"),
        status("active"),
        answer,
      ],
      ["Warning: no metadata\n", "Reconnecting... 1/5\n"],
    ],
    [
      "copilot",
      [chunk("Info: Response was interrupted. Retrying..."), chunk("Error: was said"), chunk("42")],
      ["Info: Response was interrupted. Retrying...\n"],
    ],
    [
      "claude-code",
      [
        retry(500),
        answer,
        chunk("a hook", { _meta: { claudeCode: { kind: "informational", level: "info" } } }),
      ],
      ["a request to the model failed (HTTP 500, because) and is retried: attempt 1 of 10\n", "a hook\n"],
    ],
  ])("of %s, notes are on record and no part of the answer", async (preset, lines, notes) => {
    const { events, thrown } = await playAcp(preset, lines);
    expect(thrown).toBeUndefined();
    expect(eventsOf(events, "agent.message").at(-1)?.text.slice(-2)).toBe("42");
    expect(eventsOf(events, "agent.output").map(({ text }) => text)).toEqual(notes);
  });

  it("begins a session of Claude Code in the mode in which it asks", async () => {
    const { events } = await playAcp("claude-code", ["mode"]);
    expect(eventsOf(events, "agent.message").map(({ text }) => text)).toEqual(["default"]);
    const other = await playAcp("gemini", ["mode"]);
    expect(eventsOf(other.events, "agent.message").map(({ text }) => text)).toEqual(["auto"]);
  });
});

// docs/agents.md, "Failures and errors": a server that it did not reach proves nothing.
describe("a program that was given servers and connected to none of them", () => {
  async function trialWith(actions: readonly (readonly string[])[], variant: Config): Promise<TrialResult> {
    const { trials } = await evaluate(
      {
        servers: { calc: { transport: "mock", mock: { tools: { add: { responses: [{ return: "42" }] } } } } },
        agent: {
          type: "command",
          command: process.execPath,
          args: [join(programs, "command-agent.ts"), JSON.stringify(actions)],
          stdin: true,
        },
        workflows: [{ name: "sum", steps: [{ user: "Add.", expectedState: "42" }] }],
        ...variant,
      },
      { output: false },
    );
    expect(trials).toHaveLength(1);
    return trials[0] as TrialResult;
  }

  it("makes the trial an error, whatever it says", async () => {
    const { verdict, error } = await trialWith([["say", "It is 42."]], {});
    expect([verdict, error?.code, error?.message]).toEqual([
      "error",
      "agent/no-connection",
      'the agent connected to none of its servers: "calc"',
    ]);
  });

  it.each<[string, string[][], Config]>([
    [
      "it connected",
      [
        ["connect", "{mcpConfig}"],
        ["say", "It is 42."],
      ],
      {},
    ],
    ["it was given none", [["say", "It is 42."]], { variants: { bare: { servers: { calc: null } } } }],
  ])("but not where %s", async (_, actions, variant) => {
    expect(await trialWith(actions, variant)).toMatchObject({ verdict: "pass" });
  });
});

function playHostile(attack: string): Promise<PlayedProgram> {
  const args = [join(programs, "hostile-agent.mjs"), "acp", attack, "count=2"];
  const agent = createAcpAgent(
    { type: "acp", name: "it", command: process.execPath, args, env: {}, permissions: "allow" },
    { version: "0.0.0" },
  );
  return playProgram(agent, { users: ["hello"] });
}
