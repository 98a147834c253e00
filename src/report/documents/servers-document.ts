import { canonicalJson, estimateTokens, isJsonObject, type Json, withoutUndefined } from "../../base/json.ts";
import { readCheck } from "../../check/check-view.ts";
import type { RunFinding } from "../../model/finding.ts";
import type { PlannedCall } from "../../model/check.ts";
import { shortened } from "../../base/visible-text.ts";
import { quantile } from "../../trace/agent-acts.ts";
import { hasFailed, type ToolCall, type ToolDeclaration, type Trajectory } from "../../trace/trajectory.ts";
import {
  type CheckedCalls,
  type Definition,
  definitionLength,
  excerptLength,
  excerptOf,
  type RunDocument,
  type ServerRow,
  type ToolRow,
} from "./documents.ts";

/** Latencies that are kept of a tool: enough for its percentiles. */
const maxLatencies = 10_000;
/** Tools that are listed: what a server lists may change without end. */
const maxTools = 10_000;

interface ToolSums {
  /** As it was listed last. */
  listed?: ListedTool;
  calls: number;
  errors: number;
  checked?: CheckedCalls;
  notCalled?: string;
  readonly latencies: number[];
}

interface ServerSums {
  reported?: NonNullable<ServerRow["reported"]>;
  starts: number;
  losses: number;
  readonly tools: Map<string, ToolSums>;
}

/** A definition, and the trial that has it. */
export interface ListedTool extends ToolDeclaration {
  readonly trial: string;
}

/** Definitions of tools, by server and tool. */
export type Definitions = ReadonlyMap<string, ReadonlyMap<string, ListedTool>>;

/** Adds up what the trials of a run say of servers, one trial at a time. */
export class ServerTotals {
  readonly #servers = new Map<string, ServerSums>();

  #trials = 0;

  /** Trials that were added. */
  get trials(): number {
    return this.#trials;
  }

  add(trajectory: Trajectory): void {
    const { trial, task, events, calls, tools } = trajectory;
    this.#trials += 1;
    for (const event of events) {
      if (event.type === "server.started" && event.reused === undefined) this.#of(event.server).starts += 1;
      if (event.type === "server.lost") this.#of(event.server).losses += 1;
      if (event.type === "server.ready") {
        const { name, version, protocolVersion } = event;
        this.#of(event.server).reported = { name, version, protocolVersion };
      }
    }
    for (const declaration of tools) {
      const tool = this.#tool(declaration.server, declaration.name);
      if (tool !== undefined) tool.listed = { ...declaration, trial: trial.id };
    }
    const { check } = task;
    if (check === undefined) {
      for (const call of calls) if (call.server !== null) this.#addCall(call.server, call);
      return;
    }
    for (const { tool: name, reason } of check.notCalled ?? []) {
      const tool = this.#tool(task.servers[0] ?? "", name);
      if (tool !== undefined) tool.notCalled = reason;
    }
    // Of a check only planned calls say something about tools; others name tools that do not exist, or repeat a call.
    const planned = new Map(
      readCheck(trajectory, check).probes.flatMap(({ call, exchanges }) =>
        call === undefined ? [] : exchanges.map(({ request }) => [request.seq, call.expects] as const),
      ),
    );
    for (const call of calls) {
      const expects = planned.get(call.seq);
      if (call.server !== null && expects !== undefined) this.#addChecked(call.server, call, expects);
    }
  }

  #addChecked(server: string, call: ToolCall, expects: PlannedCall["expects"]): void {
    const tool = this.#tool(server, call.tool);
    if (tool === undefined) return;
    const isFailure = hasFailed(call);
    if (expects === "refusal")
      tool.checked = addChecked(tool.checked, { ...noneChecked, invalid: 1, refused: Number(isFailure) });
    else {
      tool.checked = addChecked(tool.checked, { ...noneChecked, valid: 1, failed: Number(isFailure) });
      addLatency(tool, call);
    }
  }

  #addCall(server: string, call: ToolCall): void {
    const tool = this.#tool(server, call.tool);
    if (tool === undefined) return;
    tool.calls += 1;
    if (hasFailed(call)) tool.errors += 1;
    addLatency(tool, call);
  }

  #of(server: string): ServerSums {
    const known = this.#servers.get(server) ?? { starts: 0, losses: 0, tools: new Map() };
    this.#servers.set(server, known);
    return known;
  }

  #tool(server: string, name: string): ToolSums | undefined {
    const { tools } = this.#of(server);
    const known = tools.get(name);
    if (known !== undefined || tools.size >= maxTools) return known;
    const tool: ToolSums = { calls: 0, errors: 0, latencies: [] };
    tools.set(name, tool);
    return tool;
  }

  /** The definitions as they were listed last. */
  definitions(): Definitions {
    return new Map(
      [...this.#servers].map(([server, { tools }]) => {
        const declared = [...tools].flatMap(([name, { listed }]) =>
          listed === undefined ? [] : [[name, listed] as const],
        );
        return [server, new Map(declared)] as const;
      }),
    );
  }

  /** The rows of all servers, those of the environment first; `before`: definitions of earlier runs, by server. */
  rows(
    run: Pick<RunDocument, "id" | "environment" | "findings">,
    before: ReadonlyMap<string, EarlierDefinitions>,
  ): readonly ServerRow[] {
    const { environment, findings } = run;
    const own = Object.values(environment.taskServers ?? {}).filter(isJsonObject);
    const targets = Object.assign({}, ...own, environment.servers) as Readonly<Record<string, Json>>;
    const names = new Set([...Object.keys(targets), ...this.#servers.keys()]);
    return [...names].map((name) => {
      return serverRow(name, this.#of(name), {
        run: run.id,
        target: targets[name],
        findings: findings.filter(({ server }) => server === name),
        before: before.get(name),
      });
    });
  }
}

