import { type Body, objects, sinceUser, text, tokens, type Wire } from "./wire.ts";

const usage = {
  prompt_tokens: tokens.input,
  completion_tokens: tokens.output,
  total_tokens: tokens.input + tokens.output,
  prompt_tokens_details: { cached_tokens: tokens.cached },
};

/** OpenAI Chat Completions, as Copilot and opencode speak it. */
export const chatWire: Wire = {
  handles: (path) => path.endsWith("/chat/completions"),
  read: (body) => ({
    tools: objects(body["tools"]).map((tool) => ({
      name: text((tool["function"] as Body | undefined)?.["name"]),
    })),
    results: sinceUser(objects(body["messages"]), (item) => item["role"] === "user").filter(
      (item) => item["role"] === "tool",
    ).length,
    model: text(body["model"]),
  }),
  write(reply, { results, model }, streams) {
    const base = { id: "chat_1", created: 1, model };
    const reason = reply.kind === "text" ? "stop" : "tool_calls";
    const said =
      reply.kind === "text"
        ? { role: "assistant", content: reply.text }
        : {
            role: "assistant",
            content: null,
            tool_calls: [
              {
                index: 0,
                id: `call_${results}`,
                type: "function",
                function: { name: reply.tool.name, arguments: JSON.stringify(reply.args) },
              },
            ],
          };
    if (!streams) {
      const choices = [{ index: 0, message: said, finish_reason: reason }];
      return { json: { ...base, object: "chat.completion", choices, usage } };
    }
    const chunk = (choices: readonly object[], more: object = {}): { readonly data: unknown } => ({
      data: { ...base, object: "chat.completion.chunk", choices, ...more },
    });
    return {
      done: true,
      events: [
        chunk([{ index: 0, delta: said, finish_reason: null }]),
        chunk([{ index: 0, delta: {}, finish_reason: reason }]),
        chunk([], { usage }),
      ],
    };
  },
};
