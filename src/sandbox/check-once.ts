import type { SandboxSpec } from "../core/formats/model.ts";

type Check = (spec: SandboxSpec, signal: AbortSignal) => Promise<void>;

/**
 * A check that does its work once for specs that are alike in what can be missing here, as long as mcpvals runs. What failed
 * is tried again. Each caller waits no longer than its own signal allows.
 */
export function checkOnce(check: Check): Check {
  const held = new Set<string>();
  return async (spec, signal) => {
    signal.throwIfAborted();
    const key = JSON.stringify([spec.network, spec.image, spec.runtime]);
    if (held.has(key)) return;
    await check(spec, signal);
    held.add(key);
  };
}
