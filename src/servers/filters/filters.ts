import { StringDecoder } from "node:string_decoder";
import { setTimeout as sleep } from "node:timers/promises";
import type { RequestId } from "@modelcontextprotocol/client";
import picomatch from "picomatch";
import { isJsonObject, withoutUndefined, type Json, type JsonObject } from "../../base/json.ts";
import type { Fault, RateLimit, ServerSpec } from "../../model/server.ts";
import { pause } from "../../process/deadline.ts";
import { WaitingLine } from "../../process/waiting-line.ts";
import {
  answeredId,
  calledTool,
  errorAnswer,
  type Request,
  requestOf,
  resultOf,
  type WireMessage,
  withResult,
} from "../messages/json-rpc.ts";
import { attackFilter, Injection } from "./attack-filter.ts";
import { type Filter, type FilterContext, type FilterDecision, requestCancelled } from "./filter-chain.ts";
import { errorCodes } from "../../model/error-codes.ts";

export interface FiltersOptions {
  /** The secret of an attack, that must not leave; "" where there is no attack. */
  readonly canary?: string;
  /** Seed of the random numbers of faults, together with the server's name; the same for one trial in each run. */
  readonly seed: string;
  /** That of the host; absent: there is no limit. */
  readonly limiter?: RateLimiter | undefined;
}

/** The filters between an agent and a server in one trial. */
export interface TrialFilters {
  /** Creates the filters of one connection. */
  readonly of: (context: FilterContext) => readonly Filter[];
  /** Faults that no request has matched. */
  unmetFaults(): readonly Fault[];
}

/**
 * Creates the filters of one trial and server, in order from the client to the server: attack, allow-list, faults, rate limit. The
 * connections of a trial share what is counted.
 */
export function createFilters(
  { tools, faults = [], attack }: ServerSpec,
  { seed, limiter, canary = "" }: FiltersOptions,
): TrialFilters {
  let states: readonly FaultState[] | undefined;
  const injection = attack && new Injection(attack, canary);
  return {
    of(context) {
      const filters: Filter[] = [];
      if (injection !== undefined) filters.push(attackFilter(injection, context));
      if (tools !== undefined) filters.push(allowListFilter(tools, context));
      if (faults.length > 0) {
        states ??= faults.map((fault, index) =>
          createFaultState(fault, `${seed}/${context.server}/${index}`),
        );
        filters.push(faultFilter(states, context));
      }
      return [...filters, ...limitFilters(limiter, context)];
    },
    unmetFaults: () => (states ?? []).filter(({ isMet }) => !isMet).map(({ fault }) => fault),
  };
}

/** The filters of a client that only the rate limit concerns. */
export function limitFilters(limiter: RateLimiter | undefined, context: FilterContext): readonly Filter[] {
  return limiter === undefined ? [] : [rateLimitFilter(limiter, context)];
}

/** Whom an event is about. */
function whoOf({ server, client }: FilterContext): { readonly server: string; readonly client?: string } {
  return withoutUndefined({ server, client });
}

/**
 * Lists only tools that match one of the names or globs in the server's answer to `tools/list` (`tools.hidden`), and answers
 * calls of others in place of the server (`tool.refused`).
 */
