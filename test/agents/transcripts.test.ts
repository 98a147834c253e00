import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { conversationOf } from "../../src/agents/transcripts/conversation.ts";
import { readTranscript } from "../../src/agents/transcripts/read-transcript.ts";
import type { EventBody } from "../../src/model/event.ts";
import { folderOf } from "../support/cli.ts";
import { keepIn } from "../support/records.ts";

const never = new AbortController().signal;

interface Read {
  /** What happened, in short. */
  readonly story: readonly string[];
  readonly remarks: readonly string[];
  readonly failure: string | undefined;
  readonly events: readonly EventBody[];
}

/** Reads the first of some files as a transcript. */
async function read(files: Readonly<Record<string, string>>): Promise<Read> {
  using folder = folderOf(files);
  const [name = ""] = Object.keys(files);
  const [transcript] = (await readTranscript(join(folder.path, name), never)).sessions;
  if (transcript === undefined) throw new Error("no transcript");
  expect(transcript.damage).toBeUndefined();
  const { events, remarks, failure } = conversationOf(transcript, []);
  const kept: EventBody[] = [];
  const keep = keepIn(kept);
  for (const { event } of events) keep(event);
  expect(events.map(({ at }) => at)).toEqual(events.map(({ at }) => at).toSorted((a, b) => a - b));
  return { story: kept.flatMap(tell), remarks, failure: failure?.message, events: kept };
}

function tell(event: EventBody): readonly string[] {
  switch (event.type) {
    case "turn.started":
      return [`user: ${event.user}`];
    case "agent.message":
      return [`agent: ${event.text}`];
    case "agent.tool":
      return [
        `${event.source} ${event.tool ?? event.name} ${event.status}${event.parentCallId === undefined ? "" : ` in ${event.parentCallId}`}`,
      ];
    case "turn.finished":
      return [`end: ${event.reason}`];
    default:
      return [];
  }
}

function lines(...objects: readonly object[]): string {
  return objects.map((object) => `${JSON.stringify(object)}\n`).join("");
}

