import type { Eval, ServerSpec } from "../core/formats/model.ts";
import { effectiveServers } from "../core/plan/effective-servers.ts";
import type { Plan, Trial } from "../core/plan/plan.ts";
import { parseTemplate } from "../core/templates/parse-template.ts";
import { taskRoots } from "../core/templates/scope.ts";
import type { TaskOfTrial, TrialPorts } from "./trial-ports.ts";
import { expandServer, textsOf } from "../servers/expand-server.ts";
import type { Gateway } from "../servers/gateway/endpoint.ts";
import { createServerPool, type NamedServer } from "../servers/hosts/server-pool.ts";
import { checkSandboxes } from "../servers/stdio/start-program.ts";
import { version } from "../core/version.ts";

export interface ProvisioningOptions {
  readonly eval: Eval;
  readonly plan: Plan;
  /** The shell's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly validateSchema: TrialPorts["validateSchema"];
}

/** The servers of one run. Its disposal ends whatever is left of them. */
export interface Provisioning extends AsyncDisposable, Pick<TrialPorts, "startServer" | "urlOf"> {
  /**
   * Starts the servers that have to start before anything runs, and tries the sandboxes of all. Throws McpvalsError
   * `server/required` and `sandbox/unavailable`.
   */
  startRequired(signal: AbortSignal): Promise<void>;
  /** To be told of the end of each trial. */
  trialEnded(trial: Trial): Promise<void>;
}

/** Makes what provides trials with servers; nothing is started yet. */
export function createProvisioning(options: ProvisioningOptions): Provisioning {
  const { eval: spec, plan, env, validateSchema } = options;
  const { seed } = spec;
  const pool = createServerPool({
    version,
    trials: plan.trials,
    validateSchema,
    createGateway: openGateway,
    ...(seed === undefined ? {} : { seed }),
  });
  return {
    async startServer(of, name, { expander, releasePorts, ...start }) {
      const server = serverOf(spec, of, name);
      const expanded = expander === undefined ? server : expandServer(server, expander, env);
      await releasePorts(textsOf(expanded));
      return pool.serve({ name, spec: expanded, trial: of.trial }, start);
    },
    urlOf(of, name) {
      const server = serverOf(spec, of, name);
      return "url" in server ? server.url : undefined;
    },
    async startRequired(signal) {
      await checkSandboxes(plannedServers(options), signal);
      await pool.startRequired(requiredServers(options), signal);
    },
    trialEnded: (trial) => pool.trialEnded(trial),
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}

/** Only agents outside this process need it, and loading it takes a while. */
async function openGateway(): Promise<Gateway> {
  const { createGateway } = await import("../servers/gateway/gateway.ts");
  return createGateway();
}

function serverOf(spec: Eval, { task, trial }: TaskOfTrial, name: string): ServerSpec {
  const server = effectiveServers(spec, task, trial.variant)[name];
  if (server === undefined) throw new Error(`the plan names a server that the eval lacks: ${name}`);
  return server;
}

function plannedServers({ eval: spec, plan }: ProvisioningOptions): readonly ServerSpec[] {
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  return plan.trials.flatMap(({ task: taskName, variant }) => {
    const task = tasks.get(taskName);
    return task === undefined ? [] : Object.values(effectiveServers(spec, task, variant));
  });
}

/** The servers that some trial needs and that have to start before all trials, but for those that only a trial can tell. */
function requiredServers({ eval: spec, plan, env }: ProvisioningOptions): readonly NamedServer[] {
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  return plan.trials.flatMap(({ task: taskName, variant }) => {
    const task = tasks.get(taskName);
    if (task === undefined) return [];
    const isTemplate = task.portable?.format === "mcp-eval/v1";
    return Object.entries(effectiveServers(spec, task, variant)).flatMap(([name, server]) => {
      const known = server.required === true ? (isTemplate ? knownServer(server, env) : server) : undefined;
      return known === undefined ? [] : { name, spec: known };
    });
  });
}

/** A server as every trial would expand it; undefined when that depends on the trial. */
function knownServer(server: ServerSpec, env: ProvisioningOptions["env"]): ServerSpec | undefined {
  let isKnown = true;
  const text = (template: string): string =>
    parseTemplate(template, (root) => taskRoots.some((known) => known === root))
      .map((part) => {
        if (typeof part === "string") return part;
        isKnown = false;
        return "";
      })
      .join("");
  const expanded = expandServer(server, { text }, env);
  return isKnown ? expanded : undefined;
}
