import { presets } from "../core/formats/presets/presets.ts";
import type { AcpAgentSpec } from "../core/formats/model.ts";
import { AcpSession } from "./programs/acp-session.ts";
import { findAgentProgram, type ProgramAgentOptions, startAgentProgram } from "./programs/agent-program.ts";
import { copySkills } from "./programs/copy-skills.ts";
import { withModelProxy } from "./programs/model-proxy.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";

export interface AcpAgentOptions extends ProgramAgentOptions {
  /** Longest that the program may take for its first answer, and to begin a session, in milliseconds. Default: 60000. */
  readonly startupMs?: number;
}

/**
 * Makes an agent that is a program which speaks the Agent Client Protocol. It is started for each trial, plays all user
 * turns in one session, and is stopped with everything that it started.
 *
 * `prepare` throws McpvalsError `agent/program-not-found`. `run` throws `agent/spawn-failed`, `agent/exited`,
 * `agent/protocol`, `agent/startup-timeout`, `agent/auth`, `agent/failed`, `agent/skills`, `agent/model-not-offered`, and the signal's
 * reason.
 */
export function createAcpAgent(spec: AcpAgentSpec, options: AcpAgentOptions): AgentDriver {
  const facts = spec.preset === undefined ? undefined : presets[spec.preset];
  return {
    reach: "endpoints",
    prepare: () => findAgentProgram(spec, facts?.acp.package),
    run: async (context) => {
      context.signal.throwIfAborted();
      await withModelProxy(spec, context, (env) => runProgram({ ...spec, env }, context, options));
    },
  };
}

async function runProgram(
  spec: AcpAgentSpec,
  context: AgentContext,
  options: AcpAgentOptions,
): Promise<void> {
  const { emit, signal } = context;
  const { name, command, args, env } = spec;
  const cwd = spec.cwd ?? context.workspace;
  await copySkills(spec.skills, context);
  const program = await startAgentProgram({ name, command, args, env, cwd, emit });
  const session = new AcpSession({ spec, program, context, cwd, ...options });
  try {
    await session.open();
    for (const [turn, { user }] of context.turns.entries()) await session.play(turn, user);
  } finally {
    await session.close();
    await program.stop(signal.aborted ? { stdinMs: 0 } : {});
    await session.finished();
  }
  // What crashes with its answer may not have done what it says.
  if (program.endedBadly) throw program.exitedError("after its last turn");
}
