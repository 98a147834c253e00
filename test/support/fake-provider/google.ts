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

const modelPath = /^\/v1beta\/models\/([^/:]+):generateContent$/;

/** Google's Gemini API, `POST /v1beta/models/MODEL:generateContent`. */
export const googleWire: FakeWire = {
  name: "google",
  matches: (path) => modelPath.test(path),
  read,
  answer,
  error: (code, message) => ({ error: { code, message, status: statusName(code) } }),
};

function read({ path, headers, body, key }: RawRequest): RequestView {
  const view = new ViewBuilder();
  const request = fields(body);
  const sent = text(headers["x-goog-api-key"]);
  view.require(key === undefined ? sent !== "" : sent === key, "x-goog-api-key is missing or wrong");
  const contents = list(request["contents"]);
  for (const [index, content] of contents.entries()) {
    const same = content["role"] === "model" && contents[index - 1]?.["role"] === "model";
    view.require(!same, `content ${index}: two model contents in a row`);
    readContent(view, content, index);
  }
  const declared = list(request["tools"]).flatMap((tool) => list(tool["functionDeclarations"]));
  return view.build({
    model: modelPath.exec(path)?.[1] ?? "",
    system: partsText(fields(request["systemInstruction"])),
    tools: view.tools(
      declared,
      (tool) => fields(tool["parametersJsonSchema"] ?? tool["parameters"]),
      /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/,
    ),
  });
}

/** Gemini requires exactly one functionResponse for each functionCall, in the content right after it. */
function readContent(view: ViewBuilder, content: Fields, index: number): void {
  const parts = list(content["parts"]);
  view.require(parts.length > 0, `content ${index} has no parts`);
  if (content["role"] === "model") {
    view.assistant(partsText(content));
    for (const [position, part] of parts.entries()) {
      const call = fields(part["functionCall"]);
      if (part["functionCall"] !== undefined) view.call(`${index}.${position}`, text(call["name"]));
    }
    return;
  }
  const responses = parts.filter((part) => part["functionResponse"] !== undefined);
  view.require(
    responses.length === view.openCalls,
    `content ${index}: ${responses.length} functionResponse parts for ${view.openCalls} functionCall parts`,
  );
  const images = parts.filter((part) => part["inlineData"] !== undefined).length;
  for (const part of responses) {
    const response = fields(part["functionResponse"]);
    const { content: said } = fields(response["response"]);
    const nested = list(response["parts"]).length;
    view.result(view.openCall(text(response["name"])) ?? text(response["name"]), {
      text: typeof said === "string" ? said : JSON.stringify(response["response"]),
      isError: false,
      images: images + nested,
    });
  }
  const said = responses.length === 0 ? partsText(content) : "";
  if (said !== "") view.user(said);
}

function partsText(content: Fields): string {
  return list(content["parts"])
    .map((part) => text(part["text"]))
    .join("");
}

function answer(reply: FakeAnswer, { path }: RawRequest, number: number): unknown {
  const said = reply.text === undefined ? [] : [{ text: reply.text }];
  const calls = reply.calls.map((call) => ({ functionCall: { name: call.tool, args: call.args ?? {} } }));
  const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
  return {
    candidates: [
      { content: { role: "model", parts: [...said, ...calls] }, finishReason: finishReason(reply), index: 0 },
    ],
    usageMetadata: {
      promptTokenCount: input,
      candidatesTokenCount: output,
      totalTokenCount: input + output,
      cachedContentTokenCount: cacheRead,
    },
    modelVersion: modelPath.exec(path)?.[1],
    responseId: `response-${number}`,
  };
}

function finishReason(reply: FakeAnswer): string {
  if (reply.finish === "length") return "MAX_TOKENS";
  return reply.finish === "refusal" ? "SAFETY" : "STOP";
}

function statusName(code: number): string {
  const names: Readonly<Record<number, string>> = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
  };
  return names[code] ?? "INTERNAL";
}
