import { maxMessageBytes } from "../base/limits.ts";
import { McpvalsError } from "../base/error.ts";
import { mentions } from "./declared-agents.ts";
import { mapValues, withoutUndefined } from "../base/json.ts";
import type { CommandAgentSpec } from "../model/agent.ts";
import type { OutputEvent, OutputReader, ToolUse } from "./programs/preset.ts";
import type { Emit, TurnEnd } from "../model/event.ts";
import { toolOrigin } from "./tool-origin.ts";
import { abortWithAny, settlesWithin, untilAborted } from "../process/deadline.ts";
import { closed } from "../process/process-tree.ts";
import { ByteStore } from "../process/program-output.ts";
import { writeClientFiles, writeMcpConfigFile } from "./write-client-files.ts";
import {
  copySkills,
  fillTemplate,
  findAgentProgram,
  loginDetails,
  startAgentProgram,
  type TemplateValues,
} from "./agent-program.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { environmentAtHome, type HomeOptions } from "./home.ts";
import { withModelProxy } from "./model-proxy.ts";
import { JsonLines, ProgramLines } from "./program-lines.ts";
import { presetNamed, type McpClient } from "./programs/presets.ts";

/** How long what a program wrote before its end may take to arrive, in milliseconds. */
const drainMs = 1000;

/**
 * Creates an agent: a program that is started once for each user turn; see `CommandAgentSpec` for the placeholders in
 * its command line. Everything that the program started ends with the turn. What it prints is recorded as it comes.
 *
 * A program that exits with another code than 0, or reports that it could not act, is an error, not bad behaviour.
 * `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/failed`, `agent/auth`, `agent/home`, `agent/skills`, `agent/protocol` (its output does not have the configured format),
 * `agent/client-config`, `config/unknown-reference` (a template names an unknown server), `config/public-secret` (a template
 * in the command line names an address), and the signal's reason.
 */
