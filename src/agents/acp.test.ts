import { describe, expect, it } from "vitest";
import type { PermissionPolicy } from "../model/agent.ts";
import type { EventBody } from "../model/event.ts";
import { answerPermission } from "./acp.ts";
import { AcpUpdates, AcpUsage } from "./acp-updates.ts";
import type { AgentPreset } from "./programs/presets.ts";

interface Bench {
  readonly updates: AcpUpdates;
  readonly events: EventBody[];
}

function bench(preset?: AgentPreset): Bench {
  const events: EventBody[] = [];
  const emit = (event: EventBody): number => events.push(event);
  const updates = new AcpUpdates({ emit, preset, servers: ["files"], onRefused: () => undefined });
  updates.begin(0);
  return { updates, events };
}

const chunk = (text: string, messageId?: string): object => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text },
  messageId,
});
const tool = (more: object): Record<string, unknown> => ({
  sessionUpdate: "tool_call",
  toolCallId: "1",
  ...more,
});

describe("AcpUpdates", () => {
  it("joins text to messages: between uses of tools, and by ids", () => {
    const { updates, events } = bench();
    const before = [chunk("a", "1"), chunk("b", "1"), chunk("c", "2")];
    const ignored = [
      { ...chunk("hm"), sessionUpdate: "agent_thought_chunk" },
      { sessionUpdate: "plan", entries: [] },
    ];
    const update = tool({ sessionUpdate: "tool_call_update", status: "in_progress" });
    for (const each of [
      ...before,
      ...ignored,
      tool({ title: "ls" }),
      chunk("d", "2"),
      update,
      chunk("e", "2"),
    ])
      updates.take({ ...each });
    updates.end();
    updates.take({ ...chunk("too late") });
    updates.end();
    const texts = events.map((event) => ("text" in event ? event.text : event.type));
    expect(texts).toEqual(["ab", "c", "agent.tool", "de"]);
  });

  it("joins the updates of a use of a tool, and records only changes", () => {
    const { updates, events } = bench("opencode");
    const call = (more: object): void => updates.take(tool({ sessionUpdate: "tool_call_update", ...more }));
    updates.take(tool({ title: "files_echo", rawInput: {} }));
    call({ status: "in_progress", rawInput: { n: 1 } });
    call({ status: "in_progress", content: [{ type: "content", content: { type: "text", text: "…" } }] });
    call({ status: "completed", title: "Echo", rawOutput: { output: "hi" } });
    const use = {
      type: "agent.tool",
      turn: 0,
      callId: "1",
      name: "files_echo",
      source: "mcp:files",
      tool: "echo",
    };
    expect(events).toEqual([
      { ...use, status: "started", args: {} },
      { ...use, status: "started", args: { n: 1 } },
      { ...use, status: "completed", args: { n: 1 }, result: { output: "hi" } },
    ]);
  });

  it("keeps a tool that the agent only asked about, and records it when it is used", () => {
    const { updates, events } = bench("gemini");
    updates.takeAsked({ toolCallId: "1", title: "echo (files MCP Server)", rawInput: { n: 1 } });
    expect(events).toEqual([]);
    expect(updates.originOf({ toolCallId: "1" })).toEqual({ source: "mcp:files", tool: "echo" });
    expect(updates.titleOf({ toolCallId: "1" })).toBe("echo (files MCP Server)");
    const content = [{ type: "content", content: { type: "text", text: "hi" } }];
    updates.take(tool({ sessionUpdate: "tool_call_update", status: "completed", content }));
    expect(events).toMatchObject([{ status: "completed", args: { n: 1 }, result: "hi", tool: "echo" }]);
  });

  const meta = { toolName: "mcp__files__echo", parentToolUseId: "p" };
  const ofFiles = { source: "mcp:files", tool: "echo" };
  it.each<[AgentPreset, object, object]>([
    [
      "claude-code",
      { title: "Echo it", _meta: { claudeCode: meta } },
      { name: "mcp__files__echo", ...ofFiles, parentCallId: "p" },
    ],
    [
      "codex",
      {
        title: "mcp.files.echo",
        kind: "execute",
        rawInput: { server: "files", tool: "echo", arguments: { n: 1 } },
      },
      { name: "mcp.files.echo", ...ofFiles, args: { n: 1 } },
    ],
    ["copilot", { title: "files-echo" }, { name: "files-echo", ...ofFiles }],
    ["copilot", { name: "files-echo", title: "Echoing" }, { name: "files-echo", source: "mcp:files" }],
    ["gemini", { title: "ls -l" }, { name: "ls -l", source: "builtin" }],
    [
      "claude-code",
      { title: "Load pdf", rawInput: { skill: "pdf" }, _meta: { claudeCode: { toolName: "Skill" } } },
      { name: "Skill", source: "skill", args: { skill: "pdf" } },
    ],
    ["gemini", { title: "ls -l", kind: "execute" }, { name: "execute", source: "builtin" }],
    ["gemini", { title: "activate_skill", kind: "think" }, { name: "activate_skill", source: "skill" }],
    ["opencode", { title: "todo", kind: "other" }, { name: "todo", source: "builtin" }],
    ["copilot", { title: "files-echo", kind: "read" }, { name: "files-echo", tool: "echo" }],
  ])("reads how %s names tools: %j", (preset, call, event) => {
    const { updates, events } = bench(preset);
    updates.take(tool(call));
    expect(events).toMatchObject([event]);
  });

  it.each([
    {},
    { sessionUpdate: "tool_call" },
    { sessionUpdate: 5 },
    { sessionUpdate: "agent_message_chunk" },
  ])("ignores %j", (update) => {
    const { updates, events } = bench();
    updates.take(update);
    updates.end();
    expect(events).toEqual([]);
  });
});

