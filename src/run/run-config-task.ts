import type { Emit } from "../core/trace/events.ts";
import { abortAfter } from "../process/deadline.ts";
import { runSequence } from "../steps/running/run-sequence.ts";
import { runStep } from "../steps/running/run-step.ts";
import { runPhase, trialTimeout } from "./run-phase.ts";
import { clientSideOf } from "./client-side.ts";
import { plainTrial } from "./plain-trial.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import type { TrialServers } from "./trial-servers.ts";
import { createFolder } from "./workspace.ts";

/** Runs a workflow or a tool test of a config. Throws what ended it early. */
export async function runConfigTask(run: TrialRun, ports: TrialPorts, servers: TrialServers): Promise<void> {
  const { trial, task, emit } = run;
  const agent = trial.agent === null ? undefined : await ports.createAgent(trial.agent);
  await agent?.prepare();
  const { trialMs, callMs: callTimeoutMs } = ports.limits;
  using deadline = abortAfter(trialMs, () => trialTimeout(trialMs), run.signal);
  deadline.signal.throwIfAborted();
  const workspace = agent?.reach === "endpoints" ? await agentFolder(emit, servers) : "";
  const side = agent === undefined ? {} : clientSideOf(agent, { emit, workspace, task });
  await runPhase("servers", emit, () =>
    servers.start({ signal: deadline.signal, releasePorts: () => Promise.resolve(), ...side }),
  );
  using alive = servers.whileAlive(deadline.signal);
  const { signal } = alive;
  const { sessions, absent } = servers;
  if (agent !== undefined) {
    const { name, turns } = task;
    const defer = (work: () => Promise<void>): void => servers.defer(work);
    await runPhase("agent", emit, () =>
      servers.forAgent(agent, signal, (ways) =>
        agent.run({ task: name, turns, ...ways, emit, signal, callTimeoutMs, workspace, defer }),
      ),
    );
    signal.throwIfAborted();
  }
  if (task.verify.length > 0) {
    await runPhase("verify", emit, async () => {
      const trial = plainTrial(task.name);
      const context = { phase: "verify" as const, sessions, absent, emit, signal, scope: undefined, trial };
      const { error } = await runSequence(task.verify, context, { kind: "verify", run: runStep });
      if (error !== undefined) throw error;
    });
    signal.throwIfAborted();
  }
}

/** A program has to be somewhere. */
async function agentFolder(emit: Emit, servers: TrialServers): Promise<string> {
  return runPhase("workspace", emit, async () => {
    const folder = await createFolder();
    servers.defer(() => folder.remove());
    emit({ type: "workspace.created", path: folder.path, fixtures: [] });
    return folder.path;
  });
}
