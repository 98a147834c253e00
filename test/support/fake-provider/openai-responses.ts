import {
  argsText,
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

/** OpenAI's Responses API, `POST /v1/responses`, without anything stored. */
export const openaiResponsesWire: FakeWire = {
  name: "openai-responses",
  matches: (path) => path === "/v1/responses",
  read,
  answer,
  error: openaiError,
};

export function openaiError(status: number, message: string): unknown {
  const type = status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
  return { error: { message, type, param: null, code: status === 401 ? "invalid_api_key" : null } };
}

/** Whether the Authorization header carries the key, or any key when none is expected. */
export function hasBearer(header: string | undefined, key: string | undefined): boolean {
  return key === undefined ? /^Bearer \S+$/.test(header ?? "") : header === `Bearer ${key}`;
}

function read({ headers, body, key }: RawRequest): RequestView {
  const view = new ViewBuilder();
  const request = fields(body);
  view.require(hasBearer(headers.authorization, key), "the Authorization header is missing or wrong");
  view.require(request["stream"] !== true, "this fake does not stream");
  const system: string[] = [];
  for (const item of list(request["input"])) readItem(view, item, system);
  return view.build({
    model: text(request["model"]),
    system: system.join("\n"),
    tools: view.tools(list(request["tools"]), (tool) => fields(tool["parameters"]), /^[a-zA-Z0-9_-]{1,64}$/),
  });
}

function readItem(view: ViewBuilder, item: Fields, system: string[]): void {
  switch (item["type"] ?? "message") {
    case "message":
      readMessage(view, item, system);
      break;
    case "function_call":
      view.require(isJson(text(item["arguments"])), "the arguments of a function_call are not JSON");
      view.call(text(item["call_id"]), text(item["name"]));
      break;
    case "function_call_output": {
      const parts = typeof item["output"] === "string" ? [{ text: item["output"] }] : list(item["output"]);
      view.result(text(item["call_id"]), {
        text: parts
          .map((part) => text(part["text"]))
          .join("\n")
          .trim(),
        isError: false,
        images: parts.filter((part) => part["type"] === "input_image").length,
      });
      break;
    }
    case "reasoning":
      break;
    default:
      view.problems.push(
        `an input item of type ${JSON.stringify(item["type"])}, which nothing was stored for`,
      );
  }
}

function readMessage(view: ViewBuilder, item: Fields, system: string[]): void {
  const { role, content } = item;
  const said =
    typeof content === "string"
      ? content
      : list(content)
          .map((part) => text(part["text"]))
          .join("");
  if (role === "user") view.user(said);
  else if (role === "assistant") view.assistant(said);
  else if (role === "system" || role === "developer") system.push(said);
  else view.problems.push(`a message of role ${JSON.stringify(role)}`);
}

function isJson(written: string): boolean {
  try {
    JSON.parse(written);
    return true;
  } catch {
    return false;
  }
}

function answer(reply: FakeAnswer, { body }: RawRequest, number: number): unknown {
  const said =
    reply.finish === "refusal"
      ? { type: "refusal", refusal: reply.text }
      : { type: "output_text", text: reply.text, annotations: [] };
  const message = {
    type: "message",
    id: `msg_${number}`,
    status: "completed",
    role: "assistant",
    content: [said],
  };
  const calls = reply.calls.map((call, index) => ({
    type: "function_call",
    id: `fc_${number}_${index}`,
    call_id: `call_${number}_${index}`,
    name: call.tool,
    arguments: argsText(call),
    status: "completed",
  }));
  const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
  return {
    id: `resp_${number}`,
    object: "response",
    created_at: 1_700_000_000,
    status: reply.finish === "length" ? "incomplete" : "completed",
    error: null,
    incomplete_details: reply.finish === "length" ? { reason: "max_output_tokens" } : null,
    model: fields(body)["model"],
    output: [...(reply.text === undefined ? [] : [message]), ...calls],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cacheRead },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  };
}
