import { copyFile, lstat, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, isAbsolute, join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { templateNames, templatePlace } from "../../core/formats/agent-templates.ts";
import type { AcpAgentSpec, AgentSkills, CommandAgentSpec } from "../../core/formats/model.ts";
import { longestExpansion, TextRoom } from "../../core/templates/text-room.ts";
import type { Emit } from "../../core/trace/events.ts";
import { makeFolder } from "../../files/make-folder.ts";
import { findProgram } from "../../process/environment.ts";
import type { StopOptions, StoppedBy } from "../../process/process-tree.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../../process/spawn.ts";
import type { AgentContext } from "../driver.ts";
import { ProgramLines } from "./json-lines.ts";

/** A running agent program. */
export interface AgentProgram {
  readonly process: ManagedProcess;
  /** The last 4 KiB of its stderr. */
  stderrTail(): string | undefined;
  /** Ends it with everything that it started, and records its end once. Never throws. */
  stop(options?: StopOptions): Promise<void>;
  /** When it has been stopped: it ended without a signal of ours, and not with code 0. */
  readonly endedBadly: boolean;
  /** The error for an end that nobody asked for. */
  exitedError(doing: string): McpvalsError;
}

export interface AgentProgramOptions extends ProcessSpec {
  /** The agent's name. */
  readonly name: string;
  readonly emit: Emit;
  /** It is to end by itself, with code 0. */
  readonly endsItself?: true;
}

/**
 * Starts an agent's program, recording its stderr and its end. Throws McpvalsError `agent/spawn-failed`.
 */
export async function startAgentProgram(options: AgentProgramOptions): Promise<AgentProgram> {
  const process = await spawn(options);
  return new RunningProgram(process, options);
}

async function spawn(options: AgentProgramOptions): Promise<ManagedProcess> {
  try {
    return await spawnProcess(options);
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { hint } = error.details;
    throw new McpvalsError("agent/spawn-failed", `agent ${options.name}: ${error.message}`, {
      ...(hint === undefined ? {} : { hint }),
      cause: error,
    });
  }
}

class RunningProgram implements AgentProgram {
  readonly process: ManagedProcess;
  readonly #options: AgentProgramOptions;
  readonly #stderr: ProgramLines;
  #asked = false;
  #ended = false;
  #stoppedBy: StoppedBy | undefined;

  constructor(process: ManagedProcess, options: AgentProgramOptions) {
    this.process = process;
    this.#options = options;
    this.#stderr = new ProgramLines({ stream: "stderr", emit: options.emit });
    process.stderr.on("data", (chunk: Buffer) => {
      if (!this.#ended) this.#stderr.push(chunk);
    });
    void process.exited.then(() => this.#recordExit());
  }

  stderrTail(): string | undefined {
    return this.#stderr.tail;
  }

  async stop(options?: StopOptions): Promise<void> {
    this.#asked ||= this.process.exit === undefined;
    this.#stoppedBy = (await this.process.stop(options)).by;
    if (this.#ended) return;
    this.#ended = true;
    this.#stderr.finish();
  }

  get endedBadly(): boolean {
    const isOwnEnd = this.#stoppedBy === "already-exited" || this.#stoppedBy === "stdin";
    return isOwnEnd && this.process.exit?.exitCode !== 0;
  }

  exitedError(doing: string): McpvalsError {
    const { exitCode, signal } = this.process.exit ?? { exitCode: null, signal: null };
    const how = signal === null ? `with code ${exitCode}` : `by ${signal}`;
    const detail = this.stderrTail();
    const message = `agent ${this.#options.name} ended ${how} ${doing}`;
    return new McpvalsError("agent/exited", message, detail === undefined ? {} : { detail });
  }

  #recordExit(): void {
    const { exitCode, signal } = this.process.exit ?? { exitCode: null, signal: null };
    const expected = this.#asked || (this.#options.endsItself === true && exitCode === 0);
    this.#options.emit({ type: "agent.exited", exitCode, signal, expected });
  }
}

/** What programs that are agents need besides their own description. */
export interface ProgramAgentOptions {
  /** Version of mcpvals, as agents are told. */
  readonly version: string;
}

type Program = Pick<AcpAgentSpec | CommandAgentSpec, "name" | "command" | "env" | "cwd">;

/**
 * Throws McpvalsError `agent/program-not-found` when an agent's program cannot be found. A path that is relative to the
 * workspace of a trial, which does not exist yet, is not looked at. `npmPackage` is what has the program.
 */
export async function findAgentProgram(
  { name, command, env, cwd }: Program,
  npmPackage?: string,
): Promise<void> {
  if (cwd === undefined && !isAbsolute(command) && /[/\\]/.test(command)) return;
  if ((await findProgram(command, { env, cwd: cwd ?? tmpdir() })) !== undefined) return;
  const install = npmPackage === undefined ? "Install it" : `Install it (npm install --global ${npmPackage})`;
  throw new McpvalsError("agent/program-not-found", `agent ${name}: program not found: ${command}`, {
    hint: `${install}, or give its full path as command.`,
  });
}

/** What stands for the names in a program's command line; see `CommandAgentSpec`. */
export interface TemplateValues {
  readonly prompt: string;
  /** The prompt as JSON, in double quotes. */
  readonly promptJson: string;
  readonly workspace: string;
  readonly cwd: string;
  readonly mcpConfig: string;
  readonly model: string;
  readonly session: string;
  /** Addresses by server; absent for a command line, which every user of the machine can read. */
  readonly servers?: ReadonlyMap<string, string>;
}

/**
 * Replaces the names in a text. What replaces them is taken as it is; a brace before anything else is a brace, and `{{` is
 * one too. Throws McpvalsError `config/unknown-reference` for a server that is not there, `config/public-secret` for any where
 * there are no addresses, and `config/invalid-value` for a text that becomes too long.
 */
export function fillTemplate(text: string, values: TemplateValues): string {
  const room = new TextRoom(tooLong);
  return text.replaceAll(templatePlace, (written: string, name?: string, server?: string) => {
    if (written === "{{") return "{";
    if (server !== undefined) return addressOf(server, values.servers);
    const known = templateNames.find((each) => each === name);
    return known === undefined ? written : room.take(values[known]);
  });
}

function tooLong(): McpvalsError {
  return new McpvalsError(
    "config/invalid-value",
    `an argument or variable of the agent's program becomes longer than ${longestExpansion} characters`,
    { hint: "It contains the prompt too often." },
  );
}

function addressOf(server: string, servers: TemplateValues["servers"]): string {
  if (servers === undefined)
    throw new McpvalsError(
      "config/public-secret",
      `{servers.${server}.url} in a command line would show a secret address to every user of this machine`,
      { hint: "Write it into a variable of the agent's env." },
    );
  const url = servers.get(server);
  if (url !== undefined) return url;
  const known = [...servers.keys()].join(", ");
  throw new McpvalsError(
    "config/unknown-reference",
    `{servers.${server}.url}: the trial has no such server`,
    {
      hint: known === "" ? "It has none." : `It has: ${known}.`,
    },
  );
}

/** Most files that are copied for one trial. */
const mostFiles = 10_000;

/**
 * Copies skills into the workspace, to where the agent looks for them, and says so in the trace; links are copied as what
 * they lead to. Throws McpvalsError `agent/skills`.
 */
export async function copySkills(
  skills: AgentSkills | undefined,
  { workspace, emit }: Pick<AgentContext, "workspace" | "emit">,
): Promise<void> {
  if (skills === undefined) return;
  const { folders, mountPath, tool } = skills;
  try {
    const mount = await makeMount(workspace, mountPath);
    const copy = new SkillCopy();
    for (const folder of folders) {
      const isSkill = (await readdir(folder)).includes("SKILL.md");
      await copy.folder(folder, isSkill ? join(mount, basename(folder)) : mount);
    }
    const entries = await readdir(mount, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const told = { folder: mountPath, skills: names.toSorted(), ...(tool === undefined ? {} : { tool }) };
    emit({ type: "skills.copied", ...told });
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw failure(`the skills cannot be copied: ${reason}`, cause);
  }
}

/** What was made in the workspace before may have put a link there, which is not followed. */
async function makeMount(workspace: string, mountPath: string): Promise<string> {
  let folder = workspace;
  for (const name of mountPath.split("/")) {
    folder = join(folder, name);
    makeFolder(folder);
    if ((await lstat(folder)).isSymbolicLink()) throw failure(`${folder} is a link`);
  }
  return folder;
}

/** Copies folders, as many files as are allowed. */
class SkillCopy {
  #files = 0;

  async folder(from: string, to: string): Promise<void> {
    makeFolder(to);
    for (const name of await readdir(from)) {
      const [source, target] = [join(from, name), join(to, name)];
      this.#files += 1;
      if (this.#files > mostFiles) throw failure(`the skills have more than ${mostFiles} files`);
      const found = await stat(source);
      if (found.isDirectory()) await this.folder(source, target);
      else if (found.isFile()) await copyFile(source, target);
      else throw failure(`${source} is neither a file nor a folder`);
    }
  }
}

function failure(message: string, cause?: unknown): McpvalsError {
  return new McpvalsError("agent/skills", message, { cause });
}
