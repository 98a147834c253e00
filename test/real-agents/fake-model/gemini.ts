import { type Body, objects, sinceUser, text, tokens, type Wire } from "./wire.ts";

const usageMetadata = {
  promptTokenCount: tokens.input,
  candidatesTokenCount: tokens.output,
  totalTokenCount: tokens.input + tokens.output,
  cachedContentTokenCount: tokens.cached,
};

/** What Gemini CLI wants when it asks which model to take, or who speaks next. */
const routing = {
  reasoning: "x",
  next_speaker: "user",
  model_choice: "flash",
  complexity_reasoning: "",
  complexity_score: 1,
};

/** Gemini's generateContent, as Gemini CLI speaks it. */
export const geminiWire: Wire = {
  handles: (path) => /:(?:stream)?generateContent$/i.test(path),
  read: (body) => ({
    tools: objects(body["tools"]).flatMap((tool) =>
      objects(tool["functionDeclarations"]).map((each) => ({ name: text(each["name"]) })),
    ),
    results: sinceUser(objects(body["contents"]), (item) => item["role"] === "user" && has(item, "text"))
      .flatMap((item) => objects(item["parts"]))
      .filter((part) => part["functionResponse"] !== undefined).length,
    model: wantsJson(body) ? "router" : "model",
  }),
  write(reply, { model }, streams) {
    const said =
      model === "router" ? JSON.stringify(routing) : reply.kind === "text" ? reply.text : undefined;
    const part =
      said === undefined && reply.kind === "call"
        ? { functionCall: { name: reply.tool.name, args: reply.args } }
        : { text: said };
    const candidates = [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }];
    const data = { candidates, usageMetadata };
    return streams ? { events: [{ data }] } : { json: data };
  },
};

function has(item: Body, key: string): boolean {
  return objects(item["parts"]).some((part) => part[key] !== undefined);
}

function wantsJson(body: Body): boolean {
  const config = body["generationConfig"] as Body | undefined;
  return config?.["responseMimeType"] === "application/json" || config?.["responseJsonSchema"] !== undefined;
}
