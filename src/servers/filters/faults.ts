import type { RequestId } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Fault, Json, JsonObject } from "../../core/formats/model.ts";
import { pause } from "../../process/deadline.ts";
import {
  errorAnswer,
  errorCodes,
  answeredId,
  type Request,
  requestOf,
  resultOf,
  type WireMessage,
  withResult,
} from "../messages/json-rpc.ts";
import { nameMatcher } from "./allow-list.ts";
import { type Filter, type FilterContext, type FilterDecision, requestCancelled } from "./filter-chain.ts";

const injected = "injected fault: this error was made on purpose, the server never got the request";

/**
 * Creates the fault filters of one trial. Which faults apply to a request is decided when it arrives, so that the same requests
 * in the same order get the same faults. Several faults apply in the order of the list. Each is recorded as `fault.injected` when
 * it happens, and a delay as `request.held` too.
 */
export function createFaults(faults: readonly Fault[], seed: string): TrialFaults {
  const statesOf = new Map<string, readonly FaultState[]>();
  return {
    of(context) {
      const { server } = context;
      const states =
        statesOf.get(server) ??
        faults.map((fault, index) => createFaultState(fault, `${seed}/${server}/${index}`));
      statesOf.set(server, states);
      return new FaultFilter(states, context);
    },
    unmet: () => [...statesOf.values()].flat().flatMap(({ fault, met }) => (met ? [] : [fault])),
  };
}

/** The faults of one trial and server. */
export interface TrialFaults {
  /** Creates the filter of one connection. */
  readonly of: (context: FilterContext) => Filter;
  /** Faults that no request has matched. */
  unmet(): readonly Fault[];
}

interface FaultedRequest {
  readonly wire: WireMessage;
  readonly request: Request;
  readonly signal: AbortSignal;
}

/** A result to be truncated when it comes. */
interface Cut {
  readonly state: FaultState;
  readonly request: Request;
}

/** The faults of one connection. */
class FaultFilter implements Filter {
  readonly #states: readonly FaultState[];
  readonly #context: FilterContext;
  readonly #cuts = new Map<RequestId, Cut>();

  constructor(states: readonly FaultState[], context: FilterContext) {
    this.#states = states;
    this.#context = context;
  }

  fromClient(wire: WireMessage, signal: AbortSignal): FilterDecision | Promise<FilterDecision> {
    const request = requestOf(wire.message);
    if (request === undefined) return { kind: "pass", wire };
    return this.#apply(faultsFor(this.#states, request), { wire, request, signal });
  }

  fromServer(wire: WireMessage): FilterDecision {
    const id = answeredId(wire.message);
    const cut = id === undefined ? undefined : this.#cuts.get(id);
    if (id === undefined || cut === undefined) return { kind: "pass", wire };
    this.#cuts.delete(id);
    const { state, request } = cut;
    const result = resultOf(wire.message);
    const shorter = result === undefined ? undefined : truncateResult(result, state.fault.bytes ?? 0);
    if (shorter === undefined) {
      // Nothing happened, so it may happen to another request.
      state.left += 1;
      return { kind: "pass", wire };
    }
    this.#record("truncate", request);
    return { kind: "pass", wire: withResult(wire.message, shorter) };
  }

  #apply(
    [state, ...later]: readonly FaultState[],
    faulted: FaultedRequest,
  ): FilterDecision | Promise<FilterDecision> {
    const { wire, request, signal } = faulted;
    if (state === undefined) return { kind: "pass", wire };
    const { kind, ms = 0, code = errorCodes.internal, message = injected } = state.fault;
    if (kind === "truncate") {
      this.#noteCut({ state, request });
      return this.#apply(later, faulted);
    }
    this.#record(kind, request);
    switch (kind) {
      case "delay":
        return this.#delay(ms, request.id, signal).then(() => this.#apply(later, faulted));
      case "error": {
        return { kind: "answer", wire: errorAnswer(request.id, code, message) };
      }
      case "drop":
      case "disconnect":
        return { kind };
    }
  }

  /** A result is cut once; a second such fault may happen to another request. */
  #noteCut(cut: Cut): void {
    const { id } = cut.request;
    if (this.#cuts.has(id)) cut.state.left += 1;
    else this.#cuts.set(id, cut);
  }

  async #delay(ms: number, id: RequestId, signal: AbortSignal): Promise<void> {
    const started = performance.now();
    try {
      await pause(ms, signal);
    } finally {
      if (!signal.aborted || signal.reason === requestCancelled) {
        const heldMs = performance.now() - started;
        this.#context.emit({ type: "request.held", ...this.#who(), id, heldMs });
      }
    }
  }

  #record(fault: Fault["kind"], request: Request): void {
    const { id, method, tool } = request;
    const about = { fault, method, ...(tool === undefined ? {} : { tool }), id };
    this.#context.emit({ type: "fault.injected", ...this.#who(), ...about });
  }

  #who(): { server: string; client?: string } {
    const { server, client } = this.#context;
    return { server, ...(client === undefined ? {} : { client }) };
  }
}

/** A fault and its counts in one trial. */
export interface FaultState {
  readonly fault: Fault;
  readonly fits: (request: Request) => boolean;
  /** Gives the n-th matching request the n-th number, from 0 to below 1. */
  readonly random: () => number;
  /** How often it may still happen. */
  left: number;
  /** Whether any request has matched, whatever its number was. */
  met: boolean;
}

/** Creates the state of one fault. */
function createFaultState(fault: Fault, seed: string): FaultState {
  const { tool, method = "tools/call", times = Infinity } = fault;
  const isTool = tool === undefined ? undefined : nameMatcher([tool]);
  const fits = (request: Request): boolean => {
    if (request.method !== method) return false;
    return isTool === undefined || (request.tool !== undefined && isTool(request.tool));
  };
  return { fault, fits, random: randomSequence(seed), left: times, met: false };
}

/** The faults that apply to a request, in order, up to one that ends it; counts each. */
function faultsFor(states: readonly FaultState[], request: Request): readonly FaultState[] {
  const applied: FaultState[] = [];
  for (const state of states) {
    if (!state.fits(request)) continue;
    state.met = true;
    if (state.random() >= state.fault.probability || state.left === 0) continue;
    state.left -= 1;
    applied.push(state);
    if (endsRequest(state.fault)) break;
  }
  return applied;
}

function endsRequest({ kind }: Fault): boolean {
  return kind === "drop" || kind === "error" || kind === "disconnect";
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
      const text = truncateText(member, bytes);
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

/** The longest beginning of a text that has no more than so many bytes of UTF-8 and ends with a whole character. */
export function truncateText(text: string, bytes: number): string {
  const encoded = Buffer.from(text, "utf8");
  if (encoded.length <= bytes) return text;
  let end = bytes;
  while (end > 0 && isInsideCharacter(encoded[end])) end -= 1;
  return encoded.toString("utf8", 0, end);
}

function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
