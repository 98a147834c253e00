import type { ErrorCode } from "../../errors/catalogue.ts";
import { emptyObjectProblem } from "../cannot-fail.ts";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import { undeclaredAgents } from "./agent.ts";
import type { ConfigView, Place, PlanView } from "./config-view.ts";

/** Everything that must hold between the parts of a config. */
export function checkRules(view: ConfigView): Problem[] {
  return [
    ...checkServers(view),
    ...checkSomethingRuns(view),
    ...checkNames(view),
    ...checkServerReferences(view),
    ...checkTestsInVariants(view),
    ...checkAgents(view),
    ...checkPlans(view),
    ...checkOperators(view),
    ...checkEmptyResults(view),
    ...checkExpectations(view),
    ...checkEchoes(view),
  ];
}

function problem(code: ErrorCode, message: string, place: Omit<Problem, "code" | "message">): Problem {
  return { code, message, ...place };
}

function checkServers(view: ConfigView): Problem[] {
  if (view.hasServer && view.hasServers) {
    const hint = "Move the server of `server` into `servers`, under a name.";
    const place = { path: ["servers"], at: "key", hint } as const;
    return [problem("config/invalid-value", "server and servers cannot both be given", place)];
  }
  const needsServer = view.workflows.length + view.suites.length > 0 || !view.hasTaskFiles;
  if (needsServer && !view.hasServer && !view.hasServers && !view.hasMocks) {
    const hint = "Add server: {transport, …}, or servers: {NAME: {transport, …}}; or pass --mcp-config FILE.";
    const place = { path: [], at: "value", hint } as const;
    return [problem("config/missing-key", 'missing key "server" or "servers"', place)];
  }
  if (view.hasServers && !view.hasMocks && view.servers.length === 0) {
    const place = { path: ["servers"], at: "value" } as const;
    return [problem("config/invalid-value", "servers must have at least one server", place)];
  }
  return [];
}

function checkSomethingRuns(view: ConfigView): Problem[] {
  if (view.declaresTasks) return [];
  const message = "there is nothing to run: no workflows, no toolHealthSuites, no tasks";
  return [problem("config/nothing-to-run", message, { path: [], at: "value" })];
}

function checkNames(view: ConfigView): Problem[] {
  const suites = view.suites.flatMap((suite) => suite.name ?? []);
  const workflows = view.workflows.flatMap((workflow) => workflow.name ?? []);
  const sameSuites = duplicates(suites, "suites", view);
  const sameWorkflows = duplicates(workflows, "workflows", view);
  // Suites of one name would make every one of their tests look doubled.
  const sameTasks = sameSuites.length > 0 ? [] : taskClashes(workflows, testPlaces(view));
  return [...sameWorkflows, ...sameSuites, ...sameTasks];
}

/** Tests whose task, named `SUITE/TITLE`, has the name of another task. */
function taskClashes(workflows: readonly Place[], tests: readonly Place[]): Problem[] {
  const first = new Map(workflows.map((place) => [place.name, place.path]));
  return tests.flatMap(({ name, path }) => {
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, path);
    if (earlier === undefined) return [];
    const message = `two tasks have one name: ${formatKeyPath(earlier)} and ${formatKeyPath(path)}`;
    const hint = "A test's task is named SUITE/TITLE. Rename one of them.";
    return [problem("config/duplicate-name", message, { path, at: "value", alsoAt: earlier, hint })];
  });
}

/** Tool tests by the names of their tasks. */
function testPlaces(view: ConfigView): Place[] {
  return view.suites.flatMap(({ name, tests }) => {
    if (name === undefined) return [];
    const titles = uniqueTitles(tests.map((test) => test.description ?? test.name ?? ""));
    return tests.map((test, index) => ({ name: `${name.name}/${titles[index] ?? ""}`, path: test.path }));
  });
}

function duplicates(places: readonly Place[], kind: string, view: ConfigView): Problem[] {
  const first = new Map<string, KeyPath>();
  return places.flatMap((place) => {
    const earlier = first.get(place.name);
    if (earlier === undefined) first.set(place.name, place.path);
    return earlier === undefined ? [] : [sameName(place, earlier, { kind, view })];
  });
}

