import type { ParsedConfig } from "./config-schema.ts";
import type { KeyPath } from "../key-path.ts";
import type { Task } from "../model.ts";
import type { McpExpectation, McpStep } from "../step.ts";
import type { Locate } from "../problem.ts";
import { uniqueTitles } from "./unique-titles.ts";
import { withoutUndefined } from "../without-undefined.ts";

type Workflow = ParsedConfig["workflows"][number];
type Suite = ParsedConfig["toolHealthSuites"][number];
type ToolTest = Suite["tests"][number];

interface Context {
  /** Names of the config's servers. */
  readonly servers: readonly string[];
  readonly locate: Locate;
  /** The config's time limit for a call. */
  readonly timeoutMs: number;
}

export interface BuiltTasks {
  readonly tasks: readonly Task[];
  /** Names of the servers that a task names itself; tasks that are not here have all of them. */
  readonly serversOf: ReadonlyMap<string, readonly string[]>;
}

/**
 * Makes a task of every workflow and of every tool test, tool tests first: whether tools work comes before
 * whether an agent can work with them.
 */
export function buildTasks(config: ParsedConfig, context: Pick<Context, "servers" | "locate">): BuiltTasks {
  const full = { ...context, timeoutMs: config.timeout };
  const tests = config.toolHealthSuites.flatMap((suite, index) =>
    suiteTasks(suite, ["toolHealthSuites", index], full),
  );
  const workflows = config.workflows.map((workflow, index) =>
    workflowTask(workflow, ["workflows", index], full),
  );
  const named = config.workflows.flatMap(({ name, servers }): (readonly [string, readonly string[]])[] =>
    servers === undefined ? [] : [[name, servers]],
  );
  const called = tests.flatMap(({ name, verify: [step] }): (readonly [string, readonly string[]])[] =>
    step?.type === "mcp" && step.server !== undefined ? [[name, [step.server]]] : [],
  );
  return { tasks: [...tests, ...workflows], serversOf: new Map([...called, ...named]) };
}

/** The tools that a workflow expects: its own list, or those of its steps joined when it has none. */
export function expectedTools(workflow: Workflow): readonly string[] {
  const own = workflow.expectTools ?? [];
  return own.length > 0 ? own : workflow.steps.flatMap((step) => step.expectTools ?? []);
}

function workflowTask(workflow: Workflow, path: KeyPath, context: Context): Task {
  return withoutUndefined({
    name: workflow.name,
    form: "workflow" as const,
    description: workflow.description,
    servers: workflow.servers ?? context.servers,
    turns: workflow.steps.map(({ user, expectedState, expectedError }) =>
      withoutUndefined({ user, expectedState, expectedError }),
    ),
    expectTools: expectedTools(workflow),
    verify: [],
    parallel: false,
    elicitation: workflow.elicitation?.map(withoutUndefined),
    location: context.locate({ path, at: "value" }),
  });
}

function suiteTasks(suite: Suite, path: KeyPath, context: Context): Task[] {
  const titles = uniqueTitles(suite.tests.map(titleOf));
  return suite.tests.map((test, index): Task => {
    const server = test.server ?? suite.server ?? onlyOne(context.servers);
    const timeoutMs = test.timeout ?? suite.timeout ?? context.timeoutMs;
    return withoutUndefined({
      name: `${suite.name}/${titles[index] ?? titleOf(test)}`,
      form: "tool-test" as const,
      description: test.description,
      suite: suite.name,
      servers: server === undefined ? context.servers : [server],
      turns: [],
      expectTools: [],
      verify: [testStep(test, { server, timeoutMs })],
      parallel: suite.parallel,
      location: context.locate({ path: [...path, "tests", index], at: "value" }),
    });
  });
}

function titleOf(test: ToolTest): string {
  const { description } = test;
  return description === undefined || description.trim() === "" ? test.name : description;
}

function onlyOne(servers: readonly string[]): string | undefined {
  return servers.length === 1 ? servers[0] : undefined;
}

function testStep(test: ToolTest, given: { server: string | undefined; timeoutMs: number }): McpStep {
  const expect: McpExpectation = withoutUndefined({
    result: test.expectedResult,
    error: test.expectedError,
    maxLatencyMs: test.maxLatency,
  });
  return withoutUndefined({
    type: "mcp" as const,
    id: "call",
    server: given.server,
    request: { kind: "tool" as const, tool: test.name, args: test.args },
    expect,
    timeoutMs: given.timeoutMs,
    retries: test.retries,
  });
}
