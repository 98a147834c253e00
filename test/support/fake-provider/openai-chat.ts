import { hasBearer, openaiError } from "./openai-responses.ts";
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

/** OpenAI's Chat Completions API, `POST /v1/chat/completions`; local servers speak it too, and need no key. */
export const openaiChatWire: FakeWire = {
  name: "openai-chat",
  matches: (path) => path === "/v1/chat/completions",
  read,
  answer,
  error: openaiError,
};

function read({ headers, body, key }: RawRequest): RequestView {
  const view = new ViewBuilder();
  const request = fields(body);
  const authorized = key === undefined && headers.authorization === undefined;
  view.require(authorized || hasBearer(headers.authorization, key), "the Authorization header is wrong");
  view.require(request["stream"] !== true, "this fake does not stream");
  const system: string[] = [];
  const messages = list(request["messages"]);
  for (const [index, message] of messages.entries()) {
    const same = message["role"] === "assistant" && messages[index - 1]?.["role"] === "assistant";
    view.require(!same, `message ${index}: two of the assistant in a row`);
    readMessage(view, message, system);
  }
  const tools = list(request["tools"]);
  view.require(
    tools.every((tool) => tool["type"] === "function"),
    "a tool is not of type function",
  );
  return view.build({
    model: text(request["model"]),
    system: system.join("\n"),
    tools: view.tools(
      tools.map((tool) => fields(tool["function"])),
      (tool) => fields(tool["parameters"]),
      /^[a-zA-Z0-9_-]{1,64}$/,
    ),
  });
}

function readMessage(view: ViewBuilder, message: Fields, system: string[]): void {
  const { role, content } = message;
  const said =
    typeof content === "string"
      ? content
      : list(content)
          .map((part) => text(part["text"]))
          .join("");
  switch (role) {
    case "system":
    case "developer":
      view.require(view.users.length === 0, "a system message after the user's");
      system.push(said);
      break;
    case "user":
      view.user(said);
      break;
    case "assistant":
      view.require(view.openCalls === 0, "the assistant speaks while calls are unanswered");
      view.assistant(said);
      for (const call of list(message["tool_calls"])) {
        view.require(call["type"] === "function", "a tool call is not of type function");
        view.call(text(call["id"]), text(fields(call["function"])["name"]));
      }
      break;
    case "tool":
      view.result(text(message["tool_call_id"]), { text: said, isError: false, images: 0 });
      break;
    default:
      view.problems.push(`a message of role ${JSON.stringify(role)}`);
  }
}

function answer(reply: FakeAnswer, { body }: RawRequest, number: number): unknown {
  const calls = reply.calls.map((call, index) => ({
    id: `call_${number}_${index}`,
    type: "function",
    function: { name: call.tool, arguments: argsText(call) },
  }));
  const refusal = reply.finish === "refusal";
  const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
  return {
    id: `chatcmpl-${number}`,
    object: "chat.completion",
    created: 1_700_000_000,
    model: fields(body)["model"],
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: refusal ? null : (reply.text ?? null),
          refusal: refusal ? reply.text : null,
          ...(calls.length === 0 ? {} : { tool_calls: calls }),
        },
        logprobs: null,
        finish_reason: finishReason(reply, calls.length),
      },
    ],
    usage: {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cacheRead },
    },
  };
}

function finishReason(reply: FakeAnswer, calls: number): string {
  if (reply.finish === "length") return "length";
  return calls > 0 ? "tool_calls" : "stop";
}
