import type { Fault } from "../../core/formats/model.ts";
import { nameMatcher } from "./match-name.ts";
import type { Request } from "./messages.ts";
import { randomSequence } from "./random.ts";

/** A fault, with what is counted of it in one trial. */
export interface FaultLot {
  readonly fault: Fault;
  readonly fits: (request: Request) => boolean;
  /** The n-th request that fits meets the n-th number, from 0 to below 1. */
  readonly random: () => number;
  /** How often it may still happen. */
  left: number;
  /** Whether any request has fitted, whatever its number was. */
  met: boolean;
}

/** Makes the lot of one fault; the seed begins its random numbers. */
export function faultLot(fault: Fault, seed: string): FaultLot {
  const { tool, method = "tools/call", times = Infinity } = fault;
  const isTool = tool === undefined ? undefined : nameMatcher([tool]);
  const fits = (request: Request): boolean => {
    if (request.method !== method) return false;
    return isTool === undefined || (request.tool !== undefined && isTool(request.tool));
  };
  return { fault, fits, random: randomSequence(seed), left: times, met: false };
}

/**
 * Draws what befalls a request: of the faults that fit, in order, up to one that ends it. Each one that is drawn has
 * happened once more.
 */
export function drawFaults(lots: readonly FaultLot[], request: Request): readonly FaultLot[] {
  const drawn: FaultLot[] = [];
  for (const lot of lots) {
    if (!lot.fits(request)) continue;
    lot.met = true;
    if (lot.random() >= lot.fault.probability || lot.left === 0) continue;
    lot.left -= 1;
    drawn.push(lot);
    if (endsRequest(lot.fault)) break;
  }
  return drawn;
}

function endsRequest({ kind }: Fault): boolean {
  return kind === "drop" || kind === "error" || kind === "disconnect";
}