describe("Claude Code", () => {
  let second = 0;
  const line = (type: string, rest: object): object => ({
    type,
    uuid: `u${second}`,
    sessionId: "s1",
    version: "2.1.0",
    timestamp: new Date(Date.UTC(2026, 0, 1) + 1000 * second++).toISOString(),
    ...rest,
  });
  const user = (content: unknown, rest: object = {}): object =>
    line("user", { message: { role: "user", content }, ...rest });
  const assistant = (id: string, block: object, stop: string | null, rest: object = {}): object =>
    line("assistant", {
      message: {
        id,
        role: "assistant",
        model: "m",
        content: [block],
        stop_reason: stop,
        usage: { input_tokens: 10, output_tokens: 5 },
      },
      ...rest,
    });
  const use = (id: string, name: string): object => ({ type: "tool_use", id, name, input: { a: 1 } });
  const result = (id: string): object => ({ type: "tool_result", tool_use_id: id, content: "ok" });
  const say = (text: string): object => ({ type: "text", text });

  test("parallel calls, of which the last has no result, a message of several lines, and a turn that was interrupted", async () => {
    const { story, remarks, events } = await read({
      "s1.jsonl": lines(
        user("Do it."),
        assistant("m1", say("I try."), null),
        assistant("m1", use("t1", "mcp__a-b__c__d"), null),
        assistant("m1", use("t2", "mcp__a-b__e"), "tool_use"),
        user([result("t2")]),
        user([say("[Request interrupted by user for tool use]")]),
        user([say("Look at this."), { type: "image", source: { data: "xx" } }]),
        assistant("m2", say("Done."), "end_turn"),
      ),
    });
    expect(story).toEqual([
      "user: Do it.",
      "agent: I try.",
      "mcp:a-b c__d started",
      "mcp:a-b e started",
      "mcp:a-b e completed",
      "end: cancelled",
      "user: Look at this.\n[image]",
      "agent: Done.",
      "end: done",
    ]);
    expect(remarks).toEqual([
      "turn 1 ended early: the user, or the program, stopped it",
      "1 use of tools without a result, which count as failed",
    ]);
    expect(events.filter(({ type }) => type === "agent.usage")).toMatchObject([
      { usage: { inputTokens: 20, outputTokens: 10, isPartial: true } },
    ]);
  });

  test("commands, what the program says in the user's place, a compacted conversation and a side chain in the same file", async () => {
    const side = { isSidechain: true };
    const { story, remarks } = await read({
      "s1.jsonl": lines(
        user("<command-name>/model</command-name><command-args></command-args>"),
        user("<local-command-stdout>Set model</local-command-stdout>"),
        user("<command-name>/review</command-name><command-args>now</command-args>"),
        user([say("Review the code.")], { isMeta: true }),
        assistant("m1", use("t1", "Task"), "tool_use"),
        user("Look for it.", side),
        assistant("m2", use("t2", "mcp__a__find"), "tool_use", side),
        user([result("t2")], side),
        assistant("m3", say("Found."), "end_turn", side),
        user([result("t1")]),
        user("This session is being continued …", { isCompactSummary: true }),
        user("<task-notification>finished</task-notification>"),
        assistant("m4", say("Reviewed."), "end_turn"),
        line("new-kind", {}),
      ),
    });
    expect(story).toEqual([
      "user: /review now",
      "builtin Task started",
      "mcp:a find started in t1",
      "mcp:a find completed in t1",
      "builtin Task completed",
      "agent: Reviewed.",
      "end: done",
    ]);
    expect(remarks).toEqual([
      "the program compacted the conversation, so that the model did not see all of what is on record before",
      "1 line of types that mcpvals does not know: new-kind; a newer version of the program may have written them",
    ]);
  });

  test("a model that could not be reached, at last and in between", async () => {
    const error = (): object =>
      assistant("e", say("API Error: 401"), "stop_sequence", {
        isApiErrorMessage: true,
      });
    const failed = await read({ "s1.jsonl": lines(user("Do it."), error()) });
    expect(failed.failure).toBe("agent claude-code could not act: API Error: 401");
    const recovered = await read({
      "s1.jsonl": lines(user("Do it."), error(), user("Again."), assistant("m", say("Done."), "end_turn")),
    });
    expect([recovered.failure, recovered.remarks]).toEqual([undefined, ["turn 1 failed: API Error: 401"]]);
    expect(recovered.story).toEqual(["user: Do it.", "user: Again.", "agent: Done.", "end: done"]);
  });

  test("subagents with files beside that of the session", async () => {
    const side = { isSidechain: true, agentId: "a1" };
    const session = lines(
      user("Do it."),
      assistant("m1", use("t1", "Task"), "tool_use"),
      user([result("t1")]),
      assistant("m2", say("Done."), "end_turn"),
    );
    const part = lines(user("Look.", side), assistant("m3", use("t2", "mcp__a__find"), "tool_use", side));
    const { story } = await read({
      "s1.jsonl": session,
      "agent-a1.jsonl": part,
      "agent-a2.jsonl": part.replaceAll('"s1"', '"s2"'),
    });
    expect(story.filter((each) => each.includes("find"))).toEqual(["mcp:a find started in subagent"]);
    const failing = lines(
      user("Look.", side),
      assistant("e", say("API Error: 401"), null, { ...side, isApiErrorMessage: true }),
      user([say("[Request interrupted by user]")], side),
    );
    const failed = await read({ "s1.jsonl": session, "s1/subagents/agent-a1.jsonl": failing });
    expect([failed.failure, failed.story.at(-1), failed.remarks]).toEqual([undefined, "end: done", []]);
    const alone = await read({ "s1.jsonl": session });
    expect(alone.remarks).toEqual(["it has nothing of what 1 subagent did"]);
  });
});

