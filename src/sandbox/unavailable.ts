import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import type { Sandbox } from "./sandbox.ts";

/** A sandbox that this platform does not have: it refuses everything. `reason` is a sentence without its full stop. */
export function unavailable(kind: SandboxSpec["kind"], reason: string): Sandbox {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new McpvalsError("sandbox/unavailable", reason, {
        hint: "Choose another sandbox, or none for extensions that you trust.",
      }),
    );
  return { kind, check: refuse, start: refuse };
}