function sameName(place: Place, earlier: KeyPath, about: { kind: string; view: ConfigView }): Problem {
  const both = `${formatKeyPath(earlier)} and ${formatKeyPath(place.path)}`;
  const message = `two ${about.kind} are named ${about.view.show(place)}: ${both}`;
  return problem("config/duplicate-name", message, {
    path: place.path,
    at: "value",
    alsoAt: earlier,
    hint: "Rename one of them.",
  });
}

function checkServerReferences(view: ConfigView): Problem[] {
  const places = [
    ...view.workflows.flatMap((workflow) => [...workflow.servers, ...workflow.answering]),
    ...view.suites.flatMap((suite) => [...suite.servers, ...suite.tests.flatMap((test) => test.servers)]),
    ...view.plans.flatMap((plan) => plan.servers),
  ];
  const repeated = view.workflows.flatMap((workflow) => duplicates(workflow.servers, "servers", view));
  return [...unknownReferences(places, view.knownServers, { kind: "server", view }), ...repeated];
}

/** A tool test names its server itself, so it cannot run where a variant has no such server. */
function checkTestsInVariants(view: ConfigView): Problem[] {
  const [only] = view.servers.length === 1 ? view.servers : [];
  const called = view.suites.flatMap((suite) =>
    suite.tests.flatMap((test) => test.servers[0]?.name ?? suite.servers[0]?.name ?? only ?? []),
  );
  return view.variants.flatMap(({ name, path, servers }) => {
    const lost = [...new Set(called)].filter(
      (server) => view.knownServers.includes(server) && !servers.includes(server),
    );
    return lost.map((server) => {
      const message = `${formatKeyPath(path)} has no server ${JSON.stringify(server)}, which tool tests call`;
      const hint = `Keep it in ${JSON.stringify(name)}, or put those tests into a config of their own.`;
      return problem("config/unknown-reference", message, { path, at: "key", hint });
    });
  });
}

function unknownReferences(
  places: readonly Place[],
  known: readonly string[],
  about: { readonly kind: string; readonly view: ConfigView; readonly at?: "key" },
): Problem[] {
  const { kind, view, at = "value" } = about;
  return places
    .filter((place) => !known.includes(place.name))
    .map((place) =>
      problem("config/unknown-reference", `no ${kind} is named ${view.show(place)}`, {
        path: place.path,
        at,
        hint: suggestion(place.name, known, `${kind}s`),
      }),
    );
}

function checkAgents(view: ConfigView): Problem[] {
  return view.chosen.flatMap((choice) => {
    if (choice.kind !== "unknown") return [];
    const requested = view.requestedAgents.includes(choice.name);
    const path = [requested ? "agents" : "agent"];
    const message = `no agent is named ${view.show({ name: choice.name, path })}`;
    const hint = `${suggestion(choice.name, [...view.agents, ...undeclaredAgents], "agents")} A model id is written PROVIDER/MODEL.`;
    const at = requested ? "key" : "value";
    return [problem("config/unknown-reference", message, { path, at, hint })];
  });
}

function checkPlans(view: ConfigView): Problem[] {
  const workflows = view.workflows.flatMap((workflow) => workflow.name ?? []);
  const names = workflows.map((workflow) => workflow.name);
  const unnamed = workflows.length < view.workflows.length;
  return view.plans.flatMap((plan) => [
    // A plan may also be for a task from a file, and those are not read here.
    ...(unnamed || view.hasTaskFiles
      ? []
      : unknownReferences(plan.workflows, names, { kind: "workflow", view, at: "key" })),
    ...unplanned(plan, workflows).map((workflow) =>
      problem("agent/no-plan", `${formatKeyPath(plan.path)} has no plan for ${view.show(workflow)}`, {
        path: plan.path,
        at: "key",
        hint: "Add a plan under that workflow's name, or choose another agent.",
      }),
    ),
    ...miscounted(plan, view),
  ]);
}

