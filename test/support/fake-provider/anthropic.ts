import {
  type FakeAnswer,
  type Fields,
  fields,
  type FakeWire,
  list,
  type RawRequest,
  type RequestView,
  text,
  ViewBuilder,
} from "./wire.ts";

const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Anthropic's Messages API, `POST /v1/messages`. */
export const anthropicWire: FakeWire = {
  name: "anthropic",
  matches: (path) => path === "/v1/messages",
  read,
  answer,
  error: (status, message) => ({
    type: "error",
    error: { type: errorType(status), message },
    request_id: "req_1",
  }),
};

function read({ headers, body, key }: RawRequest): RequestView {
  const view = new ViewBuilder();
  const request = fields(body);
  const sent = text(headers["x-api-key"]);
  view.require(key === undefined ? sent !== "" : sent === key, "x-api-key is missing or wrong");
  view.require(text(headers["anthropic-version"]) !== "", "anthropic-version is missing");
  view.require(Number(request["max_tokens"]) > 0, "max_tokens is required");
  view.require(request["stream"] !== true, "this fake does not stream");
  const messages = list(request["messages"]);
  view.require(messages[0]?.["role"] === "user", "the first message is not the user's");
  for (const [index, message] of messages.entries()) {
    view.require(
      message["role"] !== messages[index - 1]?.["role"],
      `message ${index}: the roles do not alternate`,
    );
    readMessage(view, message);
  }
  const system = request["system"];
  return view.build({
    model: text(request["model"]),
    system:
      typeof system === "string"
        ? system
        : list(system)
            .map((block) => text(block["text"]))
            .join("\n"),
    tools: view.tools(
      list(request["tools"]),
      (tool) => fields(tool["input_schema"]),
      /^[a-zA-Z0-9_-]{1,128}$/,
    ),
  });
}

function readMessage(view: ViewBuilder, message: Fields): void {
  const { role, content } = message;
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : list(content);
  view.require(blocks.length > 0, "a message without content");
  for (const block of blocks) readBlock(view, role, block);
}

function readBlock(view: ViewBuilder, role: unknown, block: Fields): void {
  switch (block["type"]) {
    case "text":
      view.require(text(block["text"]).trim() !== "", "text content blocks must be non-empty");
      if (role === "user") view.user(text(block["text"]));
      else view.assistant(text(block["text"]));
      break;
    case "tool_use":
      view.require(role === "assistant", "tool_use in a message of the user");
      view.call(text(block["id"]), text(block["name"]));
      break;
    case "tool_result": {
      view.require(role === "user", "tool_result in a message of the assistant");
      const content = block["content"];
      const parts = typeof content === "string" ? [{ type: "text", text: content }] : list(content);
      const images = parts.filter((part) => part["type"] === "image");
      for (const image of images) {
        const mediaType = text(fields(image["source"])["media_type"]);
        view.require(imageTypes.includes(mediaType), `image type ${mediaType} is not supported`);
      }
      view.result(text(block["tool_use_id"]), {
        text: parts
          .map((part) => text(part["text"]))
          .join("\n")
          .trim(),
        isError: block["is_error"] === true,
        images: images.length,
      });
      break;
    }
    case "image": {
      const mediaType = text(fields(block["source"])["media_type"]);
      view.require(imageTypes.includes(mediaType), `image type ${mediaType} is not supported`);
      break;
    }
    default:
      view.problems.push(`a content block of type ${JSON.stringify(block["type"])}`);
  }
}

function answer(reply: FakeAnswer, { body }: RawRequest, number: number): unknown {
  const request = fields(body);
  const forced = fields(request["tool_choice"]);
  const asTool = forced["type"] === "tool" && reply.text !== undefined && reply.calls.length === 0;
  const calls = asTool
    ? [{ tool: text(forced["name"]), args: JSON.parse(reply.text) as unknown }]
    : reply.calls;
  const said = asTool || reply.text === undefined ? [] : [{ type: "text", text: reply.text }];
  const uses = calls.map((call, index) => ({
    type: "tool_use",
    id: `toolu_${number}_${index}`,
    name: call.tool,
    input: call.args ?? {},
  }));
  const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
  return {
    id: `msg_${number}`,
    type: "message",
    role: "assistant",
    model: request["model"],
    content: [...said, ...uses],
    stop_reason: stopReason(reply, uses.length),
    stop_sequence: null,
    usage: {
      input_tokens: input - cacheRead,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cacheRead,
      output_tokens: output,
    },
  };
}

function stopReason(reply: FakeAnswer, calls: number): string {
  if (reply.finish === "length") return "max_tokens";
  if (reply.finish === "refusal") return "refusal";
  return calls > 0 ? "tool_use" : "end_turn";
}

function errorType(status: number): string {
  const types: Readonly<Record<number, string>> = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
  };
  return types[status] ?? "api_error";
}
