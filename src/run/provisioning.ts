import type { ValidateSchema } from "../expect/tool-result.ts";
import { withoutUndefined } from "../base/json.ts";
import type { Eval } from "../model/eval.ts";
import { type ServerSpec, mapServerTexts } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import { effectiveServers, type Plan, type Trial } from "../model/plan.ts";
import type { Expander } from "../templates/expand.ts";
import { plainText } from "../templates/template.ts";
import type { Emit } from "../model/event.ts";
import type { Secret } from "../trace/redact.ts";
import { version } from "../base/version.ts";
import type { ClientSide } from "../servers/client/session.ts";
import { ServerPool, type ServerPoolOptions, type TrialServer } from "../servers/server-pool.ts";
import { checkSandboxes } from "../servers/stdio/server-process.ts";
import type { TrialSource } from "./remote/trial-source.ts";

/** A trial and its task, with the servers of the trial's variant. */
export interface TaskOfTrial {
  readonly trial: Trial;
  readonly task: Task;
}

type Variables = Readonly<Record<string, string>>;

interface ServerStart {
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
   * Starts a server of a trial, or takes the shared one. Undefined, with the reason on record, when it does
   * not start and the trial can do without it. Throws as `startServer` of src/servers.
   */
  readonly startServer: (
    of: TaskOfTrial,
    name: string,
    start: ServerStart,
  ) => Promise<TrialServer | undefined>;
  /** The spec of a task's server, before templates are replaced. */
  readonly specOf: (of: TaskOfTrial, name: string) => ServerSpec;
  /**
   * Starts the required servers, and tries the sandboxes of all. Throws McpvalsError `server/required` and
   * `sandbox/unavailable`.
   */
  startRequired(signal: AbortSignal): Promise<void>;
  /** Stops the servers that no later trial shares. */
  trialEnded(trial: Trial): Promise<void>;
}

interface ProvisioningOptions {
  /** The shell's variables. */
  readonly env: Variables;
  readonly validateSchema: ValidateSchema;
  /** Called with every access token of a server, and the credentials for it, before it is used. */
  readonly onToken: (secret: Secret) => void;
  /** Where trials come from others: it knows what all of them may send. */
  readonly source?: TrialSource | undefined;
  /** Present: servers are replayed, so that none is started or tried before the first trial. */
  readonly replay?: ServerPoolOptions["replay"];
}

/** Calls back with every access token of these servers before it is used, until its disposal; undefined: none gets tokens. */
export async function followTokens(
  servers: readonly ServerSpec[],
  onToken: (secret: Secret) => void,
): Promise<Disposable | undefined> {
  if (!servers.some((server) => "auth" in server)) return undefined;
  return (await import("../servers/http/oauth-tokens.ts")).onTokenIssued(onToken);
}

/** Creates the provisioning of an Eval's trials. Nothing is started yet. */
export function createProvisioning(
  spec: Eval,
  plan: Plan,
  { env, validateSchema, onToken, source, replay }: ProvisioningOptions,
): Provisioning {
  let tokens: Disposable | undefined;
  const pool = new ServerPool({
    version,
    trials: plan.trials,
    validateSchema,
    rateLimits: { most: plan.concurrency, limits: new Map() },
    reserve: source && ((...slots) => source.reserve(...slots)),
    // Only agents outside this process need the gateway, and loading it is slow.
    createGateway: async () => (await import("../servers/gateway/gateway.ts")).createGateway(),
    ...withoutUndefined({ seed: spec.seed, replay }),
  });
  const serverOf = ({ task, trial }: TaskOfTrial, name: string): ServerSpec => {
    const server = effectiveServers(spec, task, trial.variant)[name];
    if (server === undefined) throw new Error(`the plan names a server that the eval lacks: ${name}`);
    return server;
  };
  return {
    async startServer(of, name, { expander, releasePorts, ...start }) {
      const server = serverOf(of, name);
      const expanded = expander === undefined ? server : expandServer(server, expander.text, env);
      await releasePorts(textsOf(expanded));
      return pool.serve({ name, spec: expanded, trial: of.trial }, start);
    },
    specOf: serverOf,
    async startRequired(signal) {
      if (replay !== undefined) return;
      const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
      const servers = plan.trials.flatMap(({ task: name, variant, attempt }) => {
        const task = tasks.get(name);
        if (task === undefined || attempt > 1) return [];
        const hasTemplates = task.portable?.format === "mcp-eval/v1";
        return Object.entries(effectiveServers(spec, task, variant)).map(([name, server]) => ({
          name,
          spec: server,
          hasTemplates,
        }));
      });
      tokens ??= await followTokens(
        servers.map((server) => server.spec),
        onToken,
      );
      await checkSandboxes(
        servers.map((server) => server.spec),
        signal,
      );
      // Servers that depend on the trial cannot start before it.
      const required = servers.flatMap(({ name, spec: server, hasTemplates }) => {
        const known = hasTemplates ? withoutTemplates(server, env) : server;
        return server.required !== true || known === undefined ? [] : [{ name, spec: known }];
      });
      await pool.startRequired(required, signal);
    },
    trialEnded: (trial) => pool.trialEnded(trial),
    async [Symbol.asyncDispose]() {
      await pool[Symbol.asyncDispose]();
      tokens?.[Symbol.dispose]();
    },
  };
}

/** The server with its templates replaced; undefined when their values depend on the trial. */
function withoutTemplates(server: ServerSpec, env: Variables): ServerSpec | undefined {
  let isKnown = true;
  const text = (template: string): string => {
    const plain = plainText(template);
    isKnown &&= plain !== undefined;
    return plain ?? "";
  };
  const expanded = expandServer(server, text, env);
  return isKnown ? expanded : undefined;
}

/** Replaces the templates in a server's spec, except in variables inherited from the shell. Throws `task/template`. */
export function expandServer(server: ServerSpec, text: Expander["text"], shell: Variables): ServerSpec {
  return mapServerTexts(server, text, (value, name) => (shell[name] === value ? value : text(value)));
}

/** The command line and variables of a server's process. */
function textsOf(server: ServerSpec): readonly string[] {
  if (server.transport === "mock") return [];
  const program = server.transport === "stdio" ? server : server.program;
  return program === undefined ? [] : [program.command, ...program.args, ...Object.values(program.env)];
}
