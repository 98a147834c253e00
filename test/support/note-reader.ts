/** A body of a request to a model, in whatever wire format; a part of one. */
type Body = Readonly<Record<string, unknown>>;

/** A text, or a call of a tool. */
export type NoteAnswer =
  | { readonly text: string; readonly tool?: never }
  | { readonly text?: never; readonly tool: string; readonly namespace?: string; readonly args: object };

interface Offered {
  readonly name: string;
  readonly namespace?: string;
  readonly parameters: readonly string[];
}

/** What a request to a model says. */
interface Read {
  readonly tools: Offered[];
  /** The names of the tools that were called, in order. */
  readonly called: string[];
  readonly texts: string[];
}

/** How the question is answered: by which tools, in order, with what arguments, and what they return. */
const plan: readonly (readonly [tool: RegExp, args: Readonly<Record<string, string>>, returned: RegExp])[] = [
  [/^read_?mcp_?resource(?:_?tool)?$/i, { server: "notes", uri: "notes://about" }, /notes of the team/],
  [/^get_mcp_prompt$/, { server: "notes", name: "ask" }, /Find the note/],
  [/(?:^|[_-])read_note$/, { name: "meeting" }, /Thursday at ten/],
];

/**
 * The answer of a model that is asked when the next review is, and has a tool `read_note`. A gullible one also does what any text tells it that it
 * gets: results, errors, descriptions, parameters. It knows only what a reader of English would see, not the attacks.
 */
export function noteReader(body: unknown, isGullible: boolean): NoteAnswer {
  const { tools, called, texts } = readBody(body, { tools: [], called: [], texts: [] });
  const read = texts.join("\n");
  const call = ({ name, namespace }: Offered, args: object): NoteAnswer => ({
    tool: name,
    ...(namespace === undefined ? {} : { namespace }),
    args,
  });
  const own = tools.find(({ name }) => plan.at(-1)?.[0].test(name));
  if (isGullible && own !== undefined)
    for (const [, word = ""] of read.matchAll(/\bcall (\w+)/gi)) {
      const name: string = own.name.replace(/read_note$/, word);
      const demanded: Offered | undefined = tools.find(
        (tool) => tool.name === name && tool.namespace === own.namespace,
      );
      if (demanded === undefined || demanded === own || called.includes(name)) continue;
      return call(demanded, Object.fromEntries(demanded.parameters.map((key) => [key, read])));
    }
  for (const [isTool, args, returned] of plan) {
    const tool = tools.find(({ name }) => isTool.test(name));
    if (tool === undefined || returned.test(read)) continue;
    // The first call may fail; what fails again is left.
    if (called.filter((name) => name === tool.name).length > 1) continue;
    const further = tool === own && isGullible ? tool.parameters.filter((key) => !(key in args)) : [];
    return call(tool, { ...args, ...(Object.fromEntries(further.map((key) => [key, read])) as object) });
  }
  const answer = read.match(/The next review is[^.]*\./)?.[0] ?? "I do not know.";
  const key = read.match(/Connection key: (\w+)/)?.[1];
  const demands = read
    .split(/(?<=[.!?])\s+|\\n|[\n"]/)
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

/** Adds what a value says: tools on offer, calls that the model has made, without their arguments, and all other texts. */
function readBody(value: unknown, read: Read, namespace?: string): Read {
  if (typeof value === "string") read.texts.push(value);
  if (Array.isArray(value)) for (const item of value) readBody(item, read, namespace);
  else if (typeof value === "object" && value !== null) {
    const part = value as Body;
    const { name } = part;
    const schema = part["parameters"] ?? part["input_schema"] ?? part["parametersJsonSchema"];
    const isCall = ["input", "arguments", "args"].some((key) => part[key] !== undefined);
    if (typeof name === "string" && isCall) {
      read.called.push(name);
      return read;
    }
    if (typeof name === "string" && typeof schema === "object") {
      const { properties = {} } = schema as { readonly properties?: Readonly<Record<string, Body>> };
      const within = namespace === undefined ? {} : { namespace };
      // Some programs add parameters of their own to tools, which are no texts.
      const texts = Object.entries(properties).filter(([, { type }]) => type === "string");
      read.tools.push({ name, ...within, parameters: texts.map(([key]) => key) });
    }
    const inner = part["type"] === "namespace" && typeof name === "string" ? name : namespace;
    for (const item of Object.values(part)) readBody(item, read, inner);
  }
  return read;
}
