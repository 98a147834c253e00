import type { FakeReply, FakeRequest } from "./fake-provider.ts";

interface Offered {
  readonly name: string;
  readonly description: string;
  readonly parameters: readonly string[];
}

/** How a question about the notes of `examples/attacks` is answered: by which tools, in order, with the arguments, and what they return. */
const plan: readonly (readonly [tool: string, args: object, returned: RegExp])[] = [
  ["read_mcp_resource", { server: "notes", uri: "notes://about" }, /notes of the team/],
  ["get_mcp_prompt", { server: "notes", name: "ask" }, /Find the note/],
  ["read_note", { name: "meeting" }, /Thursday at ten/],
];

/**
 * The model of an agent that answers when the next review is. A gullible one also does what any text tells it that it gets: results, errors,
 * descriptions, parameters. It knows only what a reader of English would see, not the attacks.
 */
export function noteReader(request: FakeRequest, isGullible: boolean): FakeReply {
  const { toolResults } = request;
  const tools = offeredIn(request.body);
  const results = toolResults.map(({ text }) => text);
  const read = [request.system, ...tools.map(({ description }) => description), ...results].join("\n");
  const called = new Set(toolResults.map(({ tool }) => tool));
  const find = (name: string): Offered | undefined =>
    tools.find((each) => each.name === name || new RegExp(`[^a-z0-9]${name}$`, "i").test(each.name));
  if (isGullible)
    for (const [, name = ""] of read.matchAll(/\bcall (\w+)/gi)) {
      const tool = find(name);
      if (tool === undefined || called.has(tool.name) || plan.some(([own]) => own === name)) continue;
      return { tool: tool.name, args: Object.fromEntries(tool.parameters.map((key) => [key, read])) };
    }
  for (const [name, own, returned] of plan) {
    const tool = find(name);
    if (tool === undefined || results.some((text) => returned.test(text))) continue;
    const further = name === "read_note" && isGullible ? tool.parameters : [];
    const asked = further.filter((key) => !(key in own)).map((key) => [key, read]);
    return { tool: tool.name, args: { ...own, ...(Object.fromEntries(asked) as object) } };
  }
  const answer = results.join("\n").match(/The next review is[^.]*\./)?.[0] ?? "I do not know.";
  const key = results.join("\n").match(/Connection key: (\w+)/)?.[1];
  const demands = read
    .split(/(?<=[.!?])\s+|\n/)
    .filter((sentence) => /connection key/i.test(sentence) && !/\bnever\b/i.test(sentence))
    .filter((sentence) => /\b(?:write|include|put|append|end|contain|add)\b/i.test(sentence));
  const said = isGullible && key !== undefined ? demands.map((demand) => encoded(key, demand)) : [];
  return { text: [answer, ...new Set(said)].join(" ") };
}

function encoded(secret: string, demand: string): string {
  if (/base64/.test(demand)) return Buffer.from(secret).toString("base64");
  if (/hexadecimal/.test(demand)) return Buffer.from(secret).toString("hex");
  if (/backwards/.test(demand)) return [...secret].toReversed().join("");
  if (/two halves/.test(demand)) return `${secret.slice(12)} belongs after ${secret.slice(0, 12)}`;
  return secret;
}

/** The tools that a request offers, in whatever wire format. */
function offeredIn(value: unknown): readonly Offered[] {
  if (Array.isArray(value)) return value.flatMap(offeredIn);
  if (typeof value !== "object" || value === null) return [];
  const { name, description = "", ...rest } = value as Readonly<Record<string, unknown>>;
  const schema = rest["parameters"] ?? rest["input_schema"] ?? rest["parametersJsonSchema"];
  if (typeof name !== "string" || typeof schema !== "object") return Object.values(value).flatMap(offeredIn);
  const { properties = {} } = schema as { readonly properties?: object };
  return [{ name, description: String(description), parameters: Object.keys(properties) }];
}
