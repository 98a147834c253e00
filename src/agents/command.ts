import { mentions } from "../core/formats/agent-templates.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { CommandAgentSpec } from "../core/formats/model.ts";
import type { TurnEnd } from "../core/trace/events.ts";
import { abortWithAny, settlesWithin, untilAborted } from "../process/deadline.ts";
import { closed } from "../process/process-tree.ts";
import { writeClientFiles, writeMcpConfigFile } from "../servers/client-files/write-client-files.ts";
import {
  copySkills,
  fillTemplate,
  findAgentProgram,
  presetOf,
  startAgentProgram,
  type TemplateValues,
} from "./agent-program.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { withModelProxy } from "./model-proxy.ts";
import { ConversationOutput, type TurnOutput, type TurnResult } from "./turn-output.ts";

/** How long what a program wrote before its end may take to arrive, in milliseconds. */
const drainMs = 1000;

/**
 * Creates an agent: a program that is started once for each user turn; see `CommandAgentSpec` for the placeholders in
 * its command line. Everything that the program started ends with the turn. What it prints is recorded as it comes.
 *
 * A program that exits with another code than 0, or reports that it could not act, is an error, not bad behaviour.
 * `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/failed`, `agent/auth`, `agent/skills`, `agent/protocol` (its output does not have the configured format),
 * `agent/client-config`, `config/unknown-reference` (a template names an unknown server), `config/public-secret` (a template
 * in the command line names an address), and the signal's reason.
 */
export function createCommandAgent(spec: CommandAgentSpec): AgentDriver {
  return {
    reach: "endpoints",
    prepare: async () => {
      if (!spec.command.includes("{")) await findAgentProgram(spec, presetOf(spec.preset)?.headless.package);
    },
    run: async (context) => {
      context.signal.throwIfAborted();
      await withModelProxy(spec, context, (env) => playWithFiles({ ...spec, env }, context));
    },
  };
}

/** Plays the conversation while the files exist that lead the program to the servers. */
async function playWithFiles(spec: CommandAgentSpec, context: AgentContext): Promise<void> {
  const { endpoints, emit, signal, workspace } = context;
  const { command, args, nextArgs = [], env, connect = "http", configFiles, cwd = workspace } = spec;
  await copySkills(spec.skills, context);
  const texts = [command, ...args, ...nextArgs, ...Object.values(env)];
  const needsConfig = texts.some((text) => mentions(text, "mcpConfig"));
  const config = needsConfig ? await writeMcpConfigFile(endpoints, connect) : undefined;
  try {
    const files = await writeClientFiles(cwd, configFiles, endpoints, { connect, emit, signal });
    context.defer(() => files.restore());
    try {
      await playTurns(spec, context, config?.path ?? "");
    } catch (error) {
      // If restoring fails, it is tried again when the trial ends; the first error is the one that counts.
      await Promise.allSettled([files.restore()]);
      throw error;
    }
    await files.restore();
  } finally {
    config?.remove();
  }
}

async function playTurns(spec: CommandAgentSpec, context: AgentContext, mcpConfig: string): Promise<void> {
  const { emit, endpoints, turns, signal, workspace } = context;
  const { name, model, preset, cwd = workspace } = spec;
  emit({ type: "agent.started", agent: name, kind: "command", ...withoutUndefined({ model }) });
  const output = new ConversationOutput({
    agent: name,
    output: spec.output,
    servers: endpoints.map(({ server }) => server),
    skillTool: spec.skills?.tool,
    emit,
    ...withoutUndefined({ preset }),
  });
  const servers = new Map(endpoints.map(({ server, url }) => [server, url]));
  for (const [turn, { user }] of turns.entries()) {
    signal.throwIfAborted();
    emit({ type: "turn.started", turn, user });
    const values = {
      prompt: user,
      promptJson: JSON.stringify(user),
      workspace,
      cwd,
      mcpConfig,
      model: model ?? "",
      session: output.session,
      servers,
    };
    const reason = await playTurn(spec, context, { turn, values, output: output.begin(turn) });
    emit({ type: "turn.finished", turn, reason });
  }
}

interface Turn {
  readonly turn: number;
  readonly values: TemplateValues;
  readonly output: TurnOutput;
}

async function playTurn(
  spec: CommandAgentSpec,
  { emit, signal }: AgentContext,
  { turn, values, output }: Turn,
): Promise<TurnEnd> {
  const { name } = spec;
  const { servers: _, ...publicValues } = values;
  const args = turn === 0 ? spec.args : (spec.nextArgs ?? spec.args);
  const env = Object.entries(spec.env).map(([variable, value]) => [variable, fillTemplate(value, values)]);
  const program = await startAgentProgram({
    name,
    command: fillTemplate(spec.command, publicValues),
    args: args.map((text) => fillTemplate(text, publicValues)),
    env: Object.fromEntries(env),
    cwd: values.cwd,
    emit,
    endsItself: true,
  });
  const { stdin, stdout, stderr, exited } = program.process;
  stdout.on("data", (chunk: Buffer) => output.push(chunk));
  stdin.end(spec.stdin ? values.prompt : undefined);
  let result: TurnResult;
  using end = abortWithAny([signal, output.refused]);
  try {
    // The program's own end is the turn's, even if something that it started holds its output open.
    await untilAborted(exited, end.signal);
    const drained = settlesWithin(Promise.all([closed(stdout), closed(stderr)]), drainMs);
    await untilAborted(drained, end.signal);
  } finally {
    await program.stop(signal.aborted ? { stdinMs: 0 } : {});
    result = output.finish();
  }
  signal.throwIfAborted();
  const { failure, reason, understood, missing } = result;
  if (failure !== undefined) throw program.error("agent/failed", `agent ${name} could not act: ${failure}`);
  // An agent that reached the limit of its steps has behaved, whatever its exit code.
  if (reason !== "max-steps" && program.process.exit?.exitCode !== 0)
    throw program.exitedError(`in turn ${turn + 1}`);
  if (!understood)
    throw program.error("agent/protocol", `the output of agent ${name} is not in the ${spec.output} format`, {
      hint: `Check that its arguments make it print JSON Lines as ${spec.output} does, or choose another output.`,
    });
  if (missing !== undefined)
    throw program.error(
      "agent/protocol",
      `the output of agent ${name} ends before the turn does: its last event is not ${missing}`,
      { hint: "Its output was cut off, or the program ended too early; run the same command in a terminal." },
    );
  return reason;
}
