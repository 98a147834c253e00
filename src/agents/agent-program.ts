import { type ErrorDetails, McpvalsError, messageOf } from "../base/error.ts";
import { copyFile, lstat, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, isAbsolute, join } from "node:path";
import type { ErrorCode } from "../base/catalogue.ts";
import { type TemplateName, templateNames, templatePlace } from "./declared-agents.ts";
import { withoutUndefined } from "../base/json.ts";
import type { AcpAgentSpec, AgentSkills, CommandAgentSpec } from "../model/agent.ts";
import { maxExpansionLength } from "../base/limits.ts";
import { TextRoom } from "../base/text-room.ts";
import type { Emit } from "../model/event.ts";
import { makeFolder } from "../base/files.ts";
import { findProgram } from "../process/environment.ts";
import {
  type ManagedProcess,
  type ProcessSpec,
  spawnProcess,
  type StopOptions,
  type StoppedBy,
} from "../process/spawn.ts";
import type { AgentContext } from "./driver.ts";
import { ProgramLines } from "./program-lines.ts";
import { presetNamed } from "./programs/presets.ts";

export interface AgentProgramOptions extends ProcessSpec {
  /** The agent's name. */
  readonly name: string;
  readonly emit: Emit;
  /** The program is expected to end by itself, with code 0. */
  readonly endsItself?: true;
}

/** Starts an agent's program. Throws McpvalsError `agent/spawn-failed`. */
export async function startAgentProgram(options: AgentProgramOptions): Promise<AgentProgram> {
  try {
    return new AgentProgram(await spawnProcess(options), options);
  } catch (cause) {
    if (!(cause instanceof McpvalsError)) throw cause;
    const details = withoutUndefined({ hint: cause.details.hint, cause });
    throw new McpvalsError("agent/spawn-failed", `agent ${options.name}: ${cause.message}`, details);
  }
}

/** A running agent program, whose stderr and end are recorded. */
export class AgentProgram {
  readonly process: ManagedProcess;
  readonly #name: string;
  readonly #stderr: ProgramLines;
  #stopRequested = false;
  #isStopped = false;
  #stoppedBy: StoppedBy | undefined;

