import { McpvalsError } from "../base/error.ts";
import { asObject } from "../base/json.ts";
import { countOf } from "../base/visible-text.ts";
import type { EventOf, TraceEvent } from "../model/event.ts";
import type { Usage } from "../model/grade.ts";
import type { UseLimits } from "../model/task.ts";
import { moneyText } from "../report/text.ts";

/**
 * Stops the agent of a trial when it goes beyond its limits. While a server works on a call it is not stopped, since that would count as
 * the server's failure, unless it goes on in the meantime.
 */
export class AgentLimits {
  readonly #limits: UseLimits;
  readonly #events: readonly TraceEvent[];
  readonly #reached = new AbortController();
  /** Events that have been looked at. */
  #seen: number;
  #calls = 0;
  #excess: string | undefined;
  /** Calls of tools that are not answered. */
  readonly #open = new Set<string>();
  /** By whom they are known: an agent program and a proxy count the same ones. */
  readonly #used = { model: none(), agent: none(), proxy: none() };

  /** The events of the trial; those that are there already do not count. */
  constructor(limits: UseLimits, events: readonly TraceEvent[]) {
    this.#limits = limits;
    this.#events = events;
    this.#seen = events.length;
  }

  /** What it used too much of; undefined: nothing. */
  get excess(): string | undefined {
    return this.#excess;
  }

  /** Aborts with an Error that says what it used too much of, or with McpvalsError `agent/unknown-use` when nobody knows. */
  get reached(): AbortSignal {
    return this.#reached.signal;
  }

  /** To be called after events were recorded. */
  look(): void {
    for (; this.#seen < this.#events.length; this.#seen += 1) {
      const event = this.#events[this.#seen];
      if (event === undefined) continue;
      const isOver = this.#excess !== undefined;
      this.#read(event);
      this.#excess ??= this.#findExcess();
      // It went on, whatever is open: not every call gets an answer.
      const goesOn = isOver && (event.type === "model.called" || isCall(event));
      if (this.#excess !== undefined && (goesOn || this.#open.size === 0))
        this.#reached.abort(new Error(this.#excess));
    }
  }

  /** To be called at the end of an agent program. Throws when it has not reported what is limited. */
  requireUse(): void {
    this.look();
    this.reached.throwIfAborted();
    const { agent, proxy } = this.#used;
    if (this.#limits.maxTurns !== undefined && agent.requests + proxy.requests === 0)
      throw unknown("how often the agent asked its model", "maxTurns");
    if (agent.tokens + proxy.tokens > 0) return;
    const isCostKnown = agent.cost + proxy.cost > 0;
    if (this.#limits.maxTokens !== undefined) throw unknown("how many tokens the agent used", "maxTokens");
    if (this.#limits.maxCost !== undefined && !isCostKnown) throw unknown("what the agent cost", "maxCost");
  }

  #read(event: TraceEvent): void {
    if (event.type === "model.called" && event.purpose === "agent") this.#add("model", event.usage);
    else if (event.type === "agent.usage") this.#add(event.source, event.usage);
    else if (event.type === "mcp.message") this.#readMessage(event);
  }

  #readMessage({ server, client, direction, message }: EventOf<"mcp.message">): void {
    const { id, method, params } = asObject(message);
    const keyOf = (of: unknown): string => JSON.stringify([server, client ?? null, of]);
    if (direction === "server-to-client") this.#open.delete(method === undefined ? keyOf(id) : "");
    else if (method === "notifications/cancelled") this.#open.delete(keyOf(asObject(params)["requestId"]));
    else if (method === "tools/call") {
      this.#calls += 1;
      if (id !== undefined) this.#open.add(keyOf(id));
    }
  }

  #add(source: "model" | "agent" | "proxy", usage: Usage): void {
    const { inputTokens, outputTokens, requests = 0, cost, isPartial } = usage;
    const used = this.#used[source];
    used.requests += requests;
    used.tokens += inputTokens + outputTokens;
    used.cost += cost?.amount ?? 0;
    used.currency ??= cost?.currency;
    if (isPartial === true && this.#limits.maxTokens !== undefined)
      this.#reached.abort(unknown("how many tokens the agent used", "maxTokens"));
    if (cost === undefined && this.#limits.maxCost !== undefined)
      this.#reached.abort(unknown("what the agent cost", "maxCost"));
  }

  #findExcess(): string | undefined {
    const {
      maxCost = Infinity,
      maxTokens = Infinity,
      maxToolCalls = Infinity,
      maxTurns = Infinity,
    } = this.#limits;
    const { model, agent, proxy } = this.#used;
    const tokens = model.tokens + Math.max(agent.tokens, proxy.tokens);
    const requests = model.requests + Math.max(agent.requests, proxy.requests);
    const cost = model.cost + Math.max(agent.cost, proxy.cost);
    const currency = model.currency ?? agent.currency ?? proxy.currency ?? "USD";
    if (this.#calls > maxToolCalls) return `it made more than ${countOf(maxToolCalls, "call")} of tools`;
    if (requests > maxTurns) return `it sent more than ${countOf(maxTurns, "request")} to its model`;
    if (tokens > maxTokens) return `it used ${countOf(tokens, "token")}, more than ${maxTokens}`;
    return cost > maxCost
      ? `it cost ${moneyText(cost, currency)}, more than ${moneyText(maxCost, currency)}`
      : undefined;
  }
}

function isCall(event: TraceEvent): boolean {
  return (
    event.type === "mcp.message" &&
    event.direction === "client-to-server" &&
    asObject(event.message)["method"] === "tools/call"
  );
}

function unknown(what: string, limit: keyof UseLimits): McpvalsError {
  return new McpvalsError("agent/unknown-use", `it is unknown ${what}, so limits.${limit} cannot be kept`);
}

interface Used {
  requests: number;
  tokens: number;
  cost: number;
  currency: string | undefined;
}

function none(): Used {
  return { requests: 0, tokens: 0, cost: 0, currency: undefined };
}