describe("Codex", () => {
  const at = "2026-01-01T00:00:00.000Z";
  const meta = { timestamp: at, type: "session_meta", payload: { id: "s", cli_version: "0.40.0" } };
  const event = (payload: object): object => ({ timestamp: at, type: "event_msg", payload });
  const item = (payload: object): object => ({ timestamp: at, type: "response_item", payload });
  const tokens = (input: number): object =>
    event({
      type: "token_count",
      info: {
        total_token_usage: {
          input_tokens: input,
          cached_input_tokens: 0,
          output_tokens: 1,
          total_tokens: input,
        },
      },
    });

  test("the events of older versions, a result that only the model got, and a turn that was aborted", async () => {
    const { story, remarks, events } = await read({
      "rollout.jsonl": lines(
        meta,
        item({
          type: "message",
          role: "user",
          content: [{ type: "input_text", text: "<environment_context/>" }],
        }),
        event({ type: "user_message", message: "Do it." }),
        item({ type: "function_call", name: "srv__find", arguments: '{"a":1}', call_id: "c1" }),
        event({
          type: "mcp_tool_call_end",
          call_id: "c1",
          invocation: { server: "srv", tool: "find", arguments: { a: 1 } },
          duration: { secs: 1, nanos: 500_000_000 },
          result: { Err: "no" },
        }),
        item({ type: "function_call_output", call_id: "c1", output: "no" }),
        tokens(10),
        tokens(10),
        item({ type: "custom_tool_call", name: "apply_patch", input: "*** patch", call_id: "c2" }),
        item({ type: "custom_tool_call_output", call_id: "c2", output: "done" }),
        tokens(25),
        item({ type: "function_call", name: "find", namespace: "mcp__srv", arguments: "{}", call_id: "c3" }),
        item({ type: "function_call", name: "shell", arguments: "{}", call_id: "c4" }),
        item({ type: "function_call_output", call_id: "c3", output: "aborted by user after 6.1s" }),
        item({ type: "function_call_output", call_id: "c4", output: "aborted by user after 6.1s" }),
        event({ type: "turn_aborted", reason: "interrupted" }),
        event({ type: "user_message", message: "Go on." }),
        event({ type: "error", message: "no quota" }),
      ),
    });
    expect(story).toEqual([
      "user: Do it.",
      "builtin srv__find started",
      "mcp:srv find failed",
      "builtin apply_patch started",
      "builtin apply_patch completed",
      "mcp:srv find started",
      "builtin shell started",
      "mcp:srv find failed",
      "builtin shell failed",
      "end: cancelled",
      "user: Go on.",
    ]);
    expect(remarks).toEqual([
      "turn 1 ended early: the user, or the program, stopped it",
      "turn 2 failed: no quota",
    ]);
    expect(events).toContainEqual(
      expect.objectContaining({ status: "failed", durationMs: 1500, result: "no" }),
    );
    const used = events.flatMap((each) => (each.type === "agent.usage" ? [each.usage.inputTokens] : []));
    expect(used).toEqual([10, 15]);
  });

  test("of two ends of one use that contradict each other, both are on record; the same end twice is one", async () => {
    const end = (tool: string, text: string): object =>
      event({
        type: "mcp_tool_call_end",
        call_id: "c1",
        invocation: { server: "srv", tool, arguments: {} },
        result: { Ok: { content: [{ type: "text", text }] } },
      });
    const played = (...ends: readonly object[]): Promise<Read> =>
      read({
        "rollout.jsonl": lines(
          meta,
          event({ type: "user_message", message: "Do it." }),
          item({ type: "function_call", name: "add", namespace: "mcp__srv", arguments: "{}", call_id: "c1" }),
          ...ends,
          event({ type: "task_complete" }),
        ),
      });
    const twice = await played(end("add", "1"), end("add", "1"));
    expect(twice.remarks).toEqual([]);
    const idsOf = ({ events }: Read): readonly string[] =>
      events.flatMap((each) => (each.type === "agent.tool" ? [each.callId] : []));
    expect(new Set(idsOf(twice)).size).toBe(1);
    for (const other of [end("divide", "1"), end("add", "2")]) {
      const { story, remarks, ...rest } = await played(end("add", "1"), other);
      expect(story.slice(1, 3)).toEqual(["mcp:srv add started", "mcp:srv add completed"]);
      expect(new Set(idsOf({ story, remarks, ...rest })).size).toBe(2);
      expect(remarks).toEqual([
        "it contradicts itself about what a tool did: each of the two is on record as a use of its own",
      ]);
    }
  });
});

