import { readFile, realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { parseAllDocuments } from "yaml";
import { EnvironmentError, type Json, type JsonObject } from "../../../src/extension-sdk/index.ts";
import { isObject, objectsOf, shown, textOf } from "../kube/json.ts";
import { targetOf } from "../kube/objects.ts";

/** Reads a file of the task's folder. Throws EnvironmentError when it is outside or cannot be read. */
export async function readTaskFile(workdir: string, path: string): Promise<string> {
  const file = resolve(workdir, path);
  try {
    const inside = relative(await realpath(workdir), await realpath(file));
    if (inside !== ".." && !inside.startsWith(`..${sep}`) && !isAbsolute(inside))
      return await readFile(file, "utf8");
  } catch (cause) {
    throw new EnvironmentError(`the file ${file} cannot be read`, { cause });
  }
  throw new EnvironmentError(`the file ${path} is outside the task's folder ${workdir}`);
}

/** The manifests of a YAML text with any number of documents. Throws EnvironmentError for what is none. */
export function parseManifests(text: string, source: string): readonly JsonObject[] {
  return parseAllDocuments(text).flatMap((document, index) => {
    const [problem] = document.errors;
    if (problem !== undefined) {
      throw new EnvironmentError(`${source} is not valid YAML: ${problem.message}`, { cause: problem });
    }
    const value = document.toJS() as Json;
    return value === null ? [] : manifestsIn(value, `${source}, document ${index + 1}`);
  });
}

/** A manifest, or those that a list has. Throws EnvironmentError for what is no manifest of an object with a name. */
export function manifestsIn(value: Json, source: string): readonly JsonObject[] {
  if (!isObject(value)) throw new EnvironmentError(`${source} is no manifest but ${shown(value)}`);
  if (textOf(value["kind"])?.endsWith("List") === true && Array.isArray(value["items"])) {
    return objectsOf(value["items"]).flatMap((item, index) =>
      manifestsIn(item, `${source}, item ${index + 1}`),
    );
  }
  const { apiVersion, kind, name } = targetOf(value);
  const lacking = Object.entries({ apiVersion, kind, "metadata.name": name }).filter(
    ([, text]) => text === "",
  );
  if (lacking.length === 0) return [value];
  throw new EnvironmentError(`${source} lacks ${lacking.map(([key]) => key).join(", ")}`);
}
