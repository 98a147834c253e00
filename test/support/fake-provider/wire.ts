import type { IncomingHttpHeaders } from "node:http";

/** Tokens that an answer claims. Default: 10 in, 5 out, nothing cached. */
export interface FakeUsage {
  readonly input?: number;
  readonly output?: number;
  readonly cacheRead?: number;
}

/** One tool call of an answer. `args` is sent as JSON; `rawArgs` is sent as it is, where the wire sends a text. */
export interface FakeCall {
  readonly tool: string;
  readonly args?: unknown;
  readonly rawArgs?: string;
}

/** What a model says: text, tool calls, or text and then tool calls. */
export interface FakeAnswer {
  readonly text?: string;
  readonly calls: readonly FakeCall[];
  /** `length`: cut off by the output limit; `refusal`: the text is the model's refusal. */
  readonly finish?: "length" | "refusal";
  readonly usage?: FakeUsage;
}

/** A tool result as a request carried it back to the model. */
export interface FakeToolResult {
  readonly tool: string;
  readonly text: string;
  readonly isError: boolean;
  readonly images: number;
}

/** A request, read in the same way whatever its wire format. */
export interface RequestView {
  readonly model: string;
  readonly system: string;
  /** What the user said, in order. */
  readonly users: readonly string[];
  /** What the model said, in order. */
  readonly assistants: readonly string[];
  /** Names of the tools on offer. */
  readonly tools: readonly string[];
  /** All tool results of the conversation, in order. */
  readonly toolResults: readonly FakeToolResult[];
  /** The tool results that came after the model's last words. */
  readonly newResults: readonly FakeToolResult[];
  /** What the real API would refuse about the request. */
  readonly problems: readonly string[];
}

export interface RawRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  /** The key that must be sent; any, when absent. */
  readonly key: string | undefined;
}

/** One provider's wire format. */
export interface FakeWire {
  readonly name: "anthropic" | "openai-responses" | "openai-chat" | "google";
  matches(path: string): boolean;
  read(request: RawRequest): RequestView;
  /** The body of an answer; `number` counts answers from 1 and makes ids. */
  answer(answer: FakeAnswer, request: RawRequest, number: number): unknown;
  error(status: number, message: string): unknown;
}

export type Fields = Readonly<Record<string, unknown>>;

export function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fields) : [];
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Collects a view while a conversation is read from its start. */
export class ViewBuilder {
  readonly users: string[] = [];
  readonly assistants: string[] = [];
  readonly toolResults: FakeToolResult[] = [];
  readonly problems: string[] = [];
  #newFrom = 0;
  readonly #open = new Map<string, string>();

  require(condition: boolean, problem: string): void {
    if (!condition) this.problems.push(problem);
  }

  user(said: string): void {
    this.require(this.#open.size === 0, `the user speaks while calls ${this.#openIds()} are unanswered`);
    this.users.push(said);
  }

  assistant(said: string): void {
    if (said !== "") this.assistants.push(said);
    this.#newFrom = this.toolResults.length;
  }

  call(id: string, tool: string): void {
    this.require(id !== "", `the call of ${tool} has no id`);
    this.require(!this.#open.has(id), `two open calls have the id ${id}`);
    this.#open.set(id, tool);
    this.#newFrom = this.toolResults.length;
  }

  result(id: string, result: Omit<FakeToolResult, "tool">): void {
    const tool = this.#open.get(id);
    this.require(tool !== undefined, `a tool result refers to the call ${id}, which is not open`);
    this.#open.delete(id);
    this.toolResults.push({ tool: tool ?? "", ...result });
  }

  /** The tool of the first open call with the given name, by id; for wires whose results name only the tool. */
  openCall(tool: string): string | undefined {
    return [...this.#open].find(([, name]) => name === tool)?.[0];
  }

  #openIds(): string {
    return [...this.#open.keys()].join(", ");
  }

  get openCalls(): number {
    return this.#open.size;
  }

  tools(declared: readonly Fields[], schemaOf: (tool: Fields) => Fields, legal: RegExp): readonly string[] {
    const names = declared.map((tool) => text(tool["name"]));
    this.require(new Set(names).size === names.length, `tool names are not unique: ${names.join(", ")}`);
    for (const [index, tool] of declared.entries()) {
      this.require(legal.test(text(tool["name"])), `illegal tool name ${JSON.stringify(tool["name"])}`);
      const schema = schemaOf(tool);
      this.require(schema["type"] === "object", `the schema of ${names[index]} is not of type object`);
      this.require(
        schema["properties"] !== undefined,
        `the object schema of ${names[index]} lacks properties`,
      );
    }
    return names;
  }

  build(rest: Pick<RequestView, "model" | "system" | "tools">): RequestView {
    this.require(rest.model !== "", "the request names no model");
    this.require(this.#open.size === 0, `calls ${this.#openIds()} are unanswered`);
    this.require(this.users.length > 0, "nothing was said by the user");
    return {
      ...rest,
      users: this.users,
      assistants: this.assistants,
      toolResults: this.toolResults,
      newResults: this.toolResults.slice(this.#newFrom),
      problems: this.problems,
    };
  }
}

/** The arguments of a call, for wires that send them as a text. */
export function argsText(call: FakeCall): string {
  return call.rawArgs ?? JSON.stringify(call.args ?? {});
}
