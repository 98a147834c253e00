import { presets } from "../core/formats/presets/presets.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { mentions } from "../core/formats/agent-templates.ts";
import type { CommandAgentSpec } from "../core/formats/model.ts";
import { abortWithAny, settlesWithin, untilAborted } from "../process/deadline.ts";
import { closed } from "../process/process-tree.ts";
import {
  type McpConfigFile,
  writeClientFiles,
  writeMcpConfigFile,
} from "../servers/client-files/write-client-files.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import {
  type AgentProgram,
  copySkills,
  fillTemplate,
  findAgentProgram,
  type ProgramAgentOptions,
  startAgentProgram,
  type TemplateValues,
} from "./programs/agent-program.ts";
import { withModelProxy } from "./programs/model-proxy.ts";
import { ConversationOutput, type TurnOutput, type TurnResult } from "./programs/turn-output.ts";

/** How long what a program wrote before its end may take to arrive, in milliseconds. */
const drainMs = 1000;

/**
 * Creates an agent: a program that is started once for each user turn; see `CommandAgentSpec` for the placeholders in
 * its command line. With each turn ends everything that the program started. What it prints is recorded as it comes.
 *
 * A program that exits with another code than 0, or reports that it could not act, is an error, not an agent that did
 * badly. `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/failed`, `agent/auth`, `agent/skills`, `agent/protocol` (its output does not have the configured format), `agent/client-config`,
 * `config/unknown-reference` (a template names a server that is not there), `config/public-secret` (one in the command line
 * names an address), and the signal's reason.
 */
export function createCommandAgent(spec: CommandAgentSpec, _options: ProgramAgentOptions): AgentDriver {
  return {
    reach: "endpoints",
    prepare: async () => {
      const facts = spec.preset === undefined ? undefined : presets[spec.preset];
      if (!spec.command.includes("{")) await findAgentProgram(spec, facts?.headless.package);
    },
    run: async (context) => {
      context.signal.throwIfAborted();
      await withModelProxy(spec, context, (env) => withFiles({ ...spec, env }, context));
    },
  };
}

/** Plays the conversation while the files that lead the program to servers are there. */
async function withFiles(spec: CommandAgentSpec, context: AgentContext): Promise<void> {
  const { endpoints, emit, signal } = context;
  await copySkills(spec.skills, context);
  const connect = spec.connect ?? "http";
  const config = needsMcpConfig(spec) ? await writeMcpConfigFile(endpoints, connect) : undefined;
  try {
    const folder = spec.cwd ?? context.workspace;
    const files = await writeClientFiles(folder, spec.configFiles, endpoints, { connect, emit, signal });
    context.defer(() => files.restore());
    try {
      await playTurns(spec, context, config);
    } catch (error) {
      // If that fails, it does so once more when the trial ends; what broke first is what counts.
      await settled(files.restore());
      throw error;
    }
    await files.restore();
  } finally {
    config?.remove();
  }
}

async function settled(work: Promise<void>): Promise<void> {
  await Promise.allSettled([work]);
}

function needsMcpConfig({ command, args, nextArgs = [], env }: CommandAgentSpec): boolean {
  const texts = [command, ...args, ...nextArgs, ...Object.values(env)];
  return texts.some((text) => mentions(text, "mcpConfig"));
}

async function playTurns(
  spec: CommandAgentSpec,
  context: AgentContext,
  config: McpConfigFile | undefined,
): Promise<void> {
  const { emit, endpoints, turns, signal } = context;
  const model = spec.model === undefined ? {} : { model: spec.model };
  emit({ type: "agent.started", agent: spec.name, kind: "command", ...model });
  const output = new ConversationOutput({
    agent: spec.name,
    output: spec.output,
    ...(spec.preset === undefined ? {} : { preset: spec.preset }),
    servers: endpoints.map(({ server }) => server),
    skillTool: spec.skills?.tool,
    emit,
  });
  for (const [turn, { user }] of turns.entries()) {
    signal.throwIfAborted();
    emit({ type: "turn.started", turn, user });
    const values = {
      prompt: user,
      promptJson: JSON.stringify(user),
      workspace: context.workspace,
      cwd: spec.cwd ?? context.workspace,
      mcpConfig: config?.path ?? "",
      model: spec.model ?? "",
      session: output.session,
      servers: new Map(endpoints.map(({ server, url }) => [server, url])),
    };
    const reason = await playTurn({ spec, context, turn, values, output: output.begin(turn) });
    emit({ type: "turn.finished", turn, reason });
  }
}

