import { type Body, objects, sinceUser, text, tokens, type Wire } from "./wire.ts";

const usage = {
  input_tokens: tokens.input,
  input_tokens_details: { cached_tokens: tokens.cached },
  output_tokens: tokens.output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: tokens.input + tokens.output,
};

/** OpenAI Responses, as Codex speaks it. */
export const responsesWire: Wire = {
  handles: (path) => path.endsWith("/responses"),
  read: (body) => ({
    tools: objects(body["tools"]).flatMap((tool) =>
      tool["type"] === "namespace"
        ? objects(tool["tools"]).map((inner) => ({
            name: text(inner["name"]),
            namespace: text(tool["name"]),
          }))
        : [{ name: text(tool["name"]) }],
    ),
    results: sinceUser(objects(body["input"]), (item) => item["role"] === "user").filter((item) =>
      text(item["type"]).endsWith("_output"),
    ).length,
    model: text(body["model"]),
  }),
  write(reply, request, streams) {
    const item = reply.kind === "text" ? message(reply.text) : call(reply, request.results);
    const response = { id: "resp_1", object: "response", status: "completed", output: [item], usage };
    if (!streams) return { json: response };
    const added = { type: "response.output_item.added", output_index: 0, item };
    const delta = { item_id: "msg_1", output_index: 0, content_index: 0 };
    const events: Body[] = [
      { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
      added,
      ...(reply.kind === "text" ? [{ type: "response.output_text.delta", ...delta, delta: reply.text }] : []),
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response },
    ];
    return {
      events: events.map((data, index) => ({
        event: text(data["type"]),
        data: { ...data, sequence_number: index },
      })),
    };
  },
};

function message(said: string): Body {
  return {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text: said, annotations: [] }],
  };
}

function call(
  {
    tool,
    args,
  }: { readonly tool: { readonly name: string; readonly namespace?: string }; readonly args: object },
  index: number,
): Body {
  return {
    type: "function_call",
    id: `fc_${index}`,
    call_id: `call_${index}`,
    status: "completed",
    name: tool.name,
    ...(tool.namespace === undefined ? {} : { namespace: tool.namespace }),
    arguments: JSON.stringify(args),
  };
}
