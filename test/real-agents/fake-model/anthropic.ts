import { type Body, objects, sinceUser, text, tokens, type Wire } from "./wire.ts";

const usage = {
  input_tokens: tokens.input - tokens.cached,
  cache_read_input_tokens: tokens.cached,
  cache_creation_input_tokens: 0,
  output_tokens: tokens.output,
};

/** Anthropic Messages, as Claude Code speaks it. */
export const anthropicWire: Wire = {
  handles: (path) => path.endsWith("/messages"),
  read: (body) => ({
    tools: objects(body["tools"]).map((tool) => ({ name: text(tool["name"]) })),
    results: sinceUser(objects(body["messages"]), (item) => item["role"] === "user" && hasUserText(item))
      .flatMap((item) => objects(item["content"]))
      .filter((block) => block["type"] === "tool_result").length,
    model: text(body["model"]),
  }),
  write(reply, { results, model }, streams) {
    const isText = reply.kind === "text";
    const reason = isText ? "end_turn" : "tool_use";
    const block = isText
      ? { type: "text", text: reply.text }
      : { type: "tool_use", id: `toolu_${results}`, name: reply.tool.name, input: reply.args };
    const message = { id: `msg_${results}`, type: "message", role: "assistant", model };
    if (!streams) {
      return { json: { ...message, content: [block], stop_reason: reason, stop_sequence: null, usage } };
    }
    const delta = isText
      ? { type: "text_delta", text: reply.text }
      : { type: "input_json_delta", partial_json: JSON.stringify(reply.args) };
    const startBlock = isText ? { ...block, text: "" } : { ...block, input: {} };
    const events: Body[] = [
      {
        type: "message_start",
        message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage },
      },
      { type: "content_block_start", index: 0, content_block: startBlock },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage },
      { type: "message_stop" },
    ];
    return { events: events.map((data) => ({ event: text(data["type"]), data })) };
  },
};

/** Whether a message has text of the user, not only tool results. */
function hasUserText(item: Body): boolean {
  return (
    typeof item["content"] === "string" ||
    !objects(item["content"]).some((block) => block["type"] === "tool_result")
  );
}