describe("Gemini CLI", () => {
  test("the document of an older version, whose tools have no shown names, and one that was taken back", async () => {
    const message = (id: string, type: string, rest: object): object => ({
      id,
      timestamp: "2026-01-01T00:00:00.000Z",
      type,
      ...rest,
    });
    const call = { id: "c", name: "run_shell_command", args: { command: "ls" }, status: "cancelled" };
    const document = {
      sessionId: "s",
      projectHash: "h",
      startTime: "2026-01-01T00:00:00.000Z",
      messages: [
        message("1", "user", { content: "Do it." }),
        message("2", "gemini", { content: "I try.", toolCalls: [call], model: "m", tokens: null }),
        message("3", "info", { content: "Request cancelled." }),
      ],
    };
    for (const text of [JSON.stringify(document, undefined, 2), `${JSON.stringify(document)}\n`]) {
      const { story } = await read({ "session.json": text });
      expect(story).toEqual([
        "user: Do it.",
        "agent: I try.",
        "builtin run_shell_command started",
        "builtin run_shell_command failed",
        "end: cancelled",
      ]);
    }
    const { story, remarks } = await read({
      "session.jsonl": lines(
        { sessionId: "s", projectHash: "h", kind: "main" },
        message("1", "user", { content: [{ text: "Do it." }] }),
        message("2", "gemini", { content: "Done." }),
        { $rewindTo: "1" },
        message("3", "user", { content: [{ text: "Do that." }] }),
        { $set: { messages: [message("4", "user", { content: "<state_snapshot>…" })] } },
        message("5", "gemini", { content: "Done, too." }),
      ),
    });
    expect(story).toEqual([
      "user: Do it.",
      "agent: Done.",
      "end: done",
      "user: Do that.",
      "agent: Done, too.",
      "end: done",
    ]);
    expect(remarks).toEqual([
      "the user took turns back, which are on record all the same",
      "the program compacted the conversation, so that the model did not see all of what is on record before",
    ]);
  });
});

test("a message of Gemini CLI that is written again with another end of a call", async () => {
  const message = (status: string, output: string): object => ({
    id: "2",
    timestamp: "2026-01-01T00:00:00.000Z",
    type: "gemini",
    content: "I try.",
    toolCalls: [
      { id: "c", name: "ls", args: {}, status, result: [{ functionResponse: { response: { output } } }] },
    ],
  });
  const played = (...messages: readonly object[]): Promise<Read> =>
    read({ "session.jsonl": lines({ sessionId: "s", projectHash: "h", kind: "main" }, ...messages) });
  const changed = await played(message("executing", ""), message("success", "a"), message("success", "a"));
  expect(changed.story.slice(1)).toEqual(["agent: I try.", "builtin ls started", "builtin ls completed"]);
  expect(changed.remarks.join()).not.toContain("contradicts");
  const { story, remarks } = await played(message("success", "a"), message("error", "b"));
  expect(story.slice(2)).toEqual([
    "builtin ls started",
    "builtin ls completed",
    "builtin ls started",
    "builtin ls failed",
  ]);
  expect(remarks.join()).toContain("it contradicts itself about what a tool did");
});

describe("opencode", () => {
  test("a call that has not ended, an aborted answer, and the words of the program in the user's place", async () => {
    const of = (role: string, parts: readonly object[], rest: object = {}): object => ({
      info: { role, time: { created: 1 }, ...rest },
      parts,
    });
    const document = {
      info: { id: "ses_1", version: "1.0.0", time: { created: 1 } },
      messages: [
        of("user", [
          { type: "text", text: "Do it." },
          { type: "text", text: "Called the Read tool", synthetic: true },
        ]),
        of(
          "assistant",
          [{ type: "tool", tool: "bash", callID: "c", state: { status: "running", input: {} } }],
          {
            modelID: "m",
            error: { name: "MessageAbortedError", data: { message: "stop" } },
          },
        ),
        of("assistant", [{ type: "text", text: "A summary." }], { summary: true }),
      ],
    };
    const { story, remarks } = await read({ "session.json": JSON.stringify(document, undefined, 2) });
    expect(story).toEqual(["user: Do it.", "builtin bash started", "end: cancelled"]);
    expect(remarks).toEqual([
      "the program compacted the conversation, so that the model did not see all of what is on record before",
      "turn 1 ended early: the user, or the program, stopped it",
      "1 use of tools without a result, which count as failed",
    ]);
  });
});
