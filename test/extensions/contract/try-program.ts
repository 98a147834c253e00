import { readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { parse } from "yaml";
import { type ExtensionManifest, parseManifest } from "../../../src/extensions/manifest.ts";
import {
  type ContractOptions,
  type ContractReport,
  runContract,
} from "../../../src/extensions/contract/run-contract.ts";
import { folderOf, root } from "../../support/cli.ts";

export const correct = "test/fixtures/extensions/speak.mjs";

/** Tries a variant of the correct extension. */
export function tryVariant(
  name: string,
  options: Partial<ContractOptions> = {},
): Promise<ContractReport["verdicts"]> {
  return tryProgram(correct, { env: { PATH: process.env["PATH"] ?? "", VARIANT: name }, ...options });
}

/** Tries a program of this checkout in both protocols, or in one, in a folder of its own that has `files`. */
export async function tryProgram(
  program: string,
  { files = {}, ...more }: Partial<ContractOptions> & { readonly files?: Record<string, unknown> } = {},
): Promise<ContractReport["verdicts"]> {
  using folder = folderOf(files);
  const path = join(root, program);
  const python = extname(program) === ".py";
  const report = await runContract({
    command: python ? "python3" : process.execPath,
    args: [path],
    cwd: folder.path,
    env: { PATH: process.env["PATH"] ?? "", HOME: folder.path },
    protocols: ["json-rpc", "one-shot"],
    signal: AbortSignal.timeout(85_000),
    ...more,
  });
  return report.verdicts;
}

/** The `extension.yaml` beside a program of this checkout. */
export function manifestBeside(program: string): ExtensionManifest {
  const read = parseManifest(parse(readFileSync(join(root, dirname(program), "extension.yaml"), "utf8")));
  if (!read.ok) throw new Error(read.problems.map(({ message }) => message).join("; "));
  return read.manifest;
}

/** `PROTOCOL NAME: MESSAGE` of all verdicts with an outcome. */
export function told(verdicts: ContractReport["verdicts"], outcome: string): readonly string[] {
  return verdicts
    .filter((verdict) => verdict.outcome === outcome)
    .map(({ protocol, name, message }) => `${protocol} ${name}: ${message}`);
}
