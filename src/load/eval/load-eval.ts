import { basename, dirname, extname } from "node:path";
import {
  checkAssertedServers,
  type EvalFile,
  parseEvalFile,
} from "../../core/formats/eval-file/parse-eval-file.ts";
import { placeProblems } from "../../core/formats/problem.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { interpolateParts } from "../waza/waza-tasks.ts";
import { agentTemplates } from "../agent-templates.ts";
import { assembleEval } from "../assemble-eval.ts";
import { placeExtensions } from "../extensions.ts";
import { FileProblems } from "../file-problems.ts";
import type { LoadedConfig } from "../load-config.ts";
import { plainDocument } from "../read/plain-document.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";
import { collectTasks } from "../tasks/parse-tasks.ts";
import { evalAgents, evalJudge } from "./eval-agents.ts";
import type { EvalContext } from "./eval-context.ts";
import { evalServers } from "./eval-servers.ts";
import { evalTasks } from "./eval-tasks.ts";

/** The parts of an Eval in which `${VAR}` is replaced. */
const partsWithVariables = [
  "servers",
  "mcp_servers",
  "mocks",
  "mcp_mocks",
  "variants",
  "agents",
  "extensions",
].map((key) => ["config", key]);

/** Loads a file of kind Eval and everything that it names. Throws one error for all that is wrong with any of the files. */
export async function loadEval(opened: OpenedFile, surroundings: Surroundings): Promise<LoadedConfig> {
  const { document, path } = opened;
  const problems = new FileProblems();
  const { file, variables, notes: odd } = readEval(opened, { surroundings, problems });
  const dir = dirname(path);
  const extensions = extensionsOf(file, { dir, opened, surroundings });
  const context: EvalContext = { ...opened, file, dir, extensions, surroundings, problems };
  const provided = await evalServers(context);
  const agents = await evalAgents(context, provided.servers);
  const judge = await evalJudge(context);
  const { base, variants = [] } = provided.provided;
  const servers = [base, ...variants].flatMap((table) => Object.keys(table.written));
  const { parsed: files, notes } = await evalTasks(context, provided.provided);
  const own = files.flatMap((each) => Object.keys(each.servers));
  problems.add(checkAssertedServers(file, [...servers, ...own], document.locate), document.source);
  const loaded = assembleEval(
    {
      name: file.name ?? basename(path, extname(path)),
      file: path,
      dir,
      extensions,
      servers: provided.servers,
      variants: provided.provided.variants?.map(({ name }) => name),
      seed: file.seed,
      agents: agents.agents,
      judge: judge.judge,
      tasks: collectTasks(files, { surroundings, problems }),
      trials: file.runs,
      concurrency: file.parallel,
      trialMs: file.limits.timeoutMs,
      variables: new Map([...variables, ...provided.variables]),
      notes: [
        ...(document.notes ?? []),
        ...odd,
        ...provided.notes,
        ...agents.notes,
        ...judge.notes,
        ...notes,
      ],
      problems,
    },
    surroundings,
  );
  const templates = agentTemplates({ agents: file.agents }, loaded.eval, ["config"]);
  problems.add(placeProblems(templates.problems, document.locate), document.source);
  problems.throwIfAny(loaded.secrets);
  const wrongJudge = new FileProblems();
  wrongJudge.add(judge.problems, document.source);
  const judgeError = wrongJudge.asError(loaded.secrets);
  const told = [...loaded.notes, ...templates.notes];
  return withoutUndefined({ ...loaded, notes: told, judgeError });
}

function extensionsOf(
  { extensions }: EvalFile,
  { dir, opened, surroundings }: Pick<EvalContext, "dir" | "surroundings"> & { readonly opened: OpenedFile },
): EvalContext["extensions"] {
  const { locate } = opened.document;
  const { environment } = surroundings;
  return placeExtensions(extensions, { dir, path: ["config", "extensions"], locate, environment });
}

interface ReadEval {
  readonly file: EvalFile;
  /** Variables that were put into it. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

/** Reads the file alone. Throws what is wrong with it, but for variables that are not set, which go to the problems. */
function readEval(
  { document }: OpenedFile,
  { surroundings, problems }: Pick<EvalContext, "surroundings" | "problems">,
): ReadEval {
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny([]);
  const {
    value,
    variables,
    problems: unset,
  } = interpolateParts(json ?? {}, partsWithVariables, surroundings);
  problems.add(placeProblems(unset, document.locate), document.source);
  const parsed = parseEvalFile(value, { locate: document.locate });
  if (parsed.ok) return { file: parsed.eval, variables, notes: parsed.notes };
  problems.add(parsed.diagnostics, document.source);
  problems.throwIfAny([]);
  throw new Error("an eval was refused without a problem");
}