/** The workflows, each name once, that an agent that runs has no plan for. */
function unplanned(plan: PlanView, workflows: readonly Place[]): Place[] {
  if (!plan.runs) return [];
  const planned = new Set(plan.workflows.map((place) => place.name));
  const byName = new Map(workflows.map((workflow) => [workflow.name, workflow]));
  return [...byName.values()].filter((workflow) => !planned.has(workflow.name));
}

/** Plans of an agent that runs whose turns are not as many as their workflow's steps. */
function miscounted(plan: PlanView, view: ConfigView): Problem[] {
  if (!plan.runs) return [];
  return plan.workflows.flatMap((planned) => {
    const steps = view.workflows.find((workflow) => workflow.name?.name === planned.name)?.steps;
    const { turns, path } = planned;
    if (steps === undefined || turns === undefined || turns === steps) return [];
    const counts = `has ${countOf(turns, "turn")}, the workflow has ${countOf(steps, "step")}`;
    const message = `the plan for ${view.show(planned)} ${counts}: each \`say\` ends a turn`;
    const hint = 'End every turn but the last with a `say`; a turn without words ends with `say: ""`.';
    return [problem("config/invalid-value", message, { path, at: "key", hint })];
  });
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

const operators = ["$equals", "$contains"];

/** A misspelt operator would be taken for a key of the result. */
function checkOperators(view: ConfigView): Problem[] {
  const used = view.suites.flatMap((suite) => suite.tests.flatMap((test) => test.operator ?? []));
  return used
    .filter(({ name }) => !operators.includes(name))
    .map((place) => {
      const message = `unknown operator ${view.show(place)} in ${formatKeyPath(place.path.slice(0, -1))}`;
      const escape = "A result with that very key is expected with {$contains: {…}}.";
      const hint = `${suggestion(place.name, operators, "operators")} ${escape}`;
      return problem("config/unknown-key", message, { path: place.path, at: "key", hint });
    });
}

function checkEmptyResults(view: ConfigView): Problem[] {
  const tests = view.suites.flatMap((suite) => suite.tests);
  return tests.flatMap(({ empty }) =>
    empty === undefined
      ? []
      : [emptyObjectProblem(empty, "Leave it out, or write {$equals: {}} for an object without members.")],
  );
}

function checkExpectations(view: ConfigView): Problem[] {
  if (view.judged && view.judgeCanFail) return [];
  return view.workflows
    .filter((workflow) => !workflow.expectsSomething)
    .map((workflow) => {
      const named = workflow.name === undefined ? "" : ` (${view.show(workflow.name)})`;
      const message = `${formatKeyPath(workflow.path)}${named} expects nothing, so it could not fail`;
      const hint =
        "Give it expectedState, expectedError or expectTools, or turn on the judge with llmJudge or --llm (and a passThreshold over 0).";
      return problem("config/checks-nothing", message, { path: workflow.path, at: "value", hint });
    });
}

/** What an agent would pass that only repeats what the user says, where nothing else is looked at. */
function checkEchoes(view: ConfigView): Problem[] {
  if (view.judged && view.judgeCanFail) return [];
  const echoing = view.workflows.filter((workflow) => !workflow.expectsTools);
  return echoing.flatMap(({ echoes }) =>
    echoes.map((echo) => {
      const place = formatKeyPath(echo.path);
      const message = `${place}: ${view.show(echo)} stands in ${formatKeyPath(echo.user)}, so an agent that repeats it would pass`;
      const hint =
        "Expect what only the work can give, or add expectTools, so that tools must have been called too.";
      return problem("config/checks-nothing", message, {
        path: echo.path,
        at: "value",
        alsoAt: echo.user,
        hint,
      });
    }),
  );
}

/** Makes titles unique by adding ` (2)`, ` (3)` and so on to those that came before. */
export function uniqueTitles(titles: readonly string[]): string[] {
  const used = new Set<string>();
  const counts = new Map<string, number>();
  return titles.map((title) => {
    let count = counts.get(title) ?? 0;
    let unique: string;
    do {
      count += 1;
      unique = count === 1 ? title : `${title} (${count})`;
    } while (used.has(unique));
    counts.set(title, count);
    used.add(unique);
    return unique;
  });
}