export function allowListFilter(patterns: readonly string[], context: FilterContext): Filter {
  const matchers = patterns.map((pattern) => ({ pattern, fits: nameMatcher(pattern) }));
  const isAllowed = (name: string): boolean => matchers.some(({ fits }) => fits(name));
  /** Patterns that no tool has matched, over all pages of the listing. */
  const unmatched = new Set(patterns);
  const listings = new Set<RequestId>();
  const show = (wire: WireMessage): WireMessage => {
    const result = resultOf(wire.message);
    const tools = result?.["tools"];
    if (result === undefined || !Array.isArray(tools)) return wire;
    const hidden: string[] = [];
    const shown = (tools as readonly Json[]).filter((tool) => {
      const name = isJsonObject(tool) ? tool["name"] : undefined;
      if (typeof name !== "string") return true;
      for (const { pattern, fits } of matchers) if (fits(name)) unmatched.delete(pattern);
      if (!isAllowed(name)) hidden.push(name);
      return isAllowed(name);
    });
    const idle = result["nextCursor"] === undefined ? [...unmatched] : [];
    if (hidden.length > 0 || idle.length > 0)
      context.emit({
        type: "tools.hidden",
        ...whoOf(context),
        tools: hidden,
        ...(idle.length === 0 ? {} : { unmatched: idle }),
      });
    return hidden.length === 0 ? wire : withResult(wire.message, { ...result, tools: shown });
  };
  return {
    fromClient(wire) {
      const request = requestOf(wire.message);
      if (request?.method === "tools/list") listings.add(request.id);
      const tool = calledTool(wire.message);
      if (tool === undefined || isAllowed(tool)) return { kind: "pass", wire };
      // A call that asks for no answer gets none.
      if (request === undefined) return { kind: "drop" };
      context.emit({ type: "tool.refused", ...whoOf(context), tool, id: request.id });
      const message = `Unknown tool: ${tool} (it is not among the tools that are allowed here)`;
      return { kind: "answer", wire: errorAnswer(request.id, errorCodes.invalidParams, message) };
    },
    fromServer(wire) {
      const id = answeredId(wire.message);
      const isListing = id !== undefined && listings.delete(id);
      return { kind: "pass", wire: isListing ? show(wire) : wire };
    },
  };
}

/**
 * Creates a test for names of tools: a name matches when it is the pattern, or matches it as a glob. A slash and a leading `!` are
 * ordinary characters.
 */
export function nameMatcher(pattern: string): (name: string) => boolean {
  if (pattern === "") return (name) => name === "";
  // `bash` lets `*` match slashes; `windows: false` makes the result the same on every system.
  const isMatch = picomatch(pattern, { bash: true, dot: true, nonegate: true, windows: false });
  return (name) => name === pattern || isMatch(name);
}

/** A fault and its counts in one trial. */
interface FaultState {
  readonly fault: Fault;
  readonly fits: (request: Request) => boolean;
  /** Gives the n-th matching request the n-th number, from 0 to below 1. */
  readonly random: () => number;
  /** How often it may still happen. */
  left: number;
  /** Whether any request has matched, whatever its number was. */
  isMet: boolean;
}

function createFaultState(fault: Fault, seed: string): FaultState {
  const { tool, method = "tools/call", times = Infinity } = fault;
  const isTool = tool === undefined ? undefined : nameMatcher(tool);
  return {
    fault,
    fits: (request) =>
      request.method === method &&
      (isTool === undefined || (request.tool !== undefined && isTool(request.tool))),
    random: randomSequence(seed),
    left: times,
    isMet: false,
  };
}

/** The faults that apply to a request, in order, up to one that ends it; counts each. */
function faultsFor(states: readonly FaultState[], request: Request): readonly FaultState[] {
  const applied: FaultState[] = [];
  for (const state of states) {
    if (!state.fits(request)) continue;
    state.isMet = true;
    if (state.random() >= state.fault.probability || state.left === 0) continue;
    state.left -= 1;
    applied.push(state);
    if (state.fault.kind !== "delay" && state.fault.kind !== "truncate") break;
  }
  return applied;
}

const injected = "injected fault: this error was made on purpose, the server never got the request";

/**
 * The faults of one connection. Which ones apply to a request is decided when it arrives, so that the same requests in the same
 * order get the same faults. Several apply in the order of the list. Each is recorded as `fault.injected` when it happens, and a
 * delay as `request.held` too.
 */