interface TurnRun {
  readonly spec: CommandAgentSpec;
  readonly context: AgentContext;
  readonly turn: number;
  readonly values: TemplateValues;
  readonly output: TurnOutput;
}

async function playTurn(run: TurnRun): Promise<TurnResult["reason"]> {
  const { spec, context, turn } = run;
  const program = await start(run);
  let result: TurnResult;
  using end = abortWithAny([context.signal, run.output.refused]);
  try {
    await untilEnded(program, end.signal);
  } finally {
    await program.stop(context.signal.aborted ? { stdinMs: 0 } : {});
    result = run.output.finish();
  }
  context.signal.throwIfAborted();
  if (result.failure !== undefined) throw failed(spec, program, result.failure);
  // An agent that has come to the end of its steps has behaved, whatever its code.
  const isEnd = result.reason === "max-steps" || program.process.exit?.exitCode === 0;
  if (!isEnd) throw program.exitedError(`in turn ${turn + 1}`);
  if (!result.understood) throw notUnderstood(spec, program);
  if (result.missing !== undefined) throw cutOff(spec, program, result.missing);
  return result.reason;
}

async function start({ spec, context, turn, values, output }: TurnRun): Promise<AgentProgram> {
  const { servers: _secret, ...visible } = values;
  const fill = (text: string): string => fillTemplate(text, visible);
  const args = turn === 0 ? spec.args : (spec.nextArgs ?? spec.args);
  const program = await startAgentProgram({
    name: spec.name,
    command: fill(spec.command),
    args: args.map(fill),
    env: Object.fromEntries(
      Object.entries(spec.env).map(([name, value]) => [name, fillTemplate(value, values)]),
    ),
    cwd: values.cwd,
    emit: context.emit,
    endsItself: true,
  });
  program.process.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  program.process.stdin.end(spec.stdin ? values.prompt : undefined);
  return program;
}

/** The program's own end is the turn's, also when something that it started holds its output open. */
async function untilEnded({ process }: AgentProgram, signal: AbortSignal): Promise<void> {
  await untilAborted(process.exited, signal);
  const ends = Promise.all([closed(process.stdout), closed(process.stderr)]);
  await untilAborted(settlesWithin(ends, drainMs), signal);
}

function failed({ name }: CommandAgentSpec, program: AgentProgram, message: string): McpvalsError {
  return new McpvalsError("agent/failed", `agent ${name} could not act: ${message}`, detailOf(program));
}

function notUnderstood({ name, output }: CommandAgentSpec, program: AgentProgram): McpvalsError {
  return new McpvalsError("agent/protocol", `the output of agent ${name} is not in the ${output} format`, {
    hint: `Check that its arguments make it print JSON Lines as ${output} does, or choose another output.`,
    ...detailOf(program),
  });
}

function cutOff({ name }: CommandAgentSpec, program: AgentProgram, missing: string): McpvalsError {
  return new McpvalsError(
    "agent/protocol",
    `the output of agent ${name} ends before the turn does: its last event is not ${missing}`,
    {
      hint: "Its output was cut off, or the program ended too early; run the same command in a terminal.",
      ...detailOf(program),
    },
  );
}

function detailOf(program: AgentProgram): { readonly detail?: string } {
  const detail = program.stderrTail();
  return detail === undefined ? {} : { detail };
}
