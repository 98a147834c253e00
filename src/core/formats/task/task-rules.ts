import { readOverlay } from "../config/server-tables.ts";
import { asList, asObject, asText } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { checkEnvCircles } from "./check-env.ts";
import { checkExtensions } from "./check-extensions.ts";
import { checkNames, solutionIds } from "./check-names.ts";
import { checkTaskPaths } from "./check-paths.ts";
import { checkLimits, checkSolution } from "./check-solution.ts";
import { type CheckedTemplates, checkTemplates } from "./check-templates.ts";
import type { TaskNames } from "./check-text.ts";
import { checkVariants, lackingVariants, onlyInVariant } from "./check-variants.ts";
import { checkVerify } from "./check-verify.ts";
import type { PromptTurn } from "./read-prompt.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

export interface RuleContext {
  readonly options: ParseTaskOptions;
  readonly turns: readonly PromptTurn[];
  /** Problems found before. */
  readonly wrong: readonly Problem[];
}

/** Everything that must hold between the parts of a task. */
export function checkTask(view: TaskView, { options, turns, wrong }: RuleContext): CheckedTemplates {
  const names = namesOf(view, options);
  const { files } = options;
  const templates = checkTemplates(view, turns, { names, files });
  const variants = lackingVariants(view, options);
  // What verify checks cannot be told while something inside it is wrong.
  const isUnsure = wrong.some(({ path }) => path[1] === "verify");
  const verify = isUnsure ? { problems: [], notes: [] } : checkVerify(view.steps.verify, files);
  const problems = [
    ...checkNames(view),
    ...checkExtensions(view, options),
    ...checkVariants(view, variants),
    ...checkTaskPaths(view, files),
    ...templates.problems,
    ...variants.flatMap((variant) => {
      const there = { ...names, urls: names.urls.filter((name) => !variant.lost.includes(name)) };
      const { problems: found } = checkTemplates(view, turns, { names: there, files });
      return onlyInVariant(variant, found, templates.problems);
    }),
    ...checkEnvCircles(view.spec),
    // A key that is not known may be the prompt.
    ...(wrong.some(isUnknownPart) ? [] : checkSolution(view)),
    ...checkLimits(view),
    ...verify.problems,
  ];
  return { problems, notes: [...templates.notes, ...verify.notes] };
}

function isUnknownPart({ code, path }: Problem): boolean {
  return code === "config/unknown-key" && path.length === 2 && path[0] === "spec";
}

/** What templates of a task may refer to. */
export function namesOf(view: TaskView, { variables }: ParseTaskOptions): TaskNames {
  const { spec, servers, steps } = view;
  const own = Object.entries(readOverlay(spec, ["spec"])?.table ?? {});
  const local = own.filter(([, server]) => asObject(server)["command"] !== undefined).map(([name]) => name);
  const required = asList(spec["requires"]).flatMap((each) => asText(asObject(each)["env"]) ?? []);
  const all = [...walkViews([...steps.setup, ...steps.verify, ...steps.cleanup])];
  return {
    env: new Set([...Object.keys(asObject(spec["env"])), ...required]),
    variables,
    urls: servers.known.filter((name) => !local.includes(name)),
    local,
    ids: all.flatMap(({ ownId }) => ownId ?? []),
    solutionIds: solutionIds(view).map(({ name }) => name),
    idsUnsure: view.problems.length > 0,
  };
}