export function createCommandAgent(spec: CommandAgentSpec, options: HomeOptions = {}): AgentDriver {
  return {
    reach: "endpoints",
    prepare: async () => {
      if (!spec.command.includes("{"))
        await findAgentProgram(spec, presetNamed(spec.preset)?.headless.package);
    },
    run: async (context) => {
      context.signal.throwIfAborted();
      const home = await environmentAtHome(spec, context, options);
      await withModelProxy({ ...spec, env: home }, context, (env) =>
        playWithFiles({ ...spec, env }, context),
      );
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
  const config = needsConfig ? await writeMcpConfigFile(endpoints, connect, spec.preset) : undefined;
  try {
    const files = await writeClientFiles(cwd, configFiles as readonly McpClient[], endpoints, {
      connect,
      emit,
      signal,
    });
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
  const { name, model, cwd = workspace } = spec;
  const hides = presetNamed(spec.preset)?.headless.hides;
  emit({ type: "agent.started", agent: name, kind: "command", ...withoutUndefined({ model, hides }) });
  const output = new ConversationOutput(
    spec,
    endpoints.map(({ server }) => server),
    emit,
  );
  const servers = new Map(endpoints.map(({ server, url }) => [server, url]));
  let turn = 0;
  for await (const { user } of turns) {
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
    const reason = await playTurn(spec, context, turn, values, output.begin(turn));
    emit({ type: "turn.finished", turn, reason });
    turn += 1;
  }
}

async function playTurn(
  spec: CommandAgentSpec,
  { emit, signal }: AgentContext,
  turn: number,
  values: TemplateValues,
  output: TurnOutput,
): Promise<TurnEnd> {
  const { name } = spec;
  const { servers: _, ...publicValues } = values;
  const args = turn === 0 ? spec.args : (spec.nextArgs ?? spec.args);
  const program = await startAgentProgram({
    name,
    command: fillTemplate(spec.command, publicValues),
    args: args.flatMap((text) => argumentsOf(text, publicValues, [...(values.servers?.keys() ?? [])])),
    env: mapValues(spec.env, (text) => fillTemplate(text, values)),
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

/** One argument, or, where it has `{server}`, one for each server. */
function argumentsOf(text: string, values: TemplateValues, servers: readonly string[]): readonly string[] {
  if (!mentions(text, "server")) return [fillTemplate(text, values)];
  return servers.map((server) => fillTemplate(text, { ...values, server }));
}

/** What is known of a turn when its program has ended. */
export interface TurnResult {
  readonly reason: TurnEnd;
  /** Why the program could not act, in its own words. */
  readonly failure?: string;
  /** Whether anything was in the expected format. */
  readonly understood: boolean;
  /** The event that ends a turn, if it is missing: the output was cut off. */
  readonly missing?: string;
}

/** Takes what one turn's program prints. */
interface TurnOutput {
  /** Aborts with McpvalsError `agent/auth` when the program reports that its key was refused. */
  readonly refused: AbortSignal;
  /** Never throws. */
  push(chunk: Buffer): void;
  /** Throws unexpected errors in reading what was printed. */
  finish(): TurnResult;
}

/** Longest message of a program whose whole output is its message, in bytes. */
const textLimit = 1024 * 1024;

type OutputSpec = Pick<CommandAgentSpec, "name" | "output" | "preset" | "skills">;

/** Turns what a program prints in all turns of a conversation into events. */
export class ConversationOutput {
  /** Id of the program's session; empty until it reports one. */
  session = "";
  readonly #spec: OutputSpec;
  readonly #servers: readonly string[];
  readonly #emitEvent: Emit;
  readonly #reader: OutputReader | undefined;
  readonly #firstTurns = new Map<string, number>();

  constructor(spec: OutputSpec, servers: readonly string[], emit: Emit) {
    this.#spec = spec;
    this.#servers = servers;
    this.#emitEvent = emit;
    this.#reader = spec.output === "text" ? undefined : presetNamed(spec.output)?.createReader();
  }

  begin(turn: number): TurnOutput {
    return this.#reader === undefined ? this.#beginText(turn) : this.#beginLines(turn, this.#reader);
  }

  #beginText(turn: number): TurnOutput {
    const emit = this.#emitEvent;
    const printed = new ByteStore();
    let length = 0;
    return {
      refused: new AbortController().signal,
      push(chunk) {
        printed.push(chunk.subarray(0, Math.max(0, textLimit - length)));
        length += chunk.length;
      },
      finish() {
        const text = printed.take().toString("utf8").trimEnd();
        if (text !== "") emit({ type: "agent.message", turn, text });
        if (length > textLimit) {
          const omission = `[${length - textLimit} more bytes were left out]\n`;
          emit({ type: "agent.output", stream: "stdout", text: omission });
        }
        return { reason: "done", understood: true };
      },
    };
  }

  #beginLines(turn: number, reader: OutputReader): TurnOutput {
    const { name, preset } = this.#spec;
    const others = new ProgramLines("stdout", this.#emitEvent);
    const refused = new AbortController();
    let result: TurnResult = { reason: "done", understood: false };
    let isComplete = false;
    let broken: unknown;
    const take = (events: readonly OutputEvent[]): void => {
      if (events.length === 0) return;
      isComplete = events.some(({ kind }) => kind === "complete");
      result = { ...result, understood: true };
      for (const event of events) {
        if (event.kind === "end") result = { ...result, reason: event.reason };
        else if (event.kind === "failed") result = { ...result, failure: event.message };
        else if (event.kind === "refused") {
          const message = `agent ${name} is not logged in: ${event.message}`;
          refused.abort(new McpvalsError("agent/auth", message, loginDetails(preset)));
        } else this.#emit(event, turn);
      }
    };
    const lines = new JsonLines({
      limit: maxMessageBytes,
      onBroken: (problem) => (result = { ...result, failure: `it ${problem}` }),
      onObject: (line) => take(reader.read(line)),
      onOther: (line) => others.push(line),
    });
    return {
      refused: refused.signal,
      push(chunk) {
        try {
          if (broken === undefined) lines.push(chunk);
        } catch (error) {
          // The caller is a listener of a stream, where nothing could catch it.
          broken = error;
        }
      },
      finish() {
        if (broken !== undefined) throw broken;
        lines.finish();
        take(reader.finish());
        others.finish();
        return isComplete ? result : { ...result, missing: reader.lastEvent };
      },
    };
  }

  #emit(event: OutputEvent, turn: number): void {
    const emit = this.#emitEvent;
    if (event.kind === "session") this.session = event.id;
    else if (event.kind === "message") emit({ type: "agent.message", turn, text: event.text });
    else if (event.kind === "tool") this.#emitTool(event, turn);
    else if (event.kind === "usage") emit({ type: "agent.usage", source: "agent", usage: event.usage });
    else if (event.kind === "note") emit({ type: "agent.output", stream: "stdout", text: `${event.text}\n` });
    else if (event.kind === "ran") {
      const { kind: _, ...reported } = event;
      emit({ type: "agent.reported", ...reported });
    }
  }

  #emitTool({ callId, name, status, args, result, parentCallId, origin }: ToolUse, turn: number): void {
    const { output, skills } = this.#spec;
    const [servers, skillTool] = [this.#servers, skills?.tool];
    // Some programs count their calls from the beginning in each turn.
    const unique = (id: string): string => {
      const first = this.#firstTurns.get(id) ?? turn;
      this.#firstTurns.set(id, first);
      return first === turn ? id : `${id} (turn ${turn})`;
    };
    const preset = output === "text" ? this.#spec.preset : output;
    const parent = parentCallId === undefined ? undefined : unique(parentCallId);
    const source =
      origin === undefined
        ? toolOrigin(name, { servers, skillTool, ...withoutUndefined({ preset }) })
        : { source: `mcp:${origin.server}`, tool: origin.tool };
    const use = withoutUndefined({ ...source, status, args, result, parentCallId: parent });
    this.#emitEvent({ type: "agent.tool", turn, callId: unique(callId), name, ...use });
  }
}