function faultFilter(states: readonly FaultState[], context: FilterContext): Filter {
  const who = whoOf(context);
  /** Results to be truncated when they come. */
  const cuts = new Map<RequestId, { readonly state: FaultState; readonly request: Request }>();
  const record = (fault: Fault["kind"], { id, method, tool }: Request): void =>
    void context.emit({ type: "fault.injected", ...who, ...withoutUndefined({ fault, method, tool, id }) });

  const apply = (
    [state, ...later]: readonly FaultState[],
    wire: WireMessage,
    request: Request,
    signal: AbortSignal,
  ): FilterDecision | Promise<FilterDecision> => {
    if (state === undefined) return { kind: "pass", wire };
    const { kind, ms = 0, code = errorCodes.internal, message = injected } = state.fault;
    if (kind !== "truncate") record(kind, request);
    switch (kind) {
      case "truncate":
        // A result is cut once; a second such fault may happen to another request.
        if (cuts.has(request.id)) state.left += 1;
        else cuts.set(request.id, { state, request });
        return apply(later, wire, request, signal);
      case "delay":
        return hold(pause(ms, signal), context, request.id, signal).then(() =>
          apply(later, wire, request, signal),
        );
      case "error":
        return { kind: "answer", wire: errorAnswer(request.id, code, message) };
      case "drop":
      case "disconnect":
        return { kind };
    }
  };

  return {
    fromClient(wire, signal) {
      const request = requestOf(wire.message);
      if (request === undefined) return { kind: "pass", wire };
      return apply(faultsFor(states, request), wire, request, signal);
    },
    fromServer(wire) {
      const id = answeredId(wire.message);
      const cut = id === undefined ? undefined : cuts.get(id);
      if (id === undefined || cut === undefined) return { kind: "pass", wire };
      cuts.delete(id);
      const result = resultOf(wire.message);
      const shorter = result === undefined ? undefined : truncateResult(result, cut.state.fault.bytes ?? 0);
      if (shorter === undefined) {
        // Nothing happened, so it may happen to another request.
        cut.state.left += 1;
        return { kind: "pass", wire };
      }
      record("truncate", cut.request);
      return { kind: "pass", wire: withResult(wire.message, shorter) };
    },
  };
}

/**
 * Creates a sequence of numbers from 0 to below 1 that is the same for the same seed on every machine: mulberry32, seeded with
 * xmur3 of the text (both by bryc, public domain: github.com/bryc/code, "PRNGs").
 */
export function randomSequence(seed: string): () => number {
  let state = xmur3(seed);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A 32-bit hash of a text. */
function xmur3(text: string): number {
  let hash = 1779033703 ^ text.length;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 3432918353);
    hash = (hash << 13) | (hash >>> 19);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 2246822507);
  hash = Math.imul(hash ^ (hash >>> 13), 3266489909);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Members of results of tools, resources and prompts that a model reads. */
const readable = ["content", "contents", "messages"];

/**
 * Cuts each text of a result to so many bytes of UTF-8, at the end of a character. `structuredContent`, which says the
 * same again, is left out. Undefined when no text is longer.
 */
export function truncateResult(result: JsonObject, bytes: number): JsonObject | undefined {
  let isShorter = false;
  const cut = (value: Json): Json => {
    if (Array.isArray(value)) return (value as readonly Json[]).map(cut);
    if (!isJsonObject(value)) return value;
    const members = Object.entries(value).map(([key, member]) => {
      if (key !== "text" || typeof member !== "string") return [key, cut(member)] as const;
      // The decoder keeps back an unfinished character.
      const text = new StringDecoder("utf8").write(Buffer.from(member).subarray(0, bytes));
      isShorter ||= text !== member;
      return [key, text] as const;
    });
    return Object.fromEntries(members);
  };
  const members = Object.entries(result).map(
    ([key, member]) => [key, readable.includes(key) ? cut(member) : member] as const,
  );
  if (!isShorter) return undefined;
  return Object.fromEntries(members.filter(([key]) => key !== "structuredContent"));
}

/**
 * Holds requests while the limit is reached. How long a request waited is recorded as `request.held`, also when the client
 * cancelled it.
 */
function rateLimitFilter(limiter: RateLimiter, context: FilterContext): Filter {
  return {
    fromClient(wire, signal) {
      const request = requestOf(wire.message);
      if (request === undefined) return { kind: "pass", wire };
      const passing = limiter.pass(signal);
      if (passing === undefined) return { kind: "pass", wire };
      context.onHeld?.(passing);
      return hold(passing, context, request.id, signal).then(() => ({ kind: "pass", wire }));
    },
  };
}

