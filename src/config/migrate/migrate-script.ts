import { literalText } from "./migrate-text.ts";
import type { Migration, StepSite } from "./migration.ts";
import { shellVariables } from "./shell-variables.ts";
import { keepOnly, moveDuration, tolerate, translateMembers } from "./step-parts.ts";
import { mapIn, pairOf, remove, setText, textIn, valueIn } from "./yaml-edit.ts";

/** Rewrites the body of a `script` step. */
export function migrateScript(site: StepSite, migration: Migration): void {
  const { body } = site;
  keepOnly(body, ["file", "inline", "env", "timeout", "continueOnError"], site, migration);
  noteVariables(site, migration);
  for (const key of ["file", "inline"]) {
    const source = pairOf(body, key);
    const text = textIn(body, key) ?? "";
    if (source !== undefined && text === "") remove(body, source);
    else if (source !== undefined) setText(source, literalText(text));
  }
  translateMembers("env", { ...site, steps: true }, migration);
  moveDuration(body, "timeout");
  migrateTolerance(site, migration);
  noteFolder(site, migration);
}

function migrateTolerance(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  const isTrue = valueIn(body, "continueOnError") === true;
  if (isTrue && raw.phase === "setup") return tolerate(site, migration);
  remove(body, pairOf(body, "continueOnError"));
  // In cleanup a failure never counts.
  if (isTrue && raw.phase === "verify")
    migration.lose(
      site,
      "continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now",
    );
}

function noteFolder(site: StepSite, migration: Migration): void {
  const file = textIn(site.body, "file")?.replace(/^\.\//, "");
  if (file?.includes("/") !== true) return;
  migration.lose(site, "the script runs in the task's folder, no more in its own: mind relative paths in it");
}

function noteVariables({ body }: StepSite, migration: Migration): void {
  const file = textIn(body, "file");
  const script = textIn(body, "inline") ?? (file === undefined ? undefined : migration.read(file)) ?? "";
  const own = new Set(mapIn(body, "env")?.items.map((each) => String(each.key)));
  const { needed, optional } = shellVariables(script);
  for (const name of needed) if (!own.has(name)) migration.variables.add(name);
  for (const name of optional) if (!own.has(name)) migration.optional.add(name);
}
