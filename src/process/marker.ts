import { randomUUID } from "node:crypto";

/** Names the managed process that a process descends from; this is how even a fully detached descendant is found. */
export const processMarkerName = "MCPVALS_PROCESS";

/** Names the run of mcpvals that a process descends from. */
export const runMarkerName = "MCPVALS_RUN";

/** The value of {@link runMarkerName} in every process that this one starts. */
export const runMarker: string = randomUUID();

export function createProcessMarker(): string {
  return randomUUID();
}
