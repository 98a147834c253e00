import { basename, dirname, extname, join } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { buildAgent } from "../../core/formats/config/agent.ts";
import { configAgentProblems } from "../../core/formats/config/config-task-plans.ts";
import { inlineAgentName } from "../../core/formats/config/config-view.ts";
import { isJsonObject, withoutUndefined } from "../../core/formats/json.ts";
import type { AgentSpec, Task } from "../../core/formats/model.ts";
import { placeProblem, placeProblems } from "../../core/formats/problem.ts";
import { parseWazaEval } from "../../core/formats/waza/parse-waza-eval.ts";
import { agentTemplates } from "../agent-templates.ts";
import { assembleEval } from "../assemble-eval.ts";
import { FileProblems } from "../file-problems.ts";
import type { LoadedConfig } from "../load-config.ts";
import { pathKind } from "../sources/expand-glob.ts";
import { programCompleter } from "../environment.ts";
import { fixtureReader } from "../read-fixtures.ts";
import { plainDocument } from "../read/plain-document.ts";
import { requestedAgents, requestedJudge } from "../requested-agents.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";
import { wazaServers } from "./waza-servers.ts";
import { interpolateParts, readWazaTasks, type WazaContext } from "./waza-tasks.ts";

/** Keys whose texts may name variables: servers, and agents. Prompts and all else are taken as they are. */
const interpolated = [["mcp_servers"], ["config", "mcp_servers"], ["variants"], ["agent"], ["agents"]];

/**
 * Loads an `eval.yaml` of waza and the tasks that it names. Throws one error for all that is wrong with any of the files;
 * nothing that they ask for is ignored.
 */
export async function loadWaza(opened: OpenedFile, surroundings: Surroundings): Promise<LoadedConfig> {
  const context = readEval(opened, surroundings);
  const { file, dir, problems } = context;
  const tasks = await readWazaTasks(context);
  const { base, variants, all, ...ofTasks } = wazaServers(tasks.read, context);
  // An eval that is wrong may lack the agent that it means.
  const agents = context.isValid ? wazaAgents(context) : [];
  const loaded = assembleEval(
    {
      name: file.name ?? basename(opened.path, extname(opened.path)),
      file: opened.path,
      dir,
      servers: base,
      agents,
      judge: requestedJudge(surroundings),
      tasks: {
        ...ofTasks,
        variants: Object.fromEntries((variants ?? []).map((each) => [each.name, each.servers])),
        servers: all,
        notes: toldOnce(tasks.notes),
        variables: [],
        extensionUses: new Map(),
      },
      trials: file.trials,
      concurrency: file.concurrency,
      trialMs: file.timeoutMs,
      variables: new Map([...context.variables, ...tasks.variables]),
      notes: [
        ...(opened.document.notes ?? []),
        ...context.notes,
        ...otherNotes(context, ofTasks.tasks, agents),
      ],
      problems,
    },
    surroundings,
  );
  const spec = withoutUndefined({ ...loaded.eval, variants });
  problems.add(configAgentProblems(spec, opened.document.locate), opened.document.source);
  const templates = agentTemplates(file.agents.kind === "declared" ? file.agents : {}, spec);
  problems.add(placeProblems(templates.problems, opened.document.locate), opened.document.source);
  problems.throwIfAny(loaded.secrets);
  return { ...loaded, eval: spec, notes: [...loaded.notes, ...templates.notes] };
}

function readEval(opened: OpenedFile, surroundings: Surroundings): WazaContext {
  const { document, path } = opened;
  const problems = new FileProblems();
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny([]);
  const found = interpolateParts(json ?? null, interpolated, surroundings);
  const unset = found.problems.map((problem) => placeProblem(problem, document.locate));
  const dir = dirname(path);
  const parsed = parseWazaEval(isJsonObject(found.value) ? found.value : {}, {
    locate: document.locate,
    requested: surroundings.agents,
    templates: found.templates,
    readFixtures: fixtureReader(dir),
  });
  const { isWhole, diagnostics, notes } = parsed;
  problems.add([...unset, ...notAt(unset, diagnostics)], document.source);
  return {
    ...opened,
    file: parsed.eval,
    isValid: isWhole && !problems.found,
    dir,
    surroundings,
    problems,
    notes,
    variables: found.variables,
  };
}

/** Leaves out what is wrong only because a variable at that place is not set. */
function notAt(causes: readonly Diagnostic[], diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const paths = new Set(causes.map(pathOf));
  return diagnostics.filter((diagnostic) => !paths.has(pathOf(diagnostic)));
}

function pathOf({ location }: Diagnostic): string {
  return location?.path ?? "";
}

function otherNotes(
  { dir }: WazaContext,
  tasks: readonly Task[],
  agents: readonly AgentSpec[],
): readonly string[] {
  const sets = tasks.flatMap(({ portable }) => portable?.assertions ?? []);
  const counts = sets.some(({ minToolCalls, maxToolCalls }) => (minToolCalls ?? maxToolCalls) !== undefined);
  const hasOwnTools = agents.some(({ type }) => type === "acp" || type === "command");
  // That tool runs such a file by itself when it is there.
  const triggers = pathKind(join(dir, "trigger_tests.yaml")) === "file";
  return [
    ...(counts && hasOwnTools
      ? ["limits on tool calls count calls of servers, not of an agent's own tools"]
      : []),
    ...(triggers ? ["trigger_tests.yaml is not run: trigger tests are not known yet"] : []),
  ];
}

/** What is said of many tasks is told of the first. */
function toldOnce(notes: readonly string[]): readonly string[] {
  const places = new Map<string, string[]>();
  for (const note of notes) {
    const [, place = "", message = note] = /^(\S+:\d+:\d+): (.*)$/s.exec(note) ?? [];
    places.set(message, [...(places.get(message) ?? []), place]);
  }
  return [...places].map(([message, [first = "", ...others]]) => {
    const more =
      others.length === 0 ? "" : ` (and in ${others.length} other place${others.length === 1 ? "" : "s"})`;
    return `${first === "" ? "" : `${first}: `}${message}${more}`;
  });
}

/** The agents that play: those asked for, else those that the eval declares, else the Copilot CLI. */
function wazaAgents({ file, dir, surroundings, problems }: WazaContext): readonly AgentSpec[] {
  const { environment, overrides, agents: asked } = surroundings;
  const complete = programCompleter({ dir, environment, overrides });
  const { agents } = file;
  switch (agents.kind) {
    case "copilot": {
      const { model } = agents;
      const preset = { type: "acp" as const, preset: "copilot" as const, env: {}, inheritEnv: [] };
      return [buildAgent("copilot", model === undefined ? preset : { ...preset, model }, complete)];
    }
    case "requested":
      return requestedAgents([], asked, { problems, complete });
    case "declared": {
      const inline = inlineAgentName(agents.agent);
      const own = typeof agents.agent === "object" ? [buildAgent(inline ?? "", agents.agent, complete)] : [];
      const others = Object.entries(agents.agents).map(([name, agent]) => buildAgent(name, agent, complete));
      const named = typeof agents.agent === "string" ? agents.agent : inline;
      const wanted = asked.length > 0 || named === undefined ? asked : [named];
      return requestedAgents([...own, ...others], wanted, { problems, complete });
    }
  }
}
