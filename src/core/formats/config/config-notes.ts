import type { ParsedServer } from "./config-server-schema.ts";
import { echoedArguments, inexactNumbers, shortTexts, strayKeys } from "../weak-expectations.ts";
import { expectedTools } from "./build-tasks.ts";
import type { ParsedConfig } from "./config-schema.ts";

/** What is valid but does not do what its author may think: one sentence each. */
export function configNotes(
  config: ParsedConfig,
  { judged, servers }: { readonly judged: boolean; readonly servers: Servers },
): string[] {
  return [
    ...serverNotes(servers),
    ...lifetimeNotes(config),
    ...judgeNotes(config, judged),
    ...workflowNotes(config),
    ...weakNotes(config),
  ];
}

type Servers = Readonly<Record<string, ParsedServer>>;

function lifetimeNotes({ serverLifetime, mcp_server_lifetime: other }: ParsedConfig): string[] {
  return serverLifetime === undefined || other === undefined
    ? []
    : ["mcp_server_lifetime has no effect: serverLifetime wins"];
}

function serverNotes(servers: Servers): string[] {
  return Object.entries(servers).flatMap(([name, server]) => {
    if (server.transport !== "sse") return [];
    const keys = (["reconnect", "reconnectInterval", "maxReconnectAttempts"] as const).filter(
      (key) => server[key] !== undefined,
    );
    return keys.map((key) => `server "${name}": ${key} has no effect; a lost connection is an error`);
  });
}

function judgeNotes(config: ParsedConfig, judged: boolean): string[] {
  const { judge, judgeModel } = config;
  if (!judged) {
    const unused = judge !== undefined && config.tasks.length === 0;
    return unused ? ["judge is not asked: set llmJudge to true, or pass --llm"] : [];
  }
  return judge === undefined || judgeModel === "gpt-4o" ? [] : [`judgeModel has no effect: judge.model wins`];
}

function workflowNotes(config: ParsedConfig): string[] {
  return config.workflows.flatMap((workflow) => {
    const stepTools = workflow.steps.flatMap((step) => step.expectTools ?? []);
    const tools = expectedTools(workflow);
    if (stepTools.length === 0 || JSON.stringify(stepTools) === JSON.stringify(tools)) return [];
    return [
      `workflow "${workflow.name}": expectTools of its steps has no effect; the workflow's own list wins`,
    ];
  });
}

/** Expectations that say less than their author may think. */
function weakNotes({ workflows, toolHealthSuites }: ParsedConfig): string[] {
  const steps = workflows.flatMap(({ steps: turns }, workflow) =>
    turns.flatMap(({ expectedState, expectedError }, index) => {
      const path = ["workflows", workflow, "steps", index];
      return [
        ...shortTexts(expectedState, [...path, "expectedState"]),
        ...shortTexts(expectedError, [...path, "expectedError"]),
      ];
    }),
  );
  const tests = toolHealthSuites.flatMap((suite, index) =>
    suite.tests.flatMap(({ name, args, expectedResult, expectedError }, test) => {
      const path = ["toolHealthSuites", index, "tests", test];
      return [
        ...shortTexts(expectedResult, [...path, "expectedResult"]),
        ...shortTexts(expectedError, [...path, "expectedError"]),
        ...echoedArguments(expectedResult, { tool: name, args }, [...path, "expectedResult"]),
        ...strayKeys(args, ["expectedResult", "expectedError", "maxLatency"], [...path, "args"]),
        ...inexactNumbers(args, [...path, "args"]),
        ...inexactNumbers(expectedResult, [...path, "expectedResult"]),
      ];
    }),
  );
  return [...steps, ...tests].map(({ message }) => message);
}
