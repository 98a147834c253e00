import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { GraderSettings, GraderTypes } from "../core/formats/graders.ts";
import type { ConfigDocument } from "./read/document.ts";

type GraderKinds = Readonly<Record<string, GraderSettings>>;

/** The types of graders, loaded only for documents that may declare some. */
export async function graderKindsFor(documents: readonly ConfigDocument[]): Promise<GraderKinds | undefined> {
  if (!documents.some(mentionsGraders)) return undefined;
  return (await import("../core/grade/kinds.ts")).graderKinds;
}

/** Without a text, as when a program made it, it may declare some. */
function mentionsGraders({ source }: ConfigDocument): boolean {
  return source?.text.includes("graders") !== false;
}

/** The types of graders for the files of a folder. */
export function graderTypesAt(dir: string, kinds: GraderKinds | undefined): GraderTypes | undefined {
  if (kinds === undefined) return undefined;
  const isFile = (path: string): boolean =>
    statSync(resolve(dir, path), { throwIfNoEntry: false })?.isFile() === true;
  return { types: kinds, dir, isFile };
}
