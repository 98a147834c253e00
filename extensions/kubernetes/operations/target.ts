import { readFile, realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import {
  EnvironmentError,
  type Json,
  type JsonObject,
  OperationFailed,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { isObject, memberOf, objectsOf, shown, textOf } from "../kube/state.ts";
import { nameOf, type Target, targetOf } from "../kube/objects.ts";

const apiVersion = z.string().min(1).describe("Such as v1 or apps/v1.");
const kind = z.string().min(1).describe("Such as Pod or Deployment.");
const namespace = z.string().min(1).optional().describe("Default: the one of the kubeconfig's context.");

/** Fields that name a kind, and where to look for it. */
export const kindFields = { apiVersion: apiVersion.default("v1"), kind, namespace };

/** Fields that name one object. */
export const targetFields = { ...kindFields, name: z.string().min(1) };

/** Fields that name one object as a manifest does. */
export const manifestTargetFields = {
  apiVersion,
  kind,
  metadata: z.looseObject({ name: z.string().min(1), namespace: z.string().optional() }),
};

/** Fields that make anything a manifest of one object with a name; what else it has is kept. */
export const manifest = z.looseObject(manifestTargetFields);

/** Who the fields of a manifest mean. */
export function targetIn(fields: z.output<typeof manifest>): Target {
  const { apiVersion, kind, metadata } = fields;
  const { name, namespace } = metadata;
  return { apiVersion, kind, name, ...(namespace === undefined || namespace === "" ? {} : { namespace }) };
}

/** An object that was read, with who it is. */
export interface Found {
  readonly target: Target;
  readonly object: JsonObject;
}

/** Reads an object that must be there. Throws OperationFailed when it is not, and what reading throws. */
export async function readExisting(cluster: Cluster, wanted: Target, signal: AbortSignal): Promise<Found> {
  const target = await cluster.objects.resolve(wanted, signal);
  const object = await cluster.objects.read(target, signal);
  if (object === undefined) throw new OperationFailed(`${nameOf(target)} does not exist`);
  return { target, object };
}

/** What later steps may use of an object; all texts. */
export function outputsOf(object: JsonObject): Readonly<Record<string, string>> {
  const { name, namespace = "" } = targetOf(object);
  const text = (key: string): string => textOf(memberOf(object, "metadata", key)) ?? "";
  return { name, namespace, uid: text("uid"), resourceVersion: text("resourceVersion") };
}

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

/** A manifest, or those that a list has. Throws EnvironmentError for what is not a manifest of an object with a name. */
export function manifestsIn(value: Json, source: string): readonly JsonObject[] {
  if (!isObject(value)) throw new EnvironmentError(`${source} is not a manifest but ${shown(value)}`);
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