describe("AcpUsage", () => {
  const answer = (inputTokens: number, outputTokens: number, cachedReadTokens?: number): object => ({
    usage: { inputTokens, outputTokens, totalTokens: 0, cachedReadTokens, cachedWriteTokens: null },
  });

  it.each<["turn" | "session", readonly object[], readonly object[]]>([
    [
      "turn",
      [answer(10, 2), answer(10, 2, 4)],
      [
        { inputTokens: 10, outputTokens: 2 },
        { inputTokens: 10, outputTokens: 2, cacheReadTokens: 4 },
      ],
    ],
    [
      "session",
      [answer(10, 2, 0), answer(30, 5, 8)],
      [
        { inputTokens: 10, outputTokens: 2, cacheReadTokens: 0 },
        { inputTokens: 20, outputTokens: 3, cacheReadTokens: 8 },
      ],
    ],
  ])("reads the tokens of a %s", (of, answers, expected) => {
    const usage = new AcpUsage(of);
    expect(answers.map((each) => usage.take(each, undefined))).toEqual(expected);
  });

  it("says so where an agent reports a part of its tokens, also as Gemini CLI does", () => {
    const quota = { token_count: { input_tokens: 7, output_tokens: 3 } };
    const tokens = { inputTokens: 7, outputTokens: 3 };
    const part = new AcpUsage("part");
    expect(part.take({ usage: tokens }, undefined)).toEqual({ ...tokens, isPartial: true });
    expect(part.take({ _meta: { quota } }, undefined)).toEqual({ ...tokens, isPartial: true });
    expect(new AcpUsage("turn").take({ _meta: { quota } }, undefined)).toEqual(tokens);
  });

  it("counts cached tokens as input, however they are reported", () => {
    const tokens = { inputTokens: 90, outputTokens: 20, cachedReadTokens: 10, cachedWriteTokens: 5 };
    const inputOf = (totalTokens: number): unknown =>
      new AcpUsage("turn").take({ usage: { ...tokens, totalTokens } }, undefined)?.inputTokens;
    expect([inputOf(125), inputOf(110), inputOf(0)]).toEqual([105, 90, 90]);
  });

  it.each([
    {},
    { usage: null },
    { usage: { inputTokens: 3 } },
    { usage: { inputTokens: -1, outputTokens: 1 } },
  ])("finds nothing in %j", (reported) =>
    expect(new AcpUsage("turn").take(reported, undefined)).toBeUndefined(),
  );
});

describe("answerPermission", () => {
  type Kind = "allow_once" | "allow_always" | "reject_once" | "reject_always";
  const all: Kind[] = ["reject_always", "allow_always", "allow_once", "reject_once"];

  it.each<[PermissionPolicy, boolean, readonly Kind[], string, string | undefined]>([
    ["allow", false, all, "allowed", "allow_once"],
    ["allow", false, ["reject_once", "allow_always"], "allowed", "allow_always"],
    ["allow", true, ["reject_once"], "cancelled", undefined],
    ["allow-mcp", true, all, "allowed", "allow_once"],
    ["allow-mcp", false, all, "denied", "reject_once"],
    ["deny", true, all, "denied", "reject_once"],
    ["deny", true, ["allow_once", "reject_always"], "cancelled", undefined],
    ["allow", true, [], "cancelled", undefined],
  ])("%s (tool of a server: %s), offered %j, is %s by %s", (policy, isMcp, offered, decision, optionId) => {
    const options = offered.map((kind) => ({ optionId: kind, kind }));
    const chosen = optionId === undefined ? {} : { optionId };
    expect(answerPermission(policy, options, isMcp)).toEqual({ decision, ...chosen });
  });
});