function addLatency({ latencies }: ToolSums, { latencyMs }: ToolCall): void {
  if (latencyMs !== undefined && latencies.length < maxLatencies) latencies.push(latencyMs);
}

const noneChecked: CheckedCalls = { valid: 0, failed: 0, invalid: 0, refused: 0 };

function addChecked(a: CheckedCalls = noneChecked, b: CheckedCalls): CheckedCalls {
  return {
    valid: a.valid + b.valid,
    failed: a.failed + b.failed,
    invalid: a.invalid + b.invalid,
    refused: a.refused + b.refused,
  };
}

/** What an earlier run says of a server. */
export interface EarlierDefinitions {
  readonly run: string;
  readonly tools: ReadonlyMap<string, ListedTool>;
}

interface AboutServer {
  readonly run: string;
  readonly target: Json | undefined;
  readonly findings: readonly RunFinding[];
  readonly before: EarlierDefinitions | undefined;
}

function serverRow(
  name: string,
  { reported, starts, losses, tools }: ServerSums,
  { run, target, findings, before }: AboutServer,
): ServerRow {
  const rows = [...tools].map(([tool, sums]) =>
    toolRow(tool, sums, {
      run,
      findings: findings.filter(({ place }) => place.tool === tool).length,
      // Of a server that listed nothing, it is not known what has changed.
      before: tools.size === 0 ? undefined : before,
    }),
  );
  const removed =
    before === undefined || tools.size === 0
      ? []
      : [...before.tools].flatMap(([tool, listed]): ToolRow[] => {
          if (tools.has(tool)) return [];
          const shown = displayDefinition(before.run, listed);
          return [{ name: tool, calls: 0, errors: 0, findings: 0, change: "removed", before: shown }];
        });
  const checks = rows.flatMap(({ checked }) => checked ?? []);
  const sum = (of: (row: ToolRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
  return withoutUndefined({
    name,
    reported,
    target,
    starts,
    losses,
    calls: sum(({ calls }) => calls),
    errors: sum(({ errors }) => errors),
    checked: checks.length === 0 ? undefined : checks.reduce(addChecked),
    ...percentiles([...tools.values()].flatMap(({ latencies }) => latencies)),
    tokens: sum(({ tokens = 0 }) => tokens),
    unusedTokens: sum(({ tokens = 0, calls, checked }) =>
      calls === 0 && checked === undefined ? tokens : 0,
    ),
    tools: [...rows, ...removed],
    findings,
    comparedWith: before?.run,
  });
}

function toolRow(
  name: string,
  { listed, calls, errors, checked, notCalled, latencies }: ToolSums,
  { run, findings, before }: Pick<AboutServer, "run" | "before"> & { readonly findings: number },
): ToolRow {
  const { definition } = listed ?? {};
  const description = definition?.["description"];
  const then = before?.tools.get(name);
  const isChanged =
    definition !== undefined &&
    then !== undefined &&
    canonicalJson(then.definition) !== canonicalJson(definition);
  const isAdded = before !== undefined && then === undefined && definition !== undefined;
  return withoutUndefined({
    name,
    description: typeof description === "string" ? shortened(description, excerptLength) : undefined,
    definition: listed === undefined ? undefined : displayDefinition(run, listed),
    tokens: definition === undefined ? undefined : estimateTokens(definition),
    calls,
    errors,
    checked,
    notCalled,
    ...percentiles(latencies),
    findings,
    change: isAdded ? ("added" as const) : isChanged ? ("changed" as const) : undefined,
    before: isChanged && before !== undefined ? displayDefinition(before.run, then) : undefined,
  });
}

function percentiles(latencies: readonly number[]): Pick<ToolRow, "p50Ms" | "p95Ms"> {
  const sorted = latencies.toSorted((a, b) => a - b);
  return withoutUndefined({ p50Ms: quantile(sorted, 0.5), p95Ms: quantile(sorted, 0.95) });
}

/** The definition of a tool as readers see it. */
function displayDefinition(run: string, { definition, trial, seq, index }: ListedTool): Definition {
  return {
    ...excerptOf(definition, seq, `/message/result/tools/${index}`, definitionLength),
    run,
    trial,
  };
}
