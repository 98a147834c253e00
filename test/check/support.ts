import { readCheck } from "../../src/check/check-view.ts";
import { findDefects } from "../../src/check/catalogue.ts";
import type { Finding, RunFinding } from "../../src/model/finding.ts";
import type { CheckKind, CheckSpec } from "../../src/model/check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Task } from "../../src/model/task.ts";
import { exitCode } from "../../src/report/result.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { buildTrajectory } from "../../src/trace/trajectory.ts";
import { probeServer } from "../../src/check/server-prober.ts";
import { check, type CheckOptions } from "../../src/check.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { join } from "node:path";
import { stdioSpec } from "../servers/support.ts";
import { root } from "../support/cli.ts";

/** A server without defects but those that are named; see its program. */
export function faultyServer(...faults: readonly string[]): ServerSpec {
  return stdioSpec(process.execPath, [join(root, "test/fixtures/servers/faulty-server.mjs"), ...faults]);
}

/** How a part of a check runs. */
interface PartOptions extends Partial<Omit<CheckSpec, "kind">> {
  readonly callMs?: number;
}

/** The findings of one part of a check of a server. */
export async function findingsIn(
  kind: CheckKind,
  spec: ServerSpec,
  { callMs = 5000, ...rest }: PartOptions = {},
): Promise<readonly Finding[]> {
  const events: TraceEvent[] = [];
  const part: CheckSpec = { kind, disable: [], ...rest };
  await probeServer({
    server: "s",
    spec,
    check: part,
    signal: new AbortController().signal,
    callMs,
    emit: (event) => events.push({ ...event, seq: events.length + 1, at: performance.now(), trial: "t" }),
  });
  const task: Task = {
    name: kind,
    form: "check",
    servers: ["s"],
    turns: [],
    expectTools: [],
    verify: [],
    parallel: true,
    check: part,
  };
  const trajectory = buildTrajectory({ id: "t", task: kind, agent: null, attempt: 1 }, task, events);
  await using validator = new SchemaValidator();
  return findDefects(readCheck(trajectory, part), { validateSchema: validator.validate.bind(validator) });
}

/** The exit code and the findings of a whole check. Unlike those of `runHere`, checks can run beside one another. */
export async function checked(
  command: readonly string[],
  options: CheckOptions = {},
): Promise<{ readonly code: number; readonly findings: readonly RunFinding[] }> {
  const { verdict, findings } = await check(command, { output: false, ...options });
  return { code: exitCode(verdict), findings };
}