  constructor(process: ManagedProcess, { name, emit, endsItself }: AgentProgramOptions) {
    this.process = process;
    this.#name = name;
    this.#stderr = new ProgramLines("stderr", emit);
    process.stderr.on("data", (chunk: Buffer) => {
      if (!this.#isStopped) this.#stderr.push(chunk);
    });
    void process.exited.then(({ exitCode, signal }) => {
      const expected = this.#stopRequested || (endsItself === true && exitCode === 0);
      return emit({ type: "agent.exited", exitCode, signal, expected });
    });
  }

  /** Ends the program with everything that it started. Never throws. */
  async stop(options?: StopOptions): Promise<void> {
    this.#stopRequested ||= this.process.exit === undefined;
    this.#stoppedBy = (await this.process.stop(options)).by;
    if (!this.#isStopped) this.#stderr.finish();
    this.#isStopped = true;
  }

  /** Once it has been stopped: it had ended without a signal from mcpvals, and not with code 0. */
  get endedBadly(): boolean {
    const isOwnEnd = this.#stoppedBy === "already-exited" || this.#stoppedBy === "stdin";
    return isOwnEnd && this.process.exit?.exitCode !== 0;
  }

  /** An error with the last 4 KiB of stderr as its detail, after `detail`. */
  error(code: ErrorCode, message: string, { detail, ...details }: ErrorDetails = {}): McpvalsError {
    const text = [detail, this.#stderr.tail].filter((each) => each !== undefined).join("\n");
    return new McpvalsError(code, message, { ...details, ...(text === "" ? {} : { detail: text }) });
  }

  /** The error for an unexpected end. */
  exitedError(doing: string): McpvalsError {
    const { exitCode, signal } = this.process.exit ?? { exitCode: null, signal: null };
    const how = signal === null ? `with code ${exitCode}` : `by ${signal}`;
    return this.error("agent/exited", `agent ${this.#name} ended ${how} ${doing}`);
  }
}

/** The details of the error `agent/auth`: how to log in. `offers` are the program's own names of ways to log in. */
export function loginDetails(preset: string | undefined, offers: readonly string[] = []): ErrorDetails {
  const keys = (presetNamed(preset)?.inheritEnv ?? []).filter((name) => /KEY|TOKEN/.test(name));
  const named = keys.length === 0 ? "the variable that it takes its key from" : keys.join(" or ");
  const offered = offers.length === 0 ? "" : ` It offers: ${offers.join(", ")}.`;
  return { hint: `Log in with the program itself in a terminal, or set ${named}.${offered}` };
}

/**
 * Throws McpvalsError `agent/program-not-found` when an agent's program cannot be found. A path that is relative to the
 * workspace of a trial, which does not exist yet, is not checked. `npmPackage` contains the program.
 */
export async function findAgentProgram(
  { name, command, env, cwd }: Pick<AcpAgentSpec | CommandAgentSpec, "name" | "command" | "env" | "cwd">,
  npmPackage?: string,
): Promise<void> {
  if (cwd === undefined && !isAbsolute(command) && /[/\\]/.test(command)) return;
  if ((await findProgram(command, { env, cwd: cwd ?? tmpdir() })) !== undefined) return;
  const install = npmPackage === undefined ? "Install it" : `Install it (npm install --global ${npmPackage})`;
  throw new McpvalsError("agent/program-not-found", `agent ${name}: program not found: ${command}`, {
    hint: `${install}, or give its full path as command.`,
  });
}

/** The values of the names in a program's command line; see `CommandAgentSpec`. */
export interface TemplateValues extends Readonly<Record<Exclude<TemplateName, "server">, string>> {
  /** The server that the argument is for. */
  readonly server?: string;
  /** Addresses by server; absent for a command line, which every user of the machine can read. */
  readonly servers?: ReadonlyMap<string, string>;
}

/**
 * Replaces the names in a text by their values, unchanged; any other brace is text, and `{{` is one brace. Throws
 * McpvalsError `config/unknown-reference` for an unknown server, `config/public-secret` for any server where there are no
 * addresses, and `config/invalid-value` for a text that becomes too long.
 */
export function fillTemplate(text: string, { servers, ...values }: TemplateValues): string {
  const room = new TextRoom(
    () =>
      new McpvalsError(
        "config/invalid-value",
        `an argument or variable of the agent's program becomes longer than ${maxExpansionLength} characters`,
        { hint: "It contains the prompt too often." },
      ),
  );
  return text.replaceAll(templatePlace, (written: string, name?: string, server?: string) => {
    if (written === "{{") return "{";
    if (server !== undefined) return addressOf(server, servers);
    const known = templateNames.find((each) => each === name);
    return known === undefined ? written : room.take(values[known] ?? "");
  });
}

function addressOf(server: string, servers: TemplateValues["servers"]): string {
  const place = `{servers.${server}.url}`;
  if (servers === undefined)
    throw new McpvalsError(
      "config/public-secret",
      `${place} in a command line would show a secret address to every user of this machine`,
      { hint: "Write it into a variable of the agent's env." },
    );
  const url = servers.get(server);
  if (url !== undefined) return url;
  throw new McpvalsError("config/unknown-reference", `${place}: the trial has no such server`, {
    hint: servers.size === 0 ? "It has none." : `It has: ${[...servers.keys()].join(", ")}.`,
  });
}

/** Most files that are copied for one trial. */
const maxFiles = 10_000;

/**
 * Copies skills into the workspace, to where the agent looks for them, and records that; links are copied as their
 * targets. Throws McpvalsError `agent/skills`.
 */
export async function copySkills(
  skills: AgentSkills | undefined,
  { workspace, emit }: Pick<AgentContext, "workspace" | "emit">,
): Promise<void> {
  if (skills === undefined) return;
  const { folders, mountPath, tool } = skills;
  let files = 0;
  const copyFolder = async (from: string, to: string): Promise<void> => {
    makeFolder(to);
    for (const name of await readdir(from)) {
      const [source, target] = [join(from, name), join(to, name)];
      files += 1;
      if (files > maxFiles) throw failure(`the skills have more than ${maxFiles} files`);
      const found = await stat(source);
      if (found.isDirectory()) await copyFolder(source, target);
      else if (found.isFile()) await copyFile(source, target);
      else throw failure(`${source} is neither a file nor a folder`);
    }
  };
  try {
    let mount = workspace;
    for (const name of mountPath.split("/")) {
      mount = join(mount, name);
      makeFolder(mount);
      // A setup step may have made a link here, which could lead out of the workspace.
      if ((await lstat(mount)).isSymbolicLink()) throw failure(`${mount} is a link`);
    }
    for (const folder of folders) {
      const isSkill = (await readdir(folder)).includes("SKILL.md");
      await copyFolder(folder, isSkill ? join(mount, basename(folder)) : mount);
    }
    const entries = await readdir(mount, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    emit({
      type: "skills.copied",
      ...withoutUndefined({ folder: mountPath, skills: names.toSorted(), tool }),
    });
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = messageOf(cause);
    throw failure(`the skills cannot be copied: ${reason}`, cause);
  }
}

function failure(message: string, cause?: unknown): McpvalsError {
  return new McpvalsError("agent/skills", message, { cause });
}
