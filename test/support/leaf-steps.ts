import { McpvalsError } from "../../src/core/errors/error.ts";
import type { McpStep } from "../../src/core/formats/step.ts";
import type { ServerSession } from "../../src/servers/client/session.ts";
import { anyTool, stubSession, textResult } from "./sessions.ts";

/** How a leaf ends: as expected, otherwise, it cannot act, not before it is told to stop. */
export type LeafEnd = "pass" | "fail" | "error" | "hang";

/** A step that calls a tool of the server of {@link leafServer}; the call's `id` says which one it is. */
export function leaf(id: string, end: LeafEnd, parts: Partial<McpStep> = {}): McpStep {
  return {
    type: "mcp",
    id,
    request: { kind: "tool", tool: end, args: { id } },
    expect: { result: "ok" },
    timeoutMs: 60_000,
    ...parts,
  };
}

/** A server whose tools end as they are called; `onCall` hears of every call before it is answered. */
export function leafServer(onCall: (id: string) => void): ServerSession {
  return stubSession({
    name: "leaves",
    tools: ["pass", "fail", "error", "hang"].map(anyTool),
    call(tool, args, { signal }) {
      const id = typeof args["id"] === "string" ? args["id"] : "";
      onCall(id);
      if (signal.aborted) throw signal.reason;
      if (tool === "error") throw new McpvalsError("server/unreachable", `${id} cannot act`);
      if (tool !== "hang") return textResult(tool === "pass" ? "ok" : "no");
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    },
  });
}
