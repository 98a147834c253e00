import { describe, expect, it } from "vitest";
import type { AgentPreset } from "../../core/formats/model.ts";
import type { EventBody } from "../../core/trace/events.ts";
import { AcpUpdates } from "./acp-updates.ts";

function bench(preset?: AgentPreset): { readonly updates: AcpUpdates; readonly events: EventBody[] } {
  const events: EventBody[] = [];
  const emit = (event: EventBody): number => events.push(event);
  const onRefused = (): void => undefined;
  const options = { emit, servers: ["files"], onRefused };
  const updates = new AcpUpdates({ ...options, ...(preset === undefined ? {} : { preset }) });
  updates.begin(0);
  return { updates, events };
}

const chunk = (text: string, messageId?: string): object => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text },
  messageId,
});

describe("AcpUpdates", () => {
  it("joins words to messages: from tool to tool, and by their ids", () => {
    const { updates, events } = bench();
    for (const [text, id] of [
      ["a", "1"],
      ["b", "1"],
      ["c", "2"],
    ] as const)
      updates.take({ ...chunk(text, id) });
    updates.take({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "hm" } });
    updates.take({ sessionUpdate: "plan", entries: [] });
    updates.take({ sessionUpdate: "tool_call", toolCallId: "1", title: "ls" });
    updates.take({ ...chunk("d", "2") });
    updates.take({ sessionUpdate: "tool_call_update", toolCallId: "1", status: "in_progress" });
    updates.take({ ...chunk("e", "2") });
    updates.end();
    updates.take({ ...chunk("too late") });
    updates.end();
    expect(events.map((event) => ("text" in event ? event.text : event.type))).toEqual([
      "ab",
      "c",
      "agent.tool",
      "de",
    ]);
  });

  it("joins what is told of a use of a tool, and tells only news", () => {
    const { updates, events } = bench("opencode");
    const call = (more: object): void =>
      updates.take({ sessionUpdate: "tool_call_update", toolCallId: "1", ...more });
    updates.take({ sessionUpdate: "tool_call", toolCallId: "1", title: "files_echo", rawInput: {} });
    call({ status: "in_progress", rawInput: { n: 1 } });
    call({ status: "in_progress", content: [{ type: "content", content: { type: "text", text: "…" } }] });
    call({ status: "completed", title: "Echo", rawOutput: { output: "hi" } });
    const told = {
      type: "agent.tool",
      turn: 0,
      callId: "1",
      name: "files_echo",
      source: "mcp:files",
      tool: "echo",
    };
    expect(events).toEqual([
      { ...told, status: "started", args: {} },
      { ...told, status: "started", args: { n: 1 } },
      { ...told, status: "completed", args: { n: 1 }, result: { output: "hi" } },
    ]);
  });

  it("remembers a tool that the agent only asked about, and tells of it when it is used", () => {
    const { updates, events } = bench("gemini");
    const asked = { toolCallId: "1", title: "echo (files MCP Server)", rawInput: { n: 1 } };
    updates.takeAsked(asked);
    expect(events).toEqual([]);
    expect(updates.originOf({ toolCallId: "1" })).toEqual({ source: "mcp:files", tool: "echo" });
    expect(updates.titleOf({ toolCallId: "1" })).toBe("echo (files MCP Server)");
    const content = [{ type: "content", content: { type: "text", text: "hi" } }];
    updates.take({ sessionUpdate: "tool_call_update", toolCallId: "1", status: "completed", content });
    expect(events).toMatchObject([{ status: "completed", args: { n: 1 }, result: "hi", tool: "echo" }]);
  });

  it.each<[AgentPreset, object, object]>([
    [
      "claude-code",
      { title: "Echo it", _meta: { claudeCode: { toolName: "mcp__files__echo", parentToolUseId: "p" } } },
      { name: "mcp__files__echo", source: "mcp:files", tool: "echo", parentCallId: "p" },
    ],
    [
      "codex",
      {
        title: "mcp.files.echo",
        kind: "execute",
        rawInput: { server: "files", tool: "echo", arguments: { n: 1 } },
      },
      { name: "mcp.files.echo", source: "mcp:files", tool: "echo", args: { n: 1 } },
    ],
    ["copilot", { title: "files-echo" }, { name: "files-echo", source: "mcp:files", tool: "echo" }],
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
  ])("knows how %s names the tools of servers: %j", (preset, call, told) => {
    const { updates, events } = bench(preset);
    updates.take({ sessionUpdate: "tool_call", toolCallId: "1", ...call });
    expect(events).toMatchObject([told]);
  });

  it.each([
    {},
    { sessionUpdate: "tool_call" },
    { sessionUpdate: 5 },
    { sessionUpdate: "agent_message_chunk" },
  ])("makes nothing of %j", (update) => {
    const { updates, events } = bench();
    updates.take(update);
    updates.end();
    expect(events).toEqual([]);
  });
});
