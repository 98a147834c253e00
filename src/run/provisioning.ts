import type { Eval, ServerSpec } from "../core/formats/model.ts";
import { effectiveServers, type Plan, type Trial } from "../core/plan/plan.ts";
import type { Expander } from "../core/templates/expand.ts";
import { parseTemplate } from "../core/templates/parse-template.ts";
import { taskRoots } from "../core/templates/scope.ts";
import type { Emit } from "../core/trace/events.ts";
import { expandServer, textsOf } from "../servers/expand-server.ts";
import type { Gateway } from "../servers/gateway/endpoint.ts";
import { createServerPool, type NamedServer } from "../servers/server-pool.ts";
import type { ClientSide } from "../servers/client/session.ts";
import { checkSandboxes } from "../servers/stdio/server-process.ts";
import type { TrialServer } from "../servers/trial-server.ts";
import type { ValidateSchema } from "../core/checks/schema-check.ts";
import type { TaskOfTrial } from "./trial-run.ts";
import { version } from "../core/version.ts";

interface ProvisioningOptions {
  readonly eval: Eval;
  readonly plan: Plan;
  /** The shell's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly validateSchema: ValidateSchema;
}

export interface ServerStart {
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** Replaces templates in how the server is started. */
  readonly expander?: Expander;
  /** Called with everything that the server's process is started with. */
  readonly releasePorts: (texts: Iterable<string>) => Promise<void>;
  /** What the server can ask of the agent; absent: nothing. */
  readonly clientSide?: ClientSide;
}

/** The servers of one run. Its disposal stops those that still run. */
export interface Provisioning extends AsyncDisposable {
  /**
   * Starts a server of a trial, or takes the one that is shared. Undefined, with the reason on record, when it does
   * not start and the trial can do without it. Throws as `startServer` of src/servers.
   */
  readonly startServer: (
    of: TaskOfTrial,
    name: string,
    start: ServerStart,
  ) => Promise<TrialServer | undefined>;
  /** The address of a task's server, before templates are replaced; undefined when it has none. */
  readonly urlOf: (of: TaskOfTrial, name: string) => string | undefined;
  /**
   * Starts the servers that must start before the first trial, and tries the sandboxes of all. Throws McpvalsError
   * `server/required` and `sandbox/unavailable`.
   */
  startRequired(signal: AbortSignal): Promise<void>;
  /** Stops the servers that no later trial shares. */
  trialEnded(trial: Trial): Promise<void>;
}

/** Creates what provides trials with servers; nothing is started yet. */
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
      const servers = plannedServers(options);
      await checkSandboxes(
        servers.map((server) => server.spec),
        signal,
      );
      await pool.startRequired(
        servers.flatMap((server) => requiredServer(server, env)),
        signal,
      );
    },
    trialEnded: (trial) => pool.trialEnded(trial),
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}

/** Only agents outside this process need it, and loading it is slow. */
async function openGateway(): Promise<Gateway> {
  const { createGateway } = await import("../servers/gateway/gateway.ts");
  return createGateway();
}

function serverOf(spec: Eval, { task, trial }: TaskOfTrial, name: string): ServerSpec {
  const server = effectiveServers(spec, task, trial.variant)[name];
  if (server === undefined) throw new Error(`the plan names a server that the eval lacks: ${name}`);
  return server;
}

interface PlannedServer extends NamedServer {
  readonly hasTemplates: boolean;
}

/** The servers of all trials, once a trial. */
function plannedServers({ eval: spec, plan }: ProvisioningOptions): readonly PlannedServer[] {
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  return plan.trials.flatMap(({ task: taskName, variant }) => {
    const task = tasks.get(taskName);
    if (task === undefined) return [];
    const hasTemplates = task.portable?.format === "mcp-eval/v1";
    return Object.entries(effectiveServers(spec, task, variant)).map(([name, server]) => ({
      name,
      spec: server,
      hasTemplates,
    }));
  });
}

/** The server if it must start before all trials, and does not depend on the trial. */
function requiredServer(
  { name, spec, hasTemplates }: PlannedServer,
  env: ProvisioningOptions["env"],
): readonly NamedServer[] {
  if (spec.required !== true) return [];
  const known = hasTemplates ? knownServer(spec, env) : spec;
  return known === undefined ? [] : [{ name, spec: known }];
}

/** The server with its templates replaced; undefined when their values depend on the trial. */
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
