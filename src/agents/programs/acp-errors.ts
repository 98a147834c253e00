import { McpvalsError } from "../../core/errors/error.ts";
import type { Preset } from "../../core/formats/presets/preset.ts";

/** What is known of the agent that answered. */
export interface AcpAnswerer {
  readonly name: string;
  readonly facts?: Preset;
  /** What it offers to log in with, by its own names. */
  readonly authMethods: readonly string[];
  readonly stderrTail: string | undefined;
}

const authRequired = -32_000;

/** What an agent's error answer to a request of ours means: it could not act, which is nothing that it did badly. */
export function acpAnswerError(error: unknown, method: string, agent: AcpAnswerer): unknown {
  const code = codeOf(error);
  if (!(error instanceof Error) || code === undefined) return error;
  const detail = [detailOf(error), agent.stderrTail].filter((text) => text !== undefined).join("\n");
  const more = { ...(detail === "" ? {} : { detail }), cause: error };
  if (code === authRequired) return authError(error.message, agent, more);
  return new McpvalsError(
    "agent/failed",
    `agent ${agent.name} answered ${method} with an error: ${error.message}`,
    more,
  );
}

/** The error for an agent whose account or key is refused. */
export function authError(
  message: string,
  agent: AcpAnswerer,
  more: { readonly detail?: string; readonly cause?: unknown } = {},
): McpvalsError {
  return new McpvalsError("agent/auth", `agent ${agent.name} is not logged in: ${message}`, {
    hint: loginHint(agent),
    ...more,
  });
}

function loginHint({ facts, authMethods }: AcpAnswerer): string {
  const keys = (facts?.inheritEnv ?? []).filter((name) => /KEY|TOKEN/.test(name));
  const named = keys.length === 0 ? "the variable that it takes its key from" : keys.join(" or ");
  const offers = authMethods.length === 0 ? "" : ` It offers: ${authMethods.join(", ")}.`;
  return `Log in with the program itself in a terminal, or set ${named}.${offers}`;
}

function codeOf(error: unknown): number | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
}

function detailOf(error: Error): string | undefined {
  if (!("data" in error) || error.data === undefined || error.data === null) return undefined;
  return typeof error.data === "string" ? error.data : JSON.stringify(error.data);
}
