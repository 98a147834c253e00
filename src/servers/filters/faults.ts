import type { RequestId } from "@modelcontextprotocol/client";
import type { Fault } from "../../core/formats/model.ts";
import { pause } from "../../process/deadline.ts";
import { type WireMessage, wireMessage } from "../wire.ts";
import { drawFaults, type FaultLot, faultLot } from "./fault-lot.ts";
import { requestCancelled } from "./filter-signal.ts";
import type { Filter, FilterContext, Passage } from "./filter.ts";
import { answeredId, type Request, requestOf, resultOf, withResult } from "./messages.ts";
import { truncateResult } from "./truncate-result.ts";

/** JSON-RPC's code for an error on the side that answers. */
const internalError = -32603;
const injected = "injected fault: this error was made on purpose, the server never got the request";

/**
 * Makes what makes the filter of each connection of one trial. What befalls a request is decided when it arrives, so that
 * the same requests in the same order meet the same faults. Those that befall it do so in the order of the list. Each is
 * recorded as `fault.injected` when it happens, and a delay as `request.held` too.
 */
export function createFaults(faults: readonly Fault[], seed: string): TrialFaults {
  const lotsOf = new Map<string, readonly FaultLot[]>();
  return {
    of(context) {
      const { server } = context;
      const lots =
        lotsOf.get(server) ?? faults.map((fault, index) => faultLot(fault, `${seed}/${server}/${index}`));
      lotsOf.set(server, lots);
      return new FaultFilter(lots, context);
    },
    unmet: () => [...lotsOf.values()].flat().flatMap(({ fault, met }) => (met ? [] : [fault])),
  };
}

/** The faults of one trial and server. */
export interface TrialFaults {
  /** Makes the filter of one connection. */
  readonly of: (context: FilterContext) => Filter;
  /** Those that no request has fitted, of all that stood in an agent's way. */
  unmet(): readonly Fault[];
}

interface Passing {
  readonly wire: WireMessage;
  readonly request: Request;
  readonly signal: AbortSignal;
}

/** A result that is to be cut when it comes. */
interface Cut {
  readonly lot: FaultLot;
  readonly request: Request;
}

/** The faults of one connection. */
class FaultFilter implements Filter {
  readonly #lots: readonly FaultLot[];
  readonly #context: FilterContext;
  readonly #cuts = new Map<RequestId, Cut>();

  constructor(lots: readonly FaultLot[], context: FilterContext) {
    this.#lots = lots;
    this.#context = context;
  }

  fromClient(wire: WireMessage, signal: AbortSignal): Passage | Promise<Passage> {
    const request = requestOf(wire.message);
    if (request === undefined) return { kind: "pass", wire };
    return this.#befall(drawFaults(this.#lots, request), { wire, request, signal });
  }

  fromServer(wire: WireMessage): Passage {
    const id = answeredId(wire.message);
    const cut = id === undefined ? undefined : this.#cuts.get(id);
    if (id === undefined || cut === undefined) return { kind: "pass", wire };
    this.#cuts.delete(id);
    const { lot, request } = cut;
    const result = resultOf(wire.message);
    const shorter = result === undefined ? undefined : truncateResult(result, lot.fault.bytes ?? 0);
    if (shorter === undefined) {
      // Nothing happened, so it may happen to another request.
      lot.left += 1;
      return { kind: "pass", wire };
    }
    this.#record("truncate", request);
    return { kind: "pass", wire: wireMessage(withResult(wire.message, shorter)) };
  }

  #befall([lot, ...later]: readonly FaultLot[], passing: Passing): Passage | Promise<Passage> {
    const { wire, request, signal } = passing;
    if (lot === undefined) return { kind: "pass", wire };
    const { kind, ms = 0, code = internalError, message = injected } = lot.fault;
    if (kind === "truncate") {
      this.#noteCut({ lot, request });
      return this.#befall(later, passing);
    }
    this.#record(kind, request);
    switch (kind) {
      case "delay":
        return this.#delay(ms, request.id, signal).then(() => this.#befall(later, passing));
      case "error": {
        const answer = wireMessage({ jsonrpc: "2.0", id: request.id, error: { code, message } });
        return { kind: "answer", wire: answer };
      }
      case "drop":
      case "disconnect":
        return { kind };
    }
  }

  /** A result is cut once; a second such fault may happen to another request. */
  #noteCut(cut: Cut): void {
    const { id } = cut.request;
    if (this.#cuts.has(id)) cut.lot.left += 1;
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