/** Waits, and records for how long a request was held; not when the connection ended meanwhile. */
async function hold(
  waiting: Promise<void>,
  context: FilterContext,
  id: RequestId,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  try {
    await waiting;
  } finally {
    if (!signal.aborted || signal.reason === requestCancelled)
      context.emit({ type: "request.held", ...whoOf(context), id, heldMs: performance.now() - started });
  }
}

/** Lets requests pass at a limited rate. All clients of a host share one. */
export interface RateLimiter {
  /** Whether a request would have to wait. */
  readonly isFull: boolean;
  /**
   * Undefined when the request passes at once. Else a promise that settles when it passes, and rejects with the signal's reason
   * when that aborts first.
   */
  pass(signal: AbortSignal): Promise<void> | undefined;
}

/** Lets at most `requests` pass in any span of `perMs`; the others wait in order. A timer runs only while a request waits. */
export class OwnRateLimiter implements RateLimiter {
  readonly #limit: RateLimit;
  /** When the last `requests` requests passed, oldest first. */
  readonly #passed: number[] = [];
  readonly #line = new WaitingLine();
  #timer: NodeJS.Timeout | undefined;

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#line.length > 0 || this.#waitMs() > 0;
  }

  pass(signal: AbortSignal): Promise<void> | undefined {
    signal.throwIfAborted();
    if (!this.isFull) return this.#note();
    const passing = this.#line.join(signal, () => this.#wake());
    this.#wake();
    return passing;
  }

  #wake(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#line.length > 0 && this.#waitMs() <= 0) {
      this.#note();
      this.#line.next();
    }
    if (this.#line.length === 0) return;
    // A timer may fire a little early; then it is set again.
    const ms = Math.max(Math.ceil(this.#waitMs()), 1);
    this.#timer = setTimeout(() => this.#wake(), ms);
  }

  #waitMs(): number {
    const [oldest] = this.#passed;
    if (oldest === undefined || this.#passed.length < this.#limit.requests) return 0;
    return oldest + this.#limit.perMs - performance.now();
  }

  #note(): undefined {
    this.#passed.push(performance.now());
    if (this.#passed.length > this.#limit.requests) this.#passed.shift();
  }
}

/** From when until when one request may pass, by `performance.now()`. */
export interface RateSlot {
  readonly from: number;
  readonly until: number;
}

/**
 * Reserves slots for up to `count` requests, at least one. Nobody else has them, used or not. The longer one may be used (`validMs`), the
 * longer it takes until the next one comes. Rejects when there will be none any more.
 */
export type ReserveSlots = (count: number, validMs: number) => Promise<readonly RateSlot[]>;

/** A limit that holds over several machines: each request needs a slot, which somebody gives who knows of all. */
export class SharedRateLimiter implements RateLimiter {
  /** Nobody knows without asking. */
  readonly isFull = true;
  readonly #reserve: ReserveSlots;
  readonly #line = new WaitingLine();
  #isServing = false;
  #validMs = 50;

  constructor(reserve: ReserveSlots) {
    this.#reserve = reserve;
  }

  pass(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const passing = this.#line.join(signal, () => undefined);
    if (!this.#isServing) void this.#serve();
    return passing;
  }

  async #serve(): Promise<void> {
    this.#isServing = true;
    try {
      while (this.#line.length > 0) await this.#useSome();
    } catch (error) {
      this.#line.fail(error);
    }
    this.#isServing = false;
  }

  async #useSome(): Promise<void> {
    let isInTime = false;
    for (const { from, until } of await this.#reserve(this.#line.length, this.#validMs)) {
      // A timer may fire a little early, and those who wait may leave.
      for (let ms; (ms = from - performance.now()) > 0 && this.#line.length > 0;)
        await sleep(Math.min(Math.ceil(ms), 1000));
      if (this.#line.length === 0) return;
      if (performance.now() > until) continue;
      isInTime = true;
      this.#line.next();
    }
    // Asking takes longer than that, or this machine is busy.
    if (!isInTime) this.#validMs *= 2;
  }
}
