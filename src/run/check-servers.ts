import { type CheckOptions, planCheck } from "../check/plan-check.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import { exact } from "../core/formats/json.ts";
import type { CheckSettings } from "../core/formats/model.ts";
import { findingRules } from "../core/lint/catalogue.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { run, type RunInput, type RunOptions, type RunOutcome } from "./run.ts";

/** Trials at once: more would disturb each other's time limits on a small machine. */
const concurrency = 2;

/** What is checked, over what the eval says, besides how a run is made. */
export type CheckServersOptions = Partial<Omit<CheckOptions, "validateSchema" | "signal">> &
  RunOptions & { readonly signal: AbortSignal };

const defaults: CheckSettings = { calls: "safe", disable: [], callMs: 5000 };

/**
 * Checks the servers of a loaded eval: asks what they offer, plans the check, and runs it. Throws as `run`, and McpvalsError
 * `usage/invalid-option` for an unknown code, and for a server that cannot be started or reached.
 */
export async function checkServers(loaded: RunInput, options: CheckServersOptions): Promise<RunOutcome> {
  const { eval: spec } = loaded;
  const settings = { ...defaults, ...spec.check };
  const { calls = settings.calls, callMs = settings.callMs, maxWarnings = settings.maxWarnings } = options;
  const { signal } = options;
  const disable = [...settings.disable, ...(options.disable ?? [])];
  for (const code of disable) refuseUnknown(code);
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  const tasks = await planCheck(spec.servers, { ...options, calls, disable, callMs, validateSchema, signal });
  const limits = { ...spec.limits, callMs };
  return run(
    { ...loaded, eval: { ...spec, tasks, agents: [], concurrency, limits } },
    {
      ...options,
      ...exact({ maxWarnings }),
    },
  );
}

function refuseUnknown(code: string): void {
  if (Object.hasOwn(findingRules, code)) return;
  throw new McpvalsError("usage/invalid-option", `no finding has the code "${code}"`, {
    hint: suggestion(code, Object.keys(findingRules), "codes"),
  });
}
